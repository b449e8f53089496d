/** A fault that a cluster may have, with a name by which it can be selected, and what a person does about it. */
import type { Evidence } from "../verify/check.ts";
import type { ClusterSnapshot } from "../verify/clusterSnapshot.ts";
import type { KindName } from "../verify/readKinds.ts";

export interface AuditCheck {
  readonly name: string;
  /** What a finding means. */
  readonly meaning: string;
  /** How it comes about. */
  readonly cause: string;
  readonly cure: string;
  /** How long the components involved may need to resolve it: a finding that does not hold that long is none. */
  readonly settleMs: number;
  /** A kind that may not be listed makes the check unknown; a kind that the cluster does not serve is empty. */
  readonly needs: readonly KindName[];
  /** The faults in a snapshot, one for each object. Deterministic, and without a clock: the time is the snapshot's. */
  find(snapshot: ClusterSnapshot): readonly Evidence[];
}

const secondMs = 1_000;
const minuteMs = 60 * secondMs;

/** How long the components involved may need, as names. */
export const settle = {
  /** A controller that watches the objects. */
  controller: 15 * secondMs,
  /** Several controllers in a row, a rollout, a garbage collection. */
  chain: 60 * secondMs,
  /** A node agent that restarts: kubelet, device plugin, DRA driver. */
  agent: 120 * secondMs,
} as const;

/** Ages from which on an object counts as stuck. */
export const stuck = {
  /** A pod after its grace period. */
  terminatingMs: 5 * minuteMs,
  /** A pod without a node: autoscalers may need this long to add one. */
  unscheduledMs: 15 * minuteMs,
  /** A container that fails to start or crashes. */
  failingMs: 10 * minuteMs,
  /** A container whose image is pulled, or whose volumes are mounted. */
  startingMs: 30 * minuteMs,
  /** An object whose finalizers are not removed. */
  finalizerMs: 60 * minuteMs,
} as const;

/** The input and the result of a step of a pod's life. */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import type { Fault } from "../node/faults.ts";
import type { NodeState } from "../node/nodeState.ts";
import type { Next } from "../node/nodeWrite.ts";
import type { SimNode } from "../node/simNode.ts";
import type { Delays } from "./podPlan.ts";
import type { PodMemory } from "./podStatus.ts";

export interface PodLifeOptions {
  readonly clusterSeed: string;
  readonly delays: Delays;
  /** Whether readiness gates wait for their controller, or are set by the node as KWOK does. */
  readonly gates: "wait" | "satisfy";
  readonly events: "all" | "warnings" | "none";
  /** Ignore requests for extended resources that the node does not have at all, as a kubelet does; see `admitPod`. */
  readonly ignoreMissing?: boolean;
}

export interface PodInput {
  readonly pod: Pod;
  readonly node: Node;
  readonly sim: SimNode;
  /** The state of the node, from nextForNode. */
  readonly state: NodeState;
  readonly faults: readonly Fault[];
  /**
   * The pods bound to the node, this one included or not. They must include every acknowledged write of this process,
   * otherwise a device or an address is allocated twice.
   */
  readonly pods: () => Iterable<Pod>;
  /** Deleted pods whose containers still run, with their devices. */
  readonly orphans?: readonly OrphanedPod[];
  /**
   * Ids of GPUs and partitions that claims have, and the UID of the claim: the device plugin does not allocate them.
   */
  readonly claimedGpus?: () => ReadonlyMap<string, string>;
  /** False while claims of the pod are not prepared on the node. */
  readonly claimsPrepared?: boolean;
  readonly memory?: PodMemory;
  readonly options: PodLifeOptions;
  readonly nowMs: number;
}

/** `wakeAtMs` is computed for the state after the writes. */
export interface PodNext extends Next<Pod> {
  /** The memory to pass to the next step. */
  readonly memory: PodMemory;
  /** 1 when the node refused the pod in this step; scheduler tests expect a sum of zero. */
  readonly refusals: number;
}

/** A pod whose object is deleted while the node still runs its containers. */
export interface OrphanedPod {
  readonly podUid: string;
  /** Its last state: its claims stay prepared. */
  readonly pod: Pod;
  readonly devices: readonly string[];
  readonly untilMs: number;
}

/** What a step of a pod's life is computed from, and what comes of it. */
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
  readonly ignoreMissing?: boolean;
}

export interface PodInput {
  readonly pod: Pod;
  readonly node: Node;
  readonly sim: SimNode;
  /** From nextForNode: what the node is capable of now. */
  readonly state: NodeState;
  readonly faults: readonly Fault[];
  /**
   * The pods bound to the node, this one included or not. It must show every acknowledged write of ours, or a device or
   * an address is allocated twice.
   */
  readonly pods: () => Iterable<Pod>;
  /** Devices whose pods are gone from the API while their processes still run. */
  readonly ghosts?: readonly Ghost[];
  /** Ids of GPUs and partitions that claims have, and the UID of the claim: the device plugin does not give them. */
  readonly claimedGpus?: () => ReadonlyMap<string, string>;
  /** False while claims of the pod are not prepared on the node. */
  readonly claimsPrepared?: boolean;
  readonly memory?: PodMemory;
  readonly options: PodLifeOptions;
  readonly nowMs: number;
}

export interface PodNext extends Next<Pod> {
  /** `wakeAtMs` holds for the state that the writes make: unless it is now, nothing is due right after them. */
  /** To be handed in next time. */
  readonly memory: PodMemory;
  /** 1 when the node refused the pod in this step; scheduler tests want the sum at zero. */
  readonly refusals: number;
}

/** A pod that the API has forgotten and the node has not. */
export interface Ghost {
  readonly podUid: string;
  /** Its last state: what it claimed stays prepared for it. */
  readonly pod: Pod;
  readonly devices: readonly string[];
  readonly untilMs: number;
}

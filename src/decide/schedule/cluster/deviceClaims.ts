import type { ClaimProblem } from "../../devices/claimTrial.ts";
import type { RefusalReason } from "../../devices/refusalReason.ts";
import type { NodeState } from "./nodeState.ts";
import type { Task } from "./task.ts";

/**
 * The interface to the device allocator. The scheduler asks about pods that have claims and reports what it tries;
 * everything reported after `checkpoint` is undone by `rollback`.
 */
export interface DeviceClaims {
  /** A cycle begins: everything tried before is forgotten, and devices of these pods will be free soon. */
  begin(nowMs: number, releasing: Iterable<Task>): void;
  /** How many GPUs the pod's claims count for in its queue. */
  gpusOf(task: Task): number;
  /** The same by device class. */
  gpuClassesOf(task: Task): ReadonlyMap<string, number>;
  /** Why no node can satisfy the claims as they are (one is missing, or being deleted), or undefined. */
  problemOf(task: Task): ClaimProblem | undefined;
  /** Devices on this node for all claims of the pod, given what was assumed before; or why there are none. */
  fit(task: Task, node: NodeState): DeviceFit;
  /** The pod gets this node and these devices; they are taken from now on. */
  assume(task: Task, node: NodeState, fit: DeviceFit & { ok: true }): void;
  /** The pod is evicted: its devices will be free. */
  release(task: Task): void;
  checkpoint(): number;
  rollback(checkpoint: number): void;
  /**
   * GPUs of the node that claims have, as amounts of what its device plugin offers; undefined where it offers none of
   * them.
   */
  unitsOn(node: NodeState): ClaimedUnits | undefined;
}

/** What claims have of a node that offers its GPUs both ways: by name of the plugin's resource. */
export interface ClaimedUnits {
  readonly now: ReadonlyMap<string, number>;
  /** When what is being released is free. */
  readonly later: ReadonlyMap<string, number>;
  /** A device was chosen, and its node cannot know yet: it might give the same GPU to a pod by its plugin. */
  readonly isUnwritten: boolean;
  /** GPUs of pods that are not in queues. */
  readonly foreignGpus: number;
}

/** KAI's words for it in a BindRequest. */
export interface ExtendedFit {
  readonly allocation: unknown;
  readonly deviceRequests: readonly unknown[];
  readonly containerMappings: readonly unknown[];
}

/** Claims of a PodGroup: reserved for the group once, and not for each of its pods. */
export interface GroupClaims {
  readonly uid: string;
  readonly name: string;
  readonly entries: readonly string[];
}

export type DeviceFit =
  | {
      readonly ok: true;
      /** For the BindRequest: by the name of the claim in the pod, an AllocationResult. */
      readonly allocations: readonly { readonly name: string; readonly allocation: unknown }[];
      /** The same for the claim that the pod gets for extended resources that devices serve. */
      readonly extended?: ExtendedFit;
      /** The PodGroup that claims are reserved for, and the entries of those claims. */
      readonly groupClaims?: GroupClaims;
      /** How far below the first alternatives of its requests the chosen ones are; 0 is the best there is. */
      readonly rank: number;
      /** What the devices that were found just now are of the plugin's resources. */
      readonly units: ReadonlyMap<string, number>;
      /** False: one of the devices has to be released first. */
      readonly isNow: boolean;
      /** Only the report of a pod's GPU is missing: the node writes it in moments, and no pod is evicted for that. */
      readonly lacksOnlyName: boolean;
    }
  | { readonly ok: false; readonly why: string; readonly reason: RefusalReason };

/** No device allocator: pods with claims wait, and their condition says so. */
export const noDeviceClaims: DeviceClaims = {
  begin: () => {},
  gpusOf: () => 0,
  gpuClassesOf: () => new Map(),
  problemOf: () => ({ why: "nothing here allocates devices for resource claims", reason: "Error" }),
  fit: () => ({ ok: false, why: "nothing here allocates devices for resource claims", reason: "Error" }),
  assume: () => {},
  release: () => {},
  checkpoint: () => 0,
  rollback: () => {},
  unitsOn: () => undefined,
};

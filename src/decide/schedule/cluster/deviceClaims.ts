import type { ClaimProblem } from "../../devices/claimTrial.ts";
import type { RefusalReason } from "../../devices/refusalReason.ts";
import type { NodeState } from "./nodeState.ts";
import type { Task } from "./task.ts";

/**
 * The interface to the device allocator. The scheduler calls it for pods with claims, and reports the placements that
 * it tries; `rollback` undoes everything that was reported after `checkpoint`.
 */
export interface DeviceClaims {
  /** A cycle begins: earlier trials are discarded, and devices of these terminating pods will be free. */
  begin(nowMs: number, releasing: Iterable<Task>): void;
  /** How many GPUs the pod's claims count for in its queue. */
  gpusOf(task: Task): number;
  /** The same by device class. */
  gpuClassesOf(task: Task): ReadonlyMap<string, number>;
  /** Why no node can satisfy the claims (one does not exist, or is being deleted), or undefined. */
  problemOf(task: Task): ClaimProblem | undefined;
  /** Devices on this node for all claims of the pod, given what was assumed before; or why there are none. */
  fit(task: Task, node: NodeState): DeviceFit;
  /** The pod is placed on this node with these devices; they are in use from now on. */
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

/** GPUs of a node that are allocated to claims, where its device plugin offers them too, by the plugin's resource. */
export interface ClaimedUnits {
  readonly now: ReadonlyMap<string, number>;
  /** The same after terminating pods have released theirs. */
  readonly later: ReadonlyMap<string, number>;
  /**
   * A GPU is chosen for a pod that is not bound yet. The node does not know of it: its plugin might allocate the same
   * GPU to a pod.
   */
  readonly isPending: boolean;
  /** GPUs of pods that are not in queues. */
  readonly foreignGpus: number;
}

/** `extendedResourceClaimAllocation` of a BindRequest, as KAI defines it. */
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
      /** The rank of the chosen alternatives (`firstAvailable`) of its requests; 0 is the first one of each. */
      readonly rank: number;
      /** The newly chosen devices as amounts of the device plugin's resources. */
      readonly units: ReadonlyMap<string, number>;
      /** False: one of the devices has to be released first. */
      readonly isNow: boolean;
      /** Only the report of a pod's GPU is missing: the node writes it soon, and no pod is evicted for that. */
      readonly lacksOnlyName: boolean;
    }
  | { readonly ok: false; readonly why: string; readonly reason: RefusalReason };

/** No device allocator: pods with claims stay pending, and their condition gives this reason. */
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

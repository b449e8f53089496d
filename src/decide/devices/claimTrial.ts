/**
 * Devices for a caller that tries many placements before one of them is written: a scheduler that plans gangs and
 * evictions.
 *
 *   const view: DeviceView = { sliceIndex, state, claimOf, pendingAllocation, classOf, selectors, features, nowMs };
 *   fitClaims(view, pod, node): ClaimsFit                    one pod on one node, in the current state
 *
 *   const trial = new ClaimTrial(view);                      the same, with earlier trials applied
 *   trial.problemOf(pod): ClaimProblem | undefined           why no node can serve the pod
 *   trial.fit(pod, node): ClaimsFit                          allocations by entry of the pod, or why there are none
 *   trial.assume(pod, fit)                                   allocated from now on; later pods may join the same claims
 *   trial.release(pod)                                       devices that only this pod uses are free from now on
 *   trial.checkpoint(): number, trial.rollback(checkpoint)   undoes everything after the checkpoint, last first
 *   trial.devicesOf(pod, isCounted): number                  devices of such classes that its claims have or request
 *
 * Nothing here writes, waits or changes what the view shows. Of a process that has a `DeviceCaches`
 * (`deviceCachesOf(controllers)`) the view is `caches.view(nowMs)`: its state is the claim tracker, which counts
 * in-flight writes too. A decision that another component writes counts for every reader from
 * `tracker.signalClaimPendingAllocation(claim with allocation, pod UID)` until
 * `tracker.removeClaimPendingAllocation(claim UID, pod UID)`; `nextBindStep` (bindClaim.ts) is how such a decision gets
 * into its claim: finalizer first, then allocation and reservation in one write.
 */
import type {
  AllocationResult,
  DeviceClass,
  Node,
  Pod,
  PodGroup,
  ResourceClaim,
} from "../../model/kubernetes.generated.ts";
import {
  claimsHeldBy,
  createdExtendedClaim,
  extendedClaimOn,
  type NodeSplit,
  splitOn,
} from "./claims/extendedClaim.ts";
import { claimsOfPod, type GetClaim, type PodClaim } from "./claims/podClaims.ts";
import type { PodsGroup } from "./claims/podsGroup.ts";
import { bestScoreOf, filterNode, type Prepared, prepareClaims } from "./placeClaims.ts";
import type { RefusalReason } from "./refusalReason.ts";
import type { AllocatedState, CountedState } from "./search/allocatedState.ts";
import { type DeviceUse, sumOf, usesOf } from "./search/deviceUse.ts";
import type { DeviceFeatures } from "./search/features.ts";
import { FullNodes } from "./search/fullNodes.ts";
import type { SliceIndex } from "./search/pools.ts";
import type { SelectorCache } from "./search/selectors.ts";

export interface DeviceView {
  /** The slices, with the taints of rules. */
  readonly sliceIndex: SliceIndex;
  /** Allocated devices, in-flight writes included. */
  readonly state: CountedState;
  readonly claimOf: GetClaim;
  /** The decision about a claim that is not written yet, by its UID. */
  readonly pendingAllocation: (claimUid: string) => AllocationResult | undefined;
  readonly classOf: (name: string) => DeviceClass | undefined;
  /** The pod's PodGroup; left out where groups have no claims. */
  readonly groupOf?: (pod: Pod) => PodsGroup;
  /** The class of an extended resource; left out where extended resources are not served by claims. */
  readonly classFor?: (resource: string) => DeviceClass | undefined;
  readonly selectors: SelectorCache;
  readonly features: DeviceFeatures;
  readonly nowMs: number;
  /** Devices that were decided on, and that no claim of the API has yet. */
  readonly unwritten?: () => Iterable<string>;
}

export type ClaimsFit =
  | {
      readonly ok: true;
      readonly claims: readonly FittedClaim[];
      /** The extended resources that the pod gets from devices of the node; their claim is among the others. */
      readonly split: NodeSplit | undefined;
      /** How far below the first alternatives of its requests the chosen ones are; 0 is the best there is. */
      readonly rank: number;
    }
  | {
      readonly ok: false;
      readonly why: string;
      readonly reason: RefusalReason;
      /** The same on every node: a claim is missing or terminating, a class does not exist, a selector is invalid. */
      readonly isEverywhere: boolean;
    };

export interface FittedClaim {
  /** Name of the entry in the pod. */
  readonly entry: string;
  readonly claim: ResourceClaim;
  readonly allocation: AllocationResult;
  /** The allocation is new; otherwise the claim has it already, or shares the one of another pod. */
  readonly isNew: boolean;
  /** The group that the claim is for. */
  readonly group?: PodGroup;
}

/** The API's limit of a claim's reservations. */
const consumersMax = 256;

export function fitClaims(view: DeviceView, pod: Pod, node: Node): ClaimsFit {
  return new ClaimTrial(view).fit(pod, node);
}

/** Why no node can serve a pod's claims as they are. */
export interface ClaimProblem {
  readonly why: string;
  readonly reason: RefusalReason;
  /** How to correct it, where the reason alone does not say that. */
  readonly cure?: string;
}

interface PodPlan {
  readonly version: number;
  readonly plan: Prepared | { readonly kind: "unready"; readonly why: string };
}

export class ClaimTrial implements CountedState {
  private readonly view: DeviceView;
  private readonly full: FullNodes;
  private readonly undo: (() => void)[] = [];
  /** Allocations that this trial found, by claim UID, with the pods that they are for. */
  private readonly found = new Map<string, { readonly allocation: AllocationResult; readonly pods: Set<string> }>();
  private readonly released = new Set<string>();
  /** Claims whose last user was released. */
  private readonly freed = new Set<string>();
  /** Devices that the trial has allocated (+1) or freed (-1) relative to the view, by the key of the device. */
  private readonly wholes = new Map<string, number>();
  private readonly shares = new Map<string, number>();
  private readonly amounts = new Map<string, Map<string, bigint>>();
  /** Changes with every trial, so that results that were computed for a pod are not reused after it. */
  private version = 0;
  private readonly plans = new Map<string, PodPlan>();

  private readonly onDevice: (device: string) => void;

  /** `onDevice` is called with each device that is tried, freed, or rolled back. */
  constructor(view: DeviceView, onDevice: (device: string) => void = () => {}) {
    this.onDevice = onDevice;
    this.view = view;
    this.full = new FullNodes(view.sliceIndex, this);
  }

  problemOf(pod: Pod): ClaimProblem | undefined {
    const plan = this.planOf(pod, undefined);
    return plan.kind === "ready" || plan.kind === "skip" ? undefined : { why: plan.why, reason: reasonOf(plan) };
  }

  /** `isHeld`: devices that a pod holds without a claim. */
  fit(pod: Pod, node: Node, isHeld?: (device: string) => boolean): ClaimsFit {
    const split = this.splitOn(pod, node);
    const plan = this.planOf(pod, split);
    if (plan.kind === "skip") return { ok: true, claims: [], split: undefined, rank: 0 };
    if (plan.kind !== "ready") return { ok: false, why: plan.why, reason: reasonOf(plan), isEverywhere: true };
    const { sliceIndex, features, nowMs } = this.view;
    const { needs } = plan;
    const verdict = filterNode(needs, node, {
      sliceIndex,
      features,
      nowMs,
      state: this.withHeld(isHeld),
      full: this.full,
    });
    if (verdict.kind !== "fits") {
      return { ok: false, why: verdict.why, reason: reasonOf(verdict), isEverywhere: verdict.kind === "error" };
    }
    const claims = needs.claims.map(({ entry, claim, group }): FittedClaim => {
      const { uid } = claim.metadata;
      const allocation = verdict.allocations.get(uid) as AllocationResult;
      return { entry, claim, allocation, isNew: !needs.placed.has(uid), ...(group !== undefined && { group }) };
    });
    return { ok: true, claims, split, rank: bestScoreOf(needs) - verdict.score };
  }

  assume(pod: Pod, fit: ClaimsFit & { ok: true }): void {
    const { uid: podUid } = pod.metadata;
    for (const { claim, allocation, isNew } of fit.claims) {
      const { uid } = claim.metadata;
      const known = this.found.get(uid);
      if (known !== undefined) {
        if (known.pods.has(podUid)) continue;
        known.pods.add(podUid);
        this.undo.push(() => void known.pods.delete(podUid));
        continue;
      }
      this.found.set(uid, { allocation, pods: new Set([podUid]) });
      this.undo.push(() => void this.found.delete(uid));
      if (isNew) this.count(withAllocation(claim, allocation), 1);
    }
    this.version++;
  }

  release(pod: Pod): void {
    this.releaseClaims(
      pod.metadata.uid,
      this.claimsOf(pod).map(({ claim }) => claim),
    );
  }

  /** The same for a pod of which only the claims are known. */
  releaseClaims(podUid: string, claims: readonly ResourceClaim[]): void {
    if (this.released.has(podUid)) return;
    this.released.add(podUid);
    this.undo.push(() => void this.released.delete(podUid));
    for (const claim of claims) {
      const { uid } = claim.metadata;
      if (this.freed.has(uid) || this.isUsed(claim)) continue;
      const allocation = this.allocationOf(claim);
      if (allocation === undefined) continue;
      this.freed.add(uid);
      this.undo.push(() => void this.freed.delete(uid));
      this.count(withAllocation(claim, allocation), -1);
    }
    this.version++;
  }

  checkpoint(): number {
    return this.undo.length;
  }

  rollback(checkpoint: number): void {
    if (this.undo.length > checkpoint) this.version++;
    while (this.undo.length > checkpoint) this.undo.pop()?.();
  }

  /** Devices that its claims have, or request at least: mode All counts for none before the allocation. */
  devicesOf(pod: Pod, isCounted: (deviceClass: string) => boolean): number {
    let count = 0;
    for (const { claim } of this.claimsOf(pod)) {
      const allocation = this.allocationOf(claim);
      for (const request of claim.spec.devices?.requests ?? []) {
        const options = request.exactly === undefined ? (request.firstAvailable ?? []) : [request.exactly];
        if (allocation === undefined) {
          const wanted = options.map((each) => (isCounted(each.deviceClassName) ? (each.count ?? 0) : 0));
          if (options.length > 0) count += Math.min(...wanted);
          continue;
        }
        for (const result of allocation.devices?.results ?? []) {
          if (result.adminAccess === true) continue;
          const [name, sub] = result.request.split("/");
          if (name !== request.name) continue;
          const used = sub === undefined ? request.exactly : request.firstAvailable?.find((each) => each.name === sub);
          if (used !== undefined && isCounted(used.deviceClassName)) count++;
        }
      }
    }
    return count;
  }

  isTaken(device: string): boolean {
    return (this.view.state.isTaken(device) ? 1 : 0) + (this.wholes.get(device) ?? 0) > 0;
  }

  private withHeld(isHeld: ((device: string) => boolean) | undefined): AllocatedState {
    if (isHeld === undefined) return this;
    return {
      isTaken: (device) => isHeld(device) || this.isTaken(device),
      isShared: (device) => this.isShared(device),
      consumed: (device) => this.consumed(device),
    };
  }

  isShared(device: string): boolean {
    return this.shareCount(device) > 0;
  }

  shareCount(device: string): number {
    return this.view.state.shareCount(device) + (this.shares.get(device) ?? 0);
  }

  consumed(device: string): ReadonlyMap<string, bigint> | undefined {
    const changes = this.amounts.get(device);
    const before = this.view.state.consumed(device);
    if (changes === undefined) return before;
    const sums = new Map(before);
    for (const [name, amount] of changes) sums.set(name, (sums.get(name) ?? 0n) + amount);
    return sums;
  }

  /** Undefined where the pod's extended resources, if any, are not served by claims there. */
  private splitOn(pod: Pod, node: Node): NodeSplit | undefined {
    const { classFor } = this.view;
    const split = classFor === undefined ? undefined : splitOn(pod, node, classFor);
    return split === undefined || split.requests.length === 0 ? undefined : split;
  }

  private planOf(pod: Pod, split: NodeSplit | undefined): PodPlan["plan"] {
    const key = `${pod.metadata.uid} ${split?.key ?? ""}`;
    const known = this.plans.get(key);
    if (known?.version === this.version) return known.plan;
    const plan = this.preparePlan(pod, split);
    this.plans.set(key, { version: this.version, plan });
    return plan;
  }

  private preparePlan(pod: Pod, split: NodeSplit | undefined): PodPlan["plan"] {
    const own = claimsOfPod(pod, this.view.claimOf, this.view.groupOf?.(pod));
    if (!own.ok) return { kind: "unready", why: own.why };
    const special = split && extendedClaimOn(pod, split, createdExtendedClaim(pod, this.view.claimOf));
    if (special?.claim.metadata.deletionTimestamp !== undefined) {
      return { kind: "unready", why: `ResourceClaim ${special.claim.metadata.name} is being deleted` };
    }
    const claims = special === undefined ? own.claims : [...own.claims, special];
    const given = claims.find(({ claim }) => this.freed.has(claim.metadata.uid));
    if (given !== undefined) {
      return { kind: "unready", why: `resourceclaim ${given.claim.metadata.name} is about to be deallocated` };
    }
    const crowded = claims.find((each) => this.isCrowded(each, pod));
    if (crowded !== undefined) {
      const why = `ResourceClaim ${crowded.claim.metadata.name} is reserved for ${consumersMax} consumers, the most that a claim can have`;
      return { kind: "unready", why };
    }
    const { classOf, selectors, features } = this.view;
    return prepareClaims({
      pod,
      claims,
      classOf,
      selectors,
      features,
      pendingAllocation: (uid) => this.found.get(uid)?.allocation ?? this.view.pendingAllocation(uid),
      mayJoin: (uid) => this.found.has(uid),
    });
  }

  /**
   * Whether the API would refuse to reserve the claim for one more pod. A pod that is released counts until its
   * reservation is removed.
   */
  private isCrowded({ claim, group }: PodClaim, { metadata: { uid } }: Pod): boolean {
    // A group has one reservation for all of its pods.
    if (group !== undefined) return false;
    const consumers = new Set((claim.status?.reservedFor ?? []).map((each) => each.uid));
    for (const each of this.found.get(claim.metadata.uid)?.pods ?? []) consumers.add(each);
    return !consumers.has(uid) && consumers.size >= consumersMax;
  }

  /** Terminating claims included: they hold their devices until they are deleted. */
  private claimsOf(pod: Pod): readonly PodClaim[] {
    return claimsHeldBy(pod, this.view.claimOf);
  }

  private allocationOf({ metadata, status }: ResourceClaim): AllocationResult | undefined {
    const { uid } = metadata;
    return status?.allocation ?? this.found.get(uid)?.allocation ?? this.view.pendingAllocation(uid);
  }

  /** Whether a pod that is not released uses the claim. */
  private isUsed({ metadata, status }: ResourceClaim): boolean {
    const users = [...(status?.reservedFor ?? []).map(({ uid }) => uid), ...(this.found.get(metadata.uid)?.pods ?? [])];
    return users.some((uid) => !this.released.has(uid));
  }

  private count(claim: ResourceClaim, by: 1 | -1): void {
    for (const use of usesOf(claim)) this.countUse(use, by);
  }

  private countUse(use: DeviceUse, by: 1 | -1): void {
    this.add(use, by);
    this.undo.push(() => this.add(use, by === 1 ? -1 : 1));
  }

  private add({ device, shareId, consumed }: DeviceUse, by: 1 | -1): void {
    const counts = shareId === undefined ? this.wholes : this.shares;
    counts.set(device, (counts.get(device) ?? 0) + by);
    for (const [name, amount] of sumOf([{ consumed }])) {
      const changes = this.amounts.get(device) ?? new Map<string, bigint>();
      this.amounts.set(device, changes);
      changes.set(name, (changes.get(name) ?? 0n) + BigInt(by) * amount);
    }
    this.full.changed(device);
    this.onDevice(device);
  }
}

function reasonOf(
  verdict: { readonly kind: "unready" | "error" } | { readonly kind: "unschedulable"; readonly reason: RefusalReason },
): RefusalReason {
  if (verdict.kind === "unschedulable") return verdict.reason;
  return verdict.kind === "error" ? "Error" : "NotReady";
}

function withAllocation(claim: ResourceClaim, allocation: AllocationResult): ResourceClaim {
  return { ...claim, status: { ...claim.status, allocation } };
}

import type {
  DeviceSubRequest,
  ExactDeviceRequest,
  Pod,
  ResourceClaim,
  ResourceSlice,
} from "../../../model/kubernetes.generated.ts";
import { labelKeys } from "../../../model/scheduling/keys.ts";
import { claimsHeldBy, extendedEntry, splitOn } from "../../devices/claims/extendedClaim.ts";
import { extendedRequests, mappedResources } from "../../devices/claims/extendedResources.ts";
import { isFinished, isOwnedBy, type PodClaim } from "../../devices/claims/podClaims.ts";
import { type ClaimProblem, type ClaimsFit, ClaimTrial, type DeviceView } from "../../devices/claimTrial.ts";
import { gpuResource, isUnreported, reportedGpus, unpublishedGpus } from "../../devices/physicalGpus.ts";
import { type DeviceUse, usesOf } from "../../devices/search/deviceUse.ts";
import type { ClaimedUnits, DeviceClaims, DeviceFit, ExtendedFit, GroupClaims } from "./deviceClaims.ts";
import type { Holding, NodeState } from "./nodeState.ts";
import { gpuMaker } from "./resources.ts";
import type { Task } from "./task.ts";

export interface ClaimFacts {
  /** Allocated, published and assumed devices. */
  readonly view: (nowMs: number) => DeviceView;
  /** The pods that name a claim. */
  readonly usersOf: (claim: ResourceClaim) => Iterable<Pod>;
  /** Claims that are reserved for pods that are gone or have ended, by the pod's UID. */
  readonly departedPods?: () => Iterable<readonly [string, readonly ResourceClaim[]]>;
  /** Called for each device that is tried, freed, or rolled back. */
  readonly onDevice?: (device: string) => void;
}

type Fitted = DeviceFit & { readonly ok: true; readonly fit: ClaimsFit & { ok: true } };

/** Allocates devices for pods with claims, by the search and the tracker that every allocator of the process uses. */
export class ClaimDevices implements DeviceClaims {
  private readonly facts: ClaimFacts;
  private view: DeviceView;
  private trial: ClaimTrial;
  /** Devices that are being released, as far as this cycle knows. */
  private leaving = new Set<string>();
  /** Devices that were decided on before this cycle, and that no claim of the API has yet. */
  private unwritten: ReadonlySet<string> = new Set();

  constructor(facts: ClaimFacts) {
    this.facts = facts;
    this.view = facts.view(0);
    this.trial = new ClaimTrial(this.view);
  }

  begin(nowMs: number, releasing: Iterable<Task>): void {
    this.view = this.facts.view(nowMs);
    const wereLeaving = this.leaving;
    this.leaving = new Set();
    let isBegun = false;
    this.trial = new ClaimTrial(this.view, (device) => {
      if (!isBegun) this.leaving.add(device);
      this.facts.onDevice?.(device);
    });
    const before = this.unwritten;
    this.unwritten = new Set(this.view.unwritten?.() ?? []);
    for (const device of before) if (!this.unwritten.has(device)) this.facts.onDevice?.(device);
    for (const device of this.unwritten) if (!before.has(device)) this.facts.onDevice?.(device);
    for (const { pod } of releasing) this.trial.release(pod);
    // Claims of deleted pods keep their devices until they are deallocated. Pods that wait for these devices must not
    // cause further evictions.
    for (const [uid, claims] of this.facts.departedPods?.() ?? []) this.trial.releaseClaims(uid, claims);
    isBegun = true;
    for (const device of wereLeaving) if (!this.leaving.has(device)) this.facts.onDevice?.(device);
  }

  gpusOf(task: Task): number {
    return sumOf(this.gpuClassesOf(task));
  }

  /** A claim that several pods use counts once: for the first of them. */
  gpuClassesOf(task: Task): ReadonlyMap<string, number> {
    const classes = this.extendedClassesOf(task);
    for (const { entry, claim } of this.claimsOf(task.pod)) {
      if (entry === extendedEntry || !this.isCountedFor(claim, task.pod)) continue;
      for (const [name, gpus] of gpuClassesOfClaim(claim)) addTo(classes, name, gpus);
    }
    return classes;
  }

  /**
   * GPUs that the pod requests as an extended resource of another name, where devices serve that resource. Requests for
   * `nvidia.com/gpu` and `amd.com/gpu` count already.
   */
  private extendedClassesOf({ pod, holdings }: Task): Map<string, number> {
    const classes = new Map<string, number>();
    const { classFor } = this.view;
    if (classFor === undefined) return classes;
    const node = holdings.at(-1)?.node.node;
    const served = node === undefined ? mappedResources(pod, classFor) : [...splitOn(pod, node, classFor).byClaims];
    const others = served.filter((resource) => gpuMaker(resource) === 0);
    for (const { exactly } of others.length === 0 ? [] : extendedRequests(pod, others, classFor).requests) {
      if (exactly !== undefined) addTo(classes, exactly.deviceClassName, askedGpus(exactly));
    }
    return classes;
  }

  problemOf(task: Task): ClaimProblem | undefined {
    const problem = this.trial.problemOf(task.pod);
    if (problem !== undefined) return problem;
    const queue = task.job?.isGroup === true ? task.job.queueName : undefined;
    for (const { claim } of this.claimsOf(task.pod)) {
      // Pods share a GPU within one queue only; otherwise its usage could not be charged to a queue.
      if (queue === undefined || isOwnedBy(claim, task.pod) || gpuClassesOfClaim(claim).size === 0) continue;
      const { name, labels } = claim.metadata;
      if (labels?.[labelKeys.queue] === queue) continue;
      const why = `ResourceClaim ${name} has no label ${labelKeys.queue}: ${queue}, which a claim of GPUs that several pods may share needs`;
      return { why, reason: "BadRequest", cure: `add the label ${labelKeys.queue}: ${queue} to ResourceClaim ${name}` };
    }
    return undefined;
  }

  fit({ pod }: Task, state: NodeState): DeviceFit {
    const { node, gpus } = state;
    if (node === undefined) return { ok: false, why: "the node was deleted", reason: "NotOnNode" };
    const held = gpus === undefined ? nothingHeld : heldByPlugin(state);
    const isHeld = held.later.size === 0 ? undefined : (device: string) => gpus?.isAmong(device, held.later) === true;
    const fit = this.trial.fit(pod, node, isHeld);
    if (!fit.ok) return { ok: false, why: fit.why, reason: fit.reason };
    const chosen = newDevicesOf(fit);
    const units = gpus?.unitsOf(chosen) ?? noUnits;
    // The device plugin chooses the GPU of that pod, and the pod does not report it before it runs: it may be any GPU.
    if (units.size > 0 && held.unreported !== undefined) {
      const why = `have a GPU for pod ${held.unreported} and have not reported which`;
      return { ok: false, why, reason: "NoDevices" };
    }
    const isFree =
      this.unwrittenIn(fit).every(({ device }) => gpus?.isAmong(device, held.now) !== true) && this.isNow(fit);
    // A terminating pod holds its GPU until it is deleted, and that may be any GPU as well.
    const leaving = units.size > 0 ? held.leaving : "named";
    const named = fit.claims.filter(({ entry }) => entry !== extendedEntry);
    const allocations = named.map(({ entry, allocation }) => ({ name: entry, allocation }));
    const extended = extendedOf(fit);
    const groupClaims = groupClaimsOf(fit);
    const fitted: Fitted = {
      ok: true,
      allocations,
      ...(extended !== undefined && { extended }),
      ...(groupClaims !== undefined && { groupClaims }),
      rank: fit.rank,
      units,
      isNow: isFree && leaving === "named",
      lacksOnlyName: isFree && leaving === "victim",
      fit,
    };
    return fitted;
  }

  assume({ pod }: Task, _node: NodeState, fit: DeviceFit & { ok: true }): void {
    this.trial.assume(pod, (fit as Fitted).fit);
  }

  release({ pod }: Task): void {
    this.trial.release(pod);
  }

  checkpoint(): number {
    return this.trial.checkpoint();
  }

  rollback(checkpoint: number): void {
    this.trial.rollback(checkpoint);
  }

  unitsOn({ node, gpus, holdings }: NodeState): ClaimedUnits | undefined {
    const tasks: Task[] = [];
    for (const { holder } of holdings) if (holder.shape.hasDeviceClaims) tasks.push(holder as Task);
    const unpublished =
      node === undefined || tasks.length === 0 ? 0 : unpublishedGpus(node, this.allocatedTo(tasks), gpus);
    if (gpus?.isBothWays !== true && unpublished === 0) return undefined;
    const { state } = this.view;
    const now: string[] = [];
    const later: string[] = [];
    let isPending = false;
    for (const device of gpus?.keys() ?? []) {
      const isTaken = this.trial.isTaken(device) || this.trial.shareCount(device) > 0;
      const wasTaken = state.isTaken(device) || state.shareCount(device) > 0;
      if (isTaken) later.push(device);
      if (isTaken || wasTaken) now.push(device);
      isPending ||= this.unwritten.has(device) || (isTaken && !wasTaken);
    }
    const unitsOf = (devices: readonly string[]): Map<string, number> => {
      const units = gpus?.unitsOf(devices) ?? new Map<string, number>();
      return unpublished === 0 ? units : units.set(gpuResource, (units.get(gpuResource) ?? 0) + unpublished);
    };
    const units = unitsOf(now);
    let foreignGpus = units.get(gpuResource) ?? 0;
    for (const task of tasks) {
      const held = this.gpusOf(task);
      isPending ||= held > 0 && (task.pod.spec?.nodeName ?? "") === "";
      if (!task.isForeign) foreignGpus -= held;
    }
    return { now: units, later: unitsOf(later), isPending, foreignGpus: Math.max(0, foreignGpus) };
  }

  /** Their claims, with allocations that are decided and not written yet. */
  private *allocatedTo(tasks: readonly Task[]): Iterable<ResourceClaim> {
    const { pendingAllocation } = this.view;
    for (const { pod } of tasks) {
      for (const { claim } of this.claimsOf(pod)) {
        const pending = claim.status?.allocation === undefined ? pendingAllocation(claim.metadata.uid) : undefined;
        yield pending === undefined ? claim : { ...claim, status: { ...claim.status, allocation: pending } };
      }
    }
  }

  /** A device that is free only in the trial is held by a pod that has not terminated yet. */
  private isNow(fit: ClaimsFit & { ok: true }): boolean {
    const { state } = this.view;
    return this.unwrittenIn(fit).every(({ device, shareId }) => {
      if (shareId === undefined) return !state.isTaken(device);
      // For a device that several claims can share the trial does not say which claim has which capacity.
      return state.shareCount(device) <= this.trial.shareCount(device);
    });
  }

  /** What this cycle has chosen for the claims, for this pod or for one that shares a claim with it. */
  private unwrittenIn({ claims }: ClaimsFit & { ok: true }): readonly DeviceUse[] {
    const { pendingAllocation } = this.view;
    return claims.flatMap(({ claim, allocation }) => {
      const isDecided = claim.status?.allocation !== undefined || pendingAllocation(claim.metadata.uid) !== undefined;
      return isDecided ? [] : usesOf({ ...claim, status: { ...claim.status, allocation } });
    });
  }

  private isCountedFor(claim: ResourceClaim, pod: Pod): boolean {
    if (isOwnedBy(claim, pod)) return true;
    for (const user of this.facts.usersOf(claim)) {
      if (user.metadata.uid < pod.metadata.uid && !isFinished(user)) return false;
    }
    return true;
  }

  private claimsOf(pod: Pod): readonly PodClaim[] {
    return claimsHeldBy(pod, this.view.claimOf);
  }
}

/** Ids of the GPUs that pods of a node have from the device plugin, and not by a claim. */
interface PluginHeld {
  readonly now: ReadonlySet<string>;
  readonly later: ReadonlySet<string>;
  /** A pod that keeps its GPU and has not reported which one. */
  readonly unreported: string | undefined;
  readonly leaving: Leaving;
}

/**
 * Which GPUs of terminating pods and of victims are known: all of them; all but those of a pod that terminates by
 * itself; all but those of a pod that is tried as a victim.
 */
type Leaving = "named" | "going" | "victim";

const noUnits: ReadonlyMap<string, number> = new Map();
const nothingHeld: PluginHeld = { now: new Set(), later: new Set(), unreported: undefined, leaving: "named" };

function heldByPlugin({ holdings, groups }: NodeState): PluginHeld {
  const now = new Set<string>();
  const later = new Set<string>();
  const known = new Set<string>();
  for (const { holder, state, groups: of } of holdings) {
    const ids = reportedGpus((holder as Task).pod);
    for (const id of ids) {
      now.add(id);
      // A reservation is kept as long as a pod shares its GPU.
      const stays = holder.isReservation
        ? of.some((group) => (groups.get(group)?.laterHolders ?? 0) > 0)
        : state !== "releasing";
      if (stays) later.add(id);
    }
    if (holder.isReservation && ids.size > 0) for (const group of of) known.add(group);
  }
  let unreported: string | undefined;
  let leaving: Leaving = "named";
  for (const holding of holdings) {
    if (holding.state === "pipelined" || !isUnnamed(holding, known)) continue;
    const { pod, key, isBeingEvicted } = holding.holder as Task;
    if (holding.state !== "releasing") unreported ??= key;
    else if (pod.metadata.deletionTimestamp !== undefined || isBeingEvicted) leaving = "going";
    else if (leaving === "named") leaving = "victim";
  }
  return { now, later, unreported, leaving };
}

/** Whether the GPU of the pod is not reported yet; for a share the reservation may still have to be created. */
function isUnnamed({ holder, groups }: Holding, known: ReadonlySet<string>): boolean {
  const { pod } = holder as Task;
  if (isUnreported(pod)) return true;
  if (holder.isReservation || pod.status?.phase === "Running") return false;
  return groups.some((group) => !known.has(group));
}

function newDevicesOf({ claims }: ClaimsFit & { ok: true }): string[] {
  return claims.flatMap(({ claim, allocation, isNew }) =>
    isNew ? usesOf({ ...claim, status: { ...claim.status, allocation } }).map(({ device }) => device) : [],
  );
}

/** How many GPUs a claim counts for. */
export function gpusOfClaim(claim: ResourceClaim): number {
  return sumOf(gpuClassesOfClaim(claim));
}

/**
 * The same by device class: a class whose name contains `gpu` is a class of GPUs. An allocated claim counts its
 * devices, a pending one its requests: the smallest of alternatives, and 1 for `allocationMode: All`.
 */
export function gpuClassesOfClaim({ spec, status }: ResourceClaim): ReadonlyMap<string, number> {
  const classes = new Map<string, number>();
  const results = status?.allocation?.devices?.results;
  for (const { name, exactly, firstAvailable } of spec.devices?.requests ?? []) {
    const options = exactly === undefined ? (firstAvailable ?? []) : [exactly];
    if (results === undefined) {
      const least = [...options].sort((a, b) => askedGpus(a) - askedGpus(b))[0];
      if (least !== undefined) addTo(classes, least.deviceClassName, askedGpus(least));
      continue;
    }
    for (const { request, adminAccess } of results) {
      const [ofRequest, option] = request.split("/");
      if (ofRequest !== name || adminAccess === true) continue;
      const chosen = exactly ?? firstAvailable?.find((each) => each.name === option);
      if (chosen !== undefined && isGpuClass(chosen.deviceClassName)) addTo(classes, chosen.deviceClassName, 1);
    }
  }
  return classes;
}

/** The number of devices of drivers whose name contains `gpu`. */
export function gpusIn(slices: readonly ResourceSlice[]): number {
  let count = 0;
  for (const { spec } of slices) if (spec.driver.includes("gpu")) count += spec.devices?.length ?? 0;
  return count;
}

function addTo(classes: Map<string, number>, name: string, gpus: number): void {
  if (gpus > 0) classes.set(name, Math.min((classes.get(name) ?? 0) + gpus, gpusMax));
}

function sumOf(classes: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const gpus of classes.values()) sum += gpus;
  return Math.min(sum, gpusMax);
}

function extendedOf({ claims, split }: ClaimsFit & { ok: true }): ExtendedFit | undefined {
  const special = claims.find(({ entry }) => entry === extendedEntry);
  if (special === undefined || split === undefined) return undefined;
  return { allocation: special.allocation, deviceRequests: split.requests, containerMappings: split.mappings };
}

function groupClaimsOf({ claims }: ClaimsFit & { ok: true }): GroupClaims | undefined {
  const ofGroup = claims.filter(({ group }) => group !== undefined);
  const group = ofGroup[0]?.group;
  if (group === undefined) return undefined;
  const { uid, name } = group.metadata;
  return { uid, name, entries: ofGroup.map(({ entry }) => entry) };
}

/** Sums of thousandths of this number stay whole numbers. */
const gpusMax = 1e9;

function askedGpus(request: ExactDeviceRequest | DeviceSubRequest): number {
  if (!isGpuClass(request.deviceClassName) || ("adminAccess" in request && request.adminAccess === true)) return 0;
  return request.allocationMode === "All" ? 1 : Math.max(1, request.count ?? 1);
}

function isGpuClass(name: string): boolean {
  return name.toLowerCase().includes("gpu");
}

/**
 * Which devices are allocated, from four sources: the claims of the watch, in-flight writes (the ledger), answers that
 * the watch has not delivered yet, and decisions whose writes have not been sent yet.
 *
 * A device counts as long as it is in one of them, under one key, so it is counted once. Nothing here is asynchronous:
 * while a claim moves from one source to the next, no other reader runs.
 *
 *   upstream                                    here
 *   t0  reader copies the cache (no D)
 *   t1  writer: D into the cache, out of flight  one call: D in the answers, then out of the pending ones
 *   t2  reader copies what is in flight (no D)   a reader runs before or after it, never between
 */

import { assert } from "../../model/assert.ts";
import { keyOf, keyOfObject, resourceKey } from "../../model/intent.ts";
import type { AllocationResult, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { compareRevisions, isRevision } from "../../model/revision.ts";
import { AssumeCache, type AssumeCacheKind } from "../../snapshot/assumeCache.ts";
import type { KindChange, KindTable } from "../../snapshot/kindTable.ts";
import type { Ended } from "../../snapshot/ledger.ts";
import { ConfirmedClaims, changeOf, type DecisionSource, type DeviceChange } from "./deviceChange.ts";
import type { CountedState } from "./search/allocatedState.ts";
import { type DeviceUse, deviceEffects, sumOf, useKey, usesOf } from "./search/deviceUse.ts";

export const claimKind = builtin.ResourceClaim;

/** A decision that is not written yet, and the pods that wait for it. */
interface Pending {
  readonly claim: ResourceClaim;
  /** UIDs of pods. A set: a pod that is added or removed twice changes nothing. */
  readonly holders: Set<string>;
  readonly source: DecisionSource;
}

export type Signalled =
  | { readonly ok: true; readonly is: "new" | "joined" }
  /** The claim has an allocation already. */
  | { readonly ok: true; readonly is: "allocated" }
  | { readonly ok: false; readonly why: string };

export type Assumed =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: "NotFound" | "OutOfSync" | "Invalid" };

export interface GatheredState {
  readonly devices: readonly string[];
  readonly sharedIds: readonly { readonly device: string; readonly shareId: string }[];
  /** Consumed capacity in billionths, by device and capacity name. */
  readonly capacity: ReadonlyMap<string, ReadonlyMap<string, bigint>>;
}

export interface ClaimTrackerOptions {
  /** The claims; fed by the watch. */
  readonly claims: KindTable;
  /** Further kinds that decisions read from the same assume cache. */
  readonly kinds?: Readonly<Record<string, AssumeCacheKind<DeviceUse>>>;
  /** Called with each device that may have become free or allocated. */
  readonly onDevice?: (device: string) => void;
  /** Called with every change, after it counts. */
  readonly onChange?: (change: DeviceChange) => void;
  /** Called with the `namespace/name` of each claim that an answer of the API shows before the watch. */
  readonly onAnswer?: (claimKey: string) => void;
  /** For checks: claims are folded again; decisions and answers that are not observed yet are shared. */
  readonly like?: ClaimTracker;
}

export class ClaimTracker implements CountedState {
  /** The claims with what was decided about them. Commit decisions through it. */
  readonly assumeCache: AssumeCache<DeviceUse>;
  private readonly table: KindTable;
  private readonly onDevice: (device: string) => void;
  private readonly onChange: (change: DeviceChange) => void;
  private readonly onAnswer: (claimKey: string) => void;
  private readonly pending = new Map<string, Pending>();
  private readonly answers = new Map<string, ResourceClaim>();
  /** Key of a use to the number of answers that have it. */
  private readonly answered = new Map<string, number>();
  /** Key of a use to the claims that hold it by a decision or an answer. */
  private readonly extra = new Map<string, Map<string, DeviceUse>>();
  private readonly taken = new Set<string>();
  private readonly shares = new Map<string, Map<string, DeviceUse>>();
  private readonly sums = new Map<string, ReadonlyMap<string, bigint>>();
  private readonly confirmed = new ConfirmedClaims();
  /** By claim UID: the component that is writing to it. */
  private readonly writers = new Map<string, DecisionSource>();
  private revisionCount = 0;

  constructor(options: ClaimTrackerOptions) {
    const { claims, kinds = {}, onDevice = () => {}, onChange = () => {}, onAnswer = () => {}, like } = options;
    this.onAnswer = onAnswer;
    this.table = claims;
    this.onDevice = onDevice;
    this.onChange = onChange;
    // The assume cache cannot be read while it is being constructed.
    let isReady = false;
    this.assumeCache = new AssumeCache<DeviceUse>(
      { ...kinds, [resourceKey(claimKind)]: { table: claims, effects: deviceEffects } },
      { onEffect: (key) => (isReady ? this.recount(key) : undefined), ...(like && { like: like.assumeCache }) },
    );
    isReady = true;
    for (const [key] of this.assumeCache.snapshot().counted()) this.recount(key);
    for (const [key, claim] of claims.view().objects) this.confirmed.set(key, claim as ResourceClaim);
    for (const answer of like?.answers.values() ?? []) this.assumeClaimAfterApiCall(answer);
  }

  /** Grows with every change of the allocated devices. */
  get revision(): number {
    return this.revisionCount;
  }

  /**
   * Applies changes of the claims' table. The assume cache is updated first, so that a device is counted at every
   * moment.
   */
  observed(changes: readonly KindChange[], isNewList = false): readonly Ended[] {
    const ended = this.assumeCache.observed(resourceKey(claimKind), changes, isNewList);
    for (const change of changes) {
      const answer = this.answers.get(change.key);
      if (answer === undefined) continue;
      const isOver =
        change.type === "deleted" ||
        change.object.metadata.uid !== answer.metadata.uid ||
        compareRevisions(change.object.metadata.resourceVersion, answer.metadata.resourceVersion) >= 0;
      if (isOver) this.forgetAnswer(change.key);
    }
    for (const { key } of changes) this.confirm(key);
    return ended;
  }

  // Claims.

  /** The newest known version. */
  get(namespace: string, name: string): ResourceClaim | undefined {
    const key = keyOf(namespace, name);
    return this.answers.get(key) ?? (this.table.get(key) as ResourceClaim | undefined);
  }

  *list(): Iterable<ResourceClaim> {
    for (const [key, claim] of this.table.view().objects) yield this.answers.get(key) ?? (claim as ResourceClaim);
  }

  // Decisions that are not written yet.

  claimHasPendingAllocation(uid: string): boolean {
    return this.pending.has(uid);
  }

  pendingAllocation(uid: string): AllocationResult | undefined {
    return this.pending.get(uid)?.claim.status?.allocation;
  }

  /** Devices that were decided on, and that no claim of the API has yet. */
  *unwrittenDevices(): Iterable<string> {
    for (const { claim } of this.pending.values()) {
      const { namespace = "", name } = claim.metadata;
      if (this.get(namespace, name)?.status?.allocation !== undefined) continue;
      for (const use of usesOf(claim)) if (!this.isWritten(use)) yield use.device;
    }
  }

  /** Whether a claim in the API has the device, by the watch or by an answer. */
  private isWritten(use: DeviceUse): boolean {
    const key = useKey(use);
    return this.assumeCache.values(key).length > 0 || this.answered.has(key);
  }

  pendingHolders(uid: string): readonly string[] {
    return [...(this.pending.get(uid)?.holders ?? [])].sort();
  }

  /**
   * From now on the claim counts as allocated. A second pod joins the first and gets the same allocation.
   * `isNotCreatedYet`: the claim is not in the API yet, so the tracker need not know it.
   */
  signalClaimPendingAllocation(
    claim: ResourceClaim,
    holder: string,
    { isNotCreatedYet = false, source = "scheduler" }: { isNotCreatedYet?: boolean; source?: DecisionSource } = {},
  ): Signalled {
    const { uid, namespace = "", name } = claim.metadata;
    const known = this.pending.get(uid);
    if (known !== undefined) {
      known.holders.add(holder);
      return { ok: true, is: "joined" };
    }
    if (!isNotCreatedYet) {
      const latest = this.get(namespace, name);
      if (latest === undefined) return { ok: false, why: `ResourceClaim ${keyOf(namespace, name)} does not exist` };
      // A decision on an old version: the claim was allocated meanwhile, and counting the decision would hide that.
      if (latest.metadata.uid === uid && latest.status?.allocation !== undefined) return { ok: true, is: "allocated" };
    }
    this.pending.set(uid, { claim, holders: new Set([holder]), source });
    for (const use of usesOf(claim)) {
      this.addExtra(use);
      this.onChange({ ...changeOf("in-flight", keyOf(namespace, name), claim, use), source });
    }
    return { ok: true, is: "new" };
  }

  /**
   * Removes a pod from the decision; with the last one, or with force, the decision is dropped. Returns whether it was.
   */
  removeClaimPendingAllocation(uid: string, holder: string, { force = false } = {}): boolean {
    const known = this.pending.get(uid);
    if (known === undefined) return false;
    assert(known.holders.size > 0, () => `a decision for claim ${uid} is held by no pod`);
    known.holders.delete(holder);
    if (known.holders.size > 0 && !force) return false;
    this.pending.delete(uid);
    this.dropExtra(known.claim);
    const { namespace = "", name } = known.claim.metadata;
    for (const use of usesOf(known.claim)) {
      const change = changeOf("not-in-flight", keyOf(namespace, name), known.claim, use);
      this.onChange({ ...change, source: known.source });
    }
    return true;
  }

  /** A component writes to the claim until the returned function is called: changes in between are attributed to it. */
  writing(namespace: string, name: string, source: DecisionSource): () => void {
    const key = keyOf(namespace, name);
    this.writers.set(key, source);
    return () => {
      if (this.writers.get(key) === source) this.writers.delete(key);
    };
  }

  // Answers.

  /** Adds the claim of an answer of the API, until the watch delivers this version or a later one. */
  assumeClaimAfterApiCall(claim: KubeObject): Assumed {
    if (claim.kind !== "ResourceClaim" || !isRevision(claim.metadata.resourceVersion))
      return { ok: false, reason: "Invalid" };
    const key = keyOfObject(claim);
    const latest = this.answers.get(key) ?? (this.table.get(key) as ResourceClaim | undefined);
    if (latest === undefined) return { ok: false, reason: "NotFound" };
    if (!isRevision(latest.metadata.resourceVersion)) return { ok: false, reason: "Invalid" };
    const order = compareRevisions(claim.metadata.resourceVersion, latest.metadata.resourceVersion);
    if (order < 0) return { ok: false, reason: "OutOfSync" };
    // The watch was faster than the answer, or the write changed nothing. No later event would remove the answer.
    if (order === 0) return { ok: true };
    const before = this.answers.get(key);
    const answer = claim as ResourceClaim;
    this.answers.set(key, answer);
    this.countAnswer(answer, 1);
    for (const use of usesOf(answer)) this.addExtra(use);
    if (before !== undefined) {
      this.countAnswer(before, -1);
      this.dropExtra(before);
    }
    this.confirm(key);
    this.onAnswer(key);
    return { ok: true };
  }

  /** How many claims there are in each state. */
  get counts(): { readonly inFlight: number; readonly assumed: number; readonly allocated: number } {
    return { inFlight: this.pending.size, assumed: this.answers.size, allocated: this.confirmed.size };
  }

  // Allocated devices.

  isTaken(device: string): boolean {
    return this.taken.has(device);
  }

  isShared(device: string): boolean {
    return this.shares.has(device);
  }

  shareCount(device: string): number {
    return this.shares.get(device)?.size ?? 0;
  }

  /** Recomputed from the shares whenever they have changed. */
  consumed(device: string): ReadonlyMap<string, bigint> | undefined {
    const known = this.sums.get(device);
    if (known !== undefined) return known.size === 0 ? undefined : known;
    const sums = sumOf(this.shares.get(device)?.values() ?? []);
    this.sums.set(device, sums);
    return sums.size === 0 ? undefined : sums;
  }

  listAllAllocatedDevices(): string[] {
    return [...new Set([...this.taken, ...this.shares.keys()])].sort();
  }

  /** A copy for callers that keep it. Decisions read the tracker itself. */
  gatherAllocatedState(consumableCapacity = true): GatheredState {
    if (!consumableCapacity) return { devices: this.listAllAllocatedDevices(), sharedIds: [], capacity: new Map() };
    const sharedIds = [...this.shares]
      .flatMap(([device, ids]) => [...ids.keys()].map((shareId) => ({ device, shareId })))
      .sort((a, b) => (useText(a) < useText(b) ? -1 : 1));
    const capacity = new Map<string, ReadonlyMap<string, bigint>>();
    for (const device of [...this.shares.keys()].sort()) {
      const sums = this.consumed(device);
      if (sums !== undefined) capacity.set(device, sums);
    }
    return { devices: [...this.taken].sort(), sharedIds, capacity };
  }

  /** The claim in the API may have changed, by an answer or by the watch. */
  private confirm(key: string): void {
    const latest = this.answers.get(key) ?? (this.table.get(key) as ResourceClaim | undefined);
    for (const change of this.confirmed.set(key, latest)) {
      this.onChange({ ...change, source: this.writers.get(key) ?? this.pendingSource(change) ?? "watch" });
    }
  }

  /**
   * The source of a decision that the API now shows. By name: a claim that did not exist when it was decided has
   * another UID.
   */
  private pendingSource({ claim, device, shareId }: Omit<DeviceChange, "source">): DecisionSource | undefined {
    for (const uid of this.extra.get(shareId === undefined ? device : `${device} ${shareId}`)?.keys() ?? []) {
      const pending = this.pending.get(uid);
      const metadata = pending?.claim.metadata;
      if (metadata !== undefined && keyOf(metadata.namespace, metadata.name) === claim) return pending?.source;
    }
    return undefined;
  }

  private forgetAnswer(key: string): void {
    const answer = this.answers.get(key);
    if (answer === undefined) return;
    this.answers.delete(key);
    this.countAnswer(answer, -1);
    this.dropExtra(answer);
  }

  private countAnswer(answer: ResourceClaim, by: 1 | -1): void {
    for (const use of usesOf(answer)) {
      const key = useKey(use);
      const count = (this.answered.get(key) ?? 0) + by;
      if (count === 0) this.answered.delete(key);
      else this.answered.set(key, count);
    }
  }

  private addExtra(use: DeviceUse): void {
    const key = useKey(use);
    const known = this.extra.get(key);
    if (known === undefined) this.extra.set(key, new Map([[use.claimUid, use]]));
    else known.set(use.claimUid, use);
    this.recount(key);
  }

  /** Removes what the claim held by a decision or an answer, unless the other one still holds it. */
  private dropExtra(claim: ResourceClaim): void {
    const { uid } = claim.metadata;
    const still = new Set<string>();
    for (const other of [
      this.pending.get(uid)?.claim,
      this.answers.get(keyOf(claim.metadata.namespace, claim.metadata.name)),
    ]) {
      if (other?.metadata.uid === uid) for (const use of usesOf(other)) still.add(useKey(use));
    }
    for (const use of usesOf(claim)) {
      const key = useKey(use);
      if (still.has(key)) continue;
      const known = this.extra.get(key);
      known?.delete(uid);
      if (known?.size === 0) this.extra.delete(key);
      this.recount(key);
    }
  }

  /** Recounts a device from all its holders. Nothing is ever incremented or decremented. */
  private recount(key: string): void {
    const space = key.indexOf(" ");
    const device = space < 0 ? key : key.slice(0, space);
    const values = this.assumeCache.values(key);
    const use = values[0] ?? this.extra.get(key)?.values().next().value;
    this.revisionCount++;
    if (space < 0) {
      if (use === undefined) this.taken.delete(device);
      else this.taken.add(device);
    } else {
      const shareId = key.slice(space + 1);
      const known = this.shares.get(device);
      if (use === undefined) {
        known?.delete(shareId);
        if (known?.size === 0) this.shares.delete(device);
      } else if (known === undefined) this.shares.set(device, new Map([[shareId, use]]));
      else known.set(shareId, use);
      this.sums.delete(device);
    }
    this.onDevice(device);
  }
}

function useText({ device, shareId }: { device: string; shareId: string }): string {
  return `${device} ${shareId}`;
}

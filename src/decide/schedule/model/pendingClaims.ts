import type { AllocationResult, Pod, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import { firstRevision, isAtLeast, type Revision } from "../../../model/revision.ts";
import {
  createdExtendedClaim,
  extendedClaimToCreate,
  extendedEntry,
  isNotCreatedYet,
} from "../../devices/claims/extendedClaim.ts";
import { deleteProtection } from "../../devices/claims/podClaims.ts";
import type { DecisionSource } from "../../devices/deviceChange.ts";
import type { DeviceModel } from "../../devices/deviceModel.ts";

/** Devices that were chosen for an entry of `resourceClaims`. */
export interface ChosenDevices {
  readonly name: string;
  readonly allocation: unknown;
}

/** A claim that counts as allocated because of a decision for a pod. */
export interface CountedClaim {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** The name of the entry in the pod's `resourceClaims`. */
  readonly entry: string;
  /** The claim did not exist at the time of the decision; the one that is created has another UID. */
  readonly isNotCreatedYet: boolean;
  /** A placeholder: the pod, and so the name of its claim, is not known. */
  readonly isStandIn: boolean;
  /** The revision of the BindRequests at which its request had ended. */
  readonly endedAt?: Revision;
}

/** Inputs and callbacks of PendingClaims. */
export interface PendingClaimFacts {
  readonly podOf: (uid: string) => Pod | undefined;
  readonly requestsRevision: () => Revision;
  /** Claims of this pod are unconfirmed: they count though no BindRequest names them. */
  readonly onUnconfirmed: (podUid: string) => void;
  /** When the claims have been observed up to this revision, `releaseObserved` has to be called. */
  readonly onEnded: (podUid: string, endedAt: Revision) => void;
}

/**
 * Devices that were chosen for pods and are not in their claims yet count as allocated, for every allocator in the
 * process: from the decision until the BindRequest that carries them has ended and the final state of the claim is
 * known:
 *
 *   binder                  API                              scheduler
 *   claim gets device d --> claim, revision 7                (claims at revision 5)
 *   bound                -> request has ended, revision 9 -> the request is over: d is free?
 *                                                            (claims at revision 7) it is not
 */
export class PendingClaims {
  /** The source of decisions that are set from now on: an earlier leader, until this one begins to decide. */
  decidedBy: DecisionSource = "take-over";
  private readonly devices: DeviceModel;
  private readonly facts: PendingClaimFacts;
  private readonly wanted = new Map<string, readonly ChosenDevices[]>();
  /** By pod: its claims that count because a BindRequest or an intent names them. */
  private readonly counted = new Map<string, readonly CountedClaim[]>();
  /** By pod: its unconfirmed claims, which count though no BindRequest names them. */
  private readonly unconfirmed = new Map<string, readonly CountedClaim[]>();
  /** Pods with a claim that is not in the cache yet, though devices are chosen for it. */
  private readonly unresolved = new Set<string>();

  constructor(devices: DeviceModel, facts: PendingClaimFacts) {
    this.devices = devices;
    this.facts = facts;
  }

  /** The watch has shown changes of claims. */
  claimsChanged(): void {
    this.recountUnresolved();
    for (const uid of [...this.unconfirmed.keys()]) this.releaseObserved(uid);
  }

  /** Kinds are observed in any order: a BindRequest may be known before the pod that names the claim. */
  recountUnresolved(): void {
    for (const uid of [...this.unresolved]) this.recount(uid);
  }

  /** Sets the devices that the assume cache has for a pod. */
  set(uid: string, chosen: readonly ChosenDevices[]): void {
    if (chosen.length === 0 && !this.wanted.has(uid)) return;
    if (chosen.length === 0) this.wanted.delete(uid);
    else this.wanted.set(uid, chosen);
    this.recount(uid);
  }

  /** The unconfirmed claims of a pod. */
  unconfirmedOf(podUid: string): readonly CountedClaim[] {
    return this.unconfirmed.get(podUid) ?? [];
  }

  /** The pod or one of its claims has changed. */
  changed(uid: string): void {
    if (this.wanted.has(uid)) this.recount(uid);
  }

  /** New devices count before old ones are released, so that a device that stays chosen is never free in between. */
  private recount(uid: string): void {
    this.unresolved.delete(uid);
    const before = this.counted.get(uid) ?? [];
    const wanted = this.wanted.get(uid) ?? [];
    const now = wanted.map((chosen) => this.count(uid, chosen, before));
    const gone = before.filter((each) => !now.some((other) => other.uid === each.uid));
    if (now.length === 0) this.counted.delete(uid);
    else this.counted.set(uid, now);
    const endedAt = this.facts.requestsRevision();
    const others = (this.unconfirmed.get(uid) ?? []).filter((each) => !now.some((other) => other.uid === each.uid));
    const unconfirmed = [...others, ...gone.map((each) => ({ ...each, endedAt }))];
    if (unconfirmed.length === 0) this.unconfirmed.delete(uid);
    else this.unconfirmed.set(uid, unconfirmed);
    // The claim that it was a placeholder for is known now, and counts by itself.
    for (const each of gone)
      if (each.isStandIn && now.some(({ entry }) => entry === each.entry)) this.confirm(uid, each);
    if (gone.length > 0) this.facts.onEnded(uid, endedAt);
    this.releaseObserved(uid);
    if (this.unconfirmed.has(uid)) this.facts.onUnconfirmed(uid);
  }

  /** Counts the devices for their claim, or for a placeholder if the pod is not observed yet or deleted. */
  private count(
    uid: string,
    { name: entry, allocation }: ChosenDevices,
    before: readonly CountedClaim[],
  ): CountedClaim {
    const pod = this.facts.podOf(uid);
    const found = pod === undefined ? undefined : this.claimOf(pod, entry);
    if (found === undefined) this.unresolved.add(uid);
    const known = found === undefined ? before.find((each) => each.entry === entry) : undefined;
    const claim = found ?? standIn(known ?? { uid: `${uid}/${entry}`, namespace: "", name: `${uid}/${entry}` });
    const { uid: claimUid, namespace = "", name } = claim.metadata;
    const born = before.find((each) => each.isNotCreatedYet && each.name === name && each.uid !== claimUid);
    if (born !== undefined) return born;
    const isNotCreated = found === undefined || isNotCreatedYet(claim);
    const other = this.devices.tracker.pendingAllocation(claimUid);
    if (other !== undefined && !hasSameDevices(other, allocation as AllocationResult)) {
      // Devices of an earlier decision still count for the claim: the new ones count beside them.
      this.unresolved.add(uid);
      const name = `${uid}/${entry}`;
      this.signal(uid, standIn({ uid: name, namespace: "", name }), allocation, true);
      return { uid: name, namespace: "", name, entry, isNotCreatedYet: true, isStandIn: true };
    }
    this.signal(uid, claim, allocation, isNotCreated);
    const isStandIn = found === undefined;
    return known ?? { uid: claimUid, namespace, name, entry, isNotCreatedYet: isNotCreated, isStandIn };
  }

  private signal(podUid: string, claim: ResourceClaim, allocation: unknown, isNotCreated: boolean): void {
    this.devices.tracker.signalClaimPendingAllocation(withAllocation(claim, allocation as AllocationResult), podUid, {
      source: this.decidedBy,
      isNotCreatedYet: isNotCreated,
    });
  }

  /** Releases unconfirmed claims whose final state the watch has shown. */
  releaseObserved(podUid: string): void {
    for (const each of this.unconfirmed.get(podUid) ?? []) {
      const claim = this.devices.tables.claims.get(`${each.namespace}/${each.name}`);
      if (this.isShown(claim, each)) this.confirm(podUid, each);
    }
  }

  /**
   * Whether the watch has shown the final state of a claim. Once claims are observed up to the end of the request, a
   * claim that did not exist was not created before: the binder reads its request after it has created the claim, and
   * allocates nothing if the request is deleted. A claim without its finalizer gets no devices by a write that is still
   * in flight. A replica that does not lead relies on the watch, because only the leader removes finalizers.
   */
  private isShown(
    claim: ResourceClaim | undefined,
    { uid, isNotCreatedYet: wasNotCreated, endedAt }: CountedClaim,
  ): boolean {
    if (claim?.status?.allocation !== undefined) return true;
    if (!wasNotCreated && claim?.metadata.uid !== uid) return true;
    if (endedAt === undefined || !isAtLeast(this.devices.tables.claims.revision, endedAt)) return false;
    return claim?.metadata.finalizers?.includes(deleteProtection) !== true;
  }

  /** For checks: copies the unconfirmed claims of another instance. */
  adopt({ unconfirmed, devices }: PendingClaims): void {
    for (const [podUid, claims] of unconfirmed) {
      this.unconfirmed.set(podUid, claims);
      for (const { uid, namespace, name, isNotCreatedYet: wasNotCreated } of claims) {
        const allocation = devices.tracker.pendingAllocation(uid);
        if (allocation === undefined) continue;
        const known = this.devices.tracker.get(namespace, name);
        const claim = { ...known, metadata: { ...known?.metadata, uid, namespace, name }, status: { allocation } };
        this.devices.tracker.signalClaimPendingAllocation(claim as ResourceClaim, podUid, {
          isNotCreatedYet: wasNotCreated,
        });
      }
    }
  }

  /** The final state of the claim is known: it no longer counts here. */
  confirm(podUid: string, { uid }: CountedClaim): void {
    const left = (this.unconfirmed.get(podUid) ?? []).filter((each) => each.uid !== uid);
    if (left.length === 0) this.unconfirmed.delete(podUid);
    else this.unconfirmed.set(podUid, left);
    if (this.counted.get(podUid)?.some((each) => each.uid === uid) === true) return;
    this.devices.tracker.removeClaimPendingAllocation(uid, podUid);
  }

  private claimOf(pod: Pod, entry: string): ResourceClaim | undefined {
    if (entry === extendedEntry) {
      const born = createdExtendedClaim(pod, (namespace, name) => this.devices.tracker.get(namespace, name));
      return born ?? extendedClaimToCreate(pod, []);
    }
    const named = pod.spec?.resourceClaims?.find(({ name }) => name === entry)?.resourceClaimName;
    const made = pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
    const name = named ?? made;
    return name === undefined ? undefined : this.devices.tracker.get(pod.metadata.namespace ?? "", name);
  }
}

/** A placeholder for the claim of an unknown pod. Without a known claim its name is one that no claim can have. */
function standIn({ uid, namespace, name }: Pick<CountedClaim, "uid" | "namespace" | "name">): ResourceClaim {
  const metadata = { namespace, name, uid, resourceVersion: firstRevision, creationTimestamp: "" };
  return { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata, spec: {} };
}

function hasSameDevices(a: AllocationResult, b: AllocationResult): boolean {
  return equalFields(a.devices?.results, b.devices?.results);
}

function withAllocation(claim: ResourceClaim, allocation: AllocationResult): ResourceClaim {
  const finalizers = [...new Set([...(claim.metadata.finalizers ?? []), deleteProtection])];
  return { ...claim, metadata: { ...claim.metadata, finalizers }, status: { ...claim.status, allocation } };
}

import type { AllocationResult, Pod, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { equalFields } from "../../../model/objects/json.ts";
import { firstRevision, isAtLeast, type Revision } from "../../../model/revision.ts";
import { bornClaimOf, extendedEntry, isNotCreatedYet, unbornClaim } from "../../devices/claims/extendedClaim.ts";
import { deleteProtection } from "../../devices/claims/podClaims.ts";
import type { DecisionSource } from "../../devices/deviceChange.ts";
import type { DeviceModel } from "../../devices/deviceModel.ts";

/** Devices that were chosen for an entry of a pod's claims. */
export interface ChosenDevices {
  readonly name: string;
  readonly allocation: unknown;
}

/** A claim that counts as allocated because of a pod. */
export interface CountedClaim {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** The entry of the pod's claims. */
  readonly entry: string;
  /** It did not exist when it was decided on; the one that is created has another UID. */
  readonly isNotCreatedYet: boolean;
  /** Which claim it is could not be said, since the pod is not known. */
  readonly isStandIn: boolean;
  /** Up to where requests were known when its request was over. */
  readonly endedAt?: Revision;
}

/** What it needs to know, and what it reports. */
export interface PendingClaimFacts {
  readonly podOf: (uid: string) => Pod | undefined;
  readonly requestsRevision: () => Revision;
  /** Claims count because of this pod though no BindRequest wants them. */
  readonly onLingering: (podUid: string) => void;
  /** When the claims have been observed up to this revision, `letGoOfShown` has to be called. */
  readonly onEnded: (podUid: string, endedAt: Revision) => void;
}

/**
 * Devices that were chosen for pods and are not in their claims yet count as taken, for every allocator in the process:
 * from the moment of the decision until the BindRequest that carries them is gone, and it is known what became of the
 * claim:
 *
 *   binder                  API                              scheduler
 *   claim gets device d --> claim, revision 7                (claims at revision 5)
 *   bound                -> request has ended, revision 9 -> the request is over: d is free?
 *                                                            (claims at revision 7) it is not
 */
export class PendingClaims {
  /** The source of what is set from now on: decisions of an earlier leader until this one begins to decide. */
  decidedBy: DecisionSource = "take-over";
  private readonly devices: DeviceModel;
  private readonly facts: PendingClaimFacts;
  private readonly wanted = new Map<string, readonly ChosenDevices[]>();
  /** By pod: the claims that count because of it. */
  private readonly counted = new Map<string, readonly CountedClaim[]>();
  /** By pod: claims that still count though no BindRequest wants them. */
  private readonly lingering = new Map<string, readonly CountedClaim[]>();
  /** Pods with a claim that is not in the cache yet, though devices are chosen for it. */
  private readonly unsettled = new Set<string>();

  constructor(devices: DeviceModel, facts: PendingClaimFacts) {
    this.devices = devices;
    this.facts = facts;
  }

  /** The watch has shown changes of claims. */
  claimsChanged(): void {
    this.settleUnsettled();
    for (const uid of [...this.lingering.keys()]) this.letGoOfShown(uid);
  }

  /** Pods and claims come in any order: a request may be known before the pod that says which claim it is about. */
  settleUnsettled(): void {
    for (const uid of [...this.unsettled]) this.settle(uid);
  }

  /** What the picture has for a pod now. */
  set(uid: string, chosen: readonly ChosenDevices[]): void {
    if (chosen.length === 0 && !this.wanted.has(uid)) return;
    if (chosen.length === 0) this.wanted.delete(uid);
    else this.wanted.set(uid, chosen);
    this.settle(uid);
  }

  /** Claims that count though the request of the pod is over. */
  lingeringOf(podUid: string): readonly CountedClaim[] {
    return this.lingering.get(podUid) ?? [];
  }

  /** The pod, or a claim of it, is another than before. */
  changed(uid: string): void {
    if (this.wanted.has(uid)) this.settle(uid);
  }

  /** New ones first: a device that stays chosen is free at no moment. */
  private settle(uid: string): void {
    this.unsettled.delete(uid);
    const before = this.counted.get(uid) ?? [];
    const wanted = this.wanted.get(uid) ?? [];
    const now = wanted.map((chosen) => this.count(uid, chosen, before));
    const gone = before.filter((each) => !now.some((other) => other.uid === each.uid));
    if (now.length === 0) this.counted.delete(uid);
    else this.counted.set(uid, now);
    const endedAt = this.facts.requestsRevision();
    const others = (this.lingering.get(uid) ?? []).filter((each) => !now.some((other) => other.uid === each.uid));
    const lingering = [...others, ...gone.map((each) => ({ ...each, endedAt }))];
    if (lingering.length === 0) this.lingering.delete(uid);
    else this.lingering.set(uid, lingering);
    // The claim that it stood in for counts by itself.
    for (const each of gone) if (each.isStandIn && now.some(({ entry }) => entry === each.entry)) this.letGo(uid, each);
    if (gone.length > 0) this.facts.onEnded(uid, endedAt);
    this.letGoOfShown(uid);
    if (this.lingering.has(uid)) this.facts.onLingering(uid);
  }

  /** The devices count, with their claim where it is known: the pod may not be observed yet, or be gone. */
  private count(
    uid: string,
    { name: entry, allocation }: ChosenDevices,
    before: readonly CountedClaim[],
  ): CountedClaim {
    const pod = this.facts.podOf(uid);
    const found = pod === undefined ? undefined : this.claimOf(pod, entry);
    if (found === undefined) this.unsettled.add(uid);
    const known = found === undefined ? before.find((each) => each.entry === entry) : undefined;
    const claim = found ?? standIn(known ?? { uid: `${uid}/${entry}`, namespace: "", name: `${uid}/${entry}` });
    const { uid: claimUid, namespace = "", name } = claim.metadata;
    const born = before.find((each) => each.isNotCreatedYet && each.name === name && each.uid !== claimUid);
    if (born !== undefined) return born;
    const isUnborn = found === undefined || isNotCreatedYet(claim);
    const other = this.devices.tracker.pendingAllocation(claimUid);
    if (other !== undefined && !hasSameDevices(other, allocation as AllocationResult)) {
      // Devices of an earlier decision still count for the claim: the new ones count beside them.
      this.unsettled.add(uid);
      const name = `${uid}/${entry}`;
      this.signal(uid, standIn({ uid: name, namespace: "", name }), allocation, true);
      return { uid: name, namespace: "", name, entry, isNotCreatedYet: true, isStandIn: true };
    }
    this.signal(uid, claim, allocation, isUnborn);
    const isStandIn = found === undefined;
    return known ?? { uid: claimUid, namespace, name, entry, isNotCreatedYet: isUnborn, isStandIn };
  }

  private signal(podUid: string, claim: ResourceClaim, allocation: unknown, isUnborn: boolean): void {
    this.devices.tracker.signalClaimPendingAllocation(withAllocation(claim, allocation as AllocationResult), podUid, {
      source: this.decidedBy,
      isNotCreatedYet: isUnborn,
    });
  }

  /** What the watch shows as allocated, or shows no more, counts by itself. */
  letGoOfShown(podUid: string): void {
    for (const each of this.lingering.get(podUid) ?? []) {
      const claim = this.devices.tables.claims.get(`${each.namespace}/${each.name}`);
      if (this.isShown(claim, each)) this.letGo(podUid, each);
    }
  }

  /**
   * Claims are observed up to the end of the request. A claim that did not exist was not created before: the binder
   * looks for its request after it has created the claim, and allocates nothing when that is gone. A claim without its
   * finalizer gets no devices by a write that is still in flight. A replica that does not lead has to find that out by
   * itself: only the leader removes finalizers.
   */
  private isShown(
    claim: ResourceClaim | undefined,
    { uid, isNotCreatedYet: wasUnborn, endedAt }: CountedClaim,
  ): boolean {
    if (claim?.status?.allocation !== undefined) return true;
    if (!wasUnborn && claim?.metadata.uid !== uid) return true;
    if (endedAt === undefined || !isAtLeast(this.devices.tables.claims.revision, endedAt)) return false;
    return claim?.metadata.finalizers?.includes(deleteProtection) !== true;
  }

  /** For checks: what lingers with another one lingers here. */
  adopt({ lingering, devices }: PendingClaims): void {
    for (const [podUid, claims] of lingering) {
      this.lingering.set(podUid, claims);
      for (const { uid, namespace, name, isNotCreatedYet: wasUnborn } of claims) {
        const allocation = devices.tracker.pendingAllocation(uid);
        if (allocation === undefined) continue;
        const known = this.devices.tracker.get(namespace, name);
        const claim = { ...known, metadata: { ...known?.metadata, uid, namespace, name }, status: { allocation } };
        this.devices.tracker.signalClaimPendingAllocation(claim as ResourceClaim, podUid, {
          isNotCreatedYet: wasUnborn,
        });
      }
    }
  }

  /** What became of the claim is known. */
  letGo(podUid: string, { uid }: CountedClaim): void {
    const left = (this.lingering.get(podUid) ?? []).filter((each) => each.uid !== uid);
    if (left.length === 0) this.lingering.delete(podUid);
    else this.lingering.set(podUid, left);
    if (this.counted.get(podUid)?.some((each) => each.uid === uid) === true) return;
    this.devices.tracker.removeClaimPendingAllocation(uid, podUid);
  }

  private claimOf(pod: Pod, entry: string): ResourceClaim | undefined {
    if (entry === extendedEntry) {
      const born = bornClaimOf(pod, (namespace, name) => this.devices.tracker.get(namespace, name));
      return born ?? unbornClaim(pod, []);
    }
    const named = pod.spec?.resourceClaims?.find(({ name }) => name === entry)?.resourceClaimName;
    const made = pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
    const name = named ?? made;
    return name === undefined ? undefined : this.devices.tracker.get(pod.metadata.namespace ?? "", name);
  }
}

/** For a claim of a pod that is not known. Where the claim never was, it has a name that no claim can have. */
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

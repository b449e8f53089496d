import type { KubeObject, OwnerReference } from "../../model/object.ts";
import type { ObjectRef, ResourceRef } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";
import { Mirror, type MirrorChange } from "../mirror.ts";
import { OwnWrites, type PlannedPod } from "./ownWrites.ts";
import { SimpleLease } from "./simpleLease.ts";

/**
 * The guinea pig: keeps as many pods for a ReplicaSet as it asks for. Adopts by UID, replaces what is lost, removes
 * what is too much, spares what somebody uses. The simulator is tested on it: this controller must survive every seed,
 * and each of its mutants, which make one classic mistake, must be found.
 */
export const podKind: ResourceRef = { group: "", version: "v1", plural: "pods" };
export const setKind: ResourceRef = { group: "apps", version: "v1", plural: "replicasets" };

/** Who uses a pod says so on it. */
export const claimAnnotation = "example.com/claimed-by";
/** Which set a pod without an owner would like to belong to. */
export const setLabel = "set";

export const mistakes = [
  "acts-on-cache-absence",
  "deletes-by-name",
  "no-precondition",
  "counts-up-and-down",
  "forgets-own-writes",
  "keeps-leading",
] as const;
export type Mistake = (typeof mistakes)[number];

const tickMs = 1_000;

export class PodSetController {
  private readonly ports: ActorPorts;
  private readonly mistake: Mistake | undefined;
  private readonly pods: Mirror;
  private readonly sets: Mirror;
  private readonly lease: SimpleLease;
  private readonly own: OwnWrites;
  /** Only for the mutant that counts events instead of pods. */
  private readonly counts = new Map<string, number>();
  private readonly counted = new Set<string>();
  private wake: () => void = () => {};
  private awake = false;

  constructor(ports: ActorPorts, mistake?: Mistake) {
    this.ports = ports;
    this.mistake = mistake;
    this.own = new OwnWrites(ports);
    this.pods = new Mirror(ports, podKind, (change) => this.podsChanged(change));
    this.sets = new Mirror(ports, setKind, () => this.wakeUp());
    this.lease = new SimpleLease(ports, "pod-sets", () => this.wakeUp());
  }

  async run(): Promise<void> {
    await Promise.all([this.pods.run(), this.sets.run(), this.lease.run(), this.loop()]);
  }

  private async loop(): Promise<void> {
    const { cancel } = this.ports;
    while (!cancel.cancelled) {
      await this.untilWoken();
      // What is in doubt for a set that is gone, or under another leader, is no longer ours to settle.
      const uids = new Set([...this.sets.objects.values()].map(({ metadata }) => metadata.uid));
      this.own.abandon(({ setUid }) => !this.mayWrite() || !uids.has(setUid));
      if (cancel.cancelled || !this.mayWrite() || !this.isUpToDate()) continue;
      for (const key of [...this.sets.objects.keys()].sort()) {
        await this.reconcile(key);
      }
      await this.removeOrphans();
      await this.ports.sleep(5);
    }
  }

  /** What the leader before us did must be in our picture before we decide. */
  private isUpToDate(): boolean {
    let upToDate = true;
    for (const mirror of [this.pods, this.sets]) {
      if (mirror.synced && mirror.revision >= this.lease.sinceRevision) continue;
      upToDate = false;
      if (mirror.synced) mirror.relist();
    }
    return upToDate;
  }

  private mayWrite(): boolean {
    return this.mistake === "keeps-leading" ? this.lease.ledOnce : this.lease.isLeading;
  }

  private untilWoken(): Promise<void> {
    if (this.awake) {
      this.awake = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const cancelTimer = this.ports.clock.after(tickMs, () => this.wake());
      this.wake = () => {
        cancelTimer();
        this.wake = () => {};
        this.awake = false;
        resolve();
      };
    });
  }

  private wakeUp(): void {
    this.awake = true;
    this.wake();
  }

  private podsChanged(change: MirrorChange): void {
    this.observeOwn();
    if (this.mistake === "counts-up-and-down") this.countChange(change);
    this.wakeUp();
  }

  private observeOwn(): void {
    const { objects, revision } = this.pods;
    const uids = new Set([...objects.values()].map(({ metadata }) => metadata.uid));
    this.own.seen({
      revision,
      hasUid: (uid) => uids.has(uid),
      ownerOf: (name) => {
        const pod = objects.get(`default/${name}`);
        return pod === undefined ? undefined : controllerOf(pod)?.uid;
      },
    });
  }

  /** The mistake of the mutant that counts: an event is not a pod. */
  private countChange(change: MirrorChange): void {
    if (change.type === "LIST" && change.before.size === 0) {
      for (const pod of this.pods.objects.values()) this.countOnce(pod);
    } else if (change.type === "ADDED") this.countOnce(change.object);
    else if (change.type === "DELETED" && this.counted.delete(change.object.metadata.uid))
      this.count(change.object, -1);
  }

  private countOnce(pod: KubeObject): void {
    if (this.counted.has(pod.metadata.uid)) return;
    this.counted.add(pod.metadata.uid);
    this.count(pod, 1);
  }

  private count(pod: KubeObject, by: number): void {
    const { uid = "" } = controllerOf(pod) ?? {};
    this.counts.set(uid, (this.counts.get(uid) ?? 0) + by);
  }

  /** One step towards what the set asks for. The next step is decided on the picture as it is then. */
  private async reconcile(key: string): Promise<void> {
    const set = this.sets.objects.get(key);
    if (set === undefined || isGoing(set)) return;
    const { uid } = set.metadata;
    const { replicas = 1 } = set["spec"] as { replicas?: number };
    const mine = this.podsOf(uid);
    const ended = mine.filter(hasEnded);
    const idle = ended.find((pod) => !isClaimed(pod));
    if (idle !== undefined) return this.acted(await this.remove(idle, (now) => hasEnded(now) && !isClaimed(now)));
    const planned = [...this.own.created.values()].filter(({ setUid }) => setUid === uid);
    const unseen = planned.filter(({ name }) => !this.pods.objects.has(`default/${name}`));
    const inDoubt = unseen.find(({ revision }) => revision === undefined);
    const counting = this.mistake === "counts-up-and-down";
    const live = mine.filter((pod) => !hasEnded(pod));
    const have = counting ? (this.counts.get(uid) ?? 0) : live.length + unseen.length;
    if (inDoubt !== undefined) {
      // Nobody knows whether it exists. Either it is still wanted, and asking again settles it, or it is dropped: if it
      // turns up after all it is one too many and goes the way of such.
      if (have <= replicas) return this.acted(await this.create(set, inDoubt));
      this.own.close(inDoubt, "abandoned");
      return this.acted(true);
    }
    if (have < replicas) this.acted(await this.grow(set));
    else if (have > replicas) this.acted(await this.shrink(set, live));
    else await this.reportStatus(set, have);
  }

  private acted(really: boolean): void {
    if (really) this.wakeUp();
  }

  private podsOf(setUid: string): KubeObject[] {
    const forgetful = this.mistake === "forgets-own-writes";
    return [...this.pods.objects.values()]
      .filter((pod) => this.ownerUid(pod) === setUid && pod.metadata.deletionTimestamp === undefined)
      .filter((pod) => forgetful || !this.own.deleted.has(pod.metadata.uid))
      .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  /** Whose pod it is, adoptions that we do not see yet included. */
  private ownerUid(pod: KubeObject): string | undefined {
    return controllerOf(pod)?.uid ?? this.own.adopted.get(pod.metadata.uid)?.setUid;
  }

  private async grow(set: KubeObject): Promise<boolean> {
    const [stray] = this.strays(set);
    if (stray !== undefined) return this.adopt(stray, set);
    const name = `${set.metadata.name}-${this.ports.random.uint32().toString(36)}`;
    if (this.mistake === "forgets-own-writes") return this.create(set, { name, setUid: "", revision: undefined });
    return this.create(set, this.own.plan(name, set.metadata.uid));
  }

  private async create(set: KubeObject, plan: PlannedPod): Promise<boolean> {
    if (!this.mayWrite()) {
      this.own.close(plan, "abandoned");
      return false;
    }
    const outcome = await this.ports.kube.create(podKind, podOf(set, plan.name));
    if (outcome.ok) {
      this.confirmed(plan, outcome.value);
      return true;
    }
    switch (outcome.reason) {
      case "AlreadyExists": {
        // An earlier try of ours took effect after all, or a stranger has the name; the API knows which.
        const found = await this.ports.kube.get(refTo(podKind, plan.name));
        if (found.ok && controllerOf(found.value)?.uid === plan.setUid) this.confirmed(plan, found.value);
        else if (found.ok || found.reason === "NotFound") this.own.close(plan, "rejected");
        return true;
      }
      case "Unknown":
      case "Conflict":
      case "Unavailable":
      case "TooManyRequests":
        // It may have happened and may still happen: the plan stays, and is tried again under the same name.
        await this.ports.sleep(outcome.retryAfterMs ?? 50);
        return true;
      default:
        this.own.close(plan, "rejected");
        return true;
    }
  }

  private confirmed(plan: PlannedPod, pod: KubeObject): void {
    plan.revision = Number(pod.metadata.resourceVersion);
    if (this.mistake === "counts-up-and-down") this.countOnce(pod);
    this.observeOwn();
  }

  /** Pods that carry the set's label and belong to nobody. */
  private strays(set: KubeObject): KubeObject[] {
    return [...this.pods.objects.values()]
      .filter((pod) => this.ownerUid(pod) === undefined && pod.metadata.labels?.[setLabel] === set.metadata.name)
      .filter((pod) => pod.metadata.deletionTimestamp === undefined && !hasEnded(pod))
      .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  private async adopt(pod: KubeObject, set: KubeObject): Promise<boolean> {
    // A set of this name may be another one by now: its UID is asked for at the source.
    if (!(await this.stillOurs(set))) return false;
    if (!this.mayWrite()) return false;
    const metadata = { ...pod.metadata, ownerReferences: [ownerReference(set)] };
    const outcome = await this.ports.kube.update(refTo(podKind, pod.metadata.name), { ...pod, metadata });
    // The update is an own write like any other: it counts until the watch shows it.
    if (outcome.ok && this.mistake !== "forgets-own-writes") {
      const revision = Number(outcome.value.metadata.resourceVersion);
      this.own.adopted.set(pod.metadata.uid, { setUid: set.metadata.uid, revision });
    }
    return outcome.ok;
  }

  private async stillOurs(set: KubeObject): Promise<boolean> {
    const found = await this.ports.kube.get(refTo(setKind, set.metadata.name));
    return found.ok && found.value.metadata.uid === set.metadata.uid && !isGoing(found.value);
  }

  private async shrink(set: KubeObject, live: readonly KubeObject[]): Promise<boolean> {
    const victim = live.filter((pod) => !isClaimed(pod)).at(-1);
    if (victim === undefined) return false;
    // What is asked for may have grown again: looked up afresh before anything is destroyed.
    const fresh = await this.ports.kube.get(refTo(setKind, set.metadata.name));
    if (!fresh.ok || fresh.value.metadata.uid !== set.metadata.uid) return false;
    const { replicas = 1 } = fresh.value["spec"] as { replicas?: number };
    if (live.length <= replicas) return false;
    return this.remove(victim, (now) => !isClaimed(now));
  }

  /** Pods whose set is gone. That our picture lacks the set proves nothing: pods and sets arrive by different streams. */
  private async removeOrphans(): Promise<void> {
    const known = new Set([...this.sets.objects.values()].map(({ metadata }) => metadata.uid));
    for (const key of [...this.pods.objects.keys()].sort()) {
      const pod = this.pods.objects.get(key);
      const owner = pod === undefined ? undefined : controllerOf(pod);
      if (pod === undefined || owner === undefined || known.has(owner.uid)) continue;
      if (isClaimed(pod) || isGoing(pod) || this.own.deleted.has(pod.metadata.uid)) continue;
      if (this.mistake !== "acts-on-cache-absence") {
        const found = await this.ports.kube.get(refTo(setKind, owner.name));
        const gone = found.ok ? found.value.metadata.uid !== owner.uid : found.reason === "NotFound";
        // An error is no answer.
        if (!gone) continue;
      }
      await this.remove(pod, (now) => !isClaimed(now) && controllerOf(now)?.uid === owner.uid);
    }
  }

  /** Looks again, then deletes exactly what it looked at. */
  private async remove(pod: KubeObject, stillRight: (now: KubeObject) => boolean): Promise<boolean> {
    const { kube } = this.ports;
    const { name, uid } = pod.metadata;
    const ref = refTo(podKind, name);
    if (this.mistake === "deletes-by-name") {
      if (!this.mayWrite()) return false;
      return this.deleted(uid, (await kube.delete(ref)).ok);
    }
    if (this.mistake === "no-precondition") {
      if (!this.mayWrite()) return false;
      return this.deleted(uid, (await kube.delete(ref, { preconditions: { uid } })).ok);
    }
    const now = await kube.get(ref);
    if (!now.ok || now.value.metadata.uid !== uid || isGoing(now.value) || !stillRight(now.value)) return false;
    if (!this.mayWrite()) return false;
    const { resourceVersion } = now.value.metadata;
    return this.deleted(uid, (await kube.delete(ref, { preconditions: { uid, resourceVersion } })).ok);
  }

  private deleted(uid: string, ok: boolean): boolean {
    if (ok && this.mistake !== "forgets-own-writes") this.own.deleted.add(uid);
    return ok;
  }

  private async reportStatus(set: KubeObject, replicas: number): Promise<void> {
    const status = (set["status"] ?? {}) as { replicas?: number; observedGeneration?: number };
    const observedGeneration = set.metadata.generation ?? 0;
    if (status.replicas === replicas && status.observedGeneration === observedGeneration) return;
    if (!this.mayWrite()) return;
    const ref = { ...refTo(setKind, set.metadata.name), subresource: "status" };
    await this.ports.kube.update(ref, { ...set, status: { ...status, replicas, observedGeneration } });
  }
}

export function refTo(kind: ResourceRef, name: string): ObjectRef {
  return { ...kind, namespace: "default", name };
}

export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find(({ controller }) => controller === true);
}

export function isClaimed(object: KubeObject): boolean {
  return object.metadata.annotations?.[claimAnnotation] !== undefined;
}

export function hasEnded(pod: KubeObject): boolean {
  const { phase } = (pod["status"] ?? {}) as { phase?: string };
  return phase === "Failed" || phase === "Succeeded";
}

function isGoing(object: KubeObject): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}

export function ownerReference(set: KubeObject): OwnerReference {
  const { name, uid } = set.metadata;
  return { apiVersion: "apps/v1", kind: "ReplicaSet", name, uid, controller: true };
}

export function podOf(set: KubeObject, name: string): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      labels: { [setLabel]: set.metadata.name },
      ownerReferences: [ownerReference(set)],
    },
    spec: { containers: [{ name: "main", image: "registry/app:1" }] },
  } as unknown as KubeObject;
}

import { Controllers } from "../../control/controllers.ts";
import { Lease } from "../../control/lease.ts";
import { type Turn, type TurnResult, turnResultOf } from "../../control/loop.ts";
import type { ObjectCache } from "../../control/objectCache.ts";
import { forMapped, forObject, kindSource } from "../../control/sources.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { expectedOf, type Intent, type NewObject } from "../../model/intent.ts";
import type { KubeObject, OwnerReference } from "../../model/object.ts";
import { laterOf } from "../../model/revision.ts";
import type { KubeApi, ObjectRef, ResourceRef } from "../../ports/kubeApi.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import type { ActorPorts } from "../actor.ts";
import { OwnIntents, type Presence } from "./ownIntents.ts";

/**
 * The guinea pig: keeps as many pods for a ReplicaSet as it asks for. Adopts by UID, replaces what is lost, removes
 * what is too much, spares what somebody uses. It is written on the crank, and the simulator is tested on it: this
 * controller must survive every seed, and each of its mutants, which make one classic mistake, must be found.
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

const leaseTimes = { durationMs: 3_000, renewDeadlineMs: 2_200, retryMs: 700 };
/** A turn takes one step; the next step is decided on the picture as it is then. */
const nextStep: TurnResult = { requeueAfterMs: 5 };

/** A turn, and the key of the set that it is for. */
interface SetTurn extends Turn {
  readonly key: string;
}

export class PodSetController {
  private readonly ports: ActorPorts;
  private readonly mistake: Mistake | undefined;
  private readonly controllers: Controllers;
  private readonly pods: ObjectCache;
  private readonly sets: ObjectCache;
  private readonly own: OwnIntents;
  private readonly counter = new EventCounter();

  constructor(ports: ActorPorts, mistake?: Mistake) {
    this.ports = ports;
    this.mistake = mistake;
    const lease = { namespace: "default", name: "pod-sets", identity: ports.name, times: leaseTimes };
    this.controllers = new Controllers(
      { ...ports, metrics: noMetrics },
      { fieldManager: "pod-sets", graceMs: 5_000, ...(mistake === "keeps-leading" ? {} : { lease }) },
    );
    this.pods = this.controllers.cache(podKind);
    this.sets = this.controllers.cache(setKind);
    const tables = {
      "/pods": { table: this.pods.table, effects: effectsOf },
      "apps/replicasets": { table: this.sets.table },
    };
    this.own = new OwnIntents(ports, tables, (setKey) => controller.queue.add(setKey));
    this.follow(this.pods);
    this.follow(this.sets);
    this.pods.onEvent((event) => this.counter.told(event.type, event.object));
    const controller = this.controllers.add({
      name: "pod-sets",
      backoff: { baseMs: 20, maxMs: 2_000 },
      sources: [kindSource(this.sets, forObject()), kindSource(this.pods, forMapped(setsOf))],
      reconcile: (key, { cancel, failures }) => this.reconcile({ key, cancel, failures }),
    });
  }

  async run(): Promise<void> {
    const { cancel } = this.ports;
    const stopped = new Promise<void>((resolve) => {
      cancel.onCancel(resolve);
    }).then(() => this.controllers.stop());
    if (this.mistake === "keeps-leading") await this.leadForEver(stopped);
    else await Promise.all([this.controllers.start(), this.followTheLease(), stopped]);
  }

  private async followTheLease(): Promise<void> {
    while (!this.ports.cancel.cancelled) {
      if (this.controllers.lease?.epoch === undefined) this.own.abandonAll();
      await this.ports.sleep(1_000);
    }
  }

  /** The mistake: once it leads it does not ask again. */
  private async leadForEver(stopped: Promise<void>): Promise<void> {
    const lease = new Lease({
      ...this.ports,
      metrics: noMetrics,
      namespace: "default",
      name: "pod-sets",
      identity: this.ports.name,
      times: leaseTimes,
    });
    // A stand-by keeps its caches warm.
    this.pods.start();
    this.sets.start();
    let started: Promise<boolean> | undefined;
    lease.start({
      acquired: () => {
        started ??= this.controllers.start();
      },
      lost: () => {},
    });
    await stopped;
    await lease.stop();
    await started;
  }

  private get kube(): KubeApi {
    return this.controllers.kube;
  }

  private follow(cache: ObjectCache): void {
    this.ports.observe("mirror", { kind: cache.kind, objects: () => cache.view().objects });
    cache.onChanges((changes, isNewList) => {
      this.own.observed(cache.kind, changes, isNewList);
      this.ports.observe("revision", { kind: cache.kind, revision: Number(cache.revision) });
    });
  }

  /** One step towards what the set asks for, or the end of what a set that is gone has left behind. */
  private async reconcile(turn: SetTurn): Promise<TurnResult> {
    const { key } = turn;
    const set = this.sets.get(key);
    const orphan = this.all().find((pod) => isOrphan(pod, key, set) && !isClaimed(pod) && !this.isGone(pod));
    if (orphan !== undefined) return this.removeOrphan(orphan, turn);
    const doubtful = this.own.inDoubt(key);
    if (doubtful !== undefined) {
      const wanted = (): boolean => this.isWanted(doubtful, key);
      await this.own.settle(this.kube, doubtful, wanted, turn.cancel);
      return { requeueAfterMs: 100 };
    }
    if (set === undefined || isGoing(set)) return undefined;
    const mine = this.podsOf(set);
    const ended = mine.find((pod) => hasEnded(pod) && !isClaimed(pod));
    if (ended !== undefined) return this.remove(ended, (now) => hasEnded(now) && !isClaimed(now), turn);
    const { replicas = 1 } = set["spec"] as { replicas?: number };
    const live = mine.filter((pod) => !hasEnded(pod));
    const have = this.count(set, live);
    if (have < replicas) return this.grow(set, turn);
    if (have > replicas) return this.shrink(set, live, turn);
    return this.reportStatus(set, have, turn);
  }

  private podsOf({ metadata }: KubeObject): KubeObject[] {
    return this.all().filter((pod) => controllerOf(pod)?.uid === metadata.uid && !isGoing(pod) && !this.isGone(pod));
  }

  /** Whether a write that may or may not have happened should still happen. It counts already, as a pod of its set. */
  private isWanted(intent: Intent, setKey: string): boolean {
    const set = this.sets.get(setKey);
    if (set === undefined || isGoing(set) || intent.type !== "create") return false;
    if (controllerOf(intent.object as unknown as KubeObject)?.uid !== set.metadata.uid) return false;
    const live = this.podsOf(set).filter((pod) => !hasEnded(pod));
    return this.count(set, live) <= ((set["spec"] as { replicas?: number }).replicas ?? 1);
  }

  private count(set: KubeObject, live: readonly KubeObject[]): number {
    if (this.mistake === "counts-up-and-down") return this.counter.of(set.metadata.uid);
    if (this.mistake === "forgets-own-writes") return live.length;
    return this.own.live(`${set.metadata.uid}/`).length;
  }

  private all(): KubeObject[] {
    return [...this.pods.view().objects].map(([, pod]) => pod);
  }

  private isGone(pod: KubeObject): boolean {
    const [effect] = effectsOf(pod);
    return this.mistake !== "forgets-own-writes" && effect !== undefined && this.own.isGone(effect.key);
  }

  private async grow(set: KubeObject, turn: SetTurn): Promise<TurnResult> {
    const { name, uid } = set.metadata;
    const stray = this.all().find((pod) => isStray(pod, name) && !this.isAdopted(pod, uid));
    if (stray !== undefined) return this.adopt(stray, set, turn);
    const podName = `${name}-${this.ports.random.uint32().toString(36)}`;
    const object = podOf(set, podName);
    const intent: Intent = {
      type: "create",
      target: refTo(podKind, podName),
      why: `${name} asks for more pods than it has`,
      absentAt: this.pods.revision,
      object: object as unknown as NewObject,
    };
    return this.carryOut(intent, effectsOf(object), turn);
  }

  private isAdopted(pod: KubeObject, setUid: string): boolean {
    return this.own.live(`${setUid}/${pod.metadata.name}`).length > 0;
  }

  private async adopt(pod: KubeObject, set: KubeObject, turn: SetTurn): Promise<TurnResult> {
    // A set of this name may be another one by now: its UID is asked for at the source.
    const fresh = await lookAgain(this.kube, refTo(setKind, set.metadata.name), { atLeast: this.sets.revision });
    if (!fresh.ok) return turnResultOf(fresh);
    const now = fresh.value.object;
    if (now?.metadata.uid !== set.metadata.uid || isGoing(now)) return { requeueAfterMs: 200 };
    const object = { ...pod, metadata: { ...pod.metadata, ownerReferences: [ownerReference(set)] } };
    const intent: Intent = {
      type: "update",
      target: refTo(podKind, pod.metadata.name),
      why: `${pod.metadata.name} belongs to nobody and ${set.metadata.name} wants it`,
      expected: expectedOf(pod),
      object,
    };
    return this.carryOut(intent, effectsOf(object), turn);
  }

  private async carryOut(intent: Intent, effects: readonly Effect<Presence>[], turn: SetTurn): Promise<TurnResult> {
    const outcome = await this.own.carryOut(this.kube, { setKey: turn.key, intent, effects }, turn.cancel);
    if (outcome.ok && intent.type === "create" && outcome.value.object !== undefined) {
      this.counter.told("added", outcome.value.object);
    }
    return outcome.ok ? nextStep : (turnResultOf(outcome) ?? nextStep);
  }

  private async shrink(set: KubeObject, live: readonly KubeObject[], turn: SetTurn): Promise<TurnResult> {
    const victim = live.filter((pod) => !isClaimed(pod)).at(-1);
    if (victim === undefined) return undefined;
    // What is asked for may have grown again: looked up afresh before anything is destroyed.
    const fresh = await lookAgain(this.kube, refTo(setKind, set.metadata.name), { atLeast: this.sets.revision });
    if (!fresh.ok) return turnResultOf(fresh);
    const now = fresh.value.object;
    if (now?.metadata.uid !== set.metadata.uid) return undefined;
    const { replicas = 1 } = now["spec"] as { replicas?: number };
    if (live.length <= replicas) return { requeueAfterMs: 200 };
    return this.remove(victim, (pod) => !isClaimed(pod), turn);
  }

  /** A pod whose set is gone. That our picture lacks the set proves nothing: pods and sets arrive by different streams. */
  private async removeOrphan(pod: KubeObject, turn: SetTurn): Promise<TurnResult> {
    const { uid, name } = controllerOf(pod) as OwnerReference;
    if (this.mistake !== "acts-on-cache-absence") {
      const fresh = await lookAgain(this.kube, refTo(setKind, name), { atLeast: this.pods.revision });
      // An error is no answer.
      if (!fresh.ok) return turnResultOf(fresh) ?? { again: fresh.message };
      if (fresh.value.object?.metadata.uid === uid) return { requeueAfterMs: 100 };
    }
    return this.remove(pod, (now) => !isClaimed(now) && controllerOf(now)?.uid === uid, turn);
  }

  /** Looks again, then deletes exactly what it looked at. */
  private async remove(pod: KubeObject, stillRight: (now: KubeObject) => boolean, turn: SetTurn): Promise<TurnResult> {
    const { name, uid } = pod.metadata;
    const target = refTo(podKind, name);
    if (this.mistake === "deletes-by-name" || this.mistake === "no-precondition") {
      const careless = this.mistake === "deletes-by-name" ? {} : { preconditions: { uid } };
      const outcome = await this.kube.delete(target, careless);
      return outcome.ok ? { requeueAfterMs: 200 } : (turnResultOf(outcome) ?? nextStep);
    }
    const fresh = await lookAgain(this.kube, target, { atLeast: laterOf(this.pods.revision, this.sets.revision) });
    if (!fresh.ok) return turnResultOf(fresh) ?? nextStep;
    const now = fresh.value.object;
    // What vanished or changed will be shown to us.
    if (now?.metadata.uid !== uid || isGoing(now) || !stillRight(now)) return { requeueAfterMs: 200 };
    const why = `${name} is no longer wanted`;
    const intent: Intent = { type: "delete", target, why, expected: expectedOf(now) };
    const gone = effectsOf(now).map(({ key }): Effect<Presence> => ({ key, value: "gone" }));
    return this.carryOut(intent, gone, turn);
  }

  private async reportStatus(set: KubeObject, replicas: number, turn: SetTurn): Promise<TurnResult> {
    const status = (set["status"] ?? {}) as { replicas?: number; observedGeneration?: number };
    const observedGeneration = set.metadata.generation ?? 0;
    if (status.replicas === replicas && status.observedGeneration === observedGeneration) return undefined;
    const intent: Intent = {
      type: "status",
      target: refTo(setKind, set.metadata.name),
      why: "the status is behind",
      expected: expectedOf(set),
      object: { ...set, status: { ...status, replicas, observedGeneration } },
    };
    const result = await this.carryOut(intent, [], turn);
    return result === nextStep ? undefined : result;
  }
}

/** For the mutant that counts events: up for a pod that comes, down for one that goes. An event is not a pod. */
class EventCounter {
  private readonly counts = new Map<string, number>();
  private readonly counted = new Set<string>();

  told(type: "added" | "updated" | "deleted", pod: KubeObject): void {
    const { uid } = pod.metadata;
    const owner = controllerOf(pod)?.uid ?? "";
    if (type === "added" && !this.counted.has(uid)) {
      this.counted.add(uid);
      this.counts.set(owner, this.of(owner) + 1);
    } else if (type === "deleted" && this.counted.delete(uid)) this.counts.set(owner, this.of(owner) - 1);
  }

  of(setUid: string): number {
    return this.counts.get(setUid) ?? 0;
  }
}

/** A live pod counts for its set, under a name that the watch and an intent share. */
function effectsOf(pod: KubeObject): readonly Effect<Presence>[] {
  const owner = controllerOf(pod);
  if (owner === undefined || hasEnded(pod) || isGoing(pod)) return [];
  return [{ key: `${owner.uid}/${pod.metadata.name}`, value: "live" }];
}

/** The sets that a pod matters to: its owner, or the one it would like to have. */
function setsOf(pod: KubeObject): string[] {
  const name = controllerOf(pod)?.name ?? pod.metadata.labels?.[setLabel];
  return name === undefined ? [] : [`default/${name}`];
}

function isOrphan(pod: KubeObject, setKey: string, set: KubeObject | undefined): boolean {
  const owner = controllerOf(pod);
  if (owner === undefined || isGoing(pod) || `default/${owner.name}` !== setKey) return false;
  return owner.uid !== set?.metadata.uid;
}

function isStray(pod: KubeObject, setName: string): boolean {
  if (controllerOf(pod) !== undefined || pod.metadata.labels?.[setLabel] !== setName) return false;
  return !isGoing(pod) && !hasEnded(pod);
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

const noMetrics: Metrics = { count: () => {}, gauge: () => {}, observe: () => {} };

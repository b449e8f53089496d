import type { ObjectCache } from "../../control/cache/objectCache.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import { InFlightWrites } from "../../control/runtime/inFlightWrites.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../../control/runtime/loop.ts";
import { forMapped, forObject, kindSource } from "../../control/runtime/sources.ts";
import { Writer } from "../../control/runtime/writer.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { expectedOf, type Intent, intentId } from "../../model/intent.ts";
import type { KubeObject, OwnerReference } from "../../model/objects/object.ts";
import { laterOf } from "../../model/revision.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { AssumeCache } from "../../snapshot/assumeCache.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import type { ActorPorts } from "../actor.ts";
import { EventCounter, type Mistake, treatsNoAnswerAsRefusal } from "./mistakes.ts";
import {
  controllerOf,
  effectsOf,
  firstToGoAnnotation,
  hasEnded,
  isClaimed,
  isOrphan,
  isStray,
  isTerminating,
  ownerReference,
  type Presence,
  podKind,
  podOf,
  presence,
  refTo,
  replicasOf,
  setKind,
  setsOf,
} from "./podSetObjects.ts";

/** A reconcile takes one step; the next step is decided from a new snapshot. */
const nextStep: ReconcileResult = { requeueAfterMs: 5 };

/** A reconcile, and the key of its set. */
interface SetReconcile extends ReconcileContext {
  readonly key: string;
}

/** What was decided for a set and has not ended. */
interface Open {
  readonly intent: Intent;
  readonly effects: readonly Effect<Presence>[];
  readonly setKey: string;
  /** The created pod, from the response. */
  made?: KubeObject;
}

/**
 * The sample controller: keeps as many pods for a ReplicaSet as its spec says. Adopts by UID, replaces lost pods,
 * deletes surplus ones, spares pods in use. It tests the controller runtime that it is written on: the controller must
 * pass every seed, and each of its mutants, which have one classic bug, must be found.
 */
export class PodSets {
  private readonly ports: ActorPorts;
  private readonly mistake: Mistake | undefined;
  private readonly pods: ObjectCache;
  private readonly sets: ObjectCache;
  private readonly assumeCache: AssumeCache<Presence>;
  private readonly kube: KubeApi;
  private readonly inFlight: InFlightWrites<Presence>;
  private readonly open = new Map<string, Open>();
  /** Intents with unknown outcome that are not wanted any more: they count until the watch shows the outcome. */
  private readonly kept = new Set<string>();
  private readonly counter = new EventCounter();

  constructor(controllers: Controllers, ports: ActorPorts, mistake?: Mistake) {
    this.ports = ports;
    this.mistake = mistake;
    this.kube = mistake === "time-out-means-no" ? treatsNoAnswerAsRefusal(controllers.outside) : controllers.outside;
    this.pods = controllers.cache(podKind);
    this.sets = controllers.cache(setKind);
    const tables = {
      [this.pods.kind]: { table: this.pods.table, effects: effectsOf },
      [this.sets.kind]: { table: this.sets.table },
    };
    const controller = controllers.add({
      name: "pod-sets",
      backoff: { baseMs: 20, maxMs: 2_000 },
      sources: [kindSource(this.sets, forObject()), kindSource(this.pods, forMapped(setsOf))],
      reconcile: (key, { cancel, failures }) => this.reconcile({ key, cancel, failures }),
    });
    this.assumeCache = new AssumeCache<Presence>(tables, {
      onIntent: (id, state) => {
        ports.observe("intent", { id, state });
        const setKey = this.open.get(id)?.setKey;
        if (state !== "observed" && state !== "rejected" && state !== "abandoned") return;
        this.open.delete(id);
        this.kept.delete(id);
        // A rejected write is handled by the reconcile that sent it: enqueuing here would retry at once, for ever.
        if (setKey !== undefined && state === "observed") controller.queue.add(setKey);
      },
    });
    this.inFlight = new InFlightWrites({ kube: this.kube, writer: new Writer(this.kube) }, this.assumeCache);
    for (const cache of [this.pods, this.sets]) {
      cache.onChanges((changes, isNewList) => this.assumeCache.observed(cache.kind, changes, isNewList));
    }
    this.pods.onEvent((event) => this.counter.observed(event.type, event.object));
    // A follower cannot resolve unknown outcomes; they count until it is the leader again.
    ports.observe("kept", {
      ids: () => (controllers.lease?.epoch === undefined ? this.assumeCache.unknownIntents() : [...this.kept]),
    });
  }

  /** One step towards the spec of the set, or the deletion of pods of a deleted set. */
  private async reconcile(turn: SetReconcile): Promise<ReconcileResult> {
    const { key } = turn;
    const set = this.sets.get(key);
    if (set !== undefined) this.ports.observe("counted", { keys: () => this.liveKeys(`${set.metadata.uid}/`) });
    const orphan = this.all().find((pod) => isOrphan(pod, key, set) && !isClaimed(pod) && !this.isGone(pod));
    if (orphan !== undefined) return this.removeOrphan(orphan, turn);
    for (const doubtful of this.inDoubt(key)) {
      const settled = await this.settle(doubtful, turn);
      if (settled !== "kept") return settled;
    }
    if (set === undefined || isTerminating(set)) return undefined;
    const mine = this.podsOf(set);
    const ended = mine.find((pod) => hasEnded(pod) && !isClaimed(pod));
    if (ended !== undefined) return this.remove(ended, (now) => hasEnded(now) && !isClaimed(now), turn);
    const shown = mine.filter((pod) => !hasEnded(pod));
    if (this.count(set, shown) < replicasOf(set)) return this.grow(set, turn);
    // A create in flight does not make an existing pod surplus.
    const live = [...shown, ...this.madeUnseen(key)];
    if (live.length > replicasOf(set)) return this.shrink(set, live, turn);
    const marked = await this.mark(shown, turn);
    return marked ?? this.reportStatus(set, shown.length, turn);
  }

  /** Pods whose create was acknowledged, and that the watch has not shown yet. */
  private madeUnseen(setKey: string): KubeObject[] {
    if (this.mistake !== undefined) return [];
    const made: KubeObject[] = [];
    for (const { intent, made: pod, ...open } of this.open.values()) {
      if (open.setKey !== setKey || pod === undefined || this.isGone(pod)) continue;
      if (this.assumeCache.stateOf(intent) === "acknowledged") made.push(pod);
    }
    return made;
  }

  /** Marks the pod that is deleted first, so that users do not claim it. */
  private async mark(live: readonly KubeObject[], turn: SetReconcile): Promise<ReconcileResult> {
    const pod = live.filter((each) => !isClaimed(each)).at(-1);
    if (pod === undefined || pod.metadata.annotations?.[firstToGoAnnotation] !== undefined) return undefined;
    const intent: Intent = {
      type: "patch",
      target: refTo(podKind, pod.metadata.name),
      why: `${pod.metadata.name} goes first`,
      expected: expectedOf(pod),
      patch: { metadata: { annotations: { [firstToGoAnnotation]: "yes" } } },
    };
    return this.carryOut(intent, effectsOf(pod), turn);
  }

  private inDoubt(setKey: string): Open[] {
    return this.assumeCache.unknownIntents().flatMap((id) => {
      const found = this.open.get(id);
      return found?.setKey === setKey ? [found] : [];
    });
  }

  /** Resolves unknown outcomes: a read first; if it is inconclusive, the same write again if it is still wanted. */
  private async settle(doubtful: Open, turn: SetReconcile): Promise<ReconcileResult | "kept"> {
    const { intent } = doubtful;
    const resolved = await this.inFlight.resolve(intent, { cancel: turn.cancel });
    if (!resolved.ok) return reconcileResultOf(resolved) ?? nextStep;
    if (resolved.value) return { requeueAfterMs: 100 };
    const set = this.sets.get(turn.key);
    const isForThis = doubtful.effects.every(({ key }) => key.startsWith(`${set?.metadata.uid}/`));
    if (set === undefined || isTerminating(set) || !isForThis) {
      // A deleted set has no counts, and its UID is never used again.
      this.assumeCache.abandon(intent);
      return nextStep;
    }
    const live = this.podsOf(set).filter((pod) => !hasEnded(pod));
    // The pod is already counted for its set.
    const isWanted = this.count(set, live) <= replicasOf(set);
    if (intent.type === "create" && isWanted) return this.carryOut(intent, doubtful.effects, turn);
    if (intent.type === "update" && isWanted) return this.adoptFor(set, intent, doubtful.effects, turn);
    this.kept.add(intentId(intent));
    return "kept";
  }

  private podsOf({ metadata }: KubeObject): KubeObject[] {
    return this.all().filter(
      (pod) => controllerOf(pod)?.uid === metadata.uid && !isTerminating(pod) && !this.isGone(pod),
    );
  }

  private count(set: KubeObject, live: readonly KubeObject[]): number {
    if (this.mistake === "counts-up-and-down") return this.counter.of(set.metadata.uid);
    if (this.mistake === "forgets-own-writes") return live.length;
    return this.liveKeys(`${set.metadata.uid}/`).length;
  }

  /** Keys of effects that begin with this and may be live. */
  private liveKeys(prefix: string): string[] {
    const keys: string[] = [];
    for (const [key, values] of this.assumeCache.snapshot().counted()) {
      if (key.startsWith(prefix) && values.includes("live")) keys.push(key);
    }
    return keys;
  }

  private all(): KubeObject[] {
    return [...this.pods.view().objects].map(([, pod]) => pod);
  }

  /** True for a pod whose removal is acknowledged and not observed yet. */
  private isGone(pod: KubeObject): boolean {
    const [effect] = effectsOf(pod);
    if (effect === undefined || this.mistake === "forgets-own-writes") return false;
    const values = this.assumeCache.values(effect.key);
    return values.length > 0 && !values.includes("live");
  }

  private async grow(set: KubeObject, turn: SetReconcile): Promise<ReconcileResult> {
    const { name, uid } = set.metadata;
    const stray = this.all().find((pod) => isStray(pod, name) && !this.isAdopted(pod, uid));
    if (stray !== undefined) return this.adopt(stray, set, turn);
    const podName = `${name}-${this.ports.random.uint32().toString(36)}`;
    const object = podOf(set, podName);
    const intent: Intent = {
      type: "create",
      target: refTo(podKind, podName),
      why: `${name} asks for more pods than it has`,
      absentAtRevision: this.pods.revision,
      object,
    };
    return this.carryOut(intent, [presence(uid, podName)], turn);
  }

  private isAdopted(pod: KubeObject, setUid: string): boolean {
    return this.liveKeys(`${setUid}/${pod.metadata.name}`).length > 0;
  }

  private adopt(pod: KubeObject, set: KubeObject, turn: SetReconcile): Promise<ReconcileResult> {
    const object = { ...pod, metadata: { ...pod.metadata, ownerReferences: [ownerReference(set)] } };
    const intent: Intent = {
      type: "update",
      target: refTo(podKind, pod.metadata.name),
      why: `${pod.metadata.name} has no controller and ${set.metadata.name} wants it`,
      expected: expectedOf(pod),
      object,
    };
    return this.adoptFor(set, intent, effectsOf(object), turn);
  }

  /** The set of this name may be another one by now, so its UID is read from the API. */
  private async adoptFor(
    set: KubeObject,
    intent: Intent,
    effects: readonly Effect<Presence>[],
    turn: SetReconcile,
  ): Promise<ReconcileResult> {
    const fresh = await lookAgain(this.kube, refTo(setKind, set.metadata.name), { atLeast: this.sets.revision });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const now = fresh.value.object;
    if (now?.metadata.uid !== set.metadata.uid || isTerminating(now)) return { requeueAfterMs: 200 };
    return this.carryOut(intent, effects, turn);
  }

  private async carryOut(
    intent: Intent,
    effects: readonly Effect<Presence>[],
    turn: SetReconcile,
  ): Promise<ReconcileResult> {
    const id = intentId(intent);
    this.open.set(id, { intent, effects, setKey: turn.key });
    this.kept.delete(id);
    const outcome = await this.inFlight.commitOne({ intent, effects }, { cancel: turn.cancel });
    if (this.assumeCache.stateOf(intent) === undefined) this.open.delete(id);
    if (outcome.ok) this.done(intent, effects, outcome.value.object);
    return outcome.ok ? nextStep : (reconcileResultOf(outcome) ?? nextStep);
  }

  private done(intent: Intent, effects: readonly Effect<Presence>[], object: KubeObject | undefined): void {
    if (intent.type === "delete") {
      for (const { key } of effects) this.ports.observe("removed", { key, uid: intent.expected.uid });
    }
    if (intent.type !== "create" || object === undefined) return;
    this.counter.observed("added", object);
    const open = this.open.get(intentId(intent));
    if (open !== undefined) open.made = object;
  }

  private async shrink(set: KubeObject, live: readonly KubeObject[], turn: SetReconcile): Promise<ReconcileResult> {
    const victim = live.filter((pod) => !isClaimed(pod)).at(-1);
    if (victim === undefined) return undefined;
    // The wanted number may have grown again, so the set is read again before a pod is deleted.
    const fresh = await lookAgain(this.kube, refTo(setKind, set.metadata.name), { atLeast: this.sets.revision });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const now = fresh.value.object;
    if (now?.metadata.uid !== set.metadata.uid) return undefined;
    if (live.length <= replicasOf(now)) return { requeueAfterMs: 200 };
    return this.remove(victim, (pod) => !isClaimed(pod), turn);
  }

  /**
   * A pod whose set is deleted. A cache without the set proves nothing: pods and sets are watched by different streams.
   */
  private async removeOrphan(pod: KubeObject, turn: SetReconcile): Promise<ReconcileResult> {
    const { uid, name } = controllerOf(pod) as OwnerReference;
    if (this.mistake !== "acts-on-cache-absence") {
      const fresh = await lookAgain(this.kube, refTo(setKind, name), { atLeast: this.pods.revision });
      // An error proves nothing.
      if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
      if (fresh.value.object?.metadata.uid === uid) return { requeueAfterMs: 100 };
    }
    return this.remove(pod, (now) => !isClaimed(now) && controllerOf(now)?.uid === uid, turn);
  }

  /** Reads again, then deletes exactly the version that was read. */
  private async remove(
    pod: KubeObject,
    stillRight: (now: KubeObject) => boolean,
    turn: SetReconcile,
  ): Promise<ReconcileResult> {
    const { name, uid } = pod.metadata;
    const target = refTo(podKind, name);
    if (this.mistake === "deletes-by-name" || this.mistake === "no-precondition") {
      const careless = this.mistake === "deletes-by-name" ? {} : { preconditions: { uid } };
      const outcome = await this.kube.delete(target, careless);
      return outcome.ok ? { requeueAfterMs: 200 } : (reconcileResultOf(outcome) ?? nextStep);
    }
    const fresh = await lookAgain(this.kube, target, { atLeast: laterOf(this.pods.revision, this.sets.revision) });
    if (!fresh.ok) return reconcileResultOf(fresh) ?? nextStep;
    const now = fresh.value.object;
    // A pod that was deleted or changed causes another watch event.
    if (now?.metadata.uid !== uid || isTerminating(now) || !stillRight(now)) return { requeueAfterMs: 200 };
    const why = `${name} is no longer wanted`;
    const intent: Intent = { type: "delete", target, why, expected: expectedOf(now) };
    const gone = effectsOf(now).map(({ key }): Effect<Presence> => ({ key, value: "gone" }));
    return this.carryOut(intent, gone, turn);
  }

  private async reportStatus(set: KubeObject, replicas: number, turn: SetReconcile): Promise<ReconcileResult> {
    const status = (set["status"] ?? {}) as { replicas?: number; observedGeneration?: number };
    const observedGeneration = set.metadata.generation ?? 0;
    const isThere = status.replicas === replicas && status.observedGeneration === observedGeneration;
    if (isThere && this.mistake !== "writes-what-is-there") return undefined;
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

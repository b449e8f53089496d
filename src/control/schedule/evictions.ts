import { type Job, staleSubGroupsOf } from "../../decide/schedule/cluster/job.ts";
import type { Task } from "../../decide/schedule/cluster/task.ts";
import type { Plan, PlannedEviction } from "../../decide/schedule/cycle.ts";
import { whyEvicted } from "../../decide/schedule/explain/explain.ts";
import { evictionKey, type PodEffect } from "../../decide/schedule/model/podEffects.ts";
import type { EvictionReason } from "../../decide/schedule/statement.ts";
import type { Written } from "../../intents/applyIntent.ts";
import { type FreshObject, lookAgain } from "../../intents/lookAgain.ts";
import { type DeleteIntent, expectedOf, keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isPermanent, type Outcome, succeeded } from "../../model/outcome.ts";
import { isAtLeast, laterOf, type Revision } from "../../model/revision.ts";
import { annotationKeys, defaultSchedulerName } from "../../model/scheduling/keys.ts";
import { poolName } from "../../model/scheduling/podGroup.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import { uuid5 } from "../../model/values/uuid5.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import type { Author, InFlightWrites } from "../runtime/inFlightWrites.ts";
import { inParallel } from "../runtime/inParallel.ts";
import { ownerChain } from "./grouper/ownerChain.ts";
import type { GroupMarks } from "./groupMarks.ts";
import { type Change, patchObject } from "./patchObject.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";
import { startBackOff } from "./startBackOff.ts";

/** The author of all writes of scheduling cycles. Watch events of these writes start the next cycle. */
export const cycleAuthor: Author = { name: "cycle", wake: () => {} };
const disruptionTarget = "DisruptionTarget";
/** Plans that are carried out concurrently, and calls of each: enough that one fsync of the API server covers many. */
const plansAtOnce = 32;
const callsAtOnce = 64;
/** How long scheduling waits for the victims of a recorded plan. */
const stuckMsMax = 10_000;
/** The longest back-off of a pod whose eviction the API refuses. */
const leftAloneMsMax = 300_000;

/** A pod that victims are evicted for, and its nominated node. */
interface Preemptor {
  readonly pod: KubeObject;
  readonly node: string;
}

/** The annotation of a victim about its plan. */
interface VictimMark {
  readonly plan: string;
  /** The preemptor that records the plan. */
  readonly holder: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly action: EvictionReason["action"];
}

/**
 * Evicts all victims of a plan or none, also across a crash of this process. The plan is durable before the first
 * eviction:
 *
 *   1  every victim is marked with the plan
 *   2  every preemptor is nominated to its node, the last one with the plan and after all others: the plan is recorded
 *   3  the victims are evicted
 *
 * The next leader finds the annotations: it finishes a recorded plan, and removes the annotations of any other. Every
 * pod is read again first; if one differs from what was decided on, no pod is evicted and the job is decided again.
 */
export class Evictions {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly recorder: EventRecorder;
  private readonly marks: GroupMarks;
  private readonly marked;
  /** Since when victims of recorded plans cannot be evicted, by UID. */
  private readonly stuckSinceMs = new Map<string, number>();
  private readonly inFlight: InFlightWrites<PodEffect>;

  constructor(
    controllers: Controllers,
    caches: SchedulerCaches,
    recorder: EventRecorder,
    marks: GroupMarks,
    inFlight: InFlightWrites<PodEffect>,
  ) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
    this.marks = marks;
    this.inFlight = inFlight;
    this.marked = caches.pods.index(({ metadata }) =>
      metadata.annotations?.[annotationKeys.evictedFor] === undefined ? [] : [""],
    );
  }

  /** True if the cycle has to run again. */
  async carryOut(plan: Plan, revision: Revision, cancel: Cancel): Promise<boolean> {
    const byEvictor = new Map<Job | undefined, PlannedEviction[]>();
    for (const eviction of plan.evictions) {
      const { evictor } = eviction.reason;
      const known = byEvictor.get(evictor);
      if (known === undefined) byEvictor.set(evictor, [eviction]);
      else known.push(eviction);
    }
    let hasFailed = false;
    await inParallel([...byEvictor], plansAtOnce, async ([evictor, evictions]) => {
      if (!(await this.carryOutFor(evictor, evictions, plan, revision, cancel))) hasFailed = true;
    });
    return hasFailed;
  }

  /** True when every victim was evicted. */
  private async carryOutFor(
    evictor: Job | undefined,
    evictions: readonly PlannedEviction[],
    plan: Plan,
    revision: Revision,
    cancel: Cancel,
  ): Promise<boolean> {
    const winners = await this.winnersOf(plan, evictor, revision, cancel);
    const victims = await this.victimsOf(evictions, revision, cancel);
    if (winners === undefined || victims === undefined) return false;
    const action = evictions[0]?.reason.action ?? "preempt";
    if (evictor === undefined && !(await this.isStillStale(evictions, cancel))) return false;
    if (evictor !== undefined && (await this.mustWait(winners, [], evictor, cancel))) return false;
    const going = evictor === undefined ? victims : await this.writeDown(action, victims, winners, cancel);
    if (going === undefined) return false;
    // Read once more just before the eviction: recording the plan took time.
    if (evictor !== undefined && (await this.mustWait(winners, going, evictor, cancel))) return false;
    const gone = await allOf([...evictions.entries()], async ([at, eviction]) => {
      const { task, reason } = eviction;
      const tell = this.evictionOf(eviction);
      const victim = await this.markVictim(going[at] as KubeObject, reason.why, cancel);
      const outcome = await this.evict(victim, reason.why, evictor === undefined, cancel);
      if (!outcome.ok) {
        if (isPermanent(outcome)) this.leaveAlone(task.uid, task.key, outcome.message);
        return undefined;
      }
      tell();
      return victim;
    });
    return gone !== undefined;
  }

  /**
   * Finishes recorded plans and removes the annotations of others. Returns why that could not be done; nothing may be
   * decided before it is.
   */
  async finish(cancel: Cancel): Promise<string | undefined> {
    let problem: string | undefined;
    for (const uid of this.stuckSinceMs.keys()) if (!this.caches.cluster.tasks.has(uid)) this.stuckSinceMs.delete(uid);
    await inParallel(this.marked.get(""), callsAtOnce, async (pod) => {
      problem = (await this.finishOne(pod, cancel)) ?? problem;
    });
    return problem;
  }

  private async finishOne(pod: KubeObject, cancel: Cancel): Promise<string | undefined> {
    const { namespace = "", name, uid } = pod.metadata;
    const { cluster } = this.caches;
    if (pod.metadata.deletionTimestamp !== undefined) return undefined;
    if ((cluster.backOffs.get(uid)?.untilMs ?? 0) > this.nowMs) return undefined;
    const fresh = await this.look(namespace, name, cancel);
    if (!fresh.ok) return fresh.message;
    const { object } = fresh.value;
    if (object === undefined || object.metadata.uid !== uid || object.metadata.deletionTimestamp !== undefined)
      return undefined;
    // The annotation may have been removed since it was observed: the pod is read again.
    const mark = markOf(object);
    if (mark === undefined) return undefined;
    const holder = await this.look(mark.holder.namespace, mark.holder.name, cancel);
    if (!holder.ok) return holder.message;
    const winner = holder.value.object;
    const leaving = await this.whyLeaving(winner === undefined ? [] : [winner], undefined, cancel);
    if (!leaving.ok) return leaving.message;
    const isStanding = leaving.value === undefined && stands(winner, mark) && !this.isGoneSince(winner);
    const why = `it is evicted for pod ${mark.holder.name}`;
    const [task, evictor] = [cluster.tasks.get(uid), cluster.tasks.get(mark.holder.uid)?.job];
    const reason = { action: mark.action, evictor, why };
    const tell = task === undefined ? () => {} : this.evictionOf({ task, reason });
    const outcome = isStanding
      ? await this.evict(object, why, false, cancel)
      : await this.annotate(
          object,
          { [annotationKeys.evictedFor]: null },
          "its eviction plan is not in effect",
          cancel,
        );
    if (outcome.ok || outcome.reason === "NotFound") {
      if (isStanding) this.stuckSinceMs.delete(uid);
      if (outcome.ok && isStanding) tell();
      return undefined;
    }
    // One victim that cannot be evicted must not block all other pods.
    const sinceMs = this.stuckSinceMs.get(uid) ?? this.nowMs;
    this.stuckSinceMs.set(uid, sinceMs);
    if (!isPermanent(outcome) && this.nowMs < sinceMs + stuckMsMax) return outcome.message;
    this.leaveAlone(uid, keyOf(namespace, name), outcome.message);
    return undefined;
  }

  /** Whether the watch has shown the deletion of a pod that was read a moment ago. */
  private isGoneSince(pod: KubeObject | undefined): boolean {
    if (pod === undefined) return true;
    const { namespace, name, uid, resourceVersion } = pod.metadata;
    const { pods } = this.caches;
    return isAtLeast(pods.revision, resourceVersion) && pods.get(keyOf(namespace, name))?.metadata.uid !== uid;
  }

  /**
   * Records the eviction on the victim's group, with its time, and as an Event. The job is read before the call: the
   * watch may show the deletion of the victim before the response arrives.
   */
  private evictionOf(eviction: PlannedEviction): () => void {
    const { task } = eviction;
    const { job } = task;
    if (job === undefined) return () => {};
    const why = whyEvicted(eviction);
    return () => {
      this.recordEviction(eviction, job, why);
      this.marks.evicted(job, this.nowMs);
    };
  }

  /** The pod is no victim for a back-off that doubles each time. */
  private leaveAlone(uid: string, key: string, message: string): void {
    const why = `the eviction was refused: ${message}`;
    startBackOff(this.caches.cluster, uid, { why, nowMs: this.nowMs, longestMs: leftAloneMsMax });
    this.controllers.ports.log.warn({ pod: key, why: message }, "the eviction of a victim was refused");
  }

  private get nowMs(): number {
    return this.controllers.ports.clock.nowMs();
  }

  /**
   * Writes annotations and nominations, in this order. Returns the victims as written; undefined if a write failed.
   */
  private async writeDown(
    action: EvictionReason["action"],
    victims: readonly KubeObject[],
    winners: readonly Preemptor[],
    cancel: Cancel,
  ): Promise<KubeObject[] | undefined> {
    const last = winners.at(-1);
    if (last === undefined) return undefined;
    const holder = last.pod;
    const { namespace = "", name, uid, resourceVersion } = holder.metadata;
    // Each plan has an id of its own, also a second plan for an unchanged pod.
    const plan = uuid5(uid, [resourceVersion, ...victims.map((each) => each.metadata.uid).sort()].join(" "));
    const mark = { [annotationKeys.evictedFor]: `${plan} ${keyOf(namespace, name)} ${uid} ${action}` };
    const marked = await allOf(victims, async (victim) => {
      const outcome = await this.annotate(victim, mark, `it is evicted for pod ${name}`, cancel);
      return outcome.ok ? outcome.value : undefined;
    });
    if (marked === undefined) return undefined;
    const isNominated = async ({ pod, node }: Preemptor): Promise<true | undefined> =>
      (await this.nominate(pod, node, cancel)) ? true : undefined;
    if ((await allOf(winners.slice(0, -1), isNominated)) === undefined) return undefined;
    const written = await this.annotate(holder, { [annotationKeys.plan]: plan }, "pods are evicted for it", cancel);
    const stands = written.ok && written.value !== undefined && (await this.nominate(written.value, last.node, cancel));
    return stands ? marked : undefined;
  }

  /** A preemptor is nominated durably: a restart and later cycles honour the nomination. */
  private async nominate(pod: KubeObject, node: string, cancel: Cancel): Promise<boolean> {
    if ((pod as Pod).status?.nominatedNodeName === node) return true;
    const status = { nominatedNodeName: node };
    const why = `pods are evicted from node ${node} for it`;
    const outcome = await this.patch(pod, { subresource: "status", patch: { status }, why }, cancel);
    if (outcome.ok && outcome.value.object !== undefined) this.caches.model.wrote(outcome.value.object);
    return outcome.ok;
  }

  /**
   * Sets the condition `DisruptionTarget` on the pod, unless the shard disables that; always on pods of
   * `default-scheduler`. A failed write does not stop the eviction.
   */
  private async markVictim(pod: KubeObject, why: string, cancel: Cancel): Promise<KubeObject> {
    const isPlain = (pod as Pod).spec?.schedulerName === defaultSchedulerName;
    if (!isPlain && !this.caches.cluster.settings.marksVictims) return pod;
    const conditions = (pod as Pod).status?.conditions ?? [];
    const known = conditions.find(({ type }) => type === disruptionTarget);
    if (known?.status === "True" && known.message === why) return pod;
    const others = conditions.filter((each) => each !== known);
    const condition = {
      type: disruptionTarget,
      status: "True",
      reason: "PreemptionByScheduler",
      message: why,
      lastTransitionTime: formatTime(this.controllers.ports.clock.nowMs()),
    };
    const status = { conditions: [...others, condition] };
    const change = { subresource: "status", patch: { status }, why: "it is evicted for another pod" } as const;
    const outcome = await this.patch(pod, change, cancel);
    return (outcome.ok ? outcome.value.object : undefined) ?? pod;
  }

  private async annotate(
    pod: KubeObject,
    annotations: Record<string, string | null>,
    why: string,
    cancel: Cancel,
  ): Promise<Outcome<KubeObject | undefined>> {
    const known = pod.metadata.annotations ?? {};
    const isSame = Object.entries(annotations).every(([key, value]) => (known[key] ?? null) === value);
    if (isSame) return { ok: true, value: pod };
    const outcome = await this.patch(pod, { patch: { metadata: { annotations } }, why }, cancel);
    return outcome.ok ? { ok: true, value: outcome.value.object } : outcome;
  }

  private patch(pod: KubeObject, change: Change, cancel: Cancel): Promise<Outcome<Written>> {
    return patchObject(this.controllers.writer, refs.pods, pod, change, cancel);
  }

  /** An eviction of unknown outcome is found again by the annotation of its plan; one without a plan is read again. */
  private evict(pod: KubeObject, why: string, isAlone: boolean, cancel: Cancel): Promise<Outcome<unknown>> {
    const { namespace = "", name, uid } = pod.metadata;
    const intent: DeleteIntent = {
      type: "delete",
      target: { ...refs.pods, namespace, name },
      expected: expectedOf(pod),
      why,
    };
    const effects = [{ key: evictionKey(uid), value: { isEvicted: true } as const }];
    return this.inFlight.commitOne({ intent, effects }, { cancel, ...(isAlone && { author: cycleAuthor }) });
  }

  /** The preemptors as the API has them now; undefined if the plan is no longer in effect. */
  private async winnersOf(
    plan: Plan,
    evictor: Job | undefined,
    revision: Revision,
    cancel: Cancel,
  ): Promise<Preemptor[] | undefined> {
    const promised = plan.jobs.flatMap(({ job, pipelined }) => (job === evictor ? pipelined : []));
    return allOf(promised, async ({ task, node }) => {
      const { ok, pod } = await this.still(task, revision, cancel);
      return ok ? { pod, node } : undefined;
    });
  }

  private async victimsOf(
    evictions: readonly PlannedEviction[],
    revision: Revision,
    cancel: Cancel,
  ): Promise<KubeObject[] | undefined> {
    return allOf(evictions, async ({ task }) => {
      const { ok, pod } = await this.still(task, revision, cancel);
      return ok ? pod : undefined;
    });
  }

  /**
   * Whether no pod may be evicted for these preemptors now. A workload that is being deleted never runs, though its
   * pods are pending until the garbage collector deletes them: the annotations are removed, and the pods back off.
   * Owners that cannot be read are read again before the plan is finished.
   */
  private async mustWait(
    winners: readonly Preemptor[],
    marked: readonly KubeObject[],
    evictor: Job,
    cancel: Cancel,
  ): Promise<boolean> {
    const pods = winners.map(({ pod }) => pod);
    const leaving = await this.whyLeaving(pods, evictor.uid, cancel);
    if (!leaving.ok) return true;
    const why = leaving.value;
    if (why === undefined) return false;
    await inParallel([...marked], callsAtOnce, async (victim) => {
      await this.annotate(victim, { [annotationKeys.evictedFor]: null }, why, cancel);
    });
    for (const { metadata } of pods) {
      startBackOff(this.caches.cluster, metadata.uid, { why, nowMs: this.nowMs, longestMs: leftAloneMsMax });
    }
    return true;
  }

  /**
   * Why these pods are about to be deleted: their group or an owner is deleted or being deleted, as the API has it now.
   */
  private async whyLeaving(
    pods: readonly KubeObject[],
    groupUid: string | undefined,
    cancel: Cancel,
  ): Promise<Outcome<string | undefined>> {
    const { kube } = this.controllers;
    const groups = new Map<string, ObjectRef>();
    const owned = new Map<string, KubeObject>();
    for (const pod of pods) {
      const { namespace = "", annotations, ownerReferences } = pod.metadata;
      const name = annotations?.[annotationKeys.podGroup];
      if (name !== undefined) groups.set(keyOf(namespace, name), { ...refs.groups, namespace, name });
      if (ownerReferences !== undefined) owned.set(JSON.stringify([namespace, ownerReferences]), pod);
    }
    for (const ref of groups.values()) {
      const found = await kube.get(ref, { cancel });
      if (!found.ok && found.reason !== "NotFound") return found;
      const now = found.ok ? found.value.metadata : undefined;
      if (now === undefined) return succeeded(`PodGroup ${ref.name} was deleted`);
      if (now.deletionTimestamp !== undefined) return succeeded(`PodGroup ${ref.name} is being deleted`);
      if (groupUid !== undefined && now.uid !== groupUid)
        return succeeded(`PodGroup ${ref.name} was deleted and created again`);
    }
    for (const pod of owned.values()) {
      const chain = await ownerChain(kube, pod, cancel);
      if (!chain.ok) return chain;
      if (chain.value.going !== undefined) return succeeded(chain.value.going);
    }
    return succeeded(undefined);
  }

  /** The group records since when a gang is stale: the cached value may have been removed by this process itself. */
  private async isStillStale(evictions: readonly PlannedEviction[], cancel: Cancel): Promise<boolean> {
    const jobs = new Set(evictions.map(({ task }) => task.job).filter((job) => job !== undefined));
    const still = await allOf([...jobs], async (job) => {
      const target = { ...refs.groups, namespace: job.namespace, name: job.name };
      const fresh = await lookAgain(this.controllers.kube, target, { atLeast: this.caches.groups.revision, cancel });
      const now = fresh.ok ? fresh.value.object?.metadata : undefined;
      if (now?.uid !== job.uid) return undefined;
      const graceMs = job.stalenessGraceMs ?? this.caches.cluster.settings.stalenessGraceMs;
      const sinceMs = [
        timeToMs(now.annotations?.[annotationKeys.staleSince]),
        ...staleSubGroupsOf(now.annotations).values(),
      ];
      return sinceMs.some((each) => each !== undefined && each + graceMs <= this.nowMs) ? true : undefined;
    });
    return still !== undefined;
  }

  /** The same pod, on the same node, not deleted. */
  private async still(
    { namespace, name, uid, pod: decidedOn }: Task,
    revision: Revision,
    cancel: Cancel,
  ): Promise<{ ok: true; pod: KubeObject } | { ok: false; pod?: never }> {
    const outcome = await this.look(namespace, name, cancel, revision);
    const pod = outcome.ok ? outcome.value.object : undefined;
    if (pod?.metadata.uid !== uid || pod.metadata.deletionTimestamp !== undefined) return { ok: false };
    // Another scheduler may have bound the preemptor meanwhile.
    const { spec } = pod as Pod;
    return spec?.nodeName === decidedOn.spec?.nodeName ? { ok: true, pod } : { ok: false };
  }

  private look(
    namespace: string,
    name: string,
    cancel: Cancel,
    atLeast: Revision = this.caches.pods.revision,
  ): Promise<Outcome<FreshObject>> {
    const floor = laterOf(this.caches.pods.revision, atLeast);
    return lookAgain(this.controllers.kube, { ...refs.pods, namespace, name }, { atLeast: floor, cancel });
  }

  private recordEviction({ task, reason }: PlannedEviction, job: Job, why: string): void {
    this.controllers.ports.metrics.count("kai_pod_group_evicted_pods_total", {
      podgroup: job.name,
      namespace: task.namespace,
      uid: job.uid,
      nodepool: poolName(this.caches.cluster.settings.nodePool),
      action: reason.action,
    });
    const related = reason.evictor === undefined ? {} : { related: reason.evictor.owner };
    this.recorder.record(task.pod, { type: "Warning", reason: "Evicted", action: "Evicting", note: why, ...related });
    if (!job.isGroup) return;
    this.recorder.record(job.owner, {
      type: "Normal",
      reason: "Evict",
      action: "Evicting",
      note: `pod ${task.key}: ${why}`,
      ...related,
      annotations: {
        "num-evicted-pods": "1",
        "evictor-action-type": reason.action,
        ...(reason.evictor !== undefined && {
          "evictor-pod-group-name": reason.evictor.name,
          "evictor-pod-group-namespace": reason.evictor.namespace,
        }),
      },
    });
  }
}

/** Maps each item in order; undefined if the result of one is undefined. */
async function allOf<T, R extends object | true>(
  all: readonly T[],
  run: (each: T) => Promise<R | undefined>,
): Promise<R[] | undefined> {
  const results: (R | undefined)[] = [];
  await inParallel([...all.entries()], callsAtOnce, async ([at, each]) => {
    results[at] = await run(each);
  });
  return results.every((each) => each !== undefined) ? (results as R[]) : undefined;
}

function markOf({ metadata }: KubeObject): VictimMark | undefined {
  const [plan = "", key = "", uid = "", action = "preempt"] = (
    metadata.annotations?.[annotationKeys.evictedFor] ?? ""
  ).split(" ");
  const [namespace = "", name = ""] = key.split("/");
  return plan === "" || name === ""
    ? undefined
    : { plan, holder: { namespace, name, uid }, action: action as EvictionReason["action"] };
}

/** Whether the preemptor is still pending, and with this plan. */
function stands(holder: KubeObject | undefined, { plan, holder: { uid } }: VictimMark): boolean {
  if (holder === undefined || holder.metadata.uid !== uid || holder.metadata.deletionTimestamp !== undefined)
    return false;
  const { spec, status } = holder as Pod;
  if ((spec?.nodeName ?? "") !== "" || status?.nominatedNodeName === undefined) return false;
  return holder.metadata.annotations?.[annotationKeys.plan] === plan;
}

import type { Plan, PlannedEviction } from "../../decide/schedule/cycle.ts";
import type { Job } from "../../decide/schedule/job.ts";
import { applyIntent } from "../../intents/applyIntent.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { type DeleteIntent, expectedOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/object.ts";
import { laterOf, type Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../controllers.ts";
import type { EventRecorder } from "../eventRecorder.ts";
import type { GroupMarks } from "./groupMarks.ts";
import { evictionKey, refs, type ScheduleWorld } from "./scheduleWorld.ts";

/**
 * Evicts what a plan has to evict, all of it or none. Every victim is read again first, and whoever it is evicted for too: if any of
 * them is not what was decided on, nobody goes and the whole is decided again. Whoever they go for is promised the place before the
 * first of them goes: a promise that cannot be written costs nobody anything. True when something has to be looked at again.
 */
export async function evictVictims(
  controllers: Controllers,
  world: ScheduleWorld,
  recorder: EventRecorder,
  marks: GroupMarks,
  plan: Plan,
  revision: Revision,
  cancel: Cancel,
): Promise<boolean> {
  const byEvictor = new Map<Job | undefined, PlannedEviction[]>();
  for (const eviction of plan.evictions) {
    const { evictor } = eviction.reason;
    const known = byEvictor.get(evictor);
    if (known === undefined) byEvictor.set(evictor, [eviction]);
    else known.push(eviction);
  }
  let hasFailed = false;
  for (const [evictor, evictions] of byEvictor) {
    const fresh = await lookAtAll(controllers, world, evictions, plan, evictor, revision, cancel);
    if (fresh === undefined || !(await promise(controllers, fresh.winners, cancel))) {
      hasFailed = true;
      continue;
    }
    for (const [at, { task, reason }] of evictions.entries()) {
      const intent = deletionOf(fresh.victims[at] as KubeObject, reason.why);
      if (world.picture.decide(intent, [{ key: evictionKey(task.uid), value: { isEvicted: true } }]) === "stale") {
        hasFailed = true;
        continue;
      }
      const attempt = world.picture.send(intent);
      if (attempt === undefined) continue;
      const outcome = await applyIntent(controllers.kube, intent, { cancel });
      world.picture.answer(intent, outcome, attempt);
      if (outcome.ok) {
        tell(recorder, controllers, evictions, at);
        if (task.job !== undefined) marks.evicted(task.job, controllers.ports.clock.nowMs());
      }
      if (!outcome.ok) hasFailed = true;
    }
  }
  return hasFailed;
}

/** A pod that others are evicted for, and where it will go. */
interface Winner {
  readonly pod: KubeObject;
  readonly node: string;
}

/** Everybody as the API has them now; undefined when the plan no longer stands. */
async function lookAtAll(
  controllers: Controllers,
  world: ScheduleWorld,
  evictions: readonly PlannedEviction[],
  plan: Plan,
  evictor: Job | undefined,
  atLeast: Revision,
  cancel: Cancel,
): Promise<{ readonly victims: readonly KubeObject[]; readonly winners: readonly Winner[] } | undefined> {
  const floor = laterOf(world.pods.revision, atLeast);
  const read = async (namespace: string, name: string, uid: string): Promise<KubeObject | undefined> => {
    const outcome = await lookAgain(controllers.kube, { ...refs.pods, namespace, name }, { atLeast: floor, cancel });
    if (!outcome.ok || outcome.value.object?.metadata.uid !== uid) return undefined;
    return outcome.value.object;
  };
  const winners: Winner[] = [];
  for (const { job, pipelined } of plan.jobs) {
    if (job !== evictor) continue;
    for (const { task, node } of pipelined) {
      const pod = await read(task.namespace, task.name, task.uid);
      if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return undefined;
      winners.push({ pod, node });
    }
  }
  const victims: KubeObject[] = [];
  for (const { task } of evictions) {
    const pod = await read(task.namespace, task.name, task.uid);
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return undefined;
    if ((pod as unknown as Pod).spec?.nodeName !== task.pod.spec?.nodeName) return undefined;
    victims.push(pod);
  }
  return { victims, winners };
}

function deletionOf(pod: KubeObject, why: string): DeleteIntent {
  const { namespace = "", name } = pod.metadata;
  return { type: "delete", target: { ...refs.pods, namespace, name }, expected: expectedOf(pod), why };
}

/** Whoever somebody is evicted for is promised the place, durably: a restart and another cycle keep the promise. False: not all are. */
async function promise(controllers: Controllers, winners: readonly Winner[], cancel: Cancel): Promise<boolean> {
  for (const { pod, node } of winners) {
    if ((pod as unknown as Pod).status?.nominatedNodeName === node) continue;
    const { namespace = "", name } = pod.metadata;
    const outcome = await applyIntent(
      controllers.kube,
      {
        type: "patch",
        target: { ...refs.pods, namespace, name },
        subresource: "status",
        expected: expectedOf(pod),
        patch: { status: { nominatedNodeName: node } },
        why: `others are evicted from ${node} for it`,
      },
      { cancel },
    );
    if (!outcome.ok) return false;
  }
  return true;
}

function tell(
  recorder: EventRecorder,
  { ports }: Controllers,
  evictions: readonly PlannedEviction[],
  at: number,
): void {
  const { task, reason } = evictions[at] as PlannedEviction;
  const { job } = task;
  ports.metrics.count("kai_pod_group_evicted_pods_total", {
    podgroup: job?.name ?? "",
    namespace: task.namespace,
    uid: job?.uid ?? "",
    nodepool: "",
    action: reason.action,
  });
  if (job === undefined) return;
  recorder.record(job.owner as unknown as KubeObject, {
    type: "Normal",
    reason: "Evict",
    action: "Evicting",
    note: `pod ${task.key}: ${reason.why}`,
    ...(reason.evictor !== undefined && { related: reason.evictor.owner as unknown as KubeObject }),
  });
}

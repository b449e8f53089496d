import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Outcome } from "../../src/model/outcome.ts";
import { kaiSchedulerName, labelKeys } from "../../src/model/scheduling/keys.ts";
import { type Queue, queueApiVersion, queueRef } from "../../src/model/scheduling/queue.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, kinds, plain } from "../../src/sim/sceneKit.ts";
import { gpuPod, gpusOf, makeNode, nodeOf } from "../scheduling/schedulerScene.ts";

/**
 * The common scenario of races about quota: a queue with a limit, a node with more GPUs than that, and a minimal
 * scheduler that counts usage.
 */

export const team = "team";

/** A node with eight GPUs, and a queue that may have fewer. */
export async function makeTeam(kube: KubeApi, limit: number): Promise<void> {
  await makeNode(kube, "n1", 8);
  const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const resources = { gpu: { quota: limit, limit, overQuotaWeight: 1 }, cpu: open, memory: open };
  await kube.create(queueRef, plain(queueApiVersion, "Queue", "", team, { spec: { resources } }));
}

/** A pod of the queue that requests one GPU. */
export function teamPod(name: string, words: Parameters<typeof gpuPod>[1] = {}): KubeObject {
  const made = gpuPod(name, { schedulerName: kaiSchedulerName, ...words });
  return { ...made, metadata: { ...made.metadata, labels: { [labelKeys.queue]: team } } };
}

export function isWaiting(found: KubeObject | undefined): found is KubeObject {
  return found !== undefined && nodeOf(found) === "" && found.metadata.deletionTimestamp === undefined;
}

export function hasEnded(found: KubeObject): boolean {
  const { phase } = (found as unknown as Pod).status ?? {};
  return phase === "Succeeded" || phase === "Failed";
}

export function limitOf(queue: KubeObject | undefined): number {
  return (queue as unknown as Queue | undefined)?.spec.resources?.gpu?.limit ?? 0;
}

/** The usage counters of a minimal scheduler. Each race has a bug in one of these. */
export interface Books {
  /** GPUs of the queue that count as allocated. */
  used(): number;
  limit(): number;
  /** Wraps one bind and counts it. */
  give(pod: KubeObject, bind: () => Promise<Outcome<undefined>>): Promise<Outcome<undefined>>;
}

/** Binds pods one by one within the quota; a pod beyond the quota is requeued. */
export function bookkeeper(controllers: Controllers, ports: ActorPorts, books: Books): void {
  const pods = controllers.cache(kinds.pods);
  controllers.add({
    name: "scheduler",
    concurrency: 4,
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (!isWaiting(found) || hasEnded(found)) return undefined;
      if (books.used() + gpusOf(found) > books.limit()) return { requeueAfterMs: 100 };
      const { name, uid } = found.metadata;
      const outcome = await books.give(found, () => ports.kube.bind(at(kinds.pods, name), { node: "n1", uid }));
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const podsOf = (store: Parameters<Invariant["begin"]>[0]["store"]): KubeObject[] =>
  [...store.collection("/pods").all()].map((version) => version.object());

const queueOf = (store: Parameters<Invariant["begin"]>[0]["store"]): KubeObject | undefined =>
  store.get("scheduling.run.ai/queues", "", team)?.object();

/** Counted from the pods, after every bind. */
export const withinLimit: Invariant = {
  id: "I10",
  fact: "the pods of a queue never have more GPUs than it may have",
  begin: ({ store }) => ({
    commit: ({ event, type }) => {
      if (event.current.resource !== "/pods" || type !== "MODIFIED") return undefined;
      if (nodeOf(event.current.object()) === "" || nodeOf(event.previous?.object() ?? event.current.object()) !== "")
        return undefined;
      let used = 0;
      for (const each of podsOf(store)) if (nodeOf(each) !== "" && !hasEnded(each)) used += gpusOf(each);
      const limit = limitOf(queueOf(store));
      return used > limit ? `the queue may have ${limit} GPUs, and its pods have ${used}` : undefined;
    },
  }),
};

/** A pod that is pending at rest while quota is unused would be pending for ever. */
export const quotaIsUsed: Invariant = {
  id: "I10",
  fact: "at rest no pod is pending while its queue has unused quota for it",
  begin: ({ store }) => ({
    atRest: () => {
      const pods = podsOf(store).filter((each) => !hasEnded(each));
      let used = 0;
      for (const each of pods) if (nodeOf(each) !== "") used += gpusOf(each);
      const limit = limitOf(queueOf(store));
      const waiting = pods.find((each) => nodeOf(each) === "" && used + gpusOf(each) <= limit);
      return waiting === undefined
        ? undefined
        : `${waiting.metadata.name} waits, and the queue uses ${used} of ${limit} GPUs`;
    },
  }),
};

/** Classic bugs in counting the pods of a gang: seeds must find each of them. */
import { breachType, cliqueBreach, scheduledType } from "../../decide/gang/breach.ts";
import { isErrored, isScheduled, isStartedNotReady } from "../../decide/gang/cliques/podClasses.ts";
import { gangResources } from "../../model/gang/keys.ts";
import type { PodClique } from "../../model/gang/types.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { Mistake } from "../mistake.ts";

/** Counts a bound pod as long as its object exists, whatever the state of its node. */
export const countsWhateverIsBound: Mistake = {
  name: "counts-whatever-is-bound",
  invariant: "I4",
  kube: ({ kube }) => ({
    update: async (ref, object, options) => {
      if (ref.plural !== gangResources.PodClique.plural || ref.subresource !== "status")
        return kube.update(ref, object, options);
      const [found, stored] = [
        await kube.list(gangResources.Pod, { namespace: ref.namespace }),
        await kube.get({ ...ref, subresource: "" }),
      ];
      if (!found.ok) return found;
      if (!stored.ok) return stored;
      const own = found.value.items.filter(({ metadata }) => controllerOf(metadata)?.uid === object.metadata.uid);
      return kube.update(ref, counting(object, stored.value, own), options);
    },
  }),
};

export const gangMistakes: readonly Mistake[] = [
  countsWhateverIsBound,
  {
    // When no node reports, no pod is evicted: an operator that reads only pods never notices the loss.
    name: "waits-for-evictions",
    invariant: "I4",
    kube: ({ kube }) => ({
      list: async (kind, options) => {
        const found = await kube.list(kind, options);
        if (!found.ok || kind.plural !== "nodes") return found;
        return { ok: true, value: { ...found.value, items: found.value.items.map(alwaysReady) } };
      },
      watch: (kind, options, sink) =>
        kube.watch(kind, options, {
          event: (event) =>
            sink.event(
              event.type === "BOOKMARK" || kind.plural !== "nodes"
                ? event
                : { ...event, object: alwaysReady(event.object) },
            ),
          ended: (why) => sink.ended(why),
        }),
    }),
  },
];

function alwaysReady<T extends KubeObject>(node: T): T {
  const status = node["status"] as { conditions?: { type: string }[] } | undefined;
  const conditions = (status?.conditions ?? []).map((each) =>
    each.type === "Ready" ? { ...each, status: "True" } : each,
  );
  return { ...node, status: { ...status, conditions } };
}

/** The status without regard to terminating pods and lost nodes. */
function counting<T extends KubeObject>(object: T, stored: T, pods: readonly Pod[]): T {
  const { spec, status: { scheduleLoss: recorded, ...status } = {} } = object as KubeObject as PodClique;
  const minAvailable = spec.minAvailable ?? spec.replicas;
  const bound = pods.filter(isScheduled);
  const scheduled = bound.length;
  const readyOrStarting = bound.filter((pod) => !isErrored(pod) && !isStartedNotReady(pod)).length;
  const { updateProgress } = status;
  const isUpdating = updateProgress !== undefined && updateProgress.updateEndedAt === undefined;
  const breach = cliqueBreach({ minAvailable, isUpdating, counts: { scheduled, readyOrStarting } }, "Suppress");
  const conditions = (status.conditions ?? []).map((condition) => {
    if (condition.type === breachType) return { ...condition, ...breach };
    if (condition.type !== scheduledType) return condition;
    return { ...condition, status: scheduled >= minAvailable ? ("True" as const) : ("False" as const) };
  });
  // While a pod counts as scheduled, there is no loss to record.
  const scheduleLoss = scheduled > 0 ? (stored as KubeObject as PodClique).status?.scheduleLoss : recorded;
  const next = { ...status, scheduledReplicas: scheduled, conditions, ...(scheduleLoss && { scheduleLoss }) };
  return { ...object, status: next };
}

/** Classic bugs of schedulers: seeds must find each of them. */
import type { ControllerOptions } from "../../control/runtime/controller.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import type { SchedulerCaches } from "../../control/schedule/schedulerCaches.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { refused } from "../../model/outcome.ts";
import { bindRequestRef } from "../../model/scheduling/bindRequest.ts";
import { formatTime } from "../../model/values/time.ts";
import type { KubeApi, Patch } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";
import type { Mistake } from "../mistake.ts";

/** `kube` is the API of schedulers and binder. */
export interface ScheduleMistake extends Mistake {
  /** Changes the cycles of a scheduler. */
  readonly turns?: (options: ControllerOptions, ports: ActorPorts) => ControllerOptions;
  /** Changes what a scheduler knows of its watches. */
  readonly caches?: (caches: SchedulerCaches) => void;
}

export const scheduleMistakes: readonly ScheduleMistake[] = [
  {
    // Another pod may have that name by now.
    name: "binds-by-name",
    invariant: "I7",
    kube: ({ kube }) => ({
      bind: (ref, { resourceVersion: _, ...target }, options) => kube.bind(ref, { ...target, uid: "" }, options),
    }),
  },
  {
    // The BindRequest of a share that is withdrawn is never deleted.
    name: "keeps-requests",
    invariant: "I11",
    kube: ({ kube }) => ({
      patch: async (ref, patch, options) => {
        const { metadata } = patch.body as Partial<KubeObject>;
        const isLetGo = ref.plural === bindRequestRef.plural && metadata?.finalizers === null;
        return isLetGo ? kube.get(ref, options) : kube.patch(ref, patch, options);
      },
    }),
  },
  {
    // A message that differs every time is written every time, so the cluster never becomes quiescent.
    name: "says-the-time",
    invariant: "I17",
    kube: ({ kube, clock }) => ({
      patch: (ref, patch, options) => kube.patch(ref, withTime(patch, clock.nowMs()), options),
    }),
    turns: (options) => {
      if (options.name !== "scheduler-status") return options;
      const reconcile: ControllerOptions["reconcile"] = async (key, turn) =>
        (await options.reconcile(key, turn)) ?? { requeueAfterMs: 16_000 };
      return { ...options, reconcile };
    },
  },
  {
    // Watch events within the interval are dropped, also the last one of a burst.
    name: "drops-bursts",
    invariant: "I19",
    turns: (options, { clock }) => {
      if (options.name !== "scheduler") return options;
      let lastMs = Number.NEGATIVE_INFINITY;
      const reconcile: ControllerOptions["reconcile"] = (key, turn) => {
        if (clock.monotonicMs() < lastMs + 500) return undefined;
        lastMs = clock.monotonicMs();
        return options.reconcile(key, turn);
      };
      return { ...options, reconcile };
    },
  },
  {
    // After an outage each watch ends its own back-off, and pods are placed by nodes that are not watched meanwhile.
    name: "trusts-broken-watches",
    invariant: "I5",
    caches: ({ neededWatches, nodes }) => {
      for (const cache of neededWatches)
        Object.defineProperties(cache, { isFollowed: { get: () => true }, breaks: { get: () => 0 } });
      Object.assign(nodes, { retrySoon: () => {}, probe: () => false });
    },
  },
];

/** An owner that is not found is treated like one that must not be read: its pods are grouped again. */
export function ownersMayBeThere(kube: KubeApi): KubeApi["get"] {
  return async (ref, options) => {
    const found = await kube.get(ref, options);
    return ref.plural === "jobs" && !found.ok && found.reason === "NotFound"
      ? refused("Forbidden", found.message)
      : found;
  };
}

/** Controllers that replace the cycle of the scheduler that is added to them. */
export function mistakenControllers(
  controllers: Controllers,
  ports: ActorPorts,
  mistake: ScheduleMistake | undefined,
): Controllers {
  const turns = mistake?.turns;
  if (turns === undefined) return controllers;
  const add: Controllers["add"] = (options) => controllers.add(turns(options, ports));
  return Object.create(controllers, { add: { value: add } }) as Controllers;
}

function withTime<T extends KubeObject>(patch: Patch<T>, nowMs: number): Patch<T> {
  if (patch.type !== "merge") return patch;
  const { status } = patch.body as { status?: Pod["status"] };
  if (status?.conditions === undefined) return patch;
  const conditions = status.conditions.map((each) => ({ ...each, message: `${each.message} (${formatTime(nowMs)})` }));
  return { ...patch, body: { ...patch.body, status: { ...status, conditions } } };
}

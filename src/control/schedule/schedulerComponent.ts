import { defaultSettings, type Settings } from "../../decide/schedule/settings.ts";
import { liveRetryLimits } from "../../decide/schedule/waiting/retryLimits.ts";
import { schedulingDefinitions } from "../../model/scheduling/definitions.ts";
import { schedulingHooks } from "../../model/scheduling/hooks.ts";
import { shippedPriorityClasses } from "../../model/scheduling/podGroup.ts";
import { quickStartQueues } from "../../model/scheduling/queue.ts";
import type { Component } from "../runtime/component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { forMapped, forObject, kindSource } from "../runtime/sources.ts";
import { DeviceHealthReconciler } from "./deviceHealthReconciler.ts";
import { EndedBindRequests } from "./endedBindRequests.ts";
import { EvictionPlanReconciler } from "./evictionPlanReconciler.ts";
import { PodGrouper } from "./grouper/podGrouper.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";
import { addShard, type ShardOptions } from "./shard.ts";
import { addShardReconciler } from "./shardReconciler.ts";

/** The concurrency of reconciles that write for each pod: enough that one fsync of the API server covers many. */
const writesAtOnce = 64;

/**
 * Queues, gangs and shares of GPUs for pods of `kai-scheduler`; Kubernetes' own rules for those of `default-scheduler`.
 */
export function schedulerComponent(given: Partial<Settings> = {}, options: ShardOptions = {}): Component {
  const settings: Settings = { ...defaultSettings, retryLimits: liveRetryLimits, ...given };
  return {
    name: "scheduler",
    about: "schedules pods: queues, gangs, GPU shares, and plain pods",
    definitions: schedulingDefinitions,
    startObjects: [
      ...shippedPriorityClasses.map(({ name, value }) => ({
        apiVersion: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        metadata: { name },
        value,
      })),
      ...quickStartQueues(),
    ],
    hooks: schedulingHooks(),
    add: (controllers) => addScheduler(controllers, settings, options),
  };
}

export function addScheduler(
  controllers: Controllers,
  settings: Settings,
  options: ShardOptions = {},
): SchedulerCaches {
  const first = addShard(controllers, settings, options);
  const { caches, recorder } = first;
  const allCaches = settings.readsShards ? addShardReconciler(controllers, first, settings, options) : () => [caches];
  const grouper = new PodGrouper(controllers, recorder, settings.readsShards);
  controllers.add({
    name: "pod-grouper",
    concurrency: writesAtOnce,
    sources: [kindSource(caches.pods, forObject(), ({ object }) => grouper.isOurs(object))],
    reconcile: (key, { cancel }) => grouper.reconcile(key, cancel),
  });
  const plans = new EvictionPlanReconciler(controllers, caches);
  controllers.add({
    name: "eviction-plans",
    concurrency: 16,
    sources: [kindSource(caches.pods, forObject(), ({ object }) => plans.isOver(object))],
    reconcile: (key, { cancel }) => plans.reconcile(key, cancel),
  });
  const health = new DeviceHealthReconciler(controllers, caches, recorder);
  controllers.add({
    name: "device-health",
    sources: [kindSource(caches.pods, forObject(), ({ key, object }) => health.isConcerned(key, object))],
    reconcile: (key) => health.reconcile(key),
  });
  const requests = new EndedBindRequests(controllers, caches, allCaches);
  controllers.add({
    name: "bind-requests",
    concurrency: 4,
    sources: [
      kindSource(
        caches.requests,
        forMapped((object) => [requests.setOf(object)]),
      ),
      kindSource(
        caches.pods,
        forMapped(({ metadata }) => {
          const request = caches.requests.get(`${metadata.namespace}/${metadata.name}`);
          return request === undefined ? [] : [requests.setOf(request)];
        }),
      ),
      kindSource(caches.nodes, (event) => {
        if (event.type !== "deleted") return [];
        const gone: string[] = [];
        for (const object of caches.requests.table.view().objects.values()) {
          const spec = object["spec"] as { selectedNode?: string } | undefined;
          if (spec?.selectedNode === event.key) gone.push(requests.setOf(object));
        }
        return gone;
      }),
    ],
    reconcile: (key, { cancel }) => requests.reconcile(key, cancel),
  });
  return caches;
}

import { defaultSettings, type Settings } from "../../decide/schedule/settings.ts";
import { schedulingDefinitions } from "../../model/scheduling/definitions.ts";
import { schedulingHooks } from "../../model/scheduling/hooks.ts";
import { shippedPriorityClasses } from "../../model/scheduling/podGroup.ts";
import { quickStartQueues } from "../../model/scheduling/queue.ts";
import type { Component } from "../component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { forMapped, forObject, kindSource } from "../runtime/sources.ts";
import { BindRequestReconciler } from "./bindRequestReconciler.ts";
import { EvictionPlanReconciler } from "./evictionPlanReconciler.ts";
import { GroupReconciler } from "./podGrouper.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";
import { addShard, type ShardOptions } from "./shard.ts";
import { addShardReconciler } from "./shardReconciler.ts";

/** Turns that write for each pod: enough at once that one sync of the disk carries many of them. */
const writesAtOnce = 256;

/**
 * Queues, gangs and shares of GPUs for pods of `kai-scheduler`; Kubernetes' own rules for those of `default-scheduler`.
 */
export function schedulerComponent(given: Partial<Settings> = {}, options: ShardOptions = {}): Component {
  const settings: Settings = { ...defaultSettings, ...given };
  return {
    name: "scheduler",
    about: "places pods: queues, gangs, shares of GPUs, and plain pods",
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
  const { world, recorder } = first;
  const worlds = settings.readsShards ? addShardReconciler(controllers, first, settings, options) : () => [world];
  const groups = new GroupReconciler(controllers, recorder, settings.readsShards);
  controllers.add({
    name: "pod-grouper",
    concurrency: writesAtOnce,
    sources: [kindSource(world.pods, forObject(), ({ object }) => groups.isOurs(object))],
    reconcile: (key, { cancel }) => groups.turn(key, cancel),
  });
  const plans = new EvictionPlanReconciler(controllers, world);
  controllers.add({
    name: "eviction-plans",
    concurrency: 16,
    sources: [kindSource(world.pods, forObject(), ({ object }) => plans.isOver(object))],
    reconcile: (key, { cancel }) => plans.turn(key, cancel),
  });
  const requests = new BindRequestReconciler(controllers, world, worlds);
  controllers.add({
    name: "bind-requests",
    concurrency: 4,
    sources: [
      kindSource(
        world.requests,
        forMapped((object) => [requests.setOf(object)]),
      ),
      kindSource(
        world.pods,
        forMapped(({ metadata }) => {
          const request = world.requests.get(`${metadata.namespace}/${metadata.name}`);
          return request === undefined ? [] : [requests.setOf(request)];
        }),
      ),
      kindSource(world.nodes, (event) => {
        if (event.type !== "deleted") return [];
        const gone: string[] = [];
        for (const object of world.requests.table.view().objects.values()) {
          const spec = object["spec"] as { selectedNode?: string } | undefined;
          if (spec?.selectedNode === event.key) gone.push(requests.setOf(object));
        }
        return gone;
      }),
    ],
    reconcile: (key, { cancel }) => requests.turn(key, cancel),
  });
  return world;
}

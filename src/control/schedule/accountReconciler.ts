import { groupResources, queueRequests, queueStatus } from "../../decide/schedule/queues/accounts.ts";
import { classesOfQueues } from "../../decide/schedule/queues/classAmounts.ts";
import { type ChosenLabel, chosenLabels, metricLabelsOf } from "../../decide/schedule/queues/queueMetricLabels.ts";
import { expectedOf } from "../../model/intent.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { Queue } from "../../model/scheduling/queue.ts";
import { unlimited } from "../../model/scheduling/queue.ts";
import { type KaiConfig, kaiConfigName } from "../../model/scheduling/schedulingShard.ts";
import type { Cancel } from "../../ports/cancel.ts";

import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/** The shortest time between two writes of one status: a burst of pods causes one write. */
const statusEveryMs = 1_000;

/**
 * Writes the allocated and requested resources of PodGroups and queues to their status, and exports them as metrics.
 */
export class AccountReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly dueMs = new Map<string, number>();
  /** Undefined where the Config resource is not read. */
  private readonly configs: ObjectCache | undefined;
  private chosen: readonly ChosenLabel[] | undefined;

  constructor(controllers: Controllers, caches: SchedulerCaches, configs?: ObjectCache) {
    this.controllers = controllers;
    this.caches = caches;
    this.configs = configs;
  }

  /** Read from the Config when the first queue is measured: a metric keeps its labels. */
  private get chosenLabels(): readonly ChosenLabel[] {
    this.chosen ??= chosenLabels((this.configs?.get(kaiConfigName) as KaiConfig | undefined)?.spec);
    return this.chosen;
  }

  /** The number of objects with a status write that is still to come. */
  get waits(): number {
    return this.dueMs.size;
  }

  /** Whether a status write of the object is still to come, which will include this change. */
  isAwaited(key: string): boolean {
    const dueMs = this.dueMs.get(key);
    return dueMs !== undefined && this.controllers.ports.clock.nowMs() < dueMs;
  }

  async reconcileGroup(id: string, cancel: Cancel): Promise<ReconcileResult> {
    const { cluster } = this.caches;
    const job = cluster.jobs.get(id);
    const group = this.caches.groups.get(id);
    if (job === undefined || group === undefined) {
      this.dueMs.delete(`group ${id}`);
      return undefined;
    }
    const waitMs = this.waitMs(`group ${id}`);
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    this.caches.model.applyAssumed();
    const wanted = groupResources(cluster, job);
    const known = group.status?.resourcesStatus;
    if (equalFields(known, wanted)) return undefined;
    return this.patch(refs.groups, group, { resourcesStatus: replaced(known, wanted) }, cancel);
  }

  /**
   * All queues at once, from one snapshot. An event does not say which queues it changes: when a group is deleted with
   * its last pod, the name of its queue is no longer known.
   */
  async reconcileQueues(cancel: Cancel): Promise<ReconcileResult> {
    const { cluster, queues } = this.caches;
    const waitMs = this.waitMs("queues");
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    this.caches.model.applyAssumed();
    cluster.refresh(this.controllers.ports.clock.nowMs());
    const requests = queueRequests(cluster);
    const classes = classesOfQueues(cluster);
    const told: { readonly object: KubeObject; readonly status: object }[] = [];
    for (const [queue, requested] of requests) {
      const object = queues.get(queue.name);
      if (object === undefined) continue;
      const wanted = queueStatus(queue, requested, classes.get(queue));
      this.measure(object, queue.allocated[0] / 1000, wanted.allocated ?? {});
      const { conditions: _, ...known } = object.status ?? {};
      if (!equalFields(known, wanted)) told.push({ object, status: replaced(known, wanted) });
    }
    let result: ReconcileResult;
    for (const { object, status } of told) {
      result = (await this.patch(refs.queues, object, status, cancel)) ?? result;
    }
    return result;
  }

  /** The first change of a burst starts the wait; the write at its end includes all changes. */
  private waitMs(key: string): number {
    const nowMs = this.controllers.ports.clock.nowMs();
    const dueMs = this.dueMs.get(key);
    if (dueMs === undefined) {
      this.dueMs.set(key, nowMs + statusEveryMs);
      return statusEveryMs;
    }
    if (nowMs < dueMs) return dueMs - nowMs;
    this.dueMs.delete(key);
    return 0;
  }

  private async patch(ref: Resource, object: KubeObject, status: object, cancel: Cancel): Promise<ReconcileResult> {
    const { namespace = "", name } = object.metadata;
    const outcome = await this.controllers.writer.apply(
      {
        type: "patch",
        target: { ...ref, namespace, name },
        subresource: "status",
        expected: expectedOf(object),
        patch: { status },
        why: "its allocated and requested resources have changed",
      },
      { cancel },
    );
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  private measure({ metadata, spec }: Queue, gpus: number, allocated: Readonly<Record<string, string>>): void {
    const { metrics } = this.controllers.ports;
    const labels = {
      queue_name: metadata.name,
      queue_metadata_name: metadata.name,
      queue_display_name: spec.displayName ?? "",
      ...metricLabelsOf(metadata, this.chosenLabels),
    };
    const { gpu, cpu, memory } = spec.resources ?? {};
    metrics.gauge("kai_queue_info", labels, 1);
    metrics.gauge("kai_queue_deserved_gpus", labels, gpu?.quota ?? 0);
    metrics.gauge("kai_queue_quota_cpu_cores", labels, scaled(cpu?.quota, 1 / 1000));
    metrics.gauge("kai_queue_quota_memory_bytes", labels, scaled(memory?.quota, 1_000_000));
    metrics.gauge("kai_queue_allocated_gpus", labels, gpus);
    metrics.gauge("kai_queue_allocated_cpu_cores", labels, unitsOf(allocated["cpu"]));
    metrics.gauge("kai_queue_allocated_memory_bytes", labels, unitsOf(allocated["memory"]));
  }
}

function scaled(value: number | undefined, by: number): number {
  return value === undefined ? 0 : value === unlimited ? unlimited : value * by;
}

function unitsOf(text: string | undefined): number {
  if (text === undefined) return 0;
  return text.endsWith("m") ? Number(text.slice(0, -1)) / 1000 : Number(text);
}

/** A merge patch only adds: keys that are no longer wanted are set to null. */
function replaced(known: object | undefined, wanted: object): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  const before = (known ?? {}) as Record<string, unknown>;
  for (const [key, value] of Object.entries(wanted)) {
    const inner = before[key];
    const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isMap && typeof inner === "object" && inner !== null) patch[key] = replaced(inner, value as object);
    else patch[key] = value;
  }
  for (const key of Object.keys(before)) if (!Object.hasOwn(wanted, key)) patch[key] = null;
  return patch;
}

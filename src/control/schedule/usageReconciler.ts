import { type UsageSample, type UsageSettings, usageOf, windowStartMs } from "../../decide/schedule/queues/usage.ts";
import type { Outcome } from "../../model/outcome.ts";
import { succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { TimeSpan, UsageDatabase } from "../../ports/usageDatabase.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { ReconcileResult } from "../runtime/loop.ts";
import type { SchedulerCaches } from "./schedulerCaches.ts";

/** Finds the database of an address. */
export type FindUsageDatabase = (url: string) => UsageDatabase;

/** The largest number of steps in which a window is read. */
const stepsMax = 1_000;
const capacity = (resource: string): string => `sum(kube_node_status_capacity{resource=~"${resource}"})`;
/** GPU, CPU, memory: queries of the usage of queues, and of the capacity. */
const allocatedQueries = [
  "sum by (queue_name) (kai_queue_allocated_gpus)",
  "sum by (queue_name) (kai_queue_allocated_cpu_cores)",
  "sum by (queue_name) (kai_queue_allocated_memory_bytes)",
] as const;
const totalQueries = [capacity("nvidia_com_gpu|amd_com_gpu"), capacity("cpu"), capacity("memory")] as const;

/**
 * Reads the historical usage of queues periodically, for their fair shares. If it cannot be read, the last values
 * count.
 */
export class UsageReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly find: FindUsageDatabase | undefined;
  private readonly startedMs: number;
  private own: UsageSample[] = [];
  private readMs: number | undefined;
  private wasSet = false;

  constructor(controllers: Controllers, caches: SchedulerCaches, find: FindUsageDatabase | undefined) {
    this.controllers = controllers;
    this.caches = caches;
    this.find = find;
    this.startedMs = controllers.ports.clock.nowMs();
  }

  /** Until when the first decision waits for historical usage; undefined if it does not. */
  get waitsUntilMs(): number | undefined {
    const { usage } = this.caches.cluster.settings;
    if (usage === undefined || this.readMs !== undefined) return undefined;
    const untilMs = this.startedMs + usage.waitMs;
    return this.controllers.ports.clock.nowMs() < untilMs ? untilMs : undefined;
  }

  async reconcile(cancel: Cancel): Promise<ReconcileResult> {
    const { cluster } = this.caches;
    const { clock, log, metrics } = this.controllers.ports;
    const { usage } = cluster.settings;
    const nowMs = clock.nowMs();
    if (usage === undefined) {
      if (this.wasSet) cluster.setUsage(new Map());
      this.wasSet = false;
      return undefined;
    }
    const startedMs = clock.monotonicMs();
    const samples = await this.samples(usage, nowMs, cancel);
    metrics.observe("kai_usage_query_latency_milliseconds", {}, clock.monotonicMs() - startedMs);
    if (samples.ok) {
      this.readMs = nowMs;
      this.wasSet = true;
      cluster.setUsage(usageOf(samples.value, usage, nowMs));
      return { requeueAfterMs: usage.fetchMs };
    }
    const ageMs = nowMs - (this.readMs ?? this.startedMs);
    if (ageMs > usage.staleMs)
      log.warn({ ageMs, why: samples.message }, "the historical usage of queues cannot be read");
    return { requeueAfterMs: usage.fetchMs };
  }

  private async samples(usage: UsageSettings, nowMs: number, cancel: Cancel): Promise<Outcome<readonly UsageSample[]>> {
    if (usage.source.type === "fake") return succeeded([]);
    if (usage.source.type === "own") return succeeded(this.ownSamples(usage, nowMs));
    const database = this.find?.(usage.source.url);
    if (database === undefined) {
      return { ok: false, reason: "Unavailable", message: "this command has no client for a usage database" };
    }
    const fromMs = windowStartMs(usage, nowMs);
    const stepMs = Math.max(usage.fetchMs, Math.ceil((nowMs - fromMs) / stepsMax));
    return readSamples(database, { fromMs, toMs: nowMs, stepMs }, cancel);
  }

  /** The usage that this process has observed since its start. */
  private ownSamples(usage: UsageSettings, nowMs: number): readonly UsageSample[] {
    const { cluster } = this.caches;
    this.caches.model.applyAssumed();
    cluster.refresh(nowMs);
    const byQueue = new Map([...cluster.queues.byName].map(([name, { allocated }]) => [name, [...allocated] as const]));
    const fromMs = windowStartMs(usage, nowMs);
    this.own = [...this.own.filter(({ ms }) => ms >= fromMs), { ms: nowMs, byQueue, total: cluster.total() }];
    return this.own;
  }
}

async function readSamples(
  database: UsageDatabase,
  span: TimeSpan,
  cancel: Cancel,
): Promise<Outcome<readonly UsageSample[]>> {
  const at = new Map<number, { byQueue: Map<string, [number, number, number]>; total: [number, number, number] }>();
  const sampleAt = (ms: number) => {
    let sample = at.get(ms);
    if (sample === undefined) {
      sample = { byQueue: new Map(), total: [0, 0, 0] };
      at.set(ms, sample);
    }
    return sample;
  };
  for (const [r, query] of totalQueries.entries()) {
    const read = await database.range(query, span, { cancel });
    if (!read.ok) return read;
    for (const { samples } of read.value) for (const { ms, value } of samples) sampleAt(ms).total[r as 0] += value;
  }
  for (const [r, query] of allocatedQueries.entries()) {
    const read = await database.range(query, span, { cancel });
    if (!read.ok) return read;
    for (const { labels, samples } of read.value) {
      const queue = labels["queue_name"];
      if (queue === undefined) continue;
      for (const { ms, value } of samples) {
        const { byQueue } = sampleAt(ms);
        const had = byQueue.get(queue) ?? [0, 0, 0];
        byQueue.set(queue, had);
        had[r as 0] += value;
      }
    }
  }
  return succeeded([...at].sort(([a], [b]) => a - b).map(([ms, sample]) => ({ ms, ...sample })));
}

import { describe, expect, test } from "vitest";
import type { UsageDatabase } from "../../src/ports/usageDatabase.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };

describe.each([
  { clientType: "own", past: "makes way for one that had nothing, by what the process has seen", isMore: true },
  { clientType: "fake", past: "has half of it beside another one, where the past is a fake", isMore: false },
])("a queue that had the cluster for long", ({ clientType, past, isMore }) => {
  test(past, async () => {
    const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
    const surplus = { gpu: { quota: 0, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };
    for (const name of ["old", "new"]) await cluster.queue(name, { resources: surplus });
    await cluster.create("kai.scheduler/schedulingshards", {
      apiVersion: "kai.scheduler/v1",
      kind: "SchedulingShard",
      metadata: { name: "default" },
      spec: { usageDBConfig: { clientType, usageParams: { windowSize: "10m", fetchInterval: "10s" } } },
    });
    for (let at = 0; at < 8; at++)
      await cluster.pod(`old-${at}`, { gpus: 1, labels: { "kai.scheduler/queue": "old" } });
    await cluster.run(120);
    expect(cluster.pods().filter(({ status }) => status?.phase === "Running")).toHaveLength(8);
    for (let at = 0; at < 8; at++)
      await cluster.pod(`new-${at}`, { gpus: 1, labels: { "kai.scheduler/queue": "new" } });
    await cluster.run(60);
    const running = cluster.pods().filter(({ status }) => status?.phase === "Running");
    const newer = running.filter(({ metadata }) => metadata.name.startsWith("new")).length;
    if (isMore) expect(newer).toBeGreaterThan(4);
    else expect(newer).toBe(4);
  });
});

test("use in the past is read from a Prometheus, and what was read last counts while that is silent", async () => {
  const asked: string[] = [];
  let isUp = true;
  const usageDatabase = (url: string): UsageDatabase => ({
    range: async (query, { fromMs, toMs, stepMs }) => {
      asked.push(url);
      if (!isUp) return { ok: false, reason: "Unavailable", message: "silent" };
      const series = (labels: Record<string, string>, value: number) => ({
        labels,
        samples: [fromMs, fromMs + stepMs, toMs].map((ms) => ({ ms, value })),
      });
      if (query.includes("kube_node_status_capacity")) return { ok: true, value: [series({}, 8)] };
      return { ok: true, value: query.includes("gpus") ? [series({ queue_name: "old" }, 8)] : [] };
    },
  });
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true }, { shard: { usageDatabase } });
  const surplus = { gpu: { quota: 0, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };
  for (const name of ["old", "new"]) await cluster.queue(name, { resources: surplus });
  await cluster.create("kai.scheduler/schedulingshards", {
    apiVersion: "kai.scheduler/v1",
    kind: "SchedulingShard",
    metadata: { name: "default" },
    spec: {
      usageDBConfig: { clientType: "prometheus", connectionString: "http://p", usageParams: { fetchInterval: "5s" } },
    },
  });
  await cluster.run(8);
  isUp = false;
  for (let at = 0; at < 8; at++) {
    for (const name of ["old", "new"]) {
      await cluster.pod(`${name}-${at}`, { gpus: 1, labels: { "kai.scheduler/queue": name } });
    }
  }
  await cluster.run(12);
  const running = cluster.pods().filter(({ status }) => status?.phase === "Running");
  expect(new Set(asked)).toEqual(new Set(["http://p"]));
  expect(running.filter(({ metadata }) => metadata.name.startsWith("new"))).toHaveLength(8);
});

test("historical usage that cannot be read is waited for a while, then counts as zero, with a line in the log", async () => {
  const silent: UsageDatabase = { range: async () => ({ ok: false, reason: "Unavailable", message: "silent" }) };
  const usage = {
    source: { type: "prometheus" as const, url: "http://p" },
    windowMs: 600_000,
    window: { type: "sliding" as const },
    halfLifeMs: undefined,
    fetchMs: 5_000,
    staleMs: 30_000,
    waitMs: 10_000,
  };
  const cluster = await ScheduleCluster.create(["h100=1"], { usage }, { shard: { usageDatabase: () => silent } });
  await cluster.pod("p", { gpus: 1 });
  await cluster.run(5);
  expect(cluster.pod1("p").spec?.nodeName).toBeUndefined();
  await cluster.run(8);
  expect(cluster.pod1("p").spec?.nodeName).toBeDefined();
  const warned = () => cluster.log.lines.filter(({ level }) => level === "warn").map(({ message }) => message);
  expect(warned()).toEqual([]);
  await cluster.run(30);
  expect(warned()).toContain("the historical usage of queues cannot be read");
});

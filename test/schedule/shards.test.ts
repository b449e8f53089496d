import { expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const pool = "kai.scheduler/node-pool";

async function labelNode(cluster: ScheduleCluster, name: string, value: string): Promise<void> {
  const patched = await cluster.admin.patch(
    { ...builtin.Node, namespace: "", name },
    { type: "merge", body: { metadata: { labels: { [pool]: value } } } },
  );
  if (!patched.ok) throw new Error(patched.message);
}

async function shard(cluster: ScheduleCluster, name: string, spec: object): Promise<void> {
  await cluster.create("kai.scheduler/schedulingshards", {
    apiVersion: "kai.scheduler/v1",
    kind: "SchedulingShard",
    metadata: { name },
    spec,
  });
}

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };

async function queueOf(cluster: ScheduleCluster, name: string, value: string): Promise<void> {
  await cluster.create("scheduling.run.ai/queues", {
    apiVersion: "scheduling.run.ai/v2",
    kind: "Queue",
    metadata: { name, labels: { [pool]: value } },
    spec: { resources: { gpu: free, cpu: free, memory: free } },
  });
}

const whereOf = (cluster: ScheduleCluster): Record<string, string | undefined> =>
  Object.fromEntries(cluster.pods().map(({ metadata, spec }) => [metadata.name, spec?.nodeName]));

test("a shard's workloads go to its nodes, and all others to the other nodes", async () => {
  const cluster = await ScheduleCluster.create(["h100=2"], { readsShards: true });
  const [gold = "", plain = ""] = cluster.api.names("/nodes");
  await labelNode(cluster, gold, "gold");
  await shard(cluster, "gold", { partitionLabelValue: "gold" });
  await queueOf(cluster, "rich", "gold");
  await cluster.run(1);
  await cluster.pod("in", { gpus: 1, labels: { [pool]: "gold", "kai.scheduler/queue": "rich" } });
  await cluster.pod("out", { gpus: 1 });
  // A queue of a pool is invisible to the others.
  await cluster.pod("lost", { gpus: 1, labels: { "kai.scheduler/queue": "rich" } });
  await cluster.run(3);
  expect(whereOf(cluster)).toEqual({ in: gold, out: plain, lost: undefined });
  expect(cluster.pod1("in").metadata.labels?.[pool]).toBe("gold");
  const groups = Object.fromEntries(
    cluster.groups().map(({ metadata, status }) => [metadata.name.split("-")[1], status]),
  );
  expect(groups["lost"]?.schedulingConditions?.[0]?.reasons?.[0]?.reason).toBe("QueueTakesNoPods");
  expect(groups["in"]?.schedulingConditions).toBeUndefined();
});

test("a shard configures its node pool, and a change takes effect at once", async () => {
  const cluster = await ScheduleCluster.create(["h100=2"], { readsShards: true });
  await shard(cluster, "default", { placementStrategy: { gpu: "spread" } });
  await cluster.run(1);
  for (const name of ["a", "b"]) await cluster.pod(name, { gpus: 1 });
  await cluster.run(3);
  expect(new Set(Object.values(whereOf(cluster))).size).toBe(2);
  const patched = await cluster.admin.patch(
    { group: "kai.scheduler", version: "v1", plural: "schedulingshards", namespace: "", name: "default" },
    { type: "merge", body: { spec: { placementStrategy: { gpu: "binpack" } } } },
  );
  expect(patched.ok).toBe(true);
  await cluster.run(1);
  for (const name of ["c", "d", "e"]) await cluster.pod(name, { gpus: 1 });
  await cluster.run(3);
  const where = whereOf(cluster);
  expect(new Set([where["c"], where["d"], where["e"]]).size).toBe(1);
});

test("workloads of a pool whose shard is deleted wait, and run when it is back", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  const [node = ""] = cluster.api.names("/nodes");
  await labelNode(cluster, node, "gold");
  await shard(cluster, "gold", { partitionLabelValue: "gold" });
  await queueOf(cluster, "rich", "gold");
  await cluster.run(1);
  const ref = { group: "kai.scheduler", version: "v1", plural: "schedulingshards", namespace: "", name: "gold" };
  expect((await cluster.admin.delete(ref)).ok).toBe(true);
  await cluster.run(1);
  await cluster.pod("p", { gpus: 1, labels: { [pool]: "gold", "kai.scheduler/queue": "rich" } });
  await cluster.run(2);
  expect(whereOf(cluster)).toEqual({ p: undefined });
  await shard(cluster, "gold", { partitionLabelValue: "gold" });
  await cluster.run(2);
  expect(whereOf(cluster)).toEqual({ p: node });
});

test.each([
  ["any number, with -1", -1, true],
  ["any number, with what means nothing", -7, true],
  ["none, with 0", 0, false],
])("jobs of a queue that are looked at: %s", async (_, allocate, isPlaced) => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  await shard(cluster, "default", { queueDepthPerAction: { allocate } });
  await cluster.run(1);
  for (const name of ["a", "b", "c"]) await cluster.pod(name, { gpus: 1 });
  await cluster.run(1);
  expect(Object.values(whereOf(cluster)).map((node) => node !== undefined)).toEqual([isPlaced, isPlaced, isPlaced]);
});

import { expect, test } from "vitest";
import { ScheduleCluster } from "./scheduleCluster.ts";

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };

test("a queue that had the cluster for long makes way for one that had nothing, by what the process has seen", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  const surplus = { gpu: { quota: 0, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };
  for (const name of ["old", "new"]) await cluster.queue(name, { resources: surplus });
  await cluster.create("kai.scheduler/schedulingshards", {
    apiVersion: "kai.scheduler/v1",
    kind: "SchedulingShard",
    metadata: { name: "default" },
    spec: { usageDBConfig: { clientType: "own", usageParams: { windowSize: "10m", fetchInterval: "10s" } } },
  });
  for (let at = 0; at < 8; at++) await cluster.pod(`old-${at}`, { gpus: 1, labels: { "kai.scheduler/queue": "old" } });
  await cluster.run(120);
  expect(cluster.pods().filter(({ status }) => status?.phase === "Running")).toHaveLength(8);
  for (let at = 0; at < 8; at++) await cluster.pod(`new-${at}`, { gpus: 1, labels: { "kai.scheduler/queue": "new" } });
  await cluster.run(60);
  const running = cluster.pods().filter(({ status }) => status?.phase === "Running");
  // Without the past it would be half and half.
  expect(running.filter(({ metadata }) => metadata.name.startsWith("new")).length).toBeGreaterThan(4);
});

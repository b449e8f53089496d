import { expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
const resources = { gpu: { quota: 8, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free };

test("groups and queues report allocated, non-preemptible and requested resources", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.queue("top", { resources });
  await cluster.queue("leaf", { parentQueue: "top", resources });
  await cluster.group("fixed", { queue: "leaf", minMember: 1, preemptibility: "non-preemptible" });
  await cluster.pod("fixed", { gpus: 2, annotations: { "pod-group-name": "fixed" } });
  await cluster.group("loose", { queue: "leaf", minMember: 1 });
  for (const at of [0, 1]) await cluster.pod(`loose-${at}`, { gpus: 6, annotations: { "pod-group-name": "loose" } });
  await cluster.run(4);
  const statusOf = (name: string) =>
    cluster.groups().find(({ metadata }) => metadata.name === name)?.status?.resourcesStatus;
  expect(statusOf("fixed")).toMatchObject({
    allocated: { "nvidia.com/gpu": "2", cpu: "1" },
    allocatedNonPreemptible: { "nvidia.com/gpu": "2" },
    requested: { "nvidia.com/gpu": "2" },
  });
  expect(statusOf("loose")).toMatchObject({
    allocated: { "nvidia.com/gpu": "6" },
    requested: { "nvidia.com/gpu": "12" },
  });
  expect(statusOf("loose")?.allocatedNonPreemptible ?? {}).toEqual({});
  for (const name of ["leaf", "top"]) {
    expect(cluster.queue1(name).status).toMatchObject({
      allocated: { "nvidia.com/gpu": "8" },
      allocatedNonPreemptible: { "nvidia.com/gpu": "2" },
      requested: { "nvidia.com/gpu": "14" },
    });
  }
  expect(cluster.queue1("top").status?.childQueues).toEqual(["leaf"]);
  for (const { metadata } of cluster.pods()) {
    const { namespace = "", name } = metadata;
    await cluster.admin.delete({ ...builtin.Pod, namespace, name });
  }
  await cluster.run(40);
  expect(cluster.queue1("top").status?.allocated ?? {}).toEqual({});
});

test("shares of several GPUs count as what they are, and requests by memory are shown as memory", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.pod("half", { annotations: { "gpu-fraction": "0.5", "gpu-fraction-num-devices": "3" } });
  await cluster.pod("memory", { annotations: { "gpu-memory": "1000" } });
  await cluster.run(8);
  const status = (pod: string) =>
    cluster.groups().find(({ metadata }) => metadata.name.startsWith(`pg-${pod}-`))?.status?.resourcesStatus;
  expect(status("half")?.allocated).toMatchObject({ "nvidia.com/gpu": "1500m" });
  expect(status("memory")?.requested).toMatchObject({ "run.ai/gpu.memory": "1000Mi" });
});

test("metrics of queues have the labels of queues that the Config chooses", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  await cluster.create("kai.scheduler/configs", {
    apiVersion: "kai.scheduler/v1",
    kind: "Config",
    metadata: { name: "kai-config" },
    spec: {
      queueController: {
        queueLabelToMetricLabel: "team=queue_team",
        queueLabelToDefaultMetricValue: "team=nobody",
      },
    },
  });
  await cluster.create("scheduling.run.ai/queues", {
    apiVersion: "scheduling.run.ai/v2",
    kind: "Queue",
    metadata: { name: "red", labels: { team: "red" } },
    spec: { resources: { gpu: { quota: 3, limit: -1, overQuotaWeight: 1 } } },
  });
  await cluster.run(3);
  const labels = (name: string, team: string) => ({
    queue_name: name,
    queue_metadata_name: name,
    queue_display_name: "",
    queue_team: team,
  });
  expect(cluster.metrics.value("kai_queue_deserved_gpus", labels("red", "red"))).toBe(3);
  expect(cluster.metrics.value("kai_queue_info", labels("default-queue", "nobody"))).toBe(1);
});

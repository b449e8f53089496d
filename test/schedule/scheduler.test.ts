import { describe, expect, test } from "vitest";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const phases = (pods: readonly Pod[]): Record<string, string> =>
  Object.fromEntries(pods.map(({ metadata, status }) => [metadata.name, status?.phase ?? ""]));
const scheduledOf = (pod: Pod) => pod.status?.conditions?.find(({ type }) => type === "PodScheduled");

describe("on a cluster with simulated nodes", () => {
  test("a plain pod of the default scheduler runs, without a group", async () => {
    const cluster = await ScheduleCluster.create();
    await cluster.pod("p", { scheduler: "default-scheduler" });
    await cluster.run(2);
    expect(phases(cluster.pods())).toEqual({ p: "Running" });
    expect(cluster.groups()).toEqual([]);
    expect(cluster.requests()).toEqual([]);
  });

  test("a pod of kai-scheduler gets a group, a queue and a node, in one bind", async () => {
    const cluster = await ScheduleCluster.create();
    await cluster.pod("p", { gpus: 1 });
    await cluster.run(2);
    expect(phases(cluster.pods())).toEqual({ p: "Running" });
    expect(cluster.groups().map(({ spec }) => spec)).toMatchObject([
      { queue: "default-queue", minMember: 1, priorityClassName: "train" },
    ]);
    expect(cluster.requests()).toEqual([]);
  });

  test("a gang starts together, and one that does not fit holds nothing and gets the reason", async () => {
    const cluster = await ScheduleCluster.create(["h100=2"]);
    await cluster.group("big", { minMember: 3 });
    for (const at of [0, 1, 2]) await cluster.pod(`big-${at}`, { gpus: 8, annotations: { "pod-group-name": "big" } });
    await cluster.run(2);
    expect(new Set(Object.values(phases(cluster.pods())))).toEqual(new Set(["Pending"]));
    const sentence = scheduledOf(cluster.pod1("big-0"))?.message ?? "";
    expect(sentence).toContain("group big needs places for 3 pods at once and 2 were found");
    expect(sentence).toContain("To run: add nodes that match this pod");
    const [group] = cluster.groups();
    expect(group?.status?.schedulingConditions).toMatchObject([
      {
        type: "UnschedulableOnNodePool",
        nodePool: "default",
        status: "True",
        reasons: [{ reason: "PodSchedulingErrors", message: sentence }],
      },
    ]);
    expect(cluster.events().some(({ note, message }) => (note ?? message) === sentence)).toBe(true);

    await cluster.group("small", { minMember: 2 });
    for (const at of [0, 1]) await cluster.pod(`small-${at}`, { gpus: 8, annotations: { "pod-group-name": "small" } });
    await cluster.run(2);
    expect(phases(cluster.pods())).toMatchObject({ "small-0": "Running", "small-1": "Running", "big-0": "Pending" });
  });

  test("a gang's BindRequests are one set, and go when all of it is bound", async () => {
    const cluster = await ScheduleCluster.create();
    await cluster.group("g", { minMember: 2 });
    const sets: string[] = [];
    cluster.api.core.store.onEvent(({ current }) => {
      if (current.resource !== "scheduling.run.ai/bindrequests") return;
      const { annotations } = current.object().metadata;
      sets.push(`${annotations?.["muster.dev/commit"]} of ${annotations?.["muster.dev/commit-size"]}`);
    });
    for (const at of [0, 1]) await cluster.pod(`g-${at}`, { gpus: 8, annotations: { "pod-group-name": "g" } });
    await cluster.run(3);
    expect(phases(cluster.pods())).toEqual({ "g-0": "Running", "g-1": "Running" });
    expect(new Set(sets).size).toBe(1);
    expect(sets[0]).toMatch(/ of 2$/);
    expect(cluster.requests()).toEqual([]);
  });

  test("halves of GPUs share them, two on each", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    for (let at = 0; at < 16; at++) await cluster.pod(`h-${at}`, { annotations: { "gpu-fraction": "0.5" } });
    await cluster.run(10);
    const users = new Map<string, number>();
    for (const { metadata, status } of cluster.pods()) {
      expect(status?.phase).toBe("Running");
      const group = metadata.labels?.["runai-gpu-group"] ?? "";
      users.set(group, (users.get(group) ?? 0) + 1);
    }
    expect([...users.values()]).toEqual(Array(8).fill(2));
  });

  test("a reason is removed with its cause", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("p", { gpus: 1, labels: { "kai.scheduler/queue": "team" } });
    await cluster.run(1);
    expect(scheduledOf(cluster.pod1("p"))?.message).toContain("queue team does not exist");
    const open = { quota: 0, limit: -1, overQuotaWeight: 1 };
    await cluster.queue("team", { resources: { gpu: open, cpu: open, memory: open } });
    await cluster.run(3);
    expect(phases(cluster.pods())).toEqual({ p: "Running" });
    expect(cluster.groups()[0]?.status?.schedulingConditions ?? []).toEqual([]);
  });
});

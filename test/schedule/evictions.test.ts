import { describe, expect, test } from "vitest";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { podGroupRef } from "../../src/model/scheduling/podGroup.ts";
import { holdCalls, ScheduleCluster } from "./scheduleCluster.ts";

const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
const gpus = (quota: number) => ({
  resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: open, memory: open },
});
const in_ = (queue: string) => ({ "kai.scheduler/queue": queue });
const running = (pods: readonly Pod[]): string[] =>
  pods
    .filter(({ status }) => status?.phase === "Running")
    .map(({ metadata }) => metadata.name)
    .sort();

describe("queues on a running cluster", () => {
  test("a queue reclaims its quota: a victim is evicted, the preemptor runs in its place, and both get Events", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.queue("mine", gpus(4));
    await cluster.queue("theirs", gpus(4));
    for (let at = 0; at < 8; at++) await cluster.pod(`t${at}`, { gpus: 1, labels: in_("theirs") });
    await cluster.run(2);
    expect(running(cluster.pods())).toHaveLength(8);
    await cluster.pod("m", { gpus: 1, labels: in_("mine") });
    await cluster.run(5);
    expect(running(cluster.pods())).toContain("m");
    expect(running(cluster.pods())).toHaveLength(8);
    const evictions = cluster.events().filter(({ reason }) => reason === "Evict");
    expect(evictions).toHaveLength(1);
    expect(evictions[0]?.note ?? evictions[0]?.message).toContain("of queue mine");
  });

  test("an eviction is reported also when its answer comes after the watch has shown it", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.queue("mine", gpus(4));
    await cluster.queue("theirs", gpus(4));
    for (let at = 0; at < 8; at++) await cluster.pod(`t${at}`, { gpus: 1, labels: in_("theirs") });
    await cluster.run(2);
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    cluster.kube.faults = {
      late: (verb, what) => (verb === "delete" && what.startsWith("pods t") ? answered : undefined),
    };
    await cluster.pod("m", { gpus: 1, labels: in_("mine") });
    await cluster.run(5);
    answer();
    await cluster.run(2);
    const [eviction] = cluster.events().filter(({ reason }) => reason === "Evict");
    expect(eviction?.note ?? eviction?.message).toContain("from queue theirs");
  });

  test("the allocation of queues and groups is in their status, and is removed with their pods", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("a", { gpus: 2 });
    // Of two that are as old, the UID decides.
    await cluster.run(2);
    await cluster.pod("b", { gpus: 8 });
    await cluster.run(4);
    expect(cluster.queue1("default-queue").status).toMatchObject({
      allocated: { "nvidia.com/gpu": "2" },
      requested: { "nvidia.com/gpu": "10" },
    });
    expect(cluster.queue1("default-parent-queue").status).toMatchObject({
      childQueues: ["default-queue"],
      allocated: { "nvidia.com/gpu": "2" },
    });
    const group = cluster.groups().find(({ metadata }) => metadata.name.startsWith("pg-a-"));
    expect(group?.status?.resourcesStatus).toMatchObject({
      allocated: { "nvidia.com/gpu": "2" },
      requested: { "nvidia.com/gpu": "2" },
    });
    expect(group?.metadata.annotations?.["kai.scheduler/last-start-timestamp"]).toBeDefined();
    for (const { metadata } of cluster.pods()) {
      await cluster.admin.delete(
        { ...builtin.Pod, namespace: "default", name: metadata.name },
        { gracePeriodSeconds: 0 },
      );
    }
    await cluster.run(4);
    expect(cluster.queue1("default-queue").status?.allocated ?? {}).toEqual({});
  });

  test("a queue with children cannot be deleted, and one without resources cannot be made", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.run(2);
    const parent = {
      group: "scheduling.run.ai",
      version: "v2",
      plural: "queues",
      namespace: "",
      name: "default-parent-queue",
    };
    expect(await cluster.admin.delete(parent)).toMatchObject({
      ok: false,
      message: expect.stringContaining("default-queue"),
    });
    const bare = { apiVersion: "scheduling.run.ai/v2", kind: "Queue", metadata: { name: "x" }, spec: {} };
    expect(await cluster.admin.create(parent, bare as never)).toMatchObject({ ok: false, reason: "Invalid" });
  });

  test("a queue cannot be deleted in the moment after one was made below it", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.queue("top", gpus(4));
    await cluster.queue("below", { ...gpus(4), parentQueue: "top" });
    const top = { group: "scheduling.run.ai", version: "v2", plural: "queues", namespace: "", name: "top" };
    expect(cluster.queue1("top").status?.childQueues ?? []).toEqual([]);
    expect(await cluster.admin.delete(top)).toMatchObject({ ok: false, message: expect.stringContaining("below") });
  });

  describe("since when a gang is too small is asked of its group", () => {
    const staleSince = "kai.scheduler/stale-podgroup-timestamp";
    const ref = { ...podGroupRef, namespace: "default", name: "g" };
    const mark = (cluster: ScheduleCluster) => cluster.groups()[0]?.metadata.annotations?.[staleSince];
    const say = async (cluster: ScheduleCluster, time: string | null): Promise<void> => {
      const body = { metadata: { annotations: { [staleSince]: time } } };
      expect(await cluster.admin.patch(ref, { type: "merge", body })).toMatchObject({ ok: true });
    };
    const gangOfTwo = async (): Promise<ScheduleCluster> => {
      const cluster = await ScheduleCluster.create(["h100=1"]);
      await cluster.group("g", { minMember: 2, stalenessGracePeriod: "5s" });
      for (const at of [0, 1]) await cluster.pod(`g-${at}`, { gpus: 1, annotations: { "pod-group-name": "g" } });
      await cluster.run(2);
      return cluster;
    };
    const takeOne = (cluster: ScheduleCluster) =>
      cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "g-0" }, { gracePeriodSeconds: 0 });

    test("a gang that fell below its minimum is evicted after its grace", async () => {
      const cluster = await gangOfTwo();
      expect(running(cluster.pods())).toHaveLength(2);
      await takeOne(cluster);
      await cluster.run(2);
      expect(mark(cluster)).toBeDefined();
      expect(running(cluster.pods())).toEqual(["g-1"]);
      await cluster.run(45);
      expect(cluster.pods()).toEqual([]);
    });

    test("a stale mark of a gang that is complete again is removed when it is observed", async () => {
      const cluster = await gangOfTwo();
      await say(cluster, "2026-01-01T00:00:00Z");
      await cluster.run(2);
      expect(mark(cluster)).toBeUndefined();
      expect(running(cluster.pods())).toEqual(["g-0", "g-1"]);
    });

    test("a stale mark that is deleted while the gang is too small is written again, and the gang is evicted", async () => {
      const cluster = await gangOfTwo();
      await takeOne(cluster);
      await cluster.run(2);
      await say(cluster, null);
      await cluster.run(2);
      expect(mark(cluster)).toBeDefined();
      await cluster.run(45);
      expect(cluster.pods()).toEqual([]);
    });

    test("a mark that could not be written is written later, without any event", async () => {
      const cluster = await gangOfTwo();
      let refusals = 0;
      cluster.kube.faults = {
        before: (verb, what) =>
          verb === "patch" && what === "podgroups g" && refusals++ < 3 ? refused("Unavailable", "not now") : undefined,
      };
      await takeOne(cluster);
      await cluster.run(4);
      expect(refusals).toBeGreaterThan(3);
      expect(mark(cluster)).toBeDefined();
    });

    test("a mark that was taken off at the last moment saves the gang, until its grace is over again", async () => {
      const cluster = await gangOfTwo();
      const { held, open: goOn } = holdCalls(cluster, (call) => call === "list podgroups g");
      await takeOne(cluster);
      await cluster.run(8);
      expect(held).not.toEqual([]);
      await say(cluster, null);
      goOn();
      await cluster.run(3);
      expect(running(cluster.pods())).toEqual(["g-1"]);
      await cluster.run(45);
      expect(cluster.pods()).toEqual([]);
    });
  });

  test("the rest of an optional subgroup is evicted after its own grace, and the gang after its own", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    const subGroups = ["x", "y"].map((name) => ({ name, minMember: 2 }));
    await cluster.group("g", { minSubGroup: 1, subGroups, stalenessGracePeriod: "10s" });
    const drop = (name: string) =>
      cluster.admin.delete({ ...builtin.Pod, namespace: "default", name }, { gracePeriodSeconds: 0 });
    for (const name of ["x0", "x1", "y0", "y1"]) {
      const labels = { "kai.scheduler/subgroup-name": name.slice(0, 1) };
      await cluster.pod(name, { gpus: 1, labels, annotations: { "pod-group-name": "g" } });
    }
    await cluster.run(2);
    expect(running(cluster.pods())).toHaveLength(4);
    const marks = () => cluster.groups()[0]?.metadata.annotations ?? {};
    await drop("y1");
    await cluster.run(7);
    expect(marks()["muster.dev/stale-subgroups"]).toMatch(/^y=2026-/);
    expect(marks()["kai.scheduler/stale-podgroup-timestamp"]).toBeUndefined();
    await drop("x1");
    await cluster.run(7);
    expect(marks()["kai.scheduler/stale-podgroup-timestamp"]).toBeDefined();
    expect(marks()["muster.dev/stale-subgroups"]).toBeUndefined();
    expect(running(cluster.pods())).toEqual(["x0", "y0"]);
    await cluster.run(6);
    expect(running(cluster.pods())).toEqual([]);
  });

  test("the reason of a pod that no node can take is written once and costs no more writes", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("huge", { gpus: 64 });
    await cluster.run(3);
    const before = cluster.api.core.store.revision;
    await cluster.run(60);
    const message = cluster.pod1("huge").status?.conditions?.find(({ type }) => type === "PodScheduled")?.message;
    expect(message).toBe(
      "pod default/huge requests 64 GPUs, and the largest node has 8. To run: request at most 8 GPUs, or add a node with 64",
    );
    expect(cluster.api.core.store.revision - before).toBeLessThan(15);
  });

  test("an incomplete set of a gang's BindRequests is taken back, and the gang runs", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.group("g", { minMember: 2 });
    const first = await cluster.pod("g-0", { gpus: 1, annotations: { "pod-group-name": "g" } });
    await cluster.create("scheduling.run.ai/bindrequests", {
      apiVersion: "scheduling.run.ai/v1alpha2",
      kind: "BindRequest",
      metadata: {
        name: "g-0",
        namespace: "default",
        annotations: { "muster.dev/commit": "half", "muster.dev/commit-size": "2" },
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "g-0", uid: first.metadata.uid }],
      },
      spec: {
        podName: "g-0",
        selectedNode: "h100-0",
        receivedResourceType: "Regular",
        receivedGPU: { count: 1, portion: "1.00" },
      },
    });
    await cluster.pod("g-1", { gpus: 1, annotations: { "pod-group-name": "g" } });
    await cluster.run(3);
    expect(running(cluster.pods())).toEqual([]);
    await cluster.run(20);
    expect(running(cluster.pods())).toEqual(["g-0", "g-1"]);
  });
});

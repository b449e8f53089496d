import { describe, expect, test } from "vitest";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
const gpuQuota = (quota: number) => ({
  resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free },
});
const inQueue = (name: string) => ({ "kai.scheduler/queue": name });
const scheduledOf = (pod: Pod) => pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
const reasonsOf = (cluster: ScheduleCluster): Record<string, string[]> => {
  const reasons: Record<string, Set<string>> = {};
  for (const event of cluster.all<{ involvedObject?: { kind?: string }; type?: string; reason?: string }>("/events")) {
    const kind = event.involvedObject?.kind ?? "";
    reasons[kind] ??= new Set();
    reasons[kind].add(`${event.type} ${event.reason}`);
  }
  return Object.fromEntries(Object.entries(reasons).map(([kind, all]) => [kind, [...all].sort()]));
};

describe("events", () => {
  test("of pods and groups say what happens to them, from waiting to eviction", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"], { stalenessGraceMs: 5_000 });
    await cluster.queue("mine", gpuQuota(8));
    await cluster.queue("theirs", gpuQuota(0));
    await cluster.group("early", { queue: "theirs", minMember: 2 });
    await cluster.pod("early-0", { gpus: 1, annotations: { "pod-group-name": "early" } });
    await cluster.run(2);
    expect(reasonsOf(cluster)["PodGroup"]).toEqual(["Normal NotReady"]);
    await cluster.pod("early-1", { gpus: 1, annotations: { "pod-group-name": "early" } });
    await cluster.pod("x", { gpus: 6, labels: inQueue("theirs") });
    await cluster.run(3);
    await cluster.pod("huge", { gpus: 16 });
    await cluster.pod("big", { gpus: 6, labels: inQueue("mine") });
    await cluster.run(40);
    expect(cluster.pod1("big").status?.phase).toBe("Running");
    await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "early-0" });
    await cluster.run(40);
    const reasons = reasonsOf(cluster);
    const evict = cluster
      .all<{ metadata: { annotations?: Record<string, string> } }>("/events")
      .find(({ metadata }) => metadata.annotations?.["evictor-action-type"] === "reclaim");
    expect(evict?.metadata.annotations).toMatchObject({
      "num-evicted-pods": "1",
      "evictor-action-type": "reclaim",
      "evictor-pod-group-name": expect.stringMatching(/^pg-big-/),
      "evictor-pod-group-namespace": "default",
    });
    expect(reasons["PodGroup"]).toEqual(["Normal Evict", "Normal NotReady", "Normal StaleJob", "Normal Unschedulable"]);
    expect(reasons["Pod"]).toEqual(
      expect.arrayContaining(["Normal Pipelined", "Normal Scheduled", "Warning FailedScheduling"]),
    );
    expect(reasons["Pod"]).not.toContain("Warning Unschedulable");
  });

  test("a pod that waits for resources being released reports that, and no nomination is written", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("old", { gpus: 8 });
    await cluster.run(3);
    // Its node does not come to say that it has ended.
    cluster.kube.faults = { hold: (_, what) => (what.startsWith("pods old") ? new Promise(() => {}) : undefined) };
    await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "old" });
    await cluster.pod("new", { gpus: 8 });
    await cluster.run(3);
    expect(cluster.pod1("old").metadata.deletionTimestamp).toBeDefined();
    const events = cluster.all<{ involvedObject: { name: string }; reason: string }>("/events");
    const toldNew = events.filter(({ involvedObject }) => involvedObject.name === "new").map(({ reason }) => reason);
    expect(toldNew).toContain("Pipelined");
    expect(cluster.pod1("new").status?.nominatedNodeName).toBeUndefined();
    expect(cluster.pod1("new").spec?.nodeName).toBeUndefined();
    expect(cluster.requests()).toEqual([]);
  });

  test("a pod whose owner reference is wrong is reported, and waits", async () => {
    const cluster = await ScheduleCluster.create();
    await cluster.create("batch/jobs", {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: "j", namespace: "default" },
      spec: { suspend: true, template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } } },
    });
    const owner = { apiVersion: "batch/v1", kind: "Job", name: "j", uid: "another", controller: true };
    const created = await cluster.admin.create(builtin.Pod, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p", namespace: "default", ownerReferences: [owner] },
      spec: { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] },
    } as never);
    expect(created.ok).toBe(true);
    await cluster.run(0.3);
    expect(reasonsOf(cluster)["Pod"]).toEqual(["Warning PodGrouperWarning"]);
    expect(cluster.groups()).toEqual([]);
  });
});

describe("the reason of a refused bind", () => {
  test("an event and a condition report it, which does not trigger an autoscaler", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    cluster.kube.faults = {
      before: (verb) => (verb === "bind" ? refused("Forbidden", "policy says no") : undefined),
    };
    await cluster.pod("p", { gpus: 1 });
    await cluster.run(2);
    expect(reasonsOf(cluster)["Pod"]).toContain("Warning FailedBinding");
    expect(scheduledOf(cluster.pod1("p"))).toMatchObject({ status: "False", reason: "BindingError" });
    expect(scheduledOf(cluster.pod1("p"))?.message).toContain("policy says no");
    cluster.kube.faults = {};
    await cluster.run(10);
    const node = cluster.pod1("p").spec?.nodeName;
    expect(node).toBeDefined();
    const scheduled = cluster.events().find(({ reason }) => reason === "Scheduled");
    expect(scheduled?.note ?? scheduled?.message).toBe(`placed on ${node} (node pool default)`);
  });
});

describe("a victim", () => {
  test.each([
    ["says on itself that it goes for another, where that is wanted", true],
    ["says nothing on itself otherwise", false],
  ])("%s", async (_, marksVictims) => {
    const cluster = await ScheduleCluster.create(["h100=1"], { marksVictims });
    await cluster.pod("low", { gpus: 8 });
    await cluster.run(3);
    const ref = { ...builtin.Pod, namespace: "default", name: "low" };
    // It must be there to be looked at.
    await cluster.admin.patch(ref, { type: "merge", body: { metadata: { finalizers: ["example.com/keep"] } } });
    await cluster.pod("high", { gpus: 8, labels: { priorityClassName: "build-preemptible" } });
    await cluster.run(5);
    const low = cluster.pod1("low");
    expect(low.metadata.deletionTimestamp).toBeDefined();
    const target = low.status?.conditions?.find(({ type }) => type === "DisruptionTarget");
    expect(target?.reason).toBe(marksVictims ? "PreemptionByScheduler" : undefined);
    const group = cluster.groups().find(({ metadata }) => metadata.name.startsWith("pg-low"));
    expect(group?.metadata.annotations?.["kai.scheduler/last-eviction-timestamp"]).toBeDefined();
  });
});

describe("a gang", () => {
  const subGroups = [
    { name: "head", minMember: 1 },
    { name: "work", minMember: 2 },
  ];
  const member = (cluster: ScheduleCluster, name: string, sub: string) =>
    cluster.pod(name, {
      gpus: 1,
      annotations: { "pod-group-name": "g" },
      labels: { "kai.scheduler/subgroup-name": sub },
    });
  const noteOf = (cluster: ScheduleCluster, reason: string): string | undefined => {
    const found = cluster.events().find((each) => each.reason === reason);
    return found?.note ?? found?.message;
  };
  const mark = (cluster: ScheduleCluster, key: string) =>
    cluster.groups()[0]?.metadata.annotations?.[`kai.scheduler/${key}`];

  test("says by subgroup what it waits for, when it started, since when it is too small, and that it has recovered", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"], { stalenessGraceMs: 600_000 });
    await cluster.group("g", { subGroups });
    await member(cluster, "h", "head");
    await member(cluster, "w0", "work");
    await cluster.run(2);
    expect(noteOf(cluster, "NotReady")).toContain("subgroup work waits for 2 pods, ");
    expect(mark(cluster, "last-start-timestamp")).toBeUndefined();
    await member(cluster, "w1", "work");
    await cluster.run(5);
    expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Running", "Running", "Running"]);
    const started = mark(cluster, "last-start-timestamp");
    expect(started).toBeDefined();
    await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "w1" });
    await cluster.run(45);
    expect(noteOf(cluster, "StaleJob")).toBe("runs below its minimum: subgroup work: 1 of at least 2 pods");
    expect(mark(cluster, "stale-podgroup-timestamp")).toBeDefined();
    await member(cluster, "w2", "work");
    await cluster.run(5);
    expect(mark(cluster, "stale-podgroup-timestamp")).toBeUndefined();
    expect(mark(cluster, "last-start-timestamp")).toBe(started);
  });
});

describe("conditions", () => {
  test("of a pod whose group does not want to be marked stay away", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.group("quiet", { minMember: 1, markUnschedulable: false });
    await cluster.pod("p", { gpus: 16, annotations: { "pod-group-name": "quiet" } });
    await cluster.run(2);
    expect(scheduledOf(cluster.pod1("p"))).toBeUndefined();
    expect(cluster.groups()[0]?.status?.schedulingConditions).toHaveLength(1);
  });

  test("of a group count its changes, and the latest of a pool is the one that is kept", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.group("g", { queue: "nobody", minMember: 1 });
    await cluster.pod("p", { gpus: 16, annotations: { "pod-group-name": "g" } });
    await cluster.run(2);
    const condition = () => cluster.groups()[0]?.status?.schedulingConditions;
    expect(condition()).toMatchObject([{ reasons: [{ reason: "QueueDoesNotExist" }], transitionID: "1" }]);
    await cluster.queue("nobody", gpuQuota(0));
    await cluster.run(2);
    expect(condition()).toMatchObject([{ reasons: [{ reason: "PodSchedulingErrors" }], transitionID: "2" }]);
  });

  test("of a running group do not report that it cannot grow", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.group("g", { minMember: 1 });
    for (const at of [0, 1]) await cluster.pod(`p${at}`, { gpus: 8, annotations: { "pod-group-name": "g" } });
    await cluster.run(3);
    expect(
      cluster
        .pods()
        .map(({ status }) => status?.phase)
        .sort(),
    ).toEqual(["Pending", "Running"]);
    expect(cluster.groups()[0]?.status?.schedulingConditions).toBeUndefined();
  });

  test("a group that wants one attempt is not tried again until its condition is cleared", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("full", { gpus: 8 });
    await cluster.run(2);
    await cluster.group("once", { minMember: 1, schedulingBackoff: 1, priorityClassName: "train" });
    await cluster.pod("p", { gpus: 1, annotations: { "pod-group-name": "once" } });
    await cluster.run(2);
    await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "full" });
    await cluster.run(35);
    expect(cluster.pod1("p").spec?.nodeName).toBeUndefined();
    const ref = {
      group: "scheduling.run.ai",
      version: "v2alpha2",
      plural: "podgroups",
      namespace: "default",
      name: "once",
    };
    const cleared = await cluster.admin.patch(
      { ...ref, subresource: "status" },
      { type: "merge", body: { status: { schedulingConditions: null } } },
    );
    expect(cleared.ok).toBe(true);
    await cluster.run(2);
    expect(cluster.pod1("p").spec?.nodeName).toBeDefined();
  });
});

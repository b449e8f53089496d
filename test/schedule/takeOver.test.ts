/** What an earlier leader has left: what is on its way arrives, what was never whole goes. */
import { expect, test } from "vitest";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { holdCalls, ScheduleCluster } from "./scheduleCluster.ts";

const bindRequests = { group: "scheduling.run.ai", version: "v1alpha2", plural: "bindrequests" };
const at = (name: string) => ({ ...bindRequests, namespace: "default", name });
const epochOf = (cluster: ScheduleCluster, name: string): string | undefined =>
  cluster.pod1(name).metadata.annotations?.["muster.dev/scheduler-epoch"];

/** A request of an earlier leader for a pod that waits. */
async function left(cluster: ScheduleCluster, pod: string, commit?: { id: string; size: number }): Promise<string> {
  const { uid } = cluster.pod1(pod).metadata;
  const [node = ""] = cluster.api.names("/nodes");
  const { metadata } = await cluster.create("scheduling.run.ai/bindrequests", {
    apiVersion: "scheduling.run.ai/v1alpha2",
    kind: "BindRequest",
    metadata: {
      name: pod,
      namespace: "default",
      annotations: {
        "muster.dev/decided-in": "",
        ...(commit && { "muster.dev/commit": commit.id, "muster.dev/commit-size": String(commit.size) }),
      },
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: pod, uid }],
    },
    spec: {
      podName: pod,
      selectedNode: node,
      receivedResourceType: "Regular",
      receivedGPU: { count: 1, portion: "1.00" },
      backoffLimit: 3,
    },
  });
  return metadata.uid;
}

test("a new leader marks every pending pod, and none that is being bound", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
  const { open } = holdCalls(cluster, (call) => call === "bind pods sent");
  for (const name of ["sent", "waits"]) await cluster.pod(name, { gpus: 1 });
  await cluster.pod("plain", { scheduler: "default-scheduler" });
  await cluster.pod("foreign", { scheduler: "somebody" });
  const uid = await left(cluster, "sent");
  await cluster.lead();
  await cluster.run(1);
  expect(epochOf(cluster, "waits")).toBeDefined();
  expect(epochOf(cluster, "plain")).toBe(epochOf(cluster, "waits"));
  expect([epochOf(cluster, "sent"), epochOf(cluster, "foreign")]).toEqual([undefined, undefined]);
  expect(cluster.requests().map(({ metadata }) => metadata.uid)).toEqual([uid]);
  open();
  // Its three retries take seven seconds.
  await cluster.run(10);
  expect(cluster.pod1("sent").status?.phase).toBe("Running");
});

test("a set that was never complete and has not begun is deleted by the next leader, and its pods are marked", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
  await cluster.group("g", { minMember: 2 });
  for (const name of ["g-0", "g-1"]) {
    await cluster.pod(name, { gpus: 1, annotations: { "pod-group-name": "g" } });
  }
  const uid = await left(cluster, "g-0", { id: "c", size: 2 });
  await cluster.lead();
  await cluster.run(2);
  expect(cluster.requests().map(({ metadata }) => metadata.uid)).not.toContain(uid);
  expect(epochOf(cluster, "g-0")).toBeDefined();
  expect(epochOf(cluster, "g-0")).toBe(epochOf(cluster, "g-1"));
  expect(["g-0", "g-1"].map((name) => cluster.pod1(name).status?.phase)).toEqual(["Running", "Running"]);
});

test.each(["Forbidden", "Unavailable", "Unknown"] as const)(
  "a pod that cannot be written to (%s) delays the take-over for a minute, and not for ever",
  async (reason) => {
    const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
    cluster.kube.faults = {
      before: (verb, what) => (`${verb} ${what}` === "patch pods cursed" ? refused(reason, "a policy") : undefined),
    };
    for (const name of ["cursed", "other"]) await cluster.pod(name, { gpus: 1 });
    await cluster.lead();
    await cluster.run(30);
    expect(cluster.pod1("other").spec?.nodeName).toBeUndefined();
    const said = cluster.log.lines.filter(({ message }) => message.startsWith("a pending pod cannot be written"));
    expect(said).toHaveLength(1);
    await cluster.run(40);
    expect(cluster.pod1("other").status?.phase).toBe("Running");
  },
);

test("the next leader records the start of a group that was not recorded", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
  const [node = ""] = cluster.api.names("/nodes");
  for (const name of ["g", "known"]) {
    const noted = { "kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z" };
    await cluster.create("scheduling.run.ai/podgroups", {
      apiVersion: "scheduling.run.ai/v2alpha2",
      kind: "PodGroup",
      metadata: { name, namespace: "default", ...(name === "known" && { annotations: noted }) },
      spec: { minMember: 1, queue: "default-queue" },
    });
    const { metadata } = await cluster.pod(name, { gpus: 1, annotations: { "pod-group-name": name } });
    const bound = await cluster.admin.bind({ ...builtin.Pod, namespace: "default", name }, { node, uid: metadata.uid });
    expect(bound.ok).toBe(true);
  }
  await cluster.lead();
  await cluster.run(3);
  const startOf = (name: string): string | undefined =>
    cluster.groups().find(({ metadata }) => metadata.name === name)?.metadata.annotations?.[
      "kai.scheduler/last-start-timestamp"
    ];
  const { conditions = [] } = cluster.pod1("g").status ?? {};
  expect(startOf("g")).toBe(conditions.find(({ type }) => type === "PodScheduled")?.lastTransitionTime);
  expect(startOf("known")).toBe("2026-01-01T00:00:00Z");
});

test("what is left of a set that has begun is on its way, also when another leads", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
  const { open } = holdCalls(cluster, (call) => call === "bind pods g-1");
  await cluster.group("g", { minMember: 2 });
  // The other one was bound and deleted, and its request went with it.
  await cluster.pod("g-1", { gpus: 1, annotations: { "pod-group-name": "g" } });
  const uid = await left(cluster, "g-1", { id: "c", size: 2 });
  const status = { phase: "Failed", reason: "once", failedAttempts: 1 };
  const failed = await cluster.admin.patch(
    { ...at("g-1"), subresource: "status" },
    { type: "merge", body: { status } },
  );
  expect(failed.ok).toBe(true);
  await cluster.lead();
  await cluster.run(1);
  expect(epochOf(cluster, "g-1")).toBeUndefined();
  expect(cluster.requests().map(({ metadata }) => metadata.uid)).toEqual([uid]);
  open();
});

test("a pod that changes while it is marked is read and marked again, and the others are not", async () => {
  const patchesWith = async (conflicts: number): Promise<Record<string, number>> => {
    const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
    const patches: Record<string, number> = { a: 0, b: 0, c: 0 };
    let left = conflicts;
    cluster.kube.faults = {
      before: (verb, what) => {
        const [kind, name = ""] = what.split(" ");
        if (verb !== "patch" || kind !== "pods") return undefined;
        patches[name] = (patches[name] ?? 0) + 1;
        return name === "b" && left-- > 0 ? refused("Conflict", "it has changed") : undefined;
      },
    };
    for (const name of ["a", "b", "c"]) await cluster.pod(name, { gpus: 1 });
    await cluster.lead();
    await cluster.run(2);
    expect(epochOf(cluster, "b")).toBe(epochOf(cluster, "a"));
    expect(["a", "b", "c"].map((name) => cluster.pod1(name).spec?.nodeName)).not.toContain(undefined);
    return patches;
  };
  const usual = await patchesWith(0);
  const { b = 0, ...others } = await patchesWith(3);
  expect(others).toEqual({ a: usual["a"], c: usual["c"] });
  expect(b).toBeGreaterThan(usual["b"] ?? 0);
});

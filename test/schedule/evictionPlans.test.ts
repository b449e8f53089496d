/**
 * A plan that evicts rests on what was read just before; what it leaves behind is finished or dropped by the next
 * leader.
 */
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { holdCalls, ScheduleCluster } from "./scheduleCluster.ts";

const pods = builtin.Pod;
const at = (name: string) => ({ ...pods, namespace: "default", name });

/** A pod that is on its node and nothing to the scheduler: it asks for no GPU and is in no queue. */
async function bystander(cluster: ScheduleCluster, name: string, node: string, annotations = {}): Promise<string> {
  const created = await cluster.admin.create(pods, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", annotations },
    spec: { nodeName: node, containers: [{ name: "c", image: "i" }] },
  });
  if (!created.ok) throw new Error(created.message);
  return created.value.metadata.uid;
}

async function takesItsPlace(cluster: ScheduleCluster, name: string, node: string): Promise<string> {
  const gone = await cluster.admin.delete(at(name), { gracePeriodSeconds: 0 });
  if (!gone.ok) throw new Error(gone.message);
  return bystander(cluster, name, node);
}

const marksOf = ({ metadata }: { metadata: { annotations?: Record<string, string> } }): string[] =>
  Object.keys(metadata.annotations ?? {}).filter((key) => key.startsWith("muster.dev/"));

/** `v` has all GPUs, `vip` is to get them, and no pod has been read again yet. */
async function beforeTheLook(): Promise<{ cluster: ScheduleCluster; node: string; look: () => void }> {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.pod("v", { gpus: 8 });
  await cluster.run(2);
  const node = cluster.pod1("v").spec?.nodeName ?? "";
  const { held, open } = holdCalls(cluster, (call) => call === "list pods v");
  await cluster.pod("vip", { gpus: 8, spec: { priorityClassName: "build-preemptible" } });
  await cluster.run(2);
  expect(held).not.toEqual([]);
  return { cluster, node, look: open };
}

describe("before a victim is evicted", () => {
  test("a pod that has come in the name of a victim is none: it stays, unmarked", async () => {
    const { cluster, node, look } = await beforeTheLook();
    const uid = await takesItsPlace(cluster, "v", node);
    look();
    await cluster.run(3);
    expect(cluster.pod1("v").metadata.uid).toBe(uid);
    expect(cluster.pod1("v").metadata.deletionTimestamp).toBeUndefined();
    expect(marksOf(cluster.pod1("v"))).toEqual([]);
    expect(cluster.pod1("vip").status?.phase).toBe("Running");
  });

  test("no victim is evicted for a pod that another scheduler has bound meanwhile", async () => {
    const cluster = await ScheduleCluster.create(["h100=2"]);
    for (const name of ["v", "w"]) await cluster.pod(name, { gpus: 8 });
    await cluster.run(2);
    const { held, open } = holdCalls(cluster, (call) => call === "list pods vip");
    const { metadata } = await cluster.pod("vip", { gpus: 8, spec: { priorityClassName: "build-preemptible" } });
    await cluster.run(2);
    expect(held).not.toEqual([]);
    // Of two that are alike the last one is to go; the other one leaves by itself.
    const node = cluster.pod1("v").spec?.nodeName ?? "";
    await cluster.admin.delete(at("v"), { gracePeriodSeconds: 0 });
    expect(await cluster.admin.bind(at("vip"), { node, uid: metadata.uid })).toMatchObject({ ok: true });
    open();
    await cluster.run(3);
    expect(cluster.pods().map(({ metadata: { name }, status }) => [name, status?.phase])).toEqual([
      ["vip", "Running"],
      ["w", "Running"],
    ]);
    expect(marksOf(cluster.pod1("vip"))).toEqual([]);
    expect(marksOf(cluster.pod1("w"))).toEqual([]);
  });
});

test.each(["list pods v", "list pods vip"])(
  "an API that refuses %s is asked again, without any event",
  async (call) => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("v", { gpus: 8 });
    await cluster.run(2);
    let refusals = 0;
    cluster.kube.faults = {
      before: (verb, what) => {
        if (`${verb} ${what}` !== call || refusals === 3) return undefined;
        refusals++;
        return refused("Unavailable", "not now");
      },
    };
    await cluster.pod("vip", { gpus: 8, spec: { priorityClassName: "build-preemptible" } });
    await cluster.run(20);
    expect(refusals).toBe(3);
    expect(cluster.pods().map(({ metadata: { name }, status }) => [name, status?.phase])).toEqual([["vip", "Running"]]);
  },
);

describe("a victim whose eviction the API refuses", () => {
  const refusing = (cluster: ScheduleCluster, reason: "Forbidden" | "Unavailable", times: number): (() => number) => {
    let calls = 0;
    cluster.kube.faults = {
      before: (verb, what) => {
        if (`${verb} ${what}` !== "delete pods v" || calls === times) return undefined;
        calls++;
        return refused(reason, "a webhook says no");
      },
    };
    return () => calls;
  };
  const vip = { gpus: 8, spec: { priorityClassName: "build-preemptible" } };

  test.each(["Forbidden", "Unavailable"] as const)("(%s) is asked less and less, and others go on", async (reason) => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("v", { gpus: 8 });
    await cluster.run(2);
    const calls = refusing(cluster, reason, Number.POSITIVE_INFINITY);
    await cluster.pod("vip", vip);
    await cluster.pod("other", { gpus: 0 });
    await cluster.run(30);
    expect(cluster.pod1("other").status?.phase).toBe("Running");
    expect(cluster.pod1("v").status?.phase).toBe("Running");
    const before = calls();
    await cluster.run(60);
    expect(calls() - before).toBeLessThan(12);
    cluster.kube.faults = {};
    await cluster.run(120);
    expect(cluster.pods().map(({ metadata: { name }, status }) => [name, status?.phase])).toEqual([
      ["other", "Running"],
      ["vip", "Running"],
    ]);
  });

  test("does not block other evictions: another victim is chosen", async () => {
    const cluster = await ScheduleCluster.create(["h100=2"]);
    for (const name of ["a", "v"]) await cluster.pod(name, { gpus: 8 });
    await cluster.run(2);
    refusing(cluster, "Forbidden", Number.POSITIVE_INFINITY);
    await cluster.pod("vip", vip);
    await cluster.run(10);
    expect(cluster.pod1("v").status?.phase).toBe("Running");
    expect(cluster.pod1("vip").status?.phase).toBe("Running");
  });

  test("at first gets its Event when it is evicted, as any other", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.group("g", { minMember: 1 });
    await cluster.pod("v", { gpus: 8, annotations: { "pod-group-name": "g" } });
    await cluster.run(2);
    refusing(cluster, "Unavailable", 1);
    await cluster.pod("vip", vip);
    await cluster.run(5);
    expect(cluster.pod1("vip").status?.phase).toBe("Running");
    const evictions = cluster
      .all<KubeObject & { reason: string }>("/events")
      .filter(({ reason }) => reason === "Evict");
    expect(evictions.map(({ metadata }) => metadata.annotations?.["evictor-action-type"])).toEqual(["preempt"]);
    const group = cluster.groups().find(({ metadata }) => metadata.name === "g");
    expect(group?.metadata.annotations?.["kai.scheduler/last-eviction-timestamp"]).toBeDefined();
  });
});

test("a preemptor has the annotation of its plan until it is bound, and not after that", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.pod("v", { gpus: 8 });
  await cluster.run(2);
  const { open } = holdCalls(cluster, (call) => call === "bind pods vip");
  await cluster.pod("vip", { gpus: 8, spec: { priorityClassName: "build-preemptible" } });
  await cluster.run(3);
  expect(marksOf(cluster.pod1("vip"))).toEqual(["muster.dev/eviction-plan"]);
  open();
  await cluster.run(3);
  expect(cluster.pod1("vip").status?.phase).toBe("Running");
  expect(marksOf(cluster.pod1("vip"))).toEqual([]);
});

describe("what a plan has left behind", () => {
  /** `v` is marked, and the holder of the plan waits for its node with `plan`. */
  async function left(plan: string): Promise<{ cluster: ScheduleCluster; node: string; mark: string }> {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    const [node = ""] = cluster.api.names("/nodes");
    // A finalizer holds it back, so that only the rest of the plan changes anything.
    const gates = { schedulingGates: [{ name: "wait" }] };
    const holder = await cluster.pod("vip", {
      gpus: 8,
      annotations: { "muster.dev/eviction-plan": plan },
      spec: gates,
    });
    const status = { nominatedNodeName: node };
    await cluster.admin.patch({ ...at("vip"), subresource: "status" }, { type: "merge", body: { status } });
    await cluster.run(1);
    return { cluster, node, mark: `p1 default/vip ${holder.metadata.uid}` };
  }

  test("is finished where the plan stands", async () => {
    const { cluster, node, mark } = await left("p1");
    await bystander(cluster, "v", node, { "muster.dev/evicted-for": mark });
    await cluster.run(3);
    expect(cluster.pods().map(({ metadata }) => metadata.name)).toEqual(["vip"]);
  });

  test("is taken off where the newcomer waits by another plan", async () => {
    const { cluster, node, mark } = await left("p2");
    const uid = await bystander(cluster, "v", node, { "muster.dev/evicted-for": mark });
    await cluster.run(3);
    expect(cluster.pod1("v").metadata.uid).toBe(uid);
    expect(marksOf(cluster.pod1("v"))).toEqual([]);
  });

  test("is nothing to a pod that has come in the name of a victim", async () => {
    const { cluster, node, mark } = await left("p1");
    const { held, open } = holdCalls(cluster, (call) => call === "list pods v");
    await bystander(cluster, "v", node, { "muster.dev/evicted-for": mark });
    await cluster.run(1);
    expect(held).not.toEqual([]);
    const uid = await takesItsPlace(cluster, "v", node);
    open();
    await cluster.run(3);
    expect(cluster.pod1("v").metadata.uid).toBe(uid);
    expect(cluster.pod1("v").metadata.deletionTimestamp).toBeUndefined();
  });
});

import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../src/model/objects/json.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { isFinallyFailed } from "../../src/model/scheduling/bindRequest.ts";
import { lateNews, ScheduleCluster } from "./scheduleCluster.ts";

async function request(
  cluster: ScheduleCluster,
  pod: string,
  node: string,
  status?: JsonObject,
  annotations: Record<string, string> = {},
): Promise<void> {
  const { uid } = cluster.pod1(pod).metadata;
  await cluster.create("scheduling.run.ai/bindrequests", {
    apiVersion: "scheduling.run.ai/v1alpha2",
    kind: "BindRequest",
    metadata: {
      name: pod,
      namespace: "default",
      annotations,
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: pod, uid }],
    },
    spec: { podName: pod, selectedNode: node, receivedResourceType: "Regular" },
  });
  if (status === undefined) return;
  const ref = {
    group: "scheduling.run.ai",
    version: "v1alpha2",
    plural: "bindrequests",
    namespace: "default",
    name: pod,
  };
  const patched = await cluster.admin.patch({ ...ref, subresource: "status" }, { type: "merge", body: { status } });
  if (!patched.ok) throw new Error(patched.message);
}

test("a BindRequest for a node that does not exist is deleted, and its pod is placed again", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.pod("p", { gpus: 1, spec: { schedulingGates: [{ name: "wait" }] } });
  await cluster.run(1);
  await request(cluster, "p", "nowhere");
  await cluster.run(3);
  expect(cluster.requests()).toEqual([]);
  const opened = await cluster.admin.patch(
    { ...builtin.Pod, namespace: "default", name: "p" },
    { type: "merge", body: { spec: { schedulingGates: null } } },
  );
  expect(opened.ok).toBe(true);
  await cluster.run(3);
  expect(cluster.pod1("p").status?.phase).toBe("Running");
});

test("a BindRequest for a node that is not observed yet stays", async () => {
  const news = lateNews("nodes");
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { between: news.between });
  await cluster.pod("p", { gpus: 1, spec: { schedulingGates: [{ name: "wait" }] } });
  await cluster.run(1);
  news.hold();
  await cluster.create("/nodes", { apiVersion: "v1", kind: "Node", metadata: { name: "new" } });
  await request(cluster, "p", "new");
  const uids = cluster.requests().map(({ metadata }) => metadata.uid);
  await cluster.run(3);
  expect(cluster.requests().map(({ metadata }) => metadata.uid)).toEqual(uids);
  news.open();
  await cluster.run(3);
  expect(cluster.requests().map(({ metadata }) => metadata.uid)).toEqual(uids);
});

describe("a BindRequest that is withdrawn before its bind", () => {
  test("gets the binder's finalizer first, and the binder writes its pod before it lets go", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    const [node = ""] = cluster.api.names("/nodes");
    const set = { "muster.dev/commit": "c", "muster.dev/commit-size": "3" };
    for (const name of ["a", "b"]) {
      await cluster.pod(name, { gpus: 1, spec: { schedulingGates: [{ name: "wait" }] } });
      await cluster.run(1);
      await request(cluster, name, node, undefined, set);
    }
    const [{ metadata: first } = { metadata: { uid: "" } }] = cluster.requests();
    const before = cluster.kube.calls.length;
    await cluster.run(8);
    expect(cluster.requests()).toEqual([]);
    const about = /^(patch bindrequests|delete bindrequests|patch pods) a$/;
    expect(cluster.kube.calls.slice(before).filter((call) => about.test(call))).toEqual([
      "patch bindrequests a",
      "delete bindrequests a",
      "patch pods a",
      "patch bindrequests a",
    ]);
    expect(cluster.pod1("a").metadata.annotations?.["muster.dev/withdrawn-request"]).toBe(first.uid);
  });

  test("holds its node until the scheduler has observed that its pod is not bound there", async () => {
    const news = lateNews("pods");
    const cluster = await ScheduleCluster.create(["h100=1"], {}, { between: news.between });
    const [node = ""] = cluster.api.names("/nodes");
    await cluster.pod("first", { gpus: 8, spec: { schedulingGates: [{ name: "wait" }] } });
    await cluster.run(1);
    await request(cluster, "first", node, undefined, { "muster.dev/commit": "c", "muster.dev/commit-size": "2" });
    await cluster.pod("second", { gpus: 8 });
    await cluster.run(2);
    expect(cluster.pod1("second").spec?.nodeName).toBeUndefined();

    // The bind lands, and the watch of pods is late.
    news.hold();
    const pods = { ...builtin.Pod, namespace: "default", name: "first" };
    const opened = await cluster.admin.patch(pods, { type: "merge", body: { spec: { schedulingGates: null } } });
    expect(opened.ok).toBe(true);
    expect((await cluster.admin.bind(pods, { node, uid: cluster.pod1("first").metadata.uid })).ok).toBe(true);
    const requests = { group: "scheduling.run.ai", version: "v1alpha2", plural: "bindrequests" };
    expect((await cluster.admin.delete({ ...requests, namespace: "default", name: "first" })).ok).toBe(true);
    await cluster.run(10);
    expect(cluster.requests()).toEqual([]);
    expect(cluster.pod1("second").spec?.nodeName).toBeUndefined();
    news.open();
    await cluster.run(5);
    expect(cluster.pod1("second").spec?.nodeName).toBeUndefined();
    expect(cluster.pod1("second").status?.phase).toBe("Pending");
  });
});

describe("a pod whose bind failed for good", () => {
  const pool = "kai.scheduler/node-pool";
  const inPool = { metadata: { labels: { [pool]: "gold" } } };

  /** How long it takes after each failure until it is tried again, in tenths of a second. */
  async function waits(cluster: ScheduleCluster, failures: number): Promise<number[]> {
    const [node = ""] = cluster.api.names("/nodes");
    const body = { spec: { schedulingGates: null } };
    const found: number[] = [];
    await cluster.run(1);
    await request(cluster, "p", node, { phase: "Failed", reason: "no", failedAttempts: 1 });
    await cluster.admin.patch({ ...builtin.Pod, namespace: "default", name: "p" }, { type: "merge", body });
    // No binder runs: the test fails each request itself.
    cluster.kube.faults = { before: (verb) => (verb === "bind" ? refused("Unavailable", "no") : undefined) };
    const ref = { group: "scheduling.run.ai", version: "v1alpha2", plural: "bindrequests" };
    for (let at = 0; at < failures; at++) {
      let tenths = 0;
      for (; cluster.requests().every(({ status }) => status !== undefined) && tenths < 400; tenths++) {
        await cluster.run(0.1);
      }
      found.push(tenths);
      const failed = await cluster.admin.patch(
        { ...ref, namespace: "default", name: "p", subresource: "status" },
        { type: "merge", body: { status: { phase: "Failed", reason: "no", failedAttempts: 1 } } },
      );
      expect(failed.ok).toBe(true);
    }
    return found;
  }

  test("waits a second, and twice as long each time, up to thirty", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.pod("p", {
      annotations: { "gpu-fraction": "0.5" },
      spec: { schedulingGates: [{ name: "wait" }] },
    });
    const found = await waits(cluster, 7);
    for (const [at, seconds] of [1, 2, 4, 8, 16, 30, 30].entries()) {
      expect(found[at]).toBeGreaterThanOrEqual(seconds * 10 - 1);
      expect(found[at]).toBeLessThan(seconds * 10 + 8);
    }
  });

  test("waits in a pool of its own as well", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
    const [node = ""] = cluster.api.names("/nodes");
    const nodes = { ...builtin.Node, namespace: "", name: node };
    await cluster.admin.patch(nodes, { type: "merge", body: inPool });
    await cluster.create("kai.scheduler/schedulingshards", {
      apiVersion: "kai.scheduler/v1",
      kind: "SchedulingShard",
      metadata: { name: "gold" },
      spec: { partitionLabelValue: "gold" },
    });
    const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
    await cluster.create("scheduling.run.ai/queues", {
      apiVersion: "scheduling.run.ai/v2",
      kind: "Queue",
      metadata: { name: "rich", ...inPool.metadata },
      spec: { resources: { gpu: free, cpu: free, memory: free } },
    });
    await cluster.pod("p", {
      annotations: { "gpu-fraction": "0.5" },
      labels: { [pool]: "gold", "kai.scheduler/queue": "rich" },
      spec: { schedulingGates: [{ name: "wait" }] },
    });
    const [first = 0, second = 0] = await waits(cluster, 2);
    expect(first).toBeGreaterThanOrEqual(9);
    expect(second).toBeGreaterThanOrEqual(19);
  });
});

test("a request that failed for good is taken away", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  const [node = ""] = cluster.api.names("/nodes");
  await cluster.pod("p", { gpus: 1, spec: { schedulingGates: [{ name: "wait" }] } });
  await cluster.run(1);
  await request(cluster, "p", node, { phase: "Failed", reason: "no", failedAttempts: 1 });
  await cluster.run(3);
  expect(cluster.requests()).toEqual([]);
});

test.each([
  ["without a bound on attempts, after the first", undefined, 1, true],
  ["with three retries, after the fourth attempt", 3, 4, true],
  ["with three retries, not after the third", 3, 3, false],
  ["with no retry, after the first", 0, 1, true],
])("a request has failed for good %s", (_, backoffLimit, failedAttempts, is) => {
  const request = {
    spec: backoffLimit === undefined ? {} : { backoffLimit },
    status: { phase: "Failed", failedAttempts },
  };
  expect(isFinallyFailed(request as never)).toBe(is);
});

test("a request for a node of another pool is left to that pool", async () => {
  const cluster = await ScheduleCluster.create(["h100=2"]);
  const [gold = ""] = cluster.api.names("/nodes");
  const ref = { ...builtin.Node, namespace: "", name: gold };
  await cluster.admin.patch(ref, {
    type: "merge",
    body: { metadata: { labels: { "kai.scheduler/node-pool": "gold" } } },
  });
  await cluster.pod("p", { gpus: 1, spec: { schedulingGates: [{ name: "wait" }] } });
  await cluster.run(1);
  await request(cluster, "p", gold);
  await cluster.run(3);
  expect(cluster.requests().map(({ metadata }) => metadata.name)).toEqual(["p"]);
});

test("a pod of a gang that is deleted before its set has begun takes the whole set with it", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  const [node = ""] = cluster.api.names("/nodes");
  const commit = { "muster.dev/commit": "c", "muster.dev/commit-size": "3" };
  const pods = builtin.Pod;
  for (const name of ["a", "b"]) {
    await cluster.admin.create(pods, {
      apiVersion: "v1",
      kind: "Pod",
      // Its finalizer has to be removed before it is gone.
      metadata: { name, namespace: "default", finalizers: ["example.com/wait"] },
      spec: {
        schedulerName: "kai-scheduler",
        schedulingGates: [{ name: "wait" }],
        containers: [{ name: "c", image: "i" }],
      },
    } as never);
  }
  await cluster.run(1);
  for (const name of ["a", "b"]) await request(cluster, name, node, undefined, commit);
  await cluster.run(1);
  expect(cluster.requests()).toHaveLength(2);
  await cluster.admin.delete({ ...pods, namespace: "default", name: "a" });
  // Sooner than a set is given up of which only some requests were ever made.
  await cluster.run(1);
  expect(cluster.pod1("a").metadata.deletionTimestamp).toBeDefined();
  expect(cluster.requests()).toEqual([]);
});

test("a request that is done stays until its whole set is over", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  cluster.kube.faults = { hold: (verb, what) => (verb === "bind" && what === "pods g-1" ? opened : undefined) };
  await cluster.group("g", { minMember: 2 });
  for (const name of ["g-0", "g-1"]) await cluster.pod(name, { gpus: 1, annotations: { "pod-group-name": "g" } });
  await cluster.run(3);
  expect([cluster.pod1("g-0"), cluster.pod1("g-1")].map(({ spec }) => spec?.nodeName !== undefined)).toEqual([
    true,
    false,
  ]);
  expect(
    cluster.requests().map(({ metadata, status }) => [metadata.name, (status as JsonObject | undefined)?.["phase"]]),
  ).toEqual([
    ["g-0", "Succeeded"],
    ["g-1", undefined],
  ]);
  open();
  await cluster.run(3);
  expect(cluster.pod1("g-1").status?.phase).toBe("Running");
  expect(cluster.requests()).toEqual([]);
});

test("of a gang of which one request is refused the others are taken back at once, and it runs when it can", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  const isSecond = (verb: string, what: string) => verb === "create" && what === "bindrequests g-1";
  cluster.kube.faults = { before: (verb, what) => (isSecond(verb, what) ? refused("Forbidden", "no") : undefined) };
  await cluster.group("g", { minMember: 2 });
  for (const name of ["g-0", "g-1"]) await cluster.pod(name, { gpus: 1, annotations: { "pod-group-name": "g" } });
  // Sooner than the set would be taken for abandoned.
  await cluster.run(0.5);
  expect(cluster.kube.calls).toContain("create bindrequests g-0");
  expect(cluster.requests()).toEqual([]);
  cluster.kube.faults = {};
  await cluster.run(10);
  expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Running", "Running"]);
});

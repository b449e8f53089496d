/** What is written for one job: all of it or none, whatever becomes of the single writes. */
import { describe, expect, test } from "vitest";
import { refused } from "../../src/model/outcome.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const inGroup = (name: string, subGroup?: string) => ({
  annotations: { "pod-group-name": name },
  labels: subGroup === undefined ? {} : { "kai.scheduler/subgroup-name": subGroup },
});
const running = (cluster: ScheduleCluster): string[] =>
  cluster
    .pods()
    .filter(({ status }) => status?.phase === "Running")
    .map(({ metadata }) => metadata.name)
    .sort();
/** Requests by the set that they belong to. */
const sets = (cluster: ScheduleCluster): Record<string, string[]> => {
  const found: Record<string, string[]> = {};
  for (const { metadata } of cluster.requests()) {
    const size = metadata.annotations?.["muster.dev/commit-size"] ?? "";
    found[size] = [...(found[size] ?? []), metadata.name];
  }
  return found;
};

/** Refuses the first call that is meant. */
function refuseOnce(cluster: ScheduleCluster, call: string, reason: "Forbidden" | "Conflict"): void {
  let isOver = false;
  cluster.kube.faults = {
    before: (verb, what) => {
      if (isOver || `${verb} ${what}` !== call) return undefined;
      isOver = true;
      return refused(reason, "no");
    },
  };
}

describe("a subgroup that comes to a job that runs", () => {
  async function grown(): Promise<ScheduleCluster> {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    const subGroups = [
      { name: "a", minMember: 2 },
      { name: "b", minMember: 3 },
    ];
    await cluster.group("g", { minSubGroup: 1, subGroups });
    for (const name of ["a0", "a1"]) await cluster.pod(name, { gpus: 1, ...inGroup("g", "a") });
    await cluster.run(2);
    expect(running(cluster)).toEqual(["a0", "a1"]);
    return cluster;
  }

  test("is one set", async () => {
    const cluster = await grown();
    cluster.kube.faults = { hold: (verb) => (verb === "bind" ? new Promise(() => {}) : undefined) };
    for (const name of ["b0", "b1", "b2"]) await cluster.pod(name, { gpus: 1, ...inGroup("g", "b") });
    await cluster.run(1);
    expect(sets(cluster)).toEqual({ 3: ["b0", "b1", "b2"] });
  });

  test("has no pod with a node while one of them cannot be written", async () => {
    const cluster = await grown();
    cluster.kube.faults = {
      before: (verb, what) => (`${verb} ${what}` === "create bindrequests b1" ? refused("Forbidden", "no") : undefined),
    };
    for (const name of ["b0", "b1", "b2"]) await cluster.pod(name, { gpus: 1, ...inGroup("g", "b") });
    for (let at = 0; at < 20; at++) {
      await cluster.run(0.5);
      expect(running(cluster)).toEqual(["a0", "a1"]);
    }
    cluster.kube.faults = {};
    await cluster.run(20);
    expect(running(cluster)).toEqual(["a0", "a1", "b0", "b1", "b2"]);
  });
});

describe("of a gang one write is refused:", () => {
  test("what was written of it is taken back at once, and not when it is taken for abandoned", async () => {
    const cluster = await ScheduleCluster.create(["h100=1"]);
    await cluster.group("g", { minMember: 2 });
    refuseOnce(cluster, "create bindrequests g-1", "Forbidden");
    for (const name of ["g-0", "g-1"]) await cluster.pod(name, { gpus: 1, ...inGroup("g") });
    await cluster.run(0.8);
    expect(cluster.kube.calls.filter((call) => /^create bindrequests/.test(call))).toHaveLength(2);
    expect(cluster.requests()).toEqual([]);
    await cluster.run(2);
    expect(running(cluster)).toEqual(["g-0", "g-1"]);
  });
});

test("a gang whose request has a name that is taken is decided again when the name is free", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.create("scheduling.run.ai/bindrequests", {
    apiVersion: "scheduling.run.ai/v1alpha2",
    kind: "BindRequest",
    // Of an earlier pod; its finalizer has to be removed before it is gone.
    metadata: { name: "g-0", namespace: "default", finalizers: ["example.com/wait"] },
    spec: { podName: "g-0", selectedNode: cluster.api.names("/nodes")[0] },
  });
  await cluster.group("g", { minMember: 2 });
  for (const name of ["g-0", "g-1"]) await cluster.pod(name, { gpus: 1, ...inGroup("g") });
  await cluster.run(3);
  expect(running(cluster)).toEqual([]);
  const ref = { group: "scheduling.run.ai", version: "v1alpha2", plural: "bindrequests" };
  const letGo = { type: "merge", body: { metadata: { finalizers: null } } } as const;
  expect(await cluster.admin.patch({ ...ref, namespace: "default", name: "g-0" }, letGo)).toMatchObject({ ok: true });
  await cluster.run(2);
  expect(running(cluster)).toEqual(["g-0", "g-1"]);
});

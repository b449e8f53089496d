import { describe, expect, test } from "vitest";
import { cycle } from "../../decide/schedule/cycle.ts";
import { gang, group, node, pod, startMs, type WorldWords, world } from "../../decide/schedule/testCluster.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { intentsOf } from "./planIntents.ts";

/** What is written for what was decided. */

function written(words: WorldWords, nodePool = "") {
  const cluster = world(words);
  const plan = cycle(cluster, startMs + 60_000);
  return plan.jobs.flatMap((planned) => {
    const commit = intentsOf(planned, { cluster, requestsRevision: "7", nodePool });
    return commit.decisions.map(({ intent, effects }) => ({ intent, effects, commitId: commit.commitId }));
  });
}

function requests(words: WorldWords, nodePool = ""): BindRequest[] {
  return written(words, nodePool).map(({ intent }) =>
    intent.type === "create" ? (intent.object as unknown as BindRequest) : expect.fail(`a ${intent.type}`),
  );
}

const half = gang("a", 1, { fraction: "0.5" });

describe("a BindRequest", () => {
  test("has the name and namespace of its pod, and goes with it", () => {
    const [request] = requests(half);
    expect(request?.metadata).toMatchObject({
      name: "a-000",
      namespace: "default",
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "a-000", uid: "pod-default-a-000" }],
    });
    expect(request?.metadata.ownerReferences?.[0]).not.toHaveProperty("controller");
    expect(request?.metadata.ownerReferences?.[0]).not.toHaveProperty("blockOwnerDeletion");
  });

  test("is made only while no other of its name is known", () => {
    expect(written(half)[0]?.intent).toMatchObject({ type: "create", absentAt: "7" });
  });

  test.each([
    ["its node", "n1", "", { "selected-node": "n1" }],
    ["its node and its pool", "n1", "gold", { "selected-node": "n1", "kai.scheduler/node-pool": "gold" }],
    ["not the name of a node that is too long for a label", "n".repeat(64), "", {}],
  ])("has as labels %s", (_, name, nodePool, labels) => {
    const [request] = requests({ nodes: [node(name)], ...half }, nodePool);
    expect(request?.metadata.labels).toEqual(labels);
  });

  test("says nothing about how often it may be tried", () => {
    expect(requests(half)[0]?.spec).not.toHaveProperty("backoffLimit");
    expect(requests(half)[0]).not.toHaveProperty("status");
  });

  const sharing = {
    groups: [group("s"), group("a", { minMember: 1 })],
    pods: [
      pod("s", { fraction: "0.2", on: "n1", group: "s", groups: ["g"] }),
      pod("a-000", { fraction: "0.5", group: "a" }),
    ],
  };
  test.each<[string, WorldWords, object]>([
    ["half a GPU", sharing, { receivedResourceType: "Fraction", receivedGPU: { count: 1, portion: "0.50" } }],
    ["half a GPU that is shared already", sharing, { selectedGPUGroups: ["g"] }],
    [
      "a quarter of each of two",
      gang("a", 1, { fraction: "0.25", devices: 2 }),
      { receivedGPU: { count: 2, portion: "0.25" } },
    ],
    ["memory of a GPU", gang("a", 1, { gpuMemory: "20000" }), { receivedGPU: { count: 1, portion: "0.25" } }],
    [
      "whole GPUs",
      gang("a", 2, { gpus: 2 }),
      { receivedResourceType: "Regular", receivedGPU: { count: 2, portion: "1.00" } },
    ],
    ["no GPU", gang("a", 2, {}), { receivedResourceType: "Regular", receivedGPU: { count: 0, portion: "" } }],
    [
      "an instance of MIG",
      {
        nodes: [node("n1", { gpus: 0, more: { "nvidia.com/mig-1g.5gb": "4" } })],
        ...gang("a", 2, { requests: { "nvidia.com/mig-1g.5gb": "1" } }),
      },
      { receivedResourceType: "MigInstance" },
    ],
  ])("for %s says so", (_, words, spec) => {
    expect(requests(words)[0]?.spec).toMatchObject({ podName: "a-000", selectedNode: "n1", ...spec });
  });
});

describe("a gang", () => {
  const commits = (words: WorldWords) => requests(words).map(({ metadata }) => metadata.annotations ?? {});

  test("is one set: every request has its id and how many there are", () => {
    const all = commits(gang("a", 3, { gpus: 1 }));
    expect(all.map((each) => each["muster.dev/commit-size"])).toEqual(["3", "3", "3"]);
    expect(new Set(all.map((each) => each["muster.dev/commit"])).size).toBe(1);
    expect(all[0]?.["muster.dev/commit"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("decided again is the same set, and another place is another", () => {
    const id = (name: string) =>
      commits({ nodes: [node(name)], ...gang("a", 2, { gpus: 1 }) })[0]?.["muster.dev/commit"];
    expect(id("n1")).toBe(id("n1"));
    expect(id("n1")).not.toBe(id("n2"));
  });

  test("that has its minimum grows without a set", () => {
    const words = {
      groups: [group("a", { minMember: 1 })],
      pods: [pod("r", { gpus: 1, on: "n1", group: "a" }), pod("p", { gpus: 1, group: "a" })],
    };
    expect(written(words).map(({ intent, commitId }) => [intent.type, commitId])).toEqual([["bind", undefined]]);
  });
});

describe("a pod alone with whole GPUs", () => {
  test("is bound in one write, which says what it was decided on", () => {
    expect(written(gang("a", 1, { gpus: 1 }))[0]?.intent).toMatchObject({
      type: "bind",
      node: "n1",
      expected: { uid: "pod-default-a-000", resourceVersion: "1" },
    });
  });

  test("gets the label of its pool with it", () => {
    expect(written(gang("a", 1, { gpus: 1 }), "gold")[0]?.intent).toMatchObject({
      labels: { "kai.scheduler/node-pool": "gold" },
    });
  });

  test("counts as placed from the moment that it is decided", () => {
    expect(written(gang("a", 1, { gpus: 1 }))[0]?.effects).toEqual([
      { key: "pod-default-a-000", value: { node: "n1", groups: [] } },
    ]);
  });
});

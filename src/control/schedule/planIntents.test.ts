import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  clusterWith,
  gang,
  group,
  node,
  pod,
  startMs,
} from "../../../testing/decide/scheduleCluster.ts";
import { cycle } from "../../decide/schedule/cycle.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { commitsOf } from "./planIntents.ts";

/** What is written for what was decided. */

function written(words: ClusterFields, nodePool = "") {
  const cluster = clusterWith(words);
  const plan = cycle(cluster, startMs + 60_000);
  return plan.jobs
    .flatMap((planned) => commitsOf(planned, { cluster, requestsRevision: "7", nodePool }))
    .flatMap(({ writes, commitId }) => writes.map(({ decision }) => ({ ...decision, commitId })));
}

function requests(words: ClusterFields, nodePool = ""): BindRequest[] {
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
    expect(written(half)[0]?.intent).toMatchObject({ type: "create", absentAtRevision: "7" });
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
  test.each<[string, ClusterFields, object]>([
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
  const commits = (words: ClusterFields) => requests(words).map(({ metadata }) => metadata.annotations ?? {});

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

  test("tried again in another epoch is another set", () => {
    const ids = ["1", "2"].map((epoch) => {
      const { groups, pods } = gang("a", 2, { gpus: 1, annotations: { "muster.dev/scheduler-epoch": epoch } });
      return commits({ groups, pods })[0]?.["muster.dev/commit"];
    });
    expect(ids[0]).not.toBe(ids[1]);
  });

  test("that has its minimum grows without a set", () => {
    const words = {
      groups: [group("a", { minMember: 1 })],
      pods: [pod("r", { gpus: 1, on: "n1", group: "a" }), pod("p", { gpus: 1, group: "a" })],
    };
    expect(written(words).map(({ intent, commitId }) => [intent.type, commitId])).toEqual([["bind", undefined]]);
  });
});

describe("a job that runs and grows", () => {
  /** How many binds are in which set of how many; what is in none stands alone. */
  const sets = (words: ClusterFields): string[] => {
    const sizes = new Map<string, string[]>();
    const alone: string[] = [];
    for (const { intent, commitId } of written(words)) {
      const { name } = intent.target;
      if (commitId === undefined) alone.push(`${intent.type} ${name}`);
      else sizes.set(commitId, [...(sizes.get(commitId) ?? []), name]);
      const { metadata } = intent.type === "create" ? intent.object : { metadata: undefined };
      expect(metadata?.annotations?.["muster.dev/commit"]).toBe(commitId);
    }
    for (const { intent, commitId } of written(words)) {
      if (commitId === undefined || intent.type !== "create") continue;
      expect(intent.object.metadata.annotations?.["muster.dev/commit-size"]).toBe(String(sizes.get(commitId)?.length));
    }
    return [...[...sizes.values()].map((names) => names.sort().join(" + ")), ...alone].sort();
  };
  const subGroups = [
    { name: "a", minMember: 2 },
    { name: "b", minMember: 3 },
    { name: "c", minMember: 1 },
  ];
  const members = (subGroup: string, count: number, on?: string) =>
    Array.from({ length: count }, (_, at) =>
      pod(`${subGroup}${at}`, { gpus: 1, group: "g", subGroup, ...(on !== undefined && { on }) }),
    );
  const groups = [group("g", { minSubGroup: 1, subGroups })];

  test("by a whole subgroup gets that as one set", () => {
    expect(sets({ groups, pods: [...members("a", 2, "n1"), ...members("b", 3)] })).toEqual(["b0 + b1 + b2"]);
  });

  test("by the rest of a subgroup gets the rest as one set", () => {
    const pods = [...members("a", 2, "n1"), ...members("b", 1, "n1"), ...members("b", 3).slice(1)];
    expect(sets({ groups, pods })).toEqual(["b1 + b2"]);
  });

  test("by a subgroup of one pod and by pods beyond a minimum gets each alone", () => {
    const pods = [...members("a", 2, "n1"), ...members("a", 4).slice(2), ...members("c", 1)];
    expect(sets({ groups, pods })).toEqual(["bind a2", "bind a3", "bind c0"]);
  });

  test("by two subgroups and a pod gets two sets and a bind", () => {
    const more = [group("g", { minSubGroup: 1, subGroups: [...subGroups, { name: "d", minMember: 2 }] })];
    const pods = [...members("a", 2, "n1"), pod("a2", { gpus: 1, group: "g", subGroup: "a" })];
    expect(sets({ groups: more, pods: [...pods, ...members("b", 3), ...members("d", 2)] })).toEqual([
      "b0 + b1 + b2",
      "bind a2",
      "d0 + d1",
    ]);
  });

  test("by a subgroup of subgroups gets that as one set", () => {
    const nested = [
      { name: "a", minMember: 2 },
      { name: "top" },
      { name: "x", parent: "top", minMember: 1 },
      { name: "y", parent: "top", minMember: 2 },
    ];
    const pods = [...members("a", 2, "n1"), ...members("x", 1), ...members("y", 2)];
    expect(sets({ groups: [group("g", { minSubGroup: 1, subGroups: nested })], pods })).toEqual(["x0 + y0 + y1"]);
  });

  test("that lost its minimum gets all that it lacks as one set", () => {
    expect(sets({ groups, pods: [...members("a", 1, "n1"), ...members("a", 2).slice(1), ...members("b", 3)] })).toEqual(
      ["a1 + b0 + b1 + b2"],
    );
  });
});

describe("a pod alone with whole GPUs", () => {
  test("is bound in one write with its precondition", () => {
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

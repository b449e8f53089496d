import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  gang,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { SubGroup } from "../../../model/scheduling/podGroup.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { GroupNode, Job } from "../cluster/job.ts";
import { isEvictable } from "../cluster/task.ts";
import {
  bySubGroupOrder,
  elasticRank,
  fragmentsOf,
  isReady,
  isSatisfied,
  nextSteps,
  spareUnitWith,
  surplusVictims,
} from "./gangSteps.ts";

const jobOf = (cluster: Cluster, name = "g"): Job => {
  cluster.refresh(startMs);
  return cluster.jobs.get(`default/${name}`) ?? expect.fail(`no job ${name}`);
};

/** Pods of subgroups: how many run and how many wait. */
type Members = Record<string, { runs?: number; waits?: number }>;

function job(subGroups: SubGroup[], members: Members, minSubGroup?: number): Job {
  const pods = Object.entries(members).flatMap(([sub, { runs = 0, waits = 0 }]) => [
    ...Array.from({ length: runs }, (_, at) => pod(`${sub}-r${at}`, { gpus: 1, on: "n1", group: "g", subGroup: sub })),
    ...Array.from({ length: waits }, (_, at) => pod(`${sub}-w${at}`, { gpus: 1, group: "g", subGroup: sub })),
  ]);
  return jobOf(
    clusterWith({ groups: [group("g", { subGroups, ...(minSubGroup !== undefined && { minSubGroup }) })], pods }),
  );
}

const steps = (of: Job): string[][] => nextSteps(of).map(({ tasks }) => tasks.map(({ name }) => name));

describe("the minimum of a group", () => {
  test.each([
    ["that says nothing is one", {}, 1],
    ["that says null is one", { minMember: null }, 1],
    ["is what it says", { minMember: 3 }, 3],
    ["may be none", { minMember: 0 }, 0],
  ])("%s", (_, spec, min) => {
    const [set] = jobOf(clusterWith({ groups: [group("g", spec)] })).podSets;
    expect(set).toMatchObject({ name: "default", min });
  });

  test("counts for nothing where there are subgroups", () => {
    const subGroups = [{ name: "a", minMember: 1 }];
    const pods = [pod("a0", { group: "g", subGroup: "a" })];
    expect(isReady(jobOf(clusterWith({ groups: [group("g", { minMember: 9, subGroups })], pods })).root)).toBe(true);
  });

  test.each([
    ["all of them unless it says otherwise", undefined, false],
    ["as many as it says", 1, true],
  ])("of subgroups is %s", (_, minSubGroup, is) => {
    const two = [
      { name: "a", minMember: 1 },
      { name: "b", minMember: 1 },
    ];
    expect(isSatisfied(job(two, { a: { runs: 1 } }, minSubGroup).root)).toBe(is);
  });
});

describe("a pod that names", () => {
  test.each([
    ["no subgroup", {}],
    ["a subgroup that the group does not have", { subGroup: "nobody" }],
  ])("%s is not placed, and others are", (_, words) => {
    const groups = [group("g", { subGroups: [{ name: "a", minMember: 1 }] })];
    const pods = [pod("a0", { group: "g", subGroup: "a" }), pod("lost", { group: "g", ...words })];
    expect(outcome(decide(clusterWith({ groups, pods })))).toEqual({ a0: "n1" });
  });
});

describe("a group is ready", () => {
  test.each([
    ["when as many pods live as it needs", { waits: 2, gated: 0 }, true],
    ["not when some of them are gated", { waits: 1, gated: 1 }, false],
    ["also when more than it needs are gated", { waits: 2, gated: 3 }, true],
  ])("%s", (_, { waits, gated }, is) => {
    const spec = { schedulingGates: [{ name: "x" }] } as never;
    const pods = [
      ...Array.from({ length: waits }, (_, at) => pod(`w${at}`, { group: "g" })),
      ...Array.from({ length: gated }, (_, at) => pod(`x${at}`, { group: "g", spec })),
    ];
    expect(isReady(jobOf(clusterWith({ groups: [group("g", { minMember: 2 })], pods })).root)).toBe(is);
  });

  test("when enough of its subgroups are, at every level", () => {
    const tree = [
      { name: "p", minSubGroup: 1 },
      { name: "x", parent: "p", minMember: 2 },
      { name: "y", parent: "p", minMember: 2 },
      { name: "z", minMember: 1 },
    ];
    expect(isReady(job(tree, { y: { waits: 2 }, z: { waits: 1 } }).root)).toBe(true);
    expect(isReady(job(tree, { x: { waits: 1 }, y: { waits: 1 }, z: { waits: 1 } }).root)).toBe(false);
  });
});

describe("which pods are placed next", () => {
  const three: SubGroup[] = [
    { name: "a", minMember: 2 },
    { name: "b", minMember: 2 },
    { name: "c", minMember: 2 },
  ];

  test("all that the gang lacks, at once", () => {
    const members = { a: { waits: 2 }, b: { waits: 2 }, c: { waits: 2 } };
    expect(steps(job(three, members))).toEqual([["a-w0", "a-w1", "b-w0", "b-w1", "c-w0", "c-w1"]]);
  });

  test("of as many subgroups as are required; one that has begun is finished first", () => {
    const members = { a: { waits: 2 }, b: { waits: 2 }, c: { runs: 1, waits: 1 } };
    expect(steps(job(three, members, 2))).toEqual([["c-w0", "a-w0", "a-w1"]]);
  });

  test("nothing of subgroups that have their minimum, while others lack theirs", () => {
    const members = { a: { runs: 2, waits: 3 }, b: { runs: 1, waits: 1 }, c: { runs: 2 } };
    expect(steps(job(three, members))).toEqual([["b-w0"]]);
  });

  test("one pod more when the gang is complete", () => {
    expect(steps(job([{ name: "a", minMember: 1 }], { a: { runs: 1, waits: 5 } }))).toEqual([["a-w0"]]);
  });

  test("or one subgroup more, with its whole minimum", () => {
    expect(steps(job(three, { a: { runs: 2 }, b: { runs: 2 }, c: { waits: 3 } }, 2))).toEqual([["c-w0", "c-w1"]]);
  });
});

describe("growth", () => {
  test("goes pod by pod, and a job at its minimum grows before one that is beyond it", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 6 })],
      ...together(gang("a", 6, { gpus: 1 }, { minMember: 1 }), gang("b", 6, { gpus: 1 }, { minMember: 1 })),
    });
    const placed = Object.keys(outcome(decide(cluster)));
    // The first of each, the second of each, and then the older job.
    expect(placed.filter((name) => name.startsWith("a"))).toHaveLength(4);
    expect(placed.filter((name) => name.startsWith("b"))).toHaveLength(2);
  });

  test("in two queues is shared evenly", () => {
    const { groups, pods } = together(
      gang("a", 6, { gpus: 1 }, { minMember: 1, queue: "left" }),
      gang("b", 6, { gpus: 1 }, { minMember: 1, queue: "right" }),
    );
    const queues = ["left", "right"].map((name) => queue(name));
    const placed = Object.keys(
      outcome(decide(clusterWith({ nodes: [node("n1", { gpus: 6 })], queues, groups, pods }))),
    );
    expect(placed.filter((name) => name.startsWith("a"))).toHaveLength(3);
  });

  test("of one job comes after the beginning of others of its priority", () => {
    const { groups, pods } = together(
      gang("old", 4, { gpus: 1 }, { minMember: 1, createdMs: startMs - 9000 }),
      gang("young", 2, { gpus: 1 }, { minMember: 2 }),
    );
    const placed = Object.keys(outcome(decide(clusterWith({ nodes: [node("n1", { gpus: 3 })], groups, pods }))));
    expect(placed).toEqual(["old-000", "young-000", "young-001"]);
  });

  test.each([
    ["below its minimum", 1, 0],
    ["at its minimum", 2, 1],
    ["above its minimum", 3, 2],
  ])("a job %s ranks so", (_, runs, rank) => {
    expect(elasticRank(job([{ name: "a", minMember: 2 }], { a: { runs, waits: 1 } }))).toBe(rank);
  });
});

describe("of two subgroups the first is", () => {
  const named = (name: string, min: number, runs: number): GroupNode => {
    const [found] = job([{ name, minMember: min }], { [name]: { runs } }).root.children;
    return found ?? expect.fail("no subgroup");
  };
  test.each([
    ["the one below its minimum", named("z", 2, 1), named("a", 2, 2)],
    ["of those that have theirs, the one that is required", named("z", 1, 5), named("a", 0, 1)],
    ["then the one with less of what it needs", named("z", 2, 3), named("a", 1, 2)],
    ["of those that are not required, the one with fewer", named("z", 0, 1), named("a", 0, 2)],
    ["then the one whose name comes first", named("a", 2, 2), named("b", 2, 2)],
  ])("%s", (_, first, second) => {
    expect(bySubGroupOrder(first, second)).toBeLessThan(0);
    expect(bySubGroupOrder(second, first)).toBeGreaterThan(0);
  });

  test("neither, when both lack pods", () => {
    expect(bySubGroupOrder(named("z", 3, 1), named("a", 2, 1))).toBe(0);
  });
});

describe("what a group loses first is", () => {
  const tree: SubGroup[] = [
    { name: "p", minSubGroup: 1 },
    { name: "x", parent: "p", minMember: 1 },
    { name: "y", parent: "p", minMember: 1 },
  ];
  const lost = (of: Job) => surplusVictims(of.root, isEvictable)?.map(({ name }) => name);

  test("one pod that its subgroup can do without, deepest in the tree", () => {
    expect(lost(job(tree, { x: { runs: 3 }, y: { runs: 1 } }))).toEqual(["x-r2"]);
  });

  test("then a subgroup that is not required, as a whole, the last in order", () => {
    expect(lost(job(tree, { x: { runs: 1 }, y: { runs: 1 } }))).toEqual(["y-r0"]);
  });

  test("not a subgroup that has no pods, though it needs none", () => {
    const withEmpty = [...tree, { name: "z", parent: "p", minMember: 0 }];
    expect(lost(job(withEmpty, { x: { runs: 1 }, y: { runs: 1 } }))).toEqual(["y-r0"]);
  });

  test("then nothing less than all of it", () => {
    expect(lost(job(tree, { x: { runs: 1 } }))).toBeUndefined();
  });

  test("no subgroup beside one that goes already, when one of them is required", () => {
    const both = job(tree, { x: { runs: 1 }, y: { runs: 1 } });
    const [x, y] = [...both.tasks];
    if (x === undefined || y === undefined) return expect.fail("no pods");
    expect(spareUnitWith(both.root, y, isEvictable, new Set())).toEqual([y]);
    expect(spareUnitWith(both.root, y, isEvictable, new Set([x]))).toBeUndefined();
  });
});

describe("a job that runs", () => {
  const fragments = (deleted: number[], last: "bound" | "on its way" | "gone") => {
    const pods = [0, 1, 2].map((at) =>
      pod(`p${at}`, {
        gpus: 1,
        group: "g",
        ...(at < 2 || last === "bound" ? { on: "n1" } : {}),
        ...(deleted.includes(at) && { deletedMs: startMs + 3_600_000 }),
      }),
    );
    const there = last === "gone" ? pods.slice(0, 2) : pods;
    const cluster = clusterWith({ groups: [group("g", { minMember: 3 })], pods: there });
    if (last === "on its way") cluster.setPlaces("pod-default-p2", [{ node: "n1", groups: [] }]);
    return fragmentsOf(jobOf(cluster).root).length;
  };

  test.each([
    ["whole", [], "bound", 0],
    ["with those that are going counted", [0], "bound", 0],
    ["with those that are on their way counted", [], "on its way", 0],
    ["below its minimum", [], "gone", 1],
    ["below its minimum, in part about to go", [0], "gone", 1],
    ["not at all, when all that is left is about to go", [0, 1], "gone", 0],
  ] as const)("does so %s", (_, deleted, last, count) => {
    expect(fragments([...deleted], last)).toBe(count);
  });
});

test("a pod that fits now waits for none that has to wait, once its pod set has its minimum without that one", () => {
  const groups = [group("g", { minMember: 2 }), group("x")];
  const going = pod("x", { gpus: 8, on: "n1", group: "x", deletedMs: startMs + 3_600_000 });
  const pods = [
    going,
    pod("runs", { gpus: 1, on: "n2", group: "g" }),
    pod("a-large", { gpus: 8, group: "g" }),
    pod("b-small", { gpus: 1, group: "g" }),
  ];
  const nodes = [node("n1"), node("n2", { gpus: 2 })];
  expect(outcome(decide(clusterWith({ nodes, groups, pods })))).toEqual({ "a-large": "~n1", "b-small": "n2" });
  // Without the one that runs it would be one of two.
  const few = pods.filter(({ metadata }) => metadata.name !== "runs");
  expect(outcome(decide(clusterWith({ nodes, groups, pods: few })))).toEqual({ "a-large": "~n1", "b-small": "~n2" });
});

import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  carryOut,
  clusterWith,
  decide,
  evicted,
  gang,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
  topology,
} from "../../../testing/decide/scheduleCluster.ts";
import type { PodGroupSpec } from "../../model/scheduling/podGroup.ts";
import type { QueueSpec } from "../../model/scheduling/queue.ts";
import { cycle } from "./cycle.ts";
import { attemptsPerSecond, defaultSearchBudgets, type SearchBudgets } from "./eviction/searchBudget.ts";

/** Between queues: who may take, from whom, how much, and whose pods only move. */

const gpu = (quota: number, weight = 0, more: QueueSpec = {}): QueueSpec => ({
  resources: { gpu: { quota, limit: -1, overQuotaWeight: weight } },
  ...more,
});
const below = (parentQueue: string, quota: number, weight = 0) => gpu(quota, weight, { parentQueue });
/** Jobs of one pod of one GPU. */
const ones = (name: string, count: number, queueName: string, on = "n1") =>
  together(
    ...Array.from({ length: count }, (_, at) =>
      gang(`${name}${at}`, 1, { gpus: 1, on }, { queue: queueName, createdMs: startMs + at }),
    ),
  );
const wants = (gpus: number, queueName: string, spec: PodGroupSpec = {}) =>
  gang("m", 1, { gpus }, { queue: queueName, ...spec });
const taken = (words: ClusterFields): string[] => evicted(decide(clusterWith(words)));

describe("reclaim serves", () => {
  test.each([
    ["a job within the fair share of its queue", 4, 4, 4],
    ["no job beyond it, though there would be enough to take", 4, 5, 0],
  ])("%s", (_, quota, gpus, victims) => {
    const words = {
      queues: [queue("mine", gpu(quota)), queue("theirs", gpu(0))],
      ...together(ones("t", 8, "theirs"), wants(gpus, "mine")),
    };
    expect(taken(words)).toHaveLength(victims);
  });

  test("also one that takes of the surplus that is its share", () => {
    const words = {
      queues: [queue("mine", gpu(0, 1)), queue("theirs", gpu(0, 1))],
      ...together(ones("t", 8, "theirs"), wants(1, "mine")),
    };
    expect(taken(words)).toHaveLength(1);
  });

  test("a job that cannot be evicted within the quota only, of its queue and of every queue above", () => {
    const fixed = { preemptibility: "non-preemptible" as const };
    const words = (top: number, quota: number) => ({
      queues: [queue("top", gpu(top, 1)), queue("mine", below("top", quota, 1)), queue("theirs", gpu(0, 1))],
      ...together(ones("t", 8, "theirs"), wants(2, "mine", fixed)),
    });
    expect(taken(words(4, 4))).toHaveLength(2);
    expect(taken(words(4, 1))).toEqual([]);
    expect(taken(words(1, 4))).toEqual([]);
  });
});

describe("whose pods may be taken, when the reclaimer", () => {
  const scene = (quota: number, weight: number, theirs: QueueSpec, has: number) => ({
    nodes: [node("n1", { gpus: has })],
    queues: [queue("mine", gpu(quota, weight)), queue("theirs", theirs)],
    settings: { reclaimMovesVictims: false },
    ...together(ones("t", has, "theirs"), wants(1, "mine")),
  });
  test.each([
    ["stays within its quota: of a queue beyond its quota", scene(4, 0, gpu(7), 8), 1],
    ["stays within its quota: not of a queue that has just its quota", scene(4, 0, gpu(8), 8), 0],
    ["goes beyond its quota: of a queue beyond quota and fair share", scene(0, 1, gpu(0, 1), 8), 1],
    ["goes beyond its quota: not of a queue within its fair share", scene(0, 1, gpu(4, 1), 4), 0],
  ])("%s", (_, words, victims) => {
    expect(taken(words)).toHaveLength(victims);
  });

  const cores = (quota: number) => ({ quota, limit: -1, overQuotaWeight: 1 });
  const full = { settings: { reclaimMovesVictims: false, consolidationJobsMax: 0 } };

  test("stays within its quota: of a queue beyond its quota in anything else that is asked for", () => {
    // Theirs have just their quota of GPUs, and of cores more than theirs though no more than their share.
    const theirs = (quota: number) => ({ resources: { gpu: gpu(8).resources?.gpu ?? {}, cpu: cores(quota) } });
    const words = (quota: number) => ({
      ...full,
      queues: [queue("mine", gpu(4)), queue("theirs", theirs(quota))],
      ...together(ones("t", 8, "theirs"), wants(1, "mine")),
    });
    expect(taken(words(7000))).toHaveLength(1);
    expect(taken(words(8000))).toEqual([]);
  });

  test("stays within its quota: not of a queue that is beyond its quota only in what is not asked for", () => {
    const theirs = (quota: number) => ({ resources: { gpu: cores(0), cpu: cores(quota) } });
    const words = (quota: number) => ({
      ...full,
      nodes: [node("n1", { cpu: "8" })],
      queues: [queue("mine", { resources: { cpu: cores(4000) } }), queue("theirs", theirs(quota))],
      ...together(ones("t", 8, "theirs"), gang("m", 1, { cpu: "1" }, { queue: "mine" })),
    });
    expect(taken(words(9000))).toEqual([]);
    expect(taken(words(7000))).toHaveLength(1);
  });

  test("goes beyond its quota: not so much that a queue falls below its share, also where that would be enough", () => {
    // Their share is four of the six that they have.
    const words = (first: number, second: number) => ({
      ...full,
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
      queues: [queue("mine", gpu(0, 1)), queue("theirs", gpu(0, 1))],
      ...together(ones("s", first, "theirs"), ones("t", second, "theirs", "n2"), wants(4, "mine")),
    });
    expect(taken(words(2, 4))).toEqual(["s0-000", "s1-000"]);
    expect(taken(words(3, 3))).toEqual([]);
  });

  test("needs more than a queue has beyond its share: no more than that is taken, so nothing is", () => {
    const words = {
      queues: [queue("mine", gpu(4)), queue("theirs", gpu(6))],
      settings: { reclaimMovesVictims: false },
      ...together(ones("t", 8, "theirs"), wants(3, "mine")),
    };
    expect(taken(words)).toEqual([]);
  });

  test("is of one of several queues: the one that has most beyond its share loses first, the youngest of it first", () => {
    const words = {
      queues: [queue("mine", gpu(2)), queue("some", gpu(2)), queue("most", gpu(2))],
      ...together(ones("s", 3, "some"), ones("t", 5, "most"), wants(1, "mine")),
    };
    expect(taken(words)).toEqual(["t4-000"]);
  });

  test("is of the one with the lowest priority, of those beyond their share", () => {
    const words = {
      queues: [queue("mine", gpu(2)), queue("some", gpu(2)), queue("most", gpu(2, 0, { priority: 101 }))],
      ...together(ones("s", 3, "some"), ones("t", 5, "most"), wants(1, "mine")),
    };
    expect(taken(words)).toEqual(["s2-000"]);
  });

  test("is not of one within its share before one beyond it, whatever their priorities", () => {
    const words = {
      queues: [queue("mine", gpu(2)), queue("within", gpu(2, 1)), queue("beyond", gpu(2, 0, { priority: 101 }))],
      ...together(ones("s", 4, "within"), ones("t", 4, "beyond"), wants(1, "mine")),
    };
    expect(taken(words)).toEqual(["t3-000"]);
  });
});

test("of two nodes that cost as much the one of the queue with most beyond its share is freed", () => {
  // Those of the other queue are younger, and would go first if they were of one queue.
  const of = (name: string, count: number, queueName: string, on: string, createdMs: number) =>
    gang(name, count, { gpus: 1, on }, { queue: queueName, minMember: 1, createdMs });
  const words = {
    nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
    queues: [queue("mine", gpu(2)), queue("some", gpu(3)), queue("most", gpu(0))],
    ...together(of("s", 4, "some", "n1", startMs + 9_000), of("t", 4, "most", "n2", startMs), wants(1, "mine")),
  };
  expect(taken(words)).toEqual(["t-003"]);
});

test("a gang that must be close together frees the nodes of one domain, though others would cost less", () => {
  const at = (name: string) => node(name, { gpus: 4, labels: { rack: name[0] as string } });
  const words = {
    nodes: ["a1", "a2", "b1", "b2"].map(at),
    topologies: [topology("t", "rack")],
    queues: [queue("mine", gpu(8)), queue("theirs", gpu(0, 1))],
    ...together(
      // One pod has to go from the first node of either rack, four from the second.
      ...["a1", "b1"].map((on) => gang(`big-${on}`, 1, { gpus: 4, on }, { queue: "theirs" })),
      ...["a2", "b2"].map((on) => ones(`small-${on}-`, 4, "theirs", on)),
      gang(
        "m",
        2,
        { gpus: 4 },
        { queue: "mine", topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } },
      ),
    ),
  };
  const plan = decide(clusterWith(words));
  const places = Object.values(outcome(plan));
  expect(places).toHaveLength(2);
  expect(new Set(places.map((place) => place[1])).size).toBe(1);
  expect(evicted(plan)).toHaveLength(5);
});

test("a pod that is not in the way of a gang that must be close together stays", () => {
  const rack = (name: string) => node(name, { gpus: 4, labels: { rack: `r${name}` } });
  const words = {
    nodes: ["1", "2", "3"].map(rack),
    topologies: [topology("t", "rack")],
    queues: [queue("mine", gpu(4)), queue("theirs", gpu(0, 1))],
    ...together(
      ...["1", "2", "3"].map((on) => ones(`t${on}-`, 4, "theirs", on)),
      gang(
        "m",
        2,
        { gpus: 1 },
        { queue: "mine", topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } },
      ),
    ),
  };
  const plan = decide(clusterWith(words));
  expect(evicted(plan)).toHaveLength(2);
  expect(new Set(plan.evictions.map(({ task }) => task.pod.spec?.nodeName)).size).toBe(1);
});

describe("the reclaiming queue stays less saturated than the queue of the victims", () => {
  // The quotas of a1 and a2 are more than their parent's: together they go beyond its share.
  const scene = (theirs: number, gpus: number, reclaimerSaturationMultiplier: number) => ({
    nodes: [node("n1", { gpus: 4 + theirs })],
    queues: [queue("a", gpu(4)), queue("b", gpu(4)), queue("a1", below("a", 4)), queue("a2", below("a", 4))],
    settings: { reclaimerSaturationMultiplier },
    ...together(ones("x", 4, "a1"), ones("t", theirs, "b"), wants(gpus, "a2")),
  });
  test.each([
    ["5 of 4 against 7 of 4", 8, 1, 1, 1],
    ["6 of 4 against 6 of 4 would be no better", 8, 2, 1, 0],
    ["6 of 4 against 10 of 4", 12, 2, 1, 2],
    ["6 of 4 against 10 of 4, with a distance of twice as much", 12, 2, 2, 0],
    ["6 of 4 against 14 of 4, with a distance of twice as much", 16, 2, 2, 2],
  ])("%s", (_, theirs, gpus, multiplier, victims) => {
    expect(taken(scene(theirs, gpus, multiplier)).filter((name) => name.startsWith("t"))).toHaveLength(victims);
  });

  test("a queue that has no share at all takes nothing of one that has, whatever the queues below it deserve", () => {
    const words = (top: number) => ({
      queues: [queue("a", gpu(top)), queue("b", gpu(4)), queue("a1", below("a", 4))],
      ...together(ones("t", 8, "b"), wants(1, "a1")),
    });
    expect(taken(words(1))).toHaveLength(1);
    expect(taken(words(0))).toEqual([]);
  });

  test("a queue without any share has no such protection", () => {
    const words = {
      nodes: [node("n1", { gpus: 5 })],
      queues: [queue("a", gpu(4)), queue("b", gpu(0)), queue("a1", below("a", 4)), queue("a2", below("a", 4))],
      settings: { reclaimerSaturationMultiplier: 100 },
      ...together(ones("x", 4, "a1"), ones("t", 1, "b"), wants(1, "a2")),
    };
    expect(taken(words)).toEqual(["t0-000"]);
  });
});

test("a resource that is not asked for makes no reclaim unfair, however much of it the queues above have", () => {
  const bounds = (quota: number) => ({ quota, limit: -1, overQuotaWeight: 0 });
  const resources = { gpu: bounds(4), cpu: bounds(10) };
  const words = (cpu: string) => ({
    queues: [
      queue("a", { resources }),
      queue("b", { resources }),
      queue("a1", { resources, parentQueue: "a" }),
      queue("a2", { resources, parentQueue: "a" }),
      queue("b1", { resources, parentQueue: "b" }),
    ],
    ...together(
      // Beyond the share of the queue above it, with CPU alone.
      gang("x", 1, { cpu: "20", on: "n1" }, { queue: "a2" }),
      gang("v", 8, { gpus: 1, cpu: "1", on: "n1" }, { queue: "b1", minMember: 1 }),
      gang("m", 1, { gpus: 1, cpu }, { queue: "a1" }),
    ),
  });
  expect(taken(words("0"))).toHaveLength(1);
  expect(taken(words("1"))).toEqual([]);
});

describe("a victim that finds another place has lost nothing", () => {
  // Theirs have no more than their quota, two on each node; mine needs a whole node and cannot be evicted, so nobody
  // consolidates for it.
  const fixed = { preemptibility: "non-preemptible" as const };
  const scene = (has: number, settings = {}) => ({
    nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
    queues: [queue("mine", gpu(4)), queue("theirs", gpu(4))],
    settings,
    ...together(ones("t", 2, "theirs"), ones("u", has - 2, "theirs", "n2"), wants(4, "mine", fixed)),
  });

  test("so it moves for a queue that takes back its quota, though it may not be taken", () => {
    const cluster = clusterWith(scene(4));
    const plan = decide(cluster);
    expect(plan.evictions.map(({ reason }) => reason.action)).toEqual(["reclaim", "reclaim"]);
    expect(outcome(plan)["m-000"]).toMatch(/^~/);
    carryOut(cluster, plan);
    carryOut(cluster, decide(cluster));
    const places = [...cluster.tasks.values()].map(({ name, holdings }) => [name[0], holdings[0]?.node.name]);
    expect(places.every(([, on]) => on !== undefined)).toBe(true);
    expect(new Set(places.filter(([name]) => name !== "m").map(([, on]) => on)).size).toBe(1);
    expect(evicted(decide(cluster))).toEqual([]);
  });

  test("but stays where there is no other place for it", () => {
    const words = scene(4);
    const full = pod("full", { gpus: 2, on: "n2", scheduler: "another-user" });
    expect(taken({ ...words, pods: [...words.pods, full] })).toEqual([]);
  });

  test("and of two victims one may be taken while the other moves", () => {
    // Theirs have one more than their quota, and there is one place left on the other node.
    const cluster = clusterWith(scene(5));
    expect(evicted(decide(cluster))).toEqual(["t0-000", "t1-000"]);
    const fixedToo = scene(5);
    expect(taken({ ...fixedToo, queues: [queue("mine", gpu(4)), queue("theirs", gpu(5))] })).toEqual([]);
  });

  test("and not where a shard disables moving victims", () => {
    expect(taken(scene(4, { reclaimMovesVictims: false }))).toEqual([]);
  });

  test("and a gang moves as a whole or not at all", () => {
    const words = (gpus: number) => ({
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus })],
      queues: [queue("mine", gpu(4)), queue("theirs", gpu(2))],
      ...together(gang("t", 2, { gpus: 1, on: "n1" }, { queue: "theirs" }), wants(4, "mine", fixed)),
    });
    expect(taken(words(2))).toHaveLength(2);
    expect(taken(words(1))).toEqual([]);
  });
});

describe("the search for victims is bounded", () => {
  const nodes = ["n1", "n2", "n3", "n4"].map((name) => node(name, { gpus: 1 }));
  /** Jobs that find no victim they may have, however many nodes they look at. */
  const hopeless = (count: number, budgets: Partial<SearchBudgets>) => {
    const cluster = clusterWith({
      nodes,
      // In this tree the quotas below are worth more than that above, so that every victim is refused at the end as
      // unfair.
      queues: [queue("a", gpu(1)), queue("b", gpu(3)), queue("a1", below("a", 1)), queue("a2", below("a", 3))],
      settings: {
        actions: ["allocate", "reclaim"],
        usesSignatures: false,
        reclaimMovesVictims: false,
        searchBudgets: { ...defaultSearchBudgets, ...budgets },
      },
      ...together(
        gang("x", 1, { gpus: 1, on: "n1" }, { queue: "a1" }),
        ...["n2", "n3", "n4"].map((on) => gang(`t-${on}`, 1, { gpus: 1, on }, { queue: "b" })),
        ...Array.from({ length: count }, (_, at) => gang(`m${at}`, 1, { gpus: 1 }, { queue: "a2" })),
      ),
    });
    return cycle(cluster, startMs + 60_000).searches.get("reclaim");
  };

  test("by a number of attempts for each second that is asked for", () => {
    expect(attemptsPerSecond).toBe(100);
    expect(defaultSearchBudgets).toEqual({
      actionMs: { consolidation: 300_000, reclaim: 300_000, preempt: 300_000 },
      jobMs: 240_000,
      jobMinMs: 0,
      generatorMs: { NodeLocalGreedy: 30_000, MultiNodeGang: 120_000 },
    });
  });

  test("first node by node, then all nodes together, and no set of victims is tried twice", () => {
    const counts = hopeless(1, {});
    expect(counts?.scenarios.NodeLocalGreedy.simulated).toBeLessThanOrEqual(nodes.length);
    expect(counts?.scenarios.MultiNodeGang.simulated).toBe(1);
    expect(counts?.jobs).toEqual([{ end: "generators_exhausted", isReduced: false, count: 1 }]);
  });

  test("for each job: one that uses up its own ends there, and the next begins with its own", () => {
    const counts = hopeless(2, { jobMs: 10 });
    expect(counts?.simulated).toBe(2);
    expect(counts?.jobs).toEqual([{ end: "deadline_exhausted", isReduced: false, count: 2 }]);
    expect(counts?.isCutShort).toBe(false);
  });

  test("for each way to search: where one ends the next begins", () => {
    const counts = hopeless(1, { generatorMs: { NodeLocalGreedy: 10, MultiNodeGang: 10 } });
    expect([counts?.scenarios.NodeLocalGreedy.simulated, counts?.scenarios.MultiNodeGang.simulated]).toEqual([1, 1]);
  });

  test("for the action: jobs after its end are not tried in this cycle", () => {
    const actionMs = { ...defaultSearchBudgets.actionMs, reclaim: 10 };
    const counts = hopeless(3, { actionMs });
    expect(counts?.simulated).toBe(1);
    expect(counts?.isCutShort).toBe(true);
    expect(counts?.jobs).toContainEqual({ end: "not_attempted", isReduced: true, count: 1 });
  });

  test("unless every job has something for sure", () => {
    const actionMs = { ...defaultSearchBudgets.actionMs, reclaim: 10 };
    const counts = hopeless(3, { actionMs, jobMinMs: 10 });
    expect(counts?.simulated).toBe(3);
    expect(counts?.isCutShort).toBe(false);
    expect(counts?.jobs).toEqual([{ end: "deadline_exhausted", isReduced: true, count: 3 }]);
  });

  test("not at all where zero is asked for", () => {
    const none = { consolidation: 0, reclaim: 0, preempt: 0 };
    const counts = hopeless(3, { actionMs: none, jobMs: 0, generatorMs: { NodeLocalGreedy: 0, MultiNodeGang: 0 } });
    expect(counts?.jobs).toEqual([{ end: "generators_exhausted", isReduced: false, count: 3 }]);
  });

  test("by what is plain without trying: a node whose pods would not be enough is passed over", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 1 })],
      queues: [queue("mine", gpu(4)), queue("theirs", gpu(0, 1))],
      ...together(ones("t", 4, "theirs"), ones("u", 1, "theirs", "n2"), wants(2, "mine")),
    });
    const plan = cycle(cluster, startMs + 60_000);
    expect(plan.searches.get("reclaim")?.filtered).toBe(1);
    expect(evicted(plan)).toEqual(["t2-000", "t3-000"]);
  });
});

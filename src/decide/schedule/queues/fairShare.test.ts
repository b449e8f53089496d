import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  gang,
  node,
  queue as queueObject,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import { quickStartQueues } from "../../../model/scheduling/queue.ts";
import { divide, type Share } from "./fairShare.ts";

const queue = (uid: string, more: Partial<Share>): Share => ({
  uid,
  createdMs: uid.charCodeAt(0),
  priority: 100,
  deserved: 0,
  limit: -1,
  weight: 1,
  request: 1000,
  usage: 0,
  ...more,
});

const gpus = (total: number, queues: Share[], unit = 1): number[] => divide(total, queues, { unit, kValue: 1 });

test.each<{ name: string; total: number; queues: Partial<Share>[]; shares: number[] }>([
  {
    name: "what is left over goes by weight",
    total: 10,
    queues: [{ deserved: 2 }, { deserved: 2, weight: 2 }],
    shares: [4, 6],
  },
  { name: "the last unit goes to the oldest", total: 7, queues: [{}, {}, {}], shares: [3, 2, 2] },
  {
    name: "the higher priority takes of the surplus first",
    total: 10,
    queues: [{ deserved: 2, priority: 200, request: 6 }, { deserved: 2 }],
    shares: [6, 4],
  },
  {
    // By the second round alone, C would have the larger remainder.
    name: "who gets exactly what it wanted begins no other round",
    total: 10,
    queues: [{ weight: 4, request: 2 }, { weight: 7 }, { weight: 9 }],
    shares: [2, 4, 4],
  },
  {
    // 3 x 1.9 / 1.9 is a little less than 3.
    name: "an error of division costs nobody a unit, which a lower priority would get",
    total: 3,
    queues: [{ priority: 200, request: 7, usage: 0.1 }, {}],
    shares: [3, 0],
  },
  {
    name: "who used more in the past gets less of the surplus",
    total: 10,
    queues: [{ usage: 0.4 }, { usage: 0.1 }],
    shares: [4, 6],
  },
  { name: "who used everything gets no surplus", total: 10, queues: [{ usage: 1 }, {}], shares: [0, 10] },
  {
    name: "who used everything keeps what it deserves",
    total: 10,
    queues: [{ deserved: 4, usage: 1 }, {}],
    shares: [4, 6],
  },
  {
    name: "without weight there is no surplus",
    total: 10,
    queues: [{ deserved: 4, weight: 0 }, { deserved: 2 }],
    shares: [4, 6],
  },
  {
    name: "quota that is not used is lent",
    total: 10,
    queues: [{ deserved: 4, request: 1 }, { deserved: 2 }],
    shares: [1, 9],
  },
  {
    name: "quotas beyond the total are not scaled down",
    total: 10,
    queues: [{ deserved: 8 }, { deserved: 8 }],
    shares: [8, 8],
  },
  {
    name: "a quota without bound is all there is, whatever the weight",
    total: 10,
    queues: [
      { deserved: -1, weight: 0, request: 6 },
      { deserved: 6, weight: 1 },
    ],
    shares: [6, 6],
  },
  {
    name: "a quota without bound is what is asked for",
    total: 10,
    queues: [{ deserved: -1, request: 3 }, { deserved: 2 }],
    shares: [3, 7],
  },
  {
    name: "nobody gets more than its limit",
    total: 10,
    queues: [{ deserved: 2, limit: 3 }, { deserved: 2 }],
    shares: [3, 7],
  },
  {
    name: "what one leaves is divided again among the others",
    total: 10,
    queues: [{ request: 1 }, {}, {}],
    shares: [1, 5, 4],
  },
  {
    name: "rounding leaves a unit to the larger remainder before the older queue",
    total: 10,
    queues: [{ weight: 3 }, { weight: 1 }, { weight: 2 }],
    shares: [5, 2, 3],
  },
  {
    name: "of equal remainders and equal age the first UID has it",
    total: 3,
    queues: [{ createdMs: 1 }, { createdMs: 1 }],
    shares: [2, 1],
  },
  {
    name: "the remainder of a higher priority goes before all of the lower",
    total: 5,
    queues: [
      { priority: 100, weight: 9 },
      { priority: 200, request: 2 },
      { priority: 200, request: 3 },
    ],
    shares: [0, 2, 3],
  },
  {
    name: "who asks for nothing gets nothing, whatever it deserves",
    total: 10,
    queues: [{ deserved: 5, request: 0 }, { deserved: 0 }],
    shares: [0, 10],
  },
  {
    name: "nobody has any weight: what is left over stays with nobody",
    total: 10,
    queues: [
      { deserved: 2, weight: 0 },
      { deserved: 2, weight: 0 },
    ],
    shares: [2, 2],
  },
  {
    name: "a limit of nothing is a share of nothing",
    total: 10,
    queues: [{ deserved: 4, limit: 0 }, {}],
    shares: [0, 10],
  },
])("$name", ({ total, queues, shares }) => {
  const named = queues.map((each, at) => queue(String.fromCharCode(97 + at), each));
  expect(gpus(total, named)).toEqual(shares);
  // The order in which queues are named changes nothing.
  expect(gpus(total, [...named].reverse()).reverse()).toEqual(shares);
});

test("surplus is distributed in whole GPUs where amounts are thousandths", () => {
  expect(
    gpus(7000, [queue("a", { request: 9000 }), queue("b", { request: 9000 }), queue("c", { request: 9000 })], 1000),
  ).toEqual([3000, 2000, 2000]);
});

test("a queue that requests exactly its share gets it, also where that is not a whole unit", () => {
  const [a, b] = [queue("a", { request: 2500 }), queue("b", { request: 2500 })];
  expect(gpus(5000, [a, b], 1000)).toEqual([2500, 2500]);
});

test("k of zero makes the past count for nothing", () => {
  const queues = [queue("a", { usage: 0.9 }), queue("b", {})];
  expect(divide(10, queues, { unit: 1, kValue: 0 })).toEqual([5, 5]);
  expect(divide(10, queues, { unit: 1, kValue: -3 })).toEqual([5, 5]);
});

describe("in a tree", () => {
  const gpu = (quota: number, more: object = {}) => ({
    resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 } },
    ...more,
  });
  const tree = [
    queueObject("left", gpu(6)),
    queueObject("right", gpu(2)),
    queueObject("a", gpu(1, { parentQueue: "left" })),
    queueObject("b", gpu(1, { parentQueue: "left" })),
    queueObject("c", gpu(0, { parentQueue: "right" })),
    queueObject("b1", gpu(0, { parentQueue: "b" })),
    queueObject("b2", gpu(0, { parentQueue: "b" })),
  ];
  const cluster = clusterWith({
    nodes: [node("n1", { gpus: 10 })],
    queues: tree,
    ...together(
      gang("runs", 2, { gpus: 1, on: "n1" }, { queue: "b1", preemptibility: "non-preemptible" }),
      ...["a", "b1", "b2", "c"].map((name) => gang(`wait-${name}`, 9, { gpus: 1 }, { queue: name })),
    ),
  });
  decide(cluster);
  const of = (field: "fairShare" | "request" | "allocated" | "allocatedNonPreemptible") =>
    Object.fromEntries([...cluster.queues.byName.values()].map((each) => [each.name, each[field][0] / 1000]));

  test("the share of a queue is what its children divide, at every level", () => {
    expect(of("fairShare")).toEqual({ left: 7, right: 3, a: 4, b: 3, c: 3, b1: 2, b2: 1 });
  });

  test("what a queue has and asks for counts in every queue above it", () => {
    expect(of("allocated")).toEqual({ left: 2, right: 0, a: 0, b: 2, c: 0, b1: 2, b2: 0 });
    expect(of("allocatedNonPreemptible")).toEqual({ left: 2, right: 0, a: 0, b: 2, c: 0, b1: 2, b2: 0 });
    expect(of("request")).toEqual({ left: 29, right: 9, a: 9, b: 20, c: 9, b1: 11, b2: 9 });
  });

  test("a queue whose parent is missing is left out, with everything below it", () => {
    const orphaned = clusterWith({
      queues: [queueObject("x", { parentQueue: "gone" }), queueObject("y", { parentQueue: "x" }), queueObject("z")],
    });
    decide(orphaned);
    expect([...orphaned.queues.byName.keys()]).toEqual(["z"]);
    expect([...orphaned.queues.orphans.keys()].sort()).toEqual(["x", "y"]);
  });
});

test("a queue without a spec has priority 100, no quota, no weight and may hold nothing", () => {
  const cluster = clusterWith({ queues: [{ ...queueObject("q"), spec: { resources: {} } }] });
  decide(cluster);
  expect(cluster.queues.byName.get("q")).toMatchObject({
    priority: 100,
    deserved: [0, 0, 0],
    limit: [0, 0, 0],
    weight: [0, 0, 0],
  });
});

test("the queues that come with the product have no quota, no limit and a weight of one", () => {
  const open = { quota: 0, limit: -1, overQuotaWeight: 1 };
  const resources = { cpu: open, gpu: open, memory: open };
  expect(quickStartQueues().map(({ metadata, spec }) => [metadata.name, spec])).toEqual([
    ["default-parent-queue", { resources }],
    ["default-queue", { parentQueue: "default-parent-queue", resources }],
  ]);
});

test("work that can be evicted takes what is free up to the limit, whatever the fair share", () => {
  const gpus = (limit: number) => ({ resources: { gpu: { quota: 1, limit, overQuotaWeight: 0 } } });
  const bound = (limit: number): number => {
    const { pods, groups } = together(...Array.from({ length: 8 }, (_, at) => gang(`j${at}`, 1, { gpus: 1 })));
    return decide(clusterWith({ queues: [queueObject("q", gpus(limit))], pods, groups })).jobs.length;
  };
  expect([bound(-1), bound(5)]).toEqual([8, 5]);
});

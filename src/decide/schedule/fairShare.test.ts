import { expect, test } from "vitest";
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
    name: "who used more in the past gets less of the surplus",
    total: 10,
    queues: [{ usage: 0.4 }, { usage: 0.1 }],
    shares: [4, 6],
  },
  { name: "who used everything gets no surplus", total: 10, queues: [{ usage: 1 }, {}], shares: [0, 10] },
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
])("$name", ({ total, queues, shares }) => {
  const named = queues.map((each, at) => queue(String.fromCharCode(97 + at), each));
  expect(gpus(total, named)).toEqual(shares);
  // The order in which queues are named changes nothing.
  expect(gpus(total, [...named].reverse()).reverse()).toEqual(shares);
});

test("surplus is given out in whole GPUs where amounts are thousandths", () => {
  expect(
    gpus(7000, [queue("a", { request: 9000 }), queue("b", { request: 9000 }), queue("c", { request: 9000 })], 1000),
  ).toEqual([3000, 2000, 2000]);
});

test("k of zero makes the past count for nothing", () => {
  const queues = [queue("a", { usage: 0.9 }), queue("b", {})];
  expect(divide(10, queues, { unit: 1, kValue: 0 })).toEqual([5, 5]);
  expect(divide(10, queues, { unit: 1, kValue: -3 })).toEqual([5, 5]);
});

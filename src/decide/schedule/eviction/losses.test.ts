import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  clusterWith,
  gang,
  group,
  node,
  pod,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import { placeTask } from "../placement/placeTask.ts";
import { Statement } from "../statement.ts";
import { Losses } from "./losses.ts";
import { type VictimRules, victimsUnder } from "./victimRules.ts";

const everybody: VictimRules = {
  reason: { action: "reclaim", evictor: undefined, why: "a test" },
  kind: "",
  isVictim: ({ name }) => name !== "w",
  compareQueues: () => 0,
  mayLoseCore: () => true,
  mayTake: () => true,
  isFair: () => true,
  replacesAll: false,
  mayMove: false,
  jobsMax: Number.POSITIVE_INFINITY,
};

/** Who would go from the one node for a pod that asks for so many GPUs, and the most important of their jobs. */
function lossFor(gpus: number, words: ClusterFields, rules: Partial<VictimRules> = {}) {
  const waiting = gang("w", 1, { gpus });
  const cluster = clusterWith({
    ...words,
    ...together({ groups: [...(words.groups ?? [])], pods: [...(words.pods ?? [])] }, waiting),
  });
  cluster.refresh(startMs);
  const asks = [...cluster.tasks.values()].find(({ name }) => name === "w-000") ?? expect.fail("nobody waits");
  const [loss] = new Losses(cluster).forTask(asks, { ...everybody, ...rules });
  if (loss === undefined || loss === "not enough") return loss;
  return { goes: loss.units.flat().map(({ name }) => name), worst: loss.worst.name };
}

const one = (name: string, priorityClassName = "train") => gang(name, 1, { gpus: 1, on: "n1" }, { priorityClassName });

describe("what a node would lose", () => {
  test("is every pod that shares a GPU: it is free when the last of them has gone", () => {
    const sharers = ["a", "b", "c", "d"].map((name, at) => ({
      groups: [group(name)],
      pods: [pod(name, { fraction: "0.5", on: "n1", group: name, groups: [`gpu${at >> 1}`] })],
    }));
    const words = { nodes: [node("n1", { gpus: 2 })], ...together(...sharers) };
    expect(lossFor(2, words)).toMatchObject({ goes: ["d", "c", "b", "a"] });
    expect(lossFor(1, words)).toMatchObject({ goes: ["d", "c"] });
  });

  test("of one job is the youngest pod", () => {
    const pods = [30, 10, 20].map((age, at) =>
      pod(`v${at}`, { gpus: 1, on: "n1", group: "v", createdMs: startMs - age * 1000 }),
    );
    const words = { nodes: [node("n1", { gpus: 3 })], groups: [group("v", { minMember: 1 })], pods };
    expect(lossFor(1, words)).toMatchObject({ goes: ["v1"] });
  });

  const two = { nodes: [node("n1", { gpus: 2 })], ...together(one("low"), one("high", "build-preemptible")) };

  test("is as bad as the most important victim, whichever victim is first", () => {
    expect(lossFor(2, two)).toEqual({ goes: ["low-000", "high-000"], worst: "high" });
    const guarded: VictimRules["guarded"] = (tasks) => new Set(tasks.filter(({ name }) => name === "low-000"));
    expect(lossFor(2, two, { guarded })).toEqual({ goes: ["high-000", "low-000"], worst: "high" });
  });

  test("is by the leave of a budget, which the most important use up first", () => {
    const guarded: VictimRules["guarded"] = (tasks) => new Set(tasks.slice(1));
    expect(lossFor(1, two, { guarded })).toMatchObject({ goes: ["high-000"] });
  });
});

test("of all victims those of the queue that loses first come first, whatever their priority", () => {
  const older = gang("mid", 1, { gpus: 1, on: "n1" }, { priorityClassName: "train", createdMs: startMs - 9_000 });
  const cluster = clusterWith(together(one("low"), older, one("high", "build-preemptible")));
  cluster.refresh(startMs);
  const isLast = ({ name }: { name: string }): number => Number(name === "low");
  const names = (rules: VictimRules) => victimsUnder(cluster, rules).map(({ name }) => name);
  expect(names(everybody)).toEqual(["low", "mid", "high"]);
  expect(names({ ...everybody, compareQueues: (a, b) => isLast(a) - isLast(b) })).toEqual(["mid", "high", "low"]);
});

test("a second look costs what has changed, not what there is", () => {
  const names = Array.from({ length: 50 }, (_, at) => `n${at}`);
  const victims = names.map((on) => gang(`v-${on}`, 8, { gpus: 1, on }, { minMember: 1 }));
  const cluster = clusterWith({
    nodes: names.map((name) => node(name)),
    ...together(...victims, gang("w", 40, { gpus: 1 })),
  });
  cluster.refresh(startMs);
  const statement = new Statement(cluster);
  const waiting = [...cluster.tasks.values()].filter(({ job }) => job?.name === "w");
  let looks = 0;
  const isVictim: VictimRules["isVictim"] = (job) => {
    looks++;
    return job.name !== "w";
  };
  const rules = { ...everybody, isVictim };
  const losses = new Losses(cluster);
  const counts = waiting.map((task) => {
    looks = 0;
    const [loss] = losses.inOrder(task, rules);
    for (const each of loss?.units.flat() ?? []) statement.evict(each, everybody.reason);
    placeTask(cluster, statement, task);
    return looks;
  });
  // The first look is at eight pods of fifty nodes; after it one node has changed each time.
  expect(counts[0]).toBeGreaterThanOrEqual(400);
  expect(Math.max(...counts.slice(1))).toBeLessThan(40);
});

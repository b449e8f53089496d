/**
 * Gang scheduling: the base minimum first, then the minimums of scaled gangs, then the rest; never part of a base gang.
 */
import { describe, expect, test } from "vitest";
import type { PodCliqueSet } from "../../src/model/gang/types.ts";
import { GangCluster } from "./gangCluster.ts";
import { ownSchedulerCluster } from "./ownScheduler.ts";
import { workload1, workload2 } from "./workloads.ts";

/** An action, and the pods that are scheduled after it. */
type Step =
  | { readonly do: "apply"; readonly is: number; readonly pods: number }
  | { readonly do: "nodes"; readonly more: number; readonly is: number }
  | { readonly do: "group"; readonly name: string; readonly to: number; readonly is: number; readonly pods: number }
  | { readonly do: "set"; readonly to: number; readonly is: number; readonly pods: number };

const apply = (is: number, pods: number): Step => ({ do: "apply", is, pods });
const nodes = (more: number, is: number): Step => ({ do: "nodes", more, is });
const group = (name: string, to: number, is: number, pods: number): Step => ({ do: "group", name, to, is, pods });
const set = (to: number, is: number, pods: number): Step => ({ do: "set", to, is, pods });

interface Row {
  readonly fact: string;
  readonly of: () => PodCliqueSet;
  readonly nodes: number;
  readonly cordoned: number;
  readonly steps: readonly Step[];
}

const rows: readonly Row[] = [
  {
    fact: "ten pods on nine nodes all wait; with the tenth all run",
    of: workload1,
    nodes: 10,
    cordoned: 1,
    steps: [apply(0, 10), nodes(1, 10)],
  },
  {
    fact: "a group that is scaled out waits as a gang of its own",
    of: workload1,
    nodes: 14,
    cordoned: 5,
    steps: [apply(0, 10), nodes(1, 10), group("workload1-0-sg-x", 3, 10, 14), nodes(3, 10), nodes(1, 14)],
  },
  {
    fact: "a second replica of the set is a second gang",
    of: workload1,
    nodes: 20,
    cordoned: 11,
    steps: [apply(0, 10), nodes(1, 10), set(2, 10, 20), nodes(9, 10), nodes(1, 20)],
  },
  {
    fact: "group and set scaled, one after the other",
    of: workload1,
    nodes: 28,
    cordoned: 19,
    steps: [
      apply(0, 10),
      nodes(1, 10),
      group("workload1-0-sg-x", 3, 10, 14),
      nodes(4, 14),
      set(2, 14, 24),
      nodes(10, 24),
      group("workload1-1-sg-x", 3, 24, 28),
      nodes(4, 28),
    ],
  },
  {
    fact: "three nodes get the minimum of the base gang and no other pods",
    of: workload2,
    nodes: 10,
    cordoned: 8,
    steps: [apply(0, 10), nodes(1, 3), nodes(7, 10)],
  },
  {
    fact: "a new group replica gets its minimum first",
    of: workload2,
    nodes: 14,
    cordoned: 12,
    steps: [apply(0, 10), nodes(1, 3), nodes(7, 10), group("workload2-0-sg-x", 3, 10, 14), nodes(2, 12), nodes(2, 14)],
  },
  {
    fact: "two more nodes hold the minimum of the scaled gang before any extra",
    of: workload2,
    nodes: 14,
    cordoned: 12,
    steps: [
      apply(0, 10),
      nodes(1, 3),
      nodes(2, 5),
      nodes(5, 10),
      group("workload2-0-sg-x", 3, 10, 14),
      nodes(2, 12),
      nodes(2, 14),
    ],
  },
  {
    fact: "scaled out before there is room: base, then both scaled gangs, then the rest",
    of: workload2,
    nodes: 14,
    cordoned: 12,
    steps: [apply(0, 10), group("workload2-0-sg-x", 3, 0, 14), nodes(1, 3), nodes(4, 7), nodes(7, 14)],
  },
  {
    fact: "the second replica of the set starts with its own minimum",
    of: workload2,
    nodes: 20,
    cordoned: 18,
    steps: [apply(0, 10), nodes(1, 3), nodes(7, 10), set(2, 10, 20), nodes(3, 13), nodes(7, 20)],
  },
  {
    fact: "two replicas before there is room: both bases, both scaled gangs, the rest",
    of: workload2,
    nodes: 20,
    cordoned: 18,
    steps: [apply(0, 10), set(2, 0, 20), nodes(4, 6), nodes(4, 10), nodes(10, 20)],
  },
  {
    fact: "every step of scaling gets its minimum first",
    of: workload2,
    nodes: 28,
    cordoned: 26,
    steps: [
      apply(0, 10),
      nodes(1, 3),
      nodes(7, 10),
      group("workload2-0-sg-x", 3, 10, 14),
      nodes(2, 12),
      nodes(2, 14),
      set(2, 14, 24),
      nodes(3, 17),
      nodes(7, 24),
      group("workload2-1-sg-x", 3, 24, 28),
      nodes(2, 26),
      nodes(2, 28),
    ],
  },
  {
    fact: "everything scaled before there is room",
    of: workload2,
    nodes: 28,
    cordoned: 26,
    steps: [
      apply(0, 10),
      set(2, 0, 20),
      group("workload2-0-sg-x", 3, 0, 24),
      group("workload2-1-sg-x", 3, 0, 28),
      nodes(4, 6),
      nodes(8, 14),
      nodes(14, 28),
    ],
  },
];

/** The schedulers: Muster's scheduler and binder, and a simple one in the test that follows PodGroups. */
const placers = [
  { by: "Muster's scheduler", start: ownSchedulerCluster, waitS: 5 },
  { by: "a simple scheduler", start: GangCluster.start, waitS: 0 },
];

describe.each(placers)("$by", ({ start, waitS }) => {
  const rest = async (cluster: GangCluster): Promise<void> => {
    if (waitS > 0) await cluster.pass(waitS);
  };

  test.each(rows)("$fact", async ({ of, nodes: count, cordoned, steps }) => {
    const cluster = await start({ nodes: count, cordoned });
    const workload = of();
    const seen: number[] = [];
    for (const step of steps) {
      if (step.do === "apply") await cluster.apply(workload);
      else if (step.do === "nodes") await cluster.uncordon(step.more);
      else if (step.do === "group") await cluster.scale("PodCliqueScalingGroup", step.name, step.to);
      else await cluster.scale("PodCliqueSet", workload.metadata.name, step.to);
      await rest(cluster);
      if ("pods" in step) expect(cluster.pods()).toHaveLength(step.pods);
      seen.push(cluster.scheduledPods());
    }
    expect(seen).toEqual(steps.map(({ is }) => is));
    expect(cluster.readyPods()).toBe(cluster.pods().length);
  });

  test("with room for three pods, one pod of each clique of the base is scheduled", async () => {
    const cluster = await start({ nodes: 10, cordoned: 7 });
    await cluster.apply(workload2());
    await rest(cluster);
    const scheduled = [
      "workload2-0-pc-a",
      "workload2-0-sg-x-0-pc-b",
      "workload2-0-sg-x-0-pc-c",
      "workload2-0-sg-x-1-pc-b",
    ];
    expect(scheduled.map((clique) => cluster.scheduledPods(clique))).toEqual([1, 1, 1, 0]);
  });
});

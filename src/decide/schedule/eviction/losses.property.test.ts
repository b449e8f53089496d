import fc from "fast-check";
import { expect, test } from "vitest";
import {
  clusterWith,
  gang,
  group,
  node,
  pod,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import { isEvictable, type Task } from "../cluster/task.ts";
import { placeTask } from "../placement/placeTask.ts";
import { Statement } from "../statement.ts";
import { Losses } from "./losses.ts";
import type { VictimRules } from "./victimRules.ts";

const reason = { action: "reclaim", evictor: undefined, why: "a test" } as const;
const rules: VictimRules = {
  reason,
  kind: "",
  isVictim: (job) => !job.name.startsWith("w"),
  compareQueues: () => 0,
  // The core of one gang may not be touched: what it has beyond that may, as long as it lasts.
  mayLoseCore: ({ name }) => name !== "g0",
  mayTake: () => true,
  isFair: () => true,
  replacesAll: false,
  mayMove: false,
  jobsMax: Number.POSITIVE_INFINITY,
};

const nodes = ["n0", "n1", "n2", "n3"];

interface GangCase {
  readonly min: number;
  readonly on: string[];
  readonly gpus: number;
}

interface MoveCase {
  readonly what: "evict" | "place" | "rollback" | "replace";
  readonly which: number;
  readonly kind: number;
}

/** Gangs that can do without some of their pods, which are all over the nodes. */
const gangs: fc.Arbitrary<GangCase[]> = fc.array(
  fc.record({
    min: fc.integer({ min: 1, max: 3 }),
    on: fc.array(fc.constantFrom(...nodes), { minLength: 1, maxLength: 5 }),
    gpus: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 1, maxLength: 5 },
);
const moves: fc.Arbitrary<MoveCase[]> = fc.array(
  fc.record({
    what: fc.constantFrom("evict", "place", "rollback", "replace"),
    which: fc.nat(),
    kind: fc.nat({ max: 1 }),
  }),
  { maxLength: 12 },
);

/**
 * A pod that had found another place has lost it again: its job can do without less where the pod was, and nothing has
 * changed there.
 */
const takenBackFromElsewhere: [GangCase[], MoveCase[]] = [
  [
    { min: 1, on: ["n0", "n0"], gpus: 1 },
    { min: 1, on: ["n0"], gpus: 1 },
  ],
  [
    { what: "evict", which: 0, kind: 1 },
    { what: "replace", which: 1, kind: 1 },
    { what: "rollback", which: 1, kind: 1 },
    { what: "evict", which: 1, kind: 1 },
  ],
];

test("losses of nodes cached between searches equal those computed again", () => {
  fc.assert(
    fc.property(gangs, moves, (all, steps) => {
      const cluster = clusterWith({
        nodes: nodes.map((name) => node(name)),
        queues: [queue("q")],
        ...together(
          ...all.map(({ min, on, gpus }, at) => ({
            groups: [group(`g${at}`, { minMember: min })],
            pods: on.map((where, k) => pod(`g${at}-${k}`, { gpus, on: where, group: `g${at}` })),
          })),
          gang("w", 4, { gpus: 2 }),
          gang("wide", 4, { gpus: 7 }),
        ),
      });
      cluster.refresh(startMs);
      const statement = new Statement(cluster);
      const tasks = [...cluster.tasks.values()];
      const kept = new Losses(cluster);
      for (const { what, which, kind } of steps) {
        // Not every move is followed by a look: changes pile up.
        if (which % 3 > 0) {
          const asks = tasks.find(({ name }) => name === (kind === 0 ? "w-000" : "wide-000")) as Task;
          expect([...kept.forTask(asks, rules)]).toEqual([...new Losses(cluster).forTask(asks, rules)]);
        }
        const one = (isRight: (task: Task) => boolean): Task | undefined => {
          const right = tasks.filter(isRight);
          return right[which % right.length];
        };
        if (what === "evict") {
          const task = one(isEvictable);
          if (task !== undefined) statement.evict(task, reason);
        } else if (what === "place") {
          const task = one(({ status, name }) => status === "pending" && name.startsWith(kind === 0 ? "w-" : "wide"));
          if (task !== undefined) placeTask(cluster, statement, task);
        } else if (what === "rollback") {
          statement.rollback(which % (statement.checkpoint() + 1));
        } else {
          const task = one((each) => statement.evictionOf(each) !== undefined && each.status === "releasing");
          const to = cluster.table.nodes[which % nodes.length];
          if (task !== undefined && to !== undefined) statement.replace(task, to, []);
        }
      }
    }),
    { numRuns: 300, examples: [takenBackFromElsewhere] },
  );
});

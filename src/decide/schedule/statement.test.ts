import { describe, expect, test } from "vitest";
import {
  clusterWith,
  gang,
  group,
  node,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { Task } from "./cluster/task.ts";
import { Statement } from "./statement.ts";

const gpuAt = 2;
const reason = { action: "reclaim", evictor: undefined, why: "a test" } as const;

/** `w` waits, `r` runs on n1 with two GPUs of eight, `s` shares one. */
function scene(): { cluster: Cluster; statement: Statement; task: (name: string) => Task } {
  const cluster = clusterWith({
    nodes: [node("n1"), node("n2")],
    queues: [queue("q")],
    ...together(gang("w", 2, { gpus: 3 }), gang("r", 1, { gpus: 2, on: "n1" }), {
      groups: [group("s")],
      pods: [pod("s", { fraction: "0.5", on: "n1", group: "s", groups: ["g"] })],
    }),
  });
  cluster.refresh(startMs);
  const task = (name: string): Task =>
    [...cluster.tasks.values()].find((each) => each.name === name) ?? expect.fail(`no pod ${name}`);
  return { cluster, statement: new Statement(cluster), task };
}

/** What can be seen of a cluster: free now and free later by node, statuses, and what queues hold. */
function seen(cluster: Cluster): unknown {
  return {
    idle: [...(cluster.table.idle[gpuAt] ?? [])],
    later: [...(cluster.table.later[gpuAt] ?? [])],
    statuses: [...cluster.tasks.values()].map(({ name, status, holdings }) => [
      name,
      status,
      holdings.map(({ node: on, groups, state }) => [on.name, groups, state]),
    ]),
    allocated: [...(cluster.queues.byName.get("q")?.allocated ?? [])],
    groups: cluster.table.nodes.map(({ groups }) => [...groups.values()].map((each) => ({ ...each }))),
  };
}

const n1 = (cluster: Cluster) => cluster.table.get("n1") ?? expect.fail("no n1");
const n2 = (cluster: Cluster) => cluster.table.get("n2") ?? expect.fail("no n2");

describe("what is tried on a cluster", () => {
  test("a place given now takes what is free, and the queue is charged at once", () => {
    const { cluster, statement, task } = scene();
    statement.place(task("w-000"), n1(cluster), [], false);
    expect(task("w-000").status).toBe("allocated");
    expect(cluster.table.idle[gpuAt]?.[0]).toBe(2);
    expect(cluster.queues.byName.get("q")?.allocated[0]).toBe(2500 + 3000);
  });

  test("a promise takes of what will be free and nothing of what is", () => {
    const { cluster, statement, task } = scene();
    statement.place(task("w-000"), n1(cluster), [], true);
    expect(task("w-000").status).toBe("pipelined");
    expect(cluster.table.idle[gpuAt]?.[0]).toBe(5);
    expect(cluster.table.later[gpuAt]?.[0]).toBe(2);
  });

  test("an eviction frees nothing now, but later, and the queue has less at once", () => {
    const { cluster, statement, task } = scene();
    statement.evict(task("r-000"), reason);
    expect(task("r-000").status).toBe("releasing");
    expect(cluster.table.idle[gpuAt]?.[0]).toBe(5);
    expect(cluster.table.later[gpuAt]?.[0]).toBe(7);
    expect(cluster.queues.byName.get("q")?.allocated[0]).toBe(500);
    expect(statement.evictionOf(task("r-000"))).toBe(reason);
  });

  test("a pod that stays after all is as it was before", () => {
    const { cluster, statement, task } = scene();
    const before = seen(cluster);
    statement.evict(task("r-000"), reason);
    statement.unevict(task("r-000"));
    expect(seen(cluster)).toEqual(before);
    expect(statement.evictionOf(task("r-000"))).toBeUndefined();
  });

  test("a victim that would come back to its own place and GPUs stays", () => {
    const { cluster, statement, task } = scene();
    const before = seen(cluster);
    statement.evict(task("s"), reason);
    statement.replace(task("s"), n1(cluster), ["g"]);
    expect(seen(cluster)).toEqual(before);
    expect(statement.evictionOf(task("s"))).toBeUndefined();
  });

  test.each([
    ["another GPU of its node", "n1", ["other"]],
    ["another node", "n2", ["other"]],
  ])("a victim that would come back to %s moves: it goes, and its place there is promised", (_, name, groups) => {
    const { cluster, statement, task } = scene();
    statement.evict(task("s"), reason);
    statement.replace(task("s"), name === "n1" ? n1(cluster) : n2(cluster), groups);
    expect(task("s").status).toBe("pipelined");
    expect(task("s").holdings.map(({ node: on, state }) => [on.name, state])).toEqual([
      ["n1", "releasing"],
      [name, "pipelined"],
    ]);
    expect(statement.evictionOf(task("s"))).toBe(reason);
  });

  test("all places that were given now become promises together", () => {
    const { cluster, statement, task } = scene();
    statement.place(task("w-000"), n1(cluster), [], false);
    statement.place(task("w-001"), n2(cluster), [], false);
    statement.pipelineAll([task("w-000"), task("w-001")]);
    expect([task("w-000").status, task("w-001").status]).toEqual(["pipelined", "pipelined"]);
    expect([...(cluster.table.idle[gpuAt] ?? [])]).toEqual([5, 8]);
  });

  test("is taken back to any point, the newest first, exactly", () => {
    const { cluster, statement, task } = scene();
    const states = [seen(cluster)];
    const points = [statement.checkpoint()];
    const steps = [
      () => statement.place(task("w-000"), n1(cluster), [], false),
      () => statement.evict(task("r-000"), reason),
      () => statement.evict(task("s"), reason),
      () => statement.replace(task("s"), n2(cluster), ["other"]),
      () => statement.place(task("w-001"), n1(cluster), [], true),
      () => statement.pipelineAll([task("w-000")]),
      () => statement.unevict(task("r-000")),
    ];
    for (const step of steps) {
      step();
      states.push(seen(cluster));
      points.push(statement.checkpoint());
    }
    while (points.length > 0) {
      statement.rollback(points.pop() as number);
      expect(seen(cluster)).toEqual(states.pop());
    }
    expect(statement.touchedSince(0)).toEqual([]);
    cluster.assertCounts();
  });
});

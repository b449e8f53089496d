import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addPod, clusterWith, group, node, pod, startMs } from "../../../../testing/decide/scheduleCluster.ts";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import type { Task } from "../cluster/task.ts";
import { cycle } from "../cycle.ts";

/** What may happen to a cluster between two cycles. */
type Step =
  | {
      readonly type: "node";
      readonly at: number;
      readonly cpu: number;
      readonly zone: string;
      readonly isReady: boolean;
    }
  | { readonly type: "lost"; readonly at: number }
  | { readonly type: "pod"; readonly at: number; readonly cpu: number; readonly zone?: string }
  | { readonly type: "ended"; readonly at: number };

const schedulerName = fc.constantFrom("default-scheduler", "kai-scheduler");
const zone = fc.constantFrom("a", "b");
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ type: fc.constant("node" as const), at: fc.nat(2), cpu: fc.nat(4), zone, isReady: fc.boolean() }),
  fc.record({ type: fc.constant("lost" as const), at: fc.nat(2) }),
  fc.record(
    { type: fc.constant("pod" as const), at: fc.nat(5), cpu: fc.integer({ min: 1, max: 3 }), zone },
    { requiredKeys: ["type", "at", "cpu"] },
  ),
  fc.record({ type: fc.constant("ended" as const), at: fc.nat(5) }),
);

describe("what is remembered of a shape", () => {
  test.each(["default-scheduler", "kai-scheduler"])(
    "a cluster that has changed step by step places pods of %s as one that was just read",
    (scheduler) => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
          const isGrouped = scheduler === "kai-scheduler";
          const groups = isGrouped ? Array.from({ length: 6 }, (_, at) => group(`p${at}`)) : [];
          const lasting = clusterWith({ nodes: [], groups });
          const nodes = new Map<string, Node>();
          const pods = new Map<string, Pod>();
          for (const each of steps) {
            const name = `${each.type === "node" || each.type === "lost" ? "n" : "p"}${each.at}`;
            switch (each.type) {
              case "node": {
                const { cpu, isReady } = each;
                const spec = isReady ? {} : { unschedulable: true };
                nodes.set(name, node(name, { gpus: 0, cpu: String(cpu), labels: { zone: each.zone }, isReady, spec }));
                lasting.putNode(nodes.get(name) as Node);
                break;
              }
              case "lost":
                nodes.delete(name);
                lasting.removeNode(name);
                break;
              case "pod": {
                if (pods.has(name)) break;
                const spec = each.zone === undefined ? {} : { nodeSelector: { zone: each.zone } };
                pods.set(
                  name,
                  pod(name, { cpu: String(each.cpu), scheduler, spec, ...(isGrouped && { group: name }) }),
                );
                addPod(lasting, pods.get(name) as Pod);
                break;
              }
              case "ended":
                if (!pods.delete(name)) break;
                lasting.removePod(`pod-default-${name}`);
            }
            const fresh = clusterWith({ nodes: [...nodes.values()], pods: [...pods.values()], groups });
            const plan = placesIn(lasting);
            expect(plan).toEqual(placesIn(fresh));
            for (const [key, nodeName] of plan) {
              const bound = pods.get(key) as Pod;
              const there = { ...bound, spec: { ...bound.spec, nodeName }, status: { phase: "Running" } } as Pod;
              pods.set(key, there);
              addPod(lasting, there);
            }
          }
        }),
        { numRuns: 150 },
      );
    },
  );
});

test("scores of all nodes, worked out together, are those that each of them has", () => {
  const nodeCase = fc.record({ gpus: fc.nat(4), cpu: fc.nat(4), isReady: fc.boolean() });
  const podCase = fc.record({
    on: fc.nat(4),
    gpus: fc.nat(2),
    cpu: fc.integer({ min: 1, max: 3 }),
    isGoing: fc.boolean(),
  });
  const strategy = fc.constantFrom("binpack" as const, "spread" as const);
  fc.assert(
    fc.property(
      fc.array(nodeCase, { minLength: 1, maxLength: 5 }),
      fc.array(podCase, { maxLength: 8 }),
      fc.record({ gpus: fc.nat(3), cpu: fc.integer({ min: 1, max: 3 }), scheduler: schedulerName }),
      fc.record({ gpuStrategy: strategy, cpuStrategy: strategy }),
      (nodes, pods, { gpus, cpu, scheduler }, settings) => {
        const cluster = clusterWith({
          settings,
          nodes: nodes.map(({ isReady, ...each }, at) => node(`n${at}`, { ...each, cpu: String(each.cpu), isReady })),
          pods: pods.map(({ on, isGoing, ...each }, at) =>
            pod(`p${at}`, {
              gpus: each.gpus,
              cpu: String(each.cpu),
              on: `n${on % nodes.length}`,
              ...(isGoing && { deletedMs: startMs }),
            }),
          ),
        });
        const waiting = pod("w", { gpus, cpu: String(cpu), scheduler });
        addPod(cluster, waiting);
        cluster.refresh(startMs);
        const { shape } = cluster.tasks.get(waiting.metadata.uid) as Task;
        expect([...cluster.fit.scores(shape)]).toEqual(nodes.map((_, at) => cluster.fit.score(shape, at)));
      },
    ),
    { numRuns: 300 },
  );
});

function placesIn(cluster: ReturnType<typeof clusterWith>): [string, string][] {
  const binds = cycle(cluster, startMs).jobs.flatMap((job) => job.binds);
  return binds.map(({ task, node: nodeName }): [string, string] => [task.name, nodeName]).sort();
}

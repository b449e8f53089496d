/** Gangs placed by this project's own scheduler and binder: the operator's PodGroups are what they read. */
import { expect, test } from "vitest";
import { binderPart } from "../../src/control/bind/binderPart.ts";
import { schedulerPart } from "../../src/control/schedule/schedulerPart.ts";
import type { KubeObject } from "../../src/model/object.ts";
import { GangCluster } from "./gangCluster.ts";
import { quick, type WorkloadWish, workload1, workload2 } from "./workloads.ts";

const queues = { group: "scheduling.run.ai", version: "v2", plural: "queues" };

/** A node has room for one pod of 80Mi. */
async function cluster(nodes: number, cordoned: number): Promise<GangCluster> {
  const parts = [schedulerPart(), binderPart()];
  const made = await GangCluster.start({ nodes, cordoned, parts, nodeMemory: "150Mi" });
  const unbounded = { quota: -1, limit: -1, overQuotaWeight: 1 };
  const spec = { resources: { cpu: unbounded, memory: unbounded, gpu: unbounded } };
  await made.must(
    made.kube.create(queues, {
      apiVersion: "scheduling.run.ai/v2",
      kind: "Queue",
      metadata: { name: "test" },
      spec,
    } as unknown as KubeObject),
  );
  return made;
}

async function settle(world: GangCluster): Promise<void> {
  await world.pass(5);
}

const wish: WorkloadWish = { template: quick };

test("GS-1: all of the minimum or nothing", async () => {
  const world = await cluster(10, 1);
  await world.apply(workload1(wish));
  await settle(world);
  expect({ pods: world.pods().length, scheduled: world.scheduledPods() }).toEqual({ pods: 10, scheduled: 0 });
  await world.uncordon(1);
  await settle(world);
  expect(world.readyPods()).toBe(10);
});

test("GS-5: three nodes hold the minimum of the base, the rest comes with more nodes", async () => {
  const world = await cluster(10, 7);
  await world.apply(workload2(wish));
  await settle(world);
  const cliques = ["workload2-0-pc-a", "workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c", "workload2-0-sg-x-1-pc-b"];
  expect(cliques.map((name) => world.scheduledPods(name))).toEqual([1, 1, 1, 0]);
  await world.uncordon(7);
  await settle(world);
  expect(world.readyPods()).toBe(10);
});

test("GT-1: a gang that lost a part of its minimum is ended, and starts again when there is room", async () => {
  const world = await cluster(10, 0);
  await world.apply(workload1(wish));
  await settle(world);
  expect(world.readyPods()).toBe(10);
  const before = world.uids();
  const [victim] = world.pods("workload1-0-pc-a");
  if (victim !== undefined) await world.losePod(victim);
  await world.pass(25);
  expect(world.uids().filter((uid) => before.includes(uid))).toEqual([]);
  await world.uncordon(1);
  await settle(world);
  expect(world.readyPods()).toBe(10);
});

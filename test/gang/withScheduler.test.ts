/** Gangs placed by this project's own scheduler and binder: the operator's PodGroups are what they read. */
import { expect, test } from "vitest";
import type { GangCluster } from "./gangCluster.ts";
import { ownSchedulerCluster } from "./ownScheduler.ts";
import { quick, type WorkloadOptions, workload1 } from "./workloads.ts";

async function settle(world: GangCluster): Promise<void> {
  await world.pass(5);
}

const wish: WorkloadOptions = { template: quick };

test("a gang below its minimum is terminated, and starts again when there is room", async () => {
  const world = await ownSchedulerCluster({ nodes: 10 });
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

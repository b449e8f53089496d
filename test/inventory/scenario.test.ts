import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { Dice } from "../../src/sim/chance.ts";
import { StandInCloud } from "../../src/standin/cloud.ts";
import { applyScenario } from "../../src/standin/scenario.ts";
import { allGroups, allSnapshots, allVolumes, CloudForTests, HurriedClock } from "./cloudForTests.ts";

const world = new CloudForTests();
beforeAll(() => world.start());
afterAll(() => world.stop());

test("the example describes a cloud that the SDK reads, with a throttled page on the way", async () => {
  applyScenario(
    world.cloud,
    parse(readFileSync(join(import.meta.dirname, "../../examples/inventory/cloud.yaml"), "utf8")),
  );
  const aws = world.aws({ volumePage: 5 });
  const [groups, volumes, snapshots] = [await allGroups(aws), await allVolumes(aws), await allSnapshots(aws)];
  expect(
    groups.ok &&
      groups.value.map(({ name, instances }) => [name, instances.map(({ lifecycleState }) => lifecycleState)]).sort(),
  ).toEqual([
    ["pytorch-gpu-dev-cpu-nodes", ["InService"]],
    ["pytorch-gpu-dev-gpu-nodes-h100", ["InService", "InService"]],
    ["pytorch-gpu-dev-gpu-nodes-t4-small", ["InService", "Pending"]],
  ]);
  expect(volumes.ok && volumes.value.map(({ id }) => id).sort()).toEqual([
    "vol-data",
    "vol-models",
    "vol-new",
    "vol-old",
    "vol-untagged",
  ]);
  expect(volumes.ok && volumes.value.find(({ id }) => id === "vol-data")).toMatchObject({
    sizeGb: 1024,
    state: "in-use",
    attachments: [{ instanceId: "i-h100-1", state: "attached" }],
  });
  expect(snapshots.ok && snapshots.value.length).toBe(3);
  await allVolumes(aws);
  expect(aws.usage().throttles).toBe(1);
});

test.each([
  ["a list that is none", { volumes: "many" }, "scenario.volumes"],
  ["an unknown field", { volumes: [{ id: "v", sise: 1 }] }, "scenario.volumes[0].sise"],
  ["a size below zero", { volumes: [{ id: "v", size: -1 }] }, "scenario.volumes[0].size"],
  ["a volume without an id", { volumes: [{ size: 1 }] }, "scenario.volumes[0].id"],
  ["an age that is none", { snapshots: [{ id: "s", volume: "v", age: "yesterday" }] }, "scenario.snapshots[0].age"],
  ["a way to fail that does not exist", { faults: { fail: [{ how: "explode" }] } }, "faults.fail[0].how"],
  ["something else altogether", 7, "scenario"],
])("%s is refused, and named", (_, scenario, path) => {
  const cloud = new StandInCloud({ clock: new HurriedClock(), random: new Dice(1) });
  expect(() => applyScenario(cloud, scenario)).toThrow(path);
});

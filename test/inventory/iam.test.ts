import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { iamPolicy, manifestDefaults } from "../../src/cli/inventory/manifests.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

const world = new InventoryWorld();
beforeAll(async () => {
  await world.start();
  await world.fresh();
});
afterAll(() => world.stop());

/** The founding document's list, in its order. */
const documented = [
  "sts:GetCallerIdentity",
  "eks:DescribeCluster",
  "autoscaling:DescribeAutoScalingGroups",
  "ec2:DescribeInstances",
  "ec2:DescribeAvailabilityZones",
  "ec2:DescribeVolumes",
  "ec2:DescribeSnapshots",
  "ec2:DescribeVolumesModifications",
];
const neverCalled = ["ec2:DescribeInstances", "ec2:DescribeAvailabilityZones"];

test("the policy is the founding document's list; what of it is never called is two, and the docs say so", async () => {
  const { Statement } = iamPolicy(manifestDefaults) as { Statement: { Action: string | string[] }[] };
  expect(Statement.flatMap(({ Action }) => Action).sort()).toEqual([...documented].sort());
  // A run that has reason for every call: a size that is news, a claim whose volume is gone, a cluster by its name.
  world.pool("h100", 1);
  world.cloud.createVolume({ id: "v1", sizeGb: 50, tags: { "gpu-dev-user": "ada", disk_name: "data" } });
  await world.addDisk("data", { ebs_volume_id: "v1", size_gb: 10 });
  world.cloud.clusters.set("dev", { name: "dev", endpoint: "https://x", certificateAuthority: "" });
  await world.run({}, { snapshotsFullEveryMs: 0 });
  await world.aws.aws().cluster("dev");
  const called = new Set(world.cloud.calls.keys());
  expect(documented.filter((action) => !called.has(action.split(":")[1] ?? ""))).toEqual(neverCalled);
  const docs = readFileSync(join(import.meta.dirname, "../../docs/inventory.md"), "utf8");
  for (const action of neverCalled) expect(docs).toContain(action);
});

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { inventoryDefaults } from "../../src/control/inventory/inventoryDefaults.ts";
import { type RunReport, runInventory } from "../../src/control/inventory/runInventory.ts";
import type { Node } from "../../src/model/kubernetes.generated.ts";
import { node } from "../../src/sim/inventory/builders.ts";
import { silentLog } from "./databases.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** `CLOUD_PROVIDER=none`: a cluster whose nodes are all there is. */
const world = new InventoryWorld();
let warnings: string[] = [];
beforeAll(() => world.start());
beforeEach(async () => {
  await world.fresh();
  warnings = [];
});
afterAll(() => world.stop());

function machine(name: string, labels: Record<string, string>): Node {
  const made = node(name, "", { heartbeat: new Date().toISOString() });
  return { ...made, metadata: { ...made.metadata, labels } };
}

function run(): Promise<RunReport> {
  const log = { ...silentLog, warn: (_: object, message: string) => void warnings.push(message) };
  const ports = {
    clock: systemClock(),
    log,
    metrics: world.metrics,
    database: world.database,
    cloud: undefined,
    cluster: world.readCluster,
  };
  return runInventory(ports, { ...inventoryDefaults, deadlineMs: 0 });
}

describe("without a cloud", () => {
  test("nodes with GPUs and no type make every type stale, and the report names them and the cure", async () => {
    world.nodes = [machine("n1", {}), machine("n2", {}), machine("n3", { GpuType: "h100" })];
    const report = await run();
    expect(report).toMatchObject({ status: "partial", exitCode: 2 });
    expect(report.phases.gpu?.counters).toMatchObject({ nodes_unknown: 2, types_fresh: 0 });
    expect(report.error).toContain("2 nodes with GPUs have no label GpuType (n1, n2): label them with their type");
    expect(await world.type("h100")).toMatchObject({ availability_state: "stale", total_cluster_gpus: 8 });
  });

  test("a node without a label is of the type that has its machine", async () => {
    world.nodes = [machine("n1", { "node.kubernetes.io/instance-type": "p5.48xlarge" })];
    expect(await run()).toMatchObject({ status: "ok" });
    expect(await world.type("h100")).toMatchObject({
      availability_state: "fresh",
      total_cluster_gpus: 8,
      available_gpus: 8,
    });
  });

  test("nodes without GPUs need no label", async () => {
    const bare = machine("control-plane", {});
    world.nodes = [{ ...bare, status: { ...bare.status, allocatable: { cpu: "4" } } }];
    expect(await run()).toMatchObject({ status: "ok" });
  });

  test("nothing is said about groups, which no cloud was asked for", async () => {
    world.nodes = [machine("n1", { GpuType: "h100" })];
    const report = await run();
    expect(report).toMatchObject({ status: "ok" });
    expect(report.phases.gpu?.counters["asgs_seen"]).toBe(0);
    expect(warnings).toEqual([]);
    const said = await world.sql<{ reason: string }>("select reason from drift_events");
    expect(said.filter(({ reason }) => reason.includes("ASG"))).toEqual([]);
  });
});

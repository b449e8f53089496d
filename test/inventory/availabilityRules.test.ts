import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { node, pod } from "../../src/sim/inventory/builders.ts";
import { InventoryWorld } from "./inventoryWorld.ts";

/** The rules of availability once more, as rows of PostgreSQL show them. */
const world = new InventoryWorld();
beforeAll(() => world.start());
afterAll(() => world.stop());
beforeEach(() => world.fresh());

const group = (key: string, ids: readonly string[], tags: Record<string, string> = {}): void => {
  const name = `pytorch-gpu-dev-${key}`;
  const instances = ids.map((id) => ({ id, type: "", lifecycleState: "InService", healthStatus: "Healthy" }));
  world.cloud.groups.set(name, { name, desiredCapacity: ids.length, instances, tags });
};

/** A machine of the group has joined the cluster: without any the listing of nodes is not believed. */
const joined = (type: string, instance: string): void => {
  world.nodes.push(node(`${type}-${instance}`, type, { instance }));
};

interface Case {
  readonly rule: string;
  readonly given: () => Promise<unknown> | unknown;
  readonly type: string;
  readonly row: Record<string, unknown>;
}

const cases: Case[] = [
  {
    rule: "six idle nodes are 48 GPUs, all free",
    given: () => world.pool("h100", 6),
    type: "h100",
    row: { total_cluster_gpus: 48, available_gpus: 48, full_nodes_available: 6, max_reservable: 32 },
  },
  {
    rule: "max_per_node is that of the seed rows",
    given: async () => {
      await world.sql("update gpu_types set max_per_node = 8, max_gpus = 4 where gpu_type = 'h100'");
      world.pool("h100", 1);
    },
    type: "h100",
    row: { max_per_node: 8, max_gpus: 4, total_cluster_gpus: 8 },
  },
  {
    rule: "t4 does not absorb t4-small",
    given: () => {
      group("gpu-nodes-t4", ["i-1"]);
      group("gpu-nodes-t4-small", ["i-2"]);
      joined("t4", "i-1");
    },
    type: "t4",
    row: { running_instances: 1, total_cluster_gpus: 4 },
  },
  {
    rule: "2.3, M: t4-az2 is t4",
    given: () => {
      group("gpu-nodes-t4", ["i-1"]);
      group("gpu-nodes-t4-az2", ["i-2"]);
      joined("t4", "i-1");
    },
    type: "t4",
    row: { running_instances: 2, total_cluster_gpus: 8 },
  },
  {
    rule: "M: the tag comes before the name",
    given: () => {
      group("gpu-nodes-t4", ["i-1"], { GpuType: "h200" });
      joined("h200", "i-1");
    },
    type: "h200",
    row: { running_instances: 1, total_cluster_gpus: 8 },
  },
  {
    rule: "the management group is no capacity",
    given: () => group("cpu-nodes", ["i-1", "i-2"]),
    type: "cpu-x86",
    row: { running_instances: 0, total_cluster_gpus: 0, available_gpus: 0 },
  },
  {
    rule: "nodes of machines that are not in service offer nothing",
    given: () => {
      world.pool("h100", 1);
      world.nodes.push(node("stray", "h100", { instance: "i-stray" }));
    },
    type: "h100",
    row: { total_cluster_gpus: 8, available_gpus: 8, unmanaged_nodes: 1 },
  },
  {
    rule: "cordoned, tainted and unready nodes offer nothing",
    given: () => {
      world.pool("h100", 4);
      world.nodes = [
        node("h100-1", "h100", { instance: "i-h100-1", unschedulable: true }),
        node("h100-2", "h100", { instance: "i-h100-2", taints: [{ key: "x", effect: "NoExecute" }] }),
        node("h100-3", "h100", { instance: "i-h100-3", ready: "Unknown" }),
        node("h100-4", "h100", { instance: "i-h100-4" }),
      ];
    },
    type: "h100",
    row: { total_cluster_gpus: 32, available_gpus: 8, schedulable_gpus: 8, k8s_allocatable_gpus: 32 },
  },
  {
    rule: "an init container's request counts",
    given: () => {
      world.pool("h100", 1);
      world.pods = [
        pod("p", "h100-1", 1, {
          spec: { initContainers: [{ name: "i", resources: { requests: { "nvidia.com/gpu": "8" } } }] },
        }),
      ];
    },
    type: "h100",
    row: { available_gpus: 0 },
  },
  {
    rule: "terminating pods and those of lost nodes still hold",
    given: () => {
      world.pool("h100", 1);
      world.pods = [
        pod("a", "h100-1", 2, { terminating: true }),
        pod("b", "h100-1", 1, { phase: "Unknown" }),
        pod("c", "h100-1", 4, { phase: "Succeeded" }),
      ];
    },
    type: "h100",
    row: { available_gpus: 5 },
  },
  {
    rule: "a node with a failed GPU is no whole node",
    given: () => {
      world.pool("h100", 2);
      world.nodes[0] = node("h100-1", "h100", { instance: "i-h100-1", gpus: 6, capacity: 8 });
    },
    type: "h100",
    row: { available_gpus: 14, full_nodes_available: 1, max_reservable: 8 },
  },
  {
    rule: "X: types of single nodes have the most that one node has",
    given: () => world.pool("l4", 3, 4),
    type: "l4",
    row: { available_gpus: 12, max_reservable: 4, full_nodes_available: 3 },
  },
  {
    rule: "how many nodes a reservation may span is a column",
    given: async () => {
      await world.sql("update gpu_types set multi_node_max = 2 where gpu_type = 'h100'");
      world.pool("h100", 4);
    },
    type: "h100",
    row: { max_reservable: 16 },
  },
  {
    rule: "C, G-15: places of nodes without GPUs, less what lives there",
    given: () => {
      world.pool("cpu-arm", 2, 0);
      world.pods = [
        pod("gpu-dev-a", "cpu-arm-1", 0),
        pod("gpu-dev-done", "cpu-arm-1", 0, { phase: "Failed" }),
        pod("gpu-dev-x", "cpu-arm-1", 0, { labels: { app: "helper" } }),
      ];
    },
    type: "cpu-arm",
    row: { total_cluster_gpus: 6, available_gpus: 5, full_nodes_available: 5, max_reservable: 1 },
  },
  {
    rule: "2.2-3: a warm pod that waits is free",
    given: () => {
      world.pool("h100", 1);
      world.pods = [pod("w", "h100-1", 8, { labels: { app: "gpu-dev-warm", "warm-state": "ready" } })];
    },
    type: "h100",
    row: { available_gpus: 8, full_nodes_available: 1 },
  },
  {
    rule: "what is being prepared is not free now",
    given: async () => {
      world.pool("h100", 2);
      await world.addReservation("r1", "preparing", { gpu_type: "H100", gpu_count: 8 });
    },
    type: "h100",
    row: { available_gpus: 16, available_now: 8 },
  },
  {
    rule: "2.2-1: slices are counted on the parent's nodes",
    given: async () => {
      await world.sql(
        "insert into gpu_types (gpu_type, instance_type, max_gpus, cpus, memory_gb, max_per_node, node_label_value, resource_name) values ('h100-mig-1g', 'p5.48xlarge', 16, 1, 1, 16, 'h100', 'nvidia.com/mig-1g.10gb')",
      );
      world.pool("h100", 2);
      world.nodes[1] = node("h100-2", "h100", {
        instance: "i-h100-2",
        gpus: 0,
        more: { "nvidia.com/mig-1g.10gb": "16" },
      });
    },
    type: "h100-mig-1g",
    row: { running_instances: 1, total_cluster_gpus: 16, available_gpus: 16 },
  },
  {
    rule: "E: when more is free follows the ends of reservations",
    given: async () => {
      world.pool("l4", 1, 4);
      world.pods = [pod("p", "l4-1", 3)];
      await world.addReservation("r1", "active", {
        gpu_type: "l4",
        gpu_count: 3,
        pod_name: "p",
        expires_at: new Date("2099-01-01T00:00:00Z"),
      });
    },
    type: "l4",
    row: { available_gpus: 1, size_etas: { 1: "now", 2: "2099-01-01T00:00:00Z", 4: "2099-01-01T00:00:00Z" } },
  },
  {
    rule: "an inactive type is not written",
    given: async () => {
      await world.sql("update gpu_types set is_active = false where gpu_type = 'h100'");
      world.pool("h100", 4);
    },
    type: "h100",
    row: { total_cluster_gpus: 16, availability_state: "unknown", last_availability_update: null },
  },
];

describe("availability, in the rows of gpu_types", () => {
  test.each(cases)("$rule", async ({ given, type, row }) => {
    await given();
    expect((await world.run({ kind: "gpu" })).exitCode).toBe(0);
    expect(await world.type(type)).toMatchObject(row);
    const before = await world.state();
    expect((await world.run({ kind: "gpu" })).phases.gpu?.rowsWritten).toBe(0);
    expect(await world.state()).toEqual(before);
  });

  test("a reader never sees half of a run: one wrong row and none is written", async () => {
    world.pool("h100", 1);
    await world.run({ kind: "gpu" });
    const before = await world.state();
    await world.sql("alter table gpu_types add constraint spoiler check (gpu_type <> 't4' or running_instances = 0)");
    world.pool("h100", 3);
    world.pool("t4", 1, 4);
    expect(await world.run({ kind: "gpu" })).toMatchObject({ status: "failed", exitCode: 1 });
    expect(await world.state()).toEqual(before);
  });
});

import { expect, test } from "vitest";
import { findProfile, profilesWith } from "../../model/profiles/profiles.ts";
import { positionOf, type TopologySpec, topologyLabels } from "../../model/profiles/topology.ts";
import { nodeLabels, simNode } from "./simNode.ts";

const fabric = { clusterSeed: "s", pool: "p", clique: true };

test("18 trays of four GPUs are one NVLink domain", () => {
  const profile = findProfile(profilesWith(), "gb200");
  const clique = (index: number) =>
    nodeLabels(simNode({ clusterSeed: "s", pool: "p", profile, index }))["nvidia.com/gpu.clique"];
  expect(clique(0)).toMatch(/^[0-9a-f-]{36}\.0$/);
  expect(clique(17)).toBe(clique(0));
  expect(clique(18)).not.toBe(clique(0));
});

test.each([
  { scheme: "none", keys: ["nvidia.com/gpu.clique"] },
  {
    scheme: "topograph",
    keys: [
      "network.topology.nvidia.com/core",
      "network.topology.nvidia.com/leaf",
      "network.topology.nvidia.com/spine",
      "nvidia.com/gpu.clique",
    ],
  },
  {
    scheme: "topograph-v1",
    keys: [
      "accelerator.topograph.run/domain",
      "accelerator.topograph.run/sub-domain",
      "fabric.topograph.run/tier-0",
      "fabric.topograph.run/tier-1",
      "fabric.topograph.run/tier-2",
      "nvidia.com/gpu.clique",
    ],
  },
  {
    scheme: "knavigator",
    keys: [
      "network.topology.nvidia.com/block",
      "network.topology.nvidia.com/datacenter",
      "network.topology.nvidia.com/spine",
      "nvidia.com/gpu.clique",
    ],
  },
] as const)("scheme $scheme uses its own keys", ({ scheme, keys }) => {
  const spec: TopologySpec = { scheme };
  const position = positionOf(spec, { clusterSeed: "s", pool: "p", index: 0 });
  expect(Object.keys(topologyLabels(spec, position, fabric)).sort()).toEqual([...keys]);
  expect(topologyLabels(spec, position, { ...fabric, clique: false })).not.toHaveProperty("nvidia.com/gpu.clique");
});

test("leaves, spines and cores nest", () => {
  const spec: TopologySpec = { scheme: "topograph", nodesPerLeaf: 2, leavesPerSpine: 2, spinesPerCore: 2 };
  const at = (index: number) => positionOf(spec, { clusterSeed: "s", pool: "p", index });
  expect([at(0), at(2), at(4), at(8)].map(({ leaf, spine, core }) => [leaf, spine, core])).toEqual([
    [0, 0, 0],
    [1, 0, 0],
    [2, 1, 0],
    [4, 2, 1],
  ]);
});

test("holes leave slots empty, the same ones for the same seed, and no slot twice", () => {
  const spec: TopologySpec = { scheme: "topograph", holes: 0.25 };
  const slots = (clusterSeed: string) =>
    Array.from({ length: 60 }, (_, index) => positionOf(spec, { clusterSeed, pool: "p", index }).slot);
  expect(slots("s")).toEqual(slots("s"));
  expect(slots("s")).not.toEqual(slots("t"));
  expect(new Set(slots("s")).size).toBe(60);
  expect(slots("s").at(-1)).toBeGreaterThan(65);
  expect(slots("s").at(-1)).toBeLessThan(100);
});

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Node } from "../../model/kubernetes.generated.ts";
import { findProfile, parseProfiles, profilesWith } from "../../model/profiles/profiles.ts";
import { pluginResources } from "../devices/devices.ts";
import { type Fault, readFault } from "./faults.ts";
import { nextForNode, nodeLifeDefaults } from "./nodeLife.ts";
import { nodeObject, simNode, simNodeOf } from "./simNode.ts";

const nowMs = Date.UTC(2026, 0, 1);
const noProfiles = new Map();
const h100 = findProfile(profilesWith(), "h100");
const gpu = { product: "P", count: 2, memoryMiB: 81_920, driver: "1.2.3", migCapable: true };
const [lab] = parseProfiles(
  readFileSync(new URL("../../../examples/profiles/lab-a100.yaml", import.meta.url), "utf8"),
  "lab",
);

/** The object as the API stores it. */
function stored(object: unknown): Node {
  const node = object as Node;
  return { ...node, metadata: { ...node.metadata, uid: "u", resourceVersion: "1", creationTimestamp: "" } };
}

/** What a process that knows no profile writes about the node. */
function writesFor(node: Node, faults: readonly Fault[] = []) {
  const sim = simNodeOf(node, "s", noProfiles);
  const options = { ...nodeLifeDefaults, holder: "us", clusterSeed: "s", leases: false };
  return nextForNode({ node, sim, lease: undefined, faults, pods: () => [], options, nowMs }).writes;
}

const amountsIn = (writes: ReturnType<typeof writesFor>) =>
  writes.flatMap((write) => (write.kind === "update" ? [(write.object as Node).status?.capacity] : []));

describe("a node whose profile no longer exists", () => {
  test.each([
    { name: "whole GPUs", profile: h100 },
    { name: "GPUs cut in several ways", profile: lab ?? h100 },
    { name: "GPUs cut in one way", profile: { ...h100, gpu: { ...gpu, mig: cut("single", { "1g.10gb": 7 }) } } },
    {
      name: "partitions with media engines",
      profile: { ...h100, gpu: { ...gpu, mig: cut("mixed", { "1g.10gb+me": 1 }) } },
    },
    { name: "shared GPUs", profile: { ...h100, gpu: { ...gpu, replicas: 4 } } },
    { name: "GPUs of a rack", profile: findProfile(profilesWith(), "gb200") },
    { name: "no GPUs", profile: findProfile(profilesWith(), "cpu") },
  ])("keeps its devices: $name", ({ profile }) => {
    const sim = simNode({ clusterSeed: "s", pool: "a", profile, index: 3 });
    const node = stored(nodeObject(sim, { ordinal: 0, nowMs }));
    const found = simNodeOf(node, "s", noProfiles);
    expect(pluginResources(found, {})).toEqual(pluginResources(sim, {}));
    expect(writesFor(node)).toEqual([]);
  });
});

function cut(strategy: "single" | "mixed", partitions: Record<string, number>) {
  return { strategy, partitions };
}

describe("a node that another tool has created", () => {
  const made = (capacity: Record<string, string>, labels: Record<string, string> = {}) =>
    stored({ apiVersion: "v1", kind: "Node", metadata: { name: "n-0", labels }, status: { capacity } });

  test("keeps amounts of partitions from which its partitioning cannot be derived", () => {
    const capacity = { cpu: "1", "nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-3g.20gb": "1" };
    expect(amountsIn(writesFor(made(capacity)))).toEqual([capacity]);
    const both = { ...capacity, "nvidia.com/gpu": "4" };
    expect(amountsIn(writesFor(made(both)))).toEqual([both]);
  });

  test("keeps its labels, except those that a fault changes while it lasts", () => {
    const labels = {
      "nvidia.com/gpu.clique": "rack-7.0",
      "nvidia.com/mig.strategy": "mixed",
      "nvidia.com/gpu.product": "GB200",
    };
    const node = made({ "nvidia.com/gpu": "4" }, labels);
    const patches = (faults: readonly Fault[]) => writesFor(node, faults).filter(({ kind }) => kind === "patch");
    expect(patches([])).toEqual([]);
    const given = { kind: "nvlink-partition", node: "n-0", partition: 2 };
    const moved = JSON.stringify(patches([readFault(given, { nowMs, id: "f" })]));
    expect(moved).toMatch(/"nvidia.com\/gpu.clique":"[^"]+\.2"/);
    expect(moved).not.toContain("mig.strategy");
  });
});

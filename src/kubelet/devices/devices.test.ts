import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { migPartitionError, migProfilesOf, placePartitions } from "../../model/profiles/mig.ts";
import type { GpuSpec } from "../../model/profiles/profile.ts";
import { findProfile, profilesWith } from "../../model/profiles/profiles.ts";
import { simNode } from "../node/simNode.ts";
import { assignDevices, assignmentOf, heldDevices, pluginResources, unitCounts } from "./devices.ts";

const profile = findProfile(profilesWith(), "h100");
const node = (gpu: Partial<GpuSpec> = {}) =>
  simNode({ clusterSeed: "s", pool: "p", index: 0, profile: { ...profile, gpu: { ...profile.gpu!, ...gpu } } });

function withDevices(pod: Pod, assignment: unknown, phase = "Running"): Pod {
  const annotations = { "sim.muster.dev/devices": JSON.stringify(assignment) };
  return { ...pod, metadata: { ...pod.metadata, annotations }, status: { phase } };
}

describe("what a node offers", () => {
  test.each([
    { name: "whole GPUs", gpu: {}, state: {}, capacity: { "nvidia.com/gpu": 8 }, allocatable: { "nvidia.com/gpu": 8 } },
    {
      name: "one is unhealthy",
      gpu: {},
      state: { unhealthy: new Set([3]) },
      capacity: { "nvidia.com/gpu": 8 },
      allocatable: { "nvidia.com/gpu": 7 },
    },
    {
      name: "the plugin restarts",
      gpu: {},
      state: { down: true },
      capacity: { "nvidia.com/gpu": 8 },
      allocatable: { "nvidia.com/gpu": 0 },
    },
    {
      name: "four time slices each",
      gpu: { replicas: 4 },
      state: { unhealthy: new Set([0]) },
      capacity: { "nvidia.com/gpu": 32 },
      allocatable: { "nvidia.com/gpu": 28 },
    },
    {
      name: "single partitions look like GPUs",
      gpu: { mig: { strategy: "single", partitions: { "1g.10gb": 7 } } },
      state: {},
      capacity: { "nvidia.com/gpu": 56 },
      allocatable: { "nvidia.com/gpu": 56 },
    },
    {
      name: "mixed partitions have names",
      gpu: { mig: { strategy: "mixed", partitions: { "3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2 } } },
      state: { unhealthy: new Set([7]) },
      capacity: { "nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-2g.20gb": 8, "nvidia.com/mig-3g.40gb": 8 },
      allocatable: { "nvidia.com/mig-1g.10gb": 14, "nvidia.com/mig-2g.20gb": 7, "nvidia.com/mig-3g.40gb": 7 },
    },
  ] as const)("$name", ({ gpu, state, capacity, allocatable }) => {
    expect(unitCounts(pluginResources(node(gpu), state))).toEqual({ capacity, allocatable });
  });
});

describe("partitions", () => {
  test.each([
    [40_960, ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]],
    [81_559, ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]],
  ])("a GPU of %i MiB has the vendor's MIG profiles and ids", (memory, names) => {
    const profiles = migProfilesOf(memory);
    expect(profiles.map(({ name }) => name)).toEqual(names);
    expect(profiles.map(({ id }) => id)).toEqual([19, 20, 15, 14, 9, 5, 0]);
  });

  test.each([
    [{ "7g.80gb": 1 }, undefined],
    [{ "1g.10gb": 7 }, undefined],
    [{ "4g.40gb": 1, "3g.40gb": 1 }, undefined],
    [{ "1g.10gb+me": 1, "1g.10gb": 6 }, undefined],
    [{ "1g.10gb": 8 }, "the partitions do not fit on one GPU together"],
    [{ "7g.80gb": 1, "1g.10gb": 1 }, "the partitions do not fit on one GPU together"],
    [{ "1g.10gb+me": 2 }, "the partitions do not fit on one GPU together"],
    [{}, "strategy mixed needs at least one partition"],
  ])("%j: %s", (partitions, error) => {
    expect(migPartitionError({ strategy: "mixed", partitions }, 81_559)).toBe(error);
  });

  test("no two partitions share a memory slice", () => {
    const names = migProfilesOf(81_920).map(({ name }) => name);
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), fc.integer({ min: 0, max: 7 })), (partitions) => {
        const placed = placePartitions({ strategy: "mixed", partitions }, 81_920);
        const slices = (placed ?? []).flatMap(({ profile: { memorySlices }, start }) =>
          Array.from({ length: memorySlices }, (_, i) => start + i),
        );
        expect(new Set(slices).size).toBe(slices.length);
        for (const slice of slices) expect(slice).toBeLessThan(8);
      }),
    );
  });
});

describe("assignment", () => {
  const units = pluginResources(node(), {});
  const ids = (units.get("nvidia.com/gpu") ?? []).map(({ id }) => id);

  test("lowest free index first", () => {
    const held = new Map([
      [ids[0]!, "x"],
      [ids[2]!, "y"],
    ]);
    const result = assignDevices(testPod({ gpus: 2 }), units, held);
    expect(result).toEqual({ ok: true, assignment: { main: { "nvidia.com/gpu": [ids[1], ids[3]] } } });
  });

  test.each([
    ["is free gets it and no other", []],
    ["is allocated is refused", [5]],
  ] as const)("a pod that names a device that %s", (_, taken) => {
    const pod = testPod({ gpus: 1 });
    const pinned = { ...pod, metadata: { ...pod.metadata, annotations: { "muster.dev/pin-device": ids[5]! } } };
    const result = assignDevices(pinned, units, new Map(taken.map((at) => [ids[at]!, "x"])));
    expect(result).toEqual(
      taken.length === 0
        ? { ok: true, assignment: { main: { "nvidia.com/gpu": [ids[5]] } } }
        : { ok: false, resource: "nvidia.com/gpu", wanted: 1, free: 0 },
    );
  });

  test("devices of an init container are reused by later containers; a sidecar keeps its own", () => {
    const gpu = (count: number) => ({ limits: { "nvidia.com/gpu": String(count) } });
    const pod = testPod({
      spec: {
        initContainers: [
          { name: "init", resources: gpu(2) },
          { name: "side", restartPolicy: "Always", resources: gpu(1) },
        ],
        containers: [
          { name: "a", resources: gpu(1) },
          { name: "b", resources: gpu(1) },
        ],
      },
    });
    const result = assignDevices(pod, units, new Map());
    expect(result).toEqual({
      ok: true,
      assignment: {
        init: { "nvidia.com/gpu": [ids[0], ids[1]] },
        side: { "nvidia.com/gpu": [ids[0]] },
        a: { "nvidia.com/gpu": [ids[1]] },
        b: { "nvidia.com/gpu": [ids[2]] },
      },
    });
  });

  test("a shortage names the resource and both amounts", () => {
    const broken = pluginResources(node(), { unhealthy: new Set([0, 1]) });
    const result = assignDevices(testPod({ gpus: 8 }), broken, new Map());
    expect(result).toEqual({ ok: false, resource: "nvidia.com/gpu", wanted: 8, free: 6 });
  });

  test.each([
    ["Running", 1],
    ["Pending", 1],
    ["Succeeded", 0],
    ["Failed", 0],
  ])("a pod that is %s holds %i devices", (phase, count) => {
    const pod = withDevices(testPod(), { main: { "nvidia.com/gpu": [ids[0]] } }, phase);
    expect(heldDevices([pod]).size).toBe(count);
  });

  test.each(["", "{", "[]", '{"main":3}', '{"main":{"nvidia.com/gpu":"x"}}', '{"main":{"nvidia.com/gpu":[1]}}'])(
    "an invalid record (%j) holds no devices",
    (text) => {
      const pod = testPod({ annotations: { "sim.muster.dev/devices": text } });
      expect(Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each).flat())).toEqual([]);
    },
  );

  test("allocatable is capacity without unhealthy devices, and no pod gets an unhealthy or allocated device", () => {
    const indexes = fc.uniqueArray(fc.integer({ min: 0, max: 7 }));
    fc.assert(
      fc.property(indexes, indexes, fc.integer({ min: 1, max: 8 }), (broken, taken, wanted) => {
        const now = pluginResources(node(), { unhealthy: new Set(broken) });
        expect(unitCounts(now).allocatable["nvidia.com/gpu"]).toBe(8 - broken.length);
        const held = new Map(taken.map((index) => [ids[index]!, "x"]));
        const free = ids.filter((id, i) => !broken.includes(i) && !held.has(id));
        const result = assignDevices(testPod({ gpus: wanted }), now, held);
        expect(result.ok).toBe(free.length >= wanted);
        if (result.ok) expect(result.assignment["main"]?.["nvidia.com/gpu"]).toEqual(free.slice(0, wanted));
      }),
    );
  });
});

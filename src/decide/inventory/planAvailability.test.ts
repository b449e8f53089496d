import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ScalingGroup } from "../../model/inventory/cloud.ts";
import type { GpuTypeRow, ReservationRow } from "../../model/inventory/rows.ts";
import type { Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { gpuType, group, node, noNumbers, nowMs, pod, reservation } from "../../sim/inventory/builders.ts";
import { inventorySnapshot } from "./inventorySnapshot.ts";
import { type AvailabilityInput, planAvailability } from "./planAvailability.ts";

interface World {
  types?: GpuTypeRow[];
  groups?: ScalingGroup[] | string;
  nodes?: Node[] | string;
  pods?: Pod[];
  claims?: ResourceClaim[];
  slices?: ResourceSlice[];
  reservations?: ReservationRow[];
}

/**
 * One h100 type; a group that has every node's instance, unless the test says otherwise. A text is why a read failed.
 */
function input(world: World): AvailabilityInput {
  const { types = [gpuType("h100", 8)], nodes = [], pods = [], claims = [], slices = [], reservations = [] } = world;
  const ids = typeof nodes === "string" ? ["i-n1", "i-n2"] : nodes.map(({ metadata }) => `i-${metadata.name}`);
  const groups = world.groups ?? [group("p-gpu-nodes-h100", ids)];
  return {
    types,
    groups: typeof groups === "string" ? { ok: false, why: groups } : { ok: true, value: groups },
    cluster:
      typeof nodes === "string"
        ? { ok: false, why: nodes }
        : { ok: true, value: inventorySnapshot({ nodes, pods, claims, slices, revision: "1" }) },
    reservations,
    names: { prefix: "p", aliases: {} },
    nowMs,
  };
}

function numbers(world: World, type = "h100") {
  const found = planAvailability(input(world)).types.find(({ gpuType: name }) => name === type);
  if (found === undefined) throw new Error(`no plan for ${type}`);
  return found.numbers;
}

const idle = (count: number): Node[] => Array.from({ length: count }, (_, at) => node(`n${at + 1}`, "h100"));
const taint = (key: string, effect: string) => [{ key, effect }];
const good = {
  ...noNumbers,
  totalClusterGpus: 16,
  availableGpus: 9,
  maxReservable: 8,
  fullNodesAvailable: 1,
  runningInstances: 2,
  desiredCapacity: 2,
  state: "fresh" as const,
};
const claim = (name: string, holders: string[], devices: string[], more: object = {}): ResourceClaim =>
  ({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name, namespace: "default", uid: name, resourceVersion: "1", creationTimestamp: "" },
    spec: {},
    status: {
      allocation: {
        devices: {
          results: devices.map((device) => ({ driver: "gpu.nvidia.com", pool: "n1", device, request: "r", ...more })),
        },
      },
      reservedFor: holders.map((holder) => ({ resource: "pods", name: holder, uid: `uid-${holder}` })),
    },
  }) as ResourceClaim;

describe("what is free", () => {
  test.each<{ fact: string; world: World; type?: string; says: object }>([
    {
      fact: "six idle nodes: everything, and four nodes in one reservation",
      world: { nodes: idle(6) },
      says: {
        totalClusterGpus: 48,
        availableGpus: 48,
        fullNodesAvailable: 6,
        maxReservable: 32,
        runningInstances: 6,
        desiredCapacity: 6,
      },
    },
    {
      fact: "a node in part use, and one that is cordoned",
      world: { nodes: [node("n1", "h100"), node("n2", "h100", { unschedulable: true })], pods: [pod("a", "n1", 3)] },
      says: {
        totalClusterGpus: 16,
        availableGpus: 5,
        fullNodesAvailable: 0,
        maxReservable: 5,
        schedulableGpus: 8,
        k8sAllocatableGpus: 16,
      },
    },
    {
      fact: "nothing on a node with a taint that reservations do not tolerate",
      world: { nodes: [node("n1", "h100", { taints: taint("gpu-health", "NoSchedule") })] },
      says: { availableGpus: 0, totalClusterGpus: 8 },
    },
    {
      fact: "everything on a node with the GPU taint",
      world: { nodes: [node("n1", "h100", { taints: taint("nvidia.com/gpu", "NoSchedule") })] },
      says: { availableGpus: 8 },
    },
    {
      fact: "everything on a node that is only to be avoided",
      world: { nodes: [node("n1", "h100", { taints: taint("x", "PreferNoSchedule") })] },
      says: { availableGpus: 8 },
    },
    {
      fact: "nothing on a node that is not ready",
      world: { nodes: [node("n1", "h100", { ready: "Unknown" })] },
      says: { availableGpus: 0 },
    },
    {
      fact: "nothing on a node whose heartbeat stopped",
      world: { nodes: [node("n1", "h100", { heartbeat: "2026-11-15T11:00:00Z" })] },
      says: { availableGpus: 0 },
    },
    {
      fact: "less by the largest init container",
      world: {
        nodes: idle(1),
        pods: [
          pod("a", "n1", 1, {
            spec: { initContainers: [{ name: "i", resources: { requests: { "nvidia.com/gpu": "8" } } }] },
          }),
        ],
      },
      says: { availableGpus: 0 },
    },
    {
      fact: "less by sidecars beside containers",
      world: {
        nodes: idle(1),
        pods: [
          pod("a", "n1", 2, {
            spec: {
              initContainers: [
                { name: "s", restartPolicy: "Always", resources: { requests: { "nvidia.com/gpu": "1" } } },
              ],
            },
          }),
        ],
      },
      says: { availableGpus: 5 },
    },
    {
      fact: "less by overhead",
      world: { nodes: idle(1), pods: [pod("a", "n1", 1, { spec: { overhead: { "nvidia.com/gpu": "1" } } })] },
      says: { availableGpus: 6 },
    },
    {
      fact: "less by the pod-level request, which replaces the sum",
      world: {
        nodes: idle(1),
        pods: [pod("a", "n1", 1, { spec: { resources: { requests: { "nvidia.com/gpu": "4" } } } })],
      },
      says: { availableGpus: 4 },
    },
    {
      fact: "less by devices that claims hold",
      world: { nodes: idle(1), pods: [pod("a", "n1", 0)], claims: [claim("c", ["a"], ["gpu-0", "gpu-1"])] },
      says: { availableGpus: 6 },
    },
    {
      fact: "less once by a device that two pods share",
      world: {
        nodes: idle(1),
        pods: [pod("a", "n1", 0), pod("b", "n1", 0)],
        claims: [claim("c", ["a", "b"], ["gpu-0"])],
      },
      says: { availableGpus: 7 },
    },
    {
      fact: "not less by administrators' access",
      world: {
        nodes: idle(1),
        pods: [pod("a", "n1", 0)],
        claims: [claim("c", ["a"], ["gpu-0"], { adminAccess: true })],
      },
      says: { availableGpus: 8 },
    },
    {
      fact: "not less twice when a claim answers the pod's own request",
      world: {
        nodes: idle(1),
        pods: [
          pod("a", "n1", 1, {
            status: { extendedResourceClaimStatus: { resourceClaimName: "c", requestMappings: [] } },
          }),
        ],
        claims: [claim("c", ["a"], ["gpu-0"])],
      },
      says: { availableGpus: 7 },
    },
    {
      fact: "less by pods of a lost node, and by terminating ones",
      world: {
        nodes: idle(1),
        pods: [pod("a", "n1", 2, { phase: "Unknown" }), pod("b", "n1", 1, { terminating: true })],
      },
      says: { availableGpus: 5 },
    },
    {
      fact: "not less by pods that have ended",
      world: {
        nodes: idle(1),
        pods: [pod("a", "n1", 2, { phase: "Succeeded" }), pod("b", "n1", 2, { phase: "Failed" })],
      },
      says: { availableGpus: 8 },
    },
    {
      fact: "not less by a warm pod, which is handed over or evicted at once",
      world: { nodes: idle(1), pods: [pod("w", "n1", 8, { labels: { app: "gpu-dev-warm", "warm-state": "ready" } })] },
      says: { availableGpus: 8, fullNodesAvailable: 1 },
    },
    {
      fact: "less by a warm pod that is being assigned to a user",
      world: {
        nodes: idle(1),
        pods: [pod("w", "n1", 8, { labels: { app: "gpu-dev-warm", "warm-state": "claimed" } })],
      },
      says: { availableGpus: 0 },
    },
    {
      fact: "never below zero when more is used than there is",
      world: { nodes: idle(1), pods: [pod("a", "n1", 9)] },
      says: { availableGpus: 0 },
    },
    {
      fact: "a node that lost GPUs is not a whole one, and does not add up with others",
      world: { nodes: [node("n1", "h100", { gpus: 6, capacity: 8 }), node("n2", "h100")] },
      says: { availableGpus: 14, fullNodesAvailable: 1, maxReservable: 8 },
    },
    {
      fact: "only lost nodes: the most that one of them has",
      world: { nodes: [node("n1", "h100", { gpus: 6, capacity: 8 }), node("n2", "h100", { gpus: 5, capacity: 8 })] },
      says: { maxReservable: 6, fullNodesAvailable: 0 },
    },
    {
      fact: "nothing on nodes whose instance is not in service",
      world: { nodes: idle(3), groups: [group("p-gpu-nodes-h100", ["i-n1"])] },
      says: { totalClusterGpus: 8, availableGpus: 8, unmanagedNodes: 2 },
    },
    {
      fact: "not what is Pending, Terminating, Standby or Warmed in the group",
      world: {
        nodes: idle(1),
        groups: [
          {
            ...group("p-gpu-nodes-h100", []),
            desiredCapacity: 3,
            instances: ["InService", "Pending", "Terminating:Wait", "Standby", "Warmed:Stopped"].map(
              (lifecycleState, at) => ({ id: `i-n${at + 1}`, type: "", lifecycleState, healthStatus: "Unhealthy" }),
            ),
          },
        ],
      },
      says: { runningInstances: 1, totalClusterGpus: 8, desiredCapacity: 3 },
    },
    {
      fact: "GPUs by the type of each machine, where groups mix them",
      world: {
        types: [gpuType("h100", 8), gpuType("t4", 4, { instanceType: "g4" })],
        nodes: [],
        groups: [
          {
            ...group("p-gpu-nodes-h100", []),
            instances: [
              { id: "i-1", type: "g4", lifecycleState: "InService", healthStatus: "" },
              { id: "i-2", type: "unheard-of", lifecycleState: "InService", healthStatus: "" },
            ],
          },
        ],
      },
      says: { totalClusterGpus: 12 },
    },
    {
      fact: "for types of single nodes: the most that one node has",
      world: {
        types: [gpuType("t4", 4)],
        groups: [group("p-gpu-nodes-t4", ["i-n1", "i-n2"])],
        nodes: [node("n1", "t4", { gpus: 4 }), node("n2", "t4", { gpus: 4 })],
      },
      type: "t4",
      says: { availableGpus: 8, fullNodesAvailable: 2, maxReservable: 4 },
    },
    {
      fact: "devices that only resource slices publish",
      world: {
        nodes: [node("n1", "h100", { resource: "other", gpus: 1 })],
        slices: [
          {
            apiVersion: "resource.k8s.io/v1",
            kind: "ResourceSlice",
            metadata: { name: "s", uid: "s", resourceVersion: "1", creationTimestamp: "" },
            spec: {
              driver: "gpu.nvidia.com",
              nodeName: "n1",
              pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
              devices: [{ name: "a" }, { name: "b" }],
            },
          } as ResourceSlice,
        ],
      },
      says: { availableGpus: 2 },
    },
    {
      fact: "a mapped group of no machines and no node: zero",
      world: { groups: [], nodes: [] },
      says: { totalClusterGpus: 0, availableGpus: 0, state: "fresh" },
    },
  ])("$fact", ({ world, type, says }) => {
    expect(numbers(world, type)).toMatchObject(says);
  });

  test("slots of nodes without GPUs: three, less the reservations there", () => {
    const pods = [
      pod("gpu-dev-1", "n1", 0),
      pod("gpu-dev-2", "n1", 0, { phase: "Succeeded" }),
      pod("gpu-dev-helper", "n1", 0, { labels: { app: "node-helper" } }),
      pod("mine", "n1", 0, { labels: { app: "gpu-dev-pod" } }),
    ];
    const world = {
      types: [gpuType("cpu-x86", 0)],
      groups: [group("p-gpu-nodes-cpu-x86", ["i-n1", "i-n2"])],
      nodes: [node("n1", "cpu-x86", { gpus: 0 }), node("n2", "cpu-x86", { gpus: 0 })],
      pods,
    };
    expect(numbers(world, "cpu-x86")).toMatchObject({
      totalClusterGpus: 6,
      availableGpus: 4,
      fullNodesAvailable: 4,
      maxReservable: 1,
    });
  });

  test("slices are counted on the physical nodes, own no group, and add nothing to the physical type", () => {
    const slice = gpuType("h100-mig-1g", 16, { nodeLabelValue: "h100", resourceName: "nvidia.com/mig-1g.10gb" });
    const nodes = [node("n1", "h100"), node("n2", "h100", { gpus: 0, more: { "nvidia.com/mig-1g.10gb": "16" } })];
    const world = {
      types: [gpuType("h100", 8), slice],
      nodes,
      pods: [pod("m", "n2", 3, { resource: "nvidia.com/mig-1g.10gb" })],
    };
    expect(numbers(world, "h100-mig-1g")).toMatchObject({
      runningInstances: 1,
      totalClusterGpus: 16,
      availableGpus: 13,
    });
    expect(numbers(world)).toMatchObject({ totalClusterGpus: 16, availableGpus: 8 });
  });

  test("an unreadable quantity makes its node unknown, with a report", () => {
    const plan = planAvailability(input({ nodes: [node("n1", "h100", { gpus: "many" }), node("n2", "h100")] }));
    expect(plan.types[0]?.numbers).toMatchObject({ availableGpus: 8, totalClusterGpus: 16 });
    expect(plan.counters.nodes_unknown).toBe(1);
    expect(plan.drift.map(({ entityId }) => entityId)).toContain("n1");
  });

  test("free now is less by what is being prepared and has no pod yet", () => {
    const reservations = [
      reservation("r1", { status: "preparing", gpuCount: 8 }),
      reservation("r2", { status: "preparing", gpuCount: 2, podName: "a" }),
      reservation("r3", { status: "queued", gpuCount: 8 }),
    ];
    expect(numbers({ nodes: idle(2), pods: [pod("a", "n1", 2)], reservations })).toMatchObject({
      availableGpus: 14,
      availableNow: 6,
    });
  });

  test("a type with a negative size is skipped with a report", () => {
    const plan = planAvailability(input({ types: [gpuType("h100", -1)] }));
    expect(plan.types).toEqual([]);
    expect(plan.counters.types_skipped).toBe(1);
  });
});

describe("a read that failed is unknown", () => {
  const type = gpuType("h100", 8, { numbers: { ...good, schedulableGpus: 16 } });

  test("cluster: the cloud's numbers are new, the cluster's stay", () => {
    expect(
      numbers({ types: [type], nodes: "503", groups: [group("p-gpu-nodes-h100", ["i-1", "i-2", "i-3"])] }),
    ).toMatchObject({
      runningInstances: 3,
      totalClusterGpus: 24,
      availableGpus: 9,
      maxReservable: 8,
      fullNodesAvailable: 1,
      schedulableGpus: 16,
      state: "stale",
      error: "cluster: 503",
    });
  });

  test("cloud: nodes are counted without their instances, and the desired size stays", () => {
    expect(numbers({ types: [type], nodes: idle(3), groups: "throttled" })).toMatchObject({
      runningInstances: 3,
      totalClusterGpus: 24,
      desiredCapacity: 2,
      availableGpus: 24,
      state: "stale",
      source: "k8s",
    });
  });

  test("cloud, and the cluster has no such node: the desired size stays, and nothing is reported as gone", () => {
    const plan = planAvailability(input({ types: [type], nodes: [], groups: "throttled" }));
    expect(plan.types[0]?.numbers).toMatchObject({
      runningInstances: 0,
      desiredCapacity: 2,
      state: "stale",
      source: "k8s",
    });
    expect(plan.drift.filter(({ reason }) => reason.startsWith("No ASGs found"))).toEqual([]);
  });

  test("both: nothing changes but the state", () => {
    expect(numbers({ types: [type], nodes: "503", groups: "throttled" })).toEqual({
      ...good,
      schedulableGpus: 16,
      state: "stale",
      error: "cloud: throttled; cluster: 503",
    });
  });

  test("no group, but nodes of the type: a name has changed, and nothing is zeroed", () => {
    const plan = planAvailability(
      input({ types: [type], nodes: idle(2), groups: [group("p-gpu-nodes-renamed", ["i-n1", "i-n2"])] }),
    );
    expect(plan.types[0]?.numbers).toMatchObject({
      totalClusterGpus: 16,
      availableGpus: 16,
      state: "stale",
      source: "k8s",
    });
    expect(plan.drift.some(({ reason }) => reason.startsWith("No ASGs found matching pattern"))).toBe(true);
    expect(plan.counters.asgs_unassigned).toBe(1);
  });

  test("no group while the cluster cannot be read: nothing is zeroed", () => {
    expect(numbers({ types: [type], nodes: "503", groups: [] })).toMatchObject({
      totalClusterGpus: 16,
      runningInstances: 2,
      availableGpus: 9,
    });
  });

  test("no group and no node: zero, reported as drift", () => {
    const plan = planAvailability(input({ types: [type], nodes: [], groups: [] }));
    expect(plan.types[0]?.numbers).toMatchObject({ totalClusterGpus: 0, availableGpus: 0, state: "fresh" });
    expect(plan.drift.some(({ reason }) => reason.startsWith("No ASGs found matching pattern"))).toBe(true);
  });
});

describe("when it will be free", () => {
  const ends = (id: string, podName: string, at: string) => reservation(id, { podName, expiresMs: Date.parse(at) });

  test("follows the ends of reservations; what has no known end never ends", () => {
    const world = {
      nodes: idle(3),
      pods: [pod("a", "n1", 6), pod("b", "n2", 8), pod("c", "n3", 4), pod("d", "n3", 4)],
      reservations: [
        ends("ra", "a", "2026-11-15T14:00:00Z"),
        ends("rb", "b", "2026-11-15T13:00:00Z"),
        ends("rc", "c", "2026-11-15T12:30:00Z"),
      ],
    };
    expect(numbers(world).sizeEtas).toEqual({
      1: "now",
      2: "now",
      4: "2026-11-15T12:30:00Z",
      8: "2026-11-15T13:00:00Z",
      16: "2026-11-15T14:00:00Z",
      24: "unknown",
      32: "unknown",
    });
  });
});

describe("for any input", () => {
  const world = fc.record({
    gpus: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 6 }),
    closed: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
    pods: fc.array(fc.record({ on: fc.integer({ min: 1, max: 7 }), gpus: fc.integer({ min: 0, max: 9 }) }), {
      maxLength: 12,
    }),
    inService: fc.subarray(["i-n1", "i-n2", "i-n3", "i-n4", "i-n5", "i-n6"]),
  });
  const build = ({
    gpus,
    closed,
    pods,
    inService,
  }: {
    gpus: number[];
    closed: boolean[];
    pods: { on: number; gpus: number }[];
    inService: string[];
  }) => ({
    nodes: gpus.map((count, at) => node(`n${at + 1}`, "h100", { gpus: count, unschedulable: closed[at] ?? false })),
    pods: pods.map(({ on, gpus: count }, at) => pod(`p${at}`, `n${on}`, count)),
    groups: [group("p-gpu-nodes-h100", inService)],
  });

  test("0 <= free <= schedulable and free <= total, and a reservation fits into what is free", () => {
    fc.assert(
      fc.property(world, (drawn) => {
        const found = numbers(build(drawn));
        expect(found.availableGpus).toBeGreaterThanOrEqual(0);
        expect(found.maxReservable).toBeLessThanOrEqual(found.availableGpus);
        if (found.state !== "fresh") return;
        expect(found.availableGpus).toBeLessThanOrEqual(found.totalClusterGpus);
        expect(found.totalClusterGpus).toBe(8 * drawn.inService.length);
      }),
    );
  });

  test("the order of lists changes nothing, and equal input changes nothing", () => {
    fc.assert(
      fc.property(world, (drawn) => {
        const built = build(drawn);
        const first = planAvailability(input(built));
        const turned = { ...built, nodes: [...built.nodes].reverse(), pods: [...built.pods].reverse() };
        expect(planAvailability(input(turned))).toEqual(first);
        const settled = gpuType("h100", 8, { numbers: first.types[0]?.numbers ?? noNumbers });
        expect(planAvailability(input({ ...built, types: [settled] })).types[0]?.changed).toBe(false);
      }),
    );
  });

  test("one more pod never makes more free", () => {
    fc.assert(
      fc.property(world, fc.integer({ min: 0, max: 9 }), (drawn, gpus) => {
        const built = build(drawn);
        const more = { ...built, pods: [...built.pods, pod("extra", "n1", gpus)] };
        expect(numbers(more).availableGpus).toBeLessThanOrEqual(numbers(built).availableGpus);
      }),
    );
  });
});

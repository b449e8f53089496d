import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clusterWith, gpuBounds, group, node, pod, queue, startMs } from "../../../testing/decide/scheduleCluster.ts";
import type { Device, Pod, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { annotationKeys, labelKeys } from "../../model/scheduling/keys.ts";
import type { GpuCell, ReadModel } from "../../model/window/parts.ts";
import { isClosed } from "../../model/window/sums.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import { type ReadSources, readModel } from "./readModel.ts";
import { WallMemory } from "./wall.ts";

const nowMs = startMs + 60_000;
const noGangs = { sets: [], groups: [], cliques: [] };

function modelOf(cluster: Cluster, more: Partial<ReadSources> = {}, memory = new WallMemory()): ReadModel {
  const pools = [{ cluster, reasonOf: () => undefined }];
  const sources = { pools, gangs: noGangs, slicesOn: () => [], claimsOf: () => [], ...more };
  return readModel(sources, { rev: 7, nowMs }, memory);
}

/** `f f u u`. */
const states = ({ wall }: ReadModel): string => wall.gpus.map(([state]) => state).join(" ");

/** Slices of a node whose driver publishes this many GPUs. */
function slices(
  nodeName: string,
  count: number,
  change: (at: number) => Partial<Device> | undefined = () => ({}),
): ResourceSlice[] {
  const devices = Array.from({ length: count }, (_, at) => ({ at, more: change(at) }))
    .filter(({ more }) => more !== undefined)
    .map(({ at, more }) => ({
      name: `gpu-${at}`,
      attributes: { uuid: { string: `GPU-${nodeName}-${at}` }, index: { int: at } },
      ...more,
    }));
  const spec = {
    nodeName,
    driver: "gpu.nvidia.com",
    pool: { name: nodeName, generation: 1, resourceSliceCount: 1 },
    devices,
  };
  return [{ metadata: { name: nodeName, uid: nodeName, resourceVersion: "1" }, spec } as ResourceSlice];
}

const reports = (...ids: string[]): Partial<Pod["status"]> => ({
  containerStatuses: [
    {
      name: "main",
      image: "",
      imageID: "",
      ready: true,
      restartCount: 0,
      allocatedResourcesStatus: [{ name: "nvidia.com/gpu", resources: ids.map((resourceID) => ({ resourceID })) }],
    },
  ],
});

describe("the wall", () => {
  test("has each GPU in its place, and a pod on those that its node reports", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 })],
      pods: [pod("p", { gpus: 2, on: "n1", status: reports("GPU-n1-3", "GPU-n1-1") })],
    });
    expect(states(modelOf(cluster, { slicesOn: (name) => slices(name, 4) }))).toBe("f u f u");
  });

  test("gives pods whose GPUs no node reports the places that are left, and they keep them", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 })],
      pods: [pod("a", { gpus: 1, on: "n1" }), pod("b", { gpus: 2, on: "n1", createdMs: startMs + 1000 })],
    });
    const memory = new WallMemory();
    expect(states(modelOf(cluster, {}, memory))).toBe("u u u f");
    cluster.removePod("pod-default-a");
    expect(states(modelOf(cluster, {}, memory))).toBe("f u u f");
  });

  test("says which GPU is broken where its driver does, and what it reports", () => {
    const cluster = clusterWith({ nodes: [node("n1", { gpus: 3 })] });
    const ill = [{ key: "gpu.nvidia.com/unhealthy", value: "xid", effect: "NoSchedule" as const }];
    const { wall } = modelOf(cluster, {
      slicesOn: (name) => slices(name, 3, (at) => (at === 1 ? { taints: ill } : {})),
    });
    expect(wall.gpus[1]).toEqual(["x", [], 0, "xid"]);
    expect(wall.sums).toMatchObject({ total: 3000, free: 2000, broken: 1000 });
  });

  test("counts a GPU that the plugin withholds as broken, and not one that a pod has", () => {
    const given = node("n1", { gpus: 2 });
    const capacity = { ...given.status?.capacity, "nvidia.com/gpu": "3" };
    const cluster = clusterWith({
      nodes: [{ ...given, status: { ...given.status, capacity } }],
      pods: [pod("p", { gpus: 1, on: "n1" })],
    });
    expect(states(modelOf(cluster))).toBe("u f x");
  });

  test("shows a GPU that its driver does not publish any more as broken", () => {
    const cluster = clusterWith({ nodes: [node("n1", { gpus: 2 })] });
    const gone = (name: string): ResourceSlice[] => slices(name, 2, (at) => (at === 0 ? undefined : {}));
    expect(states(modelOf(cluster, { slicesOn: gone }))).toBe("x f");
  });

  test("knows nothing of the GPUs of a node that is not ready, also of those that pods have", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2, isReady: false })],
      pods: [pod("p", { gpus: 1, on: "n1" })],
    });
    const { wall } = modelOf(cluster);
    expect(wall.gpus.map(([state]) => state)).toEqual(["?", "?"]);
    expect(wall.sums).toMatchObject({ total: 2000, unknown: 2000, used: 0, free: 0 });
  });

  test("counts what is free on a cordoned node apart, and what is in use there as in use", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 3, spec: { unschedulable: true } })],
      pods: [pod("p", { gpus: 1, on: "n1" })],
    });
    const { wall } = modelOf(cluster);
    expect(wall.gpus.map(([state]) => state)).toEqual(["u", "c", "c"]);
    expect(wall.sums).toMatchObject({ used: 1000, cordoned: 2000, free: 0 });
  });

  test("shows pods that are terminating as leaving, and which job is nominated to what they leave", () => {
    const nominated = { nominatedNodeName: "n1" };
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      queues: [queue("q", gpuBounds(2))],
      groups: [group("next")],
      pods: [
        pod("p", { gpus: 1, on: "n1", deletedMs: nowMs + 30_000 }),
        pod("w", { gpus: 1, group: "next", status: nominated }),
      ],
    });
    const { wall } = modelOf(cluster);
    const next = wall.occupants.find(([, name]) => name === "default/next");
    expect(wall.gpus[0]).toEqual(["l", [[expect.any(Number), expect.any(Number), 1000, 1]], next?.[0]]);
    expect(wall.sums).toMatchObject({ leaving: 1000, free: 1000, used: 0 });
  });

  test("fills a GPU with the shares of its pods, on the GPU that the reservation has", () => {
    const reservation = pod("r", {
      gpus: 1,
      on: "n1",
      namespace: "kai-resource-reservation",
      labels: { [labelKeys.app]: "kai-resource-reservation", [labelKeys.gpuGroup]: "g" },
      annotations: { [annotationKeys.reservedGpu]: "GPU-n1-1" },
    });
    const half = (name: string): Pod => pod(name, { fraction: "0.5", on: "n1", groups: ["g"] });
    const quarter = pod("c", { fraction: "0.25", on: "n1", groups: ["g"] });
    const cluster = clusterWith({ nodes: [node("n1", { gpus: 2 })], pods: [reservation, half("a"), quarter] });
    const { wall } = modelOf(cluster, { slicesOn: (name) => slices(name, 2) });
    const [, holds = []] = wall.gpus[1] as GpuCell;
    expect(holds.map(([, , milli]) => milli).sort()).toEqual([250, 500]);
    expect(wall.sums).toMatchObject({ used: 750, freeInShares: 250, free: 1000 });
  });

  test("is in the order of racks, and in blocks of eight where no label names one", () => {
    const rack = { "network.topology.nvidia.com/leaf": "leaf-2" };
    const nodes = Array.from({ length: 9 }, (_, at) => node(`n${at}`, { gpus: 1 }));
    const { wall } = modelOf(clusterWith({ nodes: [...nodes, node("a", { gpus: 1, labels: rack })] }));
    expect(wall.racks).toEqual(["leaf-2", "n0 to n7", "n8"]);
    expect(wall.nodes.map(([name, at]) => `${name} ${at}`).slice(0, 3)).toEqual(["a 0", "n0 1", "n1 1"]);
  });

  test("leaves out nodes without GPUs", () => {
    expect(modelOf(clusterWith({ nodes: [node("cpu", { gpus: 0 })] })).wall.nodes).toEqual([]);
  });

  const podWords = fc.record({
    gpus: fc.integer({ min: 1, max: 4 }),
    on: fc.constantFrom("n0", "n1", "n2"),
    isLeaving: fc.boolean(),
    isShare: fc.boolean(),
  });
  test("closes the sums, whatever is on it", () => {
    fc.assert(
      fc.property(
        fc.array(podWords, { maxLength: 8 }),
        fc.array(fc.constantFrom("ready", "cordoned", "silent"), { minLength: 3, maxLength: 3 }),
        (list, healths) => {
          const nodes = healths.map((health, at) =>
            node(`n${at}`, {
              gpus: 4,
              isReady: health !== "silent",
              ...(health === "cordoned" && { spec: { unschedulable: true } }),
            }),
          );
          const left = new Map(nodes.map(({ metadata }) => [metadata.name, 4]));
          const pods = list.flatMap(({ gpus, on, isLeaving, isShare }, at) => {
            const need = isShare ? 1 : gpus;
            if ((left.get(on) ?? 0) < need) return [];
            left.set(on, (left.get(on) ?? 0) - need);
            const leaving = isLeaving ? { deletedMs: nowMs + 30_000 } : {};
            return [
              pod(`p${at}`, { on, ...(isShare ? { fraction: "0.3", groups: [`g${at}`] } : { gpus }), ...leaving }),
            ];
          });
          const { wall } = modelOf(clusterWith({ nodes, pods }));
          expect(wall.sums.total).toBe(12_000);
          expect(isClosed(wall.sums, wall.gpus)).toBe(true);
        },
      ),
    );
  });
});

describe("two models in a row", () => {
  test("share every part and row that says the same", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 }), node("n2", { gpus: 2 })],
      pods: [pod("p", { gpus: 1, on: "n1" })],
    });
    const memory = new WallMemory();
    const sources = {
      pools: [{ cluster, reasonOf: () => undefined }],
      gangs: noGangs,
      slicesOn: () => [],
      claimsOf: () => [],
    };
    const first = readModel(sources, { rev: 1, nowMs }, memory);
    const second = readModel(sources, { rev: 2, nowMs }, memory, first);
    expect(second.wall).toBe(first.wall);
    expect(second.jobs).toBe(first.jobs);
    cluster.removePod("pod-default-p");
    const third = readModel(sources, { rev: 3, nowMs }, memory, second);
    expect(third.wall).not.toBe(first.wall);
    expect(third.wall.gpus[2]).toBe(first.wall.gpus[2]);
  });
});

describe("what waits", () => {
  test("has the reason that the scheduler reported, its place in line and its size", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      queues: [queue("q", gpuBounds(2))],
      groups: [group("big", { minMember: 2 }), group("late", { createdMs: startMs + 5000 })],
      pods: [
        pod("a", { gpus: 2, group: "big" }),
        pod("b", { gpus: 2, group: "big" }),
        pod("c", { fraction: "0.5", group: "late" }),
      ],
    });
    const message = "group big needs places for 2 pods at once and 1 were found: the next, b, fits 0 of 1 nodes";
    const reasonOf = (id: string) =>
      id === "default/big" ? { reason: "PodSchedulingErrors", message, cure: "wait" } : undefined;
    const { jobs } = modelOf(cluster, { pools: [{ cluster, reasonOf }] }).jobs;
    expect(jobs).toEqual([
      expect.objectContaining({
        id: "default/big",
        queue: "q",
        gpus: 4000,
        minimum: 2,
        pods: 2,
        line: 1,
        reason: "PodSchedulingErrors",
        message,
        head: "One of two places found. A gang starts whole or not at all.",
        short: "1 of 2 places, needs all at once",
      }),
      expect.objectContaining({
        id: "default/late",
        gpus: 500,
        line: 2,
        reason: "",
        head: "No scheduling cycle has tried it yet.",
      }),
    ]);
  });
});

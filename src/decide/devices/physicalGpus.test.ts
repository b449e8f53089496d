import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { Device, Node, Pod, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { isUnreported, NodeGpus, reportedGpus } from "./physicalGpus.ts";

const node = (amounts: Record<string, string>, labels: Record<string, string> = {}): Node =>
  partly<Node>({ metadata: { name: "n", labels }, status: { capacity: amounts, allocatable: amounts } });

const slice = (driver: string, devices: readonly Device[]): ResourceSlice =>
  partly<ResourceSlice>({ spec: { driver, nodeName: "n", pool: { name: "n" }, devices } });

const gpu = (index: number): Device => ({ name: `gpu-${index}`, attributes: { uuid: { string: `GPU-${index}` } } });
const part = (index: number, at: number, profile = "1g.10gb"): Device => ({
  name: `gpu-${index}-mig-${at}`,
  attributes: {
    uuid: { string: `MIG-${index}-${at}` },
    parentUUID: { string: `GPU-${index}` },
    profile: { string: profile },
  },
});
const key = (device: string, driver = "gpu.nvidia.com"): string => `${driver}/n/${device}`;
const units = (gpus: NodeGpus, ...devices: string[]) =>
  Object.fromEntries(gpus.unitsOf(devices.map((each) => key(each))));

describe("a device and what the plugin offers are one GPU", () => {
  test.each([
    {
      name: "by count, where the node offers nvidia.com/gpu and slices of gpu.nvidia.com",
      gpus: new NodeGpus(node({ "nvidia.com/gpu": "2" }), [slice("gpu.nvidia.com", [gpu(0), gpu(1)])]),
      held: ["gpu-0", "gpu-1"],
      wanted: { "nvidia.com/gpu": 2 },
    },
    {
      name: "also where the driver publishes no uuid",
      gpus: new NodeGpus(node({ "nvidia.com/gpu": "2" }), [slice("gpu.nvidia.com", [{ name: "gpu-0" }])]),
      held: ["gpu-0"],
      wanted: { "nvidia.com/gpu": 1 },
    },
    {
      name: "once, however many of its partitions claims have",
      gpus: new NodeGpus(node({ "nvidia.com/gpu": "1" }), [slice("gpu.nvidia.com", [gpu(0), part(0, 0), part(0, 1)])]),
      held: ["gpu-0-mig-0", "gpu-0-mig-1"],
      wanted: { "nvidia.com/gpu": 1 },
    },
    {
      name: "with all its time slices, where pods share it by time slicing",
      gpus: new NodeGpus(node({ "nvidia.com/gpu": "8" }, { "nvidia.com/gpu.replicas": "4" }), [
        slice("gpu.nvidia.com", [gpu(0), gpu(1)]),
      ]),
      held: ["gpu-0"],
      wanted: { "nvidia.com/gpu": 4 },
    },
    {
      name: "partition by partition, where the plugin offers them by profile",
      gpus: new NodeGpus(node({ "nvidia.com/mig-1g.10gb": "2" }), [slice("gpu.nvidia.com", [part(0, 0), part(0, 1)])]),
      held: ["gpu-0-mig-0"],
      wanted: { "nvidia.com/mig-1g.10gb": 1 },
    },
    {
      name: "partition by partition, where nvidia.com/gpu counts partitions",
      gpus: new NodeGpus(node({ "nvidia.com/gpu": "2" }, { "nvidia.com/mig.strategy": "single" }), [
        slice("gpu.nvidia.com", [part(0, 0), part(0, 1)]),
      ]),
      held: ["gpu-0-mig-0"],
      wanted: { "nvidia.com/gpu": 1 },
    },
    {
      name: "not where the node has no plugin",
      gpus: new NodeGpus(node({}), [slice("gpu.nvidia.com", [gpu(0)])]),
      held: ["gpu-0"],
      wanted: {},
    },
  ])("$name", ({ gpus, held, wanted }) => {
    expect(units(gpus, ...held)).toEqual(wanted);
    expect(gpus.isBothWays).toBe(Object.keys(wanted).length > 0);
  });

  test("a slice of another driver is not counted, and is matched by the uuid that a pod reports", () => {
    const gpus = new NodeGpus(node({ "nvidia.com/gpu": "1" }), [
      slice("fabric.example.com", [gpu(0), { name: "nic" }]),
    ]);
    expect(gpus.isBothWays).toBe(false);
    expect(gpus.isAmong(key("gpu-0", "fabric.example.com"), new Set(["GPU-0"]))).toBe(true);
    expect(gpus.isAmong(key("nic", "fabric.example.com"), new Set(["GPU-0"]))).toBe(false);
  });

  test("a partition is held with its GPU, and by its own id", () => {
    const gpus = new NodeGpus(node({ "nvidia.com/mig-1g.10gb": "2" }), [
      slice("gpu.nvidia.com", [part(0, 0), part(0, 1)]),
    ]);
    expect(gpus.isAmong(key("gpu-0-mig-0"), new Set(["MIG-0-0"]))).toBe(true);
    expect(gpus.isAmong(key("gpu-0-mig-1"), new Set(["MIG-0-0"]))).toBe(false);
    expect(gpus.isAmong(key("gpu-0-mig-1"), new Set(["GPU-0"]))).toBe(true);
  });
});

describe("what a pod reports", () => {
  const pod = (annotations: Record<string, string>, status: object = {}): Pod =>
    partly<Pod>({
      metadata: { name: "p", namespace: "default", annotations },
      spec: { containers: [{ name: "c", resources: { requests: { "nvidia.com/gpu": "1" } } }] },
      status,
    });

  test("is in the status of its containers, or where a simulated node and a reservation write it", () => {
    const status = {
      containerStatuses: [
        { allocatedResourcesStatus: [{ name: "nvidia.com/gpu", resources: [{ resourceID: "GPU-1::2" }] }] },
      ],
    };
    expect([...reportedGpus(pod({}, status))]).toEqual(["GPU-1"]);
    const assigned = {
      "sim.muster.dev/devices": JSON.stringify({ c: { "nvidia.com/gpu": ["GPU-3"], "x/nic": ["N"] } }),
    };
    expect([...reportedGpus(pod(assigned))]).toEqual(["GPU-3"]);
    expect([...reportedGpus(pod({ "sim.muster.dev/devices": "{" }))]).toEqual([]);
  });

  test("is expected until the pod runs: a node that has reported nothing by then never will", () => {
    expect(isUnreported(pod({}))).toBe(true);
    expect(isUnreported(pod({}, { phase: "Running" }))).toBe(false);
  });
});

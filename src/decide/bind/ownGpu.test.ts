import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type GpuEvidence, ownGpu } from "./ownGpu.ts";

const recorded = (name: string): string =>
  readFileSync(new URL(`../../../test/fixtures/gpus/${name}.txt`, import.meta.url), "utf8");
const h200 = "GPU-1bfd1187-6f09-ce16-3298-34fd147875b3";
const eighth = (at: number): string => `GPU-0000000${at}-6f09-ce16-3298-34fd147875b3`;
const migOfOurs = "MIG-977aad9d-8df1-5f7e-b522-2fe9a1c45b5a";
const informationOf = (uuid: string, minor: number): string =>
  recorded("h200-information").replace(h200, uuid).replace("Minor: \t 0", `Minor: \t ${minor}`);
const eightInformation = Array.from({ length: 8 }, (_, at) => informationOf(eighth(at), 7 - at));

function see(evidence: Partial<GpuEvidence>): ReturnType<typeof ownGpu> {
  return ownGpu({ visibleDevices: undefined, mounted: [], listing: undefined, information: [], ...evidence });
}

describe("one GPU is found", () => {
  test.each<{ name: string; evidence: Partial<GpuEvidence>; device: string; index?: number }>([
    {
      name: "an H200 that nvidia-smi lists and the driver describes",
      evidence: { visibleDevices: h200, listing: recorded("h200"), information: [recorded("h200-information")] },
      device: h200,
      index: 0,
    },
    { name: "by nvidia-smi alone", evidence: { listing: recorded("h200") }, device: h200 },
    {
      name: "by the driver alone, where no nvidia-smi is in the container",
      evidence: { information: [recorded("h200-information")] },
      device: h200,
      index: 0,
    },
    { name: "by the device plugin's UUID alone", evidence: { visibleDevices: h200 }, device: h200 },
    {
      name: "where all is visible and one GPU exists",
      evidence: { visibleDevices: "all", listing: recorded("h200") },
      device: h200,
    },
    { name: "injected by CDI", evidence: { visibleDevices: "void", listing: recorded("h200") }, device: h200 },
    {
      name: "passed as a volume mount",
      evidence: {
        visibleDevices: "/var/run/nvidia-container-devices",
        mounted: [eighth(5)],
        listing: recorded("eight"),
      },
      device: eighth(5),
    },
    {
      name: "one of eight visible ones, by its UUID",
      evidence: { visibleDevices: eighth(3), listing: recorded("eight"), information: eightInformation },
      device: eighth(3),
      index: 4,
    },
    {
      name: "one of eight visible ones, by its index as nvidia-smi counts",
      evidence: { visibleDevices: "6", listing: recorded("eight"), information: eightInformation },
      device: eighth(6),
      index: 1,
    },
    {
      name: "the index is of the node where the container lists one GPU alone",
      evidence: { visibleDevices: "5", listing: recorded("h200"), information: [informationOf(h200, 5)] },
      device: h200,
      index: 5,
    },
    {
      name: "by its minor number where only the driver describes GPUs",
      evidence: { visibleDevices: "2", information: eightInformation },
      device: eighth(5),
      index: 2,
    },
    {
      name: "a MIG device, which is what the plugin gives out as nvidia.com/gpu with strategy single",
      evidence: { visibleDevices: migOfOurs, listing: recorded("mig-container") },
      device: migOfOurs,
    },
    {
      name: "the only MIG device that is visible",
      evidence: { listing: recorded("mig-container") },
      device: migOfOurs,
    },
    {
      name: "one of several visible MIG devices",
      evidence: { visibleDevices: migOfOurs, listing: recorded("mig") },
      device: migOfOurs,
    },
  ])("$name", ({ evidence, device, index }) => {
    expect(see(evidence)).toEqual({ gpu: { device, index } });
  });
});

describe("the GPU is not guessed where", () => {
  test.each<{ name: string; evidence: Partial<GpuEvidence>; problem: string }>([
    { name: "a container without a GPU", evidence: {}, problem: "no GPU is visible" },
    {
      name: "nvidia-smi cannot reach the driver",
      evidence: { visibleDevices: "void", listing: "Failed to initialize NVML: Unknown Error\n" },
      problem: "no GPU is visible",
    },
    {
      name: "eight GPUs are visible and none is named",
      evidence: { visibleDevices: "all", listing: recorded("eight") },
      problem: "8 GPUs are visible",
    },
    {
      name: "four MIG devices are visible and none is named",
      evidence: { listing: recorded("mig") },
      problem: "4 GPUs are visible",
    },
    {
      name: "the device plugin gave two",
      evidence: { visibleDevices: `${eighth(1)},${eighth(2)}`, listing: recorded("eight") },
      problem: "gave 2 GPUs",
    },
    {
      name: "the device plugin names another GPU than the driver lists",
      evidence: { visibleDevices: eighth(1), listing: recorded("h200") },
      problem: `gave ${eighth(1)}, and the driver lists ${h200}`,
    },
    {
      name: "the device plugin names a GPU that is split by MIG",
      evidence: { visibleDevices: "GPU-30600c9b-31ce-2415-4296-785f83fa4eb8", listing: recorded("mig") },
      problem: "and the driver lists MIG-",
    },
    {
      name: "the only GPU is excluded by the driver",
      evidence: { information: [recorded("h200-information").replace("Excluded:\t No", "Excluded:\t Yes")] },
      problem: "no GPU is visible",
    },
  ])("$name", ({ evidence, problem }) => {
    expect(see(evidence)).toEqual({ problem: expect.stringContaining(problem) });
  });
});

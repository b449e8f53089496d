import { describe, expect, test } from "vitest";
import { userPod } from "../../../testing/decide/bindCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { enforcedText, mpsLimits } from "./mpsLimits.ts";

const h200 = { "nvidia.com/gpu.memory": "143771" };
const node = (labels: Record<string, string>, annotations: Record<string, string> = {}): Node =>
  partly<Node>({ metadata: { name: "n1", labels, annotations } });
const share = (annotations: Record<string, string>): Pod => userPod({ groups: [], annotations });

describe("limits of a share on a node with MPS", () => {
  test.each<[string, Record<string, string>, number, Record<string, string>]>([
    [
      "half of an H200",
      { "gpu-fraction": "0.5" },
      1,
      { CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=71885M", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "50" },
    ],
    [
      "a quarter of two GPUs, as the container counts them",
      { "gpu-fraction": "0.25", "gpu-fraction-num-devices": "2" },
      2,
      { CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=35942M,1=35942M", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "25" },
    ],
    [
      "an amount of memory",
      { "gpu-memory": "35840" },
      1,
      { CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=35840M", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "25" },
    ],
    [
      "a share too small for one percent",
      { "gpu-fraction": "0.001" },
      1,
      { CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=143M", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "1" },
    ],
  ])("%s", (_, annotations, devices, limits) => {
    expect(mpsLimits(share(annotations), node({ ...h200, "muster.dev/mps": "true" }), devices)).toEqual(limits);
  });

  test("bound the multiprocessors alone where the node does not say how much memory its GPUs have", () => {
    const limits = mpsLimits(share({ "gpu-fraction": "0.5" }), node({ "muster.dev/mps": "true" }), 1);
    expect(limits).toEqual({ CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "50" });
  });

  test("name the daemon's pipes where the node does", () => {
    const pipes = { "muster.dev/mps-pipe-directory": "/run/mps" };
    const limits = mpsLimits(share({ "gpu-fraction": "0.5" }), node({ "muster.dev/mps": "true" }, pipes), 1);
    expect(limits).toMatchObject({ CUDA_MPS_PIPE_DIRECTORY: "/run/mps" });
  });

  test.each<[string, Record<string, string>]>([
    ["a node without the label", h200],
    ["a node with the label set to false", { ...h200, "muster.dev/mps": "false" }],
  ])("do not exist on %s", (_, labels) => {
    expect(mpsLimits(share({ "gpu-fraction": "0.5" }), node(labels), 1)).toBeUndefined();
  });
});

test("the text says whether a share is enforced", () => {
  expect(enforcedText(share({ "muster.dev/share-enforced-by": "mps" }))).toBe("its share is enforced by MPS");
  expect(enforcedText(share({}))).toMatch(/^its share is not enforced/);
});

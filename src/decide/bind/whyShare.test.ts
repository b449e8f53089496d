import { describe, expect, test } from "vitest";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { reservationName } from "./reservation.ts";
import { request, reserved, userPod } from "./testWorld.ts";
import { whyShare } from "./whyShare.ts";

function gpuNode(name: string, more: { gpus?: number; pods?: string; labels?: object; spec?: object } = {}): Node {
  const { gpus = 1, pods = "110", labels = {}, spec = {} } = more;
  const allocatable = { "nvidia.com/gpu": String(gpus), pods, cpu: "8", memory: "16Gi" };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, uid: name, labels: { "nvidia.com/gpu.memory": "10000", ...labels } },
    spec,
    status: { allocatable, conditions: [{ type: "Ready", status: "True" }] },
  } as unknown as Node;
}

const asking = (annotations: Record<string, string>, spec = {}): Pod =>
  userPod({ name: "f", node: undefined, phase: "Pending", groups: [], annotations, spec });
const user = (name: string, share: string, group = "X"): Pod =>
  userPod({ name, groups: [group], annotations: { "gpu-fraction": share } });
const two = (name: string, share: string): Pod =>
  userPod({ name, groups: ["X", "Y"], annotations: { "gpu-fraction": share, "gpu-fraction-num-devices": "2" } });
const whole = (name: string): Pod =>
  userPod({
    name,
    groups: [],
    spec: { containers: [{ name: "c", resources: { requests: { "nvidia.com/gpu": "1" } } }] },
  });

function causeOf(pod: Pod, view: { pods?: Pod[]; nodes?: Node[]; requests?: ReturnType<typeof request>[] }) {
  return whyShare(pod, {
    pods: [pod, ...(view.pods ?? [])],
    nodes: view.nodes ?? [gpuNode("n1")],
    requests: view.requests ?? [],
  });
}

describe("why a share waits", () => {
  const half = asking({ "gpu-fraction": "0.5" });

  test.each([
    ["a GPU is free", half, {}, undefined],
    ["a shared GPU has room", half, { pods: [reserved(), user("a", "0.5")] }, undefined],
    ["a shared GPU has too little", half, { pods: [reserved(), user("a", "0.51")] }, "NoGpuWithRoom"],
    ["a whole-GPU pod has it", half, { pods: [whole("w")] }, "NoGpuWithRoom"],
    [
      "what is decided counts",
      half,
      { pods: [{ ...user("a", "0.6"), spec: { containers: [] } } as Pod], requests: [request({ name: "a" })] },
      "NoGpuWithRoom",
    ],
    [
      "what has ended does not",
      half,
      { pods: [userPod({ name: "a", phase: "Succeeded", annotations: { "gpu-fraction": "0.9" } })] },
      undefined,
    ],
    [
      "memory is a share of the node's",
      asking({ "gpu-memory": "6000" }),
      { pods: [reserved(), user("a", "0.5")] },
      "NoGpuWithRoom",
    ],
    ["memory that fits", asking({ "gpu-memory": "5000" }), { pods: [reserved(), user("a", "0.5")] }, undefined],
    ["two devices need two", asking({ "gpu-fraction": "0.5", "gpu-fraction-num-devices": "2" }), {}, "NoGpuWithRoom"],
    [
      "who shares two GPUs has its part of each",
      half,
      {
        pods: [reserved(), two("a", "0.25"), reserved({ name: "r2", group: "Y" })],
        nodes: [gpuNode("n1", { gpus: 2 })],
      },
      undefined,
    ],
    [
      "and asks for its part of each",
      asking({ "gpu-fraction": "0.6", "gpu-fraction-num-devices": "2" }),
      {
        pods: [reserved(), user("a", "0.4"), reserved({ name: "r2", group: "Y" })],
        nodes: [gpuNode("n1", { gpus: 2 })],
      },
      undefined,
    ],
    ["more memory than any GPU has is no matter of room", asking({ "gpu-memory": "20000" }), {}, undefined],
    ["C7: a new group needs two slots", half, { nodes: [gpuNode("n1", { pods: "1" })] }, "NodeFull"],
    [
      "one that joins needs one",
      half,
      { pods: [reserved(), user("a", "0.5")], nodes: [gpuNode("n1", { pods: "3" })] },
      undefined,
    ],
    [
      "no slot is left",
      half,
      { pods: [reserved(), user("a", "0.5")], nodes: [gpuNode("n1", { pods: "2" })] },
      "NodeFull",
    ],
    [
      "a cordoned node is somebody else's to explain",
      half,
      { nodes: [gpuNode("n1", { gpus: 0, spec: { unschedulable: true } })] },
      undefined,
    ],
    [
      "so is one with partitions",
      half,
      { nodes: [gpuNode("n1", { labels: { "nvidia.com/mig.strategy": "mixed" } })] },
      undefined,
    ],
    ["who asks for no share is not meant", asking({}), { pods: [whole("w")] }, undefined],
    ["nor who has a node", user("f", "0.5"), { pods: [whole("w")] }, undefined],
  ])("%s", (_, pod, view, cause) => {
    expect(causeOf(pod, view)?.cause).toBe(cause);
  });

  test("the answer names what it asks for of each GPU, and what each has left", () => {
    const asked = asking({ "gpu-fraction": "0.8", "gpu-fraction-num-devices": "2" });
    const pods = [reserved(), reserved({ name: "r2", group: "Y" }), two("a", "0.25")];
    const { message } = causeOf(asked, { pods, nodes: [gpuNode("n1", { gpus: 2 })] }) ?? {};
    expect(message).toContain("asks for 2 times 0.80 of a GPU");
    expect(message).toContain("a shared one has left is 0.75");
  });

  test("another node with room is enough", () => {
    expect(causeOf(half, { pods: [whole("w")], nodes: [gpuNode("n1"), gpuNode("n2")] })).toBeUndefined();
  });

  test("a reservation that runs and has no device is the reason while its bind waits", () => {
    const silent = reserved({ device: "" });
    const named = { ...silent, metadata: { ...silent.metadata, name: reservationName("n1", "X") } };
    expect(causeOf(half, { pods: [named], requests: [request()] })?.cause).toBe("DeviceNotReported");
  });
});

/** The built-in node profiles. Sizes are those of common cloud instances with the GPU. */
import type { GpuSpec, Profile } from "./profile.ts";

const ubuntu = "Ubuntu 22.04.5 LTS";

function machine(
  name: string,
  shape: Omit<Profile, "name" | "arch" | "osImage" | "maxPods"> & Partial<Profile>,
): Profile {
  return { arch: "amd64", osImage: ubuntu, maxPods: shape.gpu === undefined ? 110 : 250, ...shape, name };
}

const hopper = { family: "hopper", computeCapability: "9.0", migCapable: true, numaNodes: 2 } as const;
const blackwell = { family: "blackwell", computeCapability: "10.0", migCapable: true, numaNodes: 2 } as const;

const h100: GpuSpec = {
  ...hopper,
  product: "NVIDIA-H100-80GB-HBM3",
  count: 8,
  memoryMiB: 81_559,
  driver: "570.86.16",
  cuda: "12.8",
};
const h200: GpuSpec = {
  ...hopper,
  product: "NVIDIA-H200",
  count: 8,
  memoryMiB: 143_771,
  driver: "570.133.20",
  cuda: "12.8",
};
const a100: GpuSpec = {
  product: "NVIDIA-A100-SXM4-80GB",
  count: 8,
  memoryMiB: 81_920,
  driver: "550.163.01",
  cuda: "12.4",
  family: "ampere",
  computeCapability: "8.0",
  migCapable: true,
  numaNodes: 2,
};
const b200: GpuSpec = {
  ...blackwell,
  product: "NVIDIA-B200",
  count: 8,
  memoryMiB: 183_359,
  driver: "580.82.07",
  cuda: "13.0",
};
const gb200: GpuSpec = {
  ...blackwell,
  product: "NVIDIA-GB200",
  count: 4,
  memoryMiB: 189_471,
  driver: "580.82.07",
  cuda: "13.0",
  clique: true,
};
const gb300: GpuSpec = {
  ...blackwell,
  computeCapability: "10.3",
  product: "NVIDIA-GB300",
  count: 4,
  memoryMiB: 284_208,
  driver: "580.95.05",
  cuda: "13.0",
  clique: true,
};
const l40s: GpuSpec = {
  product: "NVIDIA-L40S",
  count: 8,
  memoryMiB: 46_068,
  driver: "570.86.16",
  cuda: "12.8",
  family: "ada-lovelace",
  computeCapability: "8.9",
  numaNodes: 2,
};
const t4: GpuSpec = {
  product: "Tesla-T4",
  count: 4,
  memoryMiB: 15_360,
  driver: "550.163.01",
  cuda: "12.4",
  family: "turing",
  computeCapability: "7.5",
  numaNodes: 2,
};

/** One rack of 18 trays with four GPUs each is one NVLink domain of 72. */
const nvl72 = { scheme: "topograph", traysPerRack: 18 } as const;

const shapes: readonly Profile[] = [
  machine("h100", { instanceType: "p5.48xlarge", cpu: "192", memory: "2048Gi", storage: "3800Gi", gpu: h100 }),
  machine("h200", { instanceType: "p5en.48xlarge", cpu: "192", memory: "2048Gi", storage: "3800Gi", gpu: h200 }),
  machine("a100", { instanceType: "p4de.24xlarge", cpu: "96", memory: "1152Gi", storage: "8000Gi", gpu: a100 }),
  machine("b200", { instanceType: "p6-b200.48xlarge", cpu: "192", memory: "2048Gi", storage: "3800Gi", gpu: b200 }),
  machine("gb200", {
    arch: "arm64",
    instanceType: "p6e-gb200.36xlarge",
    cpu: "144",
    memory: "960Gi",
    storage: "7600Gi",
    gpu: gb200,
    topology: nvl72,
  }),
  machine("gb300", {
    arch: "arm64",
    instanceType: "p6e-gb300.36xlarge",
    cpu: "144",
    memory: "960Gi",
    storage: "7600Gi",
    gpu: gb300,
    topology: nvl72,
  }),
  machine("l40s", { instanceType: "g6e.48xlarge", cpu: "192", memory: "1536Gi", storage: "7600Gi", gpu: l40s }),
  machine("t4", { instanceType: "g4dn.12xlarge", cpu: "48", memory: "192Gi", storage: "900Gi", gpu: t4 }),
  machine("cpu", { instanceType: "m7i.8xlarge", cpu: "32", memory: "128Gi", storage: "200Gi" }),
];

function recipe(service: string, nodeType: "system" | "accelerated", accelerator?: string) {
  return accelerator === undefined ? { service, nodeType } : { service, nodeType, accelerator };
}

/** The kubelet version and the labels of AICR's node template. */
const aicr = {
  kubeletVersion: "v1.33.5",
  region: "us-east-1",
  zones: ["us-east-1a", "us-east-1b"],
  osImage: "Ubuntu 22.04.4 LTS",
} as const;

function systemNode(name: string, service: string, instanceType: string, storage: string): Profile {
  return machine(name, {
    ...aicr,
    instanceType,
    cpu: "16",
    memory: "64Gi",
    storage,
    labels: { "aicr.nvidia.com/node-type": "system", "node-role.kubernetes.io/control-plane": "" },
    match: recipe(service, "system"),
  });
}

type AicrShape = Pick<Profile, "arch" | "cpu" | "memory" | "storage"> & { instanceType: string; gpu: GpuSpec };

function gpuNode(name: string, service: string, accelerator: string, shape: AicrShape): Profile {
  return machine(name, {
    ...aicr,
    ...shape,
    labels: { "aicr.nvidia.com/node-type": "accelerated" },
    annotations: { "nvidia.com/gpu.driver.version": shape.gpu.driver },
    match: recipe(service, "accelerated", accelerator),
  });
}

/** The profiles of NVIDIA's AICR by their own names, with their original figures: recipes are tested against them. */
const aicrShapes: readonly Profile[] = [
  systemNode("eks/system-m7i", "eks", "m7i.4xlarge", "100Gi"),
  gpuNode("eks/p5-h100", "eks", "h100", {
    arch: "amd64",
    instanceType: "p5.48xlarge",
    cpu: "192",
    memory: "2048Gi",
    storage: "3800Gi",
    gpu: { ...h100, memoryMiB: 81_920, driver: "570.86.16" },
  }),
  // No such instance has eight GPUs; the number is kept because tests written for this profile rely on it.
  gpuNode("eks/p6-gb200", "eks", "gb200", {
    arch: "arm64",
    instanceType: "p6.48xlarge",
    cpu: "288",
    memory: "3072Gi",
    storage: "7600Gi",
    gpu: { ...gb200, count: 8, memoryMiB: 196_608, driver: "580.82.07" },
  }),
  gpuNode("eks/p6e-gb300", "eks", "gb300", {
    arch: "arm64",
    instanceType: "p6e-gb300.36xlarge",
    cpu: "144",
    memory: "2048Gi",
    storage: "7600Gi",
    gpu: { ...gb300, memoryMiB: 294_912, driver: "580.173.02" },
  }),
  systemNode("gke/system-n2", "gke", "n2-standard-16", "9000Gi"),
  gpuNode("gke/a4x-maxgpu-4g-metal", "gke", "gb300", {
    arch: "arm64",
    instanceType: "a4x-maxgpu-4g-metal",
    cpu: "144",
    memory: "960Gi",
    storage: "12000Gi",
    gpu: { ...gb300, memoryMiB: 245_760, driver: "580.95.05" },
  }),
  systemNode("k0s/system-generic", "k0s", "generic", "100Gi"),
  gpuNode("k0s/accelerated-h200", "k0s", "h200", {
    arch: "amd64",
    instanceType: "generic",
    cpu: "46",
    memory: "440Gi",
    storage: "1345Gi",
    gpu: { ...h200, count: 2, memoryMiB: 143_771, driver: "610.57.04" },
  }),
  systemNode("rke2/system-generic", "rke2", "generic", "100Gi"),
  gpuNode("rke2/accelerated-vr200", "rke2", "vr200", {
    arch: "arm64",
    instanceType: "generic",
    cpu: "144",
    memory: "1536Gi",
    storage: "3800Gi",
    gpu: {
      product: "NVIDIA-VR200",
      family: "rubin",
      count: 4,
      memoryMiB: 190_464,
      driver: "615.0.0",
      migCapable: true,
      clique: true,
      numaNodes: 2,
    },
  }),
];

export const builtinProfiles: readonly Profile[] = [...shapes, ...aicrShapes];

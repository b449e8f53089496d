import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import { labelValueErrors } from "../../model/objects/names.ts";
import { builtinProfiles } from "../../model/profiles/builtin.ts";
import {
  findProfile,
  parsePool,
  parsePools,
  parseProfiles,
  profilesWith,
  selectProfile,
} from "../../model/profiles/profiles.ts";
import { UserError } from "../../model/userError.ts";
import { nodeLabels, nodeObject, simNode, simNodeOf } from "./simNode.ts";

const profiles = profilesWith();

function errorOf(act: () => unknown): UserError {
  try {
    act();
  } catch (error) {
    if (error instanceof UserError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("profiles", () => {
  test.each([
    ["h100", "amd64", 8, 81_559],
    ["h200", "amd64", 8, 143_771],
    ["a100", "amd64", 8, 81_920],
    ["b200", "amd64", 8, 183_359],
    ["gb200", "arm64", 4, 189_471],
    ["gb300", "arm64", 4, 284_208],
    ["l40s", "amd64", 8, 46_068],
    ["t4", "amd64", 4, 15_360],
    ["cpu", "amd64", 0, 0],
    ["eks/p5-h100", "amd64", 8, 81_920],
    ["eks/p6-gb200", "arm64", 8, 196_608],
    ["eks/p6e-gb300", "arm64", 4, 294_912],
    ["gke/a4x-maxgpu-4g-metal", "arm64", 4, 245_760],
    ["k0s/accelerated-h200", "amd64", 2, 143_771],
    ["rke2/accelerated-vr200", "arm64", 4, 190_464],
  ])("%s is %s with %i GPUs of %i MiB", (name, arch, gpus, memory) => {
    const profile = findProfile(profiles, name);
    expect([profile.arch, profile.gpu?.count ?? 0, profile.gpu?.memoryMiB ?? 0]).toEqual([arch, gpus, memory]);
  });

  test("an unknown name is an error that lists the known ones", () => {
    const error = errorOf(() => findProfile(profiles, "h1000"));
    expect(error.code).toBe("profile-unknown");
    for (const { name } of builtinProfiles) expect(error.cure).toContain(name);
  });

  test.each([
    ["h100=400", "h100", "h100", 400],
    ["gpu:eks/p5-h100=4", "gpu", "eks/p5-h100", 4],
    ["eks/system-m7i=2", "eks-system-m7i", "eks/system-m7i", 2],
    ["H100=1", "h100", "h100", 1],
  ])("the pool %s", (text, name, profile, count) => {
    const pool = parsePool(text, profiles);
    expect([pool.name, pool.profile.name, pool.count]).toEqual([name, profile, count]);
  });

  test.each(["h100", "h100=", "h100=-1", "=4", "Gpu Pool:h100=4"])("the pool %s cannot be read", (text) => {
    expect(errorOf(() => parsePool(text, profiles)).code).toBe("pool-malformed");
  });

  test("a pool with too many nodes is refused by the bound that it exceeds", () => {
    const error = errorOf(() => parsePool("h100=1000000", profiles));
    expect([error.code, error.message]).toEqual(["pool-too-large", expect.stringContaining("999999 nodes")]);
  });

  test("two pools of one name would be the same nodes, and are refused", () => {
    expect(parsePools(["h100=1", "big:h100=2"], profiles).map(({ name }) => name)).toEqual(["h100", "big"]);
    expect(errorOf(() => parsePools(["h100=1", "h100=2"], profiles)).code).toBe("pool-repeated");
    expect(errorOf(() => parsePools(["a:h100=1", "a:t4=2"], profiles)).code).toBe("pool-repeated");
  });

  test.each([
    ["eks", "accelerated", "h100", "eks/p5-h100"],
    ["gke", "accelerated", "gb300", "gke/a4x-maxgpu-4g-metal"],
    ["eks", "system", undefined, "eks/system-m7i"],
  ] as const)("a recipe for %s %s %s runs on %s", (service, nodeType, accelerator, name) => {
    const wanted = accelerator === undefined ? { service, nodeType } : { service, nodeType, accelerator };
    expect(selectProfile(profiles, wanted).name).toBe(name);
  });

  test("no match and two matches are different errors", () => {
    const wanted = { service: "aks", nodeType: "accelerated", accelerator: "h100" } as const;
    expect(errorOf(() => selectProfile(profiles, wanted)).code).toBe("profile-none-matches");
    const twin = { ...findProfile(profiles, "eks/p5-h100"), name: "eks/twin" };
    const two = profilesWith([twin]);
    expect(errorOf(() => selectProfile(two, { ...wanted, service: "eks" })).code).toBe("profile-ambiguous");
  });

  test("a user's profile is read, with defaults for missing fields", () => {
    const [profile] = parseProfiles(
      "name: mine\ncpu: 8\nmemory: 32Gi\ngpu: {product: X1, count: 2, memoryMiB: 4096}\n",
      "mine.yaml",
    );
    expect(profile).toMatchObject({
      name: "mine",
      cpu: "8",
      arch: "amd64",
      maxPods: 250,
      storage: "100Gi",
      gpu: { count: 2, replicas: 1 },
    });
  });

  test("the example loads, with every field of a profile", () => {
    const text = readFileSync(new URL("../../../examples/profiles/lab-a100.yaml", import.meta.url), "utf8");
    const [lab] = parseProfiles(text, "lab-a100.yaml");
    expect(lab).toMatchObject({
      name: "lab-a100",
      gpu: { mig: { strategy: "mixed" } },
      topology: { scheme: "topograph-v1" },
    });
    const object = nodeObject(simNode({ clusterSeed: "s", pool: "lab", profile: lab!, index: 0 }), {
      ordinal: 0,
      nowMs: 0,
    });
    expect(object["status"]).toMatchObject({
      capacity: { "nvidia.com/mig-3g.40gb": "8", "nvidia.com/mig-1g.10gb": "16" },
    });
  });

  test("AICR's own file is read", () => {
    const text = `apiVersion: aicr.nvidia.com/v1alpha1
kind: KWOKNodeProfile
metadata: {name: p5-h100, labels: {provider: eks, nodeType: accelerated, accelerator: h100}}
spec:
  instanceType: p5.48xlarge
  arch: amd64
  resources: {cpu: "192", memory: 2048Gi, storage: 3800Gi}
  gpu: {product: NVIDIA-H100-80GB-HBM3, count: 8, memory: 81920, driver: 570.86.16}
`;
    const [profile] = parseProfiles(text, "x");
    expect(profile).toMatchObject({
      name: "eks/p5-h100",
      gpu: { count: 8, memoryMiB: 81_920 },
      match: { service: "eks", accelerator: "h100" },
    });
  });

  test.each([
    ["name: x\ncpu: 8\n", "memory: is required"],
    ["name: x\ncpu: many\nmemory: 1Gi\n", 'cpu: "many" is not a quantity'],
    ["name: x\ncpu: 1\nmemory: 1Gi\narch: sparc\n", "arch: must be one of amd64, arm64"],
    ["name: x\ncpu: 1\nmemory: 1Gi\ncolour: red\n", "colour: is not a field"],
    [
      "name: x\ncpu: 1\nmemory: 1Gi\ngpu: {product: X, count: 0, memoryMiB: 1}\n",
      "gpu.count: must be a whole number from 1 to 64",
    ],
    [
      "name: x\ncpu: 1\nmemory: 1Gi\ngpu: {product: X, count: 1, memoryMiB: 81920, mig: {partitions: {3g.40gb: 3}}}\n",
      "the partitions do not fit on one GPU together",
    ],
    [
      "name: x\ncpu: 1\nmemory: 1Gi\ngpu: {product: X, count: 1, memoryMiB: 81920, mig: {partitions: {9g.90gb: 1}}}\n",
      "9g.90gb is not a partition of this GPU",
    ],
    ["name: x\ncpu: 1\nmemory: 1Gi\ntopology: {scheme: rings}\n", "topology.scheme: must be one of"],
    ["- just a list\n", "a profile is a mapping"],
    ["name: [\n", "profile in p.yaml, document 1"],
  ])("%j is refused", (text, message) => {
    const error = errorOf(() => parseProfiles(text, "p.yaml"));
    expect(error.code).toBe("profile-invalid");
    expect(error.message).toContain(message);
  });
});

describe("a node made from a profile", () => {
  const place = { clusterSeed: "s", pool: "h100", profile: findProfile(profiles, "h100"), index: 3 };

  test("same seed, same bytes; another seed, other devices", () => {
    const make = (clusterSeed: string) =>
      JSON.stringify([
        simNode({ ...place, clusterSeed }),
        nodeObject(simNode({ ...place, clusterSeed }), { ordinal: 3, nowMs: 0 }),
      ]);
    expect(make("s")).toBe(make("s"));
    expect(make("s")).not.toBe(make("t"));
  });

  test("it carries KWOK's marks, the labels of GPU tools and complete status", () => {
    const object = nodeObject(simNode(place), { ordinal: 258, nowMs: 0, kwokTaint: true });
    expect(object).toMatchObject({
      metadata: {
        name: "h100-3",
        annotations: { "kwok.x-k8s.io/node": "fake" },
        labels: {
          type: "kwok",
          "nvidia.com/gpu.present": "true",
          "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
          "nvidia.com/gpu.count": "8",
          "nvidia.com/gpu.memory": "81559",
          "nvidia.com/gpu.family": "hopper",
          "nvidia.com/mig.capable": "true",
          "nvidia.com/cuda.driver.major": "570",
        },
      },
      spec: {
        podCIDR: "10.1.2.0/24",
        providerID: "kwok://h100-3",
        taints: [{ key: "kwok.x-k8s.io/node", value: "fake", effect: "NoSchedule" }],
      },
      status: {
        capacity: { cpu: "192", "nvidia.com/gpu": "8", pods: "250" },
        nodeInfo: { architecture: "amd64", operatingSystem: "linux" },
      },
    });
    expect(object.metadata.labels).not.toHaveProperty("nvidia.com/gpu.clique");
  });

  test("device identities are stable, distinct and of the right form", () => {
    const uuids = new Set<string>();
    for (let index = 0; index < 500; index++) {
      for (const device of simNode({ ...place, index }).devices) {
        expect(device.uuid).toMatch(/^GPU-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        uuids.add(device.uuid);
      }
    }
    expect(uuids.size).toBe(4000);
    const [first, , , , fifth] = simNode(place).devices;
    expect(first).toMatchObject({ index: 0, minor: 0, pciBusId: "0000:1b:00.0", numaNode: 0 });
    expect(fifth).toMatchObject({ index: 4, numaNode: 1 });
  });

  test("every label of every profile is a label", () => {
    for (const profile of builtinProfiles) {
      for (const [key, value] of Object.entries(nodeLabels(simNode({ ...place, profile })))) {
        expect([key, ...labelValueErrors(value)]).toEqual([key]);
      }
    }
  });

  test("the simulated node of an object is restored, and one of another tool is read from its labels", () => {
    const sim = simNode(place);
    const object = partly<Node>(nodeObject(sim, { ordinal: 0, nowMs: 0 }));
    expect(simNodeOf(object, "s", profiles)).toEqual(sim);
    const foreign = partly<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "gpu-2", labels: { "nvidia.com/gpu.product": "X", "nvidia.com/gpu.memory": "100" } },
      status: { capacity: { "nvidia.com/gpu": "4", cpu: "16", memory: "1Gi" } },
    });
    const found = simNodeOf(foreign, "s", profiles);
    expect([found.pool, found.index, found.devices.length, found.profile.gpu?.product]).toEqual(["gpu", 2, 4, "X"]);
  });
});

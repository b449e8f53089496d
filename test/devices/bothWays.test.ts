/**
 * A simulated node enforces it: whatever a scheduler decides, a GPU is either allocated by the device plugin or
 * prepared for a claim.
 */
import { expect, test } from "vitest";
import type { ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import { DevicesCluster } from "./devicesCluster.ts";

const gpuPod = (name: string, more: object = {}) => {
  const amounts = { "nvidia.com/gpu": "1" };
  const containers = [{ name: "c", image: "registry/app:1", resources: { requests: amounts, limits: amounts } }];
  const metadata = { name, namespace: "default" };
  return { apiVersion: "v1", kind: "Pod", metadata, spec: { containers, ...more } };
};

test("a node refuses a pod for which only GPUs are left that claims have", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("all", {
    devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu", count: 8 } }] },
  });
  await cluster.pod("a", { claim: "all" });
  await cluster.run(6);
  expect(cluster.phases()).toEqual(["a Running"]);
  await cluster.api.create("/pods", gpuPod("b", { nodeName: "h100-0" }));
  await cluster.run(5);
  expect(cluster.look("b")?.status).toMatchObject({ phase: "Failed", reason: "UnexpectedAdmissionError" });
  expect(cluster.phases()).toContain("a Running");
});

test("a node allocates a GPU that no claim has, also where claims have the first ones", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("three", {
    devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu", count: 3 } }] },
  });
  await cluster.pod("a", { claim: "three" });
  await cluster.run(6);
  await cluster.api.create("/pods", gpuPod("b", { nodeName: "h100-0" }));
  await cluster.run(5);
  const [slice] = cluster.all<ResourceSlice>("resource.k8s.io/resourceslices");
  const fourth = slice?.spec.devices?.[3]?.attributes?.["uuid"]?.string;
  const assigned = JSON.parse(cluster.look("b")?.metadata.annotations?.["sim.muster.dev/devices"] ?? "{}");
  expect(assigned).toEqual({ c: { "nvidia.com/gpu": [fourth] } });
});

test("a node prepares no device whose GPU a pod has from the device plugin, and does so when that pod is gone", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.api.create("/pods", gpuPod("b", { nodeName: "h100-0" }));
  await cluster.run(5);
  await cluster.claim("c");
  await cluster.api.edit("resource.k8s.io/resourceclaims", "default/c", (claim) => {
    claim.metadata.finalizers = ["resource.kubernetes.io/delete-protection"];
  });
  await cluster.pod("a", { claim: "c" }, { nodeName: "h100-0" });
  const results = [{ request: "gpu", driver: "gpu.nvidia.com", pool: "h100-0", device: "gpu-0" }];
  const reservedFor = [{ resource: "pods", name: "a", uid: cluster.look("a")?.metadata.uid }];
  await cluster.api.edit(
    "resource.k8s.io/resourceclaims",
    "default/c",
    (claim) => Object.assign(claim, { status: { allocation: { devices: { results } }, reservedFor } }),
    "status",
  );
  await cluster.run(5);
  expect(cluster.look("a")?.status?.phase).toBe("Pending");
  expect(cluster.claims()[0]?.status?.devices?.[0]?.conditions?.[0]).toMatchObject({
    status: "False",
    reason: "DeviceInUse",
    message: "pod default/b has the GPU from the device plugin",
  });
  await cluster.api.delete("/pods", "default/b");
  await cluster.run(45);
  expect(cluster.look("a")?.status?.phase).toBe("Running");
});

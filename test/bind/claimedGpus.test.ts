/** The binder on a node whose GPUs are devices as well: a GPU of a claim is not available for shares. */
import { expect, test } from "vitest";
import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import { devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import type { Pod, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { BindCluster } from "./bindCluster.ts";

const slices = "resource.k8s.io/resourceslices";
const half = { "gpu-fraction": "0.5" };

function devicesOf(cluster: BindCluster): { driver: string; pool: string; device: string }[] {
  const found = cluster.api.names(slices).map((key) => cluster.api.get(slices, key) as unknown as ResourceSlice);
  return found.flatMap(({ spec: { driver, pool, devices = [] } }) =>
    devices.map(({ name }) => ({ driver, pool: pool.name, device: name })),
  );
}

/** A cluster of one node with eight GPUs, of which a claim has some. The binder is in one process with the count of devices. */
async function withClaimOf(count: number): Promise<BindCluster> {
  const cluster = await BindCluster.create();
  await cluster.run(1);
  const spec = { schedulerName: "other", resourceClaims: [{ name: "gpus", resourceClaimName: "some" }] };
  const user = await cluster.pod("user", {}, spec);
  const results = devicesOf(cluster)
    .slice(0, count)
    .map((device) => ({ request: "r", ...device }));
  expect(results).toHaveLength(count);
  await cluster.api.create("resource.k8s.io/resourceclaims", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name: "some", namespace: "default", finalizers: ["resource.kubernetes.io/delete-protection"] },
    spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu", count } }] } },
  } as unknown as KubeObject);
  const written = await cluster.admin.patch(
    {
      group: "resource.k8s.io",
      version: "v1",
      plural: "resourceclaims",
      namespace: "default",
      name: "some",
      subresource: "status",
    },
    { type: "merge", body: { status: statusOf(user, results) } },
  );
  if (!written.ok) throw new Error(written.message);
  const [binder, devices] = [binderComponent(), devicesComponent()];
  await cluster.start({
    ...binder,
    add: (controllers) => {
      devices.add(controllers);
      binder.add(controllers);
    },
  });
  return cluster;
}

function statusOf({ metadata: { name, uid } }: Pod, results: readonly object[]): object {
  return { allocation: { devices: { results } }, reservedFor: [{ resource: "pods", name, uid }] };
}

test("no reservation is made on a node all of whose GPUs claims have", async () => {
  const cluster = await withClaimOf(8);
  const pod = await cluster.pod("f", half);
  await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: ["X"] });
  await cluster.run(1);
  expect(cluster.requestOf("f")?.status?.reason).toBe(
    "node h100-0 has no GPU left for GPU group X: all are held by pods, reservations and claims",
  );
  expect(cluster.reservations()).toEqual([]);
});

test("the last GPU that neither claims nor pods have is reserved once", async () => {
  const cluster = await withClaimOf(6);
  const whole = { resources: { requests: { "nvidia.com/gpu": "1" }, limits: { "nvidia.com/gpu": "1" } } };
  await cluster.pod("whole", {}, { nodeName: "h100-0", containers: [{ name: "main", image: "i", ...whole }] });
  await cluster.run(1);
  for (const group of ["X", "Y"]) {
    const pod = await cluster.pod(`f-${group.toLowerCase()}`, half);
    await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: [group] });
    await cluster.run(3);
  }
  expect(cluster.phase("f-x")).toBe("Succeeded");
  expect(cluster.requestOf("f-y")?.status?.reason).toContain("has no GPU left for GPU group Y");
  expect(cluster.reservations()).toHaveLength(1);
});

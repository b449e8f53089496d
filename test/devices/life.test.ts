/** Claims from creation to release on the embedded server, with simulated nodes, observed through the API. */
import { expect, test } from "vitest";
import type { ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import { DevicesCluster, oneGpu } from "./devicesCluster.ts";

const protection = "resource.kubernetes.io/delete-protection";

test("a pod with a template gets a claim, a device, a node, and runs", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.template("one");
  await cluster.pod("a", { template: "one" });
  await cluster.run(6);
  expect(cluster.phases()).toEqual(["a Running"]);
  const [claim] = cluster.claims();
  expect(claim?.metadata.ownerReferences?.[0]).toMatchObject({ kind: "Pod", name: "a", controller: true });
  expect(claim?.metadata.annotations?.["resource.kubernetes.io/pod-claim-name"]).toBe("gpu");
  expect(claim?.metadata.finalizers).toEqual([protection]);
  expect(claim?.status?.reservedFor).toEqual([{ resource: "pods", name: "a", uid: cluster.look("a")?.metadata.uid }]);
  expect(claim?.status?.allocation?.devices?.results).toMatchObject([
    { request: "gpu", pool: "h100-0", device: "gpu-0" },
  ]);
  expect(cluster.look("a")?.status?.resourceClaimStatuses).toEqual([
    { name: "gpu", resourceClaimName: claim?.metadata.name },
  ]);
  expect(cluster.log.errors).toEqual([]);
});

test("two pods share one claim, and the device is deallocated when both are deleted", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("shared");
  await cluster.pod("a", { claim: "shared" });
  await cluster.pod("b", { claim: "shared" });
  await cluster.run(5);
  expect(cluster.phases()).toEqual(["a Running", "b Running"]);
  expect(cluster.given()).toEqual(["shared h100-0/gpu-0"]);
  await cluster.api.delete("/pods", "default/a");
  await cluster.run(60);
  expect(cluster.claims()[0]?.status?.reservedFor?.map(({ name }) => name)).toEqual(["b"]);
  expect(cluster.given()).toHaveLength(1);
  await cluster.api.delete("/pods", "default/b");
  await cluster.run(60);
  expect(cluster.given()).toEqual([]);
  expect(cluster.claims()[0]?.status?.reservedFor).toBeUndefined();
  expect(cluster.claims()[0]?.metadata.finalizers).toBeUndefined();
  expect(cluster.log.errors).toEqual([]);
});

test("ten pods for eight devices: eight run, two report why they wait, and run later", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.template("one");
  for (let i = 0; i < 10; i++) await cluster.pod(`p${i}`, { template: "one" });
  await cluster.run(5);
  expect(cluster.phases().filter((each) => each.endsWith("Running"))).toHaveLength(8);
  expect(new Set(cluster.given().map((each) => each.split(" ")[1])).size).toBe(8);
  const waiting = cluster.phases().filter((each) => each.endsWith("waits"));
  expect(waiting).toHaveLength(2);
  const name = waiting[0]?.split(" ")[0] ?? "";
  expect(cluster.look(name)?.status?.conditions?.find(({ type }) => type === "PodScheduled")).toMatchObject({
    status: "False",
    reason: "Unschedulable",
    message: expect.stringContaining("fits 0 of 1 nodes: 1 node(s) cannot allocate all claims"),
  });
  const running = cluster.phases().filter((each) => each.endsWith("Running"));
  for (const each of running.slice(0, 2)) await cluster.api.delete("/pods", `default/${each.split(" ")[0]}`);
  await cluster.run(90);
  expect(cluster.phases().filter((each) => each.endsWith("Running"))).toHaveLength(8);
  expect(cluster.log.errors).toEqual([]);
});

test("a device whose pod was deleted by force is not allocated before its node has released it", async () => {
  const cluster = await DevicesCluster.start({ nodes: { unprepareMs: 20_000 } });
  const all = { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu", count: 8 } }] } };
  await cluster.template("all", all);
  await cluster.pod("old", { template: "all" });
  await cluster.run(6);
  await cluster.pod("new", { template: "all" });
  await cluster.api.delete("/pods", "default/old", { gracePeriodSeconds: 0 });
  await cluster.run(10);
  expect(cluster.phases()).toEqual(["new waits"]);
  await cluster.run(60);
  expect(cluster.phases()).toEqual(["new Running"]);
});

test("when the node is deleted, nothing is waited for", async () => {
  const cluster = await DevicesCluster.start({ nodes: { unprepareMs: 3_600_000 } });
  await cluster.claim("c");
  await cluster.pod("a", { claim: "c" });
  await cluster.run(6);
  await cluster.api.delete("/pods", "default/a", { gracePeriodSeconds: 0 });
  await cluster.run(10);
  expect(cluster.given()).toHaveLength(1);
  await cluster.api.edit("/nodes", "h100-0", (node) => {
    (node as { spec?: object }).spec = {
      ...(node as { spec?: object }).spec,
      taints: [{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }],
    };
  });
  await cluster.run(10);
  expect(cluster.given()).toEqual([]);
});

test("a taint rule evicts a pod from its device, and reports it; a toleration with seconds delays it", async () => {
  const cluster = await DevicesCluster.start({ pools: ["h100=2"] });
  await cluster.template("one");
  const tolerant = {
    devices: {
      requests: [
        {
          name: "gpu",
          exactly: {
            deviceClassName: "gpu",
            tolerations: [{ key: "broken", operator: "Exists", tolerationSeconds: 30 }],
          },
        },
      ],
    },
  };
  await cluster.template("patient", tolerant);
  await cluster.pod("a", { template: "one" });
  await cluster.run(2);
  await cluster.pod("b", { template: "patient" });
  await cluster.run(6);
  await cluster.api.create("resource.k8s.io/devicetaintrules", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceTaintRule",
    metadata: { name: "rack-7" },
    spec: { deviceSelector: { driver: "gpu.nvidia.com" }, taint: { key: "broken", value: "yes", effect: "NoExecute" } },
  });
  await cluster.run(20);
  expect(cluster.phases()).toEqual(["b Running"]);
  const rule = () => cluster.all<{ status?: { conditions?: object[] } }>("resource.k8s.io/devicetaintrules")[0];
  expect(rule()?.status?.conditions?.[0]).toMatchObject({
    type: "EvictionInProgress",
    status: "True",
    reason: "PodsPendingEviction",
  });
  await cluster.run(60);
  expect(cluster.phases()).toEqual([]);
  expect(rule()?.status?.conditions?.[0]).toMatchObject({ status: "False", reason: "Completed" });
  await cluster.pod("c", { template: "one" });
  await cluster.run(5);
  expect(cluster.phases()).toEqual(["c waits"]);
  expect(cluster.log.errors).toEqual([]);
});

test("an extended resource is served by a claim where no device plugin offers it", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.api.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "extended" },
    spec: {
      selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }],
      extendedResourceName: "example.com/gpu",
    },
  });
  await cluster.run(1);
  await cluster.api.create("/pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "default" },
    spec: { containers: [{ name: "c", image: "registry/app:1", resources: { limits: { "example.com/gpu": "2" } } }] },
  });
  await cluster.run(10);
  expect(cluster.given().map((each) => each.split(" ")[1])).toEqual(["h100-0/gpu-0", "h100-0/gpu-1"]);
  expect(cluster.phases()).toEqual(["a Running"]);
  expect(cluster.look("a")?.status?.extendedResourceClaimStatus).toMatchObject({
    resourceClaimName: cluster.claims()[0]?.metadata.name,
    requestMappings: [{ containerName: "c", resourceName: "example.com/gpu", requestName: "container-0-request-0" }],
  });
  expect(cluster.log.errors).toEqual([]);
});

test("a missing template is reported, and the pod is scheduled when it appears", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.pod("a", { template: "later" });
  await cluster.run(2);
  expect(cluster.phases()).toEqual(["a waits"]);
  expect(cluster.all<{ reason?: string }>("/events").map(({ reason }) => reason)).toContain(
    "FailedResourceClaimCreation",
  );
  await cluster.template("later", oneGpu);
  await cluster.run(6);
  expect(cluster.phases()).toEqual(["a Running"]);
});

async function bindable(cluster: DevicesCluster): Promise<void> {
  const conditions = { bindingConditions: ["attached"], bindingFailureConditions: ["broken"] };
  await cluster.api.create("resource.k8s.io/resourceslices", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: { name: "fabric" },
    spec: {
      driver: "fabric.example.com",
      allNodes: true,
      pool: { name: "fabric", generation: 1, resourceSliceCount: 1 },
      devices: [
        { name: "far-0", ...conditions },
        { name: "far-1", ...conditions },
      ],
    },
  });
  await cluster.api.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "fabric" },
    spec: { selectors: [{ cel: { expression: 'device.driver == "fabric.example.com"' } }] },
  });
  await cluster.template("far", { devices: { requests: [{ name: "far", exactly: { deviceClassName: "fabric" } }] } });
  await cluster.pod("a", { template: "far" });
  await cluster.run(5);
}

async function report(cluster: DevicesCluster, type: string): Promise<void> {
  const [claim] = cluster.claims();
  const result = claim?.status?.allocation?.devices?.results?.[0];
  await cluster.api.edit(
    "resource.k8s.io/resourceclaims",
    `default/${claim?.metadata.name}`,
    (object) => {
      const condition = {
        type,
        status: "True",
        reason: "Told",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      };
      const status = (object as { status?: object }).status;
      (object as { status?: object }).status = {
        ...status,
        devices: [{ driver: result?.driver, pool: result?.pool, device: result?.device, conditions: [condition] }],
      };
    },
    "status",
  );
}

test("a pod is bound only when its device has been made ready", async () => {
  const cluster = await DevicesCluster.start();
  await bindable(cluster);
  expect(cluster.given()).toHaveLength(1);
  expect(cluster.phases()).toEqual(["a waits"]);
  await report(cluster, "attached");
  await cluster.run(20);
  expect(cluster.phases()).toEqual(["a Running"]);
  expect(cluster.log.errors).toEqual([]);
});

test("a device that cannot be made ready is deallocated after its failure, and the pod is scheduled again", async () => {
  const cluster = await DevicesCluster.start();
  await bindable(cluster);
  const before = cluster.claims()[0]?.metadata.resourceVersion;
  await report(cluster, "broken");
  await cluster.run(20);
  const [claim] = cluster.claims();
  expect(claim?.metadata.resourceVersion).not.toBe(before);
  expect(claim?.status?.devices).toBeUndefined();
  expect(claim?.status?.allocation).toBeDefined();
  await report(cluster, "attached");
  await cluster.run(20);
  expect(cluster.phases()).toEqual(["a Running"]);
});

test("a claim that was allocated where its pod cannot run is deallocated and allocated again", async () => {
  const cluster = await DevicesCluster.start({ pools: ["h100=2"] });
  await cluster.claim("c");
  await cluster.api.edit("resource.k8s.io/resourceclaims", "default/c", (claim) => {
    claim.metadata.finalizers = [protection];
  });
  const where = {
    nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["h100-0"] }] }],
  };
  const results = [{ request: "gpu", driver: "gpu.nvidia.com", pool: "h100-0", device: "gpu-5" }];
  await cluster.api.edit(
    "resource.k8s.io/resourceclaims",
    "default/c",
    (claim) => {
      (claim as { status?: object }).status = { allocation: { devices: { results }, nodeSelector: where } };
    },
    "status",
  );
  await cluster.pod("a", { claim: "c" }, { nodeSelector: { "kubernetes.io/hostname": "h100-1" } });
  await cluster.run(10);
  expect(cluster.given()).toEqual(["c h100-1/gpu-0"]);
  expect(cluster.phases()).toEqual(["a Running"]);
  expect(cluster.log.errors).toEqual([]);
});

test("a claim that is deleted while a pod uses it is removed when the pod is gone", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("c");
  await cluster.pod("a", { claim: "c" });
  await cluster.run(6);
  await cluster.api.delete("resource.k8s.io/resourceclaims", "default/c");
  await cluster.run(5);
  expect(cluster.claims()).toHaveLength(1);
  await cluster.api.delete("/pods", "default/a");
  await cluster.run(60);
  expect(cluster.claims()).toEqual([]);
});

test("of three nodes the one with the earlier alternative is chosen, whichever is tried first", async () => {
  const cluster = await DevicesCluster.start({ pools: ["h100=3"] });
  for (const preferred of ["h100-1", "h100-2", "h100-0"]) {
    const [slice] = cluster
      .all<ResourceSlice>("resource.k8s.io/resourceslices")
      .filter(({ spec }) => spec.nodeName === preferred);
    const uuid = slice?.spec.devices?.[0]?.attributes?.["uuid"]?.string;
    const wanted = `device.attributes["gpu.nvidia.com"].uuid == "${uuid}"`;
    await cluster.claim(`on-${preferred}`, {
      devices: {
        requests: [
          {
            name: "gpu",
            firstAvailable: [
              { name: "best", deviceClassName: "gpu", selectors: [{ cel: { expression: wanted } }] },
              { name: "any", deviceClassName: "gpu" },
            ],
          },
        ],
      },
    });
    await cluster.pod(`p-${preferred}`, { claim: `on-${preferred}` });
    await cluster.run(6);
    expect(cluster.look(`p-${preferred}`)?.spec?.nodeName).toBe(preferred);
  }
  expect(cluster.given()).toEqual(["on-h100-0 h100-0/gpu-0", "on-h100-1 h100-1/gpu-0", "on-h100-2 h100-2/gpu-0"]);
});

test("a pod beyond the consumer limit of its claim reports it, and runs when another releases the claim", async () => {
  const cluster = await DevicesCluster.start();
  await cluster.claim("c");
  await cluster.pod("a", { claim: "c" });
  await cluster.run(6);
  const withOthers = (count: number) =>
    cluster.api.edit(
      "resource.k8s.io/resourceclaims",
      "default/c",
      (claim) => {
        const { status } = claim as unknown as { status: { reservedFor: { resource: string }[] } };
        const pods = status.reservedFor.filter(({ resource }) => resource === "pods");
        const others = Array.from({ length: count }, (_, i) => ({ resource: "others", name: `o${i}`, uid: `u${i}` }));
        status.reservedFor = [...pods, ...others.map((each) => ({ apiGroup: "example.com", ...each }))];
      },
      "status",
    );
  await withOthers(255);
  await cluster.pod("b", { claim: "c" });
  await cluster.run(30);
  expect(cluster.phases()).toEqual(["a Running", "b waits"]);
  const condition = cluster.look("b")?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  expect(condition?.status).toBe("False");
  expect(condition?.message).toContain("is reserved for 256 consumers, the most that a claim can have");
  await withOthers(254);
  await cluster.run(30);
  expect(cluster.phases()).toEqual(["a Running", "b Running"]);
});

test("where there are no nodes, a pod says so", async () => {
  const cluster = await DevicesCluster.start({ pools: [] });
  await cluster.claim("c");
  await cluster.pod("a", { claim: "c" });
  await cluster.run(5);
  const condition = cluster.look("a")?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  expect(condition?.message).toContain("there are no nodes");
});

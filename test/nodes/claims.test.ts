/**
 * Claims on simulated nodes: prepared before containers start, released after they stop, stale when a device is
 * withdrawn.
 */
import { expect, test } from "vitest";
import { claimsAllocated } from "../../src/decide/verify/checks/claimsAllocated.ts";
import { clusterSnapshot, type SnapshotKind } from "../../src/decide/verify/clusterSnapshot.ts";
import type { KindName } from "../../src/decide/verify/readKinds.ts";
import { readFault } from "../../src/kubelet/node/faults.ts";
import { addFaults } from "../../src/kubelet/run/clusterFaults.ts";
import type { ResourceClaim, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { NodesCluster } from "./nodesCluster.ts";

const claimsKey = "resource.k8s.io/resourceclaims";

async function podWithClaim(cluster: NodesCluster, name: string, device: string): Promise<void> {
  await cluster.api.create(claimsKey, {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name, namespace: "default" },
    spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu.nvidia.com" } }] } },
  });
  const pod = await cluster.pod(name, {
    containers: [{ name: "c", image: "i" }],
    resourceClaims: [{ name: "g", resourceClaimName: name }],
  });
  const results = [{ request: "r", driver: "gpu.nvidia.com", pool: "h100-0", device }];
  const reservedFor = [{ resource: "pods", name, uid: pod.metadata.uid }];
  await setStatus(cluster, name, { allocation: { devices: { results } }, reservedFor });
}

async function setStatus(cluster: NodesCluster, name: string, status: object): Promise<void> {
  const edit = (claim: KubeObject) => {
    claim["status"] = status;
  };
  await cluster.api.edit(claimsKey, `default/${name}`, edit, "status");
}

function readyOf(cluster: NodesCluster, name: string): string | undefined {
  const claim = cluster.api.get(claimsKey, `default/${name}`) as unknown as ResourceClaim | undefined;
  return claim?.status?.devices?.[0]?.conditions?.[0]?.reason;
}

function verdict(cluster: NodesCluster): string {
  const kinds = new Map<KindName, SnapshotKind>();
  const read = (name: KindName, group: string, key: string) =>
    kinds.set(name, { group, version: "v1", plural: name, revision: "1", served: true, objects: cluster.all(key) });
  read("pods", "", "/pods");
  read("nodes", "", "/nodes");
  read("resourceclaims", "resource.k8s.io", claimsKey);
  read("resourceslices", "resource.k8s.io", "resource.k8s.io/resourceslices");
  return claimsAllocated.run({ snapshot: clusterSnapshot("1", 0, kinds) } as Parameters<typeof claimsAllocated.run>[0])
    .status;
}

test("the device of a force-deleted pod is prepared for the next one only when the first has stopped", async () => {
  const cluster = await NodesCluster.create();
  const fixed = (ms: number) => ({ minMs: ms, maxMs: ms });
  const delays = { sandbox: fixed(0), start: fixed(0), initRun: fixed(0), jobRun: fixed(0), stop: fixed(5000) };
  const process = await cluster.start({ options: { delays } });
  await podWithClaim(cluster, "a", "gpu-0");
  await cluster.run(2);
  expect([cluster.look("a")?.status?.phase, readyOf(cluster, "a")]).toEqual(["Running", "Prepared"]);
  await cluster.api.delete("/pods", "default/a", { gracePeriodSeconds: 0 });
  await setStatus(cluster, "a", {});
  await podWithClaim(cluster, "b", "gpu-0");
  await cluster.run(3);
  expect([cluster.look("b")?.status?.phase, readyOf(cluster, "b")]).toEqual(["Pending", "DeviceInUse"]);
  const held = cluster
    .all<ResourceSlice>("resource.k8s.io/resourceslices")
    .flatMap(({ spec }) => spec.devices ?? [])
    .filter(({ taints }) => taints?.some(({ key }) => key === "sim.muster.dev/held"));
  expect(held.map(({ name }) => name)).toEqual(["gpu-0"]);
  await cluster.run(6);
  expect([cluster.look("b")?.status?.phase, readyOf(cluster, "b")]).toEqual(["Running", "Prepared"]);
  expect(process.log.errors).toEqual([]);
});

test("prepare-failure: a pod with a claim waits in ContainerCreating and the claim says why, others start; when it ends the pod runs", async () => {
  const cluster = await NodesCluster.create();
  const process = await cluster.start();
  const nowMs = cluster.api.clock.nowMs();
  const given = { kind: "prepare-failure", node: "h100-0", for: "60s" };
  await addFaults(cluster.admin, [readFault(given, { nowMs, id: "f" })], nowMs);
  await podWithClaim(cluster, "a", "gpu-0");
  await cluster.pod("plain", { containers: [{ name: "c", image: "i" }] });
  await cluster.run(30);
  const waiting = cluster.look("a")?.status;
  expect([waiting?.phase, waiting?.containerStatuses?.[0]?.state?.waiting?.reason, readyOf(cluster, "a")]).toEqual([
    "Pending",
    "ContainerCreating",
    "PrepareFailed",
  ]);
  expect(cluster.look("plain")?.status?.phase).toBe("Running");
  await cluster.run(60);
  expect([cluster.look("a")?.status?.phase, readyOf(cluster, "a")]).toEqual(["Running", "Prepared"]);
  expect(process.log.errors).toEqual([]);
});

test("what was prepared is known after a restart", async () => {
  const cluster = await NodesCluster.create();
  const first = await cluster.start();
  await podWithClaim(cluster, "a", "gpu-0");
  await cluster.run(2);
  await first.stop();
  await setStatus(cluster, "a", {
    ...(cluster.api.get(claimsKey, "default/a") as unknown as ResourceClaim).status,
  });
  await cluster.start();
  await podWithClaim(cluster, "b", "gpu-0");
  await cluster.run(5);
  expect([cluster.look("a")?.status?.phase, readyOf(cluster, "b")]).toEqual(["Running", "DeviceInUse"]);
});

test("a device that is withdrawn while a claim holds it gives a new generation, and verify calls the claim stale", async () => {
  const cluster = await NodesCluster.create();
  await cluster.start();
  await podWithClaim(cluster, "a", "gpu-3");
  await cluster.run(2);
  expect(verdict(cluster)).toBe("passed");
  const nowMs = cluster.api.clock.nowMs();
  const given = { kind: "gpu-unhealthy", node: "h100-0", device: 3, dra: "remove" };
  await addFaults(cluster.admin, [readFault(given, { nowMs, id: "gone" })], nowMs);
  await cluster.run(2);
  const [slice] = cluster.all<ResourceSlice>("resource.k8s.io/resourceslices");
  expect([slice?.spec.pool.generation, slice?.spec.devices?.length]).toEqual([2, 7]);
  expect(verdict(cluster)).toBe("failed");
});

test("an agent that never reports its device leaves the reservation pod without one", async () => {
  const cluster = await NodesCluster.create();
  await cluster.start();
  const nowMs = cluster.api.clock.nowMs();
  await addFaults(cluster.admin, [readFault({ kind: "reservation-never" }, { nowMs, id: "never" })], nowMs);
  const namespace = "kai-resource-reservation";
  await cluster.api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  await cluster.pod("r", {}, { namespace, labels: { app: namespace } });
  await cluster.run(120);
  const pod = cluster.look(`${namespace}/r`);
  // That the bind then fails and the pod is cleared away is the binder's: test/bind/attempts.test.ts.
  expect([pod?.status?.phase, pod?.metadata.annotations?.["run.ai/reserve_for_gpu_index"]]).toEqual([
    "Running",
    undefined,
  ]);
});

test("slices and claims, too, are left to the process that holds the node's lease", async () => {
  const cluster = await NodesCluster.create();
  await cluster.start({ options: { holder: "first" } });
  const second = await cluster.start({ options: { holder: "second" } });
  const written: string[] = [];
  second.kube.faults = {
    before: (verb, what) => {
      if (verb !== "get" && verb !== "list") written.push(`${verb} ${what}`);
      return undefined;
    },
  };
  await podWithClaim(cluster, "a", "gpu-0");
  const nowMs = cluster.api.clock.nowMs();
  const given = { kind: "gpu-unhealthy", node: "h100-0", device: 1, dra: "remove", for: "10s" };
  await addFaults(cluster.admin, [readFault(given, { nowMs, id: "f" })], nowMs);
  await cluster.run(20);
  expect([cluster.look("a")?.status?.phase, readyOf(cluster, "a"), written]).toEqual(["Running", "Prepared", []]);
});

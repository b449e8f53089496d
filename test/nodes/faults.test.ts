/** The visible effects of each fault, by the node's annotation or by command, observed through the API. */
import { expect, test } from "vitest";
import { workloads } from "../../src/control/workloads/workloads.ts";
import { readFault } from "../../src/kubelet/node/faults.ts";
import { addFaults, clearFaults, faultId, listFaults } from "../../src/kubelet/run/clusterFaults.ts";
import type { Lease, Node, Pod, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import { NodesCluster, readyOf, withGpus } from "./nodesCluster.ts";

async function struck(given: object, options: { pod?: boolean; seconds?: number; pools?: string[] } = {}) {
  const cluster = await NodesCluster.create();
  const process = await cluster.start({ pools: options.pools ?? ["h100=1"] });
  if (options.pod !== false) await cluster.pod("p", withGpus(2));
  await cluster.run(2);
  await inject(cluster, given);
  await cluster.run(options.seconds ?? 2);
  expect(process.log.errors).toEqual([]);
  return { cluster, process };
}

async function inject(cluster: NodesCluster, given: object): Promise<string> {
  const nowMs = cluster.api.clock.nowMs();
  const fault = readFault(given, { nowMs, id: faultId("f", nowMs, JSON.stringify(given)) });
  expect(await addFaults(cluster.admin, [fault], nowMs)).toMatchObject({ ok: true });
  return fault.id;
}

const onNode = { node: "h100-0" };
const gpusOf = (node: Node | undefined) => node?.status?.allocatable?.["nvidia.com/gpu"];
const stateOf = (pod: Pod | undefined) => pod?.status?.containerStatuses?.[0]?.state;

test("heartbeat-stop: the lease is no longer renewed and pods are left alone; when it ends both continue", async () => {
  const { cluster } = await struck({ kind: "heartbeat-stop", ...onNode, for: "60s" });
  await cluster.pod("late");
  await cluster.run(50);
  const lease = cluster.all<Lease>("coordination.k8s.io/leases")[0];
  expect(Date.parse(lease?.spec?.renewTime ?? "")).toBeLessThan(cluster.api.clock.nowMs() - 45_000);
  expect(cluster.look("late")?.status?.startTime).toBeUndefined();
  // What the node controller does meanwhile.
  await cluster.api.edit(
    "/pods",
    "default/p",
    (pod) => {
      const status = pod["status"] as { conditions: { type: string; status: string }[] };
      for (const each of status.conditions) if (each.type === "Ready") each.status = "False";
    },
    "status",
  );
  await cluster.run(20);
  expect([readyOf(cluster.node()), readyOf(cluster.look("p")), cluster.look("late")?.status?.phase]).toEqual([
    "True",
    "True",
    "Running",
  ]);
});

test("heartbeat-stop, beside the cluster's own controllers: Unknown, taints, pods not Ready, and eviction when the toleration ends", async () => {
  const cluster = await NodesCluster.create();
  // Where every node is silent the controller is the one cut off, and no pod is evicted.
  await cluster.start({ pools: ["h100=3"] });
  const log = await cluster.startComponents(workloads);
  const patience = {
    key: "node.kubernetes.io/unreachable",
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: 30,
  };
  await cluster.pod("p", { tolerations: [patience] });
  await cluster.run(2);
  const seen: string[] = [];
  const note = (what: string, isSo: boolean): void => {
    if (isSo && !seen.includes(what)) seen.push(what);
  };
  const startMs = cluster.api.clock.nowMs();
  let evictedMs = 0;
  cluster.api.core.store.onEvent(({ current }) => {
    const object = current.object() as unknown as Node & Pod;
    const isPod = current.resource === "/pods" && current.name === "p";
    if (isPod && object.metadata.deletionTimestamp !== undefined && evictedMs === 0) {
      evictedMs = cluster.api.clock.nowMs() - startMs;
    }
    if (current.resource === "/nodes" && current.name === onNode.node) {
      note("the node is Unknown", readyOf(object) === "Unknown");
      note("it is tainted", object.spec?.taints?.some(({ key }) => key.endsWith("unreachable")) === true);
    }
    if (isPod) {
      note("the pod is not Ready", readyOf(object) === "False");
      note("the pod is evicted", object.metadata.deletionTimestamp !== undefined);
    }
  });
  await inject(cluster, { kind: "heartbeat-stop", ...onNode, for: "150s" });
  await cluster.run(140);
  expect(seen[0]).toBe("the node is Unknown");
  expect(seen.at(-1)).toBe("the pod is evicted");
  expect([...seen].sort()).toEqual([
    "it is tainted",
    "the node is Unknown",
    "the pod is evicted",
    "the pod is not Ready",
  ]);
  // Forty seconds of silence, up to five until the next check, thirty of toleration.
  expect([evictedMs >= 60_000, evictedMs <= 90_000]).toEqual([true, true]);
  await cluster.run(60);
  expect([readyOf(cluster.node()), cluster.node()?.spec?.taints ?? [], cluster.look("p")]).toEqual([
    "True",
    [],
    undefined,
  ]);
  expect(log.errors).toEqual([]);
});

test("not-ready, beside the cluster's own controllers: the node is tainted as not ready, and the taint ends with the fault", async () => {
  const cluster = await NodesCluster.create();
  await cluster.start();
  await cluster.startComponents(workloads);
  const taints = () => cluster.node()?.spec?.taints?.map(({ key, effect }) => `${key} ${effect}`) ?? [];
  await inject(cluster, { kind: "not-ready", ...onNode, for: "30s" });
  await cluster.run(10);
  expect(taints()).toEqual(["node.kubernetes.io/not-ready NoSchedule", "node.kubernetes.io/not-ready NoExecute"]);
  await cluster.run(40);
  expect(taints()).toEqual([]);
});

test("not-ready: the condition says so with its reason, and comes back", async () => {
  const { cluster } = await struck({ kind: "not-ready", ...onNode, for: "30s", reason: "Broken" });
  expect(cluster.node()?.status?.conditions?.find(({ type }) => type === "Ready")).toMatchObject({
    status: "False",
    reason: "Broken",
  });
  await cluster.run(40);
  expect(readyOf(cluster.node())).toBe("True");
});

test("node-delete: the node object is gone, and does not come back by itself", async () => {
  const { cluster } = await struck({ kind: "node-delete", ...onNode });
  await cluster.run(60);
  expect(cluster.node()).toBeUndefined();
});

test("node-reboot: a new boot id, containers restart, and devices stay with their pods", async () => {
  const cluster = await NodesCluster.create();
  await cluster.start();
  await cluster.pod("p", withGpus(2));
  await cluster.run(2);
  const before = cluster.node()?.status?.nodeInfo?.bootID;
  const devices = cluster.look("p")?.metadata.annotations?.["sim.muster.dev/devices"];
  await inject(cluster, { kind: "node-reboot", ...onNode, down: "10s" });
  await cluster.run(30);
  expect(cluster.node()?.status?.nodeInfo?.bootID).not.toBe(before);
  const pod = cluster.look("p");
  expect([pod?.status?.containerStatuses?.[0]?.restartCount, readyOf(pod)]).toEqual([1, "True"]);
  expect(pod?.metadata.annotations?.["sim.muster.dev/devices"]).toBe(devices);
});

test("cordon: the node is unschedulable, its pods run on, and the cordon is removed", async () => {
  const { cluster } = await struck({ kind: "cordon", ...onNode, for: "60s" }, { seconds: 40 });
  expect([cluster.node()?.spec?.unschedulable, readyOf(cluster.look("p")), readyOf(cluster.node())]).toEqual([
    true,
    "True",
    "True",
  ]);
  await cluster.run(40);
  expect(cluster.node()?.spec?.unschedulable ?? false).toBe(false);
});

test("cordon and drain: the node is unschedulable, pods are evicted within their budgets, and the cordon is removed", async () => {
  const { cluster } = await struck({ kind: "drain", ...onNode, for: "60s" }, { seconds: 40 });
  expect([cluster.node()?.spec?.unschedulable, cluster.look("p")]).toEqual([true, undefined]);
  await cluster.run(40);
  expect(cluster.node()?.spec?.unschedulable ?? false).toBe(false);
});

test("gpu-unhealthy: allocatable is one less, the pod on it runs on and reports it, and an eight-GPU pod is refused", async () => {
  const { cluster } = await struck({ kind: "gpu-unhealthy", ...onNode, device: 0, for: "60s" });
  expect(gpusOf(cluster.node())).toBe("7");
  const [health] = cluster.look("p")?.status?.containerStatuses?.[0]?.allocatedResourcesStatus ?? [];
  expect(health?.resources?.map(({ health: each }) => each)).toContain("Unhealthy");
  expect(stateOf(cluster.look("p"))?.running).toBeDefined();
  expect(cluster.node()?.status?.conditions?.find(({ type }) => type === "GpuHealthy")?.status).toBe("False");
  const devices = cluster
    .all<ResourceSlice>("resource.k8s.io/resourceslices")
    .flatMap(({ spec }) => spec.devices ?? []);
  expect(devices.filter(({ taints }) => (taints ?? []).length > 0)).toHaveLength(1);
  await cluster.run(70);
  expect(gpusOf(cluster.node())).toBe("8");
});

test.each([
  ["xid", "Xid"],
  ["ecc", "Ecc"],
  ["fallen-off-bus", "Fallen"],
  ["thermal", "Overheated"],
])("gpu-unhealthy by %s: the condition says so, and with kill the containers on it end", async (cause, reason) => {
  const { cluster } = await struck({ kind: "gpu-unhealthy", ...onNode, device: 0, cause, kill: true });
  const condition = cluster.node()?.status?.conditions?.find(({ type }) => type === "GpuHealthy");
  expect([condition?.status, condition?.reason]).toEqual(["False", expect.stringContaining(reason)]);
  const status = cluster.look("p")?.status?.containerStatuses?.[0];
  expect((status?.state?.terminated ?? status?.lastState?.terminated)?.exitCode).toBeGreaterThan(0);
});

test("plugin-restart: no device is allocatable, then all are", async () => {
  const { cluster } = await struck({ kind: "plugin-restart", ...onNode, down: "10s" });
  expect(gpusOf(cluster.node())).toBe("0");
  await cluster.run(10);
  expect(gpusOf(cluster.node())).toBe("8");
});

test("driver-upgrade: slices are withdrawn and come back, and the labels have the new driver version", async () => {
  const { cluster } = await struck({ kind: "driver-upgrade", ...onNode, driver: "600.1.2", down: "10s" });
  expect(cluster.all("resource.k8s.io/resourceslices")).toHaveLength(0);
  await cluster.run(12);
  expect(cluster.all("resource.k8s.io/resourceslices")).toHaveLength(1);
  expect(cluster.node()?.metadata.labels?.["nvidia.com/cuda.driver.major"]).toBe("600");
});

test("mig-reconfigure: pending first, then the new partitions; and it waits while a pod holds a GPU", async () => {
  const given = { kind: "mig-reconfigure", ...onNode, strategy: "mixed", partitions: "1g.10gb=7", down: "10s" };
  const { cluster } = await struck(given, { seconds: 30 });
  expect(cluster.node()?.status?.allocatable?.["nvidia.com/mig-1g.10gb"]).toBeUndefined();
  await cluster.api.delete("/pods", "default/p");
  await cluster.run(60);
  expect(cluster.node()?.status?.allocatable?.["nvidia.com/mig-1g.10gb"]).toBe("56");
});

test("nvlink-partition: the clique changes and comes back", async () => {
  const clique = (cluster: NodesCluster) => cluster.node("gb200-0")?.metadata.labels?.["nvidia.com/gpu.clique"];
  const cluster = await NodesCluster.create();
  await cluster.start({ pools: ["gb200=1"] });
  const before = clique(cluster);
  await inject(cluster, { kind: "nvlink-partition", node: "gb200-0", for: "30s" });
  await cluster.run(2);
  expect([before === undefined, clique(cluster) === before]).toEqual([false, false]);
  await cluster.run(40);
  expect(clique(cluster)).toBe(before);
});

test.each([
  ["slow-start", { delay: "30s" }, "ContainerCreating"],
  ["image-pull-error", {}, "ErrImagePull"],
])("%s: a new pod waits in %o", async (kind, params, reason) => {
  const { cluster } = await struck({ kind, ...onNode, ...params }, { pod: false });
  await cluster.pod("new");
  await cluster.run(2);
  expect(stateOf(cluster.look("new"))?.waiting?.reason).toBe(reason);
});

test.each([
  ["crash-loop", { code: 3 }, "Error", 3],
  ["oom", {}, "OOMKilled", 137],
])("%s: containers end with %o and are restarted with back-off", async (kind, params, reason, code) => {
  const { cluster } = await struck({ kind, ...onNode, ...params }, { seconds: 5 });
  const status = cluster.look("p")?.status?.containerStatuses?.[0];
  expect(status?.state?.terminated ?? status?.lastState?.terminated).toMatchObject({ reason, exitCode: code });
});

test("slow-release: devices of a pod that was deleted by force are refused to the next one, until they are free", async () => {
  const { cluster } = await struck({ kind: "slow-release", ...onNode, delay: "20s" }, { pod: false });
  await cluster.pod("old", withGpus(8));
  await cluster.run(2);
  await cluster.api.delete("/pods", "default/old", { gracePeriodSeconds: 0 });
  await cluster.pod("early", withGpus(8));
  await cluster.run(2);
  expect(cluster.look("early")?.status?.reason).toBe("UnexpectedAdmissionError");
  await cluster.run(30);
  await cluster.pod("later", withGpus(8));
  await cluster.run(2);
  expect(cluster.look("later")?.status?.phase).toBe("Running");
});

test.each([
  ["reservation-never", {}, 60, "none"],
  ["reservation-late", { delay: "30s" }, 10, "none"],
  ["reservation-late", { delay: "30s" }, 40, "own"],
  ["reservation-wrong", { how: "duplicate" }, 5, "other"],
  ["reservation-lost", {}, 5, "gone"],
])("%s %o: after %d seconds the device on the reservation pod is %s", async (kind, params, seconds, expected) => {
  const { cluster } = await struck({ kind, ...onNode, ...params }, { pod: false });
  await cluster.api.create("/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "kai-resource-reservation" },
  });
  await cluster.pod("r", withGpus(1), {
    namespace: "kai-resource-reservation",
    labels: { app: "kai-resource-reservation" },
  });
  await cluster.run(seconds);
  const pod = cluster.look("kai-resource-reservation/r");
  const written = pod?.metadata.annotations?.["run.ai/reserve_for_gpu_index"];
  const own = pod?.metadata.annotations?.["sim.muster.dev/devices"] ?? "";
  const is = pod === undefined ? "gone" : written === undefined ? "none" : own.includes(written) ? "own" : "other";
  expect(is).toBe(expected);
});

test("a fault in the node's annotation lasts as long as the annotation, and an invalid one is reported", async () => {
  const cluster = await NodesCluster.create();
  await cluster.start();
  const annotate = (text: string | undefined) =>
    cluster.api.edit("/nodes", "h100-0", ({ metadata }) => {
      metadata.annotations = { ...metadata.annotations };
      if (text === undefined) delete metadata.annotations["sim.muster.dev/faults"];
      else metadata.annotations["sim.muster.dev/faults"] = text;
    });
  await annotate('[{"kind": "gpu-unhealthy", "device": 1}]');
  await cluster.run(1);
  expect(gpusOf(cluster.node())).toBe("7");
  await annotate('[{"kind": "gpu-unhealthy"}]');
  await cluster.run(1);
  expect(gpusOf(cluster.node())).toBe("8");
  const events = cluster.all<{ reason?: string }>("/events").map(({ reason }) => reason);
  expect(events).toContain("InvalidFault");
});

test("faults by command are listed, survive the process, and are undone when they are cleared by id", async () => {
  const { cluster, process } = await struck({ kind: "gpu-unhealthy", ...onNode, device: 2 });
  const second = await inject(cluster, { kind: "cordon", ...onNode });
  await process.stop();
  await cluster.start();
  await cluster.run(1);
  expect([gpusOf(cluster.node()), cluster.node()?.spec?.unschedulable]).toEqual(["7", true]);
  const listed = await listFaults(cluster.admin);
  expect(listed.ok && listed.value.faults.map(({ kind }) => kind).sort()).toEqual(["cordon", "gpu-unhealthy"]);
  expect(await clearFaults(cluster.admin, [second, "no such"], cluster.api.clock.nowMs())).toEqual({
    ok: true,
    value: [second],
  });
  await cluster.run(1);
  expect(cluster.node()?.spec?.unschedulable).toBeUndefined();
  expect(await clearFaults(cluster.admin, undefined, cluster.api.clock.nowMs())).toMatchObject({ ok: true });
  await cluster.run(1);
  expect(gpusOf(cluster.node())).toBe("8");
});

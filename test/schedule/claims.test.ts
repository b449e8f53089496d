import { expect, test } from "vitest";
import { devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import { servedDevices } from "../../src/control/devices/servedDevices.ts";
import type { Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { PodGroup } from "../../src/model/scheduling/podGroup.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { onlyVersions } from "../../testing/control/onlyVersions.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const start = async (
  pools: readonly string[] = ["h100=1"],
  between: (kube: KubeApi) => KubeApi = (kube) => kube,
): Promise<ScheduleCluster> => {
  const cluster = await ScheduleCluster.create(
    pools,
    { allocatesDevices: true },
    { components: [devicesComponent()], between },
  );
  await cluster.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "gpu.example.com" },
    spec: { selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }] },
  });
  await cluster.run(0.5);
  return cluster;
};

const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
const unlimited = { cpu: free, memory: free };

const gpus = (count: number) => ({
  devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu.example.com", count } }] },
});

async function template(cluster: ScheduleCluster, name: string, count: number): Promise<void> {
  await cluster.create("resource.k8s.io/resourceclaimtemplates", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name, namespace: "default" },
    spec: { spec: gpus(count) },
  });
}

async function claim(cluster: ScheduleCluster, name: string, labels: Record<string, string>): Promise<void> {
  await cluster.create("resource.k8s.io/resourceclaims", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name, namespace: "default", labels },
    spec: gpus(1),
  });
}

const fromTemplate = (name: string) => ({ resourceClaims: [{ name: "gpu", resourceClaimTemplateName: name }] });
const named = (name: string) => ({ resourceClaims: [{ name: "gpu", resourceClaimName: name }] });
const phasesOf = (cluster: ScheduleCluster): string[] => cluster.pods().map(({ status }) => status?.phase ?? "");
const claims = (cluster: ScheduleCluster): ResourceClaim[] =>
  cluster.all<ResourceClaim>("resource.k8s.io/resourceclaims");
const devicesOf = (cluster: ScheduleCluster): string[] =>
  claims(cluster).flatMap(({ status }) =>
    (status?.allocation?.devices?.results ?? []).map(({ pool, device }) => `${pool}/${device}`),
  );
const whyOf = (pod: Pod): string => pod.status?.conditions?.find(({ type }) => type === "PodScheduled")?.message ?? "";

test("a pod of kai-scheduler with a claim gets its devices by way of its BindRequest, and runs", async () => {
  const cluster = await start();
  await template(cluster, "two", 2);
  await cluster.pod("p", { spec: fromTemplate("two") });
  await cluster.run(3);
  expect(phasesOf(cluster)).toEqual(["Running"]);
  expect(new Set(devicesOf(cluster)).size).toBe(2);
  expect(claims(cluster)[0]?.status?.reservedFor).toMatchObject([{ resource: "pods", name: "p" }]);
});

test.each(["v1beta2", "v1beta1"])(
  "pods with claims get their devices on a cluster that knows devices as %s only, as one gang or not at all",
  async (version) => {
    const cluster = await start(["h100=1"], (kube) => servedDevices(onlyVersions(kube, [version])));
    await template(cluster, "four", 4);
    await cluster.group("fits", { minMember: 2 });
    for (const name of ["a", "b"]) {
      await cluster.pod(name, { annotations: { "pod-group-name": "fits" }, spec: fromTemplate("four") });
    }
    await cluster.run(4);
    expect(phasesOf(cluster)).toEqual(["Running", "Running"]);
    expect(new Set(devicesOf(cluster)).size).toBe(8);
    await cluster.pod("c", { spec: fromTemplate("four") });
    await cluster.run(3);
    expect(cluster.pod1("c").spec?.nodeName).toBeUndefined();
    for (const name of ["a", "b"]) {
      await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name });
    }
    await cluster.run(5);
    expect(phasesOf(cluster)).toEqual(["Running"]);
  },
);

test("pods without claims are placed on a cluster that knows no devices", async () => {
  const between = (kube: KubeApi) => servedDevices(onlyVersions(kube, []));
  const cluster = await ScheduleCluster.create(["h100=1"], { allocatesDevices: true }, { between });
  await cluster.pod("p", { gpus: 1 });
  await cluster.run(3);
  expect(phasesOf(cluster)).toEqual(["Running"]);
});

test("many at once never get the same device, whichever scheduler places them", async () => {
  const cluster = await start(["h100=2"]);
  await template(cluster, "one", 1);
  for (let at = 0; at < 20; at++) {
    await cluster.pod(`p-${at}`, {
      spec: fromTemplate("one"),
      scheduler: at % 2 === 0 ? "kai-scheduler" : "default-scheduler",
    });
  }
  await cluster.run(6);
  const devices = devicesOf(cluster);
  expect(devices).toHaveLength(16);
  expect(new Set(devices).size).toBe(16);
  expect(phasesOf(cluster).filter((phase) => phase === "Running")).toHaveLength(16);
  const waiting = cluster
    .pods()
    .filter(({ status, spec }) => status?.phase === "Pending" && spec?.schedulerName === "kai-scheduler");
  for (const pod of waiting) expect(whyOf(pod)).not.toBe("");
});

test("a gang with claims starts as a whole or not at all", async () => {
  const cluster = await start(["h100=1"]);
  await template(cluster, "four", 4);
  await cluster.group("big", { minMember: 3 });
  for (const at of [0, 1, 2]) {
    await cluster.pod(`big-${at}`, { spec: fromTemplate("four"), annotations: { "pod-group-name": "big" } });
  }
  await cluster.run(3);
  expect(phasesOf(cluster)).toEqual(["Pending", "Pending", "Pending"]);
  expect(devicesOf(cluster)).toEqual([]);
  await cluster.group("fits", { minMember: 2 });
  for (const at of [0, 1]) {
    await cluster.pod(`fits-${at}`, { spec: fromTemplate("four"), annotations: { "pod-group-name": "fits" } });
  }
  await cluster.run(3);
  expect(
    cluster
      .pods()
      .filter(({ status }) => status?.phase === "Running")
      .map(({ metadata }) => metadata.name),
  ).toEqual(["fits-0", "fits-1"]);
  expect(new Set(devicesOf(cluster)).size).toBe(8);
});

test("a claim that pods may share needs their queue's label, and counts once in the queue", async () => {
  const cluster = await start();
  await claim(cluster, "bare", {});
  await cluster.pod("bare", { spec: named("bare") });
  await cluster.run(2);
  expect(phasesOf(cluster)).toEqual(["Pending"]);
  expect(whyOf(cluster.pod1("bare"))).toContain("ResourceClaim bare has no label kai.scheduler/queue: default-queue");

  await claim(cluster, "shared", { "kai.scheduler/queue": "default-queue" });
  await cluster.pod("a", { spec: named("shared") });
  await cluster.pod("b", { spec: named("shared") });
  await cluster.run(4);
  expect(["a", "b"].map((name) => cluster.pod1(name).status?.phase)).toEqual(["Running", "Running"]);
  expect(devicesOf(cluster)).toHaveLength(1);
  expect(cluster.queue1("default-queue").status?.allocated).toMatchObject({ "gpu.example.com": "1" });
});

test("claims that GPUs are wanted for stay within the queue's limit", async () => {
  const cluster = await start();
  await cluster.queue("narrow", {
    parentQueue: "default-parent-queue",
    resources: { ...unlimited, gpu: { quota: 0, limit: 2, overQuotaWeight: 1 } },
  });
  await template(cluster, "two", 2);
  for (const name of ["a", "b"])
    await cluster.pod(name, { spec: fromTemplate("two"), labels: { "kai.scheduler/queue": "narrow" } });
  await cluster.run(3);
  expect(phasesOf(cluster).sort()).toEqual(["Pending", "Running"]);
  const waiting = cluster.pods().find(({ status }) => status?.phase === "Pending") as Pod;
  expect(whyOf(waiting)).toContain("limit");
});

test("a queue reclaims its quota of devices: one victim is evicted, its devices are waited for, and no other pod is evicted", async () => {
  const cluster = await start();
  await template(cluster, "four", 4);
  for (const name of ["a", "b"]) await cluster.pod(name, { spec: fromTemplate("four") });
  await cluster.run(3);
  expect(phasesOf(cluster)).toEqual(["Running", "Running"]);
  await cluster.queue("deserving", {
    parentQueue: "default-parent-queue",
    resources: { ...unlimited, gpu: { quota: 8, limit: -1, overQuotaWeight: 1 } },
  });
  await cluster.pod("late", { spec: fromTemplate("four"), labels: { "kai.scheduler/queue": "deserving" } });
  await cluster.run(60);
  expect(cluster.pod1("late").status?.phase).toBe("Running");
  expect(cluster.pods().filter(({ status }) => status?.phase === "Running")).toHaveLength(2);
  expect(new Set(devicesOf(cluster)).size).toBe(devicesOf(cluster).length);
});

test("a pod that was not bound after all releases its devices and is placed where it fits", async () => {
  const cluster = await start(["h100=2"]);
  await template(cluster, "one", 1);
  // It keeps what it has got on the first node, and the first node accepts no more pods.
  await cluster.pod("p", { spec: { ...fromTemplate("one"), schedulingGates: [{ name: "wait" }] } });
  await cluster.run(1);
  const [claimed] = claims(cluster);
  const [first = "", second = ""] = cluster.api.names("/nodes");
  const nodeSelector = {
    nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: [first] }] }],
  };
  const results = [{ request: "gpu", driver: "gpu.nvidia.com", pool: first, device: "gpu-0" }];
  const ref = { ...builtin.ResourceClaim, namespace: "default" };
  const allocated = await cluster.admin.patch(
    { ...ref, name: claimed?.metadata.name ?? "", subresource: "status" },
    { type: "merge", body: { status: { allocation: { devices: { results }, nodeSelector } } } },
  );
  expect(allocated.ok).toBe(true);
  const core = { group: "", version: "v1" };
  await cluster.admin.patch(
    { ...core, plural: "nodes", namespace: "", name: first },
    { type: "merge", body: { spec: { unschedulable: true } } },
  );
  await cluster.admin.patch(
    { ...core, plural: "pods", namespace: "default", name: "p" },
    { type: "merge", body: { spec: { schedulingGates: null } } },
  );
  await cluster.run(5);
  expect(cluster.pod1("p")).toMatchObject({ spec: { nodeName: second }, status: { phase: "Running" } });
});

const fieldsOf = (cluster: ScheduleCluster, message: string) =>
  cluster.log.lines.filter((line) => line.message === message).map(({ fields }) => fields);

test("allocations of kai-scheduler pods are logged with their source, in flight first, and searches are measured", async () => {
  const cluster = await start();
  await template(cluster, "one", 1);
  for (const name of ["a", "b"]) await cluster.pod(name, { spec: fromTemplate("one") });
  await cluster.run(4);
  const allocated = fieldsOf(cluster, "device allocated");
  expect(allocated).toHaveLength(2);
  for (const { metadata, status } of claims(cluster)) {
    const [result] = status?.allocation?.devices?.results ?? [];
    expect(allocated.find(({ uid }) => uid === metadata.uid)).toMatchObject({
      claim: `default/${metadata.name}`,
      device: `gpu.nvidia.com/${result?.pool}/${result?.device}`,
      node: "h100-0",
      source: "scheduler",
    });
  }
  expect(fieldsOf(cluster, "device in flight")).toHaveLength(2);
  await cluster.run(10);
  expect(fieldsOf(cluster, "device removed from in flight")).toHaveLength(2);
  expect(cluster.metrics.value("muster_devices_allocations_total", { source: "scheduler" })).toBe(2);
  expect(cluster.metrics.value("muster_devices_claims_in_flight")).toBe(0);
  expect(cluster.metrics.value("muster_devices_claims_allocated")).toBe(2);
  expect(cluster.metrics.render()).toContain('muster_devices_search_seconds_count{scheduler="kai-scheduler"}');
});

test("the scheduler logs once the devices that it took over", async () => {
  const cluster = await start();
  await template(cluster, "one", 1);
  await cluster.pod("a", { spec: fromTemplate("one") });
  await cluster.run(4);
  const [summary, ...more] = fieldsOf(cluster, "took over devices").filter(
    ({ component }) => component === "scheduler",
  );
  expect(summary).toMatchObject({ claims: 0, allocated: 0, inFlight: 0, devices: 0 });
  expect(more).toEqual([]);
});

test("queues and groups show GPUs of claims under the name of their device class, as KAI does", async () => {
  const cluster = await start();
  await template(cluster, "three", 3);
  await cluster.pod("plain", { gpus: 1 });
  for (const name of ["a", "b", "c"]) await cluster.pod(name, { spec: fromTemplate("three") });
  await cluster.run(6);
  expect(phasesOf(cluster).filter((phase) => phase === "Running")).toHaveLength(3);
  for (const queue of ["default-queue", "default-parent-queue"]) {
    const { allocated, requested, allocatedNonPreemptible } = cluster.queue1(queue).status ?? {};
    expect(allocated).toMatchObject({ "gpu.example.com": "6", "nvidia.com/gpu": "1" });
    expect(requested).toMatchObject({ "gpu.example.com": "9", "nvidia.com/gpu": "1" });
    expect(allocatedNonPreemptible?.["gpu.example.com"]).toBeUndefined();
  }
  const groups = cluster
    .all<PodGroup>("scheduling.run.ai/podgroups")
    .flatMap(({ status }) => status?.resourcesStatus?.allocated?.["gpu.example.com"] ?? []);
  expect(groups).toEqual(["3", "3"]);
  expect(cluster.metrics.render()).toMatch(/kai_queue_allocated_gpus\{[^}]*queue_name="default-queue"[^}]*\} 7/);
  for (const name of ["a", "b", "c"]) {
    await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name });
  }
  await cluster.run(10);
  expect(cluster.queue1("default-queue").status?.allocated?.["gpu.example.com"]).toBeUndefined();
});

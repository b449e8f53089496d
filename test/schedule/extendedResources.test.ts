/** Extended resources that a DeviceClass stands for, for pods of kai-scheduler. */
import { expect, test } from "vitest";
import { devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import type { Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { Queue } from "../../src/model/scheduling/queue.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const resource = "example.com/gpu";
const implicit = "deviceclass.resource.kubernetes.io/gpu.example.com";

const deviceClass = (extendedResourceName: string | undefined = resource) => ({
  apiVersion: "resource.k8s.io/v1",
  kind: "DeviceClass",
  metadata: { name: "gpu.example.com" },
  spec: {
    selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }],
    ...(extendedResourceName !== undefined && { extendedResourceName }),
  },
});

async function begin(pools: readonly string[] = ["h100=1"]): Promise<ScheduleCluster> {
  return ScheduleCluster.create(pools, { allocatesDevices: true }, { components: [devicesComponent()] });
}

async function start(pools?: readonly string[], name?: string): Promise<ScheduleCluster> {
  const cluster = await begin(pools);
  await cluster.create("resource.k8s.io/deviceclasses", deviceClass(name));
  await cluster.run(0.5);
  return cluster;
}

const asking = (amount: number, name = resource) => {
  const amounts = { [name]: String(amount) };
  return { containers: [{ name: "main", image: "i", resources: { requests: amounts, limits: amounts } }] };
};
const claims = (cluster: ScheduleCluster): ResourceClaim[] =>
  cluster.all<ResourceClaim>("resource.k8s.io/resourceclaims");
const devicesOf = (cluster: ScheduleCluster): string[] =>
  claims(cluster).flatMap(({ status }) =>
    (status?.allocation?.devices?.results ?? []).map(({ pool, device }) => `${pool}/${device}`),
  );
const phasesOf = (cluster: ScheduleCluster): string[] => cluster.pods().map(({ status }) => status?.phase ?? "");
const placed = (cluster: ScheduleCluster): number => cluster.pods().filter(({ spec }) => spec?.nodeName).length;
const whyOf = (pod: Pod): string => pod.status?.conditions?.find(({ type }) => type === "PodScheduled")?.message ?? "";

test.each([resource, implicit])(
  "a pod that asks for 2 of %s gets a claim of its own with two devices",
  async (name) => {
    const cluster = await start();
    await cluster.pod("p", { spec: asking(2, name) });
    await cluster.run(4);
    expect(phasesOf(cluster)).toEqual(["Running"]);
    const [claim, ...more] = claims(cluster);
    expect(more).toEqual([]);
    expect(claim?.metadata.annotations?.["resource.kubernetes.io/extended-resource-claim"]).toBe("true");
    expect(claim?.metadata.ownerReferences).toMatchObject([{ kind: "Pod", name: "p", controller: true }]);
    expect(claim?.status?.reservedFor).toMatchObject([{ resource: "pods", name: "p" }]);
    expect(new Set(devicesOf(cluster)).size).toBe(2);
    expect(cluster.pod1("p").status?.extendedResourceClaimStatus).toEqual({
      resourceClaimName: claim?.metadata.name,
      requestMappings: [{ containerName: "main", resourceName: name, requestName: "container-0-request-0" }],
    });
  },
);

test("the queue counts the devices under their class, and its limit holds", async () => {
  const cluster = await start();
  const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
  await cluster.queue("narrow", {
    parentQueue: "default-parent-queue",
    resources: { gpu: { quota: 3, limit: 3, overQuotaWeight: 1 }, cpu: free, memory: free },
  });
  const labels = { "kai.scheduler/queue": "narrow" };
  for (const name of ["a", "b"]) await cluster.pod(name, { labels, spec: asking(2) });
  await cluster.run(5);
  expect(placed(cluster)).toBe(1);
  expect(cluster.queue1("narrow").status).toMatchObject({
    allocated: { "gpu.example.com": "2" },
    requested: { "gpu.example.com": "4" },
  });
});

test("a gang gets its devices whole or not at all", async () => {
  const cluster = await start();
  const gang = async (name: string, size: number, amount: number) => {
    await cluster.group(name, { minMember: size });
    for (let at = 0; at < size; at++) {
      await cluster.pod(`${name}-${at}`, { annotations: { "pod-group-name": name }, spec: asking(amount) });
    }
    await cluster.run(4);
  };
  await gang("big", 3, 4);
  expect([placed(cluster), claims(cluster)]).toEqual([0, []]);
  await gang("fits", 2, 4);
  expect(placed(cluster)).toBe(2);
  expect(new Set(devicesOf(cluster)).size).toBe(8);
});

test("a pod for which there are too few devices gets the reason, and runs when some are released", async () => {
  const cluster = await start();
  await cluster.pod("first", { spec: asking(5) });
  await cluster.run(3);
  await cluster.pod("second", { spec: asking(4) });
  await cluster.run(3);
  const why = whyOf(cluster.pod1("second"));
  expect(why).toContain("cannot allocate all claims");
  expect(why).not.toContain("at most 0");
  await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "first" });
  await cluster.run(10);
  expect(cluster.pod1("second").status?.phase).toBe("Running");
  expect(claims(cluster)).toHaveLength(1);
});

test("a class created later serves pending pods; a deleted one serves no more", async () => {
  const cluster = await begin();
  await cluster.pod("early", { spec: asking(1) });
  await cluster.run(3);
  expect(whyOf(cluster.pod1("early"))).toContain("no node has any");
  await cluster.create("resource.k8s.io/deviceclasses", deviceClass());
  await cluster.run(4);
  expect(cluster.pod1("early").status?.phase).toBe("Running");
  await cluster.admin.delete({
    group: "resource.k8s.io",
    version: "v1",
    plural: "deviceclasses",
    namespace: "",
    name: "gpu.example.com",
  });
  await cluster.run(1);
  await cluster.pod("late", { spec: asking(1) });
  await cluster.run(3);
  expect(whyOf(cluster.pod1("late"))).toContain("no node has any");
  expect(cluster.pod1("early").status?.phase).toBe("Running");
});

test.each(["kai-scheduler", "default-scheduler"])(
  "pods of %s use the device plugin of a node that has one, and claims on the others",
  async (scheduler) => {
    const cluster = await start(["h100=2"]);
    await offer(cluster, "h100-0", "3");
    for (let at = 0; at < 12; at++) await cluster.pod(`p-${at}`, { spec: asking(1), scheduler });
    await cluster.run(15);
    expect(placed(cluster)).toBe(11);
    expect(cluster.pods().filter(({ spec }) => spec?.nodeName === "h100-0")).toHaveLength(3);
    const devices = devicesOf(cluster);
    expect(devices).toHaveLength(8);
    expect(new Set(devices).size).toBe(8);
    expect(devices.every((each) => each.startsWith("h100-1/"))).toBe(true);
  },
);

test("pods of both schedulers, by claim and by extended resource, never get one device twice", async () => {
  const cluster = await start(["h100=2"]);
  await cluster.create("resource.k8s.io/resourceclaimtemplates", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "one", namespace: "default" },
    spec: { spec: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu.example.com" } }] } } },
  });
  for (let at = 0; at < 24; at++) {
    const spec = at % 3 === 0 ? { resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "one" }] } : asking(1);
    await cluster.pod(`p-${at}`, { spec, scheduler: at % 2 === 0 ? "kai-scheduler" : "default-scheduler" });
  }
  await cluster.run(10);
  const devices = devicesOf(cluster);
  expect(devices).toHaveLength(16);
  expect(new Set(devices).size).toBe(16);
  expect(placed(cluster)).toBe(16);
});

test("GPUs by their usual name come from devices where no device plugin offers them", async () => {
  const cluster = await start(["h100=0"], "nvidia.com/gpu");
  await nodeWithDevices(cluster, "dra-0", 4);
  await cluster.pod("p", { gpus: 3 });
  await cluster.run(3);
  expect(placed(cluster)).toBe(1);
  expect(devicesOf(cluster)).toEqual(["dra-0/gpu-0", "dra-0/gpu-1", "dra-0/gpu-2"]);
  const [queue] = cluster
    .all<Queue>("scheduling.run.ai/queues")
    .filter(({ metadata }) => metadata.name === "default-queue");
  expect(queue?.status?.allocated?.["nvidia.com/gpu"]).toBe("3");
  await cluster.pod("more", { gpus: 2 });
  await cluster.pod("share", { annotations: { "gpu-fraction": "0.5" } });
  await cluster.run(3);
  expect(placed(cluster)).toBe(1);
});

async function nodeWithDevices(cluster: ScheduleCluster, name: string, count: number): Promise<void> {
  const amounts = { cpu: "16", memory: "64Gi", pods: "110" };
  await cluster.create("/nodes", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    status: { capacity: amounts, allocatable: amounts, conditions: [{ type: "Ready", status: "True" }] },
  });
  await cluster.create("resource.k8s.io/resourceslices", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: { name },
    spec: {
      driver: "gpu.nvidia.com",
      nodeName: name,
      pool: { name, generation: 1, resourceSliceCount: 1 },
      devices: Array.from({ length: count }, (_, at) => ({ name: `gpu-${at}` })),
    },
  });
  await cluster.run(0.5);
}

/** As a device plugin would, or would no more. */
async function offer(cluster: ScheduleCluster, node: string, amount: string): Promise<void> {
  const amounts = { [resource]: amount };
  const written = await cluster.admin.patch(
    { ...builtin.Node, namespace: "", name: node, subresource: "status" },
    { type: "merge", body: { status: { capacity: amounts, allocatable: amounts } } },
  );
  if (!written.ok) throw new Error(written.message);
  await cluster.run(0.5);
}

/** Pods of default-scheduler that have claims obey every rule that other pods of default-scheduler obey. */
import { expect, test } from "vitest";
import { devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import { answerWhy } from "../../src/decide/schedule/explain/report.ts";
import { clusterOf } from "../../src/decide/schedule/model/clusterOf.ts";
import type { Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

async function start(pools: readonly string[] = ["h100=2"]): Promise<ScheduleCluster> {
  const cluster = await ScheduleCluster.create(pools, { allocatesDevices: true }, { components: [devicesComponent()] });
  await cluster.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "gpu" },
    spec: { selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }] },
  });
  await template(cluster, "one", 1);
  await cluster.run(0.5);
  return cluster;
}

async function template(cluster: ScheduleCluster, name: string, count: number): Promise<void> {
  const requests = [{ name: "gpu", exactly: { deviceClassName: "gpu", count } }];
  await cluster.create("resource.k8s.io/resourceclaimtemplates", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name, namespace: "default" },
    spec: { spec: { devices: { requests } } },
  });
}

interface Wanted {
  readonly from?: string;
  readonly labels?: Record<string, string>;
  readonly spec?: object;
}

async function pod(cluster: ScheduleCluster, name: string, { from = "one", labels = {}, spec = {} }: Wanted = {}) {
  const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: from }];
  await cluster.pod(name, { scheduler: "default-scheduler", labels, spec: { resourceClaims, ...spec } });
}

const nodeOf = (cluster: ScheduleCluster, name: string): string => cluster.pod1(name).spec?.nodeName ?? "";
const whyOf = ({ status }: Pod): string =>
  status?.conditions?.find(({ type }) => type === "PodScheduled")?.message ?? "";
const labelled = { labelSelector: { matchLabels: { app: "a" } }, topologyKey: "kubernetes.io/hostname" };

test("anti-affinity keeps two pods with claims apart, and the third waits", async () => {
  const cluster = await start();
  const spec = { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [labelled] } } };
  for (const name of ["a", "b", "c"]) {
    await pod(cluster, name, { labels: { app: "a" }, spec });
    await cluster.run(3);
  }
  expect([nodeOf(cluster, "a"), nodeOf(cluster, "b")].sort()).toEqual(["h100-0", "h100-1"]);
  expect(nodeOf(cluster, "c")).toBe("");
  expect(whyOf(cluster.pod1("c"))).toContain("anti-affinity");
});

test("affinity brings a pod with a claim to the pod that it names", async () => {
  const cluster = await start();
  await pod(cluster, "far", { labels: { app: "a" }, spec: { nodeSelector: { "kubernetes.io/hostname": "h100-1" } } });
  await cluster.run(3);
  const spec = { affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [labelled] } } };
  await pod(cluster, "near", { spec });
  await cluster.run(3);
  expect(nodeOf(cluster, "near")).toBe("h100-1");
});

test("topology spread divides pods with claims evenly between nodes", async () => {
  const cluster = await start();
  const topologySpreadConstraints = [{ ...labelled, maxSkew: 1, whenUnsatisfiable: "DoNotSchedule" }];
  for (const name of ["a", "b"]) {
    const spec = { nodeSelector: { "kubernetes.io/hostname": "h100-0" } };
    await pod(cluster, name, { labels: { app: "a" }, spec });
  }
  await cluster.run(3);
  for (const name of ["c", "d"])
    await pod(cluster, name, { labels: { app: "a" }, spec: { topologySpreadConstraints } });
  await cluster.run(4);
  const nodes = ["a", "b", "c", "d"].map((name) => nodeOf(cluster, name));
  expect(nodes.filter((node) => node === "h100-0")).toHaveLength(2);
  expect(nodes.filter((node) => node === "h100-1")).toHaveLength(2);
});

test("a host port is given once on a node, also to pods with claims", async () => {
  const cluster = await start();
  const container = { name: "main", image: "i", ports: [{ containerPort: 80, hostPort: 8080 }] };
  for (const name of ["a", "b", "c"]) {
    await pod(cluster, name, { spec: { containers: [{ ...container, resources: { claims: [{ name: "gpu" }] } }] } });
  }
  await cluster.run(4);
  const nodes = ["a", "b", "c"].map((name) => nodeOf(cluster, name)).sort();
  expect(nodes).toEqual(["", "h100-0", "h100-1"]);
});

test("a pod with a claim goes where its volume is", async () => {
  const cluster = await start();
  const volume = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "disk" },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteOnce"],
      hostPath: { path: "/disk" },
      claimRef: { namespace: "default", name: "data" },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: ["h100-1"] }] },
          ],
        },
      },
    },
  };
  await cluster.create("/persistentvolumes", volume);
  await cluster.create("/persistentvolumeclaims", {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "data", namespace: "default" },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName: "",
      volumeName: "disk",
      resources: { requests: { storage: "1Gi" } },
    },
  });
  await cluster.admin.patch(
    {
      group: "",
      version: "v1",
      plural: "persistentvolumeclaims",
      namespace: "default",
      name: "data",
      subresource: "status",
    },
    { type: "merge", body: { status: { phase: "Bound" } } },
  );
  await pod(cluster, "a", { spec: { volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] } });
  await cluster.run(4);
  expect(nodeOf(cluster, "a")).toBe("h100-1");
});

async function priorityClass(cluster: ScheduleCluster, name: string, value: number, policy?: string): Promise<void> {
  await cluster.create("scheduling.k8s.io/priorityclasses", {
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name },
    value,
    ...(policy !== undefined && { preemptionPolicy: policy }),
  });
}

test("of pods with claims that wait for one GPU the one of higher priority gets it", async () => {
  const cluster = await start(["h100=1"]);
  await priorityClass(cluster, "high", 1000, "Never");
  await template(cluster, "all", 8);
  await pod(cluster, "first", { from: "all" });
  await cluster.run(3);
  await pod(cluster, "a-low", { from: "all" });
  await pod(cluster, "z-high", { from: "all", spec: { priorityClassName: "high" } });
  await cluster.run(3);
  await cluster.api.delete("/pods", "default/first");
  await cluster.run(45);
  expect([nodeOf(cluster, "a-low"), nodeOf(cluster, "z-high")]).toEqual(["", "h100-0"]);
});

test("a pod with a claim preempts a pod of lower priority that holds the devices", async () => {
  const cluster = await start(["h100=1"]);
  await priorityClass(cluster, "high", 1000);
  await template(cluster, "all", 8);
  await pod(cluster, "low", { from: "all", spec: { terminationGracePeriodSeconds: 1 } });
  await cluster.run(3);
  expect(nodeOf(cluster, "low")).toBe("h100-0");
  await pod(cluster, "high", { spec: { priorityClassName: "high" } });
  await cluster.run(30);
  expect(cluster.pods().map(({ metadata, status }) => `${metadata.name} ${status?.phase}`)).toEqual(["high Running"]);
});

test("why names the nodes without a free device and what would cure it", async () => {
  const cluster = await start(["h100=1"]);
  await template(cluster, "all", 8);
  await pod(cluster, "first", { from: "all" });
  await cluster.run(3);
  await pod(cluster, "second");
  await cluster.run(3);
  const all = <T>(resource: string): T[] => cluster.all<T>(resource);
  const seen = clusterOf({
    pods: all("/pods"),
    nodes: all("/nodes"),
    queues: all("scheduling.run.ai/queues"),
    groups: all("scheduling.run.ai/podgroups"),
    requests: all("scheduling.run.ai/bindrequests"),
    topologies: [],
    priorityClasses: all("scheduling.k8s.io/priorityclasses"),
    volumeClaims: [],
    volumes: [],
    classes: [],
    devices: {
      claims: all<ResourceClaim>("resource.k8s.io/resourceclaims"),
      slices: all("resource.k8s.io/resourceslices"),
      classes: all("resource.k8s.io/deviceclasses"),
    },
  });
  const [answer] = answerWhy(seen, "default/second", cluster.api.clock.nowMs());
  expect(answer).toMatchObject({ kind: "Pod", state: "pending" });
  expect(answer?.message).toContain("fits 0 of 1 nodes: 1 node(s) cannot allocate all claims");
  expect(answer?.cure).not.toBe("");
  expect(whyOf(cluster.pod1("second"))).toContain(answer?.message);
});

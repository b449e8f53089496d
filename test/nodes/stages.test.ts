/** KWOK's stages as objects of the cluster, and nodes of other tools, on the running component. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { readFault } from "../../src/kubelet/node/faults.ts";
import { addFaults } from "../../src/kubelet/run/clusterFaults.ts";
import { admissionFailures } from "../../src/kubelet/run/podReconciler.ts";
import type { Lease, Node, PersistentVolumeClaim } from "../../src/model/kubernetes.generated.ts";
import { NodesCluster, readyOf, withGpus } from "./nodesCluster.ts";

async function withStages(...sets: string[]): Promise<NodesCluster> {
  const cluster = await NodesCluster.create();
  for (const set of sets) {
    const text = readFileSync(new URL(`../../examples/stages/${set}.yaml`, import.meta.url), "utf8");
    for (const document of parseAllDocuments(text)) {
      const stage = document.toJS() as object | null;
      if (stage !== null) await cluster.api.create("kwok.x-k8s.io/stages", stage);
    }
  }
  return cluster;
}

/** A minimal manifest for KWOK. */
const bareNode = (name: string) => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, annotations: { "kwok.x-k8s.io/node": "fake" }, labels: { type: "kwok" } },
});

const plain = { nodeName: "bare", containers: [{ name: "c", image: "i" }] };
/** The owner reference of a Job's pod. */
async function jobOf(cluster: NodesCluster): Promise<object> {
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
  const made = await cluster.api.create("batch/jobs", {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "j", namespace: "default" },
    spec: { template },
  });
  return { ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid: made.metadata.uid }] };
}

test("the fast set: a minimal node is completed, pods run at once, those of a Job complete, and a deletion is immediate", async () => {
  const cluster = await withStages("node-fast", "node-heartbeat-with-lease", "pod-fast");
  await cluster.api.create("/nodes", bareNode("bare"));
  const process = await cluster.start({ pools: [] });
  await cluster.run(1);
  const node = cluster.node("bare");
  expect([readyOf(node), node?.status?.phase]).toEqual(["True", "Running"]);
  expect(Object.keys(node?.status?.allocatable ?? {}).sort()).toEqual(
    expect.arrayContaining(["cpu", "memory", "pods"]),
  );
  await cluster.pod("a", plain);
  await cluster.pod("b", { ...plain, restartPolicy: "Never" }, await jobOf(cluster));
  await cluster.run(0.2);
  expect(cluster.phases()).toEqual(["a Running", "b Succeeded"]);
  expect([readyOf(cluster.look("a")), cluster.look("a")?.status?.podIP]).toEqual(["True", expect.any(String)]);
  await cluster.api.delete("/pods", "default/a");
  await cluster.run(0.2);
  expect(cluster.phases()).toEqual(["b Succeeded"]);
  expect(process.log.errors).toEqual([]);
});

test("the general set: one to five seconds between the steps, and never back", async () => {
  const cluster = await withStages("node-fast", "pod-general");
  await cluster.api.create("/nodes", bareNode("bare"));
  await cluster.start({ pools: [] });
  await cluster.pod("a", { ...plain, initContainers: [{ name: "i", image: "i" }] });
  await cluster.pod("b", { ...plain, restartPolicy: "Never" }, await jobOf(cluster));
  const seen: string[] = [];
  for (let second = 0; second < 60; second++) {
    await cluster.run(0.5);
    const pod = cluster.look("a");
    const init = Object.keys(pod?.status?.initContainerStatuses?.[0]?.state ?? {})[0] ?? "";
    const now = `${pod?.status?.phase} ${init}`;
    if (seen.at(-1) !== now) seen.push(now);
  }
  expect(seen).toEqual(["Pending ", "Pending waiting", "Pending running", "Pending terminated", "Running terminated"]);
  expect(cluster.phases()).toEqual(["a Running", "b Succeeded"]);
});

test("with the general set a finalizer keeps the pod; with the fast set the delete is sent and the object stays", async () => {
  for (const set of ["pod-general", "pod-fast"]) {
    const cluster = await withStages("node-fast", set);
    await cluster.api.create("/nodes", bareNode("bare"));
    await cluster.start({ pools: [] });
    await cluster.pod("a", plain, { finalizers: ["example.com/keep"] });
    await cluster.run(20);
    await cluster.api.delete("/pods", "default/a");
    await cluster.run(60);
    const grace = cluster.look("a")?.metadata.deletionGracePeriodSeconds;
    expect([set, grace]).toEqual([set, set === "pod-fast" ? 0 : 30]);
    await cluster.api.edit("/pods", "default/a", ({ metadata }) => {
      delete metadata.finalizers;
    });
    await cluster.run(40);
    expect(cluster.look("a")).toBeUndefined();
  }
});

test.each(["pod-fast", "pod-general"])("with %s, too, a node refuses what does not fit, and for good", async (set) => {
  const cluster = await withStages("node-fast", set);
  const process = await cluster.start();
  for (const name of ["a", "b"]) await cluster.pod(name, withGpus(8));
  await cluster.run(30);
  expect(cluster.phases()).toEqual(["a Running", "b Failed"]);
  expect(cluster.look("b")?.status).toMatchObject({ reason: "UnexpectedAdmissionError" });
  expect(process.metrics.render()).toContain(`${admissionFailures}{reason="UnexpectedAdmissionError"} 1`);
  await cluster.api.delete("/pods", "default/b");
  await cluster.api.delete("/pods", "default/a");
  await cluster.run(40);
  await cluster.pod("c", withGpus(8));
  await cluster.run(30);
  expect(cluster.phases()).toEqual(["c Running"]);
});

test("a node with stages falls silent by a fault, too, and reports again afterwards", async () => {
  const cluster = await withStages("node-fast", "node-heartbeat-with-lease");
  await cluster.start();
  await cluster.run(30);
  const nowMs = cluster.api.clock.nowMs();
  const given = { kind: "heartbeat-stop", node: "h100-0", for: "60s" };
  await addFaults(cluster.admin, [readFault(given, { nowMs, id: "f" })], nowMs);
  const renewedMs = () =>
    Date.parse(cluster.all<Lease>("coordination.k8s.io/leases")[0]?.spec?.renewTime ?? "") - nowMs;
  await cluster.pod("late");
  await cluster.run(55);
  expect(cluster.look("late")?.status?.startTime).toBeUndefined();
  expect(renewedMs()).toBeLessThanOrEqual(0);
  await cluster.run(20);
  expect(renewedMs()).toBeGreaterThan(59_000);
});

test("the chaos sets: a label makes a node not ready, and a running pod fail with what its annotations say", async () => {
  const cluster = await withStages("node-fast", "node-chaos", "pod-fast", "pod-chaos");
  await cluster.api.create("/nodes", bareNode("bare"));
  await cluster.start({ pools: [] });
  await cluster.pod("a", plain);
  await cluster.run(1);
  await cluster.api.edit("/pods", "default/a", ({ metadata }) => {
    metadata.labels = { "pod-container-running-failed.stage.kwok.x-k8s.io": "true" };
  });
  await cluster.api.edit("/nodes", "bare", ({ metadata }) => {
    metadata.labels = { ...metadata.labels, "node-not-ready.stage.kwok.x-k8s.io": "true" };
  });
  await cluster.run(10);
  expect([cluster.look("a")?.status?.phase, readyOf(cluster.node("bare"))]).toEqual(["Failed", "False"]);
});

test("stages of another kind are played too, and an unreadable stage is reported on the stage", async () => {
  const cluster = await NodesCluster.create();
  const bind = {
    apiVersion: "kwok.x-k8s.io/v1alpha1",
    kind: "Stage",
    metadata: { name: "claim-bind" },
    spec: {
      resourceRef: { apiGroup: "v1", kind: "PersistentVolumeClaim" },
      selector: { matchExpressions: [{ key: ".status.phase", operator: "NotIn", values: ["Bound"] }] },
      delay: { durationMilliseconds: 2000 },
      next: { statusTemplate: "phase: Bound\n" },
    },
  };
  const process = await cluster.start();
  await cluster.api.create("kwok.x-k8s.io/stages", bind);
  const { selector: _, ...rest } = bind.spec;
  await cluster.api.create("kwok.x-k8s.io/stages", { ...bind, metadata: { name: "broken" }, spec: rest });
  await cluster.api.create("/persistentvolumeclaims", {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "v", namespace: "default" },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  const phase = () =>
    (cluster.api.get("/persistentvolumeclaims", "default/v") as unknown as PersistentVolumeClaim).status?.phase;
  await cluster.run(1);
  expect(phase()).toBe("Pending");
  await cluster.run(3);
  expect(phase()).toBe("Bound");
  expect(cluster.all<{ reason?: string }>("/events").map(({ reason }) => reason)).toContain("InvalidStage");
  expect(process.log.lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toContain(
    "a stage is invalid",
  );
});

/** The shape that AICR's template makes. */
function aicrNode(name: string, index: number, gpu: boolean): object {
  const counts = gpu
    ? { cpu: "192", memory: "2048Gi", "ephemeral-storage": "3800Gi", pods: "250", "nvidia.com/gpu": "8" }
    : { cpu: "16", memory: "64Gi", "ephemeral-storage": "100Gi", pods: "110" };
  const gpuLabels = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/cuda.driver.major": "570",
    "nvidia.com/cuda.driver.minor": "86",
  };
  const condition = (type: string, status: string) => ({ type, status, reason: "Kwok", message: "" });
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      annotations: { "kwok.x-k8s.io/node": "fake", ...(gpu ? { "nvidia.com/gpu.driver.version": "570.86.16" } : {}) },
      labels: {
        type: "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": index % 2 === 0 ? "us-east-1a" : "us-east-1b",
        "aicr.nvidia.com/node-type": gpu ? "accelerated" : "system",
        ...(gpu ? gpuLabels : { "node-role.kubernetes.io/control-plane": "" }),
      },
    },
    spec: { taints: [{ key: "kwok.x-k8s.io/node", value: "fake", effect: "NoSchedule" }] },
    status: {
      capacity: counts,
      allocatable: counts,
      conditions: [
        condition("Ready", "True"),
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
      ],
      addresses: [{ type: "Hostname", address: name }],
      nodeInfo: {
        architecture: "amd64",
        kubeletVersion: "v1.33.5",
        containerRuntimeVersion: "containerd://1.7.0",
        operatingSystem: "linux",
      },
    },
  };
}

test("AICR's node set loads unchanged, keeps its labels and capacity, and runs pods", async () => {
  const cluster = await NodesCluster.create();
  for (const [index, name] of ["system-0", "system-1"].entries())
    await cluster.api.create("/nodes", aicrNode(name, index, false));
  for (let index = 0; index < 4; index++) await cluster.api.create("/nodes", aicrNode(`gpu-${index}`, index, true));
  const process = await cluster.start({ pools: [] });
  await cluster.pod("web", { nodeName: "system-1", containers: [{ name: "c", image: "i" }] });
  const eight = { name: "c", image: "i", resources: { limits: { "nvidia.com/gpu": "8" } } };
  for (let index = 0; index < 4; index++)
    await cluster.pod(`train-${index}`, { nodeName: `gpu-${index}`, containers: [eight] });
  await cluster.run(20);
  expect(cluster.phases()).toEqual([...[0, 1, 2, 3].map((index) => `train-${index} Running`), "web Running"]);
  for (const node of cluster.all<Node>("/nodes")) {
    expect(readyOf(node)).toBe("True");
    expect(node.status?.nodeInfo?.kubeletVersion).toBe("v1.33.5");
    expect(node.status?.phase).toBe("Running");
  }
  expect(cluster.node("gpu-0")?.status?.allocatable).toMatchObject({ "nvidia.com/gpu": "8", memory: "2Ti" });
  expect(process.metrics.render()).not.toContain(admissionFailures);
  expect(process.log.errors).toEqual([]);
});

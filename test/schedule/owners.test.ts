import { expect, test } from "vitest";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const podsRef = builtin.Pod;

async function owned(cluster: ScheduleCluster, owner: object, more: object = {}): Promise<void> {
  const created = await cluster.admin.create(podsRef, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default", ownerReferences: [owner], ...more },
    spec: { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] },
  } as never);
  if (!created.ok) throw new Error(created.message);
}

test("a pod whose owner is of an unserved kind is grouped by its owner reference, and runs", async () => {
  const cluster = await ScheduleCluster.create();
  await owned(cluster, { apiVersion: "example.com/v1", kind: "Thing", name: "t", uid: "u1", controller: true });
  await cluster.run(3);
  expect(cluster.groups()).toMatchObject([
    {
      metadata: { name: "pg-t-u1", ownerReferences: [{ kind: "Thing", name: "t", uid: "u1" }] },
      spec: { minMember: 1 },
    },
  ]);
  expect(cluster.pod1("p").status?.phase).toBe("Running");
});

test("an owner that may not be read ends the chain, and the pod is grouped by what it says of it", async () => {
  const cluster = await ScheduleCluster.create();
  cluster.kube.faults = {
    before: (verb, what) => (verb === "get" && what === "jobs j" ? refused("Forbidden", "not yours") : undefined),
  };
  const { metadata } = await cluster.create("batch/jobs", {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "j", namespace: "default", annotations: { "kai.scheduler/batch-min-member": "7" } },
    spec: { suspend: true, template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } } },
  });
  // A Job that is not its controller leaves the pod alone.
  await owned(cluster, { apiVersion: "batch/v1", kind: "Job", name: "j", uid: metadata.uid });
  await cluster.run(3);
  // What the Job says about its minimum is not known.
  expect(cluster.groups()).toMatchObject([
    {
      metadata: { name: `pg-j-${metadata.uid}`, ownerReferences: [{ kind: "Job", uid: metadata.uid }] },
      spec: { minMember: 1 },
    },
  ]);
  expect(cluster.pod1("p").status?.phase).toBe("Running");
});

test("of several owners the one that controls the pod counts, else the first", async () => {
  for (const [controller, name] of [
    [true, "pg-second-u2"],
    [false, "pg-first-u1"],
  ] as const) {
    const cluster = await ScheduleCluster.create();
    const owner = (each: string, uid: string) => ({ apiVersion: "example.com/v1", kind: "Thing", name: each, uid });
    const second = { ...owner("second", "u2"), ...(controller && { controller }) };
    await owned(cluster, owner("first", "u1"), { ownerReferences: [owner("first", "u1"), second] });
    await cluster.run(2);
    expect(cluster.groups().map(({ metadata }) => metadata.name)).toEqual([name]);
  }
});

test("the Config names the ConfigMap with the usual classes of kinds, and says whose pods are grouped", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  await cluster.create("/configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "priorities", namespace: "default" },
    data: { types: JSON.stringify([{ typeName: "Thing", group: "example.com", priorityName: "build-preemptible" }]) },
  });
  await cluster.create("kai.scheduler/configs", {
    apiVersion: "kai.scheduler/v1",
    kind: "Config",
    metadata: { name: "kai-config" },
    spec: {
      global: { podLabelSelector: { managed: "yes" }, schedulerName: "mine" },
      podGrouper: {
        args: {
          defaultPrioritiesConfigMapName: "priorities",
          defaultPrioritiesConfigMapNamespace: "default",
        },
      },
    },
  });
  await cluster.run(1);
  await owned(
    cluster,
    { apiVersion: "example.com/v1", kind: "Thing", name: "t", uid: "u1", controller: true },
    { labels: { managed: "yes" } },
  );
  await cluster.pod("other", { gpus: 1 });
  await cluster.run(3);
  expect(cluster.groups().map(({ metadata, spec }) => [metadata.name, spec?.priorityClassName])).toEqual([
    ["pg-t-u1", "build-preemptible"],
  ]);
  expect(cluster.pod1("other").spec?.nodeName).toBeUndefined();
  const warned = cluster.log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["problem"]);
  expect(warned).toEqual(['spec.global.schedulerName: "mine" is not supported, kai-scheduler is used']);
});

test("a workload of an unknown kind is read, and its labels become the group's", async () => {
  const cluster = await ScheduleCluster.create();
  const workload = await cluster.create("/configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "w", namespace: "default", labels: { "kai.scheduler/queue": "default-queue", team: "red" } },
  });
  const { uid } = workload.metadata;
  await owned(cluster, { apiVersion: "v1", kind: "ConfigMap", name: "w", uid, controller: true });
  await cluster.run(2);
  expect(cluster.groups()).toMatchObject([
    {
      metadata: { name: `pg-w-${uid}`, labels: { team: "red" } },
      spec: { queue: "default-queue", minMember: 1, priorityClassName: "train" },
    },
  ]);
  expect(cluster.pod1("p").metadata.annotations?.["pod-group-name"]).toBe(`pg-w-${uid}`);
});

test("an MPIJob's workers start without a launcher that comes later, and are a gang with it once it is there", async () => {
  const cluster = await ScheduleCluster.create();
  await cluster.create("apiextensions.k8s.io/customresourcedefinitions", {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "mpijobs.kubeflow.org" },
    spec: {
      group: "kubeflow.org",
      names: { kind: "MPIJob", plural: "mpijobs", singular: "mpijob" },
      scope: "Namespaced",
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
        },
      ],
    },
  });
  await cluster.run(1);
  const { metadata } = await cluster.create("kubeflow.org/mpijobs", {
    apiVersion: "kubeflow.org/v1",
    kind: "MPIJob",
    metadata: { name: "j", namespace: "default" },
    spec: {
      launcherCreationPolicy: "WaitForWorkersReady",
      mpiReplicaSpecs: { Launcher: { replicas: 1 }, Worker: { replicas: 2 } },
    },
  });
  const owner = { apiVersion: "kubeflow.org/v1", kind: "MPIJob", name: "j", uid: metadata.uid, controller: true };
  const member = (name: string, role: string) =>
    owned(cluster, owner, {
      name,
      labels: { "training.kubeflow.org/job-name": "j", "training.kubeflow.org/job-role": role },
    });
  const minimum = () => cluster.groups().map(({ spec }) => spec?.minMember);
  for (const name of ["w0", "w1"]) await member(name, "worker");
  await cluster.run(3);
  expect(minimum()).toEqual([2]);
  expect(cluster.pod1("w0").status?.phase).toBe("Running");
  await member("l", "launcher");
  await cluster.run(3);
  expect(minimum()).toEqual([3]);
  // A worker that comes in another's stead does not make the launcher unnecessary again.
  await cluster.admin.delete({ ...podsRef, namespace: "default", name: "w1" });
  await cluster.run(3);
  await member("w2", "worker");
  await cluster.run(3);
  expect(minimum()).toEqual([3]);
  expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Running", "Running", "Running"]);
});

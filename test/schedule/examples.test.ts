import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const folder = fileURLToPath(new URL("../../examples/kai/", import.meta.url));

const resources: Readonly<Record<string, string>> = {
  Queue: "scheduling.run.ai/queues",
  Pod: "/pods",
  Job: "batch/jobs",
  CustomResourceDefinition: "apiextensions.k8s.io/customresourcedefinitions",
  PyTorchJob: "kubeflow.org/pytorchjobs",
  RayCluster: "ray.io/rayclusters",
};

function documents(file: string): KubeObject[] {
  return parseAllDocuments(readFileSync(`${folder}${file}`, "utf8")).map((each) => each.toJS() as KubeObject);
}

/** The pods that the real operators would make, with their labels and owner. */
async function playOperator(cluster: ScheduleCluster, owner: KubeObject): Promise<void> {
  const { apiVersion, kind, metadata } = owner;
  const reference = { apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true };
  const make = (name: string, labels: Record<string, string>, spec: unknown): Promise<unknown> =>
    cluster.create("/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", labels, ownerReferences: [reference] },
      spec,
    });
  type Template = { template: { spec: unknown }; replicas?: number; groupName?: string };
  const spec = owner["spec"] as {
    pytorchReplicaSpecs?: Record<string, Template>;
    headGroupSpec?: Template;
    workerGroupSpecs?: Template[];
  };
  for (const [role, { replicas = 1, template }] of Object.entries(spec.pytorchReplicaSpecs ?? {})) {
    for (let at = 0; at < replicas; at++) {
      await make(
        `${metadata.name}-${role.toLowerCase()}-${at}`,
        { "training.kubeflow.org/replica-type": role.toLowerCase(), "training.kubeflow.org/replica-index": String(at) },
        template.spec,
      );
    }
  }
  if (spec.headGroupSpec === undefined) return;
  await make(
    `${metadata.name}-head`,
    { "ray.io/node-type": "head", "ray.io/group": "headgroup" },
    spec.headGroupSpec.template.spec,
  );
  for (const { groupName = "", replicas = 0, template } of spec.workerGroupSpecs ?? []) {
    for (let at = 0; at < replicas; at++)
      await make(
        `${metadata.name}-${groupName}-${at}`,
        { "ray.io/node-type": "worker", "ray.io/group": groupName },
        template.spec,
      );
  }
}

test("the KAI quick start runs, except for the gang that cannot fit, and that one says why", async () => {
  const cluster = await ScheduleCluster.create(["h100=2"]);
  for (const file of readdirSync(folder)
    .filter((name) => name.endsWith(".yaml"))
    .sort()) {
    for (const object of documents(file)) {
      const resource = resources[object.kind] as string;
      const { namespace: _, ...metadata } = object.metadata as { namespace?: string; name: string };
      const isScoped = object.kind !== "Queue" && object.kind !== "CustomResourceDefinition";
      const made = await cluster.create(resource, {
        ...object,
        metadata: isScoped ? { ...metadata, namespace: "default" } : metadata,
      });
      if (object.kind === "CustomResourceDefinition") await cluster.api.settle();
      if (object.kind === "PyTorchJob" || object.kind === "RayCluster") await playOperator(cluster, made);
    }
  }
  await cluster.run(12);
  const phases = new Map<string, string[]>();
  for (const { metadata, status } of cluster.pods()) {
    const workload = metadata.name.replace(/-.*/, "");
    phases.set(workload, [...(phases.get(workload) ?? []), status?.phase ?? ""]);
  }
  expect(Object.fromEntries([...phases].map(([name, all]) => [name, [...new Set(all)].join()]))).toEqual({
    half: "Running",
    resnet: "Running",
    tuning: "Running",
    too: "Pending",
  });
  const group = cluster.groups().find(({ metadata }) => metadata.name.startsWith("pg-too-big"));
  expect(group?.status?.schedulingConditions?.[0]?.message).toContain("needs places for 100 pods at once");
  const torch = cluster.groups().find(({ metadata }) => metadata.name.startsWith("pg-resnet"));
  expect(torch?.spec).toMatchObject({
    queue: "team-vision",
    subGroups: [{ name: "master" }, { name: "worker", minMember: 3 }],
  });
  const subGroups = cluster
    .pods()
    .filter(({ metadata }) => /^(resnet|tuning)/.test(metadata.name))
    .map(({ metadata }) => `${metadata.name} ${metadata.labels?.["kai.scheduler/subgroup-name"]}`);
  expect(subGroups.sort()).toEqual([
    "resnet-master-0 master",
    "resnet-worker-0 worker",
    "resnet-worker-1 worker",
    "resnet-worker-2 worker",
    "tuning-gpu-0 gpu",
    "tuning-gpu-1 gpu",
    "tuning-head headgroup",
  ]);
  // No node had to refuse anything.
  expect(cluster.pods().filter(({ status }) => status?.phase === "Failed")).toEqual([]);
});

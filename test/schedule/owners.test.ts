import { expect, test } from "vitest";
import { ScheduleCluster } from "./scheduleCluster.ts";

const podsRef = { group: "", version: "v1", plural: "pods" };

async function owned(cluster: ScheduleCluster, owner: object, more: object = {}): Promise<void> {
  const created = await cluster.admin.create(podsRef, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default", ownerReferences: [owner], ...more },
    spec: { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] },
  } as never);
  if (!created.ok) throw new Error(created.message);
}

test("a pod whose owner is of a kind that nobody serves is grouped by what it says of it, and runs", async () => {
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

test("a workload that nobody knows is read, and its labels are the group's", async () => {
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

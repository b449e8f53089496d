import { expect, test } from "vitest";
import { ScheduleCluster } from "./scheduleCluster.ts";

async function member(cluster: ScheduleCluster, name: string, group: string): Promise<void> {
  const spec = { schedulingGroup: { podGroupName: group } };
  await cluster.pod(name, { gpus: 8, scheduler: "default-scheduler", spec });
}

const conditionOf = (cluster: ScheduleCluster, name: string) =>
  (cluster.api.get("scheduling.k8s.io/podgroups", `default/${name}`) as { status?: { conditions?: object[] } }).status
    ?.conditions?.[0];

test("pods of a PodGroup of Kubernetes' own start together or not at all, and the group says which", async () => {
  const cluster = await ScheduleCluster.create(["h100=2"], { formsPlainGangs: true });
  const group = (name: string, minCount: number) =>
    cluster.create("scheduling.k8s.io/podgroups", {
      apiVersion: "scheduling.k8s.io/v1alpha2",
      kind: "PodGroup",
      metadata: { name, namespace: "default" },
      spec: { schedulingPolicy: { gang: { minCount } } },
    });
  await group("big", 3);
  for (const at of [0, 1, 2]) await member(cluster, `big-${at}`, "big");
  await cluster.run(3);
  expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(["Pending", "Pending", "Pending"]);
  expect(conditionOf(cluster, "big")).toMatchObject({
    type: "PodGroupInitiallyScheduled",
    status: "False",
    reason: "Unschedulable",
  });
  await group("fits", 2);
  for (const at of [0, 1]) await member(cluster, `fits-${at}`, "fits");
  await cluster.run(3);
  const running = cluster.pods().filter(({ status }) => status?.phase === "Running");
  expect(running.map(({ metadata }) => metadata.name)).toEqual(["fits-0", "fits-1"]);
  expect(conditionOf(cluster, "fits")).toMatchObject({ status: "True", reason: "Scheduled" });
});

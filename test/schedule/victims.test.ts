import { expect, test } from "vitest";
import { ScheduleCluster } from "./scheduleCluster.ts";

test("a pod of the default scheduler that is preempted has the condition DisruptionTarget before it is deleted", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.create("scheduling.k8s.io/priorityclasses", {
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name: "high" },
    value: 1000,
  });
  // It takes its time to stop, so that it can be looked at on its way.
  const annotations = { "sim.muster.dev/stop-delay": "20s" };
  await cluster.pod("low", { scheduler: "default-scheduler", gpus: 8, annotations });
  await cluster.run(3);
  await cluster.pod("high", { scheduler: "default-scheduler", gpus: 8, spec: { priorityClassName: "high" } });
  await cluster.run(5);
  const { metadata, status } = cluster.pod1("low");
  expect(metadata.deletionTimestamp).toBeDefined();
  const condition = status?.conditions?.find(({ type }) => type === "DisruptionTarget");
  expect(condition).toMatchObject({ status: "True", reason: "PreemptionByScheduler" });
});

import { expect, test } from "vitest";
import { scaleAdjusterComponent } from "../../src/control/schedule/scaleAdjuster.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

test("a share that waits for a machine gets a stand-in with a whole GPU, which makes way when there is one", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { components: [scaleAdjusterComponent()] });
  await cluster.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "kai-scale-adjust" } });
  await cluster.pod("full", { gpus: 8 });
  await cluster.run(2);
  await cluster.pod("half", { annotations: { "gpu-fraction": "0.5" } });
  await cluster.run(3);
  const standIns = () => cluster.pods().filter(({ metadata }) => metadata.namespace === "kai-scale-adjust");
  expect(standIns()).toMatchObject([
    {
      metadata: { name: "default-half" },
      status: { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }] },
    },
  ]);
  await cluster.admin.delete({ ...builtin.Pod, namespace: "default", name: "full" });
  await cluster.run(70);
  expect(standIns()).toEqual([]);
  expect(cluster.pod1("half").status?.phase).toBe("Running");
});

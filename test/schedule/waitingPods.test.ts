import { expect, test } from "vitest";
import { ScheduleCluster } from "./scheduleCluster.ts";

function seen(cluster: ScheduleCluster): Record<string, string> {
  cluster.measure();
  const series = /^(muster_(?:oldest_)?pending_pod\w*\{.*\}) (.+)$/gm;
  return Object.fromEntries([...cluster.metrics.render().matchAll(series)].map(([, name, value]) => [name, value]));
}

const pending = 'muster_pending_pods{node_pool="default",reason="PodSchedulingErrors"}';
const oldest = 'muster_oldest_pending_pod_age_seconds{node_pool="default",reason="PodSchedulingErrors"}';

test("metrics say how many pods wait, for which reason, and how old the oldest is; when they run both are zero", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  for (const name of ["fills", "waits-1", "waits-2"]) {
    await cluster.pod(name, { gpus: 8 });
    await cluster.run(10);
  }
  const waiting = seen(cluster);
  expect(waiting[pending]).toBe("2");
  expect(Math.floor(Number(waiting[oldest]))).toBe(20);
  for (const name of ["fills", "waits-1"]) {
    await cluster.api.delete("/pods", `default/${name}`);
    await cluster.run(45);
  }
  expect(seen(cluster)).toMatchObject({ [pending]: "0", [oldest]: "0" });
});

test("a process that does not lead counts no waiting pods: the leader does", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], {}, { isLate: true });
  await cluster.create("coordination.k8s.io/leases", {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "muster", namespace: "kube-system" },
    spec: { holderIdentity: "another", leaseDurationSeconds: 3600 },
  });
  await cluster.lead();
  await cluster.pod("waits", { gpus: 8 });
  await cluster.run(5);
  expect(seen(cluster)).toEqual({});
});

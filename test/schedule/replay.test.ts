import { expect, test } from "vitest";
import { devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import { takeSnapshot } from "../../src/control/verify/takeSnapshot.ts";
import { answerWhy, jobRows } from "../../src/decide/schedule/explain/report.ts";
import { poolClusters } from "../../src/decide/schedule/poolClusters.ts";
import { savedObjects } from "../../src/decide/schedule/savedObjects.ts";
import { allKinds } from "../../src/decide/verify/readKinds.ts";
import { parseSnapshot, snapshotText } from "../../src/decide/verify/snapshotFile.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

/** Saves the cluster, reads the file back, and lets the scheduler decide on it. */
async function replayed(cluster: ScheduleCluster) {
  const nowMs = () => cluster.api.clock.nowMs();
  const taken = await takeSnapshot(cluster.admin, allKinds, { nowMs });
  if (!taken.ok) throw new Error(`${taken.kind}: ${taken.refusal.message}`);
  expect(taken.snapshot.incoherent).toEqual([]);
  const file = [...snapshotText(taken.snapshot)].join("");
  const { objects, shards } = savedObjects(parseSnapshot(file, "saved.json"));
  return { pools: poolClusters(objects, shards), nowMs: taken.snapshot.takenAtMs };
}

const why = (cluster: ScheduleCluster, group: string): string | undefined =>
  cluster.groups().find(({ metadata }) => metadata.name.startsWith(group))?.status?.schedulingConditions?.[0]?.message;

async function sameWhy(cluster: ScheduleCluster, pod: string): Promise<string> {
  const told = why(cluster, `pg-${pod}-`) ?? "";
  expect(told).not.toBe("");
  const { pools, nowMs } = await replayed(cluster);
  const [answer] = pools.flatMap((each) => answerWhy(each, pod, nowMs));
  expect(`${answer?.message}. To run: ${answer?.cure}`).toBe(told);
  return told;
}

test("a saved cluster knows volumes, and says of them what the scheduler said", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"]);
  await cluster.create("storage.k8s.io/storageclasses", {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "slow" },
    provisioner: "example.com/none",
    volumeBindingMode: "Immediate",
  });
  await cluster.create("/persistentvolumeclaims", {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "data", namespace: "default" },
    spec: { storageClassName: "slow", accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  await cluster.pod("p", { gpus: 1, spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }] } });
  await cluster.run(3);
  expect(await sameWhy(cluster, "p")).toContain("PersistentVolumeClaim default/data is not bound yet");
});

test("a saved cluster knows claims of devices and what they have", async () => {
  const cluster = await ScheduleCluster.create(
    ["h100=1"],
    { allocatesDevices: true },
    { components: [devicesComponent()] },
  );
  await cluster.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "gpu.example.com" },
    spec: { selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }] },
  });
  await cluster.create("resource.k8s.io/resourceclaimtemplates", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "five", namespace: "default" },
    spec: {
      spec: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu.example.com", count: 5 } }] } },
    },
  });
  const spec = { resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "five" }] };
  await cluster.pod("a", { spec });
  await cluster.run(3);
  await cluster.pod("b", { spec });
  // Before its claim was made it had another reason; the same kind of reason is told again after a while.
  await cluster.run(20);
  expect(cluster.pod1("a").status?.phase).toBe("Running");
  await sameWhy(cluster, "b");
});

test("a saved cluster knows its node pools, how each behaves, and its priority classes", async () => {
  const cluster = await ScheduleCluster.create(["h100=1"], { readsShards: true });
  await cluster.create("kai.scheduler/schedulingshards", {
    apiVersion: "kai.scheduler/v1",
    kind: "SchedulingShard",
    metadata: { name: "default" },
    spec: { args: { "detailed-fit-errors": "true" } },
  });
  await cluster.create("scheduling.k8s.io/priorityclasses", {
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name: "mine" },
    value: 99,
  });
  await cluster.pod("full", { gpus: 8, labels: { priorityClassName: "mine" } });
  await cluster.run(3);
  await cluster.pod("p", { gpus: 1 });
  await cluster.run(3);
  const [node = ""] = cluster.api.names("/nodes");
  expect(await sameWhy(cluster, "p")).toContain(`${node} do not have enough GPUs`);
  const { pools, nowMs } = await replayed(cluster);
  const rows = pools.flatMap((each) => jobRows(each, nowMs, true));
  expect(rows.map(({ id, priority }) => [id.split("-")[1], priority])).toEqual([
    ["full", 99],
    ["p", 50],
  ]);
});

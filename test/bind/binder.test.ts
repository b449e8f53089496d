import { expect, test } from "vitest";
import { deviceOf } from "../../src/decide/bind/reservation.ts";
import { BindCluster } from "./bindCluster.ts";

test("S4: 32 quarters of 8 GPUs are bound at once, four to a group, and no reservation is ever lost", async () => {
  const cluster = await BindCluster.create();
  for (let i = 0; i < 32; i++) {
    const pod = await cluster.pod(`p${i}`, { "gpu-fraction": "0.25" });
    await cluster.request(pod, { selectedNode: "h100-0", selectedGPUGroups: [`g${i % 8}`] });
  }
  await cluster.startBinder();
  await cluster.run(20);
  expect(cluster.pods().map(({ metadata }) => cluster.phase(metadata.name))).toEqual(Array(32).fill("Succeeded"));
  expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(Array(32).fill("Running"));
  expect(cluster.reservations()).toHaveLength(8);
  expect(new Set(cluster.reservations().map(deviceOf)).size).toBe(8);
  expect(cluster.lost).toEqual([]);
  for (const pod of cluster.pods()) {
    const group = pod.metadata.labels?.["runai-gpu-group"];
    const reservation = cluster.reservations().find(({ metadata }) => metadata.labels?.["runai-gpu-group"] === group);
    const prefix = pod.metadata.annotations?.["runai/shared-gpu-configmap"];
    expect(cluster.configMap(`${prefix}-0`)?.data).toEqual({
      NVIDIA_VISIBLE_DEVICES: reservation && deviceOf(reservation),
      GPU_PORTION: "0.25",
      RUNAI_NUM_OF_GPUS: "0.25",
    });
  }
  for (const { metadata } of cluster.pods()) await cluster.api.delete("/pods", `default/${metadata.name}`);
  await cluster.run(60);
  expect(cluster.pods()).toEqual([]);
  expect(cluster.reservations()).toEqual([]);
  expect(cluster.lost).toHaveLength(8);
  expect(cluster.log.errors).toEqual([]);
});

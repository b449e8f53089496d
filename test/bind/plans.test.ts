/** The three plans of the binder's founding document, as far as they need no scheduler. */
import { expect, test } from "vitest";
import { deviceOf } from "../../src/decide/bind/reservation.ts";
import type { KubeObject } from "../../src/model/object.ts";
import { BindCluster } from "./bindCluster.ts";

const quarter = { "gpu-fraction": "0.25" };

test.each([1, 2])("S4 on 32 GPUs, run %i: 32 groups of one pod each, 32 of 32 reservations survive", async () => {
  const cluster = await BindCluster.create(["h100=4"]);
  for (let i = 0; i < 32; i++) {
    const pod = await cluster.pod(`p${i}`, quarter);
    await cluster.request(pod, { selectedNode: `h100-${Math.floor(i / 8)}`, selectedGPUGroups: [`g${i}`] });
  }
  await cluster.startBinder();
  await cluster.run(20);
  expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(Array(32).fill("Running"));
  expect(cluster.reservations()).toHaveLength(32);
  expect(new Set(cluster.reservations().map(deviceOf)).size).toBe(32);
  expect(cluster.lost).toEqual([]);
  expect(cluster.log.errors).toEqual([]);
});

test("S5: 32 groups on four nodes with ConfigMaps and reservations there already, and heartbeats all the time", async () => {
  const cluster = await BindCluster.create(["h100=4"], { heartbeatMs: 100 });
  for (let i = 0; i < 32; i++) {
    const name = `p${i}`;
    const node = `h100-${Math.floor(i / 8)}`;
    const pod = await cluster.pod(name, { ...quarter, "runai/shared-gpu-configmap": `${name}-shared-gpu` });
    for (const map of [`${name}-shared-gpu-0`, `${name}-shared-gpu-0-evar`]) {
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: map, namespace: "default" } };
      await cluster.admin.create({ group: "", version: "v1", plural: "configmaps" }, object as KubeObject);
    }
    await cluster.request(pod, { selectedNode: node, selectedGPUGroups: [`g${i}`] });
  }
  await cluster.startBinder();
  await cluster.run(4);
  expect(cluster.pods().map(({ metadata }) => cluster.phase(metadata.name))).toEqual(Array(32).fill("Succeeded"));
  expect(cluster.reservations()).toHaveLength(32);
  expect(cluster.lost).toEqual([]);
  const heartbeats = cluster
    .reservations()
    .map(({ metadata }) => metadata.annotations?.["run.ai/test-annotator-heartbeat"]);
  expect(heartbeats).not.toContain(undefined);
  expect(cluster.configMap("p0-shared-gpu-0")).toMatchObject({
    metadata: { ownerReferences: [{ kind: "Pod", name: "p0" }] },
    data: { GPU_PORTION: "0.25" },
  });
});

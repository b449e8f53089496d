/** Shares of GPUs from the pod alone: the scheduler places them, the binder binds them. */
import { expect, test } from "vitest";
import { deviceOf } from "../../src/decide/bind/reservation.ts";
import { BindCluster } from "./bindCluster.ts";

function usersByGroup(cluster: BindCluster): number[] {
  const users = new Map<string, number>();
  for (const { metadata } of cluster.pods()) {
    const group = metadata.labels?.["runai-gpu-group"] ?? "none";
    users.set(group, (users.get(group) ?? 0) + 1);
  }
  return [...users.values()];
}

test("32 quarters submitted at once to one node of 8 GPUs all run, and every reservation is still there", async () => {
  const cluster = await BindCluster.create();
  await cluster.startBinder();
  await cluster.startScheduler();
  for (let i = 0; i < 32; i++) await cluster.pod(`p${i}`, { "gpu-fraction": "0.25" });
  await cluster.run(10);
  expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(Array(32).fill("Running"));
  expect(usersByGroup(cluster)).toEqual(Array(8).fill(4));
  expect(new Set(cluster.reservations().map(deviceOf)).size).toBe(8);
  expect(cluster.lost).toEqual([]);
  expect(cluster.log.errors).toEqual([]);
});

test("S6: 64 halves on 4 nodes of 8 GPUs, in 5 rounds: two a group, one reservation a group, nothing left after", async () => {
  const cluster = await BindCluster.create(["h100=4"]);
  await cluster.startBinder();
  await cluster.startScheduler();
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 64; i++) await cluster.pod(`p${round}-${i}`, { "gpu-fraction": "0.5" });
    await cluster.run(6);
    expect(cluster.pods().map(({ status }) => status?.phase)).toEqual(Array(64).fill("Running"));
    expect(usersByGroup(cluster)).toEqual(Array(32).fill(2));
    expect(cluster.reservations()).toHaveLength(32);
    for (const { metadata } of cluster.pods()) await cluster.api.delete("/pods", `default/${metadata.name}`);
    await cluster.run(5);
    expect([cluster.pods().length, cluster.reservations().length]).toEqual([0, 0]);
  }
  expect(cluster.log.errors).toEqual([]);
});

/** `muster up`, killed while it binds, and started again on the same data. */
import { afterAll, expect, test } from "vitest";
import { deviceOf, holdersOf } from "../../src/decide/bind/reservation.ts";
import type { ConfigMap, Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { podsRef, UpCluster } from "./upCluster.ts";

const up = new UpCluster();
afterAll(() => up.stop());

const reservations = (): Promise<Pod[]> => up.list<Pod>(podsRef, "kai-resource-reservation");
const groupOf = ({ metadata }: Pod): string => metadata.labels?.["runai-gpu-group"] ?? "none";

test("64 halves are bound, two a GPU and each with its device, by processes that are killed again and again", async () => {
  await up.start("--pool", "h100=4");
  for (let i = 0; i < 64; i++) await up.share(`h${i}`, "0.5");
  for (const enough of [4, 12]) {
    await up.until(async () => (await reservations()).length >= enough);
    await up.kill();
    await up.start("--pool", "h100=4");
  }
  const pods = (): Promise<Pod[]> => up.list<Pod>(podsRef, "default");
  await up.until(async () => (await pods()).filter(({ status }) => status?.phase === "Running").length === 64);
  const all = await pods();
  const held = await reservations();
  const devices = new Map(held.map((each) => [groupOf(each), deviceOf(each)]));
  expect([held.length, new Set(devices.values()).size]).toEqual([32, 32]);
  const maps = await up.list<ConfigMap>(builtin.ConfigMap, "default");
  const said = new Map(maps.map(({ metadata, data }) => [metadata.name, data?.["NVIDIA_VISIBLE_DEVICES"]]));
  const users = new Map<string, number>();
  for (const pod of all) {
    users.set(groupOf(pod), (users.get(groupOf(pod)) ?? 0) + 1);
    expect(said.get(`${pod.metadata.annotations?.["runai/shared-gpu-configmap"]}-0`)).toBe(devices.get(groupOf(pod)));
  }
  expect([...users.values()]).toEqual(Array(32).fill(2));
  const uids = new Set(all.map(({ metadata }) => metadata.uid));
  expect(held.flatMap((each) => [...holdersOf(each).keys()]).filter((uid) => !uids.has(uid))).toEqual([]);
  for (const { metadata } of all)
    await up.api.delete({ ...podsRef, namespace: "default", name: metadata.name }, { gracePeriodSeconds: 1 });
  await up.until(async () => (await pods()).length === 0 && (await reservations()).length === 0);
});

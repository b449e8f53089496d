/**
 * The three plans of the binder's founding document, and the fourth that it never got to run. The binder is the real
 * one with ten workers; a reservation is lost if it was deleted at any moment, not only if it is missing in the end.
 */
import { describe, expect, test } from "vitest";
import { deviceOf } from "../../src/decide/bind/reservation.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { findProfile, profilesWith } from "../../src/model/profiles/profiles.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { BindCluster } from "./bindCluster.ts";
import { InterceptedApi } from "./interceptedApi.ts";

const quarter = { "gpu-fraction": "0.25" };
const queued = { labels: { "kai.scheduler/queue": "default-queue" } };
const heartbeat = "run.ai/test-annotator-heartbeat";
const configMaps = builtin.ConfigMap;

/** A profile with this number of GPUs; the largest real one has eight. */
function wideNode(gpus: number) {
  const h100 = findProfile(profilesWith(), "h100");
  if (h100.gpu === undefined) throw new Error("an h100 has GPUs");
  return { ...h100, name: "wide", gpu: { ...h100.gpu, count: gpus } };
}

function phases(cluster: BindCluster): string[] {
  return cluster.pods().map(({ metadata }) => cluster.phase(metadata.name));
}

function running(cluster: BindCluster): number {
  return cluster.pods().filter(({ status }) => status?.phase === "Running").length;
}

/** Pods of each group; checks that each pod has the device of its group's reservation. */
function usersByGroup(cluster: BindCluster): number[] {
  const devices = new Map(
    cluster.reservations().map((each) => [each.metadata.labels?.["runai-gpu-group"], deviceOf(each)]),
  );
  const users = new Map<string, number>();
  for (const { metadata } of cluster.pods()) {
    const group = metadata.labels?.["runai-gpu-group"] ?? "none";
    users.set(group, (users.get(group) ?? 0) + 1);
    const prefix = metadata.annotations?.["runai/shared-gpu-configmap"];
    const told = cluster.configMap(`${prefix}-0`)?.data?.["NVIDIA_VISIBLE_DEVICES"];
    expect(told, `${metadata.name} of ${group}`).toBe(devices.get(group));
  }
  return [...users.values()];
}

async function cleanUp(cluster: BindCluster): Promise<void> {
  for (const { metadata } of cluster.pods()) await cluster.api.delete("/pods", `default/${metadata.name}`);
  await cluster.run(40);
  expect([cluster.pods(), cluster.reservations()]).toEqual([[], []]);
  expect(cluster.api.names("/configmaps").filter((key) => key.includes("shared-gpu"))).toEqual([]);
  expect(cluster.api.names("scheduling.run.ai/bindrequests")).toEqual([]);
}

describe("BindRequests of 32 quarters at once, ten workers", () => {
  test.each([
    { gpus: 8, groups: 8, share: 4 },
    { gpus: 32, groups: 32, share: 1 },
  ])(
    "a node of $gpus GPUs, $groups groups, run twice: $groups of $groups reservations survive",
    async ({ gpus, groups, share }) => {
      const cluster = await BindCluster.create(["wide=1"], {}, [wideNode(gpus)]);
      const binder = await cluster.startBinder({ workers: 10 });
      for (const run of [1, 2]) {
        const lostBefore = cluster.lost.length;
        for (let i = 0; i < 32; i++) {
          const pod = await cluster.pod(`p${run}-${i}`, quarter, {}, queued);
          await cluster.request(pod, { selectedNode: "wide-0", selectedGPUGroups: [`g${run}-${i % groups}`] });
        }
        await cluster.run(15);
        expect(phases(cluster)).toEqual(Array(32).fill("Succeeded"));
        expect(running(cluster)).toBe(32);
        expect(cluster.reservations()).toHaveLength(groups);
        expect(new Set(cluster.reservations().map(deviceOf)).size).toBe(groups);
        expect(usersByGroup(cluster)).toEqual(Array(groups).fill(share));
        expect(cluster.lost.length - lostBefore).toBe(0);
        expect(cluster.kube.calls.filter((call) => call.startsWith("bind pods p")).length).toBe(32 * run);
        await cleanUp(cluster);
      }
      expect(cluster.log.errors).toEqual([]);
      await binder.stop();
    },
  );
});

test.each([
  { name: "by default sixty-four", options: {}, atOnce: 64 },
  { name: "of ten workers ten", options: { settings: { workers: 10 } }, atOnce: 10 },
])("$name binds run at once, and not more", async ({ options, atOnce }) => {
  const cluster = await BindCluster.create(["wide=1"], {}, [wideNode(80)]);
  const way = new InterceptedApi();
  cluster.through((kube) => way.of(kube));
  const held: (() => void)[] = [];
  way.before = ({ verb, plural }) =>
    verb === "create" && plural === "pods" ? new Promise<void>((resolve) => held.push(resolve)) : undefined;
  for (let i = 0; i < 80; i++) {
    const pod = await cluster.pod(`p${i}`, quarter, {}, queued);
    await cluster.request(pod, { selectedNode: "wide-0", selectedGPUGroups: [`g${i}`] });
  }
  await cluster.startBinder(options);
  await cluster.run(2);
  expect(held).toHaveLength(atOnce);
  way.before = () => undefined;
  for (const go of held) go();
  await cluster.run(10);
  expect([running(cluster), cluster.reservations().length, cluster.lost]).toEqual([80, 80, []]);
});

test("4 nodes of 8 GPUs, 32 groups: both ConfigMaps of every pod exist while the device plugin patches every 100 ms", async () => {
  const cluster = await BindCluster.create(["h100=4"], { heartbeatMs: 100 });
  for (let i = 0; i < 32; i++) {
    const name = `p${i}`;
    const pod = await cluster.pod(name, { ...quarter, "runai/shared-gpu-configmap": `${name}-shared-gpu` }, {}, queued);
    for (const map of [`${name}-shared-gpu-0`, `${name}-shared-gpu-0-evar`]) {
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: map, namespace: "default" } };
      await cluster.admin.create(configMaps, object as KubeObject);
    }
    await cluster.reserve(`h100-${Math.floor(i / 8)}`, `g${i}`);
    await cluster.request(pod, { selectedNode: `h100-${Math.floor(i / 8)}`, selectedGPUGroups: [`g${i}`] });
  }
  // The reservations run, and their nodes patch index and heartbeat, before the binder looks for the first time.
  await cluster.run(1);
  const before = cluster.reservations();
  expect(before.filter((each) => deviceOf(each) !== undefined)).toHaveLength(32);
  await cluster.startBinder();
  await cluster.run(1);
  expect(cluster.reservations().map(({ metadata }) => metadata.uid)).toEqual(
    before.map(({ metadata }) => metadata.uid),
  );
  expect(cluster.lost).toEqual([]);
  await cluster.run(5);
  expect(phases(cluster)).toEqual(Array(32).fill("Succeeded"));
  expect(cluster.reservations()).toHaveLength(32);
  expect(usersByGroup(cluster)).toEqual(Array(32).fill(1));
  expect(cluster.lost).toEqual([]);
  const beats = () => cluster.reservations().map(({ metadata }) => metadata.annotations?.[heartbeat]);
  const earlier = beats();
  await cluster.run(0.3);
  for (const [at, beat] of beats().entries()) expect(beat).not.toBe(earlier[at]);
  expect(cluster.configMap("p0-shared-gpu-0")).toMatchObject({
    metadata: { ownerReferences: [{ kind: "Pod", name: "p0" }] },
    data: { GPU_PORTION: "0.25" },
  });
  expect(cluster.log.errors).toEqual([]);
});

test("32 quarters submitted at once through the scheduler to one node of 8 GPUs all run, and every reservation is still there", async () => {
  const cluster = await BindCluster.create();
  await cluster.startBinder();
  await cluster.startScheduler();
  await Promise.all(Array.from({ length: 32 }, (_, i) => cluster.pod(`p${i}`, quarter, {}, queued)));
  await cluster.run(10);
  expect(running(cluster)).toBe(32);
  expect(usersByGroup(cluster)).toEqual(Array(8).fill(4));
  expect(new Set(cluster.reservations().map(deviceOf)).size).toBe(8);
  expect(cluster.lost).toEqual([]);
  expect(cluster.log.errors).toEqual([]);
});

test("64 halves at once on 4 nodes of 8 GPUs, 5 rounds: two a group, one reservation a group, nothing left after", async () => {
  const cluster = await BindCluster.create(["h100=4"]);
  await cluster.startBinder();
  await cluster.startScheduler();
  for (let round = 0; round < 5; round++) {
    const lostBefore = cluster.lost.length;
    await Promise.all(
      Array.from({ length: 64 }, (_, i) => cluster.pod(`p${round}-${i}`, { "gpu-fraction": "0.5" }, {}, queued)),
    );
    await cluster.run(6);
    expect(running(cluster)).toBe(64);
    expect(usersByGroup(cluster)).toEqual(Array(32).fill(2));
    expect(cluster.reservations()).toHaveLength(32);
    expect(new Set(cluster.reservations().map(deviceOf)).size).toBe(32);
    expect(cluster.lost.length - lostBefore).toBe(0);
    await cleanUp(cluster);
  }
  expect(cluster.log.errors).toEqual([]);
});

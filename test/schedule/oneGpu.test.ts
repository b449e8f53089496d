/**
 * One physical GPU has one holder, whichever way it is given out: device plugin, claim, MIG partition, share with a
 * reservation.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import { answerWhy, nodeRows } from "../../src/decide/schedule/explain/report.ts";
import { type ClusterObjects, clusterOf } from "../../src/decide/schedule/model/clusterOf.ts";
import type { Pod, ResourceClaim, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import { isReservationPod } from "../../src/model/scheduling/keys.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

async function start(pools: readonly string[] = ["h100=1"]): Promise<ScheduleCluster> {
  const cluster = await ScheduleCluster.create(pools, { allocatesDevices: true }, { components: [devicesComponent()] });
  await cluster.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "gpu" },
    spec: { selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }] },
  });
  await cluster.create("resource.k8s.io/resourceclaimtemplates", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "one", namespace: "default" },
    spec: { spec: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu" } }] } } },
  });
  await cluster.run(0.5);
  return cluster;
}

type Way = "plugin" | "claim" | "share";

async function pod(cluster: ScheduleCluster, name: string, way: Way, scheduler = "default-scheduler"): Promise<void> {
  if (way === "plugin") await cluster.pod(name, { gpus: 1, scheduler });
  else if (way === "share") await cluster.pod(name, { annotations: { "gpu-fraction": "0.5" } });
  else {
    const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: "one" }];
    await cluster.pod(name, { scheduler, spec: { resourceClaims } });
  }
}

/** By GPU or partition: the pods and claims that have it, as nodes and claims report it. */
function holders(cluster: ScheduleCluster): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const add = (id: string, who: string) => found.set(id, [...(found.get(id) ?? []), who]);
  for (const each of cluster.all<Pod>("/pods")) {
    if (each.status?.phase === "Failed" || each.status?.phase === "Succeeded") continue;
    const text = each.metadata.annotations?.["sim.muster.dev/devices"];
    const assignment = (text === undefined ? {} : JSON.parse(text)) as Record<string, Record<string, string[]>>;
    for (const id of Object.values(assignment).flatMap((of) => Object.values(of).flat())) {
      add(id, isReservationPod(each) ? "reservation" : each.metadata.name);
    }
  }
  const devices = new Map<string, string>();
  for (const { spec } of cluster.all<ResourceSlice>("resource.k8s.io/resourceslices")) {
    for (const { name, attributes } of spec.devices ?? []) {
      devices.set(`${spec.pool.name}/${name}`, attributes?.["uuid"]?.string ?? "");
    }
  }
  for (const { metadata, status } of cluster.all<ResourceClaim>("resource.k8s.io/resourceclaims")) {
    for (const { pool, device } of status?.allocation?.devices?.results ?? []) {
      add(devices.get(`${pool}/${device}`) ?? "", metadata.name);
    }
  }
  return found;
}

const doubles = (cluster: ScheduleCluster): string[] =>
  [...holders(cluster)].filter(([, of]) => of.length > 1).map(([id, of]) => `${id}: ${of.join(", ")}`);
const running = (cluster: ScheduleCluster): string[] =>
  cluster
    .pods()
    .filter(({ status }) => status?.phase === "Running")
    .map(({ metadata }) => metadata.name);
const waiting = (cluster: ScheduleCluster): Pod[] => cluster.pods().filter(({ spec }) => !spec?.nodeName);

function seen(cluster: ScheduleCluster): ReturnType<typeof clusterOf> {
  const all = <T>(resource: string): T[] => cluster.all<T>(resource);
  const objects: ClusterObjects = {
    pods: all("/pods"),
    nodes: all("/nodes"),
    queues: all("scheduling.run.ai/queues"),
    groups: all("scheduling.run.ai/podgroups"),
    requests: all("scheduling.run.ai/bindrequests"),
    topologies: [],
    priorityClasses: all("scheduling.k8s.io/priorityclasses"),
    volumeClaims: [],
    volumes: [],
    classes: [],
    devices: {
      claims: all("resource.k8s.io/resourceclaims"),
      slices: all("resource.k8s.io/resourceslices"),
      classes: all("resource.k8s.io/deviceclasses"),
    },
  };
  return clusterOf(objects);
}

test("a pod with nvidia.com/gpu and a pod with a claim get different GPUs", async () => {
  const cluster = await start();
  await pod(cluster, "plain", "plugin");
  await pod(cluster, "claims", "claim");
  await cluster.run(6);
  expect(running(cluster).sort()).toEqual(["claims", "plain"]);
  expect(doubles(cluster)).toEqual([]);
  expect(holders(cluster).size).toBe(2);
});

test("of eight claims and eight pods with nvidia.com/gpu on eight GPUs eight run, and why says what the others wait for", async () => {
  const cluster = await start();
  for (let i = 0; i < 8; i++) {
    await pod(cluster, `c${i}`, "claim");
    await pod(cluster, `p${i}`, "plugin");
  }
  await cluster.run(20);
  expect(doubles(cluster)).toEqual([]);
  expect(running(cluster)).toHaveLength(8);
  expect(waiting(cluster)).toHaveLength(8);
  expect(nodeRows(seen(cluster), 0)).toMatchObject([{ total: 8, free: 0 }]);
  for (const { metadata } of waiting(cluster)) {
    const [answer] = answerWhy(seen(cluster), metadata.name, cluster.api.clock.nowMs());
    expect(answer?.message).toMatch(
      /fits 0 of 1 nodes: 1 node\(s\) (do not have enough GPUs|cannot allocate all claims|have given)/,
    );
    expect(answer?.cure).not.toBe("");
  }
});

test("a pod that ends frees its GPU for pods that request it the other way", async () => {
  const cluster = await start();
  for (let i = 0; i < 8; i++) await pod(cluster, `c${i}`, "claim");
  await cluster.run(5);
  await pod(cluster, "late", "plugin");
  await cluster.run(5);
  expect(waiting(cluster).map(({ metadata }) => metadata.name)).toEqual(["late"]);
  await cluster.api.delete("/pods", "default/c3");
  await cluster.run(45);
  expect(running(cluster)).toContain("late");
  expect(doubles(cluster)).toEqual([]);
  await pod(cluster, "later", "claim");
  await cluster.run(5);
  expect(waiting(cluster).map(({ metadata }) => metadata.name)).toEqual(["later"]);
  await cluster.api.delete("/pods", "default/late");
  await cluster.run(45);
  expect(running(cluster)).toContain("later");
  expect(doubles(cluster)).toEqual([]);
});

test("shares, claims and whole GPUs on one node: a shared GPU is in no claim", async () => {
  const cluster = await start();
  for (let i = 0; i < 4; i++) {
    await pod(cluster, `s${i}`, "share");
    await pod(cluster, `c${i}`, "claim");
    await pod(cluster, `p${i}`, "plugin");
  }
  await cluster.run(25);
  expect(doubles(cluster)).toEqual([]);
  expect(holders(cluster).size).toBe(8);
  // Four shares of a half are two GPUs at best, and ten GPUs are wanted of eight.
  expect(waiting(cluster).length).toBeLessThanOrEqual(4);
});

test("a MIG partition is in a claim or with a pod, not both", async () => {
  const cluster = await start(["h100=1"]);
  const fault = { kind: "mig-reconfigure", strategy: "mixed", partitions: "3g.40gb=2", down: "1s" };
  await cluster.admin.patch(
    { group: "", version: "v1", plural: "nodes", namespace: "", name: "h100-0" },
    { type: "merge", body: { metadata: { annotations: { "sim.muster.dev/faults": JSON.stringify([fault]) } } } },
  );
  await cluster.run(15);
  const node = cluster.all<{ status: { allocatable: Record<string, string> } }>("/nodes")[0];
  const [resource = "", amount = "0"] =
    Object.entries(node?.status.allocatable ?? {}).find(([name]) => name.startsWith("nvidia.com/mig-")) ?? [];
  const count = Number(amount);
  expect(count).toBeGreaterThan(0);
  const profile = resource.replace("nvidia.com/mig-", "");
  await cluster.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "part" },
    spec: { selectors: [{ cel: { expression: `device.attributes["gpu.nvidia.com"].profile == "${profile}"` } }] },
  });
  await cluster.create("resource.k8s.io/resourceclaimtemplates", {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "part", namespace: "default" },
    spec: { spec: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "part" } }] } } },
  });
  const amounts = { [resource]: "1" };
  for (let i = 0; i < count; i++) {
    const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: "part" }];
    await cluster.pod(`c${i}`, { scheduler: "default-scheduler", spec: { resourceClaims } });
    const containers = [{ name: "main", image: "i", resources: { requests: amounts, limits: amounts } }];
    await cluster.pod(`p${i}`, { scheduler: "default-scheduler", spec: { containers } });
  }
  await cluster.run(30);
  expect(doubles(cluster)).toEqual([]);
  expect(running(cluster)).toHaveLength(count);
});

test("a pod with nvidia.com/gpu preempts a pod of lower priority whose claim has the GPU, and the other way round", async () => {
  const cluster = await start();
  await cluster.create("scheduling.k8s.io/priorityclasses", {
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name: "high" },
    value: 1000,
  });
  const spec = { terminationGracePeriodSeconds: 1 };
  const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: "one" }];
  for (let i = 0; i < 4; i++) {
    await cluster.pod(`c${i}`, { scheduler: "default-scheduler", spec: { ...spec, resourceClaims } });
    await cluster.run(3);
    await cluster.pod(`p${i}`, { scheduler: "default-scheduler", gpus: 1, spec });
    await cluster.run(3);
  }
  expect(running(cluster)).toHaveLength(8);
  const high = { ...spec, priorityClassName: "high" };
  for (let i = 0; i < 6; i++) await cluster.pod(`hp${i}`, { scheduler: "default-scheduler", gpus: 1, spec: high });
  await cluster.run(60);
  expect(running(cluster).filter((name) => name.startsWith("hp"))).toHaveLength(6);
  for (let i = 0; i < 2; i++) {
    await cluster.pod(`hc${i}`, { scheduler: "default-scheduler", spec: { ...high, resourceClaims } });
  }
  await cluster.run(60);
  expect(running(cluster).filter((name) => name.startsWith("hc"))).toHaveLength(2);
  expect(doubles(cluster)).toEqual([]);
});

test("no mix of ways, schedulers and departures gives a GPU to two, and no GPU is left while a pod waits for one", async () => {
  const step = fc.oneof(
    fc.record({
      do: fc.constant("make" as const),
      way: fc.constantFrom<Way>("plugin", "claim", "share"),
      scheduler: fc.constantFrom("default-scheduler", "kai-scheduler"),
    }),
    fc.record({ do: fc.constant("take" as const), which: fc.nat(20), byForce: fc.boolean() }),
    fc.record({ do: fc.constant("wait" as const), seconds: fc.constantFrom(0.05, 0.3, 2) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 30 }), async (steps) => {
      const cluster = await start();
      for (const [i, each] of steps.entries()) {
        if (each.do === "make") await pod(cluster, `w${i}`, each.way, each.scheduler);
        else if (each.do === "wait") await cluster.run(each.seconds);
        else {
          const names = cluster.pods().map(({ metadata }) => metadata.name);
          const name = names[each.which % Math.max(1, names.length)];
          if (name !== undefined) {
            await cluster.api.delete("/pods", `default/${name}`, each.byForce ? { gracePeriodSeconds: 0 } : {});
          }
        }
        expect(doubles(cluster)).toEqual([]);
      }
      await cluster.run(90);
      expect(doubles(cluster)).toEqual([]);
      const whole = waiting(cluster).filter(({ metadata }) => metadata.annotations?.["gpu-fraction"] === undefined);
      if (whole.length > 0) expect(holders(cluster).size).toBe(8);
      expect(cluster.log.errors).toEqual([]);
    }),
    { numRuns: 8, seed: 7 },
  );
});

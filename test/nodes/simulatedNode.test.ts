/** The API server accepts the writes of a simulated node, and stores the objects that the node expects. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { applyIntent } from "../../src/intents/applyIntent.ts";
import { draDefaults } from "../../src/kubelet/devices/draDevices.ts";
import { nextForSlices } from "../../src/kubelet/devices/draDriver.ts";
import { type Fault, readFault } from "../../src/kubelet/node/faults.ts";
import { intentOfWrite } from "../../src/kubelet/node/intentOfWrite.ts";
import { nextForNode, nodeLifeDefaults } from "../../src/kubelet/node/nodeLife.ts";
import type { NodeWrite } from "../../src/kubelet/node/nodeWrite.ts";
import { nodeObject, simNode } from "../../src/kubelet/node/simNode.ts";
import {
  claimLifeDefaults,
  claimsPrepared,
  nextForClaim,
  type PreparedClaim,
} from "../../src/kubelet/pods/claimLife.ts";
import { nextForPod } from "../../src/kubelet/pods/podLife.ts";
import { generalDelays } from "../../src/kubelet/pods/podPlan.ts";
import type { PodMemory } from "../../src/kubelet/pods/podStatus.ts";
import { parseStages, type Stage } from "../../src/kubelet/stages/stage.ts";
import { nextForObject, type StageJob } from "../../src/kubelet/stages/stageEngine.ts";
import type { Lease, Node, Pod, ResourceClaim, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import type { Outcome } from "../../src/model/outcome.ts";
import { findProfile, profilesWith } from "../../src/model/profiles/profiles.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { ObjectRef } from "../../src/ports/kubeApi.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";

const nodes = builtin.Node;
const pods = builtin.Pod;
const leases = builtin.Lease;
const slices = builtin.ResourceSlice;
const claims = builtin.ResourceClaim;

/** One node against the embedded API server, reconciled at each step of the clock. */
async function liveNode(faults: (nowMs: number) => Fault[] = () => []) {
  const { core, clock } = await TestApi.start();
  const kube = inProcessKube(core, { user: { username: "node", groups: ["system:masters"] }, fieldManager: "sim" });
  const profile = findProfile(profilesWith(), "h100");
  const sim = simNode({ clusterSeed: "s", pool: "h100", profile, index: 0 });
  const list = faults(clock.nowMs());
  const refusals: string[] = [];
  const memories = new Map<string, PodMemory>();
  const prepared = new Map<string, PreparedClaim>();
  const note = (what: string, outcome: Outcome<unknown>) => {
    if (!outcome.ok && outcome.reason !== "Conflict") refusals.push(`${what}: ${outcome.reason} ${outcome.message}`);
  };

  async function send(write: NodeWrite): Promise<void> {
    const intent = intentOfWrite(write, { absentAtRevision: "0", why: "simulated" });
    if (intent !== undefined) note(intent.type, await applyIntent(kube, intent));
    else if (write.kind !== "event") refusals.push(`${write.kind} of a node that is no intent`);
  }

  async function get<T extends KubeObject>(ref: ObjectRef<T>): Promise<T | undefined> {
    const found = await kube.get(ref);
    return found.ok ? found.value : undefined;
  }

  async function all<T>(kind: Resource): Promise<T[]> {
    const found = await kube.list(kind);
    return found.ok ? (found.value.items as unknown as T[]) : [];
  }

  async function turn(): Promise<void> {
    const nowMs = clock.nowMs();
    const node = await get<Node>({ ...nodes, namespace: "", name: "h100-0" });
    if (node === undefined) return;
    const lease = await get<Lease>({ ...leases, namespace: "kube-node-lease", name: "h100-0" });
    const life = { ...nodeLifeDefaults, holder: "us", clusterSeed: "s" };
    let bound = await all<Pod>(pods);
    const next = nextForNode({ node, sim, lease, faults: list, pods: () => bound, options: life, nowMs });
    for (const write of next.writes) await send(write);
    if (!next.held) return;
    const { state } = next;
    const sliced = nextForSlices({ node, sim, state, slices: await all<ResourceSlice>(slices), options: draDefaults });
    for (const write of sliced.writes) await send(write);
    const claimed = await all<ResourceClaim>(claims);
    for (const claim of claimed) {
      const { uid, name } = claim.metadata;
      const users = bound.filter(
        ({ spec, status }) =>
          status?.phase !== "Succeeded" &&
          status?.phase !== "Failed" &&
          spec?.resourceClaims?.some((each) => each.resourceClaimName === name),
      );
      const others = [...prepared.values()].filter(({ claimUid }) => claimUid !== uid);
      const step = nextForClaim({
        claim,
        prepared: prepared.get(uid),
        others,
        users,
        sim,
        state,
        faults: list,
        options: claimLifeDefaults,
        nowMs,
      });
      if (step.prepared === undefined) prepared.delete(uid);
      else prepared.set(uid, step.prepared);
      for (const write of step.writes) await send(write);
    }
    for (const { metadata } of bound) {
      bound = await all<Pod>(pods);
      const pod = bound.find((each) => each.metadata.uid === metadata.uid);
      if (pod === undefined || pod.spec?.nodeName !== "h100-0") continue;
      const ready = claimsPrepared(
        pod,
        (_namespace, name) => claimed.find((each) => each.metadata.name === name),
        prepared,
        { name: "h100-0", driver: "gpu.nvidia.com" },
      );
      const step = nextForPod({
        pod,
        node,
        sim,
        state,
        faults: list,
        pods: () => bound,
        claimsPrepared: ready,
        memory: memories.get(metadata.uid) ?? {},
        options: { clusterSeed: "s", delays: generalDelays, gates: "wait", events: "none" },
        nowMs,
      });
      memories.set(metadata.uid, step.memory);
      for (const write of step.writes) await send(write);
    }
  }

  const object = nodeObject(sim, { ordinal: 0, nowMs: clock.nowMs(), kwokTaint: true });
  note("create node", await kube.create(nodes, object));
  await kube.create(builtin.Namespace, {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "kube-node-lease" },
  });
  return {
    kube,
    clock,
    refusals,
    get,
    all,
    async pod(name: string, spec: object = {}, metadata: object = {}) {
      const whole = {
        nodeName: "h100-0",
        containers: [{ name: "c", image: "i", resources: { limits: { "nvidia.com/gpu": "1" } } }],
        ...spec,
      };
      const made = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace: "default", ...metadata },
        spec: whole,
      };
      note(`create ${name}`, await kube.create(pods, made));
    },
    look: (name: string) => get<Pod>({ ...pods, namespace: "default", name }),
    async run(seconds: number) {
      for (let i = 0; i < seconds * 2; i++) {
        await turn();
        await clock.advance(500);
      }
    },
  };
}

test("a node, its lease, its slices and pods of every kind are accepted as they are written", async () => {
  const live = await liveNode();
  await live.pod("plain");
  await live.pod("init", {
    initContainers: [
      { name: "i", image: "i" },
      { name: "s", image: "i", restartPolicy: "Always" },
    ],
  });
  await live.pod("once", { restartPolicy: "Never" }, { annotations: { "sim.muster.dev/run-duration": "5s" } });
  await live.pod("crash", {}, { annotations: { "sim.muster.dev/outcome": "Error" } });
  await live.pod("greedy", {
    containers: [{ name: "c", image: "i", resources: { limits: { "nvidia.com/gpu": "8" } } }],
  });
  await live.run(60);
  expect(live.refusals).toEqual([]);
  const phases = (await live.all<Pod>(pods)).map(({ metadata, status }) => `${metadata.name} ${status?.phase}`).sort();
  expect(phases).toEqual(["crash Running", "greedy Failed", "init Running", "once Succeeded", "plain Running"]);
  expect((await live.look("greedy"))?.status?.reason).toBe("UnexpectedAdmissionError");
  expect((await live.look("crash"))?.status?.containerStatuses?.[0]?.restartCount).toBeGreaterThan(1);
  const plain = await live.look("plain");
  expect(plain?.metadata.annotations?.["sim.muster.dev/devices"]).toContain("GPU-");
  expect(plain?.status?.containerStatuses?.[0]?.allocatedResourcesStatus?.[0]?.resources).toHaveLength(1);
  expect(plain?.status?.qosClass).toBe("BestEffort");
  expect((await live.all<ResourceSlice>(slices)).flatMap(({ spec }) => spec.devices ?? [])).toHaveLength(8);
  const lease = await live.get<Lease>({ ...leases, namespace: "kube-node-lease", name: "h100-0" });
  expect(lease?.spec?.holderIdentity).toBe("us");
});

test("pods that are deleted stop within their grace and are gone", async () => {
  const live = await liveNode();
  await live.pod("a");
  await live.pod("b", { initContainers: [{ name: "s", image: "i", restartPolicy: "Always" }] });
  await live.run(15);
  for (const name of ["a", "b"]) await live.kube.delete({ ...pods, namespace: "default", name });
  expect((await live.look("a"))?.metadata.deletionTimestamp).toBeDefined();
  await live.run(10);
  expect([live.refusals, (await live.all<Pod>(pods)).length]).toEqual([[], 0]);
});

test("a broken GPU, a reboot and new partitions are accepted too", async () => {
  const fault = (given: object, nowMs: number) =>
    readFault({ node: "h100-0", ...given }, { nowMs, id: JSON.stringify(given) });
  const live = await liveNode((nowMs) => [
    fault({ kind: "gpu-unhealthy", device: 0, in: "10s", for: "20s" }, nowMs),
    fault({ kind: "gpu-unhealthy", device: 1, dra: "remove", in: "10s", for: "20s" }, nowMs),
    fault({ kind: "node-reboot", in: "40s", down: "10s" }, nowMs),
    fault({ kind: "cordon", in: "60s", for: "10s" }, nowMs),
  ]);
  await live.pod("a");
  await live.run(15);
  const during = await live.get<Node>({ ...nodes, namespace: "", name: "h100-0" });
  expect(during?.status?.allocatable?.["nvidia.com/gpu"]).toBe("6");
  expect(
    (await live.all<ResourceSlice>(slices)).map(({ spec }) => [spec.pool.generation, spec.devices?.length]),
  ).toEqual([[2, 7]]);
  await live.run(65);
  expect(live.refusals).toEqual([]);
  const after = await live.get<Node>({ ...nodes, namespace: "", name: "h100-0" });
  expect([after?.status?.allocatable?.["nvidia.com/gpu"], after?.spec?.unschedulable ?? false]).toEqual(["8", false]);
  expect(after?.status?.nodeInfo?.bootID).not.toBe(during?.status?.nodeInfo?.bootID);
  expect((await live.look("a"))?.status?.containerStatuses?.[0]?.restartCount).toBe(1);
});

test("a pod waits for its claim, and the claim shows that it is prepared", async () => {
  const live = await liveNode();
  await live.kube.create(claims, {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name: "gpu", namespace: "default" },
    spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu.nvidia.com" } }] } },
  });
  await live.pod("a", {
    containers: [{ name: "c", image: "i" }],
    resourceClaims: [{ name: "g", resourceClaimName: "gpu" }],
  });
  await live.run(20);
  const pod = await live.look("a");
  expect([pod?.status?.phase, pod?.status?.containerStatuses?.[0]?.state?.waiting?.reason]).toEqual([
    "Pending",
    "ContainerCreating",
  ]);
  const ref = { ...claims, namespace: "default", name: "gpu" };
  const claim = (await live.get(ref)) as ResourceClaim;
  const status = {
    allocation: { devices: { results: [{ request: "r", driver: "gpu.nvidia.com", pool: "h100-0", device: "gpu-0" }] } },
    reservedFor: [{ resource: "pods", name: "a", uid: pod?.metadata.uid ?? "" }],
  };
  const allocated = await live.kube.update(
    { ...ref, subresource: "status" },
    {
      ...claim,
      status,
    },
  );
  expect(allocated.ok).toBe(true);
  await live.run(20);
  expect(live.refusals).toEqual([]);
  expect((await live.look("a"))?.status?.phase).toBe("Running");
  const ready = (await live.get<ResourceClaim>(ref))?.status?.devices?.[0]?.conditions?.[0];
  expect(ready).toMatchObject({ type: "Ready", status: "True", reason: "Prepared" });
});

test.each([["pod-fast"], ["pod-general"]])("stages of %s are accepted as they are written", async (set) => {
  const live = await liveNode();
  const stages: Stage[] = ["node-fast", set].flatMap((name) =>
    parseStages(readFileSync(new URL(`../../examples/stages/${name}.yaml`, import.meta.url), "utf8"), name),
  );
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
  const owner = await live.kube.create(builtin.Job, {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "j", namespace: "default" },
    spec: { template },
  });
  const uid = owner.ok ? owner.value.metadata.uid : "";
  const ownerReferences = [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid }];
  await live.pod("a", { initContainers: [{ name: "i", image: "i" }] }, { ownerReferences });
  let job: StageJob | undefined;
  for (let i = 0; i < 60; i++) {
    const object = (await live.look("a")) as KubeObject;
    const nowMs = live.clock.nowMs();
    const context = {
      nowMs,
      startMs: nowMs,
      nodeName: "h100-0",
      nodePort: 10250,
      version: "v0",
      nodeIps: () => ["172.16.0.1"],
      podIps: () => ["10.0.0.9"],
    };
    const next = nextForObject({ object, stages, job, clusterSeed: "s", context });
    job = next.job;
    for (const { write } of next.writes) {
      if (write.kind !== "patch") continue;
      const outcome = await live.kube.patch(write.ref, write.patch);
      expect(outcome).toMatchObject({ ok: true });
    }
    await live.clock.advance(500);
  }
  expect((await live.look("a"))?.status).toMatchObject({ phase: "Succeeded", podIP: "10.0.0.9" });
});

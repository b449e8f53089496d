import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FileStore } from "../src/adapters/disk/fileStore.ts";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import { createAdmission } from "../src/apiserver/admission/createAdmission.ts";
import { createApi } from "../src/apiserver/createApi.ts";
import { inProcessKube } from "../src/apiserver/inProcessKube.ts";
import { ensureDefinitions } from "../src/control/assembly/ensureObjects.ts";
import { binderComponent } from "../src/control/bind/binderComponent.ts";
import { devicesComponent } from "../src/control/devices/devicesComponent.ts";
import { Controllers } from "../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../src/control/runtime/memoryMetrics.ts";
import { schedulerComponent } from "../src/control/schedule/schedulerComponent.ts";
import { filterNode, prepareClaims } from "../src/decide/devices/placeClaims.ts";
import { AllocatedSets } from "../src/decide/devices/search/allocatedState.ts";
import { allFeatures } from "../src/decide/devices/search/features.ts";
import { FullNodes } from "../src/decide/devices/search/fullNodes.ts";
import { deviceKey } from "../src/decide/devices/search/poolDevice.ts";
import { SliceIndex } from "../src/decide/devices/search/pools.ts";
import { SelectorCache } from "../src/decide/devices/search/selectors.ts";
import type {
  DeviceRequest,
  Node,
  Pod,
  ResourceClaim,
  ResourceClaimSpec,
  ResourceSlice,
} from "../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../src/model/objects/object.ts";
import type { KubeApi } from "../src/ports/kubeApi.ts";
import type { Figure } from "./figure.ts";

const devicesPerNode = 10;
const driver = "gpu.example.com";
const upstream = { name: "upstream, 6 cores", value: 306 };

/**
 * The DRA workloads of Kubernetes' scheduler_perf: 500 nodes with ten devices each, 13 attributes and 2 capacities a
 * device.
 */
export async function* benchDevices(say: (text: string) => void): AsyncGenerator<Figure> {
  say("decisions: 500 nodes x 10 devices");
  const seen = { at: "least", value: 20_000 } as const;
  for (const nodes of [250, 500, 1_000]) {
    const name = `claims decided, empty, ${nodes} nodes`;
    yield {
      name,
      value: decide(nodes, 0, () => one()),
      unit: "claims/s",
      ...(nodes === 500 && { target: seen, beside: upstream }),
    };
  }
  yield {
    name: "claims decided, half full, 500 nodes",
    value: decide(500, 2_500, () => one()),
    unit: "claims/s",
    target: seen,
  };
  yield {
    name: "claims decided, full but ten, 500 nodes",
    value: decide(500, 4_990, () => one()),
    unit: "claims/s",
    target: seen,
  };
  yield {
    name: "claims decided, the same two selectors, 500 nodes",
    value: decide(500, 0, () => one(pickyExpression)),
    unit: "claims/s",
    target: seen,
  };
  const unique = (i: number) =>
    one(`device.attributes["${driver}"].index >= 0 && device.attributes["${driver}"].numa < ${i + 10}`);
  yield {
    name: "claims decided, every selector unique, 500 nodes",
    value: decide(500, 0, unique),
    unit: "claims/s",
    target: { at: "least", value: 3_000 },
    beside: { name: "upstream with one selector, 6 cores", value: 263 },
  };
  yield {
    name: "claims decided, five devices of one PCI root, 500 nodes",
    value: decide(500, 0, fiveOfOneRoot, 500),
    unit: "claims/s",
    beside: { name: "upstream, 6 cores", value: 146 },
  };
  yield* pathological();
  yield* endToEnd(say);
}

const pickyExpression = `device.attributes["${driver}"].model == "h100" && device.capacity["${driver}"].memory.compareTo(quantity("40Gi")) >= 0`;

function fiveOfOneRoot(): ResourceClaimSpec {
  return {
    devices: {
      requests: Array.from(
        { length: 5 },
        (_, i): DeviceRequest => ({ name: `r${i}`, exactly: { deviceClassName: "gpu", count: 1 } }),
      ),
      constraints: [{ matchAttribute: `${driver}/pciRoot` }],
    },
  };
}

function one(expression?: string): ResourceClaimSpec {
  const selectors = expression === undefined ? {} : { selectors: [{ cel: { expression } }] };
  return {
    devices: {
      requests: [
        { name: "gpu", exactly: { deviceClassName: "gpu", allocationMode: "ExactCount", count: 1, ...selectors } },
      ],
    },
  };
}

const gpuClass = {
  apiVersion: "resource.k8s.io/v1",
  kind: "DeviceClass",
  metadata: { name: "gpu", uid: "class", resourceVersion: "1", creationTimestamp: "" },
  spec: {
    selectors: [{ cel: { expression: `device.driver == "${driver}"` } }],
    extendedResourceName: "example.com/gpu",
  },
};

/**
 * Decides claims one after the other until the devices, or the claims, are used up; a steady state gives the oldest
 * back.
 */
function decide(nodeCount: number, taken: number, specOf: (i: number) => ResourceClaimSpec, limit = 20_000): number {
  const nodes = Array.from({ length: nodeCount }, (_, i) => nodeAt(i));
  const sliceIndex = new SliceIndex(
    nodes.map(({ metadata }) => sliceOf(metadata.name)),
    allFeatures,
  );
  const state = new AllocatedSets();
  const full = new FullNodes(sliceIndex, state);
  const held: string[][] = [];
  for (let i = 0; i < taken; i++) {
    const key = deviceKey({
      driver,
      pool: nodes[i % nodeCount]?.metadata.name ?? "",
      device: `gpu-${Math.floor(i / nodeCount)}`,
    });
    state.devices.add(key);
    held.push([key]);
  }
  const selectors = new SelectorCache();
  const pod = { metadata: { name: "p", uid: "p" } } as Pod;
  let next = 0;
  const giveBack = (): void => {
    for (const key of held.shift() ?? []) {
      state.devices.delete(key);
      full.changed(key);
    }
  };
  const decideOne = (number: number): void => {
    const claim = claimOf(number, specOf(number));
    const ready = prepareClaims({
      pod,
      claims: [{ entry: "gpu", claim }],
      pendingAllocation: () => undefined,
      classOf: () => gpuClass,
      selectors,
      features: allFeatures,
    });
    if (ready.kind !== "ready") throw new Error("the claim is not ready");
    for (let i = 0; i < nodes.length; i++) {
      const at = (next + i) % nodes.length;
      const verdict = filterNode(ready.needs, nodes[at] as Node, {
        sliceIndex,
        full,
        state,
        features: allFeatures,
        nowMs: 0,
      });
      if (verdict.kind !== "fits") continue;
      const found = (verdict.allocations.get(claim.metadata.uid)?.devices?.results ?? []).map(deviceKey);
      for (const key of found) {
        state.devices.add(key);
        full.changed(key);
      }
      held.push(found);
      next = at + 1;
      return;
    }
    throw new Error("no device was free");
  };
  // Warm: every device has been asked about once, as in a cluster that has been up for a minute.
  for (let i = 0; i < nodeCount && i < limit; i++) {
    decideOne(i);
    if (taken > 0) giveBack();
  }
  while (held.length > taken) giveBack();
  const startedMs = performance.now();
  let decided = 0;
  for (; decided < limit && performance.now() - startedMs < 3_000; decided++) {
    decideOne(nodeCount + decided);
    // Steady state: as many claims end as begin.
    if (held.length > taken + steady) giveBack();
  }
  return (decided * 1000) / (performance.now() - startedMs);
}

/** Claims that come on top of those that were there, before the oldest are given back. */
const steady = 9;

/** A claim that has no answer, and that a plain search only finds out by trying everything. */
async function* pathological(): AsyncGenerator<Figure> {
  const node = nodeAt(0);
  const devices = Array.from({ length: 36 }, (_, i) => ({
    name: `gpu-${i}`,
    attributes: { root: { int: i % 6 }, index: { int: i } },
  }));
  const slice = { ...sliceOf(node.metadata.name) };
  const sliceIndex = new SliceIndex([{ ...slice, spec: { ...slice.spec, devices } }], allFeatures);
  const claim = claimOf(0, {
    devices: {
      requests: [
        { name: "a", exactly: { deviceClassName: "gpu", allocationMode: "ExactCount", count: 4 } },
        { name: "b", exactly: { deviceClassName: "gpu", allocationMode: "ExactCount", count: 4 } },
      ],
      constraints: [{ matchAttribute: `${driver}/root` }],
    },
  });
  const input = {
    pod: { metadata: { name: "p", uid: "p" } } as Pod,
    claims: [{ entry: "gpu", claim }],
    pendingAllocation: () => undefined,
  };
  const ready = prepareClaims({
    ...input,
    classOf: () => gpuClass,
    selectors: new SelectorCache(),
    features: allFeatures,
  });
  if (ready.kind !== "ready") throw new Error("the claim is not ready");
  const startedMs = performance.now();
  const verdict = filterNode(ready.needs, node, {
    sliceIndex,
    state: new AllocatedSets(),
    features: allFeatures,
    nowMs: 0,
  });
  const seconds = (performance.now() - startedMs) / 1000;
  if (verdict.kind !== "unschedulable") throw new Error("six devices of a root cannot be eight");
  yield {
    name: "eight of 36 devices with one root, six a root: told impossible",
    value: seconds * 1000,
    unit: "ms",
    beside: { name: "upstream's time-out", value: 10_000 },
  };
}

/** A workload of Kubernetes' scheduler_perf, on the embedded server. */
interface Workload {
  readonly what: string;
  readonly nodes: number;
  /** Devices that claims have before it begins. */
  readonly filled: number;
  readonly pods: number;
  /** How many pods exist at once: a bound pod is deleted and makes room. Undefined: all of them, in a burst. */
  readonly atOnce?: number;
  readonly claim?: ResourceClaimSpec;
  readonly podOf: (i: number) => KubeObject;
  /** What upstream asks of itself, or what it reports of itself on six cores. */
  readonly beside?: { readonly name: string; readonly value: number };
}

function workloads(): Workload[] {
  const burst = { pods: 2_500, podOf: podAt };
  const threshold = (value: number) => ({ name: "upstream's threshold", value });
  return [
    { ...burst, what: "template claims, empty, 100 nodes", nodes: 100, filled: 0, pods: 500 },
    { ...burst, what: "template claims, empty", nodes: 500, filled: 0, beside: threshold(64) },
    { ...burst, what: "template claims, half full", nodes: 500, filled: 2_500, beside: threshold(56) },
    {
      what: "template claims, full but ten, as many end as begin",
      nodes: 500,
      filled: 4_990,
      pods: 1_000,
      atOnce: 10,
      podOf: podAt,
      beside: threshold(60),
    },
    { ...burst, what: "CEL selectors", nodes: 500, filled: 0, claim: one(pickyExpression), beside: threshold(64) },
    {
      what: "five devices of one PCI root",
      nodes: 500,
      filled: 0,
      pods: 500,
      claim: fiveOfOneRoot(),
      podOf: podAt,
      beside: threshold(64),
    },
    { ...burst, what: "an extended resource", nodes: 500, filled: 0, podOf: extendedPodAt, beside: threshold(120) },
  ];
}

/** Pods created, claimed, allocated and bound; nothing runs them. */
async function* endToEnd(say: (text: string) => void): AsyncGenerator<Figure> {
  for (const workload of workloads()) {
    const { what, nodes, pods, beside } = workload;
    say(`end to end: ${pods} pods, ${what}, ${nodes} nodes x 10 devices, durable`);
    const directory = await mkdtemp(join(tmpdir(), "muster-bench-devices-"));
    try {
      const { podsPerSecond, writesPerPod } = await runWorkload(directory, workload);
      yield {
        name: `pods bound, end to end: ${what}`,
        value: podsPerSecond,
        unit: "pods/s",
        ...(beside !== undefined && { beside }),
      };
      if (workload.atOnce === undefined && nodes === 500) {
        yield { name: `writes a pod, its creation included: ${what}`, value: writesPerPod, unit: "writes" };
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

const group = "resource.k8s.io";
const podsRef = { group: "", version: "v1", plural: "pods" };
const nodesRef = { group: "", version: "v1", plural: "nodes" };
const claimsRef = { group, version: "v1", plural: "resourceclaims" };

async function must<T>(work: Promise<{ ok: true; value: T } | { ok: false; message: string }>): Promise<T> {
  const outcome = await work;
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.value;
}

/** So many lanes at once, until all are done. */
async function inLanes(count: number, lanes: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

async function runWorkload(
  directory: string,
  { nodes, filled, pods, atOnce, claim, podOf }: Workload,
): Promise<{ podsPerSecond: number; writesPerPod: number }> {
  const clock = systemClock();
  const random = systemRandom();
  const { core, controllers: loops } = await createApi({
    clock,
    random,
    log: new FileStore({ directory, clock }),
    admission: createAdmission({ hooks: [] }),
  });
  const kube = inProcessKube(core, { user: { username: "bench", groups: ["system:masters"] }, fieldManager: "bench" });
  await fill(kube, nodes, filled, claim ?? one());
  const quiet = (): void => {};
  const log = {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (fields: object, text: string) => console.error(text, fields),
  };
  const controllers = new Controllers(
    { kube, clock, random, log, metrics: new MemoryMetrics() },
    { fieldManager: "bench" },
  );
  const running = [devicesComponent(), schedulerComponent({ allocatesDevices: true }), binderComponent()];
  await must(ensureDefinitions({ kube, clock }, running));
  for (const component of running) component.add(controllers);
  const bound = new Set<string>();
  const waiters: (() => void)[] = [];
  let there = 0;
  controllers.cache<Pod>(podsRef).onEvent(({ key, object, type }) => {
    if (type === "deleted" || !object.spec?.nodeName || bound.has(key)) return;
    bound.add(key);
    if (atOnce === undefined) return;
    // The pod is bound and makes room for the next one. No node runs it, so its device needs no release by a kubelet.
    const { name } = object.metadata;
    void kube.delete({ ...podsRef, namespace: "default", name }, { gracePeriodSeconds: 0 }).then(() => {
      there--;
      waiters.shift()?.();
    });
  });
  await controllers.start();
  const revision = core.store.revision;
  const startedMs = performance.now();
  await inLanes(pods, Math.min(32, atOnce ?? 32), async (i) => {
    while (atOnce !== undefined && there >= atOnce) await new Promise<void>((resolve) => waiters.push(resolve));
    there++;
    await must(kube.create(podsRef, podOf(i)));
  });
  while (bound.size < pods) await new Promise((resolve) => setTimeout(resolve, 5));
  const seconds = (performance.now() - startedMs) / 1000;
  const writesPerPod = (core.store.revision - revision) / pods;
  await controllers.stop();
  loops.stop();
  await core.store.close();
  return { podsPerSecond: pods / seconds, writesPerPod };
}

/** Class, template, nodes with their slices, and claims that have as many devices as wanted. */
async function fill(kube: KubeApi, nodes: number, filled: number, spec: ResourceClaimSpec): Promise<void> {
  const { uid: _uid, resourceVersion: _rv, creationTimestamp: _time, ...metadata } = gpuClass.metadata;
  await must(
    kube.create({ group, version: "v1", plural: "deviceclasses" }, { ...gpuClass, metadata } as unknown as KubeObject),
  );
  const template = {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "one", namespace: "default" },
    spec: { spec },
  };
  await must(
    kube.create({ group, version: "v1", plural: "resourceclaimtemplates" }, template as unknown as KubeObject),
  );
  await inLanes(nodes, 16, async (i) => {
    const { name } = nodeAt(i).metadata;
    await must(kube.create(nodesRef, { apiVersion: "v1", kind: "Node", metadata: { name } } as KubeObject));
    const status = { conditions: [{ type: "Ready", status: "True" }], allocatable: { pods: "110" } };
    await must(
      kube.patch({ ...nodesRef, namespace: "", name, subresource: "status" }, { type: "merge", body: { status } }),
    );
    const { metadata: _metadata, ...slice } = sliceOf(name);
    const object = { ...slice, metadata: { name: `${name}-gpus` } } as unknown as KubeObject;
    await must(kube.create({ group, version: "v1", plural: "resourceslices" }, object));
  });
  await inLanes(filled, 32, async (i) => {
    const { name } = nodeAt(i % nodes).metadata;
    const finalizers = ["resource.kubernetes.io/delete-protection"];
    const made = await must(
      kube.create(claimsRef, {
        apiVersion: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        metadata: { name: `held-${i}`, namespace: "default", finalizers },
        spec: one(),
      } as unknown as KubeObject),
    );
    const results = [{ request: "gpu", driver, pool: name, device: `gpu-${Math.floor(i / nodes)}` }];
    const matchFields = [{ key: "metadata.name", operator: "In", values: [name] }];
    const allocation = { devices: { results }, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } };
    const ref = { ...claimsRef, namespace: "default", name: `held-${i}`, subresource: "status" };
    await must(kube.update(ref, { ...made, status: { allocation } } as unknown as KubeObject));
  });
}

function podAt(i: number): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `p${i}`, namespace: "default" },
    spec: {
      containers: [{ name: "main", image: "i", resources: { claims: [{ name: "gpu" }] } }],
      resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "one" }],
    },
  } as unknown as KubeObject;
}

function extendedPodAt(i: number): KubeObject {
  const resources = { limits: { "example.com/gpu": "1" } };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `p${i}`, namespace: "default" },
    spec: { containers: [{ name: "main", image: "i", resources }] },
  } as unknown as KubeObject;
}

function nodeAt(i: number): Node {
  const name = `node-${String(i).padStart(4, "0")}`;
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, uid: name, resourceVersion: "1", creationTimestamp: "" },
  } as Node;
}

function sliceOf(node: string): ResourceSlice {
  const devices = Array.from({ length: devicesPerNode }, (_, i) => ({
    name: `gpu-${i}`,
    attributes: {
      model: { string: "h100" },
      uuid: { string: `${node}-${i}` },
      index: { int: i },
      numa: { int: i % 2 },
      pciRoot: { string: `root-${i % 2}` },
      driverVersion: { version: "560.35.3" },
      cudaVersion: { version: "12.6.0" },
      architecture: { string: "hopper" },
      brand: { string: "nvidia" },
      ecc: { bool: true },
      nvlink: { bool: true },
      minor: { int: i },
      serial: { string: `s-${node}-${i}` },
    },
    capacity: { memory: { value: "80Gi" }, multiprocessors: { value: "132" } },
  }));
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata: { name: `${node}-gpus`, uid: `slice-${node}`, resourceVersion: "1", creationTimestamp: "" },
    spec: { driver, nodeName: node, pool: { name: node, generation: 1, resourceSliceCount: 1 }, devices },
  };
}

function claimOf(i: number, spec: ResourceClaimSpec): ResourceClaim {
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name: `c${i}`, namespace: "default", uid: `c${i}`, resourceVersion: "1", creationTimestamp: "" },
    spec,
  };
}

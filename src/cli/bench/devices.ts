import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FileStore } from "../../adapters/fileStore.ts";
import { systemClock } from "../../adapters/systemClock.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { createAdmission } from "../../apiserver/admission/createAdmission.ts";
import { createApi } from "../../apiserver/createApi.ts";
import { inProcessKube } from "../../apiserver/kubeApi.ts";
import { Controllers } from "../../control/controllers.ts";
import { devicesPart } from "../../control/devices/devicesPart.ts";
import { MetricsBook } from "../../control/metricsBook.ts";
import { AllocatedSets } from "../../decide/devices/allocatedState.ts";
import { allFeatures } from "../../decide/devices/features.ts";
import { FullNodes } from "../../decide/devices/fullNodes.ts";
import { askNode, prepareClaims } from "../../decide/devices/placeClaims.ts";
import { deviceKey } from "../../decide/devices/poolDevice.ts";
import { SliceBook } from "../../decide/devices/pools.ts";
import { SelectorCache } from "../../decide/devices/selectors.ts";
import type {
  DeviceRequest,
  Node,
  Pod,
  ResourceClaim,
  ResourceClaimSpec,
  ResourceSlice,
} from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/object.ts";
import type { Figure } from "./figure.ts";

const devicesPerNode = 10;
const driver = "gpu.example.com";
const upstream = { name: "upstream, 6 cores", value: 306 };

/** The DRA workloads of Kubernetes' scheduler_perf: 500 nodes with ten devices each, 13 attributes and 2 capacities a device. */
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
  const picky = () =>
    one(
      `device.attributes["${driver}"].model == "h100" && device.capacity["${driver}"].memory.compareTo(quantity("40Gi")) >= 0`,
    );
  yield {
    name: "claims decided, the same two selectors, 500 nodes",
    value: decide(500, 0, picky),
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
  const matching = () => ({
    devices: {
      requests: Array.from(
        { length: 5 },
        (_, i): DeviceRequest => ({ name: `r${i}`, exactly: { deviceClassName: "gpu", count: 1 } }),
      ),
      constraints: [{ matchAttribute: `${driver}/pciRoot` }],
    },
  });
  yield {
    name: "claims decided, five devices of one PCI root, 500 nodes",
    value: decide(500, 0, matching, 500),
    unit: "claims/s",
    beside: { name: "upstream, 6 cores", value: 146 },
  };
  yield* pathological();
  yield* endToEnd(say);
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

/** Decides claims one after the other until the devices, or the claims, are used up; a steady state gives the oldest back. */
function decide(nodeCount: number, taken: number, specOf: (i: number) => ResourceClaimSpec, limit = 20_000): number {
  const nodes = Array.from({ length: nodeCount }, (_, i) => nodeAt(i));
  const book = new SliceBook(
    nodes.map(({ metadata }) => sliceOf(metadata.name)),
    allFeatures,
  );
  const state = new AllocatedSets();
  const full = new FullNodes(book, state);
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
      const verdict = askNode(ready.needs, nodes[at] as Node, { book, full, state, features: allFeatures, nowMs: 0 });
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
  const book = new SliceBook([{ ...slice, spec: { ...slice.spec, devices } }], allFeatures);
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
  const verdict = askNode(ready.needs, node, { book, state: new AllocatedSets(), features: allFeatures, nowMs: 0 });
  const seconds = (performance.now() - startedMs) / 1000;
  if (verdict.kind !== "unschedulable") throw new Error("six devices of a root cannot be eight");
  yield {
    name: "eight of 36 devices with one root, six a root: told impossible",
    value: seconds * 1000,
    unit: "ms",
    beside: { name: "upstream's time-out", value: 10_000 },
  };
}

/** Pods on the embedded server: created, claimed, allocated, bound; nothing runs them. Half of the devices are used. */
async function* endToEnd(say: (text: string) => void): AsyncGenerator<Figure> {
  const runs = [
    { nodes: 100, what: "template claims", podOf: podAt, threshold: undefined },
    { nodes: 500, what: "template claims", podOf: podAt, threshold: 56 },
    { nodes: 500, what: "an extended resource", podOf: extendedPodAt, threshold: 120 },
  ];
  for (const { nodes, what, podOf, threshold } of runs) {
    const pods = nodes * 5;
    say(`end to end: ${pods} pods with ${what} on ${nodes} nodes x 10 devices, durable`);
    const directory = await mkdtemp(join(tmpdir(), "muster-bench-devices-"));
    try {
      const result = await runPods(directory, nodes, pods, podOf);
      yield {
        name: `pods with ${what} bound, ${nodes} nodes, end to end`,
        value: result.podsPerSecond,
        unit: "pods/s",
        ...(threshold !== undefined && { beside: { name: "upstream's threshold", value: threshold } }),
      };
      if (nodes === 500) {
        yield { name: `writes a pod with ${what}, its creation included`, value: result.writesPerPod, unit: "writes" };
      }
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

async function runPods(
  directory: string,
  nodeCount: number,
  pods: number,
  podOf: (i: number) => KubeObject,
): Promise<{ podsPerSecond: number; writesPerPod: number }> {
  const clock = systemClock();
  const random = systemRandom();
  const { core } = await createApi({
    clock,
    random,
    log: new FileStore({ directory, clock }),
    admission: createAdmission({ hooks: [] }),
  });
  const kube = inProcessKube(core, { user: { username: "bench", groups: ["system:masters"] }, fieldManager: "bench" });
  const group = "resource.k8s.io";
  const must = async <T>(work: Promise<{ ok: true; value: T } | { ok: false; message: string }>): Promise<T> => {
    const outcome = await work;
    if (!outcome.ok) throw new Error(outcome.message);
    return outcome.value;
  };
  const { uid: _uid, resourceVersion: _rv, creationTimestamp: _time, ...metadata } = gpuClass.metadata;
  await must(
    kube.create({ group, version: "v1", plural: "deviceclasses" }, { ...gpuClass, metadata } as unknown as KubeObject),
  );
  const template = {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { name: "one", namespace: "default" },
    spec: { spec: one() },
  };
  await must(
    kube.create({ group, version: "v1", plural: "resourceclaimtemplates" }, template as unknown as KubeObject),
  );
  const nodesRef = { group: "", version: "v1", plural: "nodes" };
  for (let i = 0; i < nodeCount; i++) {
    const { name } = nodeAt(i).metadata;
    await must(kube.create(nodesRef, { apiVersion: "v1", kind: "Node", metadata: { name } } as KubeObject));
    const status = { conditions: [{ type: "Ready", status: "True" }], allocatable: { pods: "110" } };
    await must(
      kube.patch({ ...nodesRef, namespace: "", name, subresource: "status" }, { type: "merge", body: { status } }),
    );
    const { metadata: _metadata, ...slice } = sliceOf(name);
    await must(
      kube.create({ group, version: "v1", plural: "resourceslices" }, {
        ...slice,
        metadata: { name: `${name}-gpus` },
      } as unknown as KubeObject),
    );
  }
  const quiet = (): void => {};
  const log = {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (fields: object, text: string) => console.error(text, fields),
  };
  const controllers = new Controllers(
    { kube, clock, random, log, metrics: new MetricsBook() },
    { fieldManager: "bench" },
  );
  devicesPart().add(controllers);
  const podsRef = { group: "", version: "v1", plural: "pods" };
  const bound = new Set<string>();
  controllers.cache<Pod>(podsRef).onEvent(({ key, object }) => {
    if (object.spec?.nodeName) bound.add(key);
  });
  await controllers.start();
  const revision = core.store.revision;
  const startedMs = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < pods) await must(kube.create(podsRef, podOf(next++)));
  };
  await Promise.all(Array.from({ length: 32 }, lane));
  while (bound.size < pods) await new Promise((resolve) => setTimeout(resolve, 10));
  const seconds = (performance.now() - startedMs) / 1000;
  const writesPerPod = (core.store.revision - revision) / pods;
  await controllers.stop();
  await core.store.close();
  return { podsPerSecond: pods / seconds, writesPerPod };
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

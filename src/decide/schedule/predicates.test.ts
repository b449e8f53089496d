import { describe, expect, test } from "vitest";
import {
  addPod,
  clusterWith,
  decide,
  gang,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import { gpuMilliOf, portionText, readGpuRequest } from "../../model/scheduling/gpuRequest.ts";
import { shippedPriorityClasses } from "../../model/scheduling/podGroup.ts";
import { durationToMs } from "../../model/values/goDuration.ts";
import { Cluster } from "./cluster/cluster.ts";
import { gpuMemoryMiB } from "./cluster/nodeState.ts";
import { migWeight } from "./cluster/resources.ts";

const placed = (words: Parameters<typeof clusterWith>[0]): string[] =>
  Object.values(outcome(decide(clusterWith(words))));

describe("MIG", () => {
  const mig = { "nvidia.com/mig-1g.5gb": "4" };
  const mixed = node("mixed", { gpus: 0, more: mig, labels: { "nvidia.com/mig.strategy": "mixed" } });
  const single = node("single", { gpus: 8, labels: { "nvidia.com/mig.strategy": "single" } });

  test("profiles go to nodes of the mixed strategy, by profile", () => {
    expect(placed({ nodes: [single, mixed], ...gang("a", 1, { requests: { "nvidia.com/mig-1g.5gb": "4" } }) })).toEqual(
      ["mixed"],
    );
    expect(placed({ nodes: [mixed], ...gang("a", 1, { requests: { "nvidia.com/mig-1g.5gb": "5" } }) })).toEqual([]);
  });

  test("no node of the single strategy takes a profile, whatever it offers", () => {
    const both = node("both", { gpus: 8, more: mig, labels: { "nvidia.com/mig.strategy": "single" } });
    expect(placed({ nodes: [both], ...gang("a", 1, { requests: { "nvidia.com/mig-1g.5gb": "1" } }) })).toEqual([]);
  });

  test("no node with MIG takes a share of a GPU, one of the single strategy takes whole ones", () => {
    expect(placed({ nodes: [single, mixed], ...gang("a", 1, { fraction: "0.5" }) })).toEqual([]);
    expect(placed({ nodes: [single], ...gang("a", 1, { gpus: 1 }) })).toEqual(["single"]);
  });

  test.each([
    ["nvidia.com/mig-1g.5gb", 1],
    ["nvidia.com/mig-7g.40gb", 7],
    ["nvidia.com/mig-1g.5gb.me", 0],
    ["example.com/thing", 0],
  ])("%s weighs %i in a queue", (name, weight) => {
    expect(migWeight(name)).toBe(weight);
  });
});

describe("with nodes set apart by role", () => {
  const nodes = [
    node("cpu", { gpus: 0, labels: { "node-role.kubernetes.io/cpu-worker": "" } }),
    node("gpu", { labels: { "node-role.kubernetes.io/gpu-worker": "" } }),
    node("neither"),
  ];
  test("GPU pods go to GPU workers and others to CPU workers", () => {
    const settings = { restrictsNodes: true };
    expect(placed({ nodes, settings, ...gang("a", 1, { gpus: 1 }) })).toEqual(["gpu"]);
    expect(placed({ nodes, settings, ...gang("a", 1, {}) })).toEqual(["cpu"]);
    expect(placed({ nodes, settings, ...gang("a", 1, { fraction: "0.5" }) })).toEqual(["gpu"]);
    for (const words of [{ gpus: 1 }, { fraction: "0.5" }, {}]) {
      expect(placed({ nodes: [node("neither")], settings, ...gang("a", 1, words) })).toEqual([]);
    }
  });
});

describe("volumes", () => {
  const uses = (claim: string) => ({ volumes: [{ name: "v", persistentVolumeClaim: { claimName: claim } }] }) as never;
  const meta = (name: string, more = {}) => ({
    name,
    namespace: "default",
    uid: name,
    resourceVersion: "1",
    creationTimestamp: "",
    ...more,
  });

  function cluster(zone: string, more: { csi?: string; modes?: string[] } = {}) {
    const made = clusterWith({
      nodes: [
        node("n1", { labels: { "topology.kubernetes.io/zone": "a" } }),
        node("n2", { labels: { "topology.kubernetes.io/zone": "b" } }),
      ],
      groups: [group("a"), group("b")],
    });
    for (const name of ["data", "other"]) {
      made.volumes.volumeClaims.set(`default/${name}`, {
        metadata: meta(name),
        spec: { volumeName: `pv-${name}`, accessModes: more.modes ?? ["ReadWriteOnce"] },
        status: { phase: "Bound" },
      } as never);
      const spec = more.csi === undefined ? {} : { csi: { driver: more.csi, volumeHandle: `pv-${name}` } };
      made.volumes.volumes.set(`pv-${name}`, {
        metadata: meta(`pv-${name}`, { labels: { "topology.kubernetes.io/zone": zone } }),
        spec,
      } as never);
    }
    return made;
  }

  test("keep a pod in their zone", () => {
    const made = cluster("b");
    addPod(made, pod("p", { group: "a", spec: uses("data") }));
    expect(outcome(decide(made))).toEqual({ p: "n2" });
  });

  test("that only some nodes can reach keep a pod there", () => {
    const made = cluster("");
    const volume = made.volumes.volumes.get("pv-data") as unknown as object;
    const expression = { key: "kubernetes.io/hostname", operator: "In", values: ["n2"] };
    const required = { nodeSelectorTerms: [{ matchExpressions: [expression] }] };
    made.volumes.volumes.set("pv-data", {
      ...volume,
      metadata: meta("pv-data"),
      spec: { nodeAffinity: { required } },
    } as never);
    addPod(made, pod("p", { group: "a", spec: uses("data") }));
    expect(outcome(decide(made))).toEqual({ p: "n2" });
  });

  test("that are not made yet keep a pod where their class may make them", () => {
    const made = cluster("a");
    made.volumes.volumeClaims.set("default/data", {
      metadata: meta("data"),
      spec: { storageClassName: "s" },
      status: { phase: "Pending" },
    } as never);
    made.volumes.classes.set("s", {
      metadata: meta("s"),
      provisioner: "disks.example.com",
      volumeBindingMode: "WaitForFirstConsumer",
      allowedTopologies: [{ matchLabelExpressions: [{ key: "topology.kubernetes.io/zone", values: ["b"] }] }],
    } as never);
    addPod(made, pod("p", { group: "a", spec: uses("data") }));
    expect(outcome(decide(made))).toEqual({ p: "n2" });
  });

  test("count against what a node can attach", () => {
    const made = cluster("a", { csi: "ebs" });
    made.volumes.csiNodes.set("n1", {
      metadata: meta("n1"),
      spec: { drivers: [{ name: "ebs", nodeID: "x", allocatable: { count: 1 } }] },
    } as never);
    addPod(made, pod("p", { group: "a", spec: uses("data") }));
    addPod(made, pod("q", { group: "b", spec: uses("other") }));
    expect(Object.values(outcome(decide(made)))).toEqual(["n1"]);
  });

  test("that one pod may use are used by one", () => {
    const made = cluster("a", { modes: ["ReadWriteOncePod"] });
    addPod(made, pod("p", { group: "a", spec: uses("data") }));
    addPod(made, pod("q", { group: "b", spec: uses("data") }));
    expect(Object.values(outcome(decide(made)))).toEqual(["n1"]);
  });

  test("that one pod may use are used by one also when there are other nodes in their zone", () => {
    const made = cluster("a", { modes: ["ReadWriteOncePod"] });
    made.putNode(node("n3", { labels: { "topology.kubernetes.io/zone": "a" } }));
    const apart = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: "x" } } };
    const spec = {
      ...(uses("data") as object),
      affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } },
    } as never;
    for (const name of ["a", "b"]) addPod(made, pod(`p${name}`, { group: name, labels: { app: "x" }, spec }));
    expect(Object.keys(outcome(decide(made)))).toHaveLength(1);
  });

  test.each([
    ["is being deleted", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }],
    ["has lost its volume", { status: { phase: "Lost" } }],
  ])("whose claim %s hold their pod back", (_, more: { metadata?: object; status?: object }) => {
    const made = cluster("a");
    const claim = made.volumes.volumeClaims.get("default/data") as unknown as { metadata: object };
    made.volumes.volumeClaims.set("default/data", {
      ...claim,
      ...more,
      metadata: { ...claim.metadata, ...more.metadata },
    } as never);
    addPod(made, pod("p", { group: "a", spec: uses("data") }));
    expect(outcome(decide(made))).toEqual({});
  });

  test("that are made for the pod have its name, and hold it back while they are missing", () => {
    const spec = { volumes: [{ name: "v", ephemeral: { volumeClaimTemplate: { spec: {} } } }] } as never;
    const made = clusterWith({ groups: [group("a")], pods: [pod("p", { group: "a", spec })] });
    expect(outcome(decide(made))).toEqual({});
    const claim = (ownerReferences: object[]) => ({
      metadata: meta("p-v", { ownerReferences }),
      spec: { volumeName: "pv" },
      status: { phase: "Bound" },
    });
    // A claim of that name that was not created for the pod.
    made.volumes.volumeClaims.set("default/p-v", claim([]) as never);
    expect(outcome(decide(made))).toEqual({});
    const uid = made.jobs.values().next().value?.podSets[0]?.tasks.values().next().value?.uid;
    made.volumes.volumeClaims.set("default/p-v", claim([{ kind: "Pod", name: "p", uid, controller: true }]) as never);
    expect(outcome(decide(made))).toEqual({ p: "n1" });
  });

  test("that wait for their first consumer do not hold it back, immediate ones do", () => {
    const bound = (mode: string) => {
      const made = clusterWith({ groups: [group("a")], pods: [pod("p", { group: "a", spec: uses("data") })] });
      made.volumes.volumeClaims.set("default/data", {
        metadata: meta("data"),
        spec: { storageClassName: "s" },
        status: { phase: "Pending" },
      } as never);
      const provisioner = "disks.example.com";
      made.volumes.classes.set("s", { metadata: meta("s"), provisioner, volumeBindingMode: mode } as never);
      return Object.values(outcome(decide(made)));
    };
    expect(bound("WaitForFirstConsumer")).toEqual(["n1"]);
    expect(bound("Immediate")).toEqual([]);
  });
});

describe("ConfigMaps", () => {
  const env = (name: string, optional?: boolean) => ({
    containers: [
      {
        name: "c",
        envFrom: [{ configMapRef: { name, ...(optional !== undefined && { optional }) } }],
        resources: { requests: {} },
      },
    ],
  });
  test.each([
    ["that exists lets its pod run", env("here"), {}, true],
    ["that is missing holds its pod back", env("missing"), {}, false],
    ["that is missing and optional does not", env("missing", true), {}, true],
    [
      "of a shared GPU does not: it is made later",
      env("p-abc-shared-gpu-0"),
      { "runai/shared-gpu-configmap": "p-abc-shared-gpu" },
      true,
    ],
    [
      "that is mounted and missing holds its pod back",
      { volumes: [{ name: "v", configMap: { name: "missing" } }] },
      {},
      false,
    ],
    [
      "that is mounted, missing and optional does not",
      { volumes: [{ name: "v", configMap: { name: "missing", optional: true } }] },
      {},
      true,
    ],
    [
      "that is mounted among others and missing holds its pod back",
      { volumes: [{ name: "v", projected: { sources: [{ configMap: { name: "missing" } }] } }] },
      {},
      false,
    ],
    [
      "that is mounted among others, missing and optional does not",
      { volumes: [{ name: "v", projected: { sources: [{ configMap: { name: "missing", optional: true } }] } }] },
      {},
      true,
    ],
    [
      "of which a variable is a part and that is missing holds its pod back",
      {
        containers: [
          { name: "c", env: [{ name: "E", valueFrom: { configMapKeyRef: { name: "missing", key: "k" } } }] },
        ],
      },
      {},
      false,
    ],
    [
      "that an init container names and that is missing holds its pod back",
      { initContainers: [{ name: "i", envFrom: [{ configMapRef: { name: "missing" } }] }] },
      {},
      false,
    ],
  ])("one %s", (_, spec, annotations, runs) => {
    const cluster = clusterWith(gang("a", 1, { spec: spec as never, annotations }));
    cluster.configMaps = new Set(["default/here"]);
    expect(outcome(decide(cluster))).toEqual(runs ? { "a-000": "n1" } : {});
  });
});

describe("amounts", () => {
  test.each([
    ["80000", 80_000],
    ["81559", 81_500],
    ["85899345920", 81_900],
    ["50", undefined],
    ["a lot", undefined],
    [undefined, undefined],
  ])("GPU memory of label %s is %s MiB", (label, mib) => {
    expect(gpuMemoryMiB(label)).toBe(mib);
  });

  test.each([
    [{ fraction: "0.5" }, { type: "fraction", devices: 1, shareMilli: 500 }, 500, "0.50"],
    [{ fraction: "5e-1" }, { type: "fraction", devices: 1, shareMilli: 500 }, 500, "0.50"],
    [{ fraction: "0.25", devices: 2 }, { type: "fraction", devices: 2, shareMilli: 250 }, 500, "0.25"],
    [{ gpuMemory: "30000" }, { type: "memory", devices: 1, memoryMiB: 30_000 }, 380, "0.38"],
  ])("%o is %o", (words, gpu, milli, portion) => {
    const read = readGpuRequest(pod("p", words), 0);
    expect(read).toEqual({ gpu });
    if (!("gpu" in read)) return;
    expect(gpuMilliOf(read.gpu, 80_000)).toBe(milli);
    expect(portionText(read.gpu, 80_000)).toBe(portion);
  });

  test.each([
    ["1h30m", 5_400_000],
    ["250ms", 250],
    ["-1s", -1000],
    ["0", 0],
    ["+1.5s", 1500],
    [".5s", 500],
    ["1.m", 60_000],
    ["", undefined],
    [".s", undefined],
    ["5", undefined],
    ["5x", undefined],
    ["soon", undefined],
    [null, undefined],
  ])("the duration %s is %s ms", (text, ms) => {
    expect(durationToMs(text)).toBe(ms);
  });

  test("AMD's GPUs count as GPUs, other makers' are resources of their own", () => {
    const nodes = [
      node("amd", { gpus: 0, more: { "amd.com/gpu": "2" } }),
      node("habana", { gpus: 0, more: { "habana.ai/gaudi": "2" } }),
    ];
    const cluster = clusterWith({ nodes, ...gang("a", 1, { requests: { "amd.com/gpu": "2" } }) });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "amd" });
    expect(cluster.total()[0]).toBe(2000);
    expect(placed({ nodes, ...gang("a", 1, { requests: { "habana.ai/gaudi": "1" } }) })).toEqual(["habana"]);
  });

  test.each([
    { asks: "amd.com/gpu", goesTo: "amd" },
    { asks: "nvidia.com/gpu", goesTo: "nvidia" },
  ])("a pod that asks for $asks goes to no node with another maker's GPUs", ({ asks, goesTo }) => {
    const amd = node("amd", { gpus: 0, more: { "amd.com/gpu": "8" } });
    const nvidia = node("nvidia", { gpus: 8 });
    const asking = gang("a", 1, { requests: { [asks]: "2" } });
    expect(placed({ nodes: [amd, nvidia], ...asking })).toEqual([goesTo]);
    const others = [amd, nvidia].filter(({ metadata }) => metadata.name !== goesTo);
    expect(placed({ nodes: others, ...asking })).toEqual([]);
  });

  test.each([{ fraction: "0.5" }, { gpuMemory: "1000" }])("no pod shares a GPU of AMD: %j", (share) => {
    const amd = node("amd", { gpus: 0, more: { "amd.com/gpu": "8" }, labels: { "nvidia.com/gpu.memory": "80000" } });
    expect(placed({ nodes: [amd], ...gang("a", 1, share) })).toEqual([]);
    expect(placed({ nodes: [amd, node("nvidia")], ...gang("a", 1, share) })).toEqual(["nvidia"]);
  });

  test("sidecars, init containers and overhead are counted as Kubernetes does", () => {
    const requests = (cpu: string) => ({ resources: { requests: { cpu } } });
    const spec = {
      containers: [{ name: "m", ...requests("1") }],
      initContainers: [
        { name: "s", restartPolicy: "Always", ...requests("1") },
        { name: "i", ...requests("4") },
      ],
      overhead: { cpu: "500m" },
    } as never;
    const on = (cpu: string) => placed({ nodes: [node("n1", { cpu })], ...gang("a", 1, { spec }) });
    expect(on("5500m")).toEqual(["n1"]);
    expect(on("5")).toEqual([]);
  });

  test.each(["ephemeral-storage", "hugepages-2Mi", "example.com/nic"])(
    "%s is counted on nodes, and in no queue",
    (name) => {
      const nodes = [node("n1", { more: { [name]: "4" } })];
      const limits = { quota: 0, limit: 0, overQuotaWeight: 0 };
      const closed = queue("q", { resources: { gpu: limits } });
      const ask = (amount: string) =>
        placed({ nodes, queues: [closed], ...gang("a", 2, { requests: { [name]: amount } }) });
      expect(ask("2")).toEqual(["n1", "n1"]);
      expect(ask("3")).toEqual([]);
    },
  );

  test.each([
    ["0.5 0.5", 2],
    ["0.5 0.51", 1],
    ["0.99 0.01", 2],
    ["0.99 0.02", 1],
    ["0.34 0.33 0.33", 3],
    ["0.34 0.34 0.33", 2],
    ["0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1", 10],
  ])("of shares of %s one GPU has room for %i: they add up to one whole and not to more", (shares, fit) => {
    const pods = shares.split(" ").map((fraction, at) => gang(`p${at}`, 1, { fraction }));
    expect(placed({ nodes: [node("n1", { gpus: 1 })], ...together(...pods) })).toHaveLength(fit);
  });

  test("the memory of GPUs is known as soon as their nodes are, before anything is decided", () => {
    const cluster = new Cluster();
    cluster.putNode(node("small", { gpuMemory: 16_000 }));
    expect(cluster.gpuMemoryRange()).toEqual({ leastMiB: 16_000, mostMiB: 16_000 });
    cluster.putNode(node("large", { gpuMemory: 80_000 }));
    expect(cluster.gpuMemoryRange()).toEqual({ leastMiB: 16_000, mostMiB: 80_000 });
    cluster.removeNode("small");
    expect(cluster.gpuMemoryRange()).toEqual({ leastMiB: 80_000, mostMiB: 80_000 });
  });

  test("memory of GPUs, however little, is asked of no node that does not say how much its GPUs have", () => {
    const silent = node("silent", { gpuMemory: 0 });
    expect(placed({ nodes: [silent], ...gang("a", 1, { gpuMemory: "50" }) })).toEqual([]);
    expect(placed({ nodes: [silent, node("n1")], ...gang("a", 1, { gpuMemory: "50" }) })).toEqual(["n1"]);
  });

  test("a request for GPU memory is the part of the smallest GPU for fairness, and of the largest before it is placed", () => {
    const nodes = [node("a-small", { gpuMemory: 40_000 }), node("b-large", { gpuMemory: 80_000 })];
    const limited = (limit: number) => queue("q", { resources: { gpu: { quota: 0, limit, overQuotaWeight: 1 } } });
    const cluster = clusterWith({ nodes, queues: [limited(0.5)], ...gang("a", 1, { gpuMemory: "40000" }) });
    cluster.refresh(startMs);
    const [job] = [...cluster.waiting];
    expect(job === undefined ? 0 : cluster.pendingVector(job)[0]).toBe(1000);
    expect(outcome(decide(cluster))).toEqual({ "a-000": "b-large" });
    expect(placed({ nodes, queues: [limited(0.4)], ...gang("a", 1, { gpuMemory: "40000" }) })).toEqual([]);
  });

  test("memory of GPUs is a part of those that there are, also when pods are seen before nodes are looked at", () => {
    const cluster = clusterWith({
      queues: [queue("q", { resources: { gpu: { quota: 0, limit: 5, overQuotaWeight: 1 } } })],
    });
    // Runs already, and where is not known yet.
    cluster.putPodGroup(group("r"));
    cluster.putPod(pod("r", { gpus: 1, on: "n1", group: "r" }));
    addPod(cluster, pod("r", { gpus: 1, on: "n1", group: "r" }));
    cluster.putPodGroup(group("a"));
    addPod(cluster, pod("p", { gpuMemory: "40000", group: "a" }));
    expect(outcome(decide(cluster))).toEqual({ p: "n1" });
    expect(cluster.queues.byName.get("q")?.request[0]).toBe(1500);
  });

  test("no pod is evicted for GPU memory that would exceed the limit of its queue", () => {
    const gpu = (quota: number, limit: number) => ({ resources: { gpu: { quota, limit, overQuotaWeight: 1 } } });
    const cluster = clusterWith({
      nodes: [node("small", { gpus: 1, gpuMemory: 40_000 }), node("large", { gpus: 1, gpuMemory: 80_000 })],
      queues: [queue("mine", gpu(1, 0.5)), queue("theirs", gpu(0, -1))],
      ...together(
        gang("t", 1, { gpus: 1, on: "small" }, { queue: "theirs" }),
        gang("rock", 1, { gpus: 1, on: "large", scheduler: "other" }),
        gang("m", 1, { gpuMemory: "40000" }, { queue: "mine" }),
      ),
    });
    expect(decide(cluster).evictions).toEqual([]);
  });

  test("a pod of several MIG instances weighs them all in its queue", () => {
    const more = { "nvidia.com/mig-3g.20gb": "4" };
    const nodes = [node("n1", { gpus: 0, more, labels: { "nvidia.com/mig.strategy": "mixed" } })];
    const limited = (limit: number) => queue("q", { resources: { gpu: { quota: 0, limit, overQuotaWeight: 1 } } });
    const ask = (limit: number) =>
      placed({ nodes, queues: [limited(limit)], ...gang("a", 1, { requests: { "nvidia.com/mig-3g.20gb": "2" } }) });
    expect([ask(6), ask(5)]).toEqual([["n1"], []]);
  });

  test("memory limits of a queue are in millions of bytes", () => {
    const bounded = queue("q", { resources: { memory: { quota: 0, limit: 1100, overQuotaWeight: 1 } } });
    expect(
      placed({ queues: [bounded], ...together(gang("a", 1, { memory: "1Gi" }), gang("b", 1, { memory: "1Gi" })) }),
    ).toHaveLength(1);
  });

  test("a limit holds for requests of GPU memory by what they are on their node", () => {
    const bounded = queue("q", { resources: { gpu: { quota: 0, limit: 0.5, overQuotaWeight: 1 } } });
    const nodes = [node("small", { gpuMemory: 40_000 })];
    expect(placed({ nodes, queues: [bounded], ...gang("a", 1, { gpuMemory: "20000" }) })).toEqual(["small"]);
    expect(placed({ nodes, queues: [bounded], ...gang("a", 1, { gpuMemory: "21000" }) })).toEqual([]);
  });
});

test("the classes that come with the product have KAI's names and values", () => {
  expect(shippedPriorityClasses).toEqual([
    { name: "train", value: 50 },
    { name: "build-preemptible", value: 75 },
    { name: "build", value: 100 },
    { name: "inference", value: 125 },
  ]);
});

test("a missing priority class is the default one, else 50", () => {
  const cluster = clusterWith({ groups: [group("a", { priorityClassName: "nobody" })] });
  expect(cluster.jobs.get("default/a")?.priority).toBe(50);
  cluster.putPriorityClass({
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name: "d", uid: "d", resourceVersion: "1", creationTimestamp: "" },
    value: 7,
    globalDefault: true,
  } as never);
  expect(cluster.jobs.get("default/a")?.priority).toBe(7);
});

test("a pod holds both places as long as the outcome of its bind is unknown", () => {
  const cluster = clusterWith({
    nodes: [node("n1", { gpus: 1 }), node("n2", { gpus: 1 })],
    groups: [group("r"), group("a")],
    pods: [pod("x", { gpus: 1, group: "r" }), pod("p", { gpus: 1, group: "a" })],
  });
  cluster.setPlaces("pod-default-x", [
    { node: "n1", groups: [] },
    { node: "n2", groups: [] },
  ]);
  expect(outcome(decide(cluster))).toEqual({});
  cluster.setPlaces("pod-default-x", [{ node: "n2", groups: [] }]);
  expect(outcome(decide(cluster))).toEqual({ p: "n1" });
});

test("a pod on a node that is not known yet takes its place when the node comes", () => {
  const cluster = clusterWith({
    nodes: [],
    groups: [group("r"), group("a")],
    pods: [pod("x", { gpus: 1, on: "n1", group: "r" }), pod("p", { gpus: 1, group: "a" })],
  });
  expect(outcome(decide(cluster))).toEqual({});
  cluster.putNode(node("n1", { gpus: 1 }));
  expect(outcome(decide(cluster))).toEqual({});
  cluster.removePod("pod-default-x");
  expect(outcome(decide(cluster, startMs + 61_000))).toEqual({ p: "n1" });
});

import { describe, expect, test } from "vitest";
import {
  addPod,
  clusterWith,
  gpuBounds,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
} from "../../../testing/decide/scheduleCluster.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { cycle } from "./cycle.ts";
import { explain } from "./explain/explain.ts";
import { sentenceOf } from "./explain/verdict.ts";

const nowMs = startMs + 60_000;
const scheduler = "default-scheduler";
const red = { labelSelector: { matchLabels: { colour: "red" } }, topologyKey: "kubernetes.io/hostname" };
const labels = { colour: "red" };
const plain = (name: string, words: Parameters<typeof pod>[1] = {}): Pod =>
  pod(name, { scheduler, createdMs: startMs + Number(name.replace(/\D/g, "")) * 1000, ...words });
const product = { "nvidia.com/gpu.product": "H100" };
const typeLimit = { gpuTypes: { H100: { limit: 0 } } };

function look(cluster: Cluster): { places: Record<string, string>; told: Record<string, string> } {
  const told: Record<string, string> = {};
  const plan = cycle(cluster, nowMs, (session) => {
    for (const [job, obstacle] of session.obstacles) told[job.name] = sentenceOf(explain(session, job, obstacle));
  });
  return { places: outcome(plan), told };
}

describe("of pods that ask for the same, one that waits does not keep another waiting", () => {
  test("when a pod has come in between that it wants to be near", () => {
    const near = { affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [red] } } };
    const pods = [plain("p1", { spec: near }), plain("p2", { labels }), plain("p3", { spec: near })];
    expect(look(clusterWith({ nodes: [node("n1")], pods })).places).toEqual({ p2: "n1", p3: "n1" });
  });

  test("when the anti-affinity of a pod on the node matches the one and not the other", () => {
    const apart = { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [red] } } };
    const pods = [plain("p0", { spec: apart, on: "n1" }), plain("p1", { labels }), plain("p2")];
    expect(look(clusterWith({ nodes: [node("n1")], pods })).places).toEqual({ p2: "n1" });
  });

  test("when its own queue may have GPUs of the type, and the other's may not", () => {
    const open = gpuBounds(0).resources;
    const queues = [queue("a", { priority: 200, resources: { ...open, ...typeLimit } }), queue("b", gpuBounds(0))];
    const groups = [group("one", { queue: "a" }), group("two", { queue: "b" })];
    const pods = [pod("one", { gpus: 1, group: "one" }), pod("two", { gpus: 1, group: "two" })];
    expect(look(clusterWith({ nodes: [node("n1", { labels: product })], queues, groups, pods })).places).toEqual({
      two: "n1",
    });
  });
});

describe("of pods that ask for the same and wait, each has its own reason", () => {
  test("when the anti-affinity of a pod on the node matches the one and not the other", () => {
    const apart = { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [red] } } };
    const pods = [plain("p0", { spec: apart, on: "n1" }), plain("p1"), plain("p2", { labels })];
    const { told } = look(clusterWith({ nodes: [node("n1", { cpu: "1" })], pods }));
    expect(told["p1"]).toContain("it would fit with 1 more CPU cores free on n1");
    expect(told["p2"]).toContain("it would fit with default/p0 deleted");
  });

  test("when a bound of its queue keeps the one, and want of GPUs the other", () => {
    const open = gpuBounds(0).resources;
    const queues = [queue("a", { resources: { ...open, ...typeLimit } }), queue("b", gpuBounds(0))];
    const groups = [group("one", { queue: "b" }), group("two", { queue: "a" }), group("three", { queue: "b" })];
    const pods = ["one", "two", "three"].map((name) => pod(name, { gpus: 1, group: name }));
    const { told } = look(clusterWith({ nodes: [node("n1", { gpus: 1, labels: product })], queues, groups, pods }));
    expect(told["two"]).toContain("that queue a has for this type");
    expect(told["three"] ?? told["one"]).toContain("do not have enough GPUs");
  });

  test("when the one names a topology that is not there", () => {
    const groups = [
      group("one", { createdMs: startMs }),
      group("two", { createdMs: startMs + 1000, topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } }),
    ];
    const pods = ["one", "two"].map((name) => pod(name, { gpus: 9, group: name }));
    const { told } = look(clusterWith({ nodes: [node("n1")], groups, pods }));
    expect(told["one"]).toContain("requests 9 GPUs");
    expect(told["two"]).toContain("Topology t does not exist");
  });

  test("and another one as soon as there is another", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { cpu: "2" })],
      pods: [plain("p1", { cpu: "4" }), plain("p2", { cpu: "4" })],
    });
    const first = look(cluster).told;
    expect(first["p1"]).toContain("the largest node has 2");
    expect(first["p2"]).toContain("pod default/p2 requests 4 CPU cores");
    expect(look(cluster).told).toEqual(first);
    cluster.putNode(node("n2", { cpu: "3" }));
    expect(look(cluster).told["p1"]).toContain("the largest node has 3");
  });
});

/** Two jobs alike wait, in a cluster in which one thing is missing. */
interface Wait {
  readonly what: string;
  readonly cluster: () => Cluster;
  readonly help: (cluster: Cluster) => void;
}

const full = node("n1", { cpu: "2" });
const asks = { cpu: "2" };
const waiting = (more: Parameters<typeof pod>[1] = {}): Pod[] => [
  plain("p1", { ...asks, ...more }),
  plain("p2", { ...asks, ...more }),
];
const inQueue = (more: Parameters<typeof pod>[1] = {}) => ({
  groups: [group("p1"), group("p2")],
  pods: ["p1", "p2"].map((name) => pod(name, { gpus: 1, group: name, ...more })),
});

const waits: readonly Wait[] = [
  {
    what: "a pod ends",
    cluster: () => clusterWith({ nodes: [full], pods: [plain("p0", { ...asks, on: "n1" }), ...waiting()] }),
    help: (cluster) => cluster.removePod("pod-default-p0"),
  },
  {
    what: "a node joins",
    cluster: () => clusterWith({ nodes: [], pods: waiting() }),
    help: (cluster) => cluster.putNode(full),
  },
  {
    what: "a node grows",
    cluster: () => clusterWith({ nodes: [node("n1", { cpu: "1" })], pods: waiting() }),
    help: (cluster) => cluster.putNode(full),
  },
  {
    what: "a node is uncordoned",
    cluster: () => clusterWith({ nodes: [node("n1", { cpu: "2", spec: { unschedulable: true } })], pods: waiting() }),
    help: (cluster) => cluster.putNode(full),
  },
  {
    what: "a taint goes",
    cluster: () =>
      clusterWith({
        nodes: [node("n1", { cpu: "2", spec: { taints: [{ key: "x", effect: "NoSchedule" }] } })],
        pods: waiting(),
      }),
    help: (cluster) => cluster.putNode(full),
  },
  {
    what: "a node gets the label that they select",
    cluster: () => clusterWith({ nodes: [full], pods: waiting({ spec: { nodeSelector: { disk: "fast" } } }) }),
    help: (cluster) => cluster.putNode(node("n1", { cpu: "2", labels: { disk: "fast" } })),
  },
  {
    what: "the ConfigMap that they name is made",
    cluster: () => {
      const spec = { volumes: [{ name: "v", configMap: { name: "settings" } }] };
      const cluster = clusterWith({ nodes: [full], pods: waiting({ spec }) });
      cluster.configMaps = new Set();
      return cluster;
    },
    help: (cluster) => {
      cluster.configMaps = new Set(["default/settings"]);
      cluster.changes.note();
    },
  },
  {
    what: "who shunned them goes",
    cluster: () => {
      const apart = { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [red] } } };
      return clusterWith({
        nodes: [node("n1", { cpu: "3" })],
        pods: [plain("p0", { spec: apart, on: "n1" }), ...waiting({ labels })],
      });
    },
    help: (cluster) => cluster.removePod("pod-default-p0"),
  },
  {
    what: "their queue may have more",
    cluster: () =>
      clusterWith({ nodes: [node("n1", { gpus: 1 })], queues: [queue("q", gpuBounds(0, 0))], ...inQueue() }),
    help: (cluster) => cluster.putQueue(queue("q", gpuBounds(0, 1))),
  },
  {
    what: "their queue is made",
    cluster: () => clusterWith({ nodes: [node("n1", { gpus: 1 })], queues: [], ...inQueue() }),
    help: (cluster) => cluster.putQueue(queue("q")),
  },
  {
    what: "one of them asks for less",
    cluster: () => clusterWith({ nodes: [full], pods: waiting({ cpu: "3" }) }),
    help: (cluster) => addPod(cluster, plain("p1", asks)),
  },
  {
    what: "the time has passed for which its bind is held back",
    cluster: () => {
      const cluster = clusterWith({ nodes: [full], pods: waiting() });
      for (const name of ["p1", "p2"])
        cluster.backOffs.set(`pod-default-${name}`, { untilMs: nowMs + 1, why: "refused", times: 1 });
      return cluster;
    },
    help: (cluster) => cluster.backOffs.clear(),
  },
];

describe("a waiting pod gets its place as soon as", () => {
  test.each(waits)("$what", ({ cluster: make, help }) => {
    const cluster = make();
    expect(look(cluster).places).toEqual({});
    expect(look(cluster).places).toEqual({});
    help(cluster);
    expect(look(cluster).places).toEqual({ p1: "n1" });
  });
});

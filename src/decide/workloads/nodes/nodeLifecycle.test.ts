import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { Lease, Node, Pod, Taint, Toleration } from "../../../model/kubernetes.generated.ts";
import { isReady } from "../../../model/objects/podFacts.ts";
import { tolerates } from "../../../model/objects/taints.ts";
import { formatMicroTime, formatTime } from "../../../model/values/time.ts";
import { decideNodeLifecycle, decideTaintEviction } from "./nodeLifecycle.ts";

const heartbeat = { lastHeartbeatTime: formatTime(startMs), lastTransitionTime: formatTime(startMs) };

function nodeOf(cluster: TestCluster, ready = "True"): Node {
  const conditions = ["MemoryPressure", "DiskPressure", "PIDPressure"].map((type) => ({
    type,
    status: "False",
    ...heartbeat,
  }));
  return cluster.add<Node>({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n1" },
    spec: {},
    status: { conditions: [{ type: "Ready", status: ready, ...heartbeat }, ...conditions] },
  });
}

function podOf(cluster: TestCluster, name: string, tolerations: Toleration[] = [], nodeName = "n1"): Pod {
  cluster.add<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { containers: [], nodeName, tolerations },
  });
  cluster.setPhase(name, "Running");
  return cluster.get<Pod>("Pod", name);
}

const leaseAt = (ms: number): Lease => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name: "n1", uid: "l", resourceVersion: "1", creationTimestamp: formatTime(startMs) },
  spec: { renewTime: formatMicroTime(ms) },
});

const node = (cluster: TestCluster) => cluster.get<Node>("Node", "n1");
const taints = (cluster: TestCluster) =>
  (node(cluster).spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
const pictureOf = (cluster: TestCluster, lease?: Lease) => ({
  node: node(cluster),
  lease,
  pods: cluster.all<Pod>("Pod"),
});
const settle = (cluster: TestCluster, lease?: Lease) =>
  cluster.settle((each) => each.apply(decideNodeLifecycle(pictureOf(each, lease), each.nowMs)), 0);

describe("a toleration", () => {
  const taint = (more: Partial<Taint> = {}): Taint => ({ key: "k", value: "v", effect: "NoExecute", ...more });
  test.each<{ name: string; toleration: Toleration; suffers: boolean }>([
    { name: "without key and with Exists tolerates every taint", toleration: { operator: "Exists" }, suffers: true },
    { name: "of another key does not match", toleration: { key: "x", operator: "Exists" }, suffers: false },
    { name: "of the key and value tolerates the taint", toleration: { key: "k", value: "v" }, suffers: true },
    { name: "of another value does not match", toleration: { key: "k", value: "w" }, suffers: false },
    {
      name: "of another effect does not match",
      toleration: { key: "k", operator: "Exists", effect: "NoSchedule" },
      suffers: false,
    },
  ])("$name", ({ toleration, suffers }) => {
    expect(tolerates(toleration, taint())).toBe(suffers);
  });
});

describe("a node", () => {
  test("whose lease is fresh is left alone, and checked again when the lease would be too old", () => {
    const cluster = new TestCluster();
    nodeOf(cluster);
    cluster.nowMs = startMs + 100_000;
    const decision = decideNodeLifecycle(pictureOf(cluster, leaseAt(startMs + 90_000)), cluster.nowMs);
    expect(decision).toEqual({ intents: [], wakeAtMs: startMs + 130_000 });
  });

  test("silent for forty seconds gets Unknown conditions and the unreachable taint, and its pods are not ready", () => {
    const cluster = new TestCluster();
    nodeOf(cluster);
    podOf(cluster, "p");
    podOf(cluster, "elsewhere", [], "n2");
    cluster.nowMs = startMs + 40_000;
    settle(cluster, leaseAt(startMs));
    expect(node(cluster).status?.conditions?.map(({ status }) => status)).toEqual(Array(4).fill("Unknown"));
    expect(node(cluster).status?.conditions?.[0]).toMatchObject({
      reason: "NodeStatusUnknown",
      ...heartbeat,
      lastTransitionTime: formatTime(cluster.nowMs),
    });
    expect(taints(cluster)).toEqual([
      "node.kubernetes.io/unreachable:NoSchedule",
      "node.kubernetes.io/unreachable:NoExecute",
    ]);
    expect(isReady(cluster.get("Pod", "p"))).toBe(false);
    expect(isReady(cluster.get("Pod", "elsewhere"))).toBe(true);
  });

  test("that has never reported has a grace of a minute", () => {
    const cluster = new TestCluster();
    cluster.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n1" }, spec: {} });
    expect(decideNodeLifecycle(pictureOf(cluster), startMs + 59_000)).toEqual({
      intents: [],
      wakeAtMs: startMs + 60_000,
    });
    cluster.nowMs = startMs + 60_000;
    settle(cluster);
    expect(node(cluster).status?.conditions?.[0]?.reason).toBe("NodeStatusNeverUpdated");
  });

  test("with a wrong clock is healthy as long as its heartbeats change", () => {
    const cluster = new TestCluster();
    nodeOf(cluster);
    const lease = leaseAt(startMs - 3_600_000);
    const snapshot = { ...pictureOf(cluster, lease), seenMs: startMs + 70_000 };
    expect(decideNodeLifecycle(snapshot, startMs + 80_000).intents).toEqual([]);
  });

  test("that reports NotReady itself gets the not-ready taint, and loses it when it is Ready", () => {
    const cluster = new TestCluster();
    nodeOf(cluster, "False");
    settle(cluster);
    expect(taints(cluster)).toEqual([
      "node.kubernetes.io/not-ready:NoSchedule",
      "node.kubernetes.io/not-ready:NoExecute",
    ]);
    cluster.change<Node>("Node", "n1", ({ status, spec }) => {
      if (status?.conditions?.[0] !== undefined) status.conditions[0].status = "True";
      spec?.taints?.push({ key: "mine", effect: "NoSchedule" });
    });
    settle(cluster);
    expect(taints(cluster)).toEqual(["mine:NoSchedule"]);
  });

  test("that is cordoned or under pressure is tainted for the scheduler only", () => {
    const cluster = new TestCluster();
    nodeOf(cluster);
    cluster.change<Node>("Node", "n1", (each) => {
      each.spec = { unschedulable: true };
      if (each.status?.conditions?.[1] !== undefined) each.status.conditions[1].status = "True";
    });
    settle(cluster);
    expect(taints(cluster)).toEqual([
      "node.kubernetes.io/memory-pressure:NoSchedule",
      "node.kubernetes.io/unschedulable:NoSchedule",
    ]);
  });

  test("does not lose its pods when all nodes are silent at once", () => {
    const cluster = new TestCluster();
    nodeOf(cluster, "Unknown");
    const decision = decideNodeLifecycle({ ...pictureOf(cluster), isFullDisruption: true }, cluster.nowMs);
    expect(JSON.stringify(decision.intents)).not.toContain("NoExecute");
  });
});

describe("a NoExecute taint", () => {
  const taint = { key: "k", effect: "NoExecute", timeAdded: formatTime(startMs) };
  const tainted = (more: Partial<Taint> = {}) => {
    const cluster = new TestCluster();
    nodeOf(cluster);
    cluster.change<Node>("Node", "n1", (each) => {
      each.spec = { taints: [{ ...taint, ...more }] };
    });
    return cluster;
  };
  const decide = (cluster: TestCluster) => decideTaintEviction(pictureOf(cluster), cluster.nowMs);
  const wait = (seconds?: number): Toleration => ({
    key: "k",
    operator: "Exists",
    ...(seconds !== undefined && { tolerationSeconds: seconds }),
  });

  test("evicts a pod that does not tolerate it: first the DisruptionTarget condition, then the delete", () => {
    const cluster = tainted();
    podOf(cluster, "p");
    expect(decide(cluster).intents).toMatchObject([{ type: "status", target: { name: "p" } }]);
    cluster.apply(decide(cluster));
    const pod = cluster.get<Pod>("Pod", "p");
    expect(pod.status?.conditions?.at(-1)).toMatchObject({
      type: "DisruptionTarget",
      reason: "DeletionByTaintManager",
    });
    const { uid, resourceVersion } = pod.metadata;
    expect(decide(cluster).intents).toMatchObject([{ type: "delete", expected: { uid, resourceVersion } }]);
    cluster.apply(decide(cluster));
    expect(decide(cluster).intents).toEqual([]);
  });

  test("is tolerated for ever without tolerationSeconds", () => {
    const cluster = tainted();
    podOf(cluster, "p", [wait()]);
    cluster.nowMs += 1e9;
    expect(decide(cluster)).toEqual({ intents: [], wakeAtMs: undefined });
  });

  test("is tolerated for the shortest of the given times", () => {
    const cluster = tainted();
    podOf(cluster, "p", [wait(300), wait(60)]);
    expect(decide(cluster)).toEqual({ intents: [], wakeAtMs: startMs + 60_000 });
    cluster.nowMs = startMs + 60_000;
    expect(decide(cluster).intents).toHaveLength(1);
  });

  test("is tolerated by a newer pod from the creation of the pod on", () => {
    const cluster = tainted();
    cluster.nowMs = startMs + 200_000;
    podOf(cluster, "late", [wait(60)]);
    const madeMs = Date.parse(cluster.get<Pod>("Pod", "late").metadata.creationTimestamp ?? "");
    expect([madeMs > startMs, decide(cluster)]).toEqual([true, { intents: [], wakeAtMs: madeMs + 60_000 }]);
  });

  test("set by hand has no timeAdded; it gets one before tolerationSeconds count", () => {
    const cluster = tainted();
    cluster.change<Node>("Node", "n1", (each) => {
      each.spec = { taints: [{ key: "k", effect: "NoExecute" }] };
    });
    podOf(cluster, "p", [wait(60)]);
    expect(decide(cluster)).toEqual({ intents: [], wakeAtMs: undefined });
    cluster.apply(decideNodeLifecycle(pictureOf(cluster), cluster.nowMs));
    expect(node(cluster).spec?.taints?.[0]?.timeAdded).toBe(formatTime(cluster.nowMs));
    expect(decide(cluster).wakeAtMs).toBe(cluster.nowMs + 60_000);
  });
});

test("a node reaches a stable state, and the order of its pods does not matter", () => {
  const status = fc.constantFrom("True", "False", "Unknown");
  fc.assert(
    fc.property(status, fc.boolean(), fc.nat(100), fc.nat(5), (ready, cordoned, silentSeconds, pods) => {
      const cluster = new TestCluster();
      nodeOf(cluster, ready);
      cluster.change<Node>("Node", "n1", (each) => {
        each.spec = { unschedulable: cordoned };
      });
      for (let i = 0; i < pods; i++) podOf(cluster, `p${i}`);
      cluster.nowMs = startMs + silentSeconds * 1000;
      const snapshot = pictureOf(cluster, leaseAt(startMs));
      const reversed = { ...snapshot, pods: [...snapshot.pods].reverse() };
      expect(decideNodeLifecycle(reversed, cluster.nowMs)).toEqual(decideNodeLifecycle(snapshot, cluster.nowMs));
      settle(cluster, leaseAt(startMs));
      expect(decideNodeLifecycle(pictureOf(cluster, leaseAt(startMs)), cluster.nowMs).intents).toEqual([]);
      const isSilent = silentSeconds >= 40 || ready === "Unknown";
      expect(taints(cluster).some((text) => text.startsWith("node.kubernetes.io/unreachable"))).toBe(isSilent);
      expect(cluster.conflicts).toBe(0);
    }),
    { numRuns: 60 },
  );
});

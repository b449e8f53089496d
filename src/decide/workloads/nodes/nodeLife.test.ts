import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import type { Lease, Node, Pod, Taint, Toleration } from "../../../model/kubernetes.generated.ts";
import { isReady } from "../../../model/objects/podFacts.ts";
import { tolerates } from "../../../model/objects/taints.ts";
import { formatMicroTime, formatTime } from "../../../model/values/time.ts";
import { decideNodeLife, decideTaintEviction } from "./nodeLife.ts";

const heartbeat = { lastHeartbeatTime: formatTime(startMs), lastTransitionTime: formatTime(startMs) };

function nodeOf(world: TestWorld, ready = "True"): Node {
  const conditions = ["MemoryPressure", "DiskPressure", "PIDPressure"].map((type) => ({
    type,
    status: "False",
    ...heartbeat,
  }));
  return world.add<Node>({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n1" },
    spec: {},
    status: { conditions: [{ type: "Ready", status: ready, ...heartbeat }, ...conditions] },
  });
}

function podOf(world: TestWorld, name: string, tolerations: Toleration[] = [], nodeName = "n1"): Pod {
  world.add<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { containers: [], nodeName, tolerations },
  });
  world.setPhase(name, "Running");
  return world.get<Pod>("Pod", name);
}

const leaseAt = (ms: number): Lease => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name: "n1", uid: "l", resourceVersion: "1", creationTimestamp: formatTime(startMs) },
  spec: { renewTime: formatMicroTime(ms) },
});

const node = (world: TestWorld) => world.get<Node>("Node", "n1");
const taints = (world: TestWorld) => (node(world).spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
const pictureOf = (world: TestWorld, lease?: Lease) => ({ node: node(world), lease, pods: world.all<Pod>("Pod") });
const settle = (world: TestWorld, lease?: Lease) =>
  world.settle((each) => each.apply(decideNodeLife(pictureOf(each, lease), each.nowMs)), 0);

describe("a toleration", () => {
  const taint = (more: Partial<Taint> = {}): Taint => ({ key: "k", value: "v", effect: "NoExecute", ...more });
  test.each<{ name: string; toleration: Toleration; suffers: boolean }>([
    { name: "without key and with Exists suffers everything", toleration: { operator: "Exists" }, suffers: true },
    { name: "of another key does not help", toleration: { key: "x", operator: "Exists" }, suffers: false },
    { name: "of the key and value suffers the taint", toleration: { key: "k", value: "v" }, suffers: true },
    { name: "of another value does not help", toleration: { key: "k", value: "w" }, suffers: false },
    {
      name: "of another effect does not help",
      toleration: { key: "k", operator: "Exists", effect: "NoSchedule" },
      suffers: false,
    },
  ])("$name", ({ toleration, suffers }) => {
    expect(tolerates(toleration, taint())).toBe(suffers);
  });
});

describe("a node", () => {
  test("whose lease is fresh is left alone, and looked at again when the lease would be too old", () => {
    const world = new TestWorld();
    nodeOf(world);
    world.nowMs = startMs + 100_000;
    const decision = decideNodeLife(pictureOf(world, leaseAt(startMs + 90_000)), world.nowMs);
    expect(decision).toEqual({ intents: [], wakeAtMs: startMs + 130_000 });
  });

  test("silent for forty seconds becomes Unknown in all it says, then unreachable, and its pods not ready", () => {
    const world = new TestWorld();
    nodeOf(world);
    podOf(world, "p");
    podOf(world, "elsewhere", [], "n2");
    world.nowMs = startMs + 40_000;
    settle(world, leaseAt(startMs));
    expect(node(world).status?.conditions?.map(({ status }) => status)).toEqual(Array(4).fill("Unknown"));
    expect(node(world).status?.conditions?.[0]).toMatchObject({
      reason: "NodeStatusUnknown",
      ...heartbeat,
      lastTransitionTime: formatTime(world.nowMs),
    });
    expect(taints(world)).toEqual([
      "node.kubernetes.io/unreachable:NoSchedule",
      "node.kubernetes.io/unreachable:NoExecute",
    ]);
    expect(isReady(world.get("Pod", "p"))).toBe(false);
    expect(isReady(world.get("Pod", "elsewhere"))).toBe(true);
  });

  test("that has never reported has a minute", () => {
    const world = new TestWorld();
    world.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n1" }, spec: {} });
    expect(decideNodeLife(pictureOf(world), startMs + 59_000)).toEqual({ intents: [], wakeAtMs: startMs + 60_000 });
    world.nowMs = startMs + 60_000;
    settle(world);
    expect(node(world).status?.conditions?.[0]?.reason).toBe("NodeStatusNeverUpdated");
  });

  test("with a wrong clock is alive as long as it is seen to move", () => {
    const world = new TestWorld();
    nodeOf(world);
    const lease = leaseAt(startMs - 3_600_000);
    const snapshot = { ...pictureOf(world, lease), seenMs: startMs + 70_000 };
    expect(decideNodeLife(snapshot, startMs + 80_000).intents).toEqual([]);
  });

  test("that says NotReady itself gets the other taint, and loses it when it is back", () => {
    const world = new TestWorld();
    nodeOf(world, "False");
    settle(world);
    expect(taints(world)).toEqual([
      "node.kubernetes.io/not-ready:NoSchedule",
      "node.kubernetes.io/not-ready:NoExecute",
    ]);
    world.change<Node>("Node", "n1", ({ status, spec }) => {
      if (status?.conditions?.[0] !== undefined) status.conditions[0].status = "True";
      spec?.taints?.push({ key: "mine", effect: "NoSchedule" });
    });
    settle(world);
    expect(taints(world)).toEqual(["mine:NoSchedule"]);
  });

  test("that is cordoned or under pressure is tainted for the scheduler only", () => {
    const world = new TestWorld();
    nodeOf(world);
    world.change<Node>("Node", "n1", (each) => {
      each.spec = { unschedulable: true };
      if (each.status?.conditions?.[1] !== undefined) each.status.conditions[1].status = "True";
    });
    settle(world);
    expect(taints(world)).toEqual([
      "node.kubernetes.io/memory-pressure:NoSchedule",
      "node.kubernetes.io/unschedulable:NoSchedule",
    ]);
  });

  test("does not lose its pods when all nodes are silent at once", () => {
    const world = new TestWorld();
    nodeOf(world, "Unknown");
    const decision = decideNodeLife({ ...pictureOf(world), allSilent: true }, world.nowMs);
    expect(JSON.stringify(decision.intents)).not.toContain("NoExecute");
  });
});

describe("a NoExecute taint", () => {
  const taint = { key: "k", effect: "NoExecute", timeAdded: formatTime(startMs) };
  const tainted = (more: Partial<Taint> = {}) => {
    const world = new TestWorld();
    nodeOf(world);
    world.change<Node>("Node", "n1", (each) => {
      each.spec = { taints: [{ ...taint, ...more }] };
    });
    return world;
  };
  const decide = (world: TestWorld) => decideTaintEviction(pictureOf(world), world.nowMs);
  const wait = (seconds?: number): Toleration => ({
    key: "k",
    operator: "Exists",
    ...(seconds !== undefined && { tolerationSeconds: seconds }),
  });

  test("drives out a pod that does not tolerate it: the reason first, then the deletion", () => {
    const world = tainted();
    podOf(world, "p");
    expect(decide(world).intents).toMatchObject([{ type: "status", target: { name: "p" } }]);
    world.apply(decide(world));
    const pod = world.get<Pod>("Pod", "p");
    expect(pod.status?.conditions?.at(-1)).toMatchObject({
      type: "DisruptionTarget",
      reason: "DeletionByTaintManager",
    });
    const { uid, resourceVersion } = pod.metadata;
    expect(decide(world).intents).toMatchObject([{ type: "delete", expected: { uid, resourceVersion } }]);
    world.apply(decide(world));
    expect(decide(world).intents).toEqual([]);
  });

  test("is suffered for ever without tolerationSeconds", () => {
    const world = tainted();
    podOf(world, "p", [wait()]);
    world.nowMs += 1e9;
    expect(decide(world)).toEqual({ intents: [], wakeAtMs: undefined });
  });

  test("is suffered for the shortest of the times that are given", () => {
    const world = tainted();
    podOf(world, "p", [wait(300), wait(60)]);
    expect(decide(world)).toEqual({ intents: [], wakeAtMs: startMs + 60_000 });
    world.nowMs = startMs + 60_000;
    expect(decide(world).intents).toHaveLength(1);
  });

  test("is suffered by a pod that came after it from the moment the pod was made", () => {
    const world = tainted();
    world.nowMs = startMs + 200_000;
    podOf(world, "late", [wait(60)]);
    const madeMs = Date.parse(world.get<Pod>("Pod", "late").metadata.creationTimestamp ?? "");
    expect([madeMs > startMs, decide(world)]).toEqual([true, { intents: [], wakeAtMs: madeMs + 60_000 }]);
  });

  test("set by hand has no time; it is given one before any clock runs", () => {
    const world = tainted();
    world.change<Node>("Node", "n1", (each) => {
      each.spec = { taints: [{ key: "k", effect: "NoExecute" }] };
    });
    podOf(world, "p", [wait(60)]);
    expect(decide(world)).toEqual({ intents: [], wakeAtMs: undefined });
    world.apply(decideNodeLife(pictureOf(world), world.nowMs));
    expect(node(world).spec?.taints?.[0]?.timeAdded).toBe(formatTime(world.nowMs));
    expect(decide(world).wakeAtMs).toBe(world.nowMs + 60_000);
  });
});

test("a node settles, and the order of its pods does not matter", () => {
  const status = fc.constantFrom("True", "False", "Unknown");
  fc.assert(
    fc.property(status, fc.boolean(), fc.nat(100), fc.nat(5), (ready, cordoned, silentSeconds, pods) => {
      const world = new TestWorld();
      nodeOf(world, ready);
      world.change<Node>("Node", "n1", (each) => {
        each.spec = { unschedulable: cordoned };
      });
      for (let i = 0; i < pods; i++) podOf(world, `p${i}`);
      world.nowMs = startMs + silentSeconds * 1000;
      const snapshot = pictureOf(world, leaseAt(startMs));
      const reversed = { ...snapshot, pods: [...snapshot.pods].reverse() };
      expect(decideNodeLife(reversed, world.nowMs)).toEqual(decideNodeLife(snapshot, world.nowMs));
      settle(world, leaseAt(startMs));
      expect(decideNodeLife(pictureOf(world, leaseAt(startMs)), world.nowMs).intents).toEqual([]);
      const isSilent = silentSeconds >= 40 || ready === "Unknown";
      expect(taints(world).some((text) => text.startsWith("node.kubernetes.io/unreachable"))).toBe(isSilent);
      expect(world.conflicts).toBe(0);
    }),
    { numRuns: 60 },
  );
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import type { ControllerRevision, DaemonSet, DaemonSetSpec, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { isActive, isAvailable } from "../../../model/objects/podFacts.ts";
import { nodeNameOf } from "./daemonPod.ts";
import { decideDaemonSet } from "./daemonSet.ts";

const template = (image: string, more: object = {}) => ({
  metadata: { labels: { app: "agent" } },
  spec: { containers: [{ name: "c", image }], ...more },
});

function nodesOf(world: TestWorld, count: number): void {
  for (let i = 0; i < count; i++) {
    world.add<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: `n${i}`, labels: { odd: String(i % 2) } },
      spec: {},
    });
  }
}

function daemonsOf(world: TestWorld, spec: Partial<DaemonSetSpec> = {}): DaemonSet {
  return world.add<DaemonSet>({
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "agent" },
    spec: { selector: { matchLabels: { app: "agent" } }, template: template("v1"), ...spec },
  });
}

const daemonSet = (world: TestWorld) => world.get<DaemonSet>("DaemonSet", "agent");
const active = (world: TestWorld) => world.all<Pod>("Pod").filter(isActive);
const nodeNames = (world: TestWorld) => active(world).map(nodeNameOf).sort();
const imageOf = (pod: Pod) => pod.spec?.containers[0]?.image;

function pictureOf(world: TestWorld) {
  return {
    revision: String(world.revision),
    daemonSet: daemonSet(world),
    nodes: world.all<Node>("Node"),
    pods: world.all<Pod>("Pod"),
    revisions: world.all<ControllerRevision>("ControllerRevision"),
  };
}
const decide = (world: TestWorld) => decideDaemonSet(pictureOf(world), world.nowMs);
const kubelet = (world: TestWorld) => world.kubelet({ node: (pod) => nodeNameOf(pod) ?? "?" });
function settle(world: TestWorld, check: () => void = () => {}): void {
  world.settle((each) => {
    each.apply(decide(each));
    check();
    kubelet(each);
    check();
  });
}
const edit = (world: TestWorld, change: Partial<DaemonSetSpec>) =>
  world.change<DaemonSet>("DaemonSet", "agent", (each) => {
    each.spec = { ...(each.spec as DaemonSetSpec), ...change };
  });
const taint = (world: TestWorld, name: string, key: string, effect: string) =>
  world.change<Node>("Node", name, (each) => {
    each.spec = { taints: [{ key, effect }] };
  });

describe("a DaemonSet", () => {
  test("has one pod on each node, pinned there by its name", () => {
    const world = new TestWorld();
    nodesOf(world, 3);
    daemonsOf(world);
    settle(world);
    expect(nodeNames(world)).toEqual(["n0", "n1", "n2"]);
    expect(daemonSet(world).status).toMatchObject({
      desiredNumberScheduled: 3,
      currentNumberScheduled: 3,
      numberReady: 3,
      numberAvailable: 3,
      updatedNumberScheduled: 3,
      observedGeneration: 1,
    });
    const pin = { key: "metadata.name", operator: "In", values: ["n0"] };
    const [pod] = active(world).filter((each) => nodeNameOf(each) === "n0");
    expect(pod?.spec?.affinity?.nodeAffinity).toEqual({
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [pin] }] },
    });
    expect(decide(world).intents).toEqual([]);
  });

  test.each<{ name: string; spec: object; nodes: string[] }>([
    { name: "a node selector", spec: { nodeSelector: { odd: "1" } }, nodes: ["n1"] },
    { name: "a node name", spec: { nodeName: "n2" }, nodes: ["n2"] },
    {
      name: "a required affinity",
      spec: {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: "odd", operator: "NotIn", values: ["1"] }] }],
            },
          },
        },
      },
      nodes: ["n0", "n2"],
    },
  ])("obeys $name", ({ spec, nodes }) => {
    const world = new TestWorld();
    nodesOf(world, 3);
    daemonsOf(world, { template: template("v1", spec) });
    settle(world);
    expect(nodeNames(world)).toEqual(nodes);
  });

  test.each([
    { key: "node.kubernetes.io/not-ready", effect: "NoExecute", stays: true, comes: true },
    { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule", stays: true, comes: true },
    { key: "mine", effect: "NoSchedule", stays: true, comes: false },
    { key: "mine", effect: "NoExecute", stays: false, comes: false },
  ])("on a node tainted $key:$effect stays: $stays, comes: $comes", ({ key, effect, stays, comes }) => {
    const world = new TestWorld();
    nodesOf(world, 1);
    daemonsOf(world);
    settle(world);
    taint(world, "n0", key, effect);
    settle(world);
    expect(active(world)).toHaveLength(stays ? 1 : 0);
    const other = new TestWorld();
    nodesOf(other, 1);
    taint(other, "n0", key, effect);
    daemonsOf(other);
    settle(other);
    expect(active(other)).toHaveLength(comes ? 1 : 0);
  });

  test("follows nodes that come, and lets go of what was meant for a node that is gone", () => {
    const world = new TestWorld();
    nodesOf(world, 1);
    daemonsOf(world);
    world.apply(decide(world));
    world.objects.delete("Node/n0");
    nodesOf(world, 0);
    world.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n9" }, spec: {} });
    settle(world);
    expect(nodeNames(world)).toEqual(["n9"]);
  });

  test("replaces a pod that has ended, but not in a tight loop", () => {
    const world = new TestWorld();
    nodesOf(world, 1);
    daemonsOf(world);
    settle(world);
    world.setPhase(active(world)[0]!.metadata.name, "Failed");
    expect(decide(world).intents.filter(({ type }) => type === "delete")).toEqual([]);
    expect(decide(world).wakeAtMs).toBe(world.nowMs + 5000);
    world.nowMs += 5000;
    settle(world);
    expect(active(world)).toHaveLength(1);
  });

  test("with OnDelete replaces a pod only when it is deleted", () => {
    const world = new TestWorld();
    nodesOf(world, 2);
    daemonsOf(world, { updateStrategy: { type: "OnDelete" } });
    settle(world);
    edit(world, { template: template("v2") });
    settle(world);
    expect(active(world).map(imageOf)).toEqual(["v1", "v1"]);
    world.remove(active(world)[0]!);
    settle(world);
    expect(active(world).map(imageOf).sort()).toEqual(["v1", "v2"]);
    expect(daemonSet(world).status?.updatedNumberScheduled).toBe(1);
  });

  test("keeps its history in the form that kubectl rolls back, and renumbers what comes back", () => {
    const world = new TestWorld();
    nodesOf(world, 1);
    daemonsOf(world, { revisionHistoryLimit: 1 });
    const numbers = () =>
      world
        .all<ControllerRevision>("ControllerRevision")
        .map(({ revision }) => revision)
        .sort();
    settle(world);
    edit(world, { template: template("v2") });
    settle(world);
    expect(numbers()).toEqual([1, 2]);
    edit(world, { template: template("v1") });
    settle(world);
    expect(numbers()).toEqual([2, 3]);
    edit(world, { template: template("v3") });
    settle(world);
    expect(numbers()).toEqual([3, 4]);
    const [first] = world.all<ControllerRevision>("ControllerRevision");
    expect(first?.data).toMatchObject({ spec: { template: { $patch: "replace" } } });
  });
});

describe("while a DaemonSet rolls", () => {
  const limit = fc.integer({ min: 1, max: 3 });

  test("never more nodes are without an available pod than may be, and it ends", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        limit,
        fc.array(fc.nat(2), { maxLength: 30 }),
        (count, max, steps) => {
          const world = new TestWorld();
          nodesOf(world, count);
          daemonsOf(world, { updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: max } } });
          settle(world);
          edit(world, { template: template("v2") });
          const check = () => {
            const served = active(world).filter((pod) => isAvailable(pod, 0, world.nowMs));
            expect(new Set(served.map(nodeNameOf)).size).toBeGreaterThanOrEqual(count - max);
            expect(active(world).length).toBeLessThanOrEqual(count);
          };
          for (const step of steps) {
            if (step === 0) world.apply(decide(world));
            else if (step === 1) kubelet(world);
            else world.nowMs += 1000;
            check();
          }
          settle(world, check);
          expect(active(world).map(imageOf)).toEqual(Array(count).fill("v2"));
          expect(decide(world).intents).toEqual([]);
          expect(world.conflicts).toBe(0);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("with a surge every node is always served and no more pods exist than allowed", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        limit,
        fc.array(fc.nat(1), { maxLength: 20 }),
        (count, max, steps) => {
          const world = new TestWorld();
          nodesOf(world, count);
          const rollingUpdate = { maxSurge: max, maxUnavailable: 0 };
          daemonsOf(world, { updateStrategy: { type: "RollingUpdate", rollingUpdate } });
          settle(world);
          edit(world, { template: template("v2") });
          const check = () => {
            const served = active(world).filter((pod) => isAvailable(pod, 0, world.nowMs));
            expect(new Set(served.map(nodeNameOf)).size).toBe(count);
            expect(active(world).length).toBeLessThanOrEqual(count + max);
          };
          for (const step of steps) {
            if (step === 0) world.apply(decide(world));
            else kubelet(world);
            check();
          }
          settle(world, check);
          expect(active(world).map(imageOf)).toEqual(Array(count).fill("v2"));
          expect(decide(world).intents).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("the order of nodes and pods in their lists changes nothing", () => {
    fc.assert(
      fc.property(fc.nat(6), (steps) => {
        const world = new TestWorld();
        nodesOf(world, 4);
        daemonsOf(world);
        settle(world);
        edit(world, { template: template("v2") });
        for (let i = 0; i < steps; i++) {
          world.apply(decide(world));
          if (i % 2 === 1) kubelet(world);
        }
        const snapshot = pictureOf(world);
        const reversed = { ...snapshot, nodes: [...snapshot.nodes].reverse(), pods: [...snapshot.pods].reverse() };
        expect(decideDaemonSet(reversed, world.nowMs)).toEqual(decideDaemonSet(snapshot, world.nowMs));
      }),
      { numRuns: 10 },
    );
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { ControllerRevision, DaemonSet, DaemonSetSpec, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { isActive, isAvailable } from "../../../model/objects/podFacts.ts";
import { nodeNameOf } from "./daemonPod.ts";
import { decideDaemonSet } from "./daemonSet.ts";

const template = (image: string, more: object = {}) => ({
  metadata: { labels: { app: "agent" } },
  spec: { containers: [{ name: "c", image }], ...more },
});

function nodesOf(cluster: TestCluster, count: number): void {
  for (let i = 0; i < count; i++) {
    cluster.add<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: `n${i}`, labels: { odd: String(i % 2) } },
      spec: {},
    });
  }
}

function daemonsOf(cluster: TestCluster, spec: Partial<DaemonSetSpec> = {}): DaemonSet {
  return cluster.add<DaemonSet>({
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "agent" },
    spec: { selector: { matchLabels: { app: "agent" } }, template: template("v1"), ...spec },
  });
}

const daemonSet = (cluster: TestCluster) => cluster.get<DaemonSet>("DaemonSet", "agent");
const active = (cluster: TestCluster) => cluster.all<Pod>("Pod").filter(isActive);
const nodeNames = (cluster: TestCluster) => active(cluster).map(nodeNameOf).sort();
const imageOf = (pod: Pod) => pod.spec?.containers[0]?.image;

function pictureOf(cluster: TestCluster) {
  return {
    revision: String(cluster.revision),
    daemonSet: daemonSet(cluster),
    nodes: cluster.all<Node>("Node"),
    pods: cluster.all<Pod>("Pod"),
    revisions: cluster.all<ControllerRevision>("ControllerRevision"),
  };
}
const decide = (cluster: TestCluster) => decideDaemonSet(pictureOf(cluster), cluster.nowMs);
const kubelet = (cluster: TestCluster) => cluster.kubelet({ node: (pod) => nodeNameOf(pod) ?? "?" });
function settle(cluster: TestCluster, check: () => void = () => {}): void {
  cluster.settle((each) => {
    each.apply(decide(each));
    check();
    kubelet(each);
    check();
  });
}
const edit = (cluster: TestCluster, change: Partial<DaemonSetSpec>) =>
  cluster.change<DaemonSet>("DaemonSet", "agent", (each) => {
    each.spec = { ...(each.spec as DaemonSetSpec), ...change };
  });
const taint = (cluster: TestCluster, name: string, key: string, effect: string) =>
  cluster.change<Node>("Node", name, (each) => {
    each.spec = { taints: [{ key, effect }] };
  });

describe("a DaemonSet", () => {
  test("has one pod on each node, pinned there by its name", () => {
    const cluster = new TestCluster();
    nodesOf(cluster, 3);
    daemonsOf(cluster);
    settle(cluster);
    expect(nodeNames(cluster)).toEqual(["n0", "n1", "n2"]);
    expect(daemonSet(cluster).status).toMatchObject({
      desiredNumberScheduled: 3,
      currentNumberScheduled: 3,
      numberReady: 3,
      numberAvailable: 3,
      updatedNumberScheduled: 3,
      observedGeneration: 1,
    });
    const pin = { key: "metadata.name", operator: "In", values: ["n0"] };
    const [pod] = active(cluster).filter((each) => nodeNameOf(each) === "n0");
    expect(pod?.spec?.affinity?.nodeAffinity).toEqual({
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [pin] }] },
    });
    expect(decide(cluster).intents).toEqual([]);
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
    const cluster = new TestCluster();
    nodesOf(cluster, 3);
    daemonsOf(cluster, { template: template("v1", spec) });
    settle(cluster);
    expect(nodeNames(cluster)).toEqual(nodes);
  });

  test.each([
    { key: "node.kubernetes.io/not-ready", effect: "NoExecute", stays: true, comes: true },
    { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule", stays: true, comes: true },
    { key: "mine", effect: "NoSchedule", stays: true, comes: false },
    { key: "mine", effect: "NoExecute", stays: false, comes: false },
  ])("on a node tainted $key:$effect stays: $stays, comes: $comes", ({ key, effect, stays, comes }) => {
    const cluster = new TestCluster();
    nodesOf(cluster, 1);
    daemonsOf(cluster);
    settle(cluster);
    taint(cluster, "n0", key, effect);
    settle(cluster);
    expect(active(cluster)).toHaveLength(stays ? 1 : 0);
    const other = new TestCluster();
    nodesOf(other, 1);
    taint(other, "n0", key, effect);
    daemonsOf(other);
    settle(other);
    expect(active(other)).toHaveLength(comes ? 1 : 0);
  });

  test("creates pods for new nodes, and deletes pods for deleted nodes", () => {
    const cluster = new TestCluster();
    nodesOf(cluster, 1);
    daemonsOf(cluster);
    cluster.apply(decide(cluster));
    cluster.objects.delete("Node/n0");
    nodesOf(cluster, 0);
    cluster.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n9" }, spec: {} });
    settle(cluster);
    expect(nodeNames(cluster)).toEqual(["n9"]);
  });

  test("replaces a finished pod, with a back-off", () => {
    const cluster = new TestCluster();
    nodesOf(cluster, 1);
    daemonsOf(cluster);
    settle(cluster);
    cluster.setPhase(active(cluster)[0]!.metadata.name, "Failed");
    expect(decide(cluster).intents.filter(({ type }) => type === "delete")).toEqual([]);
    expect(decide(cluster).wakeAtMs).toBe(cluster.nowMs + 5000);
    cluster.nowMs += 5000;
    settle(cluster);
    expect(active(cluster)).toHaveLength(1);
  });

  test("with OnDelete replaces a pod only when it is deleted", () => {
    const cluster = new TestCluster();
    nodesOf(cluster, 2);
    daemonsOf(cluster, { updateStrategy: { type: "OnDelete" } });
    settle(cluster);
    edit(cluster, { template: template("v2") });
    settle(cluster);
    expect(active(cluster).map(imageOf)).toEqual(["v1", "v1"]);
    cluster.remove(active(cluster)[0]!);
    settle(cluster);
    expect(active(cluster).map(imageOf).sort()).toEqual(["v1", "v2"]);
    expect(daemonSet(cluster).status?.updatedNumberScheduled).toBe(1);
  });

  test("keeps its history in the form that kubectl reads, and renumbers a restored revision", () => {
    const cluster = new TestCluster();
    nodesOf(cluster, 1);
    daemonsOf(cluster, { revisionHistoryLimit: 1 });
    const numbers = () =>
      cluster
        .all<ControllerRevision>("ControllerRevision")
        .map(({ revision }) => revision)
        .sort();
    settle(cluster);
    edit(cluster, { template: template("v2") });
    settle(cluster);
    expect(numbers()).toEqual([1, 2]);
    edit(cluster, { template: template("v1") });
    settle(cluster);
    expect(numbers()).toEqual([2, 3]);
    edit(cluster, { template: template("v3") });
    settle(cluster);
    expect(numbers()).toEqual([3, 4]);
    const [first] = cluster.all<ControllerRevision>("ControllerRevision");
    expect(first?.data).toMatchObject({ spec: { template: { $patch: "replace" } } });
  });
});

describe("while a DaemonSet rolls", () => {
  const limit = fc.integer({ min: 1, max: 3 });

  test("no more nodes than maxUnavailable are without an available pod, and the update ends", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        limit,
        fc.array(fc.nat(2), { maxLength: 30 }),
        (count, max, steps) => {
          const cluster = new TestCluster();
          nodesOf(cluster, count);
          daemonsOf(cluster, { updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: max } } });
          settle(cluster);
          edit(cluster, { template: template("v2") });
          const check = () => {
            const served = active(cluster).filter((pod) => isAvailable(pod, 0, cluster.nowMs));
            expect(new Set(served.map(nodeNameOf)).size).toBeGreaterThanOrEqual(count - max);
            expect(active(cluster).length).toBeLessThanOrEqual(count);
          };
          for (const step of steps) {
            if (step === 0) cluster.apply(decide(cluster));
            else if (step === 1) kubelet(cluster);
            else cluster.nowMs += 1000;
            check();
          }
          settle(cluster, check);
          expect(active(cluster).map(imageOf)).toEqual(Array(count).fill("v2"));
          expect(decide(cluster).intents).toEqual([]);
          expect(cluster.conflicts).toBe(0);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("with a surge every node always has an available pod and no more pods exist than allowed", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        limit,
        fc.array(fc.nat(1), { maxLength: 20 }),
        (count, max, steps) => {
          const cluster = new TestCluster();
          nodesOf(cluster, count);
          const rollingUpdate = { maxSurge: max, maxUnavailable: 0 };
          daemonsOf(cluster, { updateStrategy: { type: "RollingUpdate", rollingUpdate } });
          settle(cluster);
          edit(cluster, { template: template("v2") });
          const check = () => {
            const served = active(cluster).filter((pod) => isAvailable(pod, 0, cluster.nowMs));
            expect(new Set(served.map(nodeNameOf)).size).toBe(count);
            expect(active(cluster).length).toBeLessThanOrEqual(count + max);
          };
          for (const step of steps) {
            if (step === 0) cluster.apply(decide(cluster));
            else kubelet(cluster);
            check();
          }
          settle(cluster, check);
          expect(active(cluster).map(imageOf)).toEqual(Array(count).fill("v2"));
          expect(decide(cluster).intents).toEqual([]);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("the order of nodes and pods in their lists changes nothing", () => {
    fc.assert(
      fc.property(fc.nat(6), (steps) => {
        const cluster = new TestCluster();
        nodesOf(cluster, 4);
        daemonsOf(cluster);
        settle(cluster);
        edit(cluster, { template: template("v2") });
        for (let i = 0; i < steps; i++) {
          cluster.apply(decide(cluster));
          if (i % 2 === 1) kubelet(cluster);
        }
        const snapshot = pictureOf(cluster);
        const reversed = { ...snapshot, nodes: [...snapshot.nodes].reverse(), pods: [...snapshot.pods].reverse() };
        expect(decideDaemonSet(reversed, cluster.nowMs)).toEqual(decideDaemonSet(snapshot, cluster.nowMs));
      }),
      { numRuns: 10 },
    );
  });
});

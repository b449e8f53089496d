import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startMs, TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { Pod, ReplicaSet } from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";
import { decideReplicaSet, slowStartBatches } from "./replicaSet.ts";
import { rankForDeletion } from "./scaleDown.ts";

function setOf(cluster: TestCluster, replicas: number, more: Partial<ReplicaSet["spec"]> = {}): ReplicaSet {
  return cluster.add<ReplicaSet>({
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: "web" },
    spec: {
      replicas,
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "c", image: "i" }] } },
      ...more,
    },
  });
}

function podOf(
  cluster: TestCluster,
  name: string,
  more: { labels?: Record<string, string>; phase?: string } = {},
): Pod {
  return cluster.add<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: more.labels ?? { app: "web" } },
    spec: { containers: [] },
    status: { phase: more.phase ?? "Pending" },
  });
}

function decide(cluster: TestCluster) {
  const replicaSet = cluster.get<ReplicaSet>("ReplicaSet", "web");
  return decideReplicaSet(
    { revision: String(cluster.revision), replicaSet, pods: cluster.all<Pod>("Pod") },
    cluster.nowMs,
  );
}

function turn(cluster: TestCluster): void {
  cluster.apply(decide(cluster));
}

describe("a ReplicaSet", () => {
  test("creates its pods with names that are derived from its UID", () => {
    const cluster = new TestCluster();
    setOf(cluster, 3);
    const names = decide(cluster).intents.flatMap((each) => (each.type === "create" ? [each.target.name] : []));
    expect(names).toHaveLength(3);
    expect(decide(cluster).intents).toEqual(decide(cluster).intents);
    for (const name of names) expect(name).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    turn(cluster);
    const owner = cluster.all<Pod>("Pod")[0]?.metadata.ownerReferences?.[0];
    expect(owner).toMatchObject({ kind: "ReplicaSet", name: "web", controller: true, blockOwnerDeletion: true });
  });

  test("adopts an orphan that it selects instead of creating a pod", () => {
    const cluster = new TestCluster();
    setOf(cluster, 1);
    podOf(cluster, "stray");
    const steps = [];
    for (let at = 0; at < 2; at++) {
      const decision = decide(cluster);
      steps.push(decision.intents.map(({ type, target }) => `${type} ${target.name}`));
      cluster.apply(decision);
    }
    expect(steps).toEqual([["patch stray"], ["status web"]]);
  });

  test("deletes none of its pods for an orphan that it adopts before the orphan is its own", () => {
    const cluster = new TestCluster();
    setOf(cluster, 2);
    turn(cluster);
    turn(cluster);
    podOf(cluster, "stray");
    expect(decide(cluster).intents.map(({ type, target }) => `${type} ${target.name}`)).toEqual(["patch stray"]);
    turn(cluster);
    expect(decide(cluster).intents.filter(({ type }) => type === "delete")).toHaveLength(1);
  });

  test("leaves a pod alone that an earlier ReplicaSet of the same name controls", () => {
    const cluster = new TestCluster();
    setOf(cluster, 0);
    const pod = podOf(cluster, "other");
    cluster.change<Pod>("Pod", "other", ({ metadata }) => {
      const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "gone", controller: true };
      metadata.ownerReferences = [owner];
    });
    turn(cluster);
    expect(cluster.get<Pod>("Pod", "other").metadata.uid).toBe(pod.metadata.uid);
    expect(cluster.get<Pod>("Pod", "other").metadata.ownerReferences).toHaveLength(1);
  });

  test("releases a pod whose label was removed, and creates another", () => {
    const cluster = new TestCluster();
    setOf(cluster, 1);
    turn(cluster);
    const name = cluster.all<Pod>("Pod")[0]?.metadata.name ?? "";
    cluster.change<Pod>("Pod", name, ({ metadata }) => {
      metadata.labels = { app: "debug" };
    });
    turn(cluster);
    expect(cluster.get<Pod>("Pod", name).metadata.ownerReferences).toBeUndefined();
    expect(cluster.all<Pod>("Pod")).toHaveLength(2);
  });

  test("skips a name that a pod outside its list has", () => {
    const cluster = new TestCluster();
    const replicaSet = setOf(cluster, 1);
    const nameOf = (isTaken: (name: string) => boolean) =>
      decideReplicaSet({ revision: "1", replicaSet, pods: [], isTaken }, startMs).intents[0]?.target.name;
    const first = nameOf(() => false);
    expect(nameOf((name) => name === first)).not.toBe(first);
  });

  test("replaces a pod that is terminating and counts it as such", () => {
    const cluster = new TestCluster();
    setOf(cluster, 1);
    cluster.settle((each) => {
      turn(each);
      each.kubelet();
    });
    cluster.remove(cluster.all<Pod>("Pod")[0]!);
    turn(cluster);
    expect(cluster.all<Pod>("Pod")).toHaveLength(2);
    turn(cluster);
    expect(cluster.get<ReplicaSet>("ReplicaSet", "web").status).toMatchObject({ replicas: 1, terminatingReplicas: 1 });
  });

  test("that is terminating creates and deletes nothing", () => {
    const cluster = new TestCluster();
    setOf(cluster, 3);
    podOf(cluster, "stray");
    cluster.change<ReplicaSet>("ReplicaSet", "web", ({ metadata }) => {
      metadata.deletionTimestamp = formatTime(startMs);
    });
    expect(decide(cluster).intents.filter(({ type }) => type !== "status")).toEqual([]);
  });

  test("counts a ready pod as available only after minReadySeconds, and is requeued then", () => {
    const cluster = new TestCluster();
    setOf(cluster, 1, { minReadySeconds: 10 });
    turn(cluster);
    cluster.kubelet();
    const { wakeAtMs } = decide(cluster);
    expect(wakeAtMs).toBe(cluster.nowMs + 10_000);
    turn(cluster);
    expect(cluster.get<ReplicaSet>("ReplicaSet", "web").status).toMatchObject({ readyReplicas: 1 });
    expect(cluster.get<ReplicaSet>("ReplicaSet", "web").status?.availableReplicas).toBeUndefined();
    cluster.nowMs += 10_000;
    turn(cluster);
    expect(cluster.get<ReplicaSet>("ReplicaSet", "web").status?.availableReplicas).toBe(1);
  });

  test("reports why its pods could not be created", () => {
    const cluster = new TestCluster();
    const replicaSet = setOf(cluster, 1);
    const failure = { reason: "FailedCreate", message: "exceeded quota" } as const;
    cluster.apply(decideReplicaSet({ revision: "1", replicaSet, pods: [], failure }, cluster.nowMs));
    const { status } = cluster.get<ReplicaSet>("ReplicaSet", "web");
    expect(status?.conditions?.[0]).toMatchObject({ type: "ReplicaFailure", status: "True", ...failure });
  });

  test.each([
    { count: 0, batches: [] },
    { count: 1, batches: [1] },
    { count: 10, batches: [1, 2, 4, 3] },
  ])("$count creates go out in batches of $batches", ({ count, batches }) => {
    expect(slowStartBatches(count)).toEqual(batches);
  });
});

describe("of two pods the one that is deleted first", () => {
  const at = (seconds: number) => formatTime(startMs - seconds * 1000);
  const pod = (
    name: string,
    more: { node?: string; phase?: string; readyFor?: number; cost?: string; age?: number; restarts?: number },
  ): Pod => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      uid: name,
      resourceVersion: "1",
      creationTimestamp: at(more.age ?? 100),
      ...(more.cost !== undefined && { annotations: { "controller.kubernetes.io/pod-deletion-cost": more.cost } }),
    },
    spec: { containers: [], ...(more.node !== undefined && { nodeName: more.node }) },
    status: {
      phase: more.phase ?? "Running",
      conditions:
        more.readyFor === undefined ? [] : [{ type: "Ready", status: "True", lastTransitionTime: at(more.readyFor) }],
      containerStatuses: [{ name: "c", image: "", imageID: "", ready: true, restartCount: more.restarts ?? 0 }],
    },
  });
  test.each([
    { name: "has no node", first: {}, second: { node: "n" } },
    { name: "is pending", first: { node: "n", phase: "Pending" }, second: { node: "n", phase: "Unknown" } },
    { name: "is unknown", first: { node: "n", phase: "Unknown" }, second: { node: "n", phase: "Running" } },
    { name: "is not ready", first: { node: "n" }, second: { node: "n", readyFor: 5 } },
    { name: "has a lower deletion cost", first: { node: "n", cost: "-5" }, second: { node: "n", cost: "7" } },
    {
      name: "has a lower deletion cost, even if it has been ready longer",
      first: { node: "n", cost: "1", readyFor: 999 },
      second: { node: "n", cost: "2", readyFor: 1 },
    },
    { name: "shares its node with another", first: { node: "crowded" }, second: { node: "n" } },
    { name: "became ready later", first: { node: "n", readyFor: 1 }, second: { node: "n", readyFor: 1000 } },
    { name: "restarted more", first: { node: "n", restarts: 3 }, second: { node: "n", restarts: 1 } },
    { name: "is younger", first: { node: "n", age: 1 }, second: { node: "n", age: 10_000 } },
  ])("$name", ({ first, second }) => {
    const [a, b, other] = [pod("z", first), pod("a", second), pod("o", { node: "crowded" })];
    expect(rankForDeletion([a, b], [a, b, other], startMs)[0]).toBe(a);
    expect(rankForDeletion([b, a], [other, b, a], startMs)[0]).toBe(a);
  });
});

describe("whatever happens to its pods, a ReplicaSet", () => {
  const mishap = fc.record({ pod: fc.nat(9), kind: fc.constantFrom("delete", "fail", "relabel", "none") });

  test("ends with exactly the desired pods, and then decides nothing", () => {
    fc.assert(
      fc.property(fc.nat(8), fc.nat(8), fc.array(mishap, { maxLength: 12 }), (before, after, mishaps) => {
        const cluster = new TestCluster();
        setOf(cluster, before);
        for (const { pod, kind } of mishaps) {
          turn(cluster);
          cluster.kubelet();
          const found = cluster.all<Pod>("Pod")[pod];
          if (found === undefined) continue;
          if (kind === "delete") cluster.remove(found);
          else if (kind === "fail") cluster.setPhase(found.metadata.name, "Failed");
          else if (kind === "relabel") {
            cluster.change<Pod>("Pod", found.metadata.name, ({ metadata }) => {
              metadata.labels = { app: "not" };
            });
          }
        }
        cluster.change<ReplicaSet>("ReplicaSet", "web", ({ spec }) => {
          if (spec !== undefined) spec.replicas = after;
        });
        cluster.settle((each) => {
          turn(each);
          each.kubelet();
        });
        const { status, metadata } = cluster.get<ReplicaSet>("ReplicaSet", "web");
        expect(status).toMatchObject({ replicas: after, observedGeneration: metadata.generation });
        expect(status?.readyReplicas ?? 0).toBe(after);
        expect(decide(cluster).intents).toEqual([]);
        expect(cluster.conflicts).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  test("decides the same in whatever order its pods are listed", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6], { minLength: 7 }), fc.nat(7), (order, replicas) => {
        const cluster = new TestCluster();
        const replicaSet = setOf(cluster, replicas);
        for (let i = 0; i < 7; i++) podOf(cluster, `p${i}`, { phase: i % 2 === 0 ? "Running" : "Pending" });
        const pods = cluster.all<Pod>("Pod");
        const shuffled = order.map((i) => pods[i]!);
        const snapshot = { revision: "1", replicaSet };
        expect(decideReplicaSet({ ...snapshot, pods: shuffled }, startMs)).toEqual(
          decideReplicaSet({ ...snapshot, pods }, startMs),
        );
      }),
      { numRuns: 50 },
    );
  });
});

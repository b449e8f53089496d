import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { Deployment, DeploymentSpec, Pod, ReplicaSet } from "../../../model/kubernetes.generated.ts";
import { findCondition } from "../../../model/objects/condition.ts";
import { isActive, isAvailable } from "../../../model/objects/podFacts.ts";
import { templateHash } from "../../../model/objects/podTemplate.ts";
import { decideDeployment } from "./deployment.ts";
import { revisionOf, sizeLimits } from "./deploymentRevision.ts";
import { decideReplicaSet } from "./replicaSet.ts";

const template = (image: string) => ({
  metadata: { labels: { app: "web" } },
  spec: { containers: [{ name: "c", image }] },
});

function deploy(cluster: TestCluster, spec: Partial<DeploymentSpec> = {}): Deployment {
  return cluster.add<Deployment>({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: { replicas: 4, selector: { matchLabels: { app: "web" } }, template: template("v1"), ...spec },
  });
}

function edit(cluster: TestCluster, change: Partial<DeploymentSpec>): void {
  cluster.change<Deployment>("Deployment", "web", (each) => {
    each.spec = { ...(each.spec as DeploymentSpec), ...change };
  });
}

const deployment = (cluster: TestCluster) => cluster.get<Deployment>("Deployment", "web");
const sets = (cluster: TestCluster) => cluster.all<ReplicaSet>("ReplicaSet");
const setWith = (cluster: TestCluster, image: string) =>
  sets(cluster).find(({ spec }) => spec?.template?.spec?.containers[0]?.image === image);
const progressing = (cluster: TestCluster) => findCondition(deployment(cluster).status?.conditions, "Progressing");

function decide(cluster: TestCluster) {
  const [revision, replicaSets, pods] = [String(cluster.revision), sets(cluster), cluster.all<Pod>("Pod")];
  return decideDeployment({ revision, deployment: deployment(cluster), replicaSets, pods }, cluster.nowMs);
}

function decideSet(cluster: TestCluster, replicaSet: ReplicaSet) {
  return decideReplicaSet({ revision: String(cluster.revision), replicaSet, pods: cluster.all("Pod") }, cluster.nowMs);
}

function turn(cluster: TestCluster): void {
  cluster.apply(decide(cluster));
  for (const set of sets(cluster)) cluster.apply(decideSet(cluster, set));
}

function settle(cluster: TestCluster, starts: (pod: Pod) => boolean = () => true): void {
  cluster.settle((each) => {
    turn(each);
    each.kubelet({ starts });
  });
}

const imageOf = (pod: Pod) => pod.spec?.containers[0]?.image;

describe("rounding", () => {
  test.each([
    { replicas: 10, surge: "25%", unavailable: "25%", limits: { maxSurge: 3, maxUnavailable: 2 } },
    { replicas: 1, surge: "25%", unavailable: "25%", limits: { maxSurge: 1, maxUnavailable: 0 } },
    { replicas: 3, surge: 0, unavailable: "10%", limits: { maxSurge: 0, maxUnavailable: 1 } },
    { replicas: 2, surge: 0, unavailable: 5, limits: { maxSurge: 0, maxUnavailable: 2 } },
  ])("of $surge and $unavailable of $replicas pods gives $limits", ({ replicas, surge, unavailable, limits }) => {
    const strategy = { type: "RollingUpdate", rollingUpdate: { maxSurge: surge, maxUnavailable: unavailable } };
    expect(sizeLimits(deploy(new TestCluster(), { replicas, strategy }))).toEqual(limits);
  });
});

describe("a template's hash", () => {
  test("does not depend on the order of fields, and changes with the collision count", () => {
    expect(templateHash({ a: 1, b: 2 }, undefined)).toBe(templateHash({ b: 2, a: 1 }, undefined));
    expect(templateHash({ a: 1 }, undefined)).not.toBe(templateHash({ a: 1 }, 1));
    expect(templateHash({ a: 1 }, undefined)).toMatch(/^[bcdfghjklmnpqrstvwxz2456789]+$/);
  });
});

describe("a Deployment", () => {
  test("becomes available and complete, as kubectl rollout status expects it", () => {
    const cluster = new TestCluster();
    deploy(cluster);
    settle(cluster);
    const { status, metadata } = deployment(cluster);
    expect(status).toMatchObject({ observedGeneration: 1, replicas: 4, updatedReplicas: 4, availableReplicas: 4 });
    expect(findCondition(status?.conditions, "Available")?.status).toBe("True");
    expect(progressing(cluster)).toMatchObject({ status: "True", reason: "NewReplicaSetAvailable" });
    expect(metadata.annotations).toMatchObject({ "deployment.kubernetes.io/revision": "1" });
    const [set] = sets(cluster);
    expect(set?.metadata.annotations).toMatchObject({ "deployment.kubernetes.io/max-replicas": "5" });
    expect(set?.spec?.selector.matchLabels).toEqual(set?.spec?.template?.metadata?.labels);
    expect(decide(cluster).intents).toEqual([]);
  });

  test("rolls to a new template and keeps the old set as revision 1", () => {
    const cluster = new TestCluster();
    deploy(cluster);
    settle(cluster);
    edit(cluster, { template: template("v2") });
    settle(cluster);
    expect(setWith(cluster, "v1")?.spec?.replicas).toBe(0);
    expect(setWith(cluster, "v2")?.spec?.replicas).toBe(4);
    expect(revisionOf(deployment(cluster))).toBe(2n);
  });

  test("that is rolled back uses the old ReplicaSet again under a new revision, and records the earlier one", () => {
    const cluster = new TestCluster();
    deploy(cluster);
    settle(cluster);
    edit(cluster, { template: template("v2") });
    settle(cluster);
    edit(cluster, { template: template("v1") });
    settle(cluster);
    expect(sets(cluster)).toHaveLength(2);
    const set = setWith(cluster, "v1");
    expect(revisionOf(deployment(cluster))).toBe(3n);
    expect(set?.metadata.annotations).toMatchObject({
      "deployment.kubernetes.io/revision": "3",
      "deployment.kubernetes.io/revision-history": "1",
    });
  });

  test("that is paused does not roll but still scales", () => {
    const cluster = new TestCluster();
    deploy(cluster);
    settle(cluster);
    edit(cluster, { template: template("v2"), paused: true, replicas: 6 });
    settle(cluster);
    expect(sets(cluster)).toHaveLength(1);
    expect(sets(cluster)[0]?.spec?.replicas).toBe(6);
    expect(progressing(cluster)).toMatchObject({ status: "Unknown", reason: "DeploymentPaused" });
    edit(cluster, { paused: false });
    turn(cluster);
    settle(cluster);
    expect(setWith(cluster, "v2")?.spec?.replicas).toBe(6);
    expect(progressing(cluster)).toMatchObject({ status: "True", reason: "NewReplicaSetAvailable" });
  });

  test("with Recreate starts nothing new until the last old pod is gone", () => {
    const cluster = new TestCluster();
    deploy(cluster, { strategy: { type: "Recreate" } });
    settle(cluster);
    edit(cluster, { template: template("v2") });
    // The kubelet is slow: pods stay terminating.
    for (let i = 0; i < 6; i++) turn(cluster);
    expect(cluster.all<Pod>("Pod").filter((pod) => imageOf(pod) === "v1")).toHaveLength(4);
    expect(cluster.all<Pod>("Pod").filter((pod) => imageOf(pod) === "v2")).toHaveLength(0);
    settle(cluster);
    expect(cluster.all<Pod>("Pod").map(imageOf)).toEqual(["v2", "v2", "v2", "v2"]);
  });

  test("whose new pods never start times out, and keeps its available pods", () => {
    const cluster = new TestCluster();
    deploy(cluster, { progressDeadlineSeconds: 60 });
    settle(cluster);
    edit(cluster, { template: template("broken") });
    settle(cluster, (pod) => imageOf(pod) !== "broken");
    expect(progressing(cluster)?.reason).toBe("ReplicaSetUpdated");
    const { wakeAtMs } = decide(cluster);
    expect(wakeAtMs).toBeLessThanOrEqual(cluster.nowMs + 61_000);
    cluster.nowMs = wakeAtMs ?? 0;
    turn(cluster);
    expect(progressing(cluster)).toMatchObject({ status: "False", reason: "ProgressDeadlineExceeded" });
    expect(cluster.all<Pod>("Pod").filter((pod) => isActive(pod) && imageOf(pod) === "v1")).toHaveLength(3);
  });

  test("keeps as many old revisions as its limit says", () => {
    const cluster = new TestCluster();
    deploy(cluster, { revisionHistoryLimit: 2 });
    for (const image of ["v1", "v2", "v3", "v4", "v5"]) {
      edit(cluster, { template: template(image) });
      settle(cluster);
    }
    expect(sets(cluster).map(revisionOf).sort()).toEqual([3n, 4n, 5n]);
  });

  test("scales its ReplicaSets proportionally during a rolling update", () => {
    const cluster = new TestCluster();
    deploy(cluster, {
      replicas: 10,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } },
    });
    settle(cluster);
    edit(cluster, { template: template("broken") });
    settle(cluster, (pod) => imageOf(pod) !== "broken");
    expect([setWith(cluster, "v1"), setWith(cluster, "broken")].map((set) => set?.spec?.replicas)).toEqual([8, 5]);
    edit(cluster, { replicas: 15 });
    turn(cluster);
    expect([setWith(cluster, "v1"), setWith(cluster, "broken")].map((set) => set?.spec?.replicas)).toEqual([11, 7]);
  });

  test("counts a collision when another owner's ReplicaSet has the name, and uses another one", () => {
    const cluster = new TestCluster();
    deploy(cluster);
    const name = `web-${templateHash(template("v1"), undefined)}`;
    cluster.add<ReplicaSet>({
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name, labels: { app: "other" } },
      spec: { replicas: 0, selector: { matchLabels: { app: "other" } }, template: template("other") },
      status: { replicas: 0 },
    });
    cluster.apply(decide(cluster));
    expect(deployment(cluster).status?.collisionCount).toBe(1);
    settle(cluster);
    expect(setWith(cluster, "v1")?.metadata.name).not.toBe(name);
    expect(cluster.get<ReplicaSet>("ReplicaSet", name).metadata.ownerReferences).toBeUndefined();
  });

  test("adopts a ReplicaSet with its template instead of creating one", () => {
    const cluster = new TestCluster();
    deploy(cluster);
    settle(cluster);
    cluster.objects.delete("Deployment/web");
    for (const set of sets(cluster)) {
      cluster.change<ReplicaSet>("ReplicaSet", set.metadata.name, ({ metadata }) => {
        delete metadata.ownerReferences;
      });
    }
    deploy(cluster);
    settle(cluster);
    expect(sets(cluster)).toHaveLength(1);
    expect(sets(cluster)[0]?.metadata.ownerReferences?.[0]?.uid).toBe(deployment(cluster).metadata.uid);
  });
});

describe("in a rolling update", () => {
  const limits = fc
    .record({ replicas: fc.integer({ min: 1, max: 9 }), maxSurge: fc.nat(4), maxUnavailable: fc.nat(4) })
    .filter(({ maxSurge, maxUnavailable }) => maxSurge + maxUnavailable > 0);

  test("there are never more pods than the surge allows nor fewer available than the limit, and it ends", () => {
    fc.assert(
      fc.property(limits, fc.array(fc.nat(3), { minLength: 1, maxLength: 40 }), (given, choices) => {
        const { replicas, maxSurge, maxUnavailable } = given;
        const cluster = new TestCluster();
        deploy(cluster, { replicas, strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge, maxUnavailable } } });
        settle(cluster);
        edit(cluster, { template: template("v2") });
        const check = () => {
          const active = cluster.all<Pod>("Pod").filter(isActive);
          expect(active.length).toBeLessThanOrEqual(replicas + maxSurge);
          const available = active.filter((pod) => isAvailable(pod, 0, cluster.nowMs));
          expect(available.length).toBeGreaterThanOrEqual(replicas - maxUnavailable);
        };
        // The controllers and the kubelet run in any order.
        for (const choice of choices) {
          if (choice === 0) cluster.apply(decide(cluster));
          else if (choice === 1) for (const set of sets(cluster)) cluster.apply(decideSet(cluster, set));
          else if (choice === 2) cluster.kubelet();
          else cluster.nowMs += 1000;
          check();
        }
        cluster.settle((each) => {
          turn(each);
          check();
          each.kubelet();
          check();
        });
        expect(setWith(cluster, "v2")?.spec?.replicas).toBe(replicas);
        expect(cluster.all<Pod>("Pod").every((pod) => imageOf(pod) === "v2")).toBe(true);
        expect(decide(cluster).intents).toEqual([]);
        expect(cluster.conflicts).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  test("the order in which sets and pods are listed changes nothing", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2], { minLength: 3 }), fc.nat(12), (order, steps) => {
        const cluster = new TestCluster();
        deploy(cluster);
        settle(cluster);
        for (const image of ["v2", "v3"]) {
          edit(cluster, { template: template(image) });
          for (let i = 0; i < steps; i++) turn(cluster);
        }
        const [revision, replicaSets, pods] = [String(cluster.revision), sets(cluster), cluster.all<Pod>("Pod")];
        const shuffled = order.flatMap((i) => replicaSets[i] ?? []);
        const snapshot = { revision, deployment: deployment(cluster) };
        expect(
          decideDeployment({ ...snapshot, replicaSets: shuffled, pods: [...pods].reverse() }, cluster.nowMs),
        ).toEqual(decideDeployment({ ...snapshot, replicaSets, pods }, cluster.nowMs));
      }),
      { numRuns: 50 },
    );
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestWorld } from "../../../../testing/decide/workloadObjects.ts";
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

function deploy(world: TestWorld, spec: Partial<DeploymentSpec> = {}): Deployment {
  return world.add<Deployment>({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: { replicas: 4, selector: { matchLabels: { app: "web" } }, template: template("v1"), ...spec },
  });
}

function edit(world: TestWorld, change: Partial<DeploymentSpec>): void {
  world.change<Deployment>("Deployment", "web", (each) => {
    each.spec = { ...(each.spec as DeploymentSpec), ...change };
  });
}

const deployment = (world: TestWorld) => world.get<Deployment>("Deployment", "web");
const sets = (world: TestWorld) => world.all<ReplicaSet>("ReplicaSet");
const setWith = (world: TestWorld, image: string) =>
  sets(world).find(({ spec }) => spec?.template?.spec?.containers[0]?.image === image);
const progressing = (world: TestWorld) => findCondition(deployment(world).status?.conditions, "Progressing");

function decide(world: TestWorld) {
  const [revision, replicaSets, pods] = [String(world.revision), sets(world), world.all<Pod>("Pod")];
  return decideDeployment({ revision, deployment: deployment(world), replicaSets, pods }, world.nowMs);
}

function decideSet(world: TestWorld, replicaSet: ReplicaSet) {
  return decideReplicaSet({ revision: String(world.revision), replicaSet, pods: world.all("Pod") }, world.nowMs);
}

function turn(world: TestWorld): void {
  world.apply(decide(world));
  for (const set of sets(world)) world.apply(decideSet(world, set));
}

function settle(world: TestWorld, starts: (pod: Pod) => boolean = () => true): void {
  world.settle((each) => {
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
    expect(sizeLimits(deploy(new TestWorld(), { replicas, strategy }))).toEqual(limits);
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
  test("becomes available and complete, as kubectl rollout status wants it", () => {
    const world = new TestWorld();
    deploy(world);
    settle(world);
    const { status, metadata } = deployment(world);
    expect(status).toMatchObject({ observedGeneration: 1, replicas: 4, updatedReplicas: 4, availableReplicas: 4 });
    expect(findCondition(status?.conditions, "Available")?.status).toBe("True");
    expect(progressing(world)).toMatchObject({ status: "True", reason: "NewReplicaSetAvailable" });
    expect(metadata.annotations).toMatchObject({ "deployment.kubernetes.io/revision": "1" });
    const [set] = sets(world);
    expect(set?.metadata.annotations).toMatchObject({ "deployment.kubernetes.io/max-replicas": "5" });
    expect(set?.spec?.selector.matchLabels).toEqual(set?.spec?.template?.metadata?.labels);
    expect(decide(world).intents).toEqual([]);
  });

  test("rolls to a new template and keeps the old set as revision 1", () => {
    const world = new TestWorld();
    deploy(world);
    settle(world);
    edit(world, { template: template("v2") });
    settle(world);
    expect(setWith(world, "v1")?.spec?.replicas).toBe(0);
    expect(setWith(world, "v2")?.spec?.replicas).toBe(4);
    expect(revisionOf(deployment(world))).toBe(2n);
  });

  test("that is rolled back takes the old set again under a new revision, and remembers the one it had", () => {
    const world = new TestWorld();
    deploy(world);
    settle(world);
    edit(world, { template: template("v2") });
    settle(world);
    edit(world, { template: template("v1") });
    settle(world);
    expect(sets(world)).toHaveLength(2);
    const set = setWith(world, "v1");
    expect(revisionOf(deployment(world))).toBe(3n);
    expect(set?.metadata.annotations).toMatchObject({
      "deployment.kubernetes.io/revision": "3",
      "deployment.kubernetes.io/revision-history": "1",
    });
  });

  test("that is paused does not roll but still scales", () => {
    const world = new TestWorld();
    deploy(world);
    settle(world);
    edit(world, { template: template("v2"), paused: true, replicas: 6 });
    settle(world);
    expect(sets(world)).toHaveLength(1);
    expect(sets(world)[0]?.spec?.replicas).toBe(6);
    expect(progressing(world)).toMatchObject({ status: "Unknown", reason: "DeploymentPaused" });
    edit(world, { paused: false });
    turn(world);
    settle(world);
    expect(setWith(world, "v2")?.spec?.replicas).toBe(6);
    expect(progressing(world)).toMatchObject({ status: "True", reason: "NewReplicaSetAvailable" });
  });

  test("with Recreate starts nothing new until the last old pod is gone", () => {
    const world = new TestWorld();
    deploy(world, { strategy: { type: "Recreate" } });
    settle(world);
    edit(world, { template: template("v2") });
    // The kubelet is slow: pods linger.
    for (let i = 0; i < 6; i++) turn(world);
    expect(world.all<Pod>("Pod").filter((pod) => imageOf(pod) === "v1")).toHaveLength(4);
    expect(world.all<Pod>("Pod").filter((pod) => imageOf(pod) === "v2")).toHaveLength(0);
    settle(world);
    expect(world.all<Pod>("Pod").map(imageOf)).toEqual(["v2", "v2", "v2", "v2"]);
  });

  test("whose new pods never start times out, and keeps the pods that serve", () => {
    const world = new TestWorld();
    deploy(world, { progressDeadlineSeconds: 60 });
    settle(world);
    edit(world, { template: template("broken") });
    settle(world, (pod) => imageOf(pod) !== "broken");
    expect(progressing(world)?.reason).toBe("ReplicaSetUpdated");
    const { wakeAtMs } = decide(world);
    expect(wakeAtMs).toBeLessThanOrEqual(world.nowMs + 61_000);
    world.nowMs = wakeAtMs ?? 0;
    turn(world);
    expect(progressing(world)).toMatchObject({ status: "False", reason: "ProgressDeadlineExceeded" });
    expect(world.all<Pod>("Pod").filter((pod) => isActive(pod) && imageOf(pod) === "v1")).toHaveLength(3);
  });

  test("keeps as many old revisions as its limit says", () => {
    const world = new TestWorld();
    deploy(world, { revisionHistoryLimit: 2 });
    for (const image of ["v1", "v2", "v3", "v4", "v5"]) {
      edit(world, { template: template(image) });
      settle(world);
    }
    expect(sets(world).map(revisionOf).sort()).toEqual([3n, 4n, 5n]);
  });

  test("shares a change of size among its sets while it rolls", () => {
    const world = new TestWorld();
    deploy(world, {
      replicas: 10,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } },
    });
    settle(world);
    edit(world, { template: template("broken") });
    settle(world, (pod) => imageOf(pod) !== "broken");
    expect([setWith(world, "v1"), setWith(world, "broken")].map((set) => set?.spec?.replicas)).toEqual([8, 5]);
    edit(world, { replicas: 15 });
    turn(world);
    expect([setWith(world, "v1"), setWith(world, "broken")].map((set) => set?.spec?.replicas)).toEqual([11, 7]);
  });

  test("counts a collision when a stranger has its set's name, and takes another", () => {
    const world = new TestWorld();
    deploy(world);
    const name = `web-${templateHash(template("v1"), undefined)}`;
    world.add<ReplicaSet>({
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name, labels: { app: "other" } },
      spec: { replicas: 0, selector: { matchLabels: { app: "other" } }, template: template("other") },
      status: { replicas: 0 },
    });
    world.apply(decide(world));
    expect(deployment(world).status?.collisionCount).toBe(1);
    settle(world);
    expect(setWith(world, "v1")?.metadata.name).not.toBe(name);
    expect(world.get<ReplicaSet>("ReplicaSet", name).metadata.ownerReferences).toBeUndefined();
  });

  test("adopts a ReplicaSet of its template instead of making one", () => {
    const world = new TestWorld();
    deploy(world);
    settle(world);
    world.objects.delete("Deployment/web");
    for (const set of sets(world)) {
      world.change<ReplicaSet>("ReplicaSet", set.metadata.name, ({ metadata }) => {
        delete metadata.ownerReferences;
      });
    }
    deploy(world);
    settle(world);
    expect(sets(world)).toHaveLength(1);
    expect(sets(world)[0]?.metadata.ownerReferences?.[0]?.uid).toBe(deployment(world).metadata.uid);
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
        const world = new TestWorld();
        deploy(world, { replicas, strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge, maxUnavailable } } });
        settle(world);
        edit(world, { template: template("v2") });
        const check = () => {
          const active = world.all<Pod>("Pod").filter(isActive);
          expect(active.length).toBeLessThanOrEqual(replicas + maxSurge);
          const available = active.filter((pod) => isAvailable(pod, 0, world.nowMs));
          expect(available.length).toBeGreaterThanOrEqual(replicas - maxUnavailable);
        };
        // The controllers and the kubelet take turns in any order.
        for (const choice of choices) {
          if (choice === 0) world.apply(decide(world));
          else if (choice === 1) for (const set of sets(world)) world.apply(decideSet(world, set));
          else if (choice === 2) world.kubelet();
          else world.nowMs += 1000;
          check();
        }
        world.settle((each) => {
          turn(each);
          check();
          each.kubelet();
          check();
        });
        expect(setWith(world, "v2")?.spec?.replicas).toBe(replicas);
        expect(world.all<Pod>("Pod").every((pod) => imageOf(pod) === "v2")).toBe(true);
        expect(decide(world).intents).toEqual([]);
        expect(world.conflicts).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  test("the order in which sets and pods are listed changes nothing", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2], { minLength: 3 }), fc.nat(12), (order, steps) => {
        const world = new TestWorld();
        deploy(world);
        settle(world);
        for (const image of ["v2", "v3"]) {
          edit(world, { template: template(image) });
          for (let i = 0; i < steps; i++) turn(world);
        }
        const [revision, replicaSets, pods] = [String(world.revision), sets(world), world.all<Pod>("Pod")];
        const shuffled = order.flatMap((i) => replicaSets[i] ?? []);
        const snapshot = { revision, deployment: deployment(world) };
        expect(
          decideDeployment({ ...snapshot, replicaSets: shuffled, pods: [...pods].reverse() }, world.nowMs),
        ).toEqual(decideDeployment({ ...snapshot, replicaSets, pods }, world.nowMs));
      }),
      { numRuns: 50 },
    );
  });
});

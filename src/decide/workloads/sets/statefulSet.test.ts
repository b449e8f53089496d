import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import { partly } from "../../../../testing/partly.ts";
import type {
  ControllerRevision,
  PersistentVolumeClaim,
  Pod,
  StatefulSet,
  StatefulSetSpec,
} from "../../../model/kubernetes.generated.ts";
import { isActive, isAvailable } from "../../../model/objects/podFacts.ts";
import { decideStatefulSet } from "./statefulSet.ts";

const template = (image: string) => ({
  metadata: { labels: { app: "db" } },
  spec: { containers: [{ name: "c", image }] },
});

function setOf(world: TestWorld, spec: Partial<StatefulSetSpec> = {}): StatefulSet {
  return world.add<StatefulSet>({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "db" },
    spec: {
      replicas: 3,
      serviceName: "peers",
      selector: { matchLabels: { app: "db" } },
      template: template("v1"),
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } },
      ...spec,
    },
  });
}

const claimTemplates = partly<PersistentVolumeClaim[]>([
  { metadata: { name: "data" }, spec: { accessModes: ["ReadWriteOnce"] } },
]);
const set = (world: TestWorld) => world.get<StatefulSet>("StatefulSet", "db");
const pods = (world: TestWorld) => world.all<Pod>("Pod");
const names = (world: TestWorld) => pods(world).map(({ metadata }) => metadata.name);
const claims = (world: TestWorld) => world.all<PersistentVolumeClaim>("PersistentVolumeClaim");
const images = (world: TestWorld) =>
  Object.fromEntries(pods(world).map((pod) => [pod.metadata.name, pod.spec?.containers[0]?.image]));
const pictureOf = (world: TestWorld) => ({
  revision: String(world.revision),
  statefulSet: set(world),
  pods: pods(world),
  claimNamed: (name: string) => claims(world).find(({ metadata }) => metadata.name === name),
  revisions: world.all<ControllerRevision>("ControllerRevision"),
});
const decide = (world: TestWorld) => decideStatefulSet(pictureOf(world), world.nowMs);
const turn = (world: TestWorld) => world.apply(decide(world));
const settle = (world: TestWorld, check: () => void = () => {}) =>
  world.settle((each) => {
    turn(each);
    check();
    each.kubelet();
    check();
  });
const edit = (world: TestWorld, change: Partial<StatefulSetSpec>) =>
  world.change<StatefulSet>("StatefulSet", "db", (each) => {
    each.spec = { ...(each.spec as StatefulSetSpec), ...change };
  });

describe("a StatefulSet", () => {
  test("makes its pods one after the other, each when the one before is ready", () => {
    const world = new TestWorld();
    setOf(world);
    turn(world);
    turn(world);
    expect(names(world)).toEqual(["db-0"]);
    world.kubelet();
    turn(world);
    expect(names(world)).toEqual(["db-0", "db-1"]);
    settle(world);
    const { status } = set(world);
    expect(status).toMatchObject({ replicas: 3, readyReplicas: 3, availableReplicas: 3, updatedReplicas: 3 });
    expect(status?.currentRevision).toBe(status?.updateRevision);
    expect(decide(world).intents).toEqual([]);
  });

  test("gives each pod its name as label and host name", () => {
    const world = new TestWorld();
    setOf(world, { ordinals: { start: 5 } });
    turn(world);
    const [pod] = pods(world);
    expect(pod?.metadata.labels).toMatchObject({
      "statefulset.kubernetes.io/pod-name": "db-5",
      "apps.kubernetes.io/pod-index": "5",
    });
    expect(pod?.spec).toMatchObject({ hostname: "db-5", subdomain: "peers" });
  });

  test("with Parallel makes all at once", () => {
    const world = new TestWorld();
    setOf(world, { podManagementPolicy: "Parallel" });
    turn(world);
    expect(names(world)).toEqual(["db-0", "db-1", "db-2"]);
  });

  test("shrinks from the top, one at a time", () => {
    const world = new TestWorld();
    setOf(world);
    settle(world);
    edit(world, { replicas: 1 });
    turn(world);
    turn(world);
    expect(
      pods(world)
        .filter(isActive)
        .map(({ metadata }) => metadata.name),
    ).toEqual(["db-0", "db-1"]);
    settle(world);
    expect(names(world)).toEqual(["db-0"]);
  });

  test("makes a pod again that has ended or was deleted, under the same name", () => {
    const world = new TestWorld();
    setOf(world);
    settle(world);
    const before = world.get<Pod>("Pod", "db-1").metadata.uid;
    world.setPhase("db-1", "Failed");
    settle(world);
    expect(world.get<Pod>("Pod", "db-1").metadata.uid).not.toBe(before);
    world.remove(world.get("Pod", "db-0"));
    turn(world);
    expect(names(world)).toHaveLength(3);
    settle(world);
    expect(names(world).sort()).toEqual(["db-0", "db-1", "db-2"]);
  });

  test("rolls from the highest ordinal down to the partition, and a pod below it comes back as it was", () => {
    const world = new TestWorld();
    setOf(world);
    settle(world);
    edit(world, {
      template: template("v2"),
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 2 } },
    });
    settle(world);
    expect(images(world)).toEqual({ "db-0": "v1", "db-1": "v1", "db-2": "v2" });
    expect(set(world).status).toMatchObject({ updatedReplicas: 1, currentReplicas: 2 });
    expect(set(world).status?.currentRevision).not.toBe(set(world).status?.updateRevision);
    world.remove(world.get("Pod", "db-0"));
    settle(world);
    expect(images(world)["db-0"]).toBe("v1");
    edit(world, { updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } } });
    settle(world);
    expect(Object.values(images(world))).toEqual(["v2", "v2", "v2"]);
    expect(set(world).status?.currentRevision).toBe(set(world).status?.updateRevision);
  });

  test("with OnDelete replaces a pod only when it is deleted", () => {
    const world = new TestWorld();
    setOf(world, { updateStrategy: { type: "OnDelete" } });
    settle(world);
    edit(world, { template: template("v2") });
    settle(world);
    expect(Object.values(images(world))).toEqual(["v1", "v1", "v1"]);
    world.remove(world.get("Pod", "db-1"));
    settle(world);
    expect(images(world)["db-1"]).toBe("v2");
  });

  test("makes a claim for each pod and mounts it again", () => {
    const world = new TestWorld();
    setOf(world, { replicas: 2, volumeClaimTemplates: claimTemplates });
    settle(world);
    expect(claims(world).map(({ metadata }) => metadata.name)).toEqual(["data-db-0", "data-db-1"]);
    const volume = { name: "data", persistentVolumeClaim: { claimName: "data-db-1" } };
    expect(world.get<Pod>("Pod", "db-1").spec?.volumes).toEqual([volume]);
    expect(claims(world)[0]?.metadata.ownerReferences).toBeUndefined();
    edit(world, { replicas: 1 });
    settle(world);
    expect(claims(world)).toHaveLength(2);
  });

  test("lets claims go with the set or with a pod that is scaled away, as its policy says", () => {
    const world = new TestWorld();
    const persistentVolumeClaimRetentionPolicy = { whenDeleted: "Delete", whenScaled: "Delete" };
    setOf(world, { replicas: 2, volumeClaimTemplates: claimTemplates, persistentVolumeClaimRetentionPolicy });
    settle(world);
    const ownerOf = (name: string) =>
      world.get<PersistentVolumeClaim>("PersistentVolumeClaim", name).metadata.ownerReferences?.map(({ kind }) => kind);
    expect(ownerOf("data-db-1")).toEqual(["StatefulSet"]);
    edit(world, { replicas: 1 });
    turn(world);
    expect(ownerOf("data-db-1")).toEqual(["Pod"]);
    expect(pods(world).filter(isActive)).toHaveLength(2);
    turn(world);
    expect(pods(world).filter(isActive)).toHaveLength(1);
    expect(ownerOf("data-db-0")).toEqual(["StatefulSet"]);
  });

  test("leaves a stranger alone that has the name of its pod", () => {
    const world = new TestWorld();
    setOf(world);
    world.add<Pod>({ apiVersion: "v1", kind: "Pod", metadata: { name: "db-0" }, spec: { containers: [] } });
    settle(world);
    expect(names(world)).toEqual(["db-0"]);
    expect(world.conflicts).toBe(0);
  });
});

describe("while a StatefulSet rolls", () => {
  test("no more pods are missing than may be, and it ends with the new template everywhere", () => {
    const policy = fc.constantFrom("OrderedReady", "Parallel");
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 3 }),
        policy,
        fc.array(fc.nat(2), { maxLength: 30 }),
        (replicas, max, podManagementPolicy, steps) => {
          const world = new TestWorld();
          const rollingUpdate = { partition: 0, maxUnavailable: max };
          setOf(world, { replicas, podManagementPolicy, updateStrategy: { type: "RollingUpdate", rollingUpdate } });
          settle(world);
          edit(world, { template: template("v2") });
          const check = () => {
            const available = pods(world).filter((pod) => isActive(pod) && isAvailable(pod, 0, world.nowMs));
            expect(available.length).toBeGreaterThanOrEqual(replicas - max);
          };
          for (const step of steps) {
            if (step === 0) turn(world);
            else if (step === 1) world.kubelet();
            else world.nowMs += 1000;
            check();
          }
          settle(world, check);
          expect(Object.values(images(world))).toEqual(Array(replicas).fill("v2"));
          const snapshot = pictureOf(world);
          expect(decide(world).intents).toEqual([]);
          expect(decideStatefulSet({ ...snapshot, pods: [...snapshot.pods].reverse() }, world.nowMs)).toEqual(
            decide(world),
          );
          expect(world.conflicts).toBe(0);
        },
      ),
      { numRuns: 80 },
    );
  });
});

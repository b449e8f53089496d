import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestCluster } from "../../../../testing/decide/workloadObjects.ts";
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

function setOf(cluster: TestCluster, spec: Partial<StatefulSetSpec> = {}): StatefulSet {
  return cluster.add<StatefulSet>({
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
const set = (cluster: TestCluster) => cluster.get<StatefulSet>("StatefulSet", "db");
const pods = (cluster: TestCluster) => cluster.all<Pod>("Pod");
const names = (cluster: TestCluster) => pods(cluster).map(({ metadata }) => metadata.name);
const claims = (cluster: TestCluster) => cluster.all<PersistentVolumeClaim>("PersistentVolumeClaim");
const images = (cluster: TestCluster) =>
  Object.fromEntries(pods(cluster).map((pod) => [pod.metadata.name, pod.spec?.containers[0]?.image]));
const pictureOf = (cluster: TestCluster) => ({
  revision: String(cluster.revision),
  statefulSet: set(cluster),
  pods: pods(cluster),
  claimNamed: (name: string) => claims(cluster).find(({ metadata }) => metadata.name === name),
  revisions: cluster.all<ControllerRevision>("ControllerRevision"),
});
const decide = (cluster: TestCluster) => decideStatefulSet(pictureOf(cluster), cluster.nowMs);
const turn = (cluster: TestCluster) => cluster.apply(decide(cluster));
const settle = (cluster: TestCluster, check: () => void = () => {}) =>
  cluster.settle((each) => {
    turn(each);
    check();
    each.kubelet();
    check();
  });
const edit = (cluster: TestCluster, change: Partial<StatefulSetSpec>) =>
  cluster.change<StatefulSet>("StatefulSet", "db", (each) => {
    each.spec = { ...(each.spec as StatefulSetSpec), ...change };
  });

describe("a StatefulSet", () => {
  test("creates its pods one after the other, each when the one before is ready", () => {
    const cluster = new TestCluster();
    setOf(cluster);
    turn(cluster);
    turn(cluster);
    expect(names(cluster)).toEqual(["db-0"]);
    cluster.kubelet();
    turn(cluster);
    expect(names(cluster)).toEqual(["db-0", "db-1"]);
    settle(cluster);
    const { status } = set(cluster);
    expect(status).toMatchObject({ replicas: 3, readyReplicas: 3, availableReplicas: 3, updatedReplicas: 3 });
    expect(status?.currentRevision).toBe(status?.updateRevision);
    expect(decide(cluster).intents).toEqual([]);
  });

  test("gives each pod its name as label and host name", () => {
    const cluster = new TestCluster();
    setOf(cluster, { ordinals: { start: 5 } });
    turn(cluster);
    const [pod] = pods(cluster);
    expect(pod?.metadata.labels).toMatchObject({
      "statefulset.kubernetes.io/pod-name": "db-5",
      "apps.kubernetes.io/pod-index": "5",
    });
    expect(pod?.spec).toMatchObject({ hostname: "db-5", subdomain: "peers" });
  });

  test("with Parallel creates all at once", () => {
    const cluster = new TestCluster();
    setOf(cluster, { podManagementPolicy: "Parallel" });
    turn(cluster);
    expect(names(cluster)).toEqual(["db-0", "db-1", "db-2"]);
  });

  test("scales down from the highest ordinal, one at a time", () => {
    const cluster = new TestCluster();
    setOf(cluster);
    settle(cluster);
    edit(cluster, { replicas: 1 });
    turn(cluster);
    turn(cluster);
    expect(
      pods(cluster)
        .filter(isActive)
        .map(({ metadata }) => metadata.name),
    ).toEqual(["db-0", "db-1"]);
    settle(cluster);
    expect(names(cluster)).toEqual(["db-0"]);
  });

  test("creates a finished or deleted pod again under the same name", () => {
    const cluster = new TestCluster();
    setOf(cluster);
    settle(cluster);
    const before = cluster.get<Pod>("Pod", "db-1").metadata.uid;
    cluster.setPhase("db-1", "Failed");
    settle(cluster);
    expect(cluster.get<Pod>("Pod", "db-1").metadata.uid).not.toBe(before);
    cluster.remove(cluster.get("Pod", "db-0"));
    turn(cluster);
    expect(names(cluster)).toHaveLength(3);
    settle(cluster);
    expect(names(cluster).sort()).toEqual(["db-0", "db-1", "db-2"]);
  });

  test("rolls from the highest ordinal down to the partition, and recreates a pod below it with the old template", () => {
    const cluster = new TestCluster();
    setOf(cluster);
    settle(cluster);
    edit(cluster, {
      template: template("v2"),
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 2 } },
    });
    settle(cluster);
    expect(images(cluster)).toEqual({ "db-0": "v1", "db-1": "v1", "db-2": "v2" });
    expect(set(cluster).status).toMatchObject({ updatedReplicas: 1, currentReplicas: 2 });
    expect(set(cluster).status?.currentRevision).not.toBe(set(cluster).status?.updateRevision);
    cluster.remove(cluster.get("Pod", "db-0"));
    settle(cluster);
    expect(images(cluster)["db-0"]).toBe("v1");
    edit(cluster, { updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } } });
    settle(cluster);
    expect(Object.values(images(cluster))).toEqual(["v2", "v2", "v2"]);
    expect(set(cluster).status?.currentRevision).toBe(set(cluster).status?.updateRevision);
  });

  test("with OnDelete replaces a pod only when it is deleted", () => {
    const cluster = new TestCluster();
    setOf(cluster, { updateStrategy: { type: "OnDelete" } });
    settle(cluster);
    edit(cluster, { template: template("v2") });
    settle(cluster);
    expect(Object.values(images(cluster))).toEqual(["v1", "v1", "v1"]);
    cluster.remove(cluster.get("Pod", "db-1"));
    settle(cluster);
    expect(images(cluster)["db-1"]).toBe("v2");
  });

  test("creates a claim for each pod and mounts it again", () => {
    const cluster = new TestCluster();
    setOf(cluster, { replicas: 2, volumeClaimTemplates: claimTemplates });
    settle(cluster);
    expect(claims(cluster).map(({ metadata }) => metadata.name)).toEqual(["data-db-0", "data-db-1"]);
    const volume = { name: "data", persistentVolumeClaim: { claimName: "data-db-1" } };
    expect(cluster.get<Pod>("Pod", "db-1").spec?.volumes).toEqual([volume]);
    expect(claims(cluster)[0]?.metadata.ownerReferences).toBeUndefined();
    edit(cluster, { replicas: 1 });
    settle(cluster);
    expect(claims(cluster)).toHaveLength(2);
  });

  test("deletes claims with the set or with a pod that is scaled down, by its retention policy", () => {
    const cluster = new TestCluster();
    const persistentVolumeClaimRetentionPolicy = { whenDeleted: "Delete", whenScaled: "Delete" };
    setOf(cluster, { replicas: 2, volumeClaimTemplates: claimTemplates, persistentVolumeClaimRetentionPolicy });
    settle(cluster);
    const ownerOf = (name: string) =>
      cluster
        .get<PersistentVolumeClaim>("PersistentVolumeClaim", name)
        .metadata.ownerReferences?.map(({ kind }) => kind);
    expect(ownerOf("data-db-1")).toEqual(["StatefulSet"]);
    edit(cluster, { replicas: 1 });
    turn(cluster);
    expect(ownerOf("data-db-1")).toEqual(["Pod"]);
    expect(pods(cluster).filter(isActive)).toHaveLength(2);
    turn(cluster);
    expect(pods(cluster).filter(isActive)).toHaveLength(1);
    expect(ownerOf("data-db-0")).toEqual(["StatefulSet"]);
  });

  test("leaves another owner's pod alone that has the name of its pod", () => {
    const cluster = new TestCluster();
    setOf(cluster);
    cluster.add<Pod>({ apiVersion: "v1", kind: "Pod", metadata: { name: "db-0" }, spec: { containers: [] } });
    settle(cluster);
    expect(names(cluster)).toEqual(["db-0"]);
    expect(cluster.conflicts).toBe(0);
  });
});

describe("while a StatefulSet rolls", () => {
  test("no more pods than maxUnavailable are missing, and all pods get the new template", () => {
    const policy = fc.constantFrom("OrderedReady", "Parallel");
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 3 }),
        policy,
        fc.array(fc.nat(2), { maxLength: 30 }),
        (replicas, max, podManagementPolicy, steps) => {
          const cluster = new TestCluster();
          const rollingUpdate = { partition: 0, maxUnavailable: max };
          setOf(cluster, { replicas, podManagementPolicy, updateStrategy: { type: "RollingUpdate", rollingUpdate } });
          settle(cluster);
          edit(cluster, { template: template("v2") });
          const check = () => {
            const available = pods(cluster).filter((pod) => isActive(pod) && isAvailable(pod, 0, cluster.nowMs));
            expect(available.length).toBeGreaterThanOrEqual(replicas - max);
          };
          for (const step of steps) {
            if (step === 0) turn(cluster);
            else if (step === 1) cluster.kubelet();
            else cluster.nowMs += 1000;
            check();
          }
          settle(cluster, check);
          expect(Object.values(images(cluster))).toEqual(Array(replicas).fill("v2"));
          const snapshot = pictureOf(cluster);
          expect(decide(cluster).intents).toEqual([]);
          expect(decideStatefulSet({ ...snapshot, pods: [...snapshot.pods].reverse() }, cluster.nowMs)).toEqual(
            decide(cluster),
          );
          expect(cluster.conflicts).toBe(0);
        },
      ),
      { numRuns: 80 },
    );
  });
});

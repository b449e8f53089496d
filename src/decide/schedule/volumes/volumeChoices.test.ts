import { describe, expect, test } from "vitest";
import {
  addPod,
  clusterWith,
  decide,
  gang,
  group,
  node,
  outcome,
  pod,
  startMs,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from "../../../model/kubernetes.generated.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { cycle, type Plan } from "../cycle.ts";
import { explain } from "../explain/explain.ts";

const meta = (name: string, more: object = {}) => ({
  name,
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2026-01-01T00:00:00Z",
  ...more,
});

function addClass(cluster: Cluster, more: Partial<StorageClass> = {}): void {
  const provisioner = "kubernetes.io/no-provisioner";
  const kind = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass" };
  cluster.volumes.classes.set("disk", {
    ...kind,
    metadata: meta("disk"),
    provisioner,
    volumeBindingMode: "WaitForFirstConsumer",
    ...more,
  });
}

function addClaim(cluster: Cluster, name: string, storage = "1Gi", annotations?: Record<string, string>): void {
  const claim: PersistentVolumeClaim = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: meta(name, { namespace: "default", ...(annotations && { annotations }) }),
    spec: { accessModes: ["ReadWriteOnce"], storageClassName: "disk", resources: { requests: { storage } } },
    status: { phase: "Pending" },
  };
  cluster.volumes.volumeClaims.set(`default/${name}`, claim);
}

function addVolume(cluster: Cluster, name: string, host: string, spec: Partial<PersistentVolume["spec"]> = {}): void {
  const expression = { key: "kubernetes.io/hostname", operator: "In", values: [host] };
  cluster.volumes.volumes.set(name, {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: meta(name),
    spec: {
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "1Gi" },
      storageClassName: "disk",
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
      ...spec,
    },
    status: { phase: "Available" },
  });
}

const uses = (...claims: string[]) =>
  ({
    volumes: claims.map((claimName, at) => ({ name: `v${at}`, persistentVolumeClaim: { claimName } })),
  }) as never;

const nodes = ["n1", "n2", "n3"].map((name) => node(name));

/** Two groups of one pod each, on three nodes. */
function cluster(a: readonly string[], b: readonly string[] = []): Cluster {
  const made = clusterWith({ nodes, groups: [group("a"), ...(b.length > 0 ? [group("b")] : [])] });
  addClass(made);
  for (const claim of new Set([...a, ...b])) addClaim(made, claim);
  addPod(made, pod("p", { group: "a", spec: uses(...a) }));
  if (b.length > 0) addPod(made, pod("q", { group: "b", spec: uses(...b) }));
  return made;
}

function chosen(plan: Plan): Record<string, unknown> {
  return Object.fromEntries(plan.jobs.flatMap(({ binds }) => binds.map(({ task, volumes }) => [task.name, volumes])));
}

describe("a pod whose claim waits for its node", () => {
  test("goes where a volume fits, and takes the smallest", () => {
    const made = cluster(["data"]);
    addVolume(made, "large", "n3", { capacity: { storage: "9Gi" } });
    addVolume(made, "small", "n3");
    addVolume(made, "tiny", "n2", { capacity: { storage: "1Mi" } });
    addVolume(made, "taken", "n1", { claimRef: { namespace: "default", name: "other" } });
    const plan = decide(made);
    expect(outcome(plan)).toEqual({ p: "n3" });
    expect(chosen(plan)).toEqual({ p: { data: "small" } });
  });

  test("stays pending where no volume fits, and the cure names the missing one", () => {
    const made = cluster(["data"]);
    addVolume(made, "v", "n3", { storageClassName: "other" });
    cycle(made, startMs + 60_000, (session) => {
      const [[job, obstacle]] = [...session.obstacles] as never as [[never, never]];
      expect(explain(session, job, obstacle)).toMatchObject({
        message: expect.stringContaining("3 node(s) have no free PersistentVolume for its claims"),
        cure: "create a PersistentVolume on a node that matches the pod, for default/data (StorageClass disk, 1Gi, ReadWriteOnce)",
      });
    });
  });

  test("does not take a volume that another pod of the same cycle takes", () => {
    const made = cluster(["one"], ["two"]);
    addVolume(made, "v", "n2");
    expect(Object.values(outcome(decide(made)))).toEqual(["n2"]);
    addVolume(made, "w", "n3");
    const plan = decide(made);
    expect(Object.values(outcome(plan)).sort()).toEqual(["n2", "n3"]);
    expect(new Set(Object.values(chosen(plan)).flatMap((each) => Object.values(each as object)))).toHaveProperty(
      "size",
      2,
    );
  });

  test("shares a claim with a pod on the same node", () => {
    const made = cluster(["data"], ["data"]);
    for (const host of ["n2", "n3"]) addVolume(made, `v-${host}`, host);
    const plan = decide(made);
    expect(new Set(Object.values(outcome(plan)))).toHaveProperty("size", 1);
    expect(chosen(plan)["p"]).toEqual(chosen(plan)["q"]);
  });

  test("shares a claim that is provisioned with a pod on the same node", () => {
    const made = clusterWith({ nodes: [node("n1", { pods: 1 }), node("n2")], groups: [group("a"), group("b")] });
    addClass(made, { provisioner: "disks.example.com" });
    addClaim(made, "data");
    for (const name of ["a", "b"]) addPod(made, pod(`p-${name}`, { group: name, spec: uses("data") }));
    addPod(made, pod("full", { spec: { nodeName: "n1" } as never }));
    expect(Object.values(outcome(decide(made)))).toEqual(["n2", "n2"]);
  });

  test("with two claims takes two volumes of one node, the small claim the small volume", () => {
    const made = cluster(["a", "b"]);
    addClaim(made, "a", "5Gi");
    addVolume(made, "v1", "n1", { capacity: { storage: "5Gi" } });
    addVolume(made, "v2", "n2", { capacity: { storage: "5Gi" } });
    addVolume(made, "w2", "n2");
    const plan = decide(made);
    expect(outcome(plan)).toEqual({ p: "n2" });
    expect(chosen(plan)).toEqual({ p: { a: "v2", b: "w2" } });
  });

  test("goes to the volume that is reserved for its claim, and nowhere else", () => {
    const made = cluster(["data"]);
    addVolume(made, "free", "n1");
    addVolume(made, "mine", "n2", { claimRef: { namespace: "default", name: "data" } });
    expect(chosen(decide(made))).toEqual({ p: { data: "mine" } });
    made.removeNode("n2");
    expect(outcome(decide(made))).toEqual({});
  });

  test("goes to the node that was selected for its claim", () => {
    const made = cluster(["data"]);
    addClass(made, { provisioner: "disks.example.com" });
    addClaim(made, "data", "1Gi", { "volume.kubernetes.io/selected-node": "n3" });
    expect(outcome(decide(made))).toEqual({ p: "n3" });
  });

  test("counts what a BindRequest has taken", () => {
    const made = cluster(["one"], ["two"]);
    addVolume(made, "v", "n2");
    made.setPlaces([...made.tasks.values()].find(({ name }) => name === "q")?.uid ?? "", [
      { node: "n2", groups: [], volumes: { two: "v" } },
    ]);
    expect(outcome(decide(made))).toEqual({});
  });
});

test("a gang takes a volume for each of its pods, or none", () => {
  const made = clusterWith({ nodes, ...gang("a", 2) });
  addClass(made);
  for (const [uid, task] of made.tasks) {
    addClaim(made, `c-${uid}`);
    made.putPod({ ...task.pod, spec: { ...task.pod.spec, ...(uses(`c-${uid}`) as object) } as never });
  }
  addVolume(made, "v", "n1");
  expect(outcome(decide(made))).toEqual({});
  addVolume(made, "w", "n1");
  const plan = decide(made);
  expect(Object.values(outcome(plan))).toEqual(["n1", "n1"]);
  expect(
    Object.values(chosen(plan))
      .flatMap((each) => Object.values(each as object))
      .sort(),
  ).toEqual(["v", "w"]);
});

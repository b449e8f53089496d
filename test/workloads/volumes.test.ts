/** Claims and volumes on the embedded server, with upstream's phases and Events. */
import { describe, expect, test } from "vitest";
import { workloads } from "../../src/control/workloads/workloads.ts";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { LiveCluster } from "./liveCluster.ts";
import { claim, podWith, storageClass, volume, waiting } from "./volumeObjects.ts";

const claims = "/persistentvolumeclaims";
const volumes = "/persistentvolumes";
const classes = "storage.k8s.io/storageclasses";

async function start(): Promise<LiveCluster> {
  return LiveCluster.start({ components: [workloads], nodes: 1 });
}

async function add(cluster: LiveCluster, resource: string, ...objects: object[]): Promise<void> {
  for (const object of objects) await cluster.test.create(resource, object);
  await cluster.pass(1_000);
}

const phaseOf = (cluster: LiveCluster, name: string) =>
  cluster.get<k.PersistentVolumeClaim>(claims, `default/${name}`).status?.phase;
const volumeOf = (cluster: LiveCluster, name: string) =>
  cluster.get<k.PersistentVolumeClaim>(claims, `default/${name}`).spec?.volumeName;
const claimOf = (cluster: LiveCluster, name: string) => cluster.get<k.PersistentVolume>(volumes, name).spec?.claimRef;
const volumePhase = (cluster: LiveCluster, name: string) =>
  cluster.get<k.PersistentVolume>(volumes, name).status?.phase;

describe("a claim", () => {
  test("is bound to the smallest volume that fits, and the volume to its UID", async () => {
    const cluster = await start();
    await add(
      cluster,
      volumes,
      volume("large", { capacity: { storage: "9Gi" } }),
      volume("small"),
      volume("tiny", { capacity: { storage: "1Mi" } }),
    );
    expect(volumePhase(cluster, "small")).toBe("Available");
    await add(cluster, claims, claim("data"));
    const bound = cluster.get<k.PersistentVolumeClaim>(claims, "default/data");
    expect(bound.spec?.volumeName).toBe("small");
    expect(bound.status).toMatchObject({
      phase: "Bound",
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "1Gi" },
    });
    expect(bound.metadata.annotations).toEqual({
      "pv.kubernetes.io/bind-completed": "yes",
      "pv.kubernetes.io/bound-by-controller": "yes",
    });
    expect(volumePhase(cluster, "small")).toBe("Bound");
    expect(claimOf(cluster, "small")).toMatchObject({ name: "data", namespace: "default", uid: bound.metadata.uid });
    expect(["large", "tiny"].map((name) => volumePhase(cluster, name))).toEqual(["Available", "Available"]);
    const { revision } = cluster;
    await cluster.pass(60_000);
    expect(cluster.all(claims).concat(cluster.all(volumes))).toHaveLength(4);
    expect(cluster.revision - revision).toBeLessThan(20);
    expect(cluster.log.errors).toEqual([]);
  });

  test("of many gets a volume of its own, and the last one waits", async () => {
    const cluster = await start();
    const names = Array.from({ length: 12 }, (_, at) => `c${at}`);
    await add(cluster, volumes, ...names.slice(1).map((name) => volume(`v-${name}`)));
    for (const name of names) await cluster.test.create(claims, claim(name));
    await cluster.pass(5_000);
    expect(new Set(names.map((name) => volumeOf(cluster, name)))).toHaveProperty("size", 12);
    expect(names.filter((name) => phaseOf(cluster, name) === "Bound")).toHaveLength(11);
  });

  test.each([
    ["another class", {}, { storageClassName: "slow" }],
    ["another access mode", {}, { accessModes: ["ReadWriteMany"] }],
    ["a block device", {}, { volumeMode: "Block" }],
    ["other labels", { selector: { matchLabels: { disk: "ssd" } } }, {}],
    ["too little capacity", { resources: { requests: { storage: "2Gi" } } }, {}],
    ["another claim's reservation", {}, { claimRef: { namespace: "default", name: "other" } }],
  ])("waits for a volume that fits: one with %s does not", async (_, wants, has) => {
    const cluster = await start();
    await add(cluster, volumes, volume("v", has));
    await add(cluster, claims, claim("data", wants));
    expect(phaseOf(cluster, "data")).toBe("Pending");
    expect(cluster.events("data")).toEqual([
      "FailedBinding: no persistent volumes available for this claim and no storage class is set",
    ]);
  });

  test("gets the volume that is reserved for its name, though a smaller one is free", async () => {
    const cluster = await start();
    const claimRef = { namespace: "default", name: "data" };
    await add(cluster, volumes, volume("mine", { capacity: { storage: "5Gi" }, claimRef }), volume("small"));
    expect(volumePhase(cluster, "mine")).toBe("Available");
    await add(cluster, claims, claim("data"));
    expect(volumeOf(cluster, "data")).toBe("mine");
    expect(phaseOf(cluster, "data")).toBe("Bound");
  });

  test("that names its volume gets that one, and not one that does not fit or has another claim", async () => {
    const cluster = await start();
    await add(cluster, volumes, volume("v"), volume("w"));
    await add(cluster, claims, claim("large", { volumeName: "v", resources: { requests: { storage: "7Gi" } } }));
    expect(cluster.events("large")[0]).toMatch(/^VolumeMismatch: Cannot bind to requested volume "v": requested cap/);
    await add(cluster, claims, claim("data", { volumeName: "w" }), claim("late", { volumeName: "w" }));
    expect([phaseOf(cluster, "data"), phaseOf(cluster, "late")]).toEqual(["Bound", "Pending"]);
    expect(cluster.events("late")).toContain('FailedBinding: volume "w" already bound to a different claim.');
    expect(cluster.get<k.PersistentVolumeClaim>(claims, "default/data").metadata.annotations).toEqual({
      "pv.kubernetes.io/bind-completed": "yes",
    });
  });

  test("without a class gets the default one when there is one", async () => {
    const cluster = await start();
    await add(cluster, claims, claim("data"));
    const annotations = { "storageclass.kubernetes.io/is-default-class": "true" };
    await add(cluster, classes, storageClass("disk", { metadata: { name: "disk", annotations } }));
    expect(cluster.get<k.PersistentVolumeClaim>(claims, "default/data").spec?.storageClassName).toBe("disk");
  });

  test("that was bound and whose volume is gone is Lost", async () => {
    const cluster = await start();
    await add(cluster, volumes, volume("v"));
    await add(cluster, claims, claim("data"));
    await cluster.edit<k.PersistentVolume>(volumes, "v", ({ metadata }) => delete metadata.finalizers);
    await cluster.test.delete(volumes, "v");
    await cluster.pass(1_000);
    expect(phaseOf(cluster, "data")).toBe("Lost");
    expect(cluster.events("data")).toContain(
      "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!",
    );
  });
});

describe("a volume", () => {
  test("whose claim is gone is Released, keeps its data, and is not given to a claim of the same name", async () => {
    const cluster = await start();
    await add(cluster, volumes, volume("v"));
    await add(cluster, claims, claim("data"));
    await cluster.test.delete(claims, "default/data");
    await cluster.pass(1_000);
    await add(cluster, claims, claim("data"));
    expect(volumePhase(cluster, "v")).toBe("Released");
    expect(phaseOf(cluster, "data")).toBe("Pending");
    // An administrator gives it free.
    await cluster.edit<k.PersistentVolume>(volumes, "v", ({ spec }) => delete spec?.claimRef);
    await cluster.pass(1_000);
    expect(volumeOf(cluster, "data")).toBe("v");
  });

  test("without a provisioner that could delete it is Failed under the policy Delete", async () => {
    const cluster = await start();
    await add(cluster, volumes, volume("v", { persistentVolumeReclaimPolicy: "Delete" }));
    await add(cluster, claims, claim("data"));
    await cluster.test.delete(claims, "default/data");
    await cluster.pass(1_000);
    expect(volumePhase(cluster, "v")).toBe("Failed");
  });

  test("that was reserved for a claim with another volume is free again", async () => {
    const cluster = await start();
    await add(cluster, volumes, volume("v"));
    await add(cluster, claims, claim("data"));
    const { uid } = cluster.get<k.PersistentVolumeClaim>(claims, "default/data").metadata;
    const claimRef = { namespace: "default", name: "data", uid };
    const annotations = { "pv.kubernetes.io/bound-by-controller": "yes" };
    await add(cluster, volumes, volume("stray", { claimRef }, { annotations }));
    expect(claimOf(cluster, "stray")).toBeUndefined();
    expect(volumePhase(cluster, "stray")).toBe("Available");
    expect([volumeOf(cluster, "data"), phaseOf(cluster, "data")]).toEqual(["v", "Bound"]);
  });
});

describe("a class that waits for the first pod", () => {
  const local = { ...waiting, provisioner: "muster.dev/local-folder" };
  const selected = (node: string) => ({ annotations: { "volume.kubernetes.io/selected-node": node } });

  test("leaves a claim alone until a node is selected", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", waiting));
    await add(cluster, volumes, volume("v", { storageClassName: "disk" }));
    await add(cluster, claims, claim("data", { storageClassName: "disk" }));
    expect(phaseOf(cluster, "data")).toBe("Pending");
    expect(volumePhase(cluster, "v")).toBe("Available");
    expect(cluster.events("data")).toEqual([
      "WaitForFirstConsumer: waiting for first consumer to be created before binding",
    ]);
  });

  test("of another provisioner names it on the claim", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", { ...waiting, provisioner: "ebs.csi.aws.com" }));
    await add(cluster, claims, claim("data", { storageClassName: "disk" }, selected("n0")));
    const { annotations } = cluster.get<k.PersistentVolumeClaim>(claims, "default/data").metadata;
    expect(annotations).toMatchObject({ "volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com" });
    expect(cluster.events("data")[0]).toMatch(/^ExternalProvisioning: Waiting for a volume to be created/);
  });

  test("provisions a folder on the selected node, and deletes the volume with the claim", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", local));
    await add(cluster, claims, claim("data", { storageClassName: "disk" }, selected("n0")));
    const { uid } = cluster.get<k.PersistentVolumeClaim>(claims, "default/data").metadata;
    expect(phaseOf(cluster, "data")).toBe("Bound");
    const made = cluster.get<k.PersistentVolume>(volumes, `pvc-${uid}`);
    expect(made.spec).toMatchObject({
      hostPath: { path: `/var/lib/muster/volumes/pvc-${uid}`, type: "DirectoryOrCreate" },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ values: ["n0"] }] }] } },
      persistentVolumeReclaimPolicy: "Delete",
      capacity: { storage: "1Gi" },
    });
    await cluster.test.delete(claims, "default/data");
    await cluster.pass(1_000);
    expect(cluster.all(volumes)).toEqual([]);
    expect(cluster.log.errors).toEqual([]);
  });

  test("forgets a selected node that does not exist", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", local));
    await add(cluster, claims, claim("data", { storageClassName: "disk" }, selected("gone")));
    const { annotations } = cluster.get<k.PersistentVolumeClaim>(claims, "default/data").metadata;
    expect(annotations?.["volume.kubernetes.io/selected-node"]).toBeUndefined();
    expect(cluster.all(volumes)).toEqual([]);
  });

  test("refuses what a local folder cannot be", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", local));
    await add(
      cluster,
      claims,
      claim("data", { storageClassName: "disk", accessModes: ["ReadWriteMany"] }, selected("n0")),
    );
    expect(cluster.events("data")).toEqual([
      "ProvisioningFailed: a local folder is of one node and has no access mode ReadWriteMany",
    ]);
  });
});

describe("a generic ephemeral volume", () => {
  const template = {
    metadata: { labels: { app: "x" } },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  };
  const pod = podWith("p", [], { volumes: [{ name: "scratch", ephemeral: { volumeClaimTemplate: template } }] });

  test("has a claim that belongs to its pod, and goes with it", async () => {
    const cluster = await start();
    await add(cluster, "/pods", pod);
    const { uid } = cluster.get<k.Pod>("/pods", "default/p").metadata;
    const made = cluster.get<k.PersistentVolumeClaim>(claims, "default/p-scratch");
    expect(made.metadata.ownerReferences).toMatchObject([{ kind: "Pod", name: "p", uid, controller: true }]);
    expect(made.metadata.labels).toEqual({ app: "x" });
  });

  test("does not take a claim of that name that is not the pod's", async () => {
    const cluster = await start();
    await add(cluster, claims, claim("p-scratch"));
    await add(cluster, "/pods", pod);
    expect(cluster.events("p")).toContain("FailedCreate: PersistentVolumeClaim p-scratch was not created for pod p");
    expect(cluster.get<k.PersistentVolumeClaim>(claims, "default/p-scratch").metadata.ownerReferences).toBeUndefined();
    await cluster.test.delete(claims, "default/p-scratch");
    await cluster.pass(1_000);
    expect(cluster.get<k.PersistentVolumeClaim>(claims, "default/p-scratch").metadata.ownerReferences).toHaveLength(1);
  });
});

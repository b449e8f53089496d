/** Pods with claims, through scheduler, binder and volume controller: a pod goes where its volumes are. */
import { describe, expect, test } from "vitest";
import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import { workloads } from "../../src/control/workloads/workloads.ts";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { LiveCluster } from "./liveCluster.ts";
import { claim, onNodes, podWith, storageClass, volume, waiting } from "./volumeObjects.ts";

const claims = "/persistentvolumeclaims";
const volumes = "/persistentvolumes";
const classes = "storage.k8s.io/storageclasses";
const local = { ...waiting, provisioner: "muster.dev/local-folder" };

async function start(components: readonly Component[] = [workloads], settings = {}): Promise<LiveCluster> {
  // The scheduler already brings the definition of BindRequests.
  const binder: Component = { ...binderComponent(settings), definitions: [] };
  const cluster = await LiveCluster.start({ components: [...components, schedulerComponent(), binder], nodes: 3 });
  for (const name of ["n0", "n1", "n2"]) {
    await cluster.edit<k.Node>("/nodes", name, ({ metadata }) => {
      metadata.labels = { ...metadata.labels, "kubernetes.io/hostname": name };
    });
  }
  return cluster;
}

async function add(cluster: LiveCluster, resource: string, ...objects: object[]): Promise<void> {
  for (const object of objects) await cluster.test.create(resource, object);
}

const nodeOf = (cluster: LiveCluster, name: string) => cluster.get<k.Pod>("/pods", `default/${name}`).spec?.nodeName;
const volumeOf = (cluster: LiveCluster, name: string) =>
  cluster.get<k.PersistentVolumeClaim>(claims, `default/${name}`).spec?.volumeName;

describe("a pod whose claim waits for its node", () => {
  test("goes to the node of the local volume, and runs with it", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", waiting));
    await add(cluster, volumes, volume("v", { storageClassName: "disk", ...onNodes("n2") }));
    await add(cluster, claims, claim("data", { storageClassName: "disk" }));
    await cluster.pass(1_000);
    expect(volumeOf(cluster, "data")).toBeUndefined();
    await add(cluster, "/pods", podWith("p", ["data"]));
    await cluster.pass(3_000);
    expect(nodeOf(cluster, "p")).toBe("n2");
    expect(volumeOf(cluster, "data")).toBe("v");
    expect(cluster.get<k.Pod>("/pods", "default/p").status?.phase).toBe("Running");
    expect(cluster.get<k.PersistentVolume>(volumes, "v").metadata.annotations).toEqual({
      "pv.kubernetes.io/bound-by-controller": "yes",
    });
    expect(cluster.log.errors).toEqual([]);
  });

  test("and of many each gets a volume of its own", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", waiting));
    for (let at = 0; at < 9; at++) {
      await add(cluster, volumes, volume(`v${at}`, { storageClassName: "disk", ...onNodes(`n${at % 3}`) }));
    }
    for (let at = 0; at < 10; at++) {
      await add(cluster, claims, claim(`c${at}`, { storageClassName: "disk" }));
      await add(cluster, "/pods", podWith(`p${at}`, [`c${at}`]));
    }
    await cluster.pass(10_000);
    const bound = cluster.all<k.Pod>("/pods").filter(({ spec }) => spec?.nodeName !== undefined);
    expect(bound).toHaveLength(9);
    for (const { metadata, spec } of bound) {
      const name = volumeOf(cluster, metadata.name.replace("p", "c")) ?? "";
      expect(`n${Number(name.slice(1)) % 3}`).toBe(spec?.nodeName);
    }
    const late = cluster.all<k.Pod>("/pods").find(({ spec }) => spec?.nodeName === undefined);
    expect(late?.status?.conditions?.find(({ type }) => type === "PodScheduled")?.message).toMatch(
      /3 node\(s\) have no free PersistentVolume for its claims/,
    );
  });

  test("gets a folder on its node, also for an ephemeral volume, and a second pod of the claim follows", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", local));
    await add(cluster, claims, claim("data", { storageClassName: "disk" }));
    const spec = {
      accessModes: ["ReadWriteOnce"],
      storageClassName: "disk",
      resources: { requests: { storage: "1Gi" } },
    };
    const scratch = { name: "scratch", ephemeral: { volumeClaimTemplate: { spec } } };
    const data = { name: "data", persistentVolumeClaim: { claimName: "data" } };
    await add(cluster, "/pods", podWith("p", [], { volumes: [data, scratch] }), podWith("q", ["data"]));
    await cluster.pass(5_000);
    const node = nodeOf(cluster, "p");
    expect(node).toBeDefined();
    expect(nodeOf(cluster, "q")).toBe(node);
    for (const { spec: made } of cluster.all<k.PersistentVolume>(volumes)) {
      const [term] = made?.nodeAffinity?.required?.nodeSelectorTerms ?? [];
      expect(term?.matchExpressions?.[0]?.values).toEqual([node]);
    }
    expect(cluster.all(volumes)).toHaveLength(2);
    // The ephemeral claim goes with its pod, and its volume with the claim.
    await cluster.test.delete("/pods", "default/p");
    await cluster.pass(5_000);
    expect(cluster.all<k.PersistentVolume>(volumes)).toHaveLength(1);
    expect(cluster.log.errors).toEqual([]);
  });

  test("whose bind fails gives volume and node back", async () => {
    // Without the controller that completes the binding, as on a cluster where it is down.
    const cluster = await start([], { volumeTimeoutMs: 5_000 });
    await add(cluster, classes, storageClass("disk", waiting), storageClass("made", local));
    await cluster.test.create(volumes, volume("v", { storageClassName: "disk", ...onNodes("n1") }));
    await cluster.test.edit(
      volumes,
      "v",
      (object) => void Object.assign(object, { status: { phase: "Available" } }),
      "status",
    );
    await add(
      cluster,
      claims,
      claim("data", { storageClassName: "disk" }),
      claim("more", { storageClassName: "made" }),
    );
    await add(cluster, "/pods", podWith("p", ["data", "more"]));
    await cluster.pass(2_000);
    const { uid } = cluster.get<k.PersistentVolumeClaim>(claims, "default/data").metadata;
    const claimOf = () => cluster.get<k.PersistentVolume>(volumes, "v").spec?.claimRef;
    const selected = () =>
      cluster.get<k.PersistentVolumeClaim>(claims, "default/more").metadata.annotations?.[
        "volume.kubernetes.io/selected-node"
      ];
    expect(claimOf()).toMatchObject({ name: "data", uid });
    expect(selected()).toBe("n1");
    // The next decision finds no node.
    for (const name of ["n0", "n1", "n2"]) {
      await cluster.edit<k.Node>(
        "/nodes",
        name,
        (node) => void Object.assign(node.spec ?? {}, { unschedulable: true }),
      );
    }
    await cluster.pass(10_000);
    expect(nodeOf(cluster, "p")).toBeUndefined();
    expect(claimOf()).toBeUndefined();
    expect(selected()).toBeUndefined();
  });

  test("and whose volume is taken meanwhile is decided again", async () => {
    const cluster = await start();
    await add(cluster, classes, storageClass("disk", waiting));
    for (const at of [0, 1])
      await add(cluster, volumes, volume(`v${at}`, { storageClassName: "disk", ...onNodes(`n${at}`) }));
    await cluster.pass(1_000);
    await add(cluster, claims, claim("data", { storageClassName: "disk" }));
    await add(cluster, "/pods", podWith("p", ["data"]));
    await cluster.edit<k.PersistentVolume>(volumes, "v0", ({ spec }) => {
      if (spec) spec.claimRef = { namespace: "default", name: "another" };
    });
    await cluster.pass(20_000);
    expect(nodeOf(cluster, "p")).toBe("n1");
    expect(volumeOf(cluster, "data")).toBe("v1");
  });
});

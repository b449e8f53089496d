/** Own writes that are not observed yet, lost or refused: no write is repeated, and none is forgotten. */
import { describe, expect, test } from "vitest";
import { workloads } from "../../src/control/workloads/workloads.ts";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { type Refusal, refused } from "../../src/model/outcome.ts";
import { LiveCluster, named, selector, template } from "./liveCluster.ts";

const set = (replicas: number) => named("apps/v1", "ReplicaSet", { replicas, selector, template: template() });
const podCreates = (cluster: LiveCluster) => cluster.kube.calls.filter((call) => call.startsWith("create pods "));
const sizeOf = (cluster: LiveCluster) => cluster.get<k.ReplicaSet>("apps/replicasets", "default/x").status?.replicas;

async function scaled(cluster: LiveCluster, replicas: number): Promise<void> {
  await cluster.edit<k.ReplicaSet>("apps/replicasets", "default/x", ({ spec }) => {
    spec!.replicas = replicas;
  });
}

/** Fails the first matching calls. */
function first(count: number, wanted: string, refusal: Refusal) {
  let left = count;
  return (verb: string, what: string): Refusal | undefined => {
    if (!`${verb} ${what}`.startsWith(wanted) || left === 0) return undefined;
    left--;
    return refusal;
  };
}

const lost = refused("Unknown", "timed out");

describe("what a ReplicaSet has written", () => {
  test("is not written again while the watch is silent", async () => {
    const cluster = await LiveCluster.start({ components: [workloads] });
    await cluster.test.create("apps/replicasets", set(3));
    await cluster.pass(1_000);
    cluster.kube.faults = { isMute: true };
    await scaled(cluster, 6);
    await cluster.pass(5_000);
    expect(podCreates(cluster)).toHaveLength(3);
    cluster.kube.faults = {};
    cluster.kube.cut();
    await cluster.pass(5_000);
    expect([podCreates(cluster).length, cluster.all("/pods").length, sizeOf(cluster)]).toEqual([6, 6, 6]);
  });

  test("is looked up when the answer was lost, and counted once", async () => {
    const cluster = await LiveCluster.start({ components: [workloads] });
    cluster.kube.faults = { after: first(2, "create pods", lost) };
    await cluster.test.create("apps/replicasets", set(3));
    await cluster.pass(5_000);
    expect([podCreates(cluster).length, cluster.all("/pods").length, sizeOf(cluster)]).toEqual([3, 3, 3]);
    expect(cluster.log.errors).toEqual([]);
  });

  test("is sent again under the same name when it never arrived", async () => {
    const cluster = await LiveCluster.start({ components: [workloads] });
    cluster.kube.faults = { before: first(2, "create pods", lost) };
    await cluster.test.create("apps/replicasets", set(3));
    await cluster.pass(5_000);
    const creates = podCreates(cluster);
    expect([creates.length, new Set(creates).size, cluster.all("/pods").length]).toEqual([5, 3, 3]);
  });

  test("stops at the first refusal that concerns the rest as well", async () => {
    const cluster = await LiveCluster.start({ components: [workloads] });
    cluster.kube.faults = { before: first(1, "create pods", refused("Forbidden", "quota")) };
    await cluster.test.create("apps/replicasets", set(40));
    await cluster.test.settle();
    expect(podCreates(cluster).length).toBeGreaterThan(0);
    await cluster.pass(5_000);
    expect([podCreates(cluster).length, cluster.all("/pods").length]).toEqual([41, 40]);
    expect(cluster.events("x")).toContain("FailedCreate: Error creating: quota");
  });
});

describe("what a ReplicaSet has deleted", () => {
  test("is read again before the delete: a set that was scaled up meanwhile loses no pod", async () => {
    const cluster = await LiveCluster.start({ components: [workloads] });
    await cluster.test.create("apps/replicasets", set(4));
    await cluster.pass(1_000);
    // The change is reverted after the controller has decided, and before it reads again.
    let taken: Promise<void> | undefined;
    cluster.kube.faults = {
      before: (verb, what) => {
        if (verb === "list" && what.startsWith("replicasets")) taken ??= scaled(cluster, 4);
        return undefined;
      },
    };
    await scaled(cluster, 1);
    await cluster.pass(3_000);
    expect(taken).toBeDefined();
    expect(cluster.kube.calls.filter((call) => call.startsWith("delete pods"))).toEqual([]);
    expect(cluster.all("/pods")).toHaveLength(4);
  });

  test("is deleted once, though the answer was lost", async () => {
    const cluster = await LiveCluster.start({ components: [workloads] });
    await cluster.test.create("apps/replicasets", set(3));
    await cluster.pass(1_000);
    cluster.kube.faults = { after: first(1, "delete pods", lost) };
    await scaled(cluster, 1);
    await cluster.pass(5_000);
    expect([cluster.all("/pods").length, sizeOf(cluster)]).toEqual([1, 1]);
    expect(cluster.kube.calls.filter((call) => call.startsWith("delete pods"))).toHaveLength(2);
  });
});

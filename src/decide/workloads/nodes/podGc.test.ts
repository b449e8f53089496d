import { describe, expect, test } from "vitest";
import { startMs, TestCluster } from "../../../../testing/decide/workloadObjects.ts";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";
import { decidePodGc, podGcDefaults } from "./podGc.ts";

function podOf(
  cluster: TestCluster,
  name: string,
  more: { node?: string; phase?: string; finalizers?: string[]; reason?: string } = {},
): Pod {
  const { node, phase = "Running", finalizers, reason } = more;
  return cluster.add<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, ...(finalizers && { finalizers }) },
    spec: { containers: [], ...(node !== undefined && { nodeName: node }) },
    status: { phase, ...(reason !== undefined && { reason }) },
  });
}

const pictureOf = (cluster: TestCluster, missingSinceMs = new Map<string, number>()) => ({
  pods: cluster.all<Pod>("Pod"),
  nodes: cluster.all<Node>("Node"),
  missingSinceMs,
});

describe("pod garbage collection", () => {
  test("waits before it treats a node as deleted, then fails the pod, then deletes it", () => {
    const cluster = new TestCluster();
    podOf(cluster, "p", { node: "gone" });
    const first = decidePodGc(pictureOf(cluster), startMs);
    expect(first).toEqual({ intents: [], wakeAtMs: startMs + 40_000, missing: ["gone"] });
    const since = new Map([["gone", startMs]]);
    cluster.nowMs = startMs + 40_000;
    cluster.apply(decidePodGc(pictureOf(cluster, since), cluster.nowMs));
    const { status, metadata } = cluster.get<Pod>("Pod", "p");
    expect(status).toMatchObject({
      phase: "Failed",
      conditions: [{ type: "DisruptionTarget", reason: "DeletionByPodGC" }],
    });
    const last = decidePodGc(pictureOf(cluster, since), cluster.nowMs);
    const expected = { uid: metadata.uid, resourceVersion: metadata.resourceVersion };
    expect(last.intents).toMatchObject([{ type: "delete", gracePeriodSeconds: 0, expected }]);
  });

  test("leaves the pods of an existing node alone", () => {
    const cluster = new TestCluster();
    cluster.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n" } });
    podOf(cluster, "p", { node: "n" });
    expect(decidePodGc(pictureOf(cluster), startMs)).toEqual({ intents: [], wakeAtMs: undefined, missing: [] });
  });

  test("deletes a terminating pod without a node, and sends the delete only once", () => {
    const cluster = new TestCluster();
    podOf(cluster, "p", { phase: "Pending", finalizers: ["batch.kubernetes.io/job-tracking"] });
    cluster.change<Pod>("Pod", "p", ({ metadata }) => {
      metadata.deletionTimestamp = formatTime(startMs);
      metadata.deletionGracePeriodSeconds = 0;
    });
    cluster.apply(decidePodGc(pictureOf(cluster), startMs));
    expect(cluster.get<Pod>("Pod", "p").status?.phase).toBe("Failed");
    expect(decidePodGc(pictureOf(cluster), startMs).intents).toEqual([]);
  });

  test("deletes terminating pods of a node with the out-of-service taint", () => {
    const cluster = new TestCluster();
    cluster.add<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n" },
      spec: { taints: [{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }] },
    });
    podOf(cluster, "leaving", { node: "n" });
    podOf(cluster, "staying", { node: "n" });
    cluster.remove(cluster.get("Pod", "leaving"));
    const { intents } = decidePodGc(pictureOf(cluster), startMs);
    expect(intents).toMatchObject([{ type: "status", target: { name: "leaving" } }]);
  });

  test("keeps a number of finished pods, and deletes the evicted ones first, then the oldest", () => {
    const cluster = new TestCluster();
    cluster.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n" } });
    for (const name of ["a", "b", "c"]) podOf(cluster, name, { node: "n", phase: "Succeeded" });
    podOf(cluster, "evicted", { node: "n", phase: "Failed", reason: "Evicted" });
    podOf(cluster, "running", { node: "n" });
    const snapshot = pictureOf(cluster);
    const options = { ...podGcDefaults, endedMax: 2 };
    const names = decidePodGc(snapshot, startMs, options).intents.map(({ target }) => target.name);
    expect(names).toEqual(["evicted", "a"]);
    const reversed = { ...snapshot, pods: [...snapshot.pods].reverse() };
    expect(decidePodGc(reversed, startMs, options)).toEqual(decidePodGc(snapshot, startMs, options));
  });
});

import { describe, expect, test } from "vitest";
import { startMs, TestWorld } from "../../../../testing/decide/workloadObjects.ts";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { formatTime } from "../../../model/values/time.ts";
import { decidePodGc, podGcDefaults } from "./podGc.ts";

function podOf(
  world: TestWorld,
  name: string,
  more: { node?: string; phase?: string; finalizers?: string[]; reason?: string } = {},
): Pod {
  const { node, phase = "Running", finalizers, reason } = more;
  return world.add<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, ...(finalizers && { finalizers }) },
    spec: { containers: [], ...(node !== undefined && { nodeName: node }) },
    status: { phase, ...(reason !== undefined && { reason }) },
  });
}

const pictureOf = (world: TestWorld, missingSinceMs = new Map<string, number>()) => ({
  pods: world.all<Pod>("Pod"),
  nodes: world.all<Node>("Node"),
  missingSinceMs,
});

describe("pod garbage collection", () => {
  test("waits before it believes that a node is gone, then fails the pod, then deletes it", () => {
    const world = new TestWorld();
    podOf(world, "p", { node: "gone" });
    const first = decidePodGc(pictureOf(world), startMs);
    expect(first).toEqual({ intents: [], wakeAtMs: startMs + 40_000, missing: ["gone"] });
    const since = new Map([["gone", startMs]]);
    world.nowMs = startMs + 40_000;
    world.apply(decidePodGc(pictureOf(world, since), world.nowMs));
    const { status, metadata } = world.get<Pod>("Pod", "p");
    expect(status).toMatchObject({
      phase: "Failed",
      conditions: [{ type: "DisruptionTarget", reason: "DeletionByPodGC" }],
    });
    const last = decidePodGc(pictureOf(world, since), world.nowMs);
    const expected = { uid: metadata.uid, resourceVersion: metadata.resourceVersion };
    expect(last.intents).toMatchObject([{ type: "delete", gracePeriodSeconds: 0, expected }]);
  });

  test("leaves the pods of a node alone that exists", () => {
    const world = new TestWorld();
    world.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n" } });
    podOf(world, "p", { node: "n" });
    expect(decidePodGc(pictureOf(world), startMs)).toEqual({ intents: [], wakeAtMs: undefined, missing: [] });
  });

  test("ends a pod that was asked to go before it had a node, and asks only once", () => {
    const world = new TestWorld();
    podOf(world, "p", { phase: "Pending", finalizers: ["batch.kubernetes.io/job-tracking"] });
    world.change<Pod>("Pod", "p", ({ metadata }) => {
      metadata.deletionTimestamp = formatTime(startMs);
      metadata.deletionGracePeriodSeconds = 0;
    });
    world.apply(decidePodGc(pictureOf(world), startMs));
    expect(world.get<Pod>("Pod", "p").status?.phase).toBe("Failed");
    expect(decidePodGc(pictureOf(world), startMs).intents).toEqual([]);
  });

  test("clears leaving pods of a node that an operator has declared out of service", () => {
    const world = new TestWorld();
    world.add<Node>({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: "n" },
      spec: { taints: [{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }] },
    });
    podOf(world, "leaving", { node: "n" });
    podOf(world, "staying", { node: "n" });
    world.remove(world.get("Pod", "leaving"));
    const { intents } = decidePodGc(pictureOf(world), startMs);
    expect(intents).toMatchObject([{ type: "status", target: { name: "leaving" } }]);
  });

  test("keeps a number of ended pods, and of the others the evicted go first, then the oldest", () => {
    const world = new TestWorld();
    world.add<Node>({ apiVersion: "v1", kind: "Node", metadata: { name: "n" } });
    for (const name of ["a", "b", "c"]) podOf(world, name, { node: "n", phase: "Succeeded" });
    podOf(world, "evicted", { node: "n", phase: "Failed", reason: "Evicted" });
    podOf(world, "running", { node: "n" });
    const snapshot = pictureOf(world);
    const options = { ...podGcDefaults, endedMax: 2 };
    const names = decidePodGc(snapshot, startMs, options).intents.map(({ target }) => target.name);
    expect(names).toEqual(["evicted", "a"]);
    const reversed = { ...snapshot, pods: [...snapshot.pods].reverse() };
    expect(decidePodGc(reversed, startMs, options)).toEqual(decidePodGc(snapshot, startMs, options));
  });
});

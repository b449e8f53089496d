import { describe, expect, test } from "vitest";
import { addPod, node, pod, startMs, world } from "./testCluster.ts";

const status = (each: ReturnType<typeof pod>, places: string[] = [], nowMs = startMs): string | undefined => {
  const cluster = world({});
  addPod(cluster, each);
  if (places.length > 0) {
    cluster.setPlaces(
      each.metadata.uid,
      places.map((name) => ({ node: name, groups: [] })),
    );
  }
  cluster.refresh(nowMs);
  return cluster.tasks.get(each.metadata.uid)?.status;
};

describe("where a pod stands", () => {
  const gone = { deletedMs: startMs };
  test.each([
    ["runs", pod("p", { on: "n1" }), [], "running"],
    ["runs and is being deleted", pod("p", { on: "n1", ...gone }), [], "releasing"],
    ["waits and is being deleted", pod("p", gone), [], "releasing"],
    ["has a node and has not started", pod("p", { on: "n1", phase: "Pending" }), [], "bound"],
    ["has a BindRequest", pod("p"), ["n1"], "binding"],
    ["is gated", pod("p", { spec: { schedulingGates: [{ name: "g" }] } as never }), [], "gated"],
    ["waits", pod("p"), [], "pending"],
    ["succeeded", pod("p", { on: "n1", phase: "Succeeded" }), [], "succeeded"],
    ["failed", pod("p", { on: "n1", phase: "Failed" }), [], "failed"],
    ["is in no phase that there is", pod("p", { phase: "Unknown" }), [], "unknown"],
  ] as const)("that %s", (_, each, places, expected) => {
    expect(status(each, [...places])).toBe(expected);
  });

  test("that should have gone two minutes ago is stuck", () => {
    const going = pod("p", { on: "n1", ...gone });
    expect(status(going, [], startMs + 119_000)).toBe("releasing");
    expect(status(going, [], startMs + 121_000)).toBe("stuck");
  });
});

describe("what queues divide", () => {
  test.each([
    ["is ready", node("n1"), 8000],
    ["is not ready", node("n1", { isReady: false }), 0],
    ["is cordoned", node("n1", { spec: { unschedulable: true } as never }), 0],
    ["has too little memory", pressed("MemoryPressure"), 0],
    ["has no network", pressed("NetworkUnavailable"), 0],
  ] as const)("has the GPUs of a node that %s", (_, each, gpuMilli) => {
    const cluster = world({ nodes: [each] });
    cluster.refresh(startMs);
    expect(cluster.total()[0]).toBe(gpuMilli);
  });

  test("has GPUs that only claims can have, once", () => {
    const cluster = world({ nodes: [node("dra", { gpus: 0 }), node("both")] });
    cluster.setClaimGpus("dra", 4);
    cluster.setClaimGpus("both", 8);
    cluster.refresh(startMs);
    expect(cluster.total()[0]).toBe(12_000);
  });
});

function pressed(type: string): ReturnType<typeof node> {
  const each = node("n1");
  const conditions = [...(each.status?.conditions ?? []), { type, status: "True" }];
  return { ...each, status: { ...each.status, conditions } } as ReturnType<typeof node>;
}

import { describe, expect, test } from "vitest";
import {
  addPod,
  clusterWith,
  decide,
  group,
  node,
  outcome,
  pod,
  startMs,
} from "../../../testing/decide/scheduleCluster.ts";
import { isAliveStatus, isAllocatedStatus, isUsedStatus, type TaskStatus } from "./cluster/task.ts";

const status = (each: ReturnType<typeof pod>, places: string[] = [], nowMs = startMs): string | undefined => {
  const cluster = clusterWith({});
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

  test("that should have terminated two minutes ago is stuck", () => {
    const going = pod("p", { on: "n1", ...gone });
    expect(status(going, [], startMs + 119_000)).toBe("releasing");
    expect(status(going, [], startMs + 121_000)).toBe("stuck");
  });
});

describe("a pod that is", () => {
  const [yes, no] = [true, false];
  test.each<[TaskStatus, { keeps: boolean; has: boolean; lives: boolean }]>([
    ["pending", { keeps: no, has: no, lives: yes }],
    ["gated", { keeps: no, has: no, lives: yes }],
    ["allocated", { keeps: yes, has: yes, lives: yes }],
    ["pipelined", { keeps: yes, has: yes, lives: yes }],
    ["binding", { keeps: yes, has: yes, lives: yes }],
    ["bound", { keeps: yes, has: yes, lives: yes }],
    ["running", { keeps: yes, has: yes, lives: yes }],
    ["releasing", { keeps: no, has: yes, lives: no }],
    ["stuck", { keeps: no, has: yes, lives: no }],
    ["succeeded", { keeps: no, has: no, lives: no }],
    ["failed", { keeps: no, has: no, lives: no }],
    ["unknown", { keeps: no, has: no, lives: no }],
  ])("%s: keeps its place, has one, lives: %o", (status, { keeps, has, lives }) => {
    expect([isAllocatedStatus[status], isUsedStatus[status], isAliveStatus[status]]).toEqual([keeps, has, lives]);
  });
});

describe("a pod without a group", () => {
  test.each([
    ["of kai-scheduler waits for its group", pod("p", { gpus: 1 }), {}],
    ["that names one that is not there waits for it", pod("p", { gpus: 1, group: "nobody" }), {}],
    ["of default-scheduler needs none", pod("p", { gpus: 1, scheduler: "default-scheduler" }), { p: "n1" }],
  ])("%s", (_, each, placed) => {
    expect(outcome(decide(clusterWith({ pods: [each] })))).toEqual(placed);
  });
});

describe("what is decided and not done yet", () => {
  const halves = () => ({
    nodes: [node("n1", { gpus: 1 })],
    groups: [group("a"), group("b")],
    pods: [pod("a", { fraction: "0.6", group: "a" }), pod("b", { fraction: "0.6", group: "b" })],
  });

  test("holds its node and its GPU: no other pod gets them", () => {
    const cluster = clusterWith(halves());
    cluster.setPlaces("pod-default-a", [{ node: "n1", groups: ["g"] }]);
    expect(outcome(decide(cluster))).toEqual({});
    expect(cluster.queues.byName.get("q")?.allocated[0]).toBe(600);
  });

  test("is joined by a pod that fits beside it", () => {
    const cluster = clusterWith({
      ...halves(),
      pods: [pod("a", { fraction: "0.6", group: "a" }), pod("b", { fraction: "0.4", group: "b" })],
    });
    cluster.setPlaces("pod-default-a", [{ node: "n1", groups: ["g"] }]);
    expect(decide(cluster).jobs[0]?.binds[0]?.groups).toEqual(["g"]);
  });
});

describe("what queues divide", () => {
  test.each([
    ["is ready", node("n1"), 8000],
    ["is not ready", node("n1", { isReady: false }), 0],
    ["is cordoned", node("n1", { spec: { unschedulable: true } as never }), 0],
    ["has too little memory", pressed("MemoryPressure"), 0],
    ["has no network", pressed("NetworkUnavailable"), 0],
    ["has too little disk", pressed("DiskPressure"), 0],
    ["has too few processes", pressed("PIDPressure"), 0],
  ] as const)("has the GPUs of a node that %s", (_, each, gpuMilli) => {
    const cluster = clusterWith({ nodes: [each] });
    cluster.refresh(startMs);
    expect(cluster.total()[0]).toBe(gpuMilli);
  });

  test.each([
    ["what another scheduler's pods hold", pod("x", { gpus: 3, on: "n1", scheduler: "other" }), 5000],
    ["nothing for one that has ended", pod("x", { gpus: 3, on: "n1", scheduler: "other", phase: "Succeeded" }), 8000],
    ["nothing for those of our own", pod("x", { gpus: 3, on: "n1", group: "g" }), 8000],
    [
      "nothing for the pod that keeps a shared GPU",
      pod("gpu-reservation-x", {
        gpus: 1,
        on: "n1",
        scheduler: "other",
        namespace: "kai-resource-reservation",
        labels: { app: "kai-resource-reservation", "runai-gpu-group": "g" },
      }),
      8000,
    ],
    [
      "nothing for a stand-in",
      pod("x", { gpus: 1, on: "n1", scheduler: "other", namespace: "kai-scale-adjust" }),
      8000,
    ],
  ])("is less by %s", (_, each, gpuMilli) => {
    const cluster = clusterWith({ groups: [group("g")], pods: [each] });
    cluster.refresh(startMs);
    expect(cluster.total()[0]).toBe(gpuMilli);
  });

  test("has no GPUs of nodes that are not GPU workers, where nodes are restricted by role", () => {
    const nodes = [node("gpu", { gpus: 2, labels: { "node-role.kubernetes.io/gpu-worker": "" } }), node("other")];
    const cluster = clusterWith({ nodes, settings: { restrictsNodes: true } });
    cluster.refresh(startMs);
    expect(cluster.total()).toEqual([2000, 128_000, 2 * 512 * 2 ** 30]);
    cluster.configure({ ...cluster.settings, restrictsNodes: false });
    cluster.refresh(startMs);
    expect(cluster.total()[0]).toBe(10_000);
  });

  test("has GPUs that only claims can have, once", () => {
    const cluster = clusterWith({ nodes: [node("dra", { gpus: 0 }), node("both")] });
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

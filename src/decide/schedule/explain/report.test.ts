import { describe, expect, test } from "vitest";
import { gang, group, node, pod, queue, startMs, together } from "../../../../testing/decide/scheduleCluster.ts";
import { partly } from "../../../../testing/partly.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../../model/scheduling/podGroup.ts";
import { newReservation, reservationDefaults } from "../../bind/reservation.ts";
import { clusterOf } from "../model/clusterOf.ts";
import { answerWhy, jobRows, nodeRows, queueRows } from "./report.ts";

const nowMs = startMs + 60_000;
const none = { topologies: [], requests: [], priorityClasses: [], volumeClaims: [], volumes: [], classes: [] };

function cluster() {
  const owned: PodGroup = {
    ...group("pg-x", { minMember: 3 }),
    metadata: {
      ...group("pg-x").metadata,
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: "train", uid: "u" }],
    },
  };
  const running = { groups: [group("r")], pods: [pod("r-0", { gpus: 2, on: "n1", group: "r" })] };
  const waiting = { groups: [owned], pods: [0, 1, 2].map((at) => pod(`x-${at}`, { gpus: 8, group: "pg-x" })) };
  const labels = { "nvidia.com/gpu.product": "H100" };
  return clusterOf({
    ...none,
    nodes: [node("n1", { labels }), node("n2", { labels }), node("n3", { labels, spec: { unschedulable: true } })],
    queues: [
      queue("top"),
      queue("q", { parentQueue: "top", resources: { gpu: { quota: 1, limit: -1, overQuotaWeight: 1 } } }),
    ],
    ...together(running, waiting, gang("ready", 1, { gpus: 1 })),
  });
}

describe("questions about a cluster", () => {
  test("what waits, and with everything what runs", () => {
    const rows = jobRows(cluster(), nowMs);
    expect(rows.map(({ id, gang: places, state, reason }) => [id, places, state, reason])).toEqual([
      ["default/pg-x", "0/3/3", "Pending", "PodSchedulingErrors"],
      ["default/ready", "0/1/1", "Pending", "fits now"],
    ]);
    expect(jobRows(cluster(), nowMs, true).map(({ id }) => id)).toContain("default/r");
  });

  test("the tree of queues with what they borrow", () => {
    expect(queueRows(cluster(), nowMs)).toMatchObject([
      { name: "top", depth: 0, pending: 2 },
      {
        name: "q",
        depth: 1,
        quota: "1",
        limit: "unlimited",
        allocated: "2",
        requested: "27",
        borrowed: "1",
        pending: 2,
      },
    ]);
  });

  test("queues that have no place in the tree are there too, with why", () => {
    const queues = [
      queue("q"),
      queue("lost", { parentQueue: "no" }),
      queue("a", { parentQueue: "b" }),
      queue("b", { parentQueue: "a" }),
    ];
    const words = gang("w", 1, { gpus: 2 }, { queue: "lost" });
    const rows = queueRows(clusterOf({ ...none, nodes: [node("n1")], queues, ...words }), nowMs);
    expect(rows.map(({ name, requested, pending, note }) => [name, requested, pending, note])).toEqual([
      ["q", "0", 0, ""],
      ["a", "0", 0, "not in the tree of queues: the parents of queue a form a cycle (a, b, a)"],
      ["b", "0", 0, "not in the tree of queues: the parents of queue b form a cycle (b, a, b)"],
      ["lost", "2", 1, "not in the tree of queues: queue lost names the parent no, which does not exist"],
    ]);
  });

  test("of subgroups that need not all be there the smallest make the minimum", () => {
    const subGroups = [
      { name: "a", minMember: 4 },
      { name: "b", minMember: 2 },
      { name: "c", minMember: 3 },
    ];
    const places = (minSubGroup?: number) => {
      const groups = [group("g", { subGroups, ...(minSubGroup !== undefined && { minSubGroup }) })];
      const pods = [pod("p", { group: "g", subGroup: "a" })];
      return jobRows(clusterOf({ ...none, nodes: [node("n1")], queues: [queue("q")], groups, pods }), nowMs)[0]?.gang;
    };
    expect([places(), places(1), places(2)]).toEqual(["0/9/1", "0/2/1", "0/5/1"]);
  });

  test("GPUs by type", () => {
    expect(nodeRows(cluster(), nowMs)).toEqual([
      { type: "H100", nodes: 3, total: 24, free: 14, fullNodes: 1, maxReservable: 8, drained: 8, bad: 0 },
    ]);
  });

  test("GPUs that broke, and those of nodes that are not well, are there and bad", () => {
    const labels = { "nvidia.com/gpu.product": "H100" };
    const broken = node("n2", { labels, gpus: 7 });
    const capacity = { ...broken.status?.allocatable, "nvidia.com/gpu": "8" };
    const nodes = [
      node("n1", { labels }),
      { ...broken, status: { ...broken.status, capacity } },
      node("n3", { labels, isReady: false }),
    ];
    expect(nodeRows(clusterOf({ ...none, nodes, queues: [], groups: [], pods: [] }), nowMs)).toEqual([
      { type: "H100", nodes: 3, total: 24, free: 15, fullNodes: 1, maxReservable: 8, drained: 0, bad: 9 },
    ]);
  });

  test("a GPU is not free that a reservation is going to hold", () => {
    const made = { ...newReservation({ node: "n1", group: "g", users: [], options: reservationDefaults }) };
    const pods = [partly<Pod>({ ...made, metadata: { ...made.metadata, uid: "r" } })];
    const rows = nodeRows(clusterOf({ ...none, nodes: [node("n1")], queues: [], groups: [], pods }), nowMs);
    expect(rows.map(({ total, free }) => [total, free])).toEqual([[8, 7]]);
  });

  test.each(["pg-x", "default/pg-x", "train", "default/train"])("why the group waits, asked as %s", (name) => {
    expect(answerWhy(cluster(), name, nowMs)).toMatchObject([
      {
        kind: "PodGroup",
        name: "default/pg-x",
        reason: "PodSchedulingErrors",
        state: "0 of 3 pods have a place, 3 wait",
      },
    ]);
  });

  test("a pod that runs, one that will, and one that does not exist", () => {
    expect(answerWhy(cluster(), "r-0", nowMs)).toMatchObject([
      { kind: "Pod", state: "running on n1", reason: "", next: "" },
    ]);
    expect(answerWhy(cluster(), "ready-000", nowMs)).toMatchObject([{ reason: "", next: "it fits n1 now" }]);
    expect(answerWhy(cluster(), "nobody", nowMs)).toEqual([]);
  });

  test("a pod whose ConfigMap was not looked up fits if it is there", () => {
    const envFrom = [{ configMapRef: { name: "settings" } }];
    const words = gang("a", 1, { spec: { containers: [{ name: "c", envFrom }] } as never });
    const ask = (more: object) =>
      answerWhy(clusterOf({ ...none, nodes: [node("n1")], queues: [queue("q")], ...words, ...more }), "a-000", nowMs);
    expect(ask({})[0]?.next).toBe("it fits n1 now, if ConfigMap default/settings exist, which is not known here");
    expect(ask({ configMaps: new Set(["default/settings"]) })[0]?.next).toBe("it fits n1 now");
    expect(ask({ configMaps: new Set() })[0]).toMatchObject({ next: "", cure: "create ConfigMap default/settings" });
  });

  test("a pod without a group, and one whose group is missing, are pending with a reason", () => {
    const pods = [pod("early"), pod("lost", { group: "nope" }), pod("theirs", { scheduler: "volcano" })];
    const found = clusterOf({ ...none, nodes: [node("n1")], queues: [queue("q")], groups: [], pods });
    expect(jobRows(found, nowMs).map(({ id, gang: places, reason }) => [id, places, reason])).toEqual([
      ["default/early", "0/-/1", "NoGroup"],
      ["default/nope", "0/-/1", "PodSchedulingErrors"],
    ]);
    expect(answerWhy(found, "lost", nowMs)).toMatchObject([
      { cure: "create PodGroup default/nope, or remove the annotation" },
    ]);
    expect(answerWhy(found, "theirs", nowMs)).toMatchObject([
      {
        message: "its schedulerName is volcano, and Muster serves kai-scheduler and default-scheduler",
        cure: expect.stringContaining("schedulerName kai-scheduler"),
      },
    ]);
  });

  test("a pod behind a gate waits for the gate", () => {
    const gated = { schedulingGates: [{ name: "example.com/later" }] } as never;
    const pods = [
      pod("g-0", { group: "g", spec: gated }),
      pod("h-0", { group: "h", spec: gated }),
      pod("h-1", { group: "h" }),
    ];
    const found = clusterOf({
      ...none,
      nodes: [node("n1")],
      queues: [queue("q")],
      groups: [group("g"), group("h", { minMember: 2 })],
      pods,
    });
    const says = {
      reason: "SchedulingGated",
      message: "it has schedulingGates: example.com/later",
    };
    expect(answerWhy(found, "g-0", nowMs)).toMatchObject([{ state: "gated", ...says }]);
    expect(answerWhy(found, "g", nowMs)).toMatchObject([{ kind: "PodGroup", ...says }]);
    expect(answerWhy(found, "h-0", nowMs)).toMatchObject([says]);
    expect(answerWhy(found, "h-1", nowMs)).toMatchObject([
      { reason: "NotReady", message: "group h waits for 2 pods, 2 exist, 1 of them gated" },
    ]);
    expect(jobRows(found, nowMs).map(({ id, state, reason }) => [id, state, reason])).toEqual([
      ["default/g", "Pending", "SchedulingGated"],
      ["default/h", "Pending", "NotReady"],
    ]);
  });

  test("the cure of a pod behind the gate of its gang names that gang", () => {
    const gated = (labels: Record<string, string>) => ({
      spec: { schedulingGates: [{ name: "grove.io/podgang-pending-creation" }] } as never,
      labels,
    });
    const found = clusterOf({
      ...none,
      nodes: [node("n1")],
      queues: [queue("q")],
      groups: [group("g"), group("h")],
      pods: [
        pod("g-0", { group: "g", ...gated({ "grove.io/podgang": "set-0-a-0", "grove.io/base-podgang": "set-0" }) }),
        pod("h-0", { group: "h", ...gated({ "grove.io/podgang": "set-1" }) }),
      ],
    });
    const cureOf = (name: string): string => answerWhy(found, name, nowMs)[0]?.cure ?? "";
    expect(cureOf("g-0")).toMatch(
      /^the gang operator removes it when gang set-0 has its minimum scheduled; `muster gangs`/,
    );
    expect(cureOf("h-0")).toMatch(/^the gang operator removes it when all pods of gang set-1 exist; `muster gangs`/);
  });

  test("a pod with a claim waits for its device, not for an allocator", () => {
    const claimed = (name: string, more: object = {}) => ({
      ...pod(name, { group: name, ...more }),
      spec: { ...pod(name, more).spec, resourceClaims: [{ name: "gpu", resourceClaimName: name }] },
    });
    const meta = (name: string) => ({
      name,
      namespace: "default",
      uid: `claim-${name}`,
      resourceVersion: "1",
      creationTimestamp: "",
      labels: { "kai.scheduler/queue": "q" },
    });
    const requests = [{ name: "r", exactly: { deviceClassName: "gpu", count: 1 } }];
    const results = [{ request: "r", driver: "gpu.example.com", pool: "n1", device: "d1" }];
    const allocation = { devices: { results } };
    const reservedFor = [{ resource: "pods", name: "has", uid: "pod-default-has" }];
    const claims = [
      { metadata: meta("has"), spec: { devices: { requests } }, status: { allocation, reservedFor } },
      { metadata: meta("wants"), spec: { devices: { requests } } },
    ];
    const pool = { name: "n1", generation: 1, resourceSliceCount: 1 };
    const slice = (names: readonly string[]) => ({
      metadata: { name: "s", uid: "s", resourceVersion: "1", creationTimestamp: "" },
      spec: { driver: "gpu.example.com", nodeName: "n1", pool, devices: names.map((name) => ({ name })) },
    });
    const within = (devices: readonly string[]) =>
      clusterOf({
        ...none,
        nodes: [node("n1")],
        queues: [queue("q")],
        groups: [group("has"), group("wants")],
        pods: [claimed("has", { on: "n1" }), claimed("wants")] as never,
        devices: {
          claims: claims as never,
          slices: [slice(devices)] as never,
          classes: [{ metadata: { name: "gpu" }, spec: {} }] as never,
        },
      });
    const ask = (devices: readonly string[]) => jobRows(within(devices), nowMs);
    expect(ask(["d1"])).toMatchObject([{ id: "default/wants", reason: "PodSchedulingErrors" }]);
    expect(ask(["d1"])[0]?.message).not.toContain("nothing here allocates");
    expect(ask(["d1", "d2"])).toMatchObject([{ id: "default/wants", reason: "fits now" }]);
    expect(queueRows(within(["d1"]), nowMs)).toMatchObject([
      { name: "q", allocated: "1", requested: "2", classes: { allocated: { gpu: 1 }, requested: { gpu: 2 } } },
    ]);
  });

  test("a pod that asks for a resource that devices serve is explained by them, and not by amounts", () => {
    const asking = (name: string, count: number) => {
      const made = pod(name, { group: name });
      const resources = { requests: { "example.com/gpu": String(count) } };
      return { ...made, spec: { ...made.spec, containers: [{ name: "c", resources }] } };
    };
    const pool = { name: "n1", generation: 1, resourceSliceCount: 1 };
    const devices = [{ name: "d1" }, { name: "d2" }];
    const within = (count: number) =>
      clusterOf({
        ...none,
        nodes: [node("n1")],
        queues: [queue("q")],
        groups: [group("p")],
        pods: [asking("p", count)] as never,
        devices: {
          claims: [],
          slices: [
            {
              metadata: { name: "s", uid: "s", resourceVersion: "1", creationTimestamp: "" },
              spec: { driver: "gpu.example.com", nodeName: "n1", pool, devices },
            },
          ] as never,
          classes: [{ metadata: { name: "gpu" }, spec: { extendedResourceName: "example.com/gpu" } }] as never,
        },
      });
    expect(jobRows(within(2), nowMs)).toMatchObject([{ id: "default/p", reason: "fits now" }]);
    const [row] = jobRows(within(3), nowMs);
    expect(row).toMatchObject({ reason: "PodSchedulingErrors" });
    expect(row?.message).toContain("cannot allocate all claims");
    expect(row?.message).not.toContain("at most 0");
  });
});

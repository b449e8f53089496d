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
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import type { Queue } from "../../../model/scheduling/queue.ts";

describe("a gang", () => {
  test("is placed whole", () => {
    const cluster = clusterWith({ nodes: [node("n1"), node("n2")], ...gang("a", 2, { gpus: 8 }) });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n1", "a-001": "n2" });
  });

  test("that does not fit leaves no trace", () => {
    const cluster = clusterWith({ nodes: [node("n1")], ...gang("a", 2, { gpus: 8 }) });
    const plan = decide(cluster);
    expect(outcome(plan)).toEqual({});
    expect([...plan.obstacles.values()]).toMatchObject([{ type: "placement", placed: 1 }]);
    expect(cluster.table.idle[2]?.[0]).toBe(8);
  });

  test("waits for its pods to exist", () => {
    const cluster = clusterWith(gang("a", 2, { gpus: 1 }, { minMember: 3 }));
    const plan = decide(cluster);
    expect(outcome(plan)).toEqual({});
    expect([...plan.obstacles.values()]).toEqual([{ type: "notReady" }]);
  });

  test("does not count gated pods as there", () => {
    const { groups, pods } = gang("a", 2, { gpus: 1 });
    const gated = pod("a-001", { gpus: 1, group: "a", spec: { schedulingGates: [{ name: "g" }] } as never });
    expect(outcome(decide(clusterWith({ groups, pods: [pods[0]!, gated] })))).toEqual({});
  });

  test("starts at its minimum and grows with what is left", () => {
    const cluster = clusterWith({ nodes: [node("n1", { gpus: 4 })], ...gang("a", 6, { gpus: 1 }, { minMember: 2 }) });
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(4);
  });

  test("of minimum zero is no gang", () => {
    const cluster = clusterWith({ nodes: [node("n1", { gpus: 1 })], ...gang("a", 3, { gpus: 1 }, { minMember: 0 }) });
    expect(Object.keys(outcome(decide(cluster)))).toHaveLength(1);
  });

  test("that has to wait for a release waits as a whole", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together(gang("a", 2, { gpus: 1 }), {
        groups: [group("old")],
        pods: [pod("leaving", { gpus: 1, on: "n1", group: "old", deletedMs: startMs + 30_000 })],
      }),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "~n1", "a-001": "~n1" });
  });

  test("that has to wait keeps a pod waiting that would fit beside its minimum", () => {
    // 000 is large and waits for n1; 001 waits with it, and 002 would fit n2 at once.
    const large = pod("a-000", { gpus: 4, group: "a", status: { nominatedNodeName: "n1" } as never });
    const small = ["a-001", "a-002"].map((name) => pod(name, { gpus: 1, group: "a" }));
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 2 })],
      ...together(
        { groups: [group("a", { minMember: 2 })], pods: [large, ...small] },
        {
          groups: [group("old")],
          pods: [pod("leaving", { gpus: 4, on: "n1", group: "old", deletedMs: startMs + 30_000 })],
        },
      ),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "~n1", "a-001": "~n2", "a-002": "~n2" });
  });

  test("takes a place that was made free for it with the pods that it was promised to", () => {
    const pods = gang("a", 3, { gpus: 1 }).pods.map((each) =>
      each.metadata.name === "a-000" ? each : { ...each, status: { ...each.status, nominatedNodeName: "n1" } },
    );
    const cluster = clusterWith({ nodes: [node("n1", { gpus: 2 })], groups: [group("a", { minMember: 2 })], pods });
    expect(outcome(decide(cluster))).toEqual({ "a-001": "n1", "a-002": "n1" });
  });

  test("keeps what it was promised while others of it are on their way", () => {
    const first = pod("a-000", { gpus: 1, group: "a" });
    const second = pod("a-001", { gpus: 1, group: "a", status: { nominatedNodeName: "n1" } as never });
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together({ groups: [group("a", { minMember: 2 })], pods: [first, second] }, gang("b", 1, { gpus: 1 })),
    });
    cluster.setPlaces(first.metadata.uid, [{ node: "n1", groups: [] }]);
    expect(outcome(decide(cluster))).toEqual({});
    cluster.setPlaces(first.metadata.uid, []);
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n1", "a-001": "n1" });
  });

  test("is not nominated to resources of a pod that is stuck terminating", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 1 })],
      ...together(gang("a", 1, { gpus: 1 }), {
        groups: [group("old")],
        pods: [pod("stuck", { gpus: 1, on: "n1", group: "old", deletedMs: startMs })],
      }),
    });
    expect(outcome(decide(cluster, startMs + 121_000))).toEqual({});
  });
});

test("a share does not join a GPU that is only promised so far", () => {
  const cluster = clusterWith({
    nodes: [node("n1", { gpus: 1 })],
    ...together(gang("a", 1, { fraction: "0.5" }), gang("b", 1, { fraction: "0.5" }), {
      groups: [group("old")],
      pods: [pod("leaving", { gpus: 1, on: "n1", group: "old", deletedMs: startMs + 30_000 })],
    }),
  });
  expect(outcome(decide(cluster))).toEqual({ "a-000": "~n1", "b-000": "~n1" });
});

test("a share that moves to another node begins another group there", () => {
  const groupsOn = (name: string): readonly string[] =>
    decide(clusterWith({ nodes: [node(name)], ...gang("a", 1, { fraction: "0.5" }) })).jobs[0]?.binds[0]?.groups ?? [];
  expect(groupsOn("n1")).toEqual(groupsOn("n1"));
  expect(groupsOn("n1")).not.toEqual(groupsOn("n2"));
});

describe("subgroups", () => {
  const subGroups = [
    { name: "head", minMember: 1 },
    { name: "workers", minMember: 2 },
  ];
  const members = (heads: number, workers: number) => [
    ...Array.from({ length: heads }, (_, at) => pod(`h${at}`, { gpus: 1, group: "a", subGroup: "head" })),
    ...Array.from({ length: workers }, (_, at) => pod(`w${at}`, { gpus: 1, group: "a", subGroup: "workers" })),
  ];

  test("must all reach their minimum", () => {
    const groups = [group("a", { subGroups })];
    expect(outcome(decide(clusterWith({ groups, pods: members(1, 2) })))).toEqual({ h0: "n1", w0: "n1", w1: "n1" });
    expect(outcome(decide(clusterWith({ groups, pods: members(0, 3) })))).toEqual({});
    expect(outcome(decide(clusterWith({ groups, pods: members(3, 1) })))).toEqual({});
  });

  test("are enough when the required number of them is satisfied", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      groups: [group("a", { minSubGroup: 1, subGroups })],
      pods: members(0, 2),
    });
    expect(outcome(decide(cluster))).toEqual({ w0: "n1", w1: "n1" });
  });

  test("nest", () => {
    const nested = [
      { name: "p", minSubGroup: 1 },
      { name: "x", parent: "p", minMember: 2 },
      { name: "y", parent: "p", minMember: 2 },
    ];
    const pods = ["x", "y"].flatMap((sub) =>
      [0, 1].map((at) => pod(`${sub}${at}`, { gpus: 2, group: "a", subGroup: sub })),
    );
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 6 })],
      groups: [group("a", { subGroups: nested })],
      pods,
    });
    expect(outcome(decide(cluster))).toEqual({ x0: "n1", x1: "n1" });
  });

  test("that do not exist are named", () => {
    const cluster = clusterWith({
      groups: [group("a", { subGroups })],
      pods: [pod("lost", { group: "a", subGroup: "nobody" })],
    });
    const plan = decide(cluster);
    expect(outcome(plan)).toEqual({});
    expect([...plan.obstacles.values()]).toMatchObject([{ type: "stray", task: { name: "lost" } }]);
  });

  test("that do not exist are named also when the rest of the group runs", () => {
    const running = members(1, 2).map((each) => ({ ...each, spec: { ...each.spec, nodeName: "n1" } }) as typeof each);
    const lost = pod("lost", { group: "a" });
    const plan = decide(clusterWith({ groups: [group("a", { subGroups })], pods: [...running, lost] }));
    expect([...plan.obstacles.values()]).toMatchObject([{ type: "stray", task: { name: "lost" } }]);
  });
});

describe("order", () => {
  test("the higher priority is placed first, then the older job", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together(
        gang("old", 1, { gpus: 1 }, { createdMs: startMs - 2000 }),
        gang("young", 1, { gpus: 1 }, { createdMs: startMs - 1000 }),
        gang("urgent", 1, { gpus: 1 }, { priorityClassName: "inference", preemptibility: "preemptible" }),
      ),
    });
    expect(Object.keys(outcome(decide(cluster)))).toEqual(["old-000", "urgent-000"]);
  });

  test("queues take turns by what they have of their share", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 })],
      queues: [queue("a"), queue("b")],
      ...together(
        ...[0, 1, 2, 3].map((at) => gang(`a${at}`, 1, { gpus: 1 }, { queue: "a" })),
        ...[0, 1, 2, 3].map((at) => gang(`b${at}`, 1, { gpus: 1 }, { queue: "b" })),
      ),
    });
    const placed = Object.keys(outcome(decide(cluster)));
    expect(placed.filter((name) => name.startsWith("a"))).toHaveLength(2);
    expect(placed.filter((name) => name.startsWith("b"))).toHaveLength(2);
  });

  test("queues at the top take turns before those below them do", () => {
    // Of a2 nothing runs, but its parent has its share; b1 has more than a2, and its parent less than the other.
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 7 })],
      settings: { actions: ["allocate"] },
      queues: [
        ...["a", "b"].map((name) => queue(name)),
        ...["a1", "a2"].map((name) => queue(name, { parentQueue: "a" })),
        queue("b1", { parentQueue: "b" }),
      ],
      ...together(
        gang("x", 4, { gpus: 1, on: "n1" }, { queue: "a1" }),
        gang("y", 2, { gpus: 1, on: "n1" }, { queue: "b1" }),
        gang("m", 1, { gpus: 1 }, { queue: "a2" }),
        gang("n", 1, { gpus: 1 }, { queue: "b1" }),
      ),
    });
    expect(outcome(decide(cluster))).toEqual({ "n-000": "n1" });
  });

  test("a queue within its quota is served before one that is beyond it", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 1 })],
      queues: [
        queue("poor", { createdMs: startMs - 1 }),
        queue("rich", { resources: { gpu: { quota: 1, limit: -1, overQuotaWeight: 1 } } }),
      ],
      ...together(gang("p", 1, { gpus: 1 }, { queue: "poor" }), gang("r", 1, { gpus: 1 }, { queue: "rich" })),
    });
    expect(Object.keys(outcome(decide(cluster)))).toEqual(["r-000"]);
  });

  test("masters go before workers", () => {
    const role = (name: string) => ({ "training.kubeflow.org/replica-type": name });
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 1 })],
      groups: [group("a", { minMember: 1 })],
      pods: [
        pod("worker", { gpus: 1, group: "a", labels: role("worker"), createdMs: startMs - 5000 }),
        pod("zmaster", { gpus: 1, group: "a", labels: role("master") }),
      ],
    });
    expect(outcome(decide(cluster))).toEqual({ zmaster: "n1" });
  });
});

describe("gates", () => {
  const bounded = (gpu: { quota: number; limit: number }) => [
    queue("q", { resources: { gpu: { ...gpu, overQuotaWeight: 1 } } }),
  ];

  test("no job exceeds the limit of the queue", () => {
    const cluster = clusterWith({
      queues: bounded({ quota: 0, limit: 2 }),
      ...together(gang("a", 1, { gpus: 2 }), gang("b", 1, { gpus: 1 })),
    });
    const plan = decide(cluster);
    expect(Object.keys(outcome(plan))).toEqual(["a-000"]);
    expect([...plan.obstacles.values()]).toMatchObject([
      { type: "gate", refusal: { reason: "OverLimit", resource: 0 } },
    ]);
  });

  test("nor of any queue above it", () => {
    const top = queue("top", { resources: { gpu: { quota: 0, limit: 1, overQuotaWeight: 1 } } });
    const cluster = clusterWith({ queues: [top, queue("q", { parentQueue: "top" })], ...gang("a", 1, { gpus: 2 }) });
    expect([...decide(cluster).obstacles.values()]).toMatchObject([
      { refusal: { reason: "OverLimit", queue: { name: "top" } } },
    ]);
  });

  test("what cannot be evicted stays within the quota", () => {
    const cluster = clusterWith({
      queues: bounded({ quota: 1, limit: -1 }),
      ...gang("a", 1, { gpus: 2 }, { preemptibility: "non-preemptible" }),
    });
    expect([...decide(cluster).obstacles.values()]).toMatchObject([{ refusal: { reason: "NonPreemptibleOverQuota" } }]);
  });

  test.each<["gpu" | "cpu" | "memory", number, object]>([
    ["gpu", 2, { gpus: 2 }],
    ["cpu", 2000, { cpu: "2" }],
    ["memory", 2000, { memory: "2G" }],
  ])("limit and quota hold for %s, to the last unit", (resource, amount, asks) => {
    const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
    const all = { gpu: open, cpu: open, memory: open };
    const reasons = (bound: object, preemptibility: "preemptible" | "non-preemptible") => {
      const queues = [queue("q", { resources: { ...all, [resource]: { ...open, ...bound } } })];
      const plan = decide(clusterWith({ queues, ...gang("a", 1, asks, { preemptibility }) }));
      return [...plan.obstacles.values()].map((each) => ("refusal" in each ? each.refusal.reason : each.type));
    };
    expect(reasons({ limit: amount }, "preemptible")).toEqual([]);
    expect(reasons({ limit: amount - 1 }, "preemptible")).toEqual(["OverLimit"]);
    expect(reasons({ quota: amount }, "non-preemptible")).toEqual([]);
    expect(reasons({ quota: amount - 1 }, "non-preemptible")).toEqual(["NonPreemptibleOverQuota"]);
    expect(reasons({ quota: amount - 1 }, "preemptible")).toEqual([]);
  });

  test("a limit of nothing allows nothing", () => {
    const cluster = clusterWith({
      queues: bounded({ quota: 0, limit: 0 }),
      ...together(gang("a", 1, { gpus: 1 }), gang("b", 1, {})),
    });
    expect(Object.keys(outcome(decide(cluster)))).toEqual(["b-000"]);
  });

  test.each([
    ["missing", [queue("other")]],
    ["orphan", [queue("q", { parentQueue: "nobody" })]],
    ["inner", [queue("q"), queue("below", { parentQueue: "q" })]],
  ])("a job of a queue that is %s waits with a reason", (why, queues) => {
    const plan = decide(clusterWith({ queues, ...gang("a", 1, {}) }));
    expect([...plan.obstacles.values()]).toEqual([{ type: "queue", why }]);
  });
});

describe("shares of GPUs", () => {
  const halves = (count: number) =>
    together(
      ...Array.from({ length: count }, (_, at) => gang(`h${String(at).padStart(2, "0")}`, 1, { fraction: "0.5" })),
    );

  test("sixteen halves fill eight GPUs, two on each", () => {
    const cluster = clusterWith(halves(17));
    const plan = decide(cluster);
    const groups = plan.jobs.flatMap(({ binds }) => binds.flatMap((bind) => bind.groups));
    expect(groups).toHaveLength(16);
    const users = new Map<string, number>();
    for (const id of groups) users.set(id, (users.get(id) ?? 0) + 1);
    expect([...users.values()]).toEqual(Array(8).fill(2));
  });

  test("a GPU takes one pod of seven tenths", () => {
    const cluster = clusterWith(
      together(...Array.from({ length: 10 }, (_, at) => gang(`s${at}`, 1, { fraction: "0.7" }))),
    );
    const groups = decide(cluster).jobs.flatMap(({ binds }) => binds.flatMap((bind) => bind.groups));
    expect(new Set(groups).size).toBe(8);
    expect(groups).toHaveLength(8);
  });

  test("packing joins the fullest GPU that has room; spreading takes an untouched one", () => {
    const running = {
      groups: [group("r")],
      pods: [
        pod("x", { fraction: "0.2", on: "n1", groups: ["gx"], group: "r" }),
        pod("y", { fraction: "0.4", on: "n1", groups: ["gy"], group: "r" }),
      ],
    };
    const groupsOf = (gpuStrategy: "binpack" | "spread") => {
      const cluster = clusterWith({
        nodes: [node("n1", { gpus: 3 })],
        settings: { gpuStrategy },
        ...together(running, gang("a", 1, { fraction: "0.5" })),
      });
      return decide(cluster).jobs[0]?.binds[0]?.groups;
    };
    expect(groupsOf("binpack")).toEqual(["gy"]);
    expect(groupsOf("spread")).not.toEqual(["gx"]);
    expect(groupsOf("spread")).not.toEqual(["gy"]);
  });

  test("a share and a whole GPU never meet", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 1 })],
      ...together(gang("whole", 1, { gpus: 1 }), {
        groups: [group("r")],
        pods: [pod("x", { fraction: "0.1", on: "n1", groups: ["g"], group: "r" })],
      }),
    });
    expect(outcome(decide(cluster))).toEqual({});
  });

  test("several devices are different devices", () => {
    const cluster = clusterWith(gang("a", 1, { fraction: "0.5", devices: 3 }));
    const [bind] = decide(cluster).jobs[0]?.binds ?? [];
    expect(new Set(bind?.groups).size).toBe(3);
  });

  test("memory is fitted to the node's GPUs, and needs a node with the label of their memory", () => {
    const want = gang("a", 1, { gpuMemory: "50000" });
    expect(
      outcome(
        decide(
          clusterWith({ nodes: [node("small", { gpuMemory: 40_000 }), node("unknown", { gpuMemory: 0 })], ...want }),
        ),
      ),
    ).toEqual({});
    expect(outcome(decide(clusterWith({ nodes: [node("big")], ...want })))).toEqual({ "a-000": "big" });
  });

  test("a new group needs a slot for its reservation too", () => {
    const alone = (pods: number) =>
      clusterWith({ nodes: [node("n1", { pods })], ...gang("a", 1, { fraction: "0.5" }) });
    expect(outcome(decide(alone(1)))).toEqual({});
    expect(outcome(decide(alone(2)))).toEqual({ "a-000": "n1" });
  });

  test("a reservation that no pod shares holds its GPU until it has gone, and it is about to go", () => {
    const reservation = pod("gpu-reservation-1", {
      gpus: 1,
      on: "n1",
      namespace: "kai-resource-reservation",
      labels: { app: "kai-resource-reservation", "runai-gpu-group": "g" },
      scheduler: "other",
    });
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 1 })],
      ...together(gang("whole", 1, { gpus: 1 }), { groups: [], pods: [reservation] }),
    });
    expect(outcome(decide(cluster))).toEqual({ "whole-000": "~n1" });
    const sharing = clusterWith({
      nodes: [node("n1", { gpus: 1 })],
      ...together(gang("half", 1, { fraction: "0.5" }), { groups: [], pods: [reservation] }),
    });
    expect(decide(sharing).jobs[0]?.binds[0]?.groups).toEqual(["g"]);
  });

  test("a pod that joins a GPU needs no slot but its own: the reservation has one already", () => {
    const reservation = pod("r", {
      gpus: 1,
      on: "n1",
      namespace: "kai-resource-reservation",
      groups: ["g"],
      labels: { app: "kai-resource-reservation" },
    });
    const words = (pods: number) => ({
      nodes: [node("n1", { gpus: 1, pods })],
      groups: [group("s"), group("a")],
      pods: [
        reservation,
        pod("s", { fraction: "0.5", on: "n1", group: "s", groups: ["g"] }),
        pod("a", { fraction: "0.5", group: "a" }),
      ],
    });
    expect(outcome(decide(clusterWith(words(3))))).toEqual({ a: "n1" });
    expect(outcome(decide(clusterWith(words(2))))).toEqual({});
  });

  test("deciding twice names the same group", () => {
    const name = () => decide(clusterWith(gang("a", 1, { fraction: "0.5" }))).jobs[0]?.binds[0]?.groups;
    expect(name()).toEqual(name());
  });
});

describe("placement", () => {
  test("packing prefers the node with the fewest free GPUs, spreading the one with the most", () => {
    const running = { groups: [group("r")], pods: [pod("x", { gpus: 4, on: "n2", group: "r" })] };
    const on = (gpuStrategy: "binpack" | "spread") =>
      outcome(
        decide(
          clusterWith({
            nodes: [node("n1"), node("n2")],
            settings: { gpuStrategy },
            ...together(running, gang("a", 1, { gpus: 1 })),
          }),
        ),
      );
    expect(on("binpack")).toEqual({ "a-000": "n2" });
    expect(on("spread")).toEqual({ "a-000": "n1" });
  });

  test("a pod without GPUs prefers a node without GPUs", () => {
    const cluster = clusterWith({ nodes: [node("gpu"), node("plain", { gpus: 0 })], ...gang("a", 1, {}) });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "plain" });
  });

  test("a share prefers the node where a shared GPU has room", () => {
    const running = {
      groups: [group("r")],
      pods: [
        pod("x", { fraction: "0.5", on: "n2", groups: ["g"], group: "r" }),
        pod("y", { gpus: 6, on: "n1", group: "r" }),
      ],
    };
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(running, gang("a", 1, { fraction: "0.5" })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("ties go to the first name", () => {
    expect(outcome(decide(clusterWith({ nodes: [node("b"), node("a")], ...gang("x", 1, { gpus: 1 }) })))).toEqual({
      "x-000": "a",
    });
  });

  test("a node that was promised is taken", () => {
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      groups: [group("a")],
      pods: [pod("p", { gpus: 1, group: "a", status: { nominatedNodeName: "n2" } as never })],
    });
    expect(outcome(decide(cluster))).toEqual({ p: "n2" });
  });

  test.each([
    ["not ready", node("n1", { isReady: false })],
    ["cordoned", node("n1", { spec: { unschedulable: true } })],
    ["tainted", node("n1", { spec: { taints: [{ key: "k", effect: "NoSchedule" }] } })],
    ["without slots", node("n1", { pods: 0 })],
  ])("nothing goes to a node that is %s", (_, each) => {
    expect(outcome(decide(clusterWith({ nodes: [each], ...gang("a", 1, {}) })))).toEqual({});
  });

  test.each([
    ["NoSchedule", []],
    ["NoExecute", []],
    ["PreferNoSchedule", ["n1"]],
  ])("a taint of effect %s leaves %j of one node", (effect, places) => {
    const nodes = [node("n1", { spec: { taints: [{ key: "k", effect }] } })];
    expect(Object.values(outcome(decide(clusterWith({ nodes, ...gang("a", 1, {}) }))))).toEqual(places);
  });

  test("a toleration opens a tainted node, a selector closes others", () => {
    const spec = { tolerations: [{ key: "k", operator: "Exists" }], nodeSelector: { zone: "z" } } as never;
    const nodes = [
      node("n1"),
      node("n2", { labels: { zone: "z" }, spec: { taints: [{ key: "k", effect: "NoSchedule" }] } }),
    ];
    expect(outcome(decide(clusterWith({ nodes, ...gang("a", 1, { spec }) })))).toEqual({ "a-000": "n2" });
  });

  test("a port of a node is given once", () => {
    const spec = {
      containers: [{ name: "c", ports: [{ hostPort: 80, containerPort: 80 }], resources: { requests: {} } }],
    } as never;
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(gang("a", 1, { spec }), gang("b", 1, { spec }), gang("c", 1, { spec })),
    });
    expect(Object.values(outcome(decide(cluster))).sort()).toEqual(["n1", "n2"]);
  });

  test("pods of the default scheduler go where most is free", () => {
    const busy = pod("busy", { cpu: "32", on: "n1", scheduler: "default-scheduler" });
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      pods: [busy, pod("new", { scheduler: "default-scheduler" })],
    });
    expect(outcome(decide(cluster))).toEqual({ new: "n2" });
  });

  test("pods of another scheduler are not scheduled, and their resources are not divided among queues", () => {
    const foreign = pod("x", { gpus: 6, on: "n1", scheduler: "volcano" });
    const cluster = clusterWith({ pods: [foreign, pod("y", { scheduler: "volcano" })] });
    expect(outcome(decide(cluster))).toEqual({});
    expect(cluster.total()[0]).toBe(2000);
  });
});

describe("other pods", () => {
  const anti = (label: string) =>
    ({
      affinity: {
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: label } } },
          ],
        },
      },
    }) as never;
  const near = (label: string) =>
    ({
      affinity: {
        podAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { topologyKey: "zone", labelSelector: { matchLabels: { app: label } } },
          ],
        },
      },
    }) as never;
  const zones = [
    node("n1", { labels: { zone: "a" } }),
    node("n2", { labels: { zone: "a" } }),
    node("n3", { labels: { zone: "b" } }),
  ];

  test("anti-affinity keeps pods of a gang apart", () => {
    const cluster = clusterWith({ nodes: zones, ...gang("a", 3, { labels: { app: "w" }, spec: anti("w") }) });
    expect(new Set(Object.values(outcome(decide(cluster)))).size).toBe(3);
  });

  test("a running pod whose labels change is avoided by its new labels", () => {
    const there = { groups: [group("r")], pods: [pod("x", { on: "n1", group: "r", labels: { app: "quiet" } })] };
    const cluster = clusterWith({ nodes: zones, ...together(there, gang("a", 1, { spec: anti("loud") })) });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n1" });
    addPod(cluster, pod("x", { on: "n1", group: "r", labels: { app: "loud" } }));
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("anti-affinity of a placed pod keeps a newcomer away", () => {
    const there = { groups: [group("r")], pods: [pod("x", { on: "n1", group: "r", spec: anti("loud") })] };
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(there, gang("a", 1, { labels: { app: "loud" } })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("affinity finds the zone of the others, and the first of its kind may begin anywhere", () => {
    const there = { groups: [group("r")], pods: [pod("x", { on: "n3", group: "r", labels: { app: "db" } })] };
    expect(
      outcome(decide(clusterWith({ nodes: zones, ...together(there, gang("a", 1, { spec: near("db") })) }))),
    ).toEqual({
      "a-000": "n3",
    });
    expect(outcome(decide(clusterWith({ nodes: zones, ...gang("a", 1, { spec: near("nobody") }) })))).toEqual({});
    const self = outcome(
      decide(clusterWith({ nodes: zones, ...gang("a", 2, { labels: { app: "me" }, spec: near("me") }) })),
    );
    expect(Object.keys(self)).toHaveLength(2);
    expect(Object.values(self)).not.toContain("n3");
  });

  test("spread keeps the difference between zones small", () => {
    const spec = {
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: "zone",
          whenUnsatisfiable: "DoNotSchedule",
          labelSelector: { matchLabels: { app: "w" } },
        },
      ],
    } as never;
    const placed = Object.values(
      outcome(decide(clusterWith({ nodes: zones, ...gang("a", 4, { labels: { app: "w" }, spec }) }))),
    );
    expect(placed.filter((each) => each === "n3")).toHaveLength(2);
  });

  describe("which pods count as others", () => {
    const away = (more: object) =>
      ({
        affinity: {
          podAntiAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: "loud" } }, ...more },
            ],
          },
        },
      }) as never;
    // A loud one of another namespace, whose namespace says which team it is.
    const go = (more: object) => {
      const loud = pod("x", { on: "n1", namespace: "other", group: "r", labels: { app: "loud" } });
      const cluster = clusterWith({
        nodes: [node("n1"), node("n2")],
        ...together({ groups: [group("r", { namespace: "other" })], pods: [loud] }, gang("a", 1, { spec: away(more) })),
      });
      cluster.putNamespace("default", { team: "blue" });
      cluster.putNamespace("other", { team: "red" });
      return Object.values(outcome(decide(cluster))).join();
    };
    test.each([
      ["those of its own namespace, where nothing is said", {}, "n1"],
      ["those of the namespaces that are named", { namespaces: ["other"] }, "n2"],
      ["not those of others", { namespaces: ["third"] }, "n1"],
      ["those of namespaces by their labels", { namespaceSelector: { matchLabels: { team: "red" } } }, "n2"],
      ["not those of namespaces with other labels", { namespaceSelector: { matchLabels: { team: "blue" } } }, "n1"],
      ["those of all namespaces", { namespaceSelector: {} }, "n2"],
    ])("%s", (_, more, place) => {
      expect(go(more)).toBe(place);
    });

    test("those of a namespace that is relabelled, as it is labelled now", () => {
      const loud = pod("x", { on: "n1", namespace: "other", group: "r", labels: { app: "loud" } });
      const apart = away({ namespaceSelector: { matchLabels: { team: "red" } } });
      const cluster = clusterWith({
        nodes: [node("n1"), node("n2")],
        ...together({ groups: [group("r", { namespace: "other" })], pods: [loud] }, gang("a", 1, { spec: apart })),
      });
      const places = () => Object.values(outcome(decide(cluster))).join();
      expect(places()).toBe("n1");
      cluster.putNamespace("other", { team: "red" });
      expect(places()).toBe("n2");
      cluster.putNamespace("other", { team: "blue" });
      expect(places()).toBe("n1");
      cluster.putNamespace("other", { team: "red" });
      cluster.removeNamespace("other");
      expect(places()).toBe("n1");
    });
  });

  describe("spread counts", () => {
    const hard = (more: object) => ({
      maxSkew: 1,
      topologyKey: "zone",
      whenUnsatisfiable: "DoNotSchedule",
      labelSelector: { matchLabels: { app: "w" } },
      ...more,
    });
    const spreading = (count: number, constraint: object, more: object = {}) =>
      gang(
        "a",
        count,
        { labels: { app: "w" }, spec: { topologySpreadConstraints: [constraint], ...more } as never },
        { minMember: 1 },
      );
    const places = (words: Parameters<typeof clusterWith>[0]) =>
      Object.values(outcome(decide(clusterWith(words)))).sort();

    test("zones that are not there yet as empty, where a number of zones is asked for", () => {
      const one = [node("n1", { labels: { zone: "a" } })];
      expect(places({ nodes: one, ...spreading(3, hard({})) })).toHaveLength(3);
      expect(places({ nodes: one, ...spreading(3, hard({ minDomains: 2 })) })).toHaveLength(1);
    });

    test("only zones that the pods may go to, unless nodeAffinityPolicy is Ignore", () => {
      const nodeSelector = { kind: "good" };
      const nodes = [
        node("n1", { labels: { zone: "a", kind: "good" } }),
        node("n2", { labels: { zone: "b", kind: "bad" } }),
      ];
      expect(places({ nodes, ...spreading(3, hard({}), { nodeSelector }) })).toHaveLength(3);
      expect(places({ nodes, ...spreading(3, hard({ nodeAffinityPolicy: "Ignore" }), { nodeSelector }) })).toHaveLength(
        1,
      );
    });

    test("no node without the label", () => {
      expect(places({ nodes: [node("n1")], ...spreading(1, hard({})) })).toEqual([]);
    });

    test("only pods that are alike in the labels that are named", () => {
      const zone = (name: string, of: string) => node(name, { labels: { zone: of } });
      const there = gang("r", 2, { on: "n1", labels: { app: "w", rev: "1" } });
      const go = (more: object) => {
        const spec = { topologySpreadConstraints: [hard(more)] } as never;
        const next = gang("a", 1, { labels: { app: "w", rev: "2" }, spec });
        return places({ nodes: [zone("n1", "a"), zone("n2", "b")], ...together(there, next) });
      };
      expect(go({})).toEqual(["n2"]);
      expect(go({ matchLabelKeys: ["rev"] })).toEqual(["n1"]);
    });
  });

  test("what was placed before a term was known counts", () => {
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      groups: [group("r"), group("a")],
      pods: [pod("x", { on: "n1", group: "r", labels: { app: "w" } })],
    });
    decide(cluster);
    addPod(cluster, pod("p", { group: "a", labels: { app: "w" }, spec: anti("w") }));
    expect(outcome(decide(cluster))).toEqual({ p: "n2" });
  });
});

test("a gang that its nodes take beyond the limit of its queue leaves no trace", () => {
  // Its memory is a quarter of the large GPU, which is taken, and half of the small one.
  const nodes = [node("large", { gpus: 1 }), node("small", { gpus: 1, gpuMemory: 40_000 }), node("rest", { gpus: 1 })];
  const limited = queue("l", { resources: { gpu: { quota: 0, limit: 1.3, overQuotaWeight: 1 } } });
  const words = (limit: Queue) => ({
    nodes,
    queues: [queue("q"), limit],
    groups: [
      group("x"),
      group("g", { minMember: 2, queue: "l", createdMs: startMs - 9, priorityClassName: "build-preemptible" }),
      group("h", { minMember: 2 }),
    ],
    pods: [
      pod("x", { gpus: 1, on: "large", group: "x" }),
      pod("g-memory", {
        gpuMemory: "20000",
        group: "g",
        spec: { nodeSelector: { "kubernetes.io/hostname": "small" } },
      }),
      pod("g-whole", { gpus: 1, group: "g" }),
      pod("h-0", { gpus: 1, group: "h" }),
      pod("h-1", { gpus: 1, group: "h" }),
    ],
  });
  const plan = decide(clusterWith(words(limited)));
  expect(outcome(plan)).toEqual({ "h-0": "rest", "h-1": "small" });
  expect([...plan.obstacles].map(([job, obstacle]) => [job.name, obstacle.type])).toEqual([["g", "gate"]]);
  expect(outcome(decide(clusterWith(words(queue("l")))))).toEqual({ "g-memory": "small", "g-whole": "rest" });
});

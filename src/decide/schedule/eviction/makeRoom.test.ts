import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  evicted,
  gang,
  gpuBounds,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";

/** Two pods that share each GPU of a node, and the pods that hold these GPUs for them. */
const sharers = (count: number, on: string, queueName: string) => {
  const shares = Array.from({ length: count }, (_, at) => ({
    groups: gang(`s${at}`, 1, {}, { queue: queueName }).groups,
    pods: [pod(`s${at}`, { fraction: "0.5", on, group: `s${at}`, groups: [`g${at >> 1}`] })],
  }));
  const reservations = Array.from({ length: count >> 1 }, (_, at) =>
    pod(`gpu-reservation-${at}`, {
      gpus: 1,
      on,
      namespace: "kai-resource-reservation",
      labels: { app: "kai-resource-reservation", "runai-gpu-group": `g${at}` },
      scheduler: "other",
    }),
  );
  return together(...shares, { groups: [], pods: reservations });
};
const singles = (word: string, count: number, on: string, spec: Parameters<typeof gang>[3] = {}) =>
  together(...Array.from({ length: count }, (_, at) => gang(`${word}${at}`, 1, { gpus: 1, on }, spec)));

describe("a limit that its victims use up does not keep a job from", () => {
  test("taking back what is its own: the limit is asked when they have gone", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 16 })],
        queues: [
          queue("dept", gpuBounds(8, 8)),
          queue("a", { ...gpuBounds(4, -1), parentQueue: "dept" }),
          queue("b", { ...gpuBounds(4, -1), parentQueue: "dept" }),
        ],
        ...together(singles("a", 8, "n1", { queue: "a" }), gang("b", 4, { gpus: 1 }, { queue: "b" })),
      }),
    );
    expect(evicted(plan)).toHaveLength(4);
    expect(Object.keys(outcome(plan))).toEqual(["b-000", "b-001", "b-002", "b-003"]);
  });

  test("going before a lower priority in its queue, which loses no more than it must", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1")],
        queues: [queue("solo", gpuBounds(2, 2))],
        ...together(
          singles("low", 2, "n1", { queue: "solo" }),
          gang("high", 1, { gpus: 1 }, { queue: "solo", priorityClassName: "build-preemptible" }),
        ),
      }),
    );
    expect(evicted(plan)).toHaveLength(1);
    expect(outcome(plan)).toEqual({ "high-000": "~n1" });
  });

  test("but no pod is evicted where the limit would be exceeded all the same", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1")],
        queues: [queue("solo", gpuBounds(2, 2))],
        ...together(
          singles("low", 2, "n1", { queue: "solo" }),
          gang("high", 1, { gpus: 3 }, { queue: "solo", priorityClassName: "build-preemptible" }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual([]);
    expect([...plan.obstacles.values()].map(({ type }) => type)).toEqual(["gate"]);
  });
});

describe("only those go that are in the way", () => {
  test("of whole GPUs: the youngest stays where another one that has to go is enough", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("q", gpuBounds(8))],
        ...together(
          gang("x4", 1, { gpus: 4, on: "n1" }, { queue: "q", createdMs: startMs }),
          gang("y3", 1, { gpus: 3, on: "n1" }, { queue: "q", priorityClassName: "inference" }),
          gang("z1", 1, { gpus: 1, on: "n1" }, { queue: "q", createdMs: startMs + 1_000 }),
          gang("new", 1, { gpus: 4 }, { queue: "q", priorityClassName: "build-preemptible" }),
        ),
      }),
    );
    expect(evicted(plan)).toEqual(["x4-000"]);
  });

  test("of shares: the two of one GPU, not one of each", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("q", gpuBounds(8))],
        ...together(
          sharers(16, "n1", "q"),
          gang("new", 1, { fraction: "0.9" }, { queue: "q", priorityClassName: "build-preemptible" }),
        ),
      }),
    );
    expect(evicted(plan)).toHaveLength(2);
    expect(new Set(evicted(plan).map((name) => Number(name.slice(1)) >> 1)).size).toBe(1);
  });
});

describe("a GPU that is shared is made free for a pod that wants all of it", () => {
  const expectTwoOfOne = (names: string[]): void => {
    expect(names).toHaveLength(2);
    expect(new Set(names.map((name) => Number(name.slice(1)) >> 1)).size).toBe(1);
  };

  test("of a queue that takes back what is its own", () => {
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("theirs", gpuBounds(4)), queue("mine", gpuBounds(4))],
        ...together(sharers(16, "n1", "theirs"), gang("new", 1, { gpus: 1 }, { queue: "mine" })),
      }),
    );
    expectTwoOfOne(evicted(plan));
    expect(outcome(plan)).toEqual({ "new-000": "~n1" });
  });

  test("of a higher priority", () => {
    const high = gang("new", 1, { gpus: 1 }, { queue: "q", priorityClassName: "build-preemptible" });
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("q", gpuBounds(8))],
        ...together(sharers(16, "n1", "q"), high),
      }),
    );
    expectTwoOfOne(evicted(plan));
  });

  test("by moving one pod that shares it to another GPU", () => {
    const halves = sharers(16, "n1", "q");
    const every = (each: { metadata: { name: string } }) => !/^s\d*[13579]$/.test(each.metadata.name);
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 8 })],
        queues: [queue("q", gpuBounds(8))],
        ...together(
          { groups: halves.groups.filter(every), pods: halves.pods.filter(every) },
          gang("new", 1, { gpus: 2 }, { queue: "q" }),
        ),
      }),
    );
    expect(evicted(plan)).toHaveLength(2);
    expect(outcome(plan)).toMatchObject({ "new-000": "~n1" });
  });

  test("and the promise is kept while the last reservation is on its way out", () => {
    const [reservation] = sharers(2, "n1", "q").pods.slice(2);
    const mine = pod("a-000", { gpus: 1, group: "a", status: { nominatedNodeName: "n1" } as never });
    const plan = decide(
      clusterWith({
        nodes: [node("n1", { gpus: 1 })],
        queues: [queue("q", gpuBounds(8))],
        ...together({ groups: gang("a", 1).groups, pods: [mine] }, gang("b", 1, { gpus: 1 }), {
          groups: [],
          pods: [reservation!],
        }),
      }),
    );
    expect(outcome(plan)).toEqual({ "a-000": "~n1" });
    expect(plan.broken.size).toBe(0);
  });
});

test("pods are moved together from whichever node they can leave, not only from the one that has the fewest", () => {
  const stay = { spec: { nodeSelector: { "kubernetes.io/hostname": "n1" } } as never };
  const plan = decide(
    clusterWith({
      nodes: [node("n1", { gpus: 8 }), node("n2", { gpus: 8 })],
      queues: [queue("q", gpuBounds(16))],
      ...together(
        ...[0, 1, 2, 3].map((at) => gang(`stay${at}`, 1, { gpus: 1, on: "n1", ...stay }, { queue: "q" })),
        singles("free", 6, "n2", { queue: "q" }),
        gang("need", 1, { gpus: 6 }, { queue: "q" }),
      ),
    }),
  );
  expect(evicted(plan)).toHaveLength(4);
  expect(evicted(plan).every((name) => name.startsWith("free"))).toBe(true);
  expect(outcome(plan)).toMatchObject({ "need-000": "~n2" });
});

describe("preemption of the cluster's own scheduler and PodDisruptionBudgets", () => {
  const plain = { scheduler: "default-scheduler", gpus: 8 };
  const budget = (disruptionsAllowed: number) => ({
    metadata: { name: "guard", namespace: "default", uid: "u", resourceVersion: "1" },
    spec: { selector: { matchLabels: { app: "guarded" } } },
    status: { disruptionsAllowed },
  });
  /** The guarded pod is younger: without its budget it would be the first to go. */
  const choose = (nodes: string[], disruptionsAllowed: number) => {
    const cluster = clusterWith({
      nodes: nodes.map((name) => node(name, { gpus: 8 })),
      pods: [
        pod("open", { ...plain, on: "n1", createdMs: startMs }),
        pod("guarded", { ...plain, on: "n2", createdMs: startMs + 5_000, labels: { app: "guarded" } }),
        pod("high", { ...plain, priority: 100 }),
      ].filter(({ spec }) => spec?.nodeName === undefined || nodes.includes(spec.nodeName)),
    });
    cluster.budgets.byKey.set("default/guard", budget(disruptionsAllowed) as never);
    return evicted(decide(cluster));
  };

  test("a pod that a budget guards is spared where another pod can be evicted", () => {
    expect(choose(["n1", "n2"], 0)).toEqual(["open"]);
  });

  test("a budget that allows the disruption spares no pod", () => {
    expect(choose(["n1", "n2"], 1)).toEqual(["guarded"]);
  });

  test("a guarded pod is evicted where no other pod can be", () => {
    expect(choose(["n2"], 0)).toEqual(["guarded"]);
  });

  test("on one node, those go first that are not guarded", () => {
    const half = { scheduler: "default-scheduler", gpus: 4, on: "n1" };
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 8 })],
      pods: [
        pod("open", { ...half, createdMs: startMs }),
        pod("guarded", { ...half, createdMs: startMs + 5_000, labels: { app: "guarded" } }),
        pod("high", { scheduler: "default-scheduler", gpus: 4, priority: 100 }),
      ],
    });
    expect(evicted(decide(cluster))).toEqual(["guarded"]);
    cluster.budgets.byKey.set("default/guard", budget(0) as never);
    cluster.changes.note();
    expect(evicted(decide(cluster))).toEqual(["open"]);
  });
});

import { describe, expect, test } from "vitest";
import {
  carryOut,
  clusterWith,
  decide,
  evicted,
  gang,
  gpuBounds,
  group,
  node,
  outcome,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import { formatTime } from "../../model/values/time.ts";

const running = (name: string, count: number, on: string, spec: Parameters<typeof group>[1] = {}, words = {}) =>
  gang(name, count, { gpus: 1, on, ...words }, spec);

describe("reclaim", () => {
  const two = [queue("mine", gpuBounds(4)), queue("theirs", gpuBounds(4))];

  test("a queue takes back its quota from one that is beyond its own", () => {
    const cluster = clusterWith({
      queues: two,
      ...together(
        ...[0, 1, 2, 3, 4, 5, 6, 7].map((at) =>
          running(`t${at}`, 1, "n1", { queue: "theirs", createdMs: startMs + at }),
        ),
        gang("m", 1, { gpus: 1 }, { queue: "mine" }),
      ),
    });
    const plan = decide(cluster);
    expect(evicted(plan)).toEqual(["t7-000"]);
    expect(outcome(plan)).toEqual({ "m-000": "~n1" });
    expect(plan.evictions[0]?.reason).toMatchObject({ action: "reclaim", evictor: { name: "m" } });
  });

  test("no queue loses what it deserves", () => {
    const cluster = clusterWith({
      queues: two,
      ...together(
        ...[0, 1, 2, 3].map((at) => running(`t${at}`, 1, "n1", { queue: "theirs" })),
        running("m", 4, "n1", { queue: "mine" }),
        gang("more", 1, { gpus: 1 }, { queue: "mine" }),
      ),
    });
    expect(evicted(decide(cluster))).toEqual([]);
  });

  test("work that cannot be evicted is not", () => {
    const cluster = clusterWith({
      queues: [queue("mine", gpuBounds(4)), queue("theirs", gpuBounds(8))],
      ...together(
        running("t", 8, "n1", { queue: "theirs", preemptibility: "non-preemptible" }),
        gang("m", 1, { gpus: 1 }, { queue: "mine" }),
      ),
    });
    expect(evicted(decide(cluster))).toEqual([]);
  });

  test("a gang is evicted as a whole, an elastic job loses only its surplus", () => {
    const whole = clusterWith({
      queues: two,
      ...together(running("t", 8, "n1", { queue: "theirs" }), gang("m", 1, { gpus: 2 }, { queue: "mine" })),
    });
    expect(evicted(decide(whole))).toHaveLength(8);
    const elastic = clusterWith({
      queues: two,
      ...together(
        running("t", 8, "n1", { queue: "theirs", minMember: 2 }),
        gang("m", 1, { gpus: 2 }, { queue: "mine" }),
      ),
    });
    expect(evicted(decide(elastic))).toHaveLength(2);
  });

  test("a gang of two nodes gets both or evicts no pod", () => {
    const full = (on: string) =>
      Array.from({ length: 8 }, (_, at) => running(`t-${on}-${at}`, 1, on, { queue: "theirs" }));
    const words = (queues = two) =>
      clusterWith({
        nodes: [node("n1"), node("n2")],
        queues,
        ...together(...full("n1"), ...full("n2"), gang("m", 2, { gpus: 8 }, { queue: "mine" })),
      });
    expect(evicted(decide(words()))).toEqual([]);
    const plan = decide(words([queue("mine", gpuBounds(16)), queue("theirs", gpuBounds(0))]));
    expect(evicted(plan)).toHaveLength(16);
    expect(Object.values(outcome(plan)).sort()).toEqual(["~n1", "~n2"]);
  });

  test("a job that started recently keeps its core, and may lose the rest", () => {
    const queues = [queue("mine", gpuBounds(4)), queue("theirs", { ...gpuBounds(4), reclaimMinRuntime: "10m" })];
    const annotations = { "kai.scheduler/last-start-timestamp": formatTime(startMs) };
    const words = (minMember: number) =>
      clusterWith({
        queues,
        ...together(
          running("t", 8, "n1", { queue: "theirs", minMember, annotations }),
          gang("m", 1, { gpus: 1 }, { queue: "mine" }),
        ),
      });
    expect(evicted(decide(words(8), startMs + 60_000))).toEqual([]);
    expect(evicted(decide(words(4), startMs + 60_000))).toHaveLength(1);
    expect(evicted(decide(words(8), startMs + 601_000))).toHaveLength(8);
  });

  test("a delay lets an autoscaler go first", () => {
    const cluster = clusterWith({
      queues: two,
      ...together(
        running("t", 8, "n1", { queue: "theirs", minMember: 1 }),
        gang("m", 1, { gpus: 1 }, { queue: "mine", preemptionDelay: "5m" }),
      ),
    });
    const early = decide(cluster, startMs + 60_000);
    expect(evicted(early)).toEqual([]);
    expect([...early.obstacles.values()]).toEqual([{ type: "delay", untilMs: startMs + 300_000 }]);
    expect(early.wakeMs).toBe(startMs + 300_000);
    expect(evicted(decide(cluster, startMs + 301_000))).toHaveLength(1);
  });

  test("nothing is evicted for a job that could not run anyway", () => {
    const cluster = clusterWith({
      queues: two,
      ...together(
        running("t", 8, "n1", { queue: "theirs", minMember: 1 }),
        gang("m", 1, { gpus: 1, spec: { nodeSelector: { zone: "nowhere" } } as never }, { queue: "mine" }),
      ),
    });
    expect(evicted(decide(cluster))).toEqual([]);
  });

  test("what is being released is not reclaimed again", () => {
    const cluster = clusterWith({
      queues: two,
      ...together(
        running("t", 7, "n1", { queue: "theirs", minMember: 1 }),
        {
          groups: [group("old", { queue: "theirs" })],
          pods: [pod("leaving", { gpus: 1, on: "n1", group: "old", deletedMs: startMs + 60_000 })],
        },
        gang("m", 1, { gpus: 1 }, { queue: "mine" }),
      ),
    });
    const plan = decide(cluster);
    expect(evicted(plan)).toEqual([]);
    expect(outcome(plan)).toEqual({ "m-000": "~n1" });
  });

  test("reclaiming ends: what was taken is not taken back", () => {
    const cluster = clusterWith({
      queues: two,
      ...together(
        ...Array.from({ length: 8 }, (_, at) => running(`t${at}`, 1, "n1", { queue: "theirs" })),
        ...Array.from({ length: 6 }, (_, at) => gang(`m${at}`, 1, { gpus: 1 }, { queue: "mine" })),
      ),
    });
    let rounds = 0;
    for (; rounds < 20; rounds++) {
      const plan = decide(cluster);
      carryOut(cluster, plan);
      if (plan.jobs.length === 0 && plan.evictions.length === 0) break;
    }
    expect(rounds).toBeLessThan(6);
    expect(cluster.queues.byName.get("mine")?.allocated[0]).toBe(4000);
    expect(cluster.queues.byName.get("theirs")?.allocated[0]).toBe(4000);
  });

  test("in a tree the queues that differ first decide", () => {
    const queues = [
      queue("a", gpuBounds(4)),
      queue("b", gpuBounds(4)),
      queue("a1", { ...gpuBounds(2), parentQueue: "a" }),
      queue("a2", { ...gpuBounds(2), parentQueue: "a" }),
      queue("b1", { ...gpuBounds(4), parentQueue: "b" }),
    ];
    const cluster = clusterWith({
      queues,
      ...together(
        running("x", 4, "n1", { queue: "a1", minMember: 1 }),
        running("y", 4, "n1", { queue: "b1", minMember: 1 }),
        gang("m", 1, { gpus: 1 }, { queue: "a2" }),
      ),
    });
    expect(evicted(decide(cluster))).toEqual(["x-003"]);
  });
});

describe("preemption", () => {
  test("a job of higher priority preempts one of lower priority in its queue", () => {
    const cluster = clusterWith({
      ...together(
        running("low", 8, "n1", { minMember: 4 }),
        gang("high", 1, { gpus: 2 }, { priorityClassName: "build-preemptible" }),
      ),
    });
    const plan = decide(cluster);
    expect(evicted(plan)).toEqual(["low-006", "low-007"]);
    expect(plan.evictions[0]?.reason.action).toBe("preempt");
  });

  test("equal priorities do not preempt each other", () => {
    expect(
      evicted(
        decide(clusterWith({ ...together(running("low", 8, "n1", { minMember: 1 }), gang("other", 1, { gpus: 1 })) })),
      ),
    ).toEqual([]);
  });

  test("a job that cannot be evicted stays, however low its priority, and so does a job of another queue", () => {
    const high = gang("high", 1, { gpus: 1 }, { priorityClassName: "build-preemptible" });
    const words = (spec: Parameters<typeof group>[1]) => ({
      // What both queues have is within their quotas, so that nobody reclaims.
      queues: [queue("q", gpuBounds(8)), queue("other", gpuBounds(8))],
      settings: { consolidationJobsMax: 0 },
      ...together(running("low", 8, "n1", { minMember: 8, ...spec }), high),
    });
    expect(evicted(decide(clusterWith(words({}))))).toHaveLength(8);
    expect(evicted(decide(clusterWith(words({ preemptibility: "non-preemptible" }))))).toEqual([]);
    expect(evicted(decide(clusterWith(words({ queue: "other" }))))).toEqual([]);
  });

  test("a job that cannot be evicted grows by eviction no further than its quota", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 3 })],
      queues: [queue("q", gpuBounds(2))],
      ...together(
        running("low", 3, "n1", { minMember: 1 }),
        gang("high", 3, { gpus: 1 }, { priorityClassName: "inference", minMember: 1 }),
      ),
    });
    expect(evicted(decide(cluster))).toHaveLength(2);
  });

  test("a job that cannot be evicted must fit the quota itself", () => {
    const words = (quota: number) =>
      clusterWith({
        queues: [queue("q", gpuBounds(quota))],
        ...together(
          running("low", 8, "n1", { minMember: 1 }),
          gang("high", 1, { gpus: 2 }, { priorityClassName: "inference" }),
        ),
      });
    expect(evicted(decide(words(1)))).toEqual([]);
    expect(evicted(decide(words(2)))).toHaveLength(2);
  });

  describe("of a job with a pod that is still being bound", () => {
    /** A job of one queue with four pods on two nodes; the last of them has not arrived, unless it says so. */
    const of = (spec: Parameters<typeof group>[1], winners: number, hasArrived = false) => {
      const subs = ["a", "b", "b", "b"];
      const low = subs.map((sub, at) => {
        const on = at < 2 ? "n1" : "n2";
        const isOnItsWay = at === 3 && !hasArrived;
        const subGroup = spec?.subGroups === undefined ? undefined : sub;
        return pod(`low-${at}`, { gpus: 1, group: "low", ...(subGroup && { subGroup }), ...(!isOnItsWay && { on }) });
      });
      const high = gang("high", winners, { gpus: 1 }, { priorityClassName: "build-preemptible" });
      const cluster = clusterWith({
        nodes: [node("n1", { gpus: 2 }), node("n2", { gpus: 2 })],
        settings: { consolidationJobsMax: 0 },
        ...together({ groups: [group("low", spec)], pods: low }, high),
      });
      if (!hasArrived) cluster.setPlaces("pod-default-low-3", [{ node: "n2", groups: [] }]);
      return evicted(decide(cluster));
    };
    const subGroups = [
      { name: "a", minMember: 1 },
      { name: "b", minMember: 3 },
    ];

    test.each([1, 2])("evicts no pod of a gang: %d would be placed, and one would be left alone", (winners) => {
      expect(of({ minMember: 4 }, winners)).toEqual([]);
      expect(of({ minMember: 4 }, winners, true)).toEqual(["low-0", "low-1", "low-2", "low-3"]);
    });

    test.each([
      [1, ["low-0"]],
      [2, []],
    ])("nobody of a subgroup goes, and not all of its job instead, for %d", (winners, others) => {
      expect(of({ minSubGroup: 1, subGroups }, winners)).toEqual(others);
      expect(of({ minSubGroup: 1, subGroups }, winners, true)).toEqual(["low-1", "low-2", "low-3"]);
    });

    test("those go that the minimum does not need", () => {
      expect(of({ minMember: 2 }, 2)).toEqual(["low-1", "low-2"]);
    });
  });

  test("pods of the default scheduler preempt lower priorities on one node", () => {
    const plain = (name: string, priority: number, on?: string) =>
      pod(name, { cpu: "30", scheduler: "default-scheduler", priority, ...(on !== undefined && { on }) });
    const cluster = clusterWith({ pods: [plain("low", 1, "n1"), plain("mid", 5, "n1"), plain("high", 10)] });
    const plan = decide(cluster);
    expect(evicted(plan)).toEqual(["low"]);
    expect(outcome(plan)).toEqual({ high: "~n1" });
    const never = pod("never", {
      cpu: "30",
      scheduler: "default-scheduler",
      priority: 10,
      spec: { preemptionPolicy: "Never" } as never,
    });
    expect(evicted(decide(clusterWith({ pods: [plain("low", 1, "n1"), plain("mid", 5, "n1"), never] })))).toEqual([]);
  });
});

describe("consolidation", () => {
  const fragmented = () => ({
    nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
    ...together(running("a", 2, "n1", {}), running("b", 2, "n2", {}), gang("big", 1, { gpus: 4 })),
  });

  test("moves a job so that another fits, and every moved pod has a place", () => {
    const plan = decide(clusterWith(fragmented()));
    expect(evicted(plan)).toEqual(["b-000", "b-001"]);
    expect(outcome(plan)).toMatchObject({ "big-000": "~n2" });
  });

  test("does not move a job's own pods so that it can grow", () => {
    const rock = running("rock", 1, "n2", { preemptibility: "non-preemptible" }, { gpus: 2 });
    const words = (other: string) => ({
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
      queues: [queue("q", gpuBounds(8))],
      ...together(rock, {
        groups: [group("j", { minMember: 1 }), ...(other === "j" ? [] : [group(other)])],
        pods: [pod("j-0", { gpus: 2, on: "n1", group: "j" }), pod("x", { gpus: 4, group: other })],
      }),
    });
    expect(evicted(decide(clusterWith(words("other"))))).toEqual(["j-0"]);
    expect(evicted(decide(clusterWith(words("j"))))).toEqual([]);
  });

  test("does not move what would find no other place", () => {
    const large = (name: string, on: string) => running(name, 1, on, {}, { gpus: 3 });
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 4 }), node("n2", { gpus: 4 })],
      ...together(large("a", "n1"), large("b", "n2"), gang("big", 1, { gpus: 2 })),
    });
    expect(evicted(decide(cluster))).toEqual([]);
  });

  test.each([{ consolidationJobsMax: 0 }, { gpuStrategy: "spread" as const }, { cpuStrategy: "spread" as const }])(
    "is off with %o",
    (settings) => {
      expect(evicted(decide(clusterWith({ ...fragmented(), settings })))).toEqual([]);
    },
  );

  test("moves no more jobs than allowed", () => {
    const words = (consolidationJobsMax: number) =>
      clusterWith({
        nodes: [node("n1", { gpus: 2 }), node("n2", { gpus: 2 }), node("n3", { gpus: 2 })],
        settings: { consolidationJobsMax },
        ...together(
          running("a", 1, "n1", {}),
          running("b", 1, "n2", {}),
          running("c", 1, "n3", {}),
          gang("big", 2, { gpus: 2 }),
        ),
      });
    expect(evicted(decide(words(1)))).toEqual([]);
  });
});

describe("a gang below its minimum", () => {
  const stale = (annotations: Record<string, string> = {}, spec = {}) =>
    clusterWith({
      groups: [group("g", { minMember: 3, annotations, ...spec })],
      pods: [pod("g-0", { gpus: 1, on: "n1", group: "g" })],
    });
  const since = { "kai.scheduler/stale-podgroup-timestamp": formatTime(startMs) };
  const ofSubGroups = { "muster.dev/stale-subgroups": `b=${formatTime(startMs)}` };

  test("is evicted when it has been so for longer than its grace", () => {
    expect(evicted(decide(stale(since), startMs + 59_000))).toEqual([]);
    expect(evicted(decide(stale(since), startMs + 61_000))).toEqual(["g-0"]);
  });

  test("is left alone while pods of it that are going still count", () => {
    const of = (deletedMs?: number) =>
      clusterWith({
        groups: [group("g", { minMember: 2, annotations: since })],
        pods: [
          pod("g-0", { gpus: 1, on: "n1", group: "g" }),
          ...(deletedMs === undefined ? [] : [pod("g-1", { gpus: 1, on: "n1", group: "g", deletedMs })]),
        ],
      });
    expect(evicted(decide(of(startMs + 3_600_000), startMs + 61_000))).toEqual([]);
    expect(evicted(decide(of(), startMs + 61_000))).toEqual(["g-0"]);
  });

  test("is evicted after the grace of its own, where it has one", () => {
    const spec = { stalenessGracePeriod: "10s" };
    expect(evicted(decide(stale(since, spec), startMs + 9_000))).toEqual([]);
    expect(evicted(decide(stale(since, spec), startMs + 11_000))).toEqual(["g-0"]);
  });

  test("is evicted with every pod that has a node, and its pending pods stay pending", () => {
    const cluster = clusterWith({
      groups: [group("g", { minMember: 4, annotations: since })],
      pods: [
        pod("g-0", { gpus: 1, on: "n1", group: "g" }),
        pod("g-1", { gpus: 1, on: "n1", phase: "Pending", group: "g" }),
        pod("g-2", { gpus: 16, group: "g" }),
      ],
    });
    expect(evicted(decide(cluster, startMs + 61_000))).toEqual(["g-0", "g-1"]);
  });

  test("is stale when one of its required subgroups is too small, whatever the others have", () => {
    const subGroups = [
      { name: "a", minMember: 1 },
      { name: "b", minMember: 2 },
    ];
    const cluster = clusterWith({
      groups: [group("g", { subGroups, annotations: since })],
      pods: ["a", "a", "b"].map((sub, at) => pod(`${sub}${at}`, { gpus: 1, on: "n1", group: "g", subGroup: sub })),
    });
    expect(evicted(decide(cluster, startMs + 61_000))).toEqual(["a0", "a1", "b2"]);
  });

  test("is left alone while none of it runs and some are only on their way", () => {
    const only = pod("g-0", { gpus: 1, group: "g" });
    const cluster = clusterWith({ groups: [group("g", { minMember: 3, annotations: since })], pods: [only] });
    cluster.setPlaces(only.metadata.uid, [{ node: "n1", groups: [] }]);
    expect(evicted(decide(cluster, startMs + 600_000))).toEqual([]);
  });

  test("is left alone as long as no time of falling below the minimum is recorded", () => {
    expect(evicted(decide(stale(), startMs + 600_000))).toEqual([]);
  });

  test("is left alone when its grace is negative", () => {
    expect(evicted(decide(stale(since, { stalenessGracePeriod: "-1s" }), startMs + 600_000))).toEqual([]);
  });

  test("is not stale when some of it has succeeded", () => {
    const cluster = stale(since);
    cluster.putPod(pod("g-1", { gpus: 1, group: "g", phase: "Succeeded" }));
    expect(evicted(decide(cluster, startMs + 600_000))).toEqual([]);
  });

  test("has its whole grace, however long a subgroup that is not required has been below its own", () => {
    const subGroups = ["a", "b"].map((name) => ({ name, minMember: 2 }));
    const of = (annotations: Record<string, string>) =>
      clusterWith({
        groups: [group("g", { minSubGroup: 1, subGroups, annotations })],
        pods: ["a", "b"].map((sub) => pod(sub, { gpus: 1, on: "n1", group: "g", subGroup: sub })),
      });
    const late = { "kai.scheduler/stale-podgroup-timestamp": formatTime(startMs + 50_000) };
    expect(evicted(decide(of({ ...ofSubGroups, ...late }), startMs + 61_000))).toEqual([]);
    expect(evicted(decide(of({ ...ofSubGroups, ...late }), startMs + 111_000))).toEqual(["a", "b"]);
  });

  test("is so no longer when one pod has become enough", () => {
    const cluster = stale(since);
    expect(cluster.unwell.size).toBe(1);
    cluster.putPodGroup(group("g", { minMember: 1, annotations: since }));
    expect(cluster.unwell.size).toBe(0);
  });

  test("loses what is left of a subgroup that is not required, and keeps the rest", () => {
    const subGroups = [
      { name: "a", minMember: 2 },
      { name: "b", minMember: 3 },
    ];
    const of = (...subs: string[]) =>
      clusterWith({
        groups: [group("g", { minSubGroup: 1, subGroups, annotations: { ...since, ...ofSubGroups } })],
        pods: subs.map((sub, at) => pod(`${sub}${at}`, { gpus: 1, on: "n1", group: "g", subGroup: sub })),
      });
    expect(evicted(decide(of("a", "a", "b"), startMs + 59_000))).toEqual([]);
    expect(evicted(decide(of("a", "a", "b"), startMs + 61_000))).toEqual(["b2"]);
    expect(evicted(decide(of("a", "a", "b", "b", "b"), startMs + 61_000))).toEqual([]);
    expect(evicted(decide(of("a", "b"), startMs + 61_000))).toEqual(["a0", "b1"]);
  });

  test("loses nothing in a cycle in which it grows", () => {
    const subGroups = [
      { name: "a", minMember: 1 },
      { name: "b", minMember: 3 },
    ];
    const cluster = clusterWith({
      groups: [group("g", { minSubGroup: 1, subGroups, annotations: ofSubGroups })],
      pods: [
        ...["a", "b"].map((sub) => pod(sub, { gpus: 1, on: "n1", group: "g", subGroup: sub })),
        pod("more", { gpus: 1, group: "g", subGroup: "a" }),
      ],
    });
    const first = decide(cluster, startMs + 61_000);
    expect(outcome(first)).toEqual({ more: "n1" });
    expect(evicted(first)).toEqual([]);
    carryOut(cluster, first);
    expect(evicted(decide(cluster, startMs + 61_000))).toEqual(["b"]);
  });

  test("is not stale because of a subgroup that is not required", () => {
    const subGroups = [
      { name: "a", minMember: 1 },
      { name: "b", minMember: 5 },
    ];
    const cluster = clusterWith({
      groups: [group("g", { minSubGroup: 1, subGroups, annotations: since })],
      pods: [pod("x", { gpus: 1, on: "n1", group: "g", subGroup: "a" })],
    });
    expect(evicted(decide(cluster, startMs + 600_000))).toEqual([]);
  });
});

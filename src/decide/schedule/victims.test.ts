import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  evicted,
  gang,
  gpuBounds,
  group,
  node,
  outcome,
  type PodFields,
  pod,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { Pod, PriorityClass } from "../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import { formatTime } from "../../model/values/time.ts";
import { cycle } from "./cycle.ts";
import { defaultSearchBudgets } from "./eviction/searchBudget.ts";

const gpus = (quota: number, more: object = {}) => ({ ...gpuBounds(quota), ...more });
const running = (name: string, count: number, spec: Parameters<typeof group>[1] = {}, words: object = {}) =>
  gang(name, count, { gpus: 1, on: "n1", ...words }, spec);
const two = [queue("mine", gpus(4)), queue("theirs", gpus(4))];

describe("the order of victims", () => {
  test("is the lowest priority, then the youngest", () => {
    const cluster = clusterWith({
      ...together(
        running("old", 4, { priorityClassName: "train", minMember: 1, createdMs: startMs }),
        running("young", 2, { priorityClassName: "train", minMember: 1, createdMs: startMs + 9_000 }),
        running("higher", 2, { priorityClassName: "build-preemptible", minMember: 1, createdMs: startMs + 99_000 }),
        gang("boss", 1, { gpus: 1 }, { priorityClassName: "inference", preemptibility: "preemptible" }),
      ),
    });
    expect(evicted(decide(cluster))).toEqual(["young-001"]);
  });

  test("has a subgroup that is not required, as a whole, before the core", () => {
    const subGroups = [
      { name: "a", minMember: 2 },
      { name: "b", minMember: 2 },
      { name: "c", minMember: 2 },
    ];
    const members = subGroups.flatMap(({ name }) =>
      [0, 1].map((at) => pod(`t-${name}${at}`, { gpus: 1, on: "n1", group: "t", subGroup: name })),
    );
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 6 })],
      queues: [queue("mine", gpus(2)), queue("theirs", gpus(4))],
      ...together(
        { groups: [group("t", { queue: "theirs", subGroups, minSubGroup: 2 })], pods: members },
        gang("m", 1, { gpus: 1 }, { queue: "mine" }),
      ),
    });
    expect(evicted(decide(cluster))).toEqual(["t-c0", "t-c1"]);
  });

  test("is empty for a job whose priority class never preempts", () => {
    const words = together(
      running("low", 8, { minMember: 1 }),
      gang("polite", 1, { gpus: 1 }, { priorityClassName: "polite" }),
    );
    const priorityClass = (preemptionPolicy: string) =>
      partly<PriorityClass>({ metadata: { name: "polite" }, value: 90, preemptionPolicy });
    const cluster = clusterWith(words);
    cluster.putPriorityClass(priorityClass("Never"));
    expect(evicted(decide(cluster))).toEqual([]);
    cluster.putPriorityClass(priorityClass("PreemptLowerPriority"));
    expect(evicted(decide(cluster))).toHaveLength(1);
  });
});

describe("work that has just begun", () => {
  const begun = { annotations: { "kai.scheduler/last-start-timestamp": formatTime(startMs) } };
  const soonMs = startMs + 60_000;

  test.each([
    ["its own queue says so", { queue: { preemptMinRuntime: "10m" } }, []],
    ["a queue above says so", { parent: { preemptMinRuntime: "10m" } }, []],
    ["the shard says so", { settings: { preemptMinRuntimeMs: 600_000 } }, []],
    [
      "its own queue says otherwise than the one above",
      { queue: { preemptMinRuntime: "1s" }, parent: { preemptMinRuntime: "10m" } },
      "all",
    ],
    ["nobody says so", {}, "all"],
  ] as const)(
    "is protected from preemption when %s",
    (_, words: { queue?: object; parent?: object; settings?: object }, gone) => {
      const queues = [
        queue("top", gpus(8, words.parent)),
        queue("leaf", gpus(8, { parentQueue: "top", ...words.queue })),
      ];
      const cluster = clusterWith({
        queues,
        settings: words.settings ?? {},
        ...together(
          running("low", 8, { queue: "leaf", ...begun }),
          gang("high", 1, { gpus: 1 }, { queue: "leaf", priorityClassName: "build-preemptible" }),
        ),
      });
      expect(evicted(decide(cluster, soonMs))).toHaveLength(gone === "all" ? 8 : 0);
    },
  );

  // red and blue are siblings below left; far is below right.
  const tree = (more: Record<string, object>) => [
    queue("left", gpus(8, more["left"])),
    queue("right", gpus(0, more["right"])),
    queue("red", gpus(8, { parentQueue: "left", ...more["red"] })),
    queue("blue", gpus(0, { parentQueue: "left", ...more["blue"] })),
    queue("far", gpus(0, { parentQueue: "right", ...more["far"] })),
  ];
  const protectedBy = (method: "lca" | "queue", more: Record<string, object>, victim: string): boolean => {
    const cluster = clusterWith({
      queues: tree(more),
      settings: { reclaimMinRuntimeMethod: method },
      ...together(running("v", 8, { queue: victim, ...begun }), gang("m", 1, { gpus: 1 }, { queue: "red" })),
    });
    return evicted(decide(cluster, soonMs)).length === 0;
  };
  const long = { reclaimMinRuntime: "10m" };

  test.each([
    ["lca", "the queue below the common one", { blue: long }, "blue", true],
    ["lca", "the common one, where that queue says nothing", { left: long }, "blue", true],
    ["lca", "in another tree the top queue alone: it", { right: long }, "far", true],
    ["lca", "in another tree the top queue alone: not the leaf", { far: long }, "far", false],
    ["queue", "the victim's own queue", { far: long }, "far", true],
    ["queue", "the victim's own queue upwards", { right: long }, "far", true],
  ] as const)("is protected from reclaim by %s: %s", (method, _, more, victim, isProtected) => {
    expect(protectedBy(method, more, victim)).toBe(isProtected);
  });
});

describe("what a shard says of work that has just begun", () => {
  const begun = { annotations: { "kai.scheduler/last-start-timestamp": formatTime(startMs) } };
  test.each(["lca", "queue"] as const)("protects it from reclaim where no queue says otherwise, by %s", (method) => {
    const gone = (reclaimMinRuntimeMs: number) =>
      evicted(
        decide(
          clusterWith({
            queues: two,
            settings: { reclaimMinRuntimeMethod: method, reclaimMinRuntimeMs },
            ...together(running("t", 8, { queue: "theirs", ...begun }), gang("m", 1, { gpus: 1 }, { queue: "mine" })),
          }),
          startMs + 60_000,
        ),
      ).length;
    expect([gone(600_000), gone(30_000)]).toEqual([0, 8]);
  });
});

describe("a delay", () => {
  test("begins again when its job loses a pod", () => {
    const annotations = { "kai.scheduler/last-eviction-timestamp": formatTime(startMs + 240_000) };
    const cluster = clusterWith({
      queues: two,
      ...together(
        running("t", 8, { queue: "theirs", minMember: 1 }),
        gang("m", 1, { gpus: 1 }, { queue: "mine", preemptionDelay: "5m", annotations }),
      ),
    });
    expect(evicted(decide(cluster, startMs + 301_000))).toEqual([]);
    expect(evicted(decide(cluster, startMs + 541_000))).toHaveLength(1);
  });
});

describe("the search for victims", () => {
  test("is not made again for a job that asks for no less than one that failed", () => {
    const words = {
      queues: two,
      ...together(
        running("t", 8, { queue: "theirs", preemptibility: "non-preemptible" as const }),
        gang("a", 1, { gpus: 1 }, { queue: "mine" }),
        gang("b", 1, { gpus: 1 }, { queue: "mine" }),
        gang("c", 1, { gpus: 2 }, { queue: "mine" }),
      ),
    };
    expect(cycle(clusterWith(words), startMs).searches.get("reclaim")?.failed).toBe(1);
    const without = clusterWith({ ...words, settings: { usesSignatures: false } });
    expect(cycle(without, startMs).searches.get("reclaim")?.failed).toBe(3);
  });

  describe("is made after one has failed for", () => {
    const fixed = { preemptibility: "non-preemptible" as const };
    /** Two nodes of eight GPUs; of each only two can be taken. */
    const crowded = (...waiting: { groups: PodGroup[]; pods: Pod[] }[]) => ({
      nodes: [node("n1"), node("n2")],
      queues: [queue("mine", gpus(4)), queue("theirs", gpus(12))],
      ...together(
        ...["n1", "n2"].flatMap((on) => [
          running(`rock-${on}`, 6, { queue: "theirs", ...fixed }, { on }),
          running(`a-${on}`, 1, { queue: "theirs" }, { on }),
          running(`b-${on}`, 1, { queue: "theirs" }, { on }),
        ]),
        ...waiting,
      ),
    });
    const of = (name: string, count: number, words: PodFields, spec = {}) =>
      gang(name, count, words, { queue: "mine", createdMs: startMs + name.length, ...spec });
    const failed = (...waiting: { groups: PodGroup[]; pods: Pod[] }[]) =>
      cycle(clusterWith(crowded(...waiting)), startMs + 60_000).searches.get("reclaim")?.failed;

    test("pods that are smaller, though all together ask for as much", () => {
      const plan = decide(clusterWith(crowded(of("big", 1, { gpus: 4 }), of("small", 4, { gpus: 1 }))));
      expect(evicted(plan)).toHaveLength(4);
      expect(Object.keys(outcome(plan))).toEqual(["small-000", "small-001", "small-002", "small-003"]);
    });

    test.each([
      ["parts of GPUs, after whole ones", of("a", 1, { gpus: 4 }), of("bb", 8, { fraction: "0.5" }), 1],
      ["a pod of less CPU and more GPUs", of("a", 1, { gpus: 3, cpu: "9" }), of("bb", 1, { gpus: 4, cpu: "1" }), 2],
      ["a gang whose largest pod is smaller", of("a", 1, { gpus: 3 }), of("bb", 2, { gpus: 2 }), 1],
    ])("%s", (_, first, second, failures) => {
      const searched = cycle(clusterWith(crowded(first, second)), startMs + 60_000).searches.get("reclaim");
      expect((searched?.failed ?? 0) + (searched?.solved ?? 0)).toBe(2);
      expect(searched?.failed).toBe(failures);
    });

    test("no job whose every pod asks for no less", () => {
      const mixed = (name: string, ...sizes: number[]) => ({
        groups: [group(name, { queue: "mine", minMember: sizes.length, createdMs: startMs + name.length })],
        pods: sizes.map((size, at) => pod(`${name}-${at}`, { gpus: size, group: name })),
      });
      expect(failed(of("a", 1, { gpus: 3 }), of("bb", 1, { gpus: 4 }))).toBe(1);
      expect(failed(of("a", 1, { gpus: 3 }), of("bb", 1, { gpus: 3, cpu: "2" }))).toBe(1);
      expect(failed(mixed("a", 3, 1), mixed("bb", 1, 3))).toBe(1);
      expect(failed(of("a", 1, { gpus: 3 }), mixed("bb", 3, 1))).toBe(1);
    });
  });

  test("ends after as many attempts as are allowed", () => {
    const nodes = ["n1", "n2", "n3"].map((name) => node(name, { gpus: 1 }));
    const words = {
      nodes,
      queues: [queue("mine", gpus(3)), queue("theirs", gpus(0))],
      ...together(
        ...nodes.map(({ metadata }) => running(`t${metadata.name}`, 1, { queue: "theirs" }, { on: metadata.name })),
        gang("m", 1, { gpus: 1 }, { queue: "mine" }),
      ),
    };
    expect(evicted(decide(clusterWith(words)))).toHaveLength(1);
    const one = { ...defaultSearchBudgets, generatorMs: { NodeLocalGreedy: 10, MultiNodeGang: 10 } };
    const { searches } = cycle(clusterWith({ ...words, settings: { searchBudgets: one } }), startMs);
    expect(searches.get("reclaim")?.scenarios.NodeLocalGreedy.simulated).toBe(1);
  });
});

describe("consolidation", () => {
  const scattered = (spec: object = {}) =>
    together(
      gang("a", 1, { gpus: 5, on: "n1" }, spec),
      gang("b", 1, { gpus: 3, on: "n2" }, spec),
      gang("wide", 1, { gpus: 8 }, { createdMs: startMs + 1 }),
    );
  const nodes = [node("n1"), node("n2")];

  test("moves no pod that cannot be evicted", () => {
    const queues = [queue("q", gpus(16))];
    expect(evicted(decide(clusterWith({ nodes, queues, ...scattered() })))).not.toEqual([]);
    expect(
      evicted(decide(clusterWith({ nodes, queues, ...scattered({ preemptibility: "non-preemptible" }) }))),
    ).toEqual([]);
  });

  test("moves no pod for work that cannot be evicted itself", () => {
    const queues = [queue("q", gpus(16))];
    const words = scattered();
    words.groups[2] = group("wide", { preemptibility: "non-preemptible", minMember: 1 });
    expect(evicted(decide(clusterWith({ nodes, queues, ...words })))).toEqual([]);
  });

  test.each([
    ["as many jobs as it may", 1, 1],
    ["any number where there is no bound", -1, 2],
  ])("moves %s", (_, consolidationJobsMax, moved) => {
    const ones = together(
      gang("a", 1, { gpus: 1, on: "n1" }),
      gang("b", 1, { gpus: 1, on: "n1" }),
      gang("c", 1, { gpus: 6, on: "n2" }, { preemptibility: "non-preemptible" }),
      gang("wide", 1, { gpus: moved === 1 ? 7 : 8 }, { createdMs: startMs + 1 }),
    );
    expect(
      evicted(
        decide(clusterWith({ nodes, queues: [queue("q", gpus(16))], settings: { consolidationJobsMax }, ...ones })),
      ),
    ).toHaveLength(moved);
  });

  test("moves sixteen jobs and not seventeen", () => {
    const small = (count: number) =>
      together(
        ...Array.from({ length: count }, (_, at) => gang(`s${at}`, 1, { gpus: 1, on: "n1" })),
        gang("wide", 1, { gpus: count }, { createdMs: startMs + 1 }),
      );
    const at = (count: number) =>
      evicted(
        decide(
          clusterWith({
            nodes: [node("n1", { gpus: count }), node("n2", { gpus: count - 1 }), node("n3", { gpus: 1 })],
            ...small(count),
          }),
        ),
      );
    expect(at(16)).toHaveLength(16);
    expect(at(17)).toEqual([]);
  });

  test("is not tried when the whole cluster has not enough GPUs", () => {
    const words = together(scattered(), gang("huge", 2, { gpus: 8 }));
    const { searches } = cycle(
      clusterWith({ nodes, ...words, settings: { actions: ["allocate", "consolidation"] } }),
      startMs,
    );
    const { jobs = [] } = searches.get("consolidation") ?? {};
    expect(jobs.map(({ end, count }) => [end, count])).toEqual([
      ["no_generator", 1],
      ["solved", 1],
    ]);
  });
});

describe("what can be evicted", () => {
  test.each([
    ["train", undefined, true],
    ["build-preemptible", undefined, true],
    ["build", undefined, false],
    ["inference", undefined, false],
    ["inference", "preemptible", true],
    ["train", "non-preemptible", false],
  ] as const)("priority class %s with preemptibility %s: %s", (priorityClassName, preemptibility, is) => {
    const cluster = clusterWith({
      groups: [group("g", { priorityClassName, ...(preemptibility && { preemptibility }) })],
    });
    expect(cluster.jobs.get("default/g")?.isPreemptible).toBe(is);
    expect(outcome(decide(cluster))).toEqual({});
  });
});

test("a priority class that is raised makes what runs with it count as what cannot be evicted", () => {
  const words = together(gang("a", 2, { gpus: 1, on: "n1" }, { priorityClassName: "own" }));
  const cluster = clusterWith({ queues: [queue("q", gpus(4))], ...words });
  const counted = (value: number): number | undefined => {
    cluster.putPriorityClass(partly<PriorityClass>({ metadata: { name: "own" }, value }));
    cluster.refresh(startMs);
    cluster.assertCounts();
    return cluster.queues.byName.get("q")?.allocatedNonPreemptible[0];
  };
  expect([50, 100, 50].map(counted)).toEqual([0, 2000, 0]);
});

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
  pod,
  queue,
  startMs,
  together,
  topology,
} from "../../../testing/decide/scheduleCluster.ts";
import { cycle } from "./cycle.ts";
import { explain } from "./explain/explain.ts";

const at = (name: string, zone: string, rack: string, gpus = 8) => node(name, { gpus, labels: { zone, rack } });
const nodes = [
  at("a1", "a", "r1"),
  at("a2", "a", "r1"),
  at("a3", "a", "r2"),
  at("b1", "b", "r1"),
  at("b2", "b", "r1"),
  at("b3", "b", "r1"),
];
const topologies = [topology("t", "zone", "rack")];
const need = (level: string) => ({ topologyConstraint: { topology: "t", requiredTopologyLevel: level } });
const wish = (level: string, required?: string) => ({
  topologyConstraint: {
    topology: "t",
    preferredTopologyLevel: level,
    ...(required !== undefined && { requiredTopologyLevel: required }),
  },
});
const placed = (words: Parameters<typeof clusterWith>[0]) =>
  Object.values(outcome(decide(clusterWith({ nodes, topologies, ...words })))).sort();

const why = (words: Parameters<typeof clusterWith>[0]): string => said(words, "message");
const cureOf = (words: Parameters<typeof clusterWith>[0]): string => said(words, "cure");

function said(words: Parameters<typeof clusterWith>[0], what: "message" | "cure"): string {
  const sentences: string[] = [];
  cycle(clusterWith({ nodes, topologies, ...words }), startMs + 60_000, (session) => {
    for (const [job, obstacle] of session.obstacles) sentences.push(explain(session, job, obstacle)[what]);
  });
  return sentences.join();
}

test("a zone that is in use is filled before another is begun, and in it the rack with the least left over", () => {
  const three = [at("a1", "a", "r1", 1), at("a2", "a", "r2", 1), at("a3", "a", "r3", 1)];
  const two = [at("b1", "b", "r1", 1), at("b2", "b", "r1", 1)];
  expect(placed({ nodes: [...three, ...two], ...gang("g", 1, { gpus: 1 }, wish("rack")) })).toEqual(["b1"]);
});

describe("a required level", () => {
  test("holds the whole gang in one domain, the tightest that can take it", () => {
    expect(placed(gang("g", 2, { gpus: 8 }, need("rack")))).toEqual(["a1", "a2"]);
    expect(placed(gang("g", 3, { gpus: 8 }, need("rack")))).toEqual(["b1", "b2", "b3"]);
  });

  test("does not take a rack of one zone for a rack of the same name in another", () => {
    expect(placed(gang("g", 4, { gpus: 8 }, need("rack")))).toEqual([]);
    expect(placed(gang("g", 3, { gpus: 8 }, need("zone")))).toEqual(["a1", "a2", "a3"]);
  });

  test("that no domain can satisfy is explained by domain", () => {
    expect(why(gang("g", 4, { gpus: 8 }, need("rack")))).toContain(
      "not enough resources for the workload in one rack: the rack with the most, b/r1, has resources for 3 of 4 pods",
    );
  });

  test("is pinned by the pods that run already, though another domain would be tighter", () => {
    const others = ["a2", "a3"].map((on, index) => pod(`x-${index}`, { gpus: 8, on, group: "x" }));
    const words = (on: string) => ({
      groups: [group("g", { minMember: 1, ...need("zone") }), group("x")],
      pods: [...others, pod("g-0", { gpus: 1, on, group: "g" }), pod("g-1", { gpus: 8, group: "g" })],
    });
    // Zone a has one node left.
    expect(placed(words("b1"))).toEqual(["b2"]);
    expect(
      placed({ ...words("b1"), pods: words("b1").pods.filter(({ metadata }) => metadata.name !== "g-0") }),
    ).toEqual(["a1"]);
  });

  test("may be named by its alias", () => {
    const aliased = {
      ...topology("t"),
      spec: { levels: [{ nodeLabel: "zone", alias: "area" }, { nodeLabel: "rack" }] },
    };
    expect(placed({ topologies: [aliased], ...gang("g", 3, { gpus: 8 }, need("area")) })).toHaveLength(3);
  });
});

describe("a preferred level", () => {
  test("is kept when it can be", () => {
    expect(placed(gang("g", 2, { gpus: 8 }, wish("rack")))).toEqual(["a1", "a2"]);
  });

  test("gives way to the required one, and without one to all nodes", () => {
    expect(placed(gang("g", 3, { gpus: 8 }, wish("rack", "zone")))).toEqual(["b1", "b2", "b3"]);
    expect(placed({ nodes: nodes.slice(0, 5), ...gang("g", 3, { gpus: 8 }, wish("rack", "zone")) })).toEqual([
      "a1",
      "a2",
      "a3",
    ]);
    expect(placed({ nodes: nodes.slice(0, 5), ...gang("g", 4, { gpus: 8 }, wish("rack", "zone")) })).toEqual([]);
    expect(placed(gang("g", 5, { gpus: 8 }, wish("rack")))).toHaveLength(5);
  });

  test("is widened level by level", () => {
    // No rack takes three; of the zones the second does, and the first and both together would too.
    const few = [at("a1", "a", "r1"), at("a2", "a", "r2"), at("a3", "a", "r3"), at("a4", "a", "r4")];
    const others = [at("b1", "b", "r1"), at("b2", "b", "r2"), at("b3", "b", "r3")];
    expect(placed({ nodes: [...few, ...others], ...gang("g", 3, { gpus: 8 }, wish("rack")) })).toEqual([
      "b1",
      "b2",
      "b3",
    ]);
  });

  test("packs a gang that does not fit one domain into few", () => {
    const spread = placed(gang("g", 4, { gpus: 8 }, wish("rack")));
    expect(new Set(spread.map((name) => (name === "a3" ? "a/r2" : `${name[0]}/r1`))).size).toBe(2);
  });
});

describe("subgroups", () => {
  test("are each in a domain of their own, inside that of the whole", () => {
    const subGroups = ["x", "y"].map((name) => ({
      name,
      minMember: 1,
      topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" },
    }));
    const pods = ["x", "y"].map((sub) => pod(sub, { gpus: 8, group: "g", subGroup: sub }));
    expect(placed({ groups: [group("g", { ...need("zone"), subGroups })], pods })).toHaveLength(2);
  });

  test("stay in the domain of the whole also when another would be tighter", () => {
    // Zone a has a rack of two nodes and one of one, zone b one of three: only b takes two pods of x and one of y in
    // one rack.
    const subGroups = [
      { name: "x", minMember: 2, topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } },
      { name: "y", minMember: 1, topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } },
    ];
    const pods = ["x", "x", "y"].map((sub, at) => pod(`${sub}${at}`, { gpus: 8, group: "g", subGroup: sub }));
    const zones = new Set(placed({ groups: [group("g", { ...need("zone"), subGroups })], pods }).map(([zone]) => zone));
    expect(zones.size).toBe(1);
    expect(placed({ groups: [group("g", { ...need("rack"), subGroups })], pods })).toEqual(["b1", "b2", "b3"]);
  });

  test("an alias names a level for them too", () => {
    const aliased = {
      ...topology("t"),
      spec: { levels: [{ nodeLabel: "zone" }, { nodeLabel: "rack", alias: "row" }] },
    };
    const subGroups = [
      { name: "x", minMember: 2, topologyConstraint: { topology: "t", requiredTopologyLevel: "row" } },
    ];
    const pods = [0, 1].map((at) => pod(`x${at}`, { gpus: 8, group: "g", subGroup: "x" }));
    expect(placed({ topologies: [aliased], groups: [group("g", { subGroups })], pods })).toEqual(["a1", "a2"]);
  });

  test("segments of workers each stay in one rack", () => {
    const subGroups = [0, 1].map((index) => ({
      name: `s${index}`,
      minMember: 2,
      topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" },
    }));
    const pods = [0, 1, 2, 3].map((index) =>
      pod(`w${index}`, { gpus: 8, group: "g", subGroup: `s${Math.floor(index / 2)}` }),
    );
    const result = outcome(decide(clusterWith({ nodes, topologies, groups: [group("g", { subGroups })], pods })));
    expect(result["w0"]?.[0]).toBe(result["w1"]?.[0]);
    expect(result["w2"]?.[0]).toBe(result["w3"]?.[0]);
  });
});

describe("a mistake is reported", () => {
  test.each([
    [
      "a topology that does not exist",
      { topologyConstraint: { topology: "nope", requiredTopologyLevel: "rack" } },
      "Topology nope does not exist",
      "create Topology nope, or name another",
      { topologyConstraint: { topology: "t", requiredTopologyLevel: "rack" } },
    ],
    [
      "a level that the topology does not have",
      need("row"),
      "Topology t has no level row; it has zone, rack",
      "set requiredTopologyLevel to one of zone, rack, or add level row to Topology t",
      need("rack"),
    ],
    [
      "a preferred level that the topology does not have",
      wish("row", "rack"),
      "Topology t has no level row; it has zone, rack",
      "set preferredTopologyLevel to one of zone, rack, or add level row to Topology t",
      wish("rack", "rack"),
    ],
    [
      "a preferred level wider than the required one",
      wish("zone", "rack"),
      "the preferred level zone is wider than the required level rack",
      "set preferredTopologyLevel to one of rack, or remove it",
      need("rack"),
    ],
  ])("%s, with what cures it", (_, spec, says, does, cured) => {
    expect(why(gang("g", 1, { gpus: 1 }, spec))).toBe(says);
    expect(cureOf(gang("g", 1, { gpus: 1 }, spec))).toBe(does);
    expect(placed(gang("g", 1, { gpus: 1 }, cured))).toHaveLength(1);
  });

  test("a topology whose labels no node has", () => {
    const words = { nodes: [node("plain")], ...gang("g", 1, { gpus: 1 }, need("rack")) };
    expect(why(words)).toBe("no node has the labels of all levels of the topology down to rack");
    expect(cureOf(words)).toBe("label nodes with all levels of the topology");
  });
});

describe("what would make a gang run that has to stay together", () => {
  const fixed = { preemptibility: "non-preemptible" } as const;
  const busyOn = (...where: string[]) => where.map((on) => pod(`x-${on}`, { gpus: 8, on, group: "x" }));
  const open = [queue("q", { resources: { gpu: { quota: -1, limit: -1, overQuotaWeight: 1 } } })];
  const words = (count: number, busy: string[], level = "rack") => {
    const { groups, pods } = gang("g", count, { gpus: 8 }, need(level));
    return { queues: open, groups: [...groups, group("x", fixed)], pods: [...busyOn(...busy), ...pods] };
  };

  test("room in one domain, where least has to become free", () => {
    expect(cureOf(words(3, ["a1", "b1", "b2", "a3"]))).toBe("it would fit with 16 more GPUs free on 2 nodes (b1, b2)");
    expect(placed(words(3, ["a1", "a3"]))).toEqual(["b1", "b2", "b3"]);
  });

  test("a wider level, where it would fit as things are", () => {
    expect(cureOf(words(3, ["b1"]))).toBe(
      "it would fit with 8 more GPUs free on b1, or set requiredTopologyLevel to zone instead of rack",
    );
    expect(placed(words(3, ["b1"], "zone"))).toEqual(["a1", "a2", "a3"]);
  });

  test("nodes, where no domain is large enough", () => {
    expect(cureOf(words(4, ["a1"]))).toBe("add nodes to the topology domain it needs");
  });

  test("room in the domain where it runs already, and in no other", () => {
    const joining = {
      queues: open,
      groups: [group("g", { minMember: 1, ...need("rack") }), group("x", fixed)],
      pods: [...busyOn("a2", "b1"), pod("g-0", { gpus: 8, on: "a1", group: "g" }), pod("g-1", { gpus: 8, group: "g" })],
    };
    expect(cureOf(joining)).toBe(
      "it would fit with 8 more GPUs free on a2, or set requiredTopologyLevel to zone instead of rack",
    );
  });
});

test("what is being released in a domain counts as its room, and the gang waits for it", () => {
  const going = [0, 1].map((index) =>
    pod(`old${index}`, { gpus: 8, on: `a${index + 1}`, group: "old", deletedMs: startMs + 3_600_000 }),
  );
  const few = [at("a1", "a", "r1"), at("a2", "a", "r1"), at("b1", "b", "r1")];
  const { groups, pods } = gang("g", 2, { gpus: 8 }, need("rack"));
  expect(placed({ nodes: few, groups: [...groups, group("old")], pods: [...pods, ...going] })).toEqual(["~a1", "~a2"]);
});

test("nodes without the labels are outside the topology", () => {
  expect(placed({ nodes: [node("plain"), at("a1", "a", "r1")], ...gang("g", 1, { gpus: 8 }, need("rack")) })).toEqual([
    "a1",
  ]);
});

test("nodes without the labels are outside the topology also where a level is only preferred", () => {
  const few = [node("plain"), at("a1", "a", "r1"), at("b1", "b", "r1")];
  expect(placed({ nodes: few, ...gang("g", 2, { gpus: 8 }, wish("rack")) })).toEqual(["a1", "b1"]);
  expect(placed({ nodes: few, ...gang("g", 3, { gpus: 8 }, wish("rack")) })).toEqual([]);
});

describe("a gang that others move to make room", () => {
  const fixed = { preemptibility: "non-preemptible" as const };
  const rock = (name: string, on: string) => gang(name, 1, { gpus: 4, on }, { queue: "theirs", ...fixed });
  const v = (spec: Parameters<typeof group>[1]) => ({
    groups: [group("v", { queue: "theirs", minMember: 2, ...spec })],
    pods: ["a1", "a2"].map((on, index) => pod(`v-${index}`, { gpus: 4, on, group: "v", subGroup: "s" })),
  });
  /**
   * Who goes when a pod of eight GPUs comes: of the same queue, so that others are moved together, or of one that takes
   * back what is its own.
   */
  const moved = (
    spec: Parameters<typeof group>[1],
    by: "consolidation" | "reclaim",
    { last = "r2", rocks = [rock("x", "a2"), rock("y", "a3")] } = {},
  ) => {
    const there = { nodeSelector: { "kubernetes.io/hostname": "a1" } } as never;
    const w = gang(
      "w",
      1,
      { gpus: 8, spec: there },
      by === "consolidation" ? { queue: "theirs" } : { queue: "mine", ...fixed },
    );
    const cluster = clusterWith({
      nodes: [at("a1", "a", "r1"), at("a2", "a", "r1"), at("a3", "a", last)],
      topologies,
      queues: [queue("mine", gpuBounds(8)), queue("theirs", gpuBounds(8 + 4 * rocks.length))],
      ...(by === "reclaim" && { settings: { consolidationJobsMax: 0 } }),
      ...together(v(spec), ...rocks, w),
    });
    const plan = decide(cluster);
    expect(plan.evictions.every(({ reason }) => reason.action === by)).toBe(true);
    return evicted(plan);
  };
  const inSubGroup = { subGroups: [{ name: "s", minMember: 2, ...need("rack") }] };

  describe.each(["consolidation", "reclaim"] as const)("by %s", (by) => {
    test("stays where no other place is in one domain with the rest of it", () => {
      expect(moved({}, by)).toEqual(["v-0"]);
      expect(moved(need("zone"), by)).toEqual(["v-0"]);
      expect(moved(need("rack"), by)).toEqual([]);
      expect(moved(inSubGroup, by)).toEqual([]);
    });

    test("moves inside its domain", () => {
      expect(moved(need("rack"), by, { last: "r1" })).toEqual(["v-0"]);
      expect(moved(inSubGroup, by, { last: "r1" })).toEqual(["v-0"]);
    });

    test("loses no pod beyond its minimum to another domain", () => {
      expect(moved({ minMember: 1 }, by)).toEqual(["v-0"]);
      expect(moved({ minMember: 1, ...need("rack") }, by)).toEqual([]);
    });

    test("moves as a whole to a domain that takes all of it", () => {
      expect(moved(need("rack"), by, { rocks: [rock("x", "a2")] })).toEqual(["v-0", "v-1"]);
    });
  });
});

test("a mixed gang is counted by its sums", () => {
  const words = {
    groups: [group("g", { minMember: 2, ...need("rack") })],
    pods: [pod("gpu", { gpus: 8, group: "g" }), pod("cpu", { group: "g" })],
  };
  expect(placed(words)).toHaveLength(2);
  // One of the largest in everything would fit twice into the rack, and there are three.
  const cpus = ["cpu1", "cpu2"].map((name) => pod(name, { group: "g" }));
  const three = {
    groups: [group("g", { minMember: 3, ...need("rack") })],
    pods: [pod("gpu", { gpus: 8, group: "g" }), ...cpus],
  };
  expect(placed({ nodes: nodes.slice(0, 2), ...three })).toHaveLength(3);
});

test("a domain that was tried and did not fit keeps no placements", () => {
  // The first rack has room for both on one node, where they do not want to be together.
  const apart = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: "w" } } };
  const spec = { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } } } as never;
  const few = [at("a1", "a", "r1"), at("a2", "a", "r2"), at("a3", "a", "r2")];
  const words = gang("g", 2, { gpus: 4, labels: { app: "w" }, spec }, need("rack"));
  expect(placed({ nodes: few, ...words })).toEqual(["a2", "a3"]);
});

test("a gang of 512 pods of eight GPUs finds its 512 nodes", () => {
  const many = Array.from({ length: 512 }, (_, index) =>
    at(`n${String(index).padStart(3, "0")}`, `z${index % 4}`, `r${index % 32}`),
  );
  const cluster = clusterWith({ nodes: many, topologies, ...gang("g", 512, { gpus: 8 }, wish("rack")) });
  expect(Object.keys(outcome(decide(cluster)))).toHaveLength(512);
});

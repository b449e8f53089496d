import { describe, expect, test } from "vitest";
import {
  clusterWith,
  decide,
  gang,
  group,
  node,
  outcome,
  pod,
  startMs,
  together,
  topology,
} from "../../../testing/decide/scheduleCluster.ts";

const likes = (label: string, weight = 1) =>
  ({
    affinity: {
      podAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight,
            podAffinityTerm: { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: label } } },
          },
        ],
      },
    },
  }) as never;

describe("of two nodes", () => {
  const friend = { groups: [group("f")], pods: [pod("f", { on: "n2", group: "f", labels: { app: "db" } })] };

  test("the one with pods that the pod's affinity prefers is better than the one that is fuller", () => {
    const full = gang("x", 1, { gpus: 4, on: "n1" });
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(friend, full, gang("a", 1, { gpus: 1, spec: likes("db") })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("the nominated one is better than the one that its affinity prefers", () => {
    const status = { nominatedNodeName: "n1" } as never;
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(friend, gang("a", 1, { gpus: 1, spec: likes("db"), status })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n1" });
  });

  test("the one where nothing has to be waited for is better than the fuller one", () => {
    const going = gang("x", 1, { gpus: 8, on: "n1", deletedMs: startMs + 3_600_000 });
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(going, gang("a", 1, { gpus: 1 })),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("a shared GPU with room is better than one where a pod without GPUs would go", () => {
    const cluster = clusterWith({
      nodes: [node("n1"), node("n2")],
      ...together(
        { groups: [group("s")], pods: [pod("s", { fraction: "0.5", on: "n2", group: "s", groups: ["g"] })] },
        gang("x", 1, { gpus: 7, on: "n1" }),
        gang("a", 1, { fraction: "0.5" }),
      ),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "n2" });
  });

  test("a node whose GPUs are for claims takes no share of one", () => {
    const cluster = clusterWith({ nodes: [node("dra", { gpus: 0 })], ...gang("a", 1, { fraction: "0.5" }) });
    cluster.setClaimGpus("dra", 8);
    expect(outcome(decide(cluster))).toEqual({});
  });
});

describe("what is worth more, in order:", () => {
  /** Two nodes of which each has one advantage; the first name would win a tie, so the winner has the second. */
  const wins = (words: Parameters<typeof clusterWith>[0]): string | undefined =>
    outcome(decide(clusterWith(words)))["a-000"];
  const racks = [node("n1", { labels: { rack: "r1" } }), node("n2", { labels: { rack: "r2" } })];
  const friend = (on: string) => ({
    groups: [group("f")],
    pods: [pod("f", { on, group: "f", labels: { app: "db" } })],
  });

  test("preferred pod affinity, before a GPU that is shared already", () => {
    const shared = { groups: [group("s")], pods: [pod("s", { fraction: "0.5", on: "n1", group: "s", groups: ["g"] })] };
    const wanted = gang("a", 1, { fraction: "0.5", spec: likes("db") });
    expect(wins({ nodes: racks, ...together(shared, friend("n2"), wanted) })).toBe("n2");
  });

  describe("for a gang that is too large for one rack", () => {
    const small = (name: string, rack: string) => node(name, { gpus: 1, labels: { rack } });
    const nodes = [small("n1", "r1"), small("n2", "r1"), small("n3", "r2"), small("n4", "r2")];
    const places = (words: Parameters<typeof clusterWith>[0]) =>
      outcome(decide(clusterWith({ nodes, topologies: [topology("t", "rack")], ...words })));
    const near = { topologyConstraint: { topology: "t", preferredTopologyLevel: "rack" } };
    const three = (prefersPods: boolean) => ({
      groups: [group("a", { minMember: 3, ...near })],
      pods: ["a-000", "a-001", "a-002"].map((name) =>
        pod(name, { gpus: 1, group: "a", ...(prefersPods && name === "a-001" && { spec: likes("db") }) }),
      ),
    });

    test("preferred pod affinity, before closeness to its own gang", () => {
      expect(places(together(friend("n3"), three(false)))).toEqual({ "a-000": "n1", "a-001": "n2", "a-002": "n3" });
      expect(places(together(friend("n3"), three(true)))).toEqual({ "a-000": "n1", "a-001": "n3", "a-002": "n2" });
    });

    test("closeness to its own gang, before a GPU that is shared already", () => {
      const shared = {
        groups: [group("s")],
        pods: [pod("s", { fraction: "0.5", on: "n3", group: "s", groups: ["g"] })],
      };
      const five = gang("a", 5, { fraction: "0.5" }, near);
      const words = { nodes: nodes.slice(0, 3), ...together(shared, five) };
      expect(Object.values(places(words))).toEqual(["n1", "n1", "n2", "n2", "n3"]);
    });
  });

  test("a GPU with room now, before one whose room is still being released", () => {
    const shared = {
      groups: [group("s")],
      pods: [
        pod("s", { fraction: "0.5", on: "n2", group: "s", groups: ["g"] }),
        // The other half is being released.
        pod("t", { fraction: "0.5", on: "n2", group: "s", groups: ["g"], deletedMs: startMs + 3_600_000 }),
      ],
    };
    const nodes = [node("n1"), node("n2", { gpus: 1 })];
    const words = { nodes, ...together(shared, gang("a", 1, { fraction: "0.5" })) };
    expect(wins(words)).toBe("n1");
  });

  test("not having to wait, before a node without GPUs for a pod without", () => {
    const nodes = [node("n1", { gpus: 0, cpu: "2" }), node("n2", { cpu: "64" })];
    const going = gang("x", 1, { cpu: "2", on: "n1", deletedMs: startMs + 3_600_000 });
    expect(wins({ nodes, ...together(going, gang("a", 1, { cpu: "1" })) })).toBe("n2");
  });

  test("a node without GPUs for a pod without, before a fuller one", () => {
    const nodes = [node("n1", { cpu: "8" }), node("n2", { gpus: 0, cpu: "64" })];
    const full = gang("x", 1, { cpu: "6", on: "n1" });
    expect(wins({ nodes, ...together(full, gang("a", 1, { cpu: "1" })) })).toBe("n2");
  });

  test("a node without GPUs for pods without, also for many alike and for those with inter-pod affinity", () => {
    const nodes = [node("n1", { cpu: "16" }), node("n2", { gpus: 0, cpu: "64" })];
    const many = outcome(decide(clusterWith({ nodes, ...gang("a", 9, { cpu: "1" }, { minMember: 1 }) })));
    expect(Object.keys(many)).toHaveLength(9);
    expect(new Set(Object.values(many))).toEqual(new Set(["n2"]));
    expect(wins({ nodes, ...gang("a", 1, { spec: likes("nobody") }) })).toBe("n2");
  });

  test.each([
    ["the fuller one, by cores for a pod without GPUs", {}, { cpu: "32" }, "n2"],
    ["the emptier one where cores are spread", { cpuStrategy: "spread" as const }, { cpu: "32" }, "n1"],
    ["the fuller one, by GPUs for a pod with GPUs, whatever its cores", {}, { cpu: "1", gpus: 4 }, "n2"],
  ])("at last %s", (_, settings, busy, winner) => {
    const wanted = "gpus" in busy ? { gpus: 1 } : {};
    const other = "gpus" in busy ? gang("y", 1, { cpu: "40", on: "n1" }) : { groups: [], pods: [] };
    const words = { nodes: [node("n1"), node("n2")], settings };
    expect(wins({ ...words, ...together(gang("x", 1, { ...busy, on: "n2" }), other, gang("a", 1, wanted)) })).toBe(
      winner,
    );
  });
});

describe("what others do", () => {
  const dislikes = (label: string) => {
    const podAffinityTerm = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: label } } };
    const preferredDuringSchedulingIgnoredDuringExecution = [{ weight: 1, podAffinityTerm }];
    return { affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution } } } as never;
  };
  const there = { groups: [group("f")], pods: [pod("f", { gpus: 1, on: "n1", group: "f", labels: { app: "loud" } })] };

  test("a node with pods that the pod's anti-affinity would avoid is worse than an emptier one", () => {
    const nodes = [node("n1"), node("n2")];
    const go = (spec: never) =>
      outcome(decide(clusterWith({ nodes, ...together(there, gang("a", 1, { gpus: 1, spec })) })));
    expect(go(dislikes("nobody"))).toEqual({ "a-000": "n1" });
    expect(go(dislikes("loud"))).toEqual({ "a-000": "n2" });
    // Where nothing else is left it goes there all the same.
    const one = clusterWith({
      nodes: [node("n1")],
      ...together(there, gang("a", 1, { gpus: 1, spec: dislikes("loud") })),
    });
    expect(outcome(decide(one))).toEqual({ "a-000": "n1" });
  });

  test("pods that would rather be spread are, and go where they can when they cannot", () => {
    const spread = {
      maxSkew: 1,
      topologyKey: "zone",
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels: { app: "w" } },
    };
    const spec = { topologySpreadConstraints: [spread] } as never;
    const zone = (name: string, of: string, gpus: number) => node(name, { gpus, labels: { zone: of } });
    const go = (gpus: number) => {
      const nodes = [zone("n1", "a", 4), zone("n2", "b", gpus)];
      return Object.values(
        outcome(decide(clusterWith({ nodes, ...gang("a", 4, { gpus: 1, labels: { app: "w" }, spec }) }))),
      ).sort();
    };
    expect(go(4)).toEqual(["n1", "n1", "n2", "n2"]);
    expect(go(1)).toEqual(["n1", "n1", "n1", "n2"]);
  });
});

describe("a share of a GPU", () => {
  const going = { deletedMs: startMs + 30_000 };

  test("takes a GPU with room now before one with room later", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together(
        {
          groups: [group("s")],
          pods: [
            pod("s", { fraction: "0.9", on: "n1", group: "s", groups: ["full"], ...going }),
            pod("t", { fraction: "0.4", on: "n1", group: "s", groups: ["open"] }),
          ],
        },
        gang("a", 1, { fraction: "0.5" }),
      ),
    });
    expect(decide(cluster).jobs[0]?.binds[0]?.groups).toEqual(["open"]);
  });

  test("of several GPUs waits as a whole when one of them has room only later", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { gpus: 2 })],
      ...together(
        {
          groups: [group("s")],
          pods: [
            pod("s", { fraction: "0.9", on: "n1", group: "s", groups: ["full"], ...going }),
            pod("t", { fraction: "0.4", on: "n1", group: "s", groups: ["open"] }),
          ],
        },
        gang("a", 1, { fraction: "0.5", devices: 2 }),
      ),
    });
    expect(outcome(decide(cluster))).toEqual({ "a-000": "~n1" });
  });

  test("begins another GPU where a whole one is free, and waits for one that is being released", () => {
    const busy = (deletedMs?: number) => ({
      groups: [group("w")],
      pods: [pod("w", { gpus: 1, on: "n1", group: "w", ...(deletedMs !== undefined && { deletedMs }) })],
    });
    const on = (gpus: number, deletedMs?: number) =>
      outcome(
        decide(
          clusterWith({
            nodes: [node("n1", { gpus })],
            ...together(busy(deletedMs), gang("a", 1, { fraction: "0.5" })),
          }),
        ),
      );
    expect(on(2)).toEqual({ "a-000": "n1" });
    expect(on(1, startMs + 30_000)).toEqual({ "a-000": "~n1" });
    expect(on(1)).toEqual({});
  });

  test("is not put beside a whole GPU pod, and a whole GPU is not taken from those that share it", () => {
    const sharing = {
      groups: [group("s")],
      pods: [pod("s", { fraction: "0.1", on: "n1", group: "s", groups: ["g"] })],
    };
    const one = [node("n1", { gpus: 1 })];
    expect(outcome(decide(clusterWith({ nodes: one, ...together(sharing, gang("a", 1, { gpus: 1 })) })))).toEqual({});
    const whole = gang("w", 1, { gpus: 1, on: "n1" });
    expect(outcome(decide(clusterWith({ nodes: one, ...together(whole, gang("a", 1, { fraction: "0.1" })) })))).toEqual(
      {},
    );
  });
});

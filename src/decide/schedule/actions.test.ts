import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  clusterWith,
  gang,
  gpuBounds,
  node,
  type PodFields,
  queue,
  startMs,
  together,
} from "../../../testing/decide/scheduleCluster.ts";
import type { PodGroupSpec } from "../../model/scheduling/podGroup.ts";
import { cycle, type Plan } from "./cycle.ts";
import type { ActionName, Settings } from "./settings.ts";

/** What every action asks before it looks at a job, and what it remembers of those that failed. */

const nowMs = startMs + 60_000;
const all = ["allocate", "consolidation", "reclaim", "preempt"] as const;
type Looking = (typeof all)[number];

interface Change {
  readonly spec?: PodGroupSpec & { createdMs?: number };
  readonly words?: PodFields;
  readonly settings?: Partial<Settings>;
  /** Jobs of the same queue before it. */
  readonly before?: ReturnType<typeof gang>;
  readonly pods?: number;
}

/** A cluster in which job `m` is served by the one action and by no other. */
const scenes: Readonly<Record<Looking, (change: Change) => ClusterFields>> = {
  allocate: (change) => ({ queues: [queue("q", gpuBounds(8))], ...together(...jobs(change, { gpus: 1 })) }),
  consolidation: (change) => ({
    nodes: [node("n1"), node("n2")],
    queues: [queue("q", gpuBounds(16))],
    ...together(gang("a", 1, { gpus: 5, on: "n1" }), gang("b", 1, { gpus: 3, on: "n2" }), ...jobs(change, { gpus: 8 })),
  }),
  reclaim: (change) => ({
    queues: [queue("q", gpuBounds(4)), queue("theirs", gpuBounds(4))],
    ...together(
      ...Array.from({ length: 8 }, (_, at) => gang(`t${at}`, 1, { gpus: 1, on: "n1" }, { queue: "theirs" })),
      ...jobs(change, { gpus: 1 }),
    ),
  }),
  preempt: (change) => ({
    queues: [queue("q", gpuBounds(8))],
    ...together(
      gang("low", 8, { gpus: 1, on: "n1" }, { minMember: 1 }),
      ...jobs({ ...change, spec: { priorityClassName: "build-preemptible", ...change.spec } }, { gpus: 1 }),
    ),
  }),
};

function jobs({ spec, words, before, pods = 1 }: Change, usual: PodFields): ReturnType<typeof gang>[] {
  const job = gang("m", pods, { ...usual, ...words }, spec);
  return before === undefined ? [job] : [before, job];
}

function plan(action: Looking, change: Change): Plan {
  const actions: ActionName[] = action === "allocate" ? ["allocate"] : ["allocate", action];
  return cycle(clusterWith({ ...scenes[action](change), settings: { actions, ...change.settings } }), nowMs);
}

const serves = (action: Looking, change: Change): boolean =>
  plan(action, change).jobs.some(({ job, action: by }) => job.name === "m" && by === action);

describe.each(all)("%s", (action) => {
  const isEvicting = action !== "allocate";

  test("serves a job that waits", () => {
    expect(serves(action, {})).toBe(true);
  });

  test("does not look at a job without pods", () => {
    expect(serves(action, { pods: 0, spec: { minMember: 0 } })).toBe(false);
  });

  test("does not look at a job whose pods do not all exist", () => {
    expect(serves(action, { spec: { minMember: 2 } })).toBe(false);
  });

  test(`${action === "consolidation" ? "does not serve" : "serves"} a job that cannot be evicted itself`, () => {
    expect(serves(action, { spec: { preemptibility: "non-preemptible" } })).toBe(action !== "consolidation");
  });

  test(`${isEvicting ? "waits for" : "does not wait for"} the end of a job's delay`, () => {
    expect(serves(action, { spec: { preemptionDelay: "5m" } })).toBe(!isEvicting);
    expect(serves(action, { spec: { preemptionDelay: "30s" } })).toBe(true);
  });

  test("looks at no more jobs of a queue than its depth", () => {
    const priorityClassName = "build-preemptible";
    const nowhere = { nodeSelector: { zone: "nowhere" } } as never;
    const before = gang("first", 1, { gpus: 1, spec: nowhere }, { createdMs: startMs - 9000, priorityClassName });
    const spec = { priorityClassName };
    expect(serves(action, { before, spec, settings: { queueDepth: { [action]: 2 } } })).toBe(true);
    expect(serves(action, { before, spec, settings: { queueDepth: { [action]: 1 } } })).toBe(false);
  });
});

describe.each(["consolidation", "reclaim", "preempt"] as const)("%s searches no victims", (action) => {
  const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "missing" } }];
  const containers = [{ name: "c", envFrom: [{ configMapRef: { name: "missing" } }], resources: { requests: {} } }];
  test.each<[string, PodFields]>([
    ["whose volume claim is missing", { spec: { volumes } as never }],
    ["whose ConfigMap is missing", { spec: { containers } as never }],
    ["with more GPUs than the largest node has", { gpus: 9 }],
    ["with more cores than the largest node has", { cpu: "65" }],
    ["with more memory than the largest node has", { memory: "513Gi" }],
    ["with annotations that make no sense", { gpus: 0, fraction: "7" }],
    ["whose nodeSelector matches no node", { spec: { nodeSelector: { zone: "nowhere" } } as never }],
  ])("for a job %s", (_, words) => {
    const actions: ActionName[] = ["allocate", action];
    const cluster = clusterWith({ ...scenes[action]({ words }), settings: { actions } });
    cluster.configMaps = new Set();
    const { searches, jobs: decided, evictions } = cycle(cluster, nowMs);
    expect([decided.length, evictions.length, searches.get(action)?.failed ?? 0]).toEqual([0, 0, 0]);
  });
});

describe("a job that asks for no less than one that failed", () => {
  /** Two jobs that nobody makes room for, alike but for what is said. */
  const searched = (
    action: Looking,
    second: { words?: PodFields; spec?: PodGroupSpec; first?: number } = {},
  ): number => {
    // The first may be so many pods, which ask for as much together.
    const { first = 1 } = second;
    const part = { gpus: 2 / first, cpu: String(1 / first), memory: `${1024 / first}Mi` };
    const stuck = { preemptibility: "non-preemptible" as const };
    const spec = { priorityClassName: "build-preemptible" };
    const cluster = clusterWith({
      nodes: [node("n1", { labels: { zone: "a" } })],
      queues: [queue("q", gpuBounds(4)), queue("r", gpuBounds(4)), queue("theirs", gpuBounds(8))],
      settings: { actions: ["allocate", action] },
      ...together(
        // Something of a lower priority that could go and would not be enough, and somebody who cannot go.
        ...["q", "r", "theirs"].map((name) => gang(`low-${name}`, 1, { on: "n1" }, { queue: name })),
        gang("rock", 8, { gpus: 1, on: "n1" }, { queue: "theirs", ...stuck }),
        gang("a", first, part, { ...spec, createdMs: startMs - 9 }),
        gang("b", 1, { gpus: 2, ...second.words }, { ...spec, ...second.spec }),
      ),
    });
    cluster.volumes.volumeClaims.set("default/data", {
      metadata: { name: "data", namespace: "default" },
      spec: { volumeName: "pv" },
      status: { phase: "Bound" },
    } as never);
    return cycle(cluster, nowMs).searches.get(action)?.failed ?? 0;
  };

  test.each([
    ["is not tried by reclaim", "reclaim", {}, 1],
    ["is not tried when it asks for more", "reclaim", { words: { gpus: 3 } }, 1],
    ["is tried when it asks for less", "reclaim", { words: { gpus: 1 } }, 2],
    ["is tried when as much is asked for by fewer pods", "reclaim", { first: 2 }, 2],
    ["is tried by reclaim in another queue", "reclaim", { spec: { queue: "r" } }, 2],
    ["is not tried by preemption", "preempt", {}, 1],
    ["is tried by preemption in another queue", "preempt", { spec: { queue: "r" } }, 2],
  ] as const)("%s", (_, action, second, count) => {
    expect(searched(action, second)).toBe(count);
  });

  test("is not tried by consolidation in any queue", () => {
    const scattered = (queueName: string): number => {
      const cluster = clusterWith({
        nodes: [node("n1"), node("n2")],
        queues: [queue("q", gpuBounds(16)), queue("r", gpuBounds(16))],
        settings: { actions: ["allocate", "consolidation"] },
        ...together(
          // Both halves are too large to move.
          gang("x", 1, { gpus: 5, on: "n1" }),
          gang("y", 1, { gpus: 5, on: "n2" }),
          gang("a", 1, { gpus: 4 }, { createdMs: startMs - 9 }),
          gang("b", 1, { gpus: 4 }, { queue: queueName }),
        ),
      });
      return cycle(cluster, nowMs).searches.get("consolidation")?.failed ?? 0;
    };
    expect(scattered("q")).toBe(1);
    expect(scattered("r")).toBe(1);
  });

  const spread = {
    maxSkew: 1,
    topologyKey: "zone",
    whenUnsatisfiable: "ScheduleAnyway",
    labelSelector: { matchLabels: { app: "x" } },
  };
  const likes = (kind: "podAffinity" | "podAntiAffinity") => ({
    affinity: {
      [kind]: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, podAffinityTerm: { topologyKey: "zone", labelSelector: { matchLabels: { app: "x" } } } },
        ],
      },
    },
  });
  const requests = { cpu: "1", memory: "1Gi", "nvidia.com/gpu": "2" };
  const port = { containers: [{ name: "m", ports: [{ hostPort: 80, containerPort: 80 }], resources: { requests } }] };
  test.each<[string, { words?: PodFields; spec?: PodGroupSpec }]>([
    ["node selector", { words: { spec: { nodeSelector: { zone: "a" } } as never } }],
    [
      "node affinity",
      {
        words: {
          spec: {
            affinity: {
              nodeAffinity: {
                requiredDuringSchedulingIgnoredDuringExecution: {
                  nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "Exists" }] }],
                },
              },
            },
          } as never,
        },
      },
    ],
    ["pod affinity", { words: { spec: likes("podAffinity") as never } }],
    ["pod anti-affinity", { words: { spec: likes("podAntiAffinity") as never } }],
    ["toleration", { words: { spec: { tolerations: [{ key: "k", operator: "Exists" }] } as never } }],
    ["spread over zones", { words: { spec: { topologySpreadConstraints: [spread] } as never } }],
    ["port of the node", { words: { spec: port as never } }],
    [
      "volume claim",
      { words: { spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }] } as never } },
    ],
    ["priority", { spec: { priorityClassName: "train" } }],
    ["preemptibility", { spec: { preemptibility: "non-preemptible" } }],
    ["topology", { spec: { topologyConstraint: { topology: "t", preferredTopologyLevel: "zone" } } }],
  ])("but has another %s is tried", (_, second) => {
    expect(searched("reclaim", second)).toBe(2);
  });

  test("but has another structure of subgroups is tried", () => {
    expect(searched("reclaim", { spec: { subGroups: [{ name: "s", minMember: 1 }] }, words: { subGroup: "s" } })).toBe(
      2,
    );
  });

  test("is tried again in the next cycle", () => {
    const words = scenes.reclaim({ spec: {} });
    const cluster = clusterWith({ ...words, queues: [queue("q", gpuBounds(4)), queue("theirs", gpuBounds(8))] });
    const failed = () => cycle(cluster, nowMs).searches.get("reclaim")?.failed;
    expect([failed(), failed()]).toEqual([1, 1]);
  });
});

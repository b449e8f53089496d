import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  clusterWith,
  gang,
  group,
  node,
  type PodFields,
  pod,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import { cycle } from "../cycle.ts";
import { explain, whyEvicted } from "./explain.ts";
import { answerWhy } from "./report.ts";
import { sentenceOf, type Verdict } from "./verdict.ts";

const nowMs = startMs + 60_000;

function verdicts(words: ClusterFields): Record<string, Verdict> {
  const found: Record<string, Verdict> = {};
  cycle(clusterWith(words), nowMs, (session) => {
    for (const [job, obstacle] of session.obstacles) found[job.name] = explain(session, job, obstacle);
  });
  return found;
}

const portOf = (hostPort: number) =>
  ({ containers: [{ name: "c", ports: [{ hostPort, containerPort: hostPort }], resources: {} }] }) as never;

const only = (words: ClusterFields): Verdict => Object.values(verdicts(words))[0] as Verdict;

describe("the reason of a job that waits", () => {
  test("the limit of a queue, with its numbers and what would be enough", () => {
    const limited = queue("q", { resources: { gpu: { quota: 0, limit: 2, overQuotaWeight: 1 } } });
    const { reason, message, cure, queueDetails } = only({ queues: [limited], ...gang("a", 1, { gpus: 3 }) });
    expect(reason).toBe("OverLimit");
    expect(message).toBe("queue q has reached its limit of gpu: the limit is 2, 0 are in use, 3 more are requested");
    // It asks for more than the limit: no end of others helps.
    expect(cure).toBe("raise the gpu limit of queue q to 3");
    expect(queueDetails).toMatchObject({
      name: "q",
      queueResourceLimits: { "nvidia.com/gpu": "2" },
      podGroupRequestedResources: { "nvidia.com/gpu": "3" },
    });
  });

  test("the quota of a queue, for work that cannot be evicted", () => {
    const quota = queue("q", { resources: { gpu: { quota: 1, limit: -1, overQuotaWeight: 1 } } });
    const verdict = only({ queues: [quota], ...gang("a", 1, { gpus: 2 }, { preemptibility: "non-preemptible" }) });
    expect(verdict.reason).toBe("NonPreemptibleOverQuota");
    expect(sentenceOf(verdict)).toContain("use a preemptible workload");
  });

  test("pods that do not exist yet, by subgroup", () => {
    const subGroups = [
      { name: "head", minMember: 1 },
      { name: "workers", minMember: 3 },
    ];
    const { reason, message } = only({
      groups: [group("a", { subGroups })],
      pods: [pod("h", { group: "a", subGroup: "head" }), pod("w", { group: "a", subGroup: "workers" })],
    });
    expect(reason).toBe("NotReady");
    expect(message).toBe("subgroup workers waits for 3 pods, 1 exist");
  });

  describe("pods of a subgroup that is not complete, while the job runs without it", () => {
    const of = (...subs: string[]) => ({
      groups: [
        group("a", {
          minSubGroup: 1,
          subGroups: [
            { name: "x", minMember: 2 },
            { name: "y", minMember: 3 },
            { name: "z", minMember: 1 },
          ],
        }),
      ],
      pods: [
        ...["x0", "x1"].map((name) => pod(name, { gpus: 1, on: "n1", group: "a", subGroup: "x" })),
        ...subs.map((subGroup, at) => pod(`p${at}`, { gpus: 1, group: "a", subGroup })),
      ],
    });

    test("with how many there are", () => {
      const { reason, message, cure } = only(of("y", "y"));
      expect(reason).toBe("NotReady");
      expect(message).toBe("subgroup y waits for 3 pods, 2 exist");
      expect(cure).toBe("it starts when the missing pods exist and are not gated");
      expect(verdicts(of("y", "y", "y"))).toEqual({});
      expect(answerWhy(clusterWith(of("y", "y")), "a", nowMs)[0]).toMatchObject({ reason, message });
    });

    test("also in a cycle in which another subgroup grows", () => {
      expect(only(of("y", "y", "x")).message).toBe("subgroup y waits for 3 pods, 2 exist");
    });

    test("also below a subgroup that is complete", () => {
      const subGroups = [
        { name: "top", minSubGroup: 1 },
        { name: "x", parent: "top", minMember: 2 },
        { name: "y", parent: "top", minMember: 3 },
      ];
      const words = of("y");
      expect(only({ ...words, groups: [group("a", { subGroups })] }).message).toBe(
        "subgroup y waits for 3 pods, 1 exist",
      );
    });

    test("and with them a pod of no subgroup", () => {
      expect(only(of("y", "y", "w")).message).toBe("pod default/p2 names subgroup w, and group a has x, y, z");
    });
  });

  test("a pod that is larger than any node", () => {
    const { message, cure } = only(gang("a", 1, { gpus: 9 }));
    expect(message).toBe("pod default/a-000 requests 9 GPUs, and the largest node has 8");
    expect(cure).toBe("request at most 8 GPUs, or add a node with 9");
  });

  test("a node selector that no node matches, with the values that nodes have", () => {
    const key = "nvidia.com/gpu.product";
    const nodes = ["a", "b"].map((name) => node(name, { labels: { [key]: `NVIDIA-${name.toUpperCase()}100` } }));
    const asks = (nodeSelector: Record<string, string>) =>
      only({ nodes, ...together(gang("x", 1, { gpus: 1, spec: { nodeSelector } as never })) }).cure;
    expect(asks({ [key]: "NVIDIA-Z100" })).toBe(
      `change the node selector ${key}=NVIDIA-Z100, or add nodes with that label: nodes have NVIDIA-A100, NVIDIA-B100`,
    );
    expect(asks({ rack: "r1" })).toBe(
      "change the node selector rack=r1, or add nodes with that label: no node has the label rack",
    );
  });

  test("nodes, counted by why they are refused", () => {
    const nodes = [
      node("full", { gpus: 1 }),
      node("tainted", { spec: { taints: [{ key: "k", effect: "NoSchedule" }] } }),
      node("cordoned", { spec: { unschedulable: true } }),
      node("other", { labels: { zone: "b" } }),
    ];
    const busy = {
      groups: [group("r", { preemptibility: "non-preemptible" })],
      pods: [pod("x", { gpus: 1, on: "full", group: "r" })],
    };
    const spec = {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "DoesNotExist" }] }],
          },
        },
      },
    } as never;
    const { message, cure } = only({ nodes, ...together(busy, gang("a", 1, { gpus: 1, spec })) });
    expect(message).toBe(
      "pod default/a-000 fits 0 of 4 nodes: 1 node(s) are not ready or cordoned, 1 node(s) do not have enough GPUs, 1 node(s) do not match its node selector or affinity, 1 node(s) have taints that it does not tolerate",
    );
    expect(cure).toBe("it would fit with 1 more GPUs free on full");
  });

  test.each<[string, Parameters<typeof node>[1], PodFields, string]>([
    ["GPUs", { gpus: 4 }, { gpus: 4 }, "do not have enough GPUs"],
    ["cores", { cpu: "64" }, { cpu: "40" }, "do not have enough CPU cores"],
    ["memory", { memory: "512Gi" }, { memory: "300Gi" }, "do not have enough memory"],
    [
      "a MIG profile",
      { gpus: 0, more: { "nvidia.com/mig-1g.5gb": "4" }, labels: { "nvidia.com/mig.strategy": "mixed" } },
      { requests: { "nvidia.com/mig-1g.5gb": "3" } },
      "do not have enough nvidia.com/mig-1g.5gb",
    ],
    [
      "another resource",
      { more: { "example.com/nic": "4" } },
      { requests: { "example.com/nic": "3" } },
      "do not have enough example.com/nic",
    ],
    ["slots for pods", { pods: 1 }, {}, "do not have enough pod slots"],
    ["a port", {}, { spec: portOf(80) }, "have a requested host port in use"],
    [
      "cores for the overhead alone",
      { cpu: "3" },
      { cpu: "1", spec: { overhead: { cpu: "1500m" } } as never },
      "do not have enough CPU cores for the pod's overhead",
    ],
  ])("nodes that lack %s", (_, nodeWords, words, says) => {
    const first = {
      groups: [group("r", { preemptibility: "non-preemptible" })],
      pods: [
        pod("x", {
          ...words,
          ...(words.spec !== undefined && "overhead" in words.spec && { cpu: "2", spec: {} }),
          on: "n1",
          group: "r",
        }),
      ],
    };
    const found = verdicts({ nodes: [node("n1", nodeWords)], ...together(first, gang("a", 1, words)) });
    expect(found["a"]?.message).toBe(`pod default/a-000 fits 0 of 1 nodes: 1 node(s) ${says}`);
  });

  test("nodes by name, where a shard wants to see them", () => {
    const nodes = ["n2", "n1"].map((name) => node(name, { spec: { unschedulable: true } }));
    const settings = { showsNodesInErrors: true };
    const { message } = only({ nodes: [...nodes, node("n3", { gpus: 1 })], settings, ...gang("a", 1, { gpus: 8 }) });
    expect(message).toContain("n1, n2 are not ready or cordoned");
  });

  test("volumes of another zone", () => {
    const cluster = clusterWith({
      nodes: [node("n1", { labels: { "topology.kubernetes.io/zone": "a" } })],
      ...gang("a", 1, { spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }] } as never }),
    });
    cluster.volumes.volumeClaims.set("default/data", {
      metadata: { name: "data" },
      spec: { volumeName: "pv" },
      status: { phase: "Bound" },
    } as never);
    cluster.volumes.volumes.set("pv", {
      metadata: { name: "pv", labels: { "topology.kubernetes.io/zone": "b" } },
      spec: {},
    } as never);
    cycle(cluster, nowMs, (session) => {
      for (const [job, obstacle] of session.obstacles) {
        expect(explain(session, job, obstacle).message).toContain("1 node(s) are ruled out by volume zone");
      }
      expect(session.obstacles.size).toBe(1);
    });
  });

  test.each([
    [
      "a queue that does not exist",
      [queue("other")],
      "queue q does not exist. To run: create queue q, or name another",
      [queue("other"), queue("q")],
    ],
    [
      "a queue without its parent",
      [queue("q", { parentQueue: "no" })],
      "queue q is not in the tree of queues: queue q names the parent no, which does not exist. To run: create queue no, or set parentQueue of queue q to an existing queue",
      [queue("q", { parentQueue: "no" }), queue("no")],
    ],
    [
      "a queue whose parent has no parent",
      [queue("q", { parentQueue: "mid" }), queue("mid", { parentQueue: "no" })],
      "queue q is not in the tree of queues: queue mid names the parent no, which does not exist. To run: create queue no, or set parentQueue of queue mid to an existing queue",
      [queue("q", { parentQueue: "mid" }), queue("mid", { parentQueue: "no" }), queue("no")],
    ],
    [
      "a queue that is its own parent",
      [queue("q", { parentQueue: "q" })],
      "queue q is not in the tree of queues: queue q is its own parent. To run: remove parentQueue of queue q, or name another",
      [queue("q")],
    ],
    [
      "queues whose parents form a cycle",
      [queue("q", { parentQueue: "b" }), queue("b", { parentQueue: "q" })],
      "queue q is not in the tree of queues: the parents of queue q form a cycle (q, b, q). To run: remove parentQueue of queue b, or name another",
      [queue("q", { parentQueue: "b" }), queue("b")],
    ],
    [
      "a queue below queues whose parents form a cycle",
      [queue("q", { parentQueue: "b" }), queue("b", { parentQueue: "c" }), queue("c", { parentQueue: "b" })],
      "queue q is not in the tree of queues: the parents of queue b form a cycle (b, c, b). To run: remove parentQueue of queue b, or name another",
      [queue("q", { parentQueue: "b" }), queue("b"), queue("c", { parentQueue: "b" })],
    ],
  ])("%s", (_, queues, says, cured) => {
    const verdict = only({ queues, ...gang("a", 1, {}) });
    const exists = queues.some(({ metadata }) => metadata.name === "q");
    expect(verdict.reason).toBe(exists ? "QueueTakesNoPods" : "QueueDoesNotExist");
    expect(sentenceOf(verdict)).toBe(says);
    expect(verdicts({ queues: cured, ...gang("a", 1, {}) })).toEqual({});
  });

  test("a queue with child queues takes no pods", () => {
    const queues = [queue("q"), queue("r", { parentQueue: "q" })];
    const { reason, message } = only({ queues, ...gang("a", 1, {}) });
    expect(reason).toBe("QueueTakesNoPods");
    expect(message).toContain("queue q has child queues; only queues without children take workloads");
    expect(verdicts({ queues, ...gang("a", 1, {}, { queue: "r" }) })).toEqual({});
  });

  test("a group without a queue", () => {
    const verdict = only({ ...gang("a", 1, {}, { queue: "" }) });
    expect(sentenceOf(verdict)).toBe("PodGroup default/a names no queue. To run: set spec.queue of PodGroup default/a");
  });

  test("the queue above whose limit is reached, by its name", () => {
    const top = queue("top", { resources: { gpu: { quota: 0, limit: 1, overQuotaWeight: 1 } } });
    const { message } = only({ queues: [top, queue("q", { parentQueue: "top" })], ...gang("a", 1, { gpus: 2 }) });
    expect(message).toContain("queue top has reached its limit of gpu");
  });

  test.each([
    [
      "cpu",
      1000,
      "the limit is 1000 millicores, 0 millicores are in use, 2000 millicores more",
      2000,
      "raise the cpu limit of queue q to 2000 millicores",
    ],
    [
      "memory",
      2000,
      "the limit is 2000 MB, 0 MB are in use, 4295 MB more",
      4295,
      "raise the memory limit of queue q to 4295 MB",
    ],
  ] as const)("the limit of a queue of %s is told in the unit of its field", (name, limit, says, enough, does) => {
    const limited = (value: number) =>
      queue("q", { resources: { [name]: { quota: 0, limit: value, overQuotaWeight: 1 } } });
    const words = gang("a", 1, { cpu: "2", memory: "4Gi" });
    const { reason, message, cure } = only({ queues: [limited(limit)], ...words });
    expect(reason).toBe("OverLimit");
    expect(message).toContain(says);
    expect(cure).toBe(does);
    expect(verdicts({ queues: [limited(enough)], ...words })).toEqual({});
    expect(verdicts({ queues: [limited(enough - 1)], ...words })).not.toEqual({});
  });

  test("every bound that has to be raised, of the queue and of those above it, and room that is missing besides", () => {
    const bound = (limit: number) => ({ quota: 0, limit, overQuotaWeight: 1 });
    const queues = [
      queue("top", { resources: { gpu: bound(4) } }),
      queue("q", { parentQueue: "top", resources: { gpu: bound(2), cpu: bound(1000) } }),
    ];
    const raised =
      "raise the gpu limit of queue q to 8 and raise the cpu limit of queue q to 2000 millicores and raise the gpu limit of queue top to 8";
    const words = gang("a", 1, { gpus: 8, cpu: "2" });
    expect(only({ queues, ...words }).cure).toBe(raised);
    expect(only({ queues, nodes: [node("n1", { spec: { unschedulable: true } })], ...words }).cure).toBe(
      `${raised}; no node has enough free resources either: it would fit with n1 uncordoned`,
    );
  });

  test("waiting for others only helps a job that fits into the bound", () => {
    const limited = queue("q", { resources: { gpu: { quota: 4, limit: 4, overQuotaWeight: 1 } } });
    const fixed = { preemptibility: "non-preemptible" } as const;
    const busy = gang("r", 1, { gpus: 3, on: "n1" }, fixed);
    expect(only({ queues: [limited], ...together(busy, gang("a", 1, { gpus: 2 })) }).cure).toBe(
      "raise the gpu limit of queue q to 5, or wait until its workloads end",
    );
    expect(only({ queues: [limited], ...together(busy, gang("a", 1, { gpus: 2 }, fixed)) }).cure).toBe(
      "raise the gpu limit of queue q to 5 and raise the gpu quota of queue q to 5, or wait until its workloads end",
    );
  });

  test("no limit is too low for what no GPU and no node could give", () => {
    const limited = queue("q", { resources: { gpu: { quota: 0, limit: 2, overQuotaWeight: 1 } } });
    expect(sentenceOf(only({ queues: [limited], ...gang("a", 1, { gpuMemory: "999999999" }) }))).toBe(
      "pod default/a-000 requests 999999999 MiB of GPU memory, and the largest GPU has 80000. To run: request at most 80000 MiB",
    );
    expect(only({ queues: [limited], ...gang("a", 1, { gpus: 9 }) }).message).toContain("the largest node has 8");
  });

  test("the time before which it may evict no pod", () => {
    const full = { groups: [group("r")], pods: [pod("x", { gpus: 8, on: "n1", group: "r" })] };
    const spec = { preemptionDelay: "5m", priorityClassName: "build-preemptible" };
    const { reason, message } = only(together(full, gang("a", 1, { gpus: 1 }, spec)));
    expect(reason).toBe("PreemptionDelayNotElapsed");
    expect(message).toContain("it may not preempt before 2026-01-01T00:05:00Z");
  });

  test("how many of a gang found a place, and why the next did not", () => {
    const { message } = only({ nodes: [node("n1"), node("n2")], ...gang("a", 3, { gpus: 8 }) });
    expect(message).toContain("group a needs places for 3 pods at once and 2 were found: the next, a-002, fits 0 of 2");
  });

  test("how many of a gang with subgroups found a place, and which subgroup the next one is of", () => {
    const subGroups = [
      { name: "head", minMember: 1 },
      { name: "workers", minMember: 3 },
    ];
    const member = (name: string, subGroup: string, gpus: number) => pod(name, { gpus, group: "a", subGroup });
    const words = {
      nodes: [node("n1", { gpus: 8 })],
      groups: [group("a", { subGroups })],
      pods: [member("h", "head", 1), ...[0, 1, 2].map((at) => member(`w${at}`, "workers", 3))],
    };
    expect(only(words).message).toBe(
      "group a needs places for 4 pods at once and 3 were found: the next, w2 of subgroup workers, fits 0 of 1 nodes: 1 node(s) do not have enough GPUs",
    );
    const constraint = { topologyConstraint: { topology: "nope", requiredTopologyLevel: "rack" } };
    const close = [group("a", { subGroups: [subGroups[0], { ...subGroups[1], ...constraint }] as never })];
    expect(only({ ...words, groups: close }).message).toBe(
      "group a needs places for 4 pods at once and 1 were found: subgroup workers: Topology nope does not exist",
    );
  });

  test("places of subgroups that were found before count, and what is missing is what is said", () => {
    const subGroups = [
      { name: "a", minMember: 4 },
      { name: "b", minMember: 4 },
    ];
    const member = (name: string, gpus: number, at: number) =>
      pod(`${name}${at}`, { gpus, group: "g", subGroup: name });
    const words = {
      nodes: [node("n1"), node("n2")],
      groups: [group("g", { subGroups })],
      pods: [0, 1, 2, 3].flatMap((at) => [member("a", 2, at), member("b", 4, at)]),
    };
    const { message, cure } = only(words);
    expect(message).toBe(
      "group g needs places for 8 pods at once and 6 were found: the next, b2 of subgroup b, fits 0 of 2 nodes: 2 node(s) do not have enough GPUs",
    );
    expect(cure).toBe("add nodes that match this pod: it would not fit any existing node even if the node were empty");
    expect(verdicts({ ...words, nodes: ["n1", "n2", "n3"].map((name) => node(name)) })).toEqual({});
  });

  test("what the group needs of subgroups that do not exist", () => {
    const subGroups = [{ name: "a", minMember: 1 }];
    const verdict = only({
      groups: [group("g", { subGroups, minSubGroup: 5 })],
      pods: [pod("p", { group: "g", subGroup: "a" })],
    });
    expect(sentenceOf(verdict)).toBe(
      "group g needs 5 of its subgroups (minSubGroup) and has 1. To run: set minSubGroup to 1 or less, or add subgroups",
    );
    const nested = [
      { name: "top", minSubGroup: 3 },
      { name: "a", parent: "top", minMember: 1 },
      { name: "b", parent: "top", minMember: 2 },
    ];
    const { message, cure } = only({
      groups: [group("g", { subGroups: nested })],
      pods: [pod("p", { group: "g", subGroup: "a" })],
    });
    expect(message).toBe("subgroup top needs 3 of its subgroups (minSubGroup) and has 2");
    expect(cure).toBe("set minSubGroup of subgroup top to 2 or less, or add subgroups");
  });

  test("subgroups that are each other's parents, which leave the group without any", () => {
    const subGroups = [
      { name: "a", parent: "b", minMember: 1 },
      { name: "b", parent: "a", minMember: 1 },
    ];
    const words = (groups: object[]) => ({
      groups: [group("cyc", { subGroups: groups as never })],
      pods: [pod("p", { group: "cyc", subGroup: "a" })],
    });
    expect(sentenceOf(only(words(subGroups)))).toBe(
      "the parents of subgroups a, b of group cyc form a cycle or do not exist. To run: set their parent to an existing subgroup that is not their descendant, or remove it",
    );
    const [first, second] = subGroups;
    expect(only(words([...subGroups, { name: "c", minMember: 1 }])).message).toContain("the parents of subgroups a, b");
    expect(only(words([{ ...second, parent: "nobody" }, first as object])).message).toContain("of subgroups b, a of");
    expect(only(words([{ name: "a" }, { name: "b" }])).message).toBe("subgroup b waits for 1 pods, 0 exist");
  });

  test("a subgroup that the group does not have", () => {
    const { message, cure } = only({
      groups: [group("a", { subGroups: [{ name: "head", minMember: 1 }] })],
      pods: [pod("p", { group: "a", subGroup: "tail" })],
    });
    expect(message).toBe("pod default/p names subgroup tail, and group a has head");
    expect(cure).toContain("kai.scheduler/subgroup-name");
  });

  test("what the quota of a queue was and is, for programs", () => {
    const fixed = queue("q", { resources: { gpu: { quota: 1, limit: -1, overQuotaWeight: 1 } } });
    const { queueDetails } = only({
      queues: [fixed],
      ...together(
        gang("r", 1, { gpus: 1, on: "n1" }, { preemptibility: "non-preemptible" }),
        gang("a", 1, { gpus: 2 }, { preemptibility: "non-preemptible" }),
      ),
    });
    expect(queueDetails).toMatchObject({
      name: "q",
      queueRequestedResources: { "nvidia.com/gpu": "3" },
      queueDeservedResources: { "nvidia.com/gpu": "1" },
      queueAllocatedResources: { "nvidia.com/gpu": "1" },
      queueAllocatedNonPreemptibleResources: { "nvidia.com/gpu": "1" },
      podGroupRequestedResources: { "nvidia.com/gpu": "2" },
      podGroupRequestedNonPreemptibleResources: { "nvidia.com/gpu": "2" },
    });
  });

  test("the cure of a problem does not depend on the name of its object", () => {
    const cluster = clusterWith(
      gang("a", 1, { spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "gpu-data" } }] } as never }),
    );
    cluster.volumes.volumeClaims.set("default/gpu-data", {
      metadata: { name: "gpu-data", namespace: "default", deletionTimestamp: "2026-01-01T00:00:00Z" },
    } as never);
    cycle(cluster, nowMs, (session) => {
      const [[job, obstacle]] = [...session.obstacles] as never as [[never, never]];
      expect(sentenceOf(explain(session, job, obstacle))).toBe(
        "pod default/a-000: PersistentVolumeClaim default/gpu-data is being deleted. To run: create PersistentVolumeClaim default/gpu-data again after its deletion",
      );
    });
  });

  test("a ConfigMap or a volume claim that does not exist", () => {
    const cluster = clusterWith(
      gang("a", 1, { spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }] } as never }),
    );
    cycle(cluster, nowMs, (session) => {
      const [[job, obstacle]] = [...session.obstacles] as never as [[never, never]];
      expect(explain(session, job, obstacle)).toMatchObject({
        message: "pod default/a-000: PersistentVolumeClaim default/data does not exist",
        cure: "create PersistentVolumeClaim default/data",
      });
    });
    const mapped = clusterWith(
      gang("b", 1, {
        spec: { containers: [{ name: "c", envFrom: [{ configMapRef: { name: "settings" } }] }] } as never,
      }),
    );
    mapped.configMaps = new Set();
    cycle(mapped, nowMs, (session) => {
      const [[job, obstacle]] = [...session.obstacles] as never as [[never, never]];
      expect(explain(session, job, obstacle).message).toContain("ConfigMap default/settings does not exist");
    });
  });

  test("annotations that make no sense", () => {
    expect(only(gang("a", 1, { fraction: "1.5" })).message).toContain('gpu-fraction is "1.5", not between 0 and 1');
    expect(only(gang("a", 1, { fraction: "NaN" })).message).toContain("not between 0 and 1");
    expect(only(gang("a", 1, { fraction: "0.5", gpus: 1 })).message).toContain("whole GPUs and a GPU share");
    expect(only(gang("a", 1, { gpuMemory: "-3" })).message).toContain("not a number of MiB");
  });

  test("a bind that was refused and waits", () => {
    const cluster = clusterWith(
      together(gang("a", 1, { gpus: 8 }, { createdMs: startMs - 1000 }), gang("b", 1, { gpus: 8 })),
    );
    cluster.backOffs.set("pod-default-a-000", {
      untilMs: nowMs + 5_000,
      why: "the bind to n1 was refused: no",
      times: 1,
    });
    const plan = cycle(cluster, nowMs, (session) => {
      const job = [...session.obstacles.keys()][0]!;
      expect(explain(session, job, session.obstacles.get(job)!)).toMatchObject({
        reason: "BindingRefused",
        message: "the bind to n1 was refused: no",
      });
    });
    // Others do not starve behind it, and it is looked at again in time.
    expect(plan.jobs.map(({ job }) => job.name)).toEqual(["b"]);
    expect(plan.wakeMs).toBe(nowMs + 5_000);
  });

  test("a gang needs so much more, checked by trying", () => {
    const busy = {
      groups: [group("r")],
      pods: [pod("x", { gpus: 6, on: "n1", group: "r" }), pod("y", { gpus: 1, on: "n2", group: "r" })],
    };
    const { cure } = only({ nodes: [node("n1"), node("n2")], ...together(busy, gang("a", 2, { gpus: 8 })) });
    expect(cure).toBe("it would fit with 7 more GPUs free on 2 nodes (n1, n2)");
  });

  test("a group with schedulingBackoff 1 had its one attempt", () => {
    const once = {
      ...group("a", { schedulingBackoff: 1 }),
      status: { schedulingConditions: [{ type: "UnschedulableOnNodePool", nodePool: "default" }] },
    };
    expect(only({ groups: [once], pods: [pod("p", { group: "a" })] }).message).toContain("had its one attempt");
    const elsewhere = {
      ...once,
      status: { schedulingConditions: [{ type: "UnschedulableOnNodePool", nodePool: "gold" }] },
    };
    expect(verdicts({ groups: [elsewhere], pods: [pod("p", { group: "a" })] })).toEqual({});
  });
});

describe("what would make a job run", () => {
  const hostAnti = (app: string) => ({
    affinity: {
      podAntiAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: [
          { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app } } },
        ],
      },
    },
  });
  const fixed = { preemptibility: "non-preemptible" } as const;
  const open = queue("q", { resources: { gpu: { quota: -1, limit: -1, overQuotaWeight: 1 } } });
  const cordoned = { spec: { unschedulable: true } };
  const taint = { key: "k", value: "v", effect: "NoSchedule" as const };
  const lonely = { labels: { app: "x" }, spec: hostAnti("x") as never };
  const gates = { containers: [{ name: "c", ports: [{ hostPort: 80, containerPort: 80 }], resources: {} }] };

  const cases: [string, ClusterFields, string, ClusterFields][] = [
    [
      "nodes uncordoned",
      { nodes: [node("n1", cordoned), node("n2", cordoned)], ...gang("a", 2, { gpus: 8 }) },
      "it would fit with 2 nodes (n1, n2) uncordoned",
      { nodes: [node("n1"), node("n2")] },
    ],
    [
      "as many nodes uncordoned as it needs, also with the taint that they get",
      {
        nodes: ["n1", "n2"].map((name) =>
          node(name, {
            spec: { unschedulable: true, taints: [{ key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }] },
          }),
        ),
        ...gang("a", 1, { gpus: 8 }),
      },
      "it would fit with n1 uncordoned",
      { nodes: [node("n1"), node("n2", cordoned)] },
    ],
    [
      "a node that is ready again",
      { nodes: [node("n1", { isReady: false })], ...gang("a", 1, { gpus: 8 }) },
      "it would fit with n1 ready",
      { nodes: [node("n1")] },
    ],
    [
      "a toleration",
      { nodes: [node("n1", { spec: { taints: [taint] } })], ...gang("a", 1, { gpus: 8 }) },
      "it would fit with a toleration of taint k=v:NoSchedule",
      { ...gang("a", 1, { gpus: 8, spec: { tolerations: [taint] } as never }) },
    ],
    [
      "a node uncordoned on which something becomes free too",
      {
        queues: [open],
        nodes: [node("n1", cordoned)],
        ...together(gang("r", 1, { gpus: 6, on: "n1" }, fixed), gang("a", 1, { gpus: 8 })),
      },
      "it would fit with n1 uncordoned and 6 more GPUs free on n1",
      { nodes: [node("n1")], ...gang("a", 1, { gpus: 8 }) },
    ],
    [
      "the pod gone that its anti-affinity keeps it away from",
      {
        queues: [open],
        nodes: [node("n1")],
        ...together(
          gang("busy", 3, { gpus: 1, on: "n1" }, fixed),
          gang("r", 1, { ...lonely, on: "n1" }, fixed),
          gang("a", 1, lonely),
        ),
      },
      "it would fit with default/r-000 deleted",
      { ...together(gang("busy", 3, { gpus: 1, on: "n1" }, fixed), gang("a", 1, lonely)) },
    ],
    [
      "the pod gone that does not want it near",
      {
        queues: [open],
        nodes: [node("n1")],
        ...together(gang("r", 1, { ...lonely, on: "n1" }, fixed), gang("a", 1, { labels: { app: "x" } })),
      },
      "it would fit with default/r-000 deleted",
      { ...gang("a", 1, { labels: { app: "x" } }) },
    ],
    [
      "the pod gone that has its port",
      {
        queues: [open],
        nodes: [node("n1")],
        ...together(
          gang("busy", 2, { gpus: 1, on: "n1" }, fixed),
          gang("r", 1, { spec: gates as never, on: "n1" }, fixed),
          gang("a", 1, { spec: gates as never }),
        ),
      },
      "it would fit with default/r-000 deleted",
      { ...together(gang("busy", 2, { gpus: 1, on: "n1" }, fixed), gang("a", 1, { spec: gates as never })) },
    ],
  ];
  test.each(cases)("%s", (_, words, says, cured) => {
    expect(verdicts(words)["a"]?.cure).toBe(says);
    expect(verdicts({ ...words, ...cured })["a"]).toBeUndefined();
  });

  test("pods of other namespaces are counted, and not named", () => {
    const port = { spec: gates as never };
    const strangers = ["n1", "n2"].map((on, at) => pod(`secret-${at}`, { namespace: "other", on, ...port }));
    const words = { queues: [open], nodes: ["n1", "n2"].map((name) => node(name)) };
    const cureOf = (size: number): string =>
      verdicts({ ...words, ...together({ groups: [], pods: strangers }, gang("a", size, port)) })["a"]?.cure ?? "";
    expect(cureOf(1)).toBe("it would fit with a pod of another namespace deleted");
    expect(cureOf(2)).toBe("it would fit with 2 pods of other namespaces deleted");
  });

  test("a gang as large as the cluster needs all of it, and the cluster is not too small", () => {
    const names = Array.from({ length: 70 }, (_, at) => `n${String(at).padStart(2, "0")}`);
    const busy = {
      groups: [group("r", fixed)],
      pods: names.map((name) => pod(`on-${name}`, { gpus: 8, on: name, group: "r" })),
    };
    const words = { queues: [open], nodes: names.map((name) => node(name)) };
    const { cure } = verdicts({ ...words, ...together(busy, gang("a", 70, { gpus: 8 })) })["a"] as Verdict;
    expect(cure).toBe("it would fit with 560 more GPUs free on 70 nodes (n00, n01, n02, ...)");
    expect(verdicts({ ...words, ...gang("a", 70, { gpus: 8 }) })).toEqual({});
    const more = verdicts({ ...words, ...together(busy, gang("a", 71, { gpus: 8 })) })["a"] as Verdict;
    expect(more.cure).toContain("add nodes that match this pod");
  });

  test("missing pod affinity is not cured by nodes", () => {
    const terms = [{ topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: "db" } } }];
    const affinity = { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms } };
    const words = gang("a", 1, { spec: { affinity } as never });
    expect(only(words).cure).toBe("run a pod that its pod affinity selects, on a node that this pod can use");
    expect(verdicts(together(words, gang("r", 1, { labels: { app: "db" }, on: "n1" })))).toEqual({});
  });

  test("what was tried has left nothing behind", () => {
    for (const [, words] of cases) {
      const cluster = clusterWith(words);
      cycle(cluster, nowMs, (session) => {
        for (const [job, obstacle] of session.obstacles) explain(session, job, obstacle);
      });
      cluster.assertCounts();
      const again: Record<string, string> = {};
      cycle(cluster, nowMs, (session) => {
        for (const [job, obstacle] of session.obstacles) again[job.name] = explain(session, job, obstacle).cure;
      });
      expect(again["a"]).toBe(verdicts(words)["a"]?.cure);
    }
  });
});

describe("an eviction message names", () => {
  const gpus = (quota: number) => ({ resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 } } });
  const why = (words: ClusterFields): string[] => cycle(clusterWith(words), nowMs).evictions.map(whyEvicted);

  test("the reclaiming job, and how both queues stand", () => {
    expect(
      why({
        nodes: [node("n1", { gpus: 2 })],
        queues: [queue("mine", gpus(1)), queue("theirs", { ...gpus(1), priority: 90 })],
        ...together(
          gang("t", 2, { gpus: 1, on: "n1" }, { queue: "theirs", minMember: 1 }),
          gang("m", 1, { gpus: 1 }, { queue: "mine" }),
        ),
      }),
    ).toEqual([
      "reclaimed by default/m of queue mine (0 GPUs in use, quota 1, fair share 1, priority 100) from queue theirs (2 GPUs in use, quota 1, fair share 1, priority 90)",
    ]);
  });

  test("both queues with what they had before anything was taken", () => {
    const standings = (...waiting: string[]) =>
      why({
        nodes: [node("n1", { gpus: 4 })],
        queues: [queue("mine", gpus(2)), queue("theirs", gpus(2))],
        ...together(
          gang("t", 4, { gpus: 1, on: "n1" }, { queue: "theirs", minMember: 1 }),
          ...waiting.map((name) => gang(name, waiting.length === 1 ? 2 : 1, { gpus: 1 }, { queue: "mine" })),
        ),
      }).map((text) =>
        [...text.matchAll(/by default\/(.)|(\d) GPUs in use/g)].map(([, by, has]) => by ?? has).join(" "),
      );
    expect(standings("m")).toEqual(["m 0 4", "m 0 4"]);
    // What one has got the next one sees.
    expect(standings("m", "n")).toEqual(["m 0 4", "n 1 3"]);
  });

  test("the preemptor and its higher priority", () => {
    const words = together(
      gang("low", 1, { gpus: 8, on: "n1" }),
      gang("high", 1, { gpus: 8 }, { priorityClassName: "build-preemptible" }),
    );
    expect(why(words)).toEqual(["preempted by default/high of higher priority (75)"]);
  });

  test("the job that the pod moves for", () => {
    const words = together(
      gang("a", 1, { gpus: 5, on: "n1" }),
      gang("b", 1, { gpus: 3, on: "n2" }),
      gang("wide", 1, { gpus: 8 }),
    );
    expect(why({ nodes: [node("n1"), node("n2")], ...words })).toEqual(["moved to make room for default/wide"]);
  });

  test("that its gang is too small to run", () => {
    const annotations = { "kai.scheduler/stale-podgroup-timestamp": "2025-12-31T00:00:00Z" };
    const words = { groups: [group("g", { minMember: 2, annotations })], pods: [pod("p", { on: "n1", group: "g" })] };
    expect(why(words)).toEqual(["group default/g runs fewer pods than its minimum for more than 60 s"]);
  });
});

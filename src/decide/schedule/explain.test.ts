import { describe, expect, test } from "vitest";
import { cycle } from "./cycle.ts";
import { explain, sentenceOf, type Verdict } from "./explain.ts";
import { gang, group, node, pod, queue, startMs, together, type WorldWords, world } from "./testCluster.ts";

const nowMs = startMs + 60_000;

function verdicts(words: WorldWords): Record<string, Verdict> {
  const found: Record<string, Verdict> = {};
  cycle(world(words), nowMs, (session) => {
    for (const [job, obstacle] of session.obstacles) found[job.name] = explain(session, job, obstacle);
  });
  return found;
}

const only = (words: WorldWords): Verdict => Object.values(verdicts(words))[0] as Verdict;

describe("the reason of a job that waits", () => {
  test("the limit of a queue, with its numbers and what would be enough", () => {
    const limited = queue("q", { resources: { gpu: { quota: 0, limit: 2, overQuotaWeight: 1 } } });
    const { reason, message, cure, queueDetails } = only({ queues: [limited], ...gang("a", 1, { gpus: 3 }) });
    expect(reason).toBe("OverLimit");
    expect(message).toBe("queue q has reached its limit of gpu: the limit is 2, 0 are in use, 3 more are asked for");
    expect(cure).toBe("raise the gpu limit of queue q to 3, or wait until its workloads end");
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

  test("a pod that is larger than any node", () => {
    const { message, cure } = only(gang("a", 1, { gpus: 9 }));
    expect(message).toBe("pod default/a-000 asks for 9 GPUs, and the largest node has 8");
    expect(cure).toBe("ask for at most 8 GPUs, or add a node with 9");
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
      "pod default/a-000 fits 0 of 4 nodes: 1 node(s) are not ready or cordoned, 1 node(s) do not match its node selector or affinity, 1 node(s) have not enough GPUs, 1 node(s) have taints that it does not tolerate",
    );
    expect(cure).toBe("1 more GPUs free on full would do");
  });

  test("a ConfigMap or a volume claim that is missing", () => {
    const cluster = world(
      gang("a", 1, { spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }] } as never }),
    );
    cycle(cluster, nowMs, (session) => {
      const [[job, obstacle]] = [...session.obstacles] as never as [[never, never]];
      expect(explain(session, job, obstacle)).toMatchObject({
        message: "pod default/a-000: PersistentVolumeClaim default/data does not exist",
        cure: "create PersistentVolumeClaim default/data",
      });
    });
    const mapped = world(
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
    expect(only(gang("a", 1, { fraction: "0.5", gpus: 1 })).message).toContain("whole GPUs and for a share");
    expect(only(gang("a", 1, { gpuMemory: "-3" })).message).toContain("not a number of MiB");
  });

  test("a bind that was refused and waits", () => {
    const cluster = world(
      together(gang("a", 1, { gpus: 8 }, { createdMs: startMs - 1000 }), gang("b", 1, { gpus: 8 })),
    );
    cluster.heldBack.set("pod-default-a-000", { untilMs: nowMs + 5_000, why: "the bind to n1 was refused: no" });
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
    expect(cure).toBe("7 more GPUs free on 2 nodes (n1, n2) would do");
  });

  test("one attempt was all it wanted", () => {
    const once = {
      ...group("a", { schedulingBackoff: 1 }),
      status: { schedulingConditions: [{ type: "UnschedulableOnNodePool", nodePool: "default" }] },
    };
    expect(only({ groups: [once], pods: [pod("p", { group: "a" })] }).message).toContain("had its one attempt");
  });
});

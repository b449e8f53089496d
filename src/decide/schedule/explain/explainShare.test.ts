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
import { explain } from "./explain.ts";
import { sentenceOf, type Verdict } from "./verdict.ts";

const open = [queue("q", { resources: { gpu: { quota: -1, limit: -1, overQuotaWeight: 1 } } })];
const fixed = { preemptibility: "non-preemptible" } as const;

function why(words: ClusterFields): Verdict | undefined {
  let found: Verdict | undefined;
  const cluster = clusterWith({ queues: open, ...words });
  cycle(cluster, startMs + 60_000, (session) => {
    for (const [job, obstacle] of session.obstacles) if (job.name === "f") found = explain(session, job, obstacle);
  });
  cluster.assertCounts();
  return found;
}

const asking = (words: PodFields) => gang("f", 1, words);
const half = asking({ fraction: "0.5" });
const user = (name: string, fraction: string, ...groups: string[]) => ({
  groups: [group(name, fixed)],
  pods: [pod(name, { fraction, groups, devices: groups.length, on: "n1", group: name })],
});
const whole = (name: string, gpus = 1) => gang(name, 1, { gpus, on: "n1" }, fixed);
const one = (more: Parameters<typeof node>[1] = {}) => [node("n1", { gpus: 1, gpuMemory: 10_000, ...more })];
const two = [node("n1", { gpus: 2, gpuMemory: 10_000 })];

describe("why a share waits", () => {
  test.each<[string, ClusterFields, string | undefined]>([
    ["a GPU is free", { nodes: one(), ...half }, undefined],
    ["a shared GPU has room", { nodes: one(), ...together(user("a", "0.5", "X"), half) }, undefined],
    ["a shared GPU has too little", { nodes: one(), ...together(user("a", "0.51", "X"), half) }, "NoGpuWithRoom"],
    ["a whole-GPU pod has it", { nodes: one(), ...together(whole("w"), half) }, "NoGpuWithRoom"],
    [
      "memory is a share of the node's",
      { nodes: one(), ...together(user("a", "0.5", "X"), asking({ gpuMemory: "6000" })) },
      "NoGpuWithRoom",
    ],
    [
      "memory that fits",
      { nodes: one(), ...together(user("a", "0.5", "X"), asking({ gpuMemory: "5000" })) },
      undefined,
    ],
    [
      "who shares two GPUs has its part of each",
      { nodes: two, ...together(user("a", "0.25", "X", "Y"), half) },
      undefined,
    ],
    [
      "who asks for two asks for its part of each",
      { nodes: two, ...together(user("a", "0.5", "X"), asking({ fraction: "0.6", devices: 2 })) },
      "NoGpuWithRoom",
    ],
    [
      "more memory than any GPU has is no matter of room",
      { nodes: one(), ...asking({ gpuMemory: "20000" }) },
      "PodSchedulingErrors",
    ],
    [
      "more GPUs than any node has are no matter of room",
      { nodes: one(), ...asking({ fraction: "0.5", devices: 2 }) },
      "PodSchedulingErrors",
    ],
    ["a new group needs two slots", { nodes: one({ pods: 1 }), ...half }, "NodeFull"],
    ["no slot is left", { nodes: one({ pods: 2 }), ...together(user("a", "0.5", "X"), half) }, "NodeFull"],
    [
      "a cordoned node is no matter of room",
      { nodes: one({ spec: { unschedulable: true } }), ...half },
      "PodSchedulingErrors",
    ],
    [
      "nor is one with partitions",
      { nodes: one({ labels: { "nvidia.com/mig.strategy": "mixed" } }), ...half },
      "PodSchedulingErrors",
    ],
    ["another node with room is enough", { nodes: [...one(), node("n2")], ...together(whole("w"), half) }, undefined],
  ])("%s", (_, words, reason) => {
    expect(why(words)?.reason).toBe(reason);
  });

  test("more GPUs than any node has: what there is, and what would do", () => {
    const words = (devices: number) => ({ nodes: [node("n1")], ...asking({ fraction: "0.5", devices }) });
    expect(sentenceOf(why(words(9)) as Verdict)).toBe(
      "pod default/f-000 requests shares of 9 GPUs of one node, and the largest node has 8. To run: request shares of at most 8 GPUs, or add a node with 9",
    );
    expect(why(words(8))).toBeUndefined();
  });
});

describe("what would make a share run", () => {
  test("other pods deleted, or a smaller request", () => {
    const others = together(user("a", "0.7", "X"), user("b", "0.2", "X"));
    const { message, cure } = why({ nodes: one(), ...together(others, half) }) as Verdict;
    expect(message).toBe(
      "pod default/f-000 requests 0.50 of a GPU, and no GPU has that: n1 has 1 GPUs, none of them free, and the most that a shared one has left is 0.10",
    );
    expect(cure).toBe("it would fit with default/a deleted, or request 0.10 or less");
    expect(why({ nodes: one(), ...together(user("b", "0.2", "X"), half) })).toBeUndefined();
    expect(why({ nodes: one(), ...together(others, asking({ fraction: "0.1" })) })).toBeUndefined();
    expect(why({ nodes: one(), ...together(others, asking({ fraction: "0.11" })) })).toBeDefined();
  });

  test("of several GPUs, what the last of them has left", () => {
    const others = together(user("a", "0.25", "X"), user("b", "0.6", "Y"));
    const asked = (fraction: string) => ({ nodes: two, ...together(others, asking({ fraction, devices: 2 })) });
    const { message, cure } = why(asked("0.8")) as Verdict;
    expect(message).toContain("requests 0.80 of each of 2 GPUs, and no node has 2 GPUs with that much free");
    expect(message).toContain("a shared one has left is 0.75");
    expect(cure).toBe("it would fit with default/a, default/b deleted, or request 0.40 or less");
    expect(why(asked("0.4"))).toBeUndefined();
    expect(why(asked("0.41"))?.reason).toBe("NoGpuWithRoom");
  });

  test("what the node of a roomy GPU lacks", () => {
    const busy = gang("w", 1, { cpu: "62", on: "n1" }, fixed);
    const words = { nodes: one(), ...together(busy, asking({ fraction: "0.5", cpu: "4" })) };
    expect(sentenceOf(why(words) as Verdict)).toBe(
      "pod default/f-000 requests 0.50 of a GPU, for which one node has room on a GPU, but n1 lacks 2 CPU cores. To run: free 2 CPU cores on n1, or add a node",
    );
    const slots = why({ nodes: one({ pods: 1 }), ...half }) as Verdict;
    expect(slots.message).toContain("n1 lacks 1 of 2 pod slots (1 for the pod, 1 for the reservation pod of its GPU)");
    // Nobody has the second one: it is not there.
    expect(slots.cure).toContain("add nodes that match this pod");
  });

  test("nodes that are closed are listed besides", () => {
    const closed = node("n2", { spec: { unschedulable: true } });
    const { message } = why({ nodes: [...one(), closed], ...together(whole("w"), half) }) as Verdict;
    expect(message).toContain("none of them shared; besides, 1 node(s) are not ready or cordoned");
  });
});

test("a share that no GPU of a node with a failed GPU can take reports that, and not missing memory", () => {
  const words = together(user("a", "0.2", "X"), user("b", "0.2", "Y"), half);
  const verdict = why({ nodes: one(), ...words });
  expect(verdict?.message).toContain("1 node(s) have a failed GPU: more are in use than exist");
  expect(verdict?.message).not.toContain("memory");
});

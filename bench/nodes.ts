import { fork } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childProgram } from "./childProgram.ts";
import type { Figure } from "./figure.ts";
import type { NodesBenchOptions, NodesBenchResult } from "./nodesProcess.ts";

const size = { nodes: 5_000, pods: 50_000 };
/** No call waits for a disk here: a controller that never yields starves the timers of the leases. */
const inMemory = { nodes: 1_000, pods: 10_000 };
/** A lease is renewed every ten seconds and runs out after forty. */
const renewals = {
  name: "longest between two renewals of a lease",
  unit: "s",
  target: { at: "most", value: 20 },
} as const;

/**
 * 5,000 simulated nodes with 50,000 pods on a durable server, in one process. KWOK's own gate stands beside the
 * figures.
 */
export async function* benchNodes(say: (text: string) => void): AsyncGenerator<Figure> {
  const dataDir = await mkdtemp(join(tmpdir(), "muster-bench-nodes-"));
  try {
    say(`${size.nodes} nodes, then ${size.pods} pods, durable`);
    const result = await inChild({ ...size, dataDir });
    yield* figures(result);
    say(`${inMemory.nodes} nodes, then ${inMemory.pods} pods, in memory`);
    const { runningSeconds, longestRenewalSeconds } = await inChild(inMemory);
    yield { name: "10,000 pods Running on 1,000 nodes, in memory", value: runningSeconds, unit: "s" };
    yield { ...renewals, name: `${renewals.name}, in memory`, value: longestRenewalSeconds };
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

function inChild(options: NodesBenchOptions): Promise<NodesBenchResult> {
  const program = childProgram("nodesProcess");
  const child = fork(program, ["measure", JSON.stringify(options)], { execArgv: ["--expose-gc"], stdio: "inherit" });
  return new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as NodesBenchResult));
    child.once("exit", (code) => reject(new Error(`the process of the benchmark ended with code ${code}`)));
  });
}

function* figures(result: NodesBenchResult): Generator<Figure> {
  const { nodes, pods } = size;
  yield {
    name: "5,000 nodes Ready, with leases and slices",
    value: result.readySeconds,
    unit: "s",
    target: { at: "most", value: 20 },
    beside: { name: "KWOK's gate", value: 60 },
  };
  yield {
    name: "50,000 pods Running, from the first create",
    value: result.runningSeconds,
    unit: "s",
    target: { at: "most", value: 60 - Math.min(59, result.readySeconds) },
    // 10,000 pods in 60 s.
    beside: { name: "KWOK's gate for as many", value: (pods / 10_000) * 60 },
  };
  yield { name: "processor time of the first", value: result.readyCpuSeconds, unit: "s" };
  yield { name: "processor time of the second", value: result.runningCpuSeconds, unit: "s" };
  yield {
    name: "pods from Pending to Running",
    value: pods / result.runningSeconds,
    unit: "pods/s",
    target: { at: "least", value: 500 },
    beside: { name: "KWOK's gate", value: 10_000 / 60 },
  };
  yield {
    name: "writes a pod, its creation included",
    value: result.writesPerPod,
    unit: "writes",
    target: { at: "most", value: 7 },
  };
  yield {
    name: "50,000 pods deleted",
    value: result.deletedSeconds,
    unit: "s",
    beside: { name: "KWOK's gate for as many", value: (pods / 10_000) * 90 },
  };
  yield {
    name: "memory with all of it, server included",
    value: result.rssBytes / 2 ** 20,
    unit: "MiB",
    target: { at: "most", value: 2048 },
  };
  yield { name: "heap of it", value: result.heapBytes / 2 ** 20, unit: "MiB" };
  yield { name: `share of a core while ${nodes} nodes are quiet`, value: result.idleCpuShare, unit: "cores" };
  yield { ...renewals, value: result.longestRenewalSeconds };
  yield { name: "pods that a node refused", value: result.refusedPods, unit: "pods", target: { at: "most", value: 0 } };
}

import { describe, expect, test } from "vitest";
import {
  type ClusterFields,
  gang,
  gpuBounds,
  node,
  queue,
  startMs,
  together,
} from "../../../../testing/decide/scheduleCluster.ts";
import { shippedPriorityClasses } from "../../../model/scheduling/podGroup.ts";
import type { ClusterObjects } from "../model/clusterOf.ts";
import { whyUnsupported } from "./newWorkloads.ts";
import { whatIf } from "./whatIf.ts";

const nowMs = startMs + 60_000;

function objects({ nodes = [node("n1")], queues = [queue("q", gpuBounds(8))], groups = [], pods = [] }: ClusterFields) {
  const priorityClasses = shippedPriorityClasses.map(({ name, value }) => ({
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name, uid: name, resourceVersion: "1", creationTimestamp: "" },
    value,
  }));
  const others = { requests: [], topologies: [], volumeClaims: [], volumes: [], classes: [] };
  const all: ClusterObjects = { nodes, queues, groups, pods, priorityClasses, ...others };
  return all;
}

const short = ({ workload, before, after, why }: { workload: string; before: number; after: number; why: string }) =>
  `${workload} ${before} -> ${after}${why === "" ? "" : `: ${why}`}`;

test("a node more starts the gang that waits for it, and the answer names no other workload", () => {
  const words = together(gang("a", 1, { gpus: 8, on: "n1" }), gang("b", 2, { gpus: 4 }));
  const answer = whatIf(objects(words), [], { nodes: [node("n2")] }, nowMs);
  expect(answer.starts.map(short)).toEqual(["b 0 -> 2"]);
  expect([answer.stops, answer.waits, answer.restarts, answer.isSettled]).toEqual([[], [], [], true]);
  expect(answer.queues.map(({ name, before, after }) => [name, before?.allocated, after?.allocated])).toEqual([
    ["q", "8", "16"],
  ]);
});

test("a drain ends pods without a controller, with the node as the reason", () => {
  const words = together(gang("a", 1, { gpus: 8, on: "n1" }), gang("b", 1, { gpus: 2, on: "n2" }));
  const answer = whatIf(objects({ ...words, nodes: [node("n1"), node("n2")] }), [], { drain: ["n1"] }, nowMs);
  expect(answer.stops.map(short)).toEqual(["a 1 -> 0: node n1 is drained"]);
  expect(answer.starts).toEqual([]);
});

test("a higher quota lets a queue reclaim, and the victim's reason names the reclaimer", () => {
  const queues = [queue("mine", gpuBounds(0)), queue("theirs", gpuBounds(8))];
  const words = together(
    gang("t", 1, { gpus: 8, on: "n1" }, { queue: "theirs" }),
    gang("m", 1, { gpus: 8 }, { queue: "mine" }),
  );
  const change = { queue: { name: "mine", gpu: { quota: 8 } } };
  expect(whatIf(objects({ ...words, queues }), [], change, nowMs).starts).toEqual([]);
  const shrunk = { queue: { name: "theirs", gpu: { quota: 0 } } };
  const both = objects({ ...words, queues: [queue("mine", gpuBounds(8)), queue("theirs", gpuBounds(8))] });
  const answer = whatIf(both, [], shrunk, nowMs);
  expect(answer.starts.map(short)).toEqual(["m 0 -> 1"]);
  expect(
    answer.stops.map(({ workload, why }) => [workload, /reclaimed by default\/m of queue mine/.test(why)]),
  ).toEqual([["t", true]]);
});

describe("a new workload", () => {
  const job = (gpus: string, parallelism: number) => ({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "new", labels: { "kai.scheduler/queue": "q" } },
    spec: {
      parallelism,
      template: {
        spec: {
          schedulerName: "kai-scheduler",
          containers: [{ name: "c", resources: { limits: { "nvidia.com/gpu": gpus } } }],
        },
      },
    },
  });

  test("starts as many pods as there is room for, with limits as requests", () => {
    const answer = whatIf(objects({}), [], { workloads: [job("4", 3)] }, nowMs);
    expect(answer.starts.map(short)).toEqual(["new 0 -> 2"]);
    expect(answer.waits.map(({ workload, why }) => [workload, why.includes("fits 0 of 1 nodes")])).toEqual([
      ["new", true],
    ]);
  });

  test("of a kind without known pods is refused with the kinds that can be expanded", () => {
    expect(whyUnsupported({ apiVersion: "v1", kind: "Service", metadata: { name: "s" } })).toMatch(
      /^it is a Service, and the supported kinds are Deployment, Job, Pod,/,
    );
  });
});

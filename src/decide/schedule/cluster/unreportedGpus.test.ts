/** A node offers its GPUs by a device plugin and as devices, and a pod has a GPU from the plugin that its node has not named yet. */
import { describe, expect, test } from "vitest";
import {
  decide,
  evicted,
  group,
  node,
  outcome,
  type PodFields,
  pod,
  queue,
  startMs,
} from "../../../../testing/decide/scheduleCluster.ts";
import { partly } from "../../../../testing/partly.ts";
import type { Pod, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { clusterOf } from "../model/clusterOf.ts";
import type { Cluster } from "./cluster.ts";

const nowMs = startMs + 60_000;
const anHourMs = 3_600_000;

/** Asks for one GPU by a claim. */
function claimer(name: string): Pod {
  const made = pod(name, { group: name });
  return { ...made, spec: { ...made.spec, resourceClaims: [{ name: "gpu", resourceClaimName: name }] } } as Pod;
}

/** Has one GPU from the plugin of n1; which one is not known. */
const unreported = (name: string, words: PodFields = {}): Pod =>
  pod(name, { gpus: 1, on: "n1", phase: "Pending", group: name, ...words });

function cluster(gpus: number, pods: readonly Pod[], priorities: Readonly<Record<string, string>> = {}): Cluster {
  const pool = { name: "n1", generation: 1, resourceSliceCount: 1 };
  const devices = Array.from({ length: gpus }, (_, at) => ({
    name: `d${at}`,
    attributes: { uuid: { string: `GPU-${at}` } },
  }));
  const claims = pods
    .filter(({ spec }) => spec?.resourceClaims !== undefined)
    .map(({ metadata: { name } }) =>
      partly<ResourceClaim>({
        metadata: { name, namespace: "default", uid: `claim-${name}`, labels: { "kai.scheduler/queue": "q" } },
        spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu", count: 1 } }] } },
      }),
    );
  return clusterOf({
    topologies: [],
    requests: [],
    volumeClaims: [],
    volumes: [],
    classes: [],
    priorityClasses: [
      { metadata: { name: "train" }, value: 50 },
      { metadata: { name: "build-preemptible" }, value: 75 },
    ] as never,
    nodes: [node("n1", { gpus })],
    queues: [queue("q", { resources: { gpu: { quota: -1, limit: -1, overQuotaWeight: 1 } } })],
    groups: pods.map(({ metadata: { name } }) => {
      const priorityClassName = priorities[name];
      return group(name, priorityClassName === undefined ? {} : { priorityClassName });
    }),
    pods: [...pods],
    devices: {
      claims,
      slices: [
        {
          metadata: { name: "s", uid: "s", resourceVersion: "1", creationTimestamp: "" },
          spec: { driver: "gpu.nvidia.com", nodeName: "n1", pool, devices },
        },
      ] as never,
      classes: [{ metadata: { name: "gpu" }, spec: {} }] as never,
    },
  });
}

describe("a claim gets no device now", () => {
  test.each([
    ["as important", {}],
    ["less important", { b: "build-preemptible" }],
  ])("while a pod that is %s has a GPU that is not named, and that pod stays", (_, priorities) => {
    const plan = decide(cluster(3, [unreported("a"), claimer("b")], priorities), nowMs);
    expect(outcome(plan)).toEqual({});
    expect(evicted(plan)).toEqual([]);
  });

  test("while a pod that is going has a GPU that is not named: the device is promised", () => {
    const going = unreported("a", { deletedMs: startMs + anHourMs });
    expect(outcome(decide(cluster(3, [going, claimer("b")]), nowMs))).toEqual({ b: "~n1" });
  });

  test("while a pod that is stuck terminating has a GPU that it has not reported", () => {
    const stuck = unreported("a", { deletedMs: startMs - anHourMs });
    expect(outcome(decide(cluster(3, [stuck, claimer("b")]), nowMs))).toEqual({});
  });

  test("from a pod of lower priority before that pod is gone", () => {
    const plan = decide(cluster(1, [unreported("a"), claimer("b")], { b: "build-preemptible" }), nowMs);
    expect(outcome(plan)).toEqual({ b: "~n1" });
    expect(evicted(plan)).toEqual(["a"]);
  });

  test("while a shared GPU has no reservation yet and its pod is going", () => {
    const sharing = { fraction: "0.5", gpus: 0, groups: ["g1"], deletedMs: startMs + anHourMs };
    expect(outcome(decide(cluster(3, [unreported("a", sharing), claimer("b")]), nowMs))).toEqual({ b: "~n1" });
  });
});

test("a claim gets another device than the one that is named", () => {
  const named = unreported("a", { annotations: { "sim.muster.dev/devices": '{"main":{"nvidia.com/gpu":["GPU-0"]}}' } });
  const [planned] = decide(cluster(2, [named, claimer("b")]), nowMs).jobs;
  expect(planned?.binds[0]?.allocations).toMatchObject([{ allocation: { devices: { results: [{ device: "d1" }] } } }]);
});

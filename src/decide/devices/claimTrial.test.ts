import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  claim,
  classA,
  device,
  linesOf,
  node1,
  node2,
  type RequestSpec,
  request,
  shareableClass,
  slice,
} from "../../../testing/decide/deviceCluster.ts";
import type { AllocationResult, Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { type ClaimsFit, ClaimTrial, type DeviceView, fitClaims } from "./claimTrial.ts";
import { allocatedStateOf } from "./search/allocatedState.ts";
import { allFeatures } from "./search/features.ts";
import { SliceIndex } from "./search/pools.ts";
import { SelectorCache } from "./search/selectors.ts";

const slices = [
  slice("slice-1", { pool: "pool-1", at: "node-1", devices: ["d1", "d2"] }),
  slice("slice-2", { pool: "pool-2", at: "node-2", devices: ["d1", "d2"] }),
  slice("slice-3", {
    pool: "pool-3",
    at: "node-2",
    devices: [device("s1", { allowMultipleAllocations: true, cap: { memory: "10" } })],
  }),
];

function podWith(name: string, ...claims: string[]): Pod {
  const resourceClaims = claims.map((each, i) => ({ name: `entry-${i}`, resourceClaimName: each }));
  const metadata = { name, uid: `uid-${name}`, namespace: "default", resourceVersion: "1", creationTimestamp: "" };
  return { apiVersion: "v1", kind: "Pod", metadata, spec: { containers: [], resourceClaims } };
}

function held(given: ResourceClaim, device: string, ...users: string[]): ResourceClaim {
  const [pool = "", name = ""] = device.split("/");
  const allocation = { devices: { results: [{ request: "req-0", driver: "driver-a", pool, device: name }] } };
  const reservedFor = users.map((user) => ({ resource: "pods", name: user, uid: `uid-${user}` }));
  return { ...given, status: { allocation, reservedFor } } as ResourceClaim;
}

function plain(name: string, spec: RequestSpec = {}): ResourceClaim {
  return claim(name, [request("req-0", spec)]);
}

function viewOf(claims: readonly ResourceClaim[], pending: Record<string, AllocationResult> = {}): DeviceView {
  return {
    sliceIndex: new SliceIndex(slices, allFeatures),
    state: allocatedStateOf(claims),
    claimOf: (namespace, name) =>
      claims.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name),
    pendingAllocation: (uid) => pending[uid],
    classOf: (name) => [classA, shareableClass].find(({ metadata }) => metadata.name === name),
    selectors: new SelectorCache(),
    features: allFeatures,
    nowMs: 0,
  };
}

function lines(fit: ClaimsFit): unknown {
  return fit.ok ? fit.claims.map(({ allocation }) => linesOf(allocation).join("; ")) : fit.why;
}

function assumed(trial: ClaimTrial, pod: Pod, node = node1): unknown {
  const fit = trial.fit(pod, node);
  if (fit.ok) trial.assume(pod, fit);
  return lines(fit);
}

describe("one pod on one node", () => {
  test("a free device is found", () => {
    expect(lines(fitClaims(viewOf([plain("a")]), podWith("p", "a"), node1))).toEqual(["req-0 pool-1/d1"]);
  });

  test("a device that is allocated is not found again", () => {
    const view = viewOf([plain("a"), held(plain("b"), "pool-1/d1")]);
    expect(lines(fitClaims(view, podWith("p", "a"), node1))).toEqual(["req-0 pool-1/d2"]);
  });

  test("a claim that is missing, or is owned by another pod, is a reason on every node", () => {
    const missing = fitClaims(viewOf([]), podWith("p", "a"), node1);
    expect(missing).toEqual({
      ok: false,
      why: "ResourceClaim a does not exist yet",
      reason: "NotReady",
      isEverywhere: true,
    });
    const pending = fitClaims(viewOf([plain("a")], { "uid-a": {} }), podWith("p", "a"), node1);
    expect(pending).toEqual({
      ok: false,
      why: "resourceclaim a is in the process of being allocated",
      reason: "BeingAllocated",
      isEverywhere: true,
    });
  });

  test("a node without enough devices is a reason on that node only", () => {
    const fit = fitClaims(viewOf([plain("a", { count: 3 })]), podWith("p", "a"), node1);
    expect(fit).toEqual({ ok: false, why: "cannot allocate all claims", reason: "NoDevices", isEverywhere: false });
  });
});

describe("several in one trial", () => {
  test("a device that was allocated to one pod is not allocated to the next", () => {
    const trial = new ClaimTrial(viewOf([plain("a"), plain("b"), plain("c")]));
    expect(assumed(trial, podWith("p", "a"))).toEqual(["req-0 pool-1/d1"]);
    expect(assumed(trial, podWith("q", "b"))).toEqual(["req-0 pool-1/d2"]);
    expect(assumed(trial, podWith("r", "c"))).toBe("cannot allocate all claims");
  });

  test("pods of a gang that name one claim share what was found for the first", () => {
    const trial = new ClaimTrial(viewOf([plain("a")]));
    expect(assumed(trial, podWith("p", "a"))).toEqual(["req-0 pool-1/d1"]);
    expect(assumed(trial, podWith("q", "a"))).toEqual(["req-0 pool-1/d1"]);
    expect(assumed(trial, podWith("r", "a"), node2)).toBe("resourceclaim not available on the node");
  });

  test("the devices of a pod that is released are free", () => {
    const trial = new ClaimTrial(
      viewOf([plain("a", { count: 2 }), held(plain("b"), "pool-1/d1", "old"), held(plain("c"), "pool-1/d2", "other")]),
    );
    expect(assumed(trial, podWith("p", "a"))).toBe("cannot allocate all claims");
    trial.release(podWith("old", "b"));
    expect(assumed(trial, podWith("p", "a"))).toBe("cannot allocate all claims");
    trial.release(podWith("other", "c"));
    expect(assumed(trial, podWith("p", "a"))).toEqual(["req-0 pool-1/d1; req-0 pool-1/d2"]);
  });

  test("a claim that another pod uses too is freed with its last user", () => {
    const trial = new ClaimTrial(viewOf([held(plain("b"), "pool-1/d1", "one", "two")]));
    trial.release(podWith("one", "b"));
    expect(trial.isTaken("driver-a/pool-1/d1")).toBe(true);
    trial.release(podWith("two", "b"));
    expect(trial.isTaken("driver-a/pool-1/d1")).toBe(false);
  });

  test("a pod is not placed with a claim that is about to be deallocated", () => {
    const trial = new ClaimTrial(viewOf([held(plain("b"), "pool-1/d1", "one")]));
    trial.release(podWith("one", "b"));
    expect(assumed(trial, podWith("two", "b"))).toBe("resourceclaim b is about to be deallocated");
  });

  test("capacity of shares counts, and is free again after a rollback", () => {
    const share = { class: "shareable", capacity: { memory: "6" } };
    const trial = new ClaimTrial(viewOf([plain("a", share), plain("b", share)]));
    const before = trial.checkpoint();
    expect(assumed(trial, podWith("p", "a"), node2)).toEqual(["req-0 pool-3/s1 share memory=6"]);
    expect(assumed(trial, podWith("q", "b"), node2)).toBe("cannot allocate all claims");
    trial.rollback(before);
    expect(assumed(trial, podWith("q", "b"), node2)).toEqual(["req-0 pool-3/s1 share memory=6"]);
  });

  test("a pod counts for the devices that it has or requests", () => {
    const trial = new ClaimTrial(viewOf([plain("a", { count: 2 }), held(plain("b"), "pool-1/d1")]));
    const isCounted = (name: string) => name === "class-a";
    expect(trial.devicesOf(podWith("p", "a", "b"), isCounted)).toBe(3);
    expect(trial.devicesOf(podWith("p", "a", "b"), () => false)).toBe(0);
  });
});

test("a rollback restores the state, whatever was tried", () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  const step = fc.oneof(
    fc.record({ do: fc.constant("place" as const), pod: fc.nat(5), node: fc.boolean() }),
    fc.record({ do: fc.constant("release" as const), pod: fc.nat(5), node: fc.boolean() }),
    fc.record({ do: fc.constant("back" as const), pod: fc.nat(5), node: fc.boolean() }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 14 }), (steps) => {
      const share = { class: "shareable", capacity: { memory: "4" } };
      const claims = names.map((name, i) =>
        i < 2
          ? held(plain(name), `pool-${i + 1}/d1`, `pod-${i}`)
          : plain(name, i > 3 ? share : { class: "class-a", where: "!device.allowMultipleAllocations" }),
      );
      const trial = new ClaimTrial(viewOf(claims));
      const devices = slices.flatMap(({ spec }) =>
        (spec.devices ?? []).map((d) => `driver-a/${spec.pool.name}/${d.name}`),
      );
      const state = () =>
        devices.map((d) => [trial.isTaken(d), trial.shareCount(d), trial.consumed(d)?.get("memory") ?? 0n]);
      const marks: { at: number; state: unknown }[] = [];
      for (const { do: what, pod: n, node } of steps) {
        if (what === "back") {
          const mark = marks.pop();
          if (mark === undefined) continue;
          trial.rollback(mark.at);
          expect(state()).toEqual(mark.state);
          continue;
        }
        marks.push({ at: trial.checkpoint(), state: state() });
        const pod = podWith(`pod-${n}`, names[n] as string);
        if (what === "release") trial.release(pod);
        else assumed(trial, pod, node ? node1 : node2);
      }
    }),
    { numRuns: 200 },
  );
});

describe("a claim that has as many consumers as the API allows", () => {
  const users = (count: number): string[] => Array.from({ length: count }, (_, at) => `user-${at}`);

  test("takes no further pod, and the sentence names it", () => {
    const trial = new ClaimTrial(viewOf([held(plain("a"), "pool-1/d1", ...users(256))]));
    expect(trial.problemOf(podWith("p", "a"))?.why).toBe(
      "ResourceClaim a is reserved for 256 consumers, the most that a claim can have",
    );
    expect(trial.problemOf(podWith("user-7", "a"))).toBeUndefined();
  });

  test("counts pods that were tried, until they are rolled back", () => {
    const trial = new ClaimTrial(viewOf([held(plain("a"), "pool-1/d1", ...users(255))]));
    const before = trial.checkpoint();
    expect(assumed(trial, podWith("p", "a"))).toEqual(["req-0 pool-1/d1"]);
    expect(trial.problemOf(podWith("q", "a"))).toBeDefined();
    trial.rollback(before);
    expect(trial.problemOf(podWith("q", "a"))).toBeUndefined();
  });
});

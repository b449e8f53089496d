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
import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";
import type { PodGroup, PodGroupSpec } from "../../../model/scheduling/podGroup.ts";
import { jobRows } from "../explain/report.ts";
import { clusterOf } from "../model/clusterOf.ts";

/** Pods whose GPUs are devices: which claims they may use, and whose devices count as free. */

const nowMs = startMs + 60_000;
const nothing = { topologies: [], requests: [], volumeClaims: [], volumes: [], classes: [] };
const priorityClasses = [
  { metadata: { name: "train" }, value: 50 },
  { metadata: { name: "build-preemptible" }, value: 75 },
] as never;
const shared = { "kai.scheduler/queue": "q" };

interface Member {
  readonly name: string;
  readonly words?: PodFields;
  readonly spec?: PodGroupSpec;
  /** Its claim comes from a template. */
  readonly isMade?: boolean;
  /** Its claim, where that has another name. */
  readonly claim?: string;
}

function member({ name, words, isMade = false, claim: named = name }: Member) {
  const made = pod(name, { group: name, ...words });
  const source = isMade ? { resourceClaimTemplateName: "t" } : { resourceClaimName: named };
  return {
    ...made,
    spec: { ...made.spec, resourceClaims: [{ name: "gpu", ...source }] },
    status: { ...made.status, ...(isMade && { resourceClaimStatuses: [{ name: "gpu", resourceClaimName: name }] }) },
  } as unknown as typeof made;
}

/** The claim of a pod; with a device when one is named. */
function claim(name: string, device?: string, more: object = {}): ResourceClaim {
  const results = [{ request: "r", driver: "gpu.example.com", pool: "n1", device }];
  return {
    metadata: {
      name,
      namespace: "default",
      uid: `claim-${name}`,
      resourceVersion: "1",
      creationTimestamp: "",
      labels: shared,
      ...more,
    },
    spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu", count: 1 } }] } },
    ...(device !== undefined && {
      status: {
        allocation: { devices: { results } },
        reservedFor: [{ resource: "pods", name, uid: `pod-default-${name}` }],
      },
    }),
  } as unknown as ResourceClaim;
}

function cluster(members: readonly Member[], claims: readonly ResourceClaim[], devices: readonly string[]) {
  const groups: PodGroup[] = members.map(({ name, spec }) => group(name, spec));
  const pool = { name: "n1", generation: 1, resourceSliceCount: 1 };
  const slice = {
    metadata: { name: "s", uid: "s", resourceVersion: "1", creationTimestamp: "" },
    spec: { driver: "gpu.example.com", nodeName: "n1", pool, devices: devices.map((name) => ({ name })) },
  };
  return clusterOf({
    ...nothing,
    priorityClasses,
    nodes: [node("n1", { gpus: 0 })],
    queues: [queue("q", { resources: { gpu: { quota: -1, limit: -1, overQuotaWeight: 1 } } })],
    groups,
    pods: members.map(member),
    devices: {
      claims: [...claims],
      slices: [slice] as never,
      classes: [
        { metadata: { name: "gpu" }, spec: {} },
        { metadata: { name: "nic" }, spec: {} },
        { metadata: { name: "none" }, spec: { selectors: [{ cel: { expression: "false" } }] } },
      ] as never,
    },
  });
}

test("a claim of devices other than GPUs needs no queue and is not charged", () => {
  const nic = claim("p", undefined, { labels: {} });
  const spec = { devices: { requests: [{ name: "r", exactly: { deviceClassName: "nic", count: 1 } }] } };
  expect(outcome(decide(cluster([{ name: "p" }], [{ ...nic, spec } as ResourceClaim], ["d1"]), nowMs))).toEqual({
    p: "n1",
  });
});

describe("a pod with a claim", () => {
  const owned = (uid: string) => ({
    labels: {},
    ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid, controller: true }],
  });
  const one: Member = { name: "p" };
  const made: Member = { name: "p", isMade: true };
  test.each<[string, Member, ResourceClaim[], string]>([
    ["that does not exist", one, [], "p"],
    ["that is being deleted", one, [claim("p", undefined, { deletionTimestamp: "2026-01-01T00:00:00Z" })], "p"],
    ["that was made for another pod of its name", made, [claim("p", undefined, owned("another"))], "p"],
    [
      "that others may use and that is of no queue",
      one,
      [claim("p", undefined, { labels: {} })],
      "kai.scheduler/queue",
    ],
  ])("%s waits, is told so, and nobody is looked for to go for it", (_, who, claims, says) => {
    // Somebody of a lower priority is there who could go.
    const low: Member = { name: "low", words: { on: "n1" } };
    const high = { ...who, spec: { priorityClassName: "build-preemptible" } };
    const plan = decide(cluster([low, high], [claim("low", "d1"), ...claims], ["d1"]), nowMs);
    expect(outcome(plan)).toEqual({});
    expect(evicted(plan)).toEqual([]);
    expect([...plan.searches.values()].reduce((sum, { simulated }) => sum + simulated, 0)).toBe(0);
    const [row] = jobRows(cluster([who], claims, ["d1"]), nowMs);
    expect(row?.reason).toBe("PodSchedulingErrors");
    expect(row?.message).toContain(says);
    expect(row?.message).toMatch(/claim/i);
  });

  test("that is its own runs", () => {
    expect(outcome(decide(cluster([one], [claim("p")], ["d1"]), nowMs))).toEqual({ p: "n1" });
    const own = claim("p", undefined, owned("pod-default-p"));
    expect(outcome(decide(cluster([made], [own], ["d1"]), nowMs))).toEqual({ p: "n1" });
  });
});

describe("a device", () => {
  const two = [{ name: "a" }, { name: "b" }];

  test("is given once, also to pods that are decided on together", () => {
    expect(outcome(decide(cluster(two, [claim("a"), claim("b")], ["d1", "d2"]), nowMs))).toEqual({ a: "n1", b: "n1" });
    expect(Object.keys(outcome(decide(cluster(two, [claim("a"), claim("b")], ["d1"]), nowMs)))).toHaveLength(1);
  });

  test("is the first of several that would do, where a claim has alternatives", () => {
    const options = ["none", "gpu"].map((deviceClassName) => ({ name: deviceClassName, deviceClassName, count: 1 }));
    const chooses = { ...claim("a"), spec: { devices: { requests: [{ name: "r", firstAvailable: options }] } } };
    const made = cluster([{ name: "a" }], [chooses as unknown as ResourceClaim], ["d1"]);
    const [planned] = decide(made, nowMs).jobs;
    expect(planned?.binds[0]?.allocations).toMatchObject([
      { name: "gpu", allocation: { devices: { results: [{ request: "r/gpu", device: "d1" }] } } },
    ]);
  });

  test("that was found for a part of a gang that does not fit goes to the next", () => {
    const gang: Member[] = [
      { name: "g", words: { group: "g" }, spec: { minMember: 2, createdMs: startMs - 9_000 } as PodGroupSpec },
      { name: "h", words: { group: "g" } },
    ];
    const claims = ["g", "h", "b"].map((name) => claim(name));
    expect(outcome(decide(cluster([...gang, { name: "b" }], claims, ["d1"]), nowMs))).toEqual({ b: "n1" });
    expect(Object.keys(outcome(decide(cluster([...gang, { name: "b" }], claims, ["d1", "d2"]), nowMs)))).toEqual([
      "g",
      "h",
    ]);
  });

  test("that is allocated to a claim is not given to another claim", () => {
    const has: Member = { name: "a", words: { on: "n1" } };
    expect(outcome(decide(cluster([has, { name: "b" }], [claim("a", "d1"), claim("b")], ["d1"]), nowMs))).toEqual({});
  });

  test("of a terminating pod is nominated to the pod that waits, and no other pod is evicted for it", () => {
    const going: Member = { name: "a", words: { on: "n1", deletedMs: startMs + 3_600_000 } };
    const other: Member = { name: "x", words: { on: "n1" } };
    const high: Member = { name: "b", spec: { priorityClassName: "build-preemptible" } };
    const claims = [claim("a", "d1"), claim("x", "d2"), claim("b")];
    const plan = decide(cluster([going, other, high], claims, ["d1", "d2"]), nowMs);
    expect(outcome(plan)).toEqual({ b: "~n1" });
    expect(evicted(plan)).toEqual([]);
  });

  test("of a terminating pod is nominated to all pods that share the claim, and bound to none of them yet", () => {
    const going: Member = { name: "a", words: { on: "n1", deletedMs: startMs + 3_600_000 } };
    const sharers = ["b", "c"].map((name): Member => ({ name, claim: "both" }));
    const plan = decide(cluster([going, ...sharers], [claim("a", "d1"), claim("both")], ["d1"]), nowMs);
    expect(outcome(plan)).toEqual({ b: "~n1", c: "~n1" });
  });

  test("of a pod that is gone is nominated to the pod that waits", () => {
    const plan = decide(cluster([{ name: "b" }], [claim("a", "d1"), claim("b")], ["d1"]), nowMs);
    expect(outcome(plan)).toEqual({ b: "~n1" });
  });

  test("of a victim is free for its preemptor, and is the victim's again when that was only tried", () => {
    const low: Member = { name: "a", words: { on: "n1" } };
    const high: Member = { name: "b", spec: { priorityClassName: "build-preemptible" } };
    const made = cluster([low, high], [claim("a", "d1"), claim("b")], ["d1"]);
    for (const _ of ["once", "again"]) {
      const plan = decide(made, nowMs);
      expect(outcome(plan)).toEqual({ b: "~n1" });
      expect(evicted(plan)).toEqual(["a"]);
    }
  });
});

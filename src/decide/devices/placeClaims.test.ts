/**
 * From a pod's claims to the result on a node, by the names that Kubernetes' own table of its plug-in gives the cases.
 */
import { describe, expect, test } from "vitest";
import {
  claim,
  classA,
  classB,
  device,
  deviceClass,
  firstOf,
  nameSelector,
  node1,
  node2,
  request,
  slice,
  taint,
} from "../../../testing/decide/deviceCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { AllocationResult, Pod, PodGroup, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { deallocate, mayDeallocate, nextBindStep, unreserve } from "./claims/bindClaim.ts";
import { claimsOfPod } from "./claims/podClaims.ts";
import { groupOfPod, type PodsGroup } from "./claims/podsGroup.ts";
import { bindingOf, filterNode, prepareClaims } from "./placeClaims.ts";
import { AllocatedSets, allocatedStateOf } from "./search/allocatedState.ts";
import { allFeatures, type DeviceFeatures } from "./search/features.ts";
import { SliceIndex } from "./search/pools.ts";
import { SelectorCache } from "./search/selectors.ts";

const nowMs = Date.parse("2026-01-01T01:00:00Z");
const pod = (more: { spec?: object; status?: object } = {}): Pod =>
  partly<Pod>({
    metadata: { name: "p", namespace: "default", uid: "uid-p", resourceVersion: "1", creationTimestamp: "" },
    spec: { containers: [], resourceClaims: [{ name: "gpu", resourceClaimName: "c" }], ...more.spec },
    ...(more.status !== undefined && { status: more.status }),
  });
const ref = { resource: "pods", name: "p", uid: "uid-p" };
const allocationOn = (node: string, more: object = {}): AllocationResult => ({
  devices: { results: [{ request: "req-0", driver: "driver-a", pool: "pool-1", device: "d1", ...more }] },
  nodeSelector: nameSelector(node),
});
const plain = claim("c", [request("req-0")]);
const allocated = (node = "node-1", more: object = {}, status: object = {}): ResourceClaim => ({
  ...plain,
  status: { allocation: allocationOn(node, more), ...status },
});
const template = { resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "t" }] };
const made = { resourceClaimStatuses: [{ name: "gpu", resourceClaimName: "c" }] };
const owned = (uid: string): ResourceClaim => ({
  ...plain,
  metadata: {
    ...plain.metadata,
    ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid, controller: true }],
  },
});

describe("PreEnqueue", () => {
  test.each([
    { name: "claim-reference", pod: pod(), claims: [plain], why: undefined },
    { name: "claim-template", pod: pod({ spec: template, status: made }), claims: [owned("uid-p")], why: undefined },
    { name: "missing-claim", pod: pod(), claims: [], why: "does not exist yet" },
    {
      name: "a template whose claim is not recorded yet",
      pod: pod({ spec: template }),
      claims: [],
      why: "does not exist yet",
    },
    {
      name: "deleted-claim",
      pod: pod(),
      claims: [{ ...plain, metadata: { ...plain.metadata, deletionTimestamp: "x" } }],
      why: "is being deleted",
    },
    {
      name: "wrong-claim",
      pod: pod({ spec: template, status: made }),
      claims: [owned("uid-q")],
      why: "was not created for Pod",
    },
    { name: "empty", pod: pod({ spec: { resourceClaims: [] } }), claims: [], why: undefined },
    {
      name: "a template that needs no claim",
      pod: pod({ spec: template, status: { resourceClaimStatuses: [{ name: "gpu" }] } }),
      claims: [],
      why: undefined,
    },
  ])("$name", ({ pod: each, claims, why }) => {
    const result = claimsOfPod(each, (_namespace, name) => claims.find(({ metadata }) => metadata.name === name));
    if (why === undefined) expect(result.ok).toBe(true);
    else expect(result.ok ? "" : result.why).toContain(why);
  });

  test("a claim that two entries name is one claim", () => {
    const twice = pod({
      spec: {
        resourceClaims: [
          { name: "a", resourceClaimName: "c" },
          { name: "b", resourceClaimName: "c" },
        ],
      },
    });
    const result = claimsOfPod(twice, () => plain);
    expect(result.ok && result.claims).toHaveLength(1);
  });
});

interface FilterCase {
  readonly name: string;
  readonly claims?: readonly ResourceClaim[];
  readonly slices?: readonly ReturnType<typeof slice>[];
  readonly taken?: readonly string[];
  readonly off?: readonly (keyof DeviceFeatures)[];
  readonly pending?: AllocationResult;
  readonly mayJoin?: boolean;
  readonly stop?: () => "timeout" | "canceled" | undefined;
  readonly expect: string;
  readonly why?: string;
}

const oneDevice = [slice("slice-1", { devices: ["d1"] })];
const failing = 'device.attributes["driver-a"].missing == 1';
const conditions = { bindingConditions: ["ready"], bindingFailureConditions: ["broken"] };
const reported = (type: string) => ({
  devices: [{ driver: "driver-a", pool: "pool-1", device: "d1", conditions: [{ type, status: "True", reason: "r" }] }],
});
const since = (time: string, status: object = {}): ResourceClaim => {
  const base = allocated("node-1", conditions, status);
  return { ...base, status: { ...base.status, allocation: { ...base.status?.allocation, allocationTimestamp: time } } };
};

const filters: FilterCase[] = [
  { name: "empty", claims: [], expect: "skip" },
  { name: "empty-with-extended-resources-enabled", claims: [], expect: "skip" },
  { name: "DRA-disabled: without claims there is nothing to do", claims: [], expect: "skip" },
  { name: "DeferredResizeSkipped: a pod without claims is left alone", claims: [], expect: "skip" },
  { name: "no-resources", expect: "unschedulable", why: "cannot allocate all claims" },
  { name: "with-resources", slices: oneDevice, expect: "fits" },
  {
    name: "exhausted-resources-in-informer-cache",
    slices: oneDevice,
    taken: ["driver-a/pool-1/d1"],
    expect: "unschedulable",
  },
  { name: "other-resources-in-flight-claim", slices: oneDevice, taken: ["driver-a/pool-1/other"], expect: "fits" },
  {
    name: "exhausted-resources-in-flight-claim: the claim itself is being allocated for another pod",
    slices: oneDevice,
    pending: allocationOn("node-1"),
    expect: "unschedulable",
    why: "in the process of being allocated",
  },
  {
    name: "a pod of the same gang joins an allocation that is being written",
    pending: allocationOn("node-1"),
    mayJoin: true,
    expect: "fits",
  },
  {
    name: "PreFilterReusesPendingAllocationWithNilNodeSelector",
    pending: { devices: {} },
    mayJoin: true,
    expect: "fits",
  },
  {
    name: "tainted-device-disabled",
    slices: [slice("s", { devices: [device("d1", { taints: [taint.noSchedule] })] })],
    off: ["deviceTaints"],
    expect: "fits",
  },
  {
    name: "tainted-device-enabled",
    slices: [slice("s", { devices: [device("d1", { taints: [taint.noSchedule] })] })],
    expect: "unschedulable",
  },
  {
    name: "request-admin-access-with-DRAAdminAccess-featuregate",
    claims: [claim("c", [request("req-0", { admin: true })])],
    slices: oneDevice,
    taken: ["driver-a/pool-1/d1"],
    expect: "fits",
  },
  {
    name: "request-admin-access-without-DRAAdminAccess-featuregate",
    claims: [claim("c", [request("req-0", { admin: true })])],
    slices: oneDevice,
    off: ["adminAccess"],
    expect: "error",
    why: "admin access is requested, but the feature is disabled",
  },
  {
    name: "claim-parameters-CEL-runtime-error",
    claims: [claim("c", [request("req-0", { where: failing })])],
    slices: oneDevice,
    expect: "error",
    why: "no such key",
  },
  {
    name: "claim-with-request-with-unknown-device-class",
    claims: [claim("c", [request("req-0", { class: "nobody-knows" })])],
    expect: "unschedulable",
    why: "does not exist",
  },
  {
    name: "missing-class",
    claims: [claim("c", [request("req-0", { class: "nobody" })])],
    slices: oneDevice,
    expect: "unschedulable",
    why: "device class nobody does not exist",
  },
  {
    name: "claim-with-prioritized-list-unknown-device-class",
    claims: [claim("c", [firstOf("req-0", { class: "nobody" })])],
    slices: oneDevice,
    expect: "unschedulable",
    why: "request req-0/sub-0: device class nobody does not exist",
  },
  {
    name: "claim-with-prioritized-list-feature-disabled",
    claims: [claim("c", [firstOf("req-0", {})])],
    slices: oneDevice,
    off: ["prioritizedList"],
    expect: "unschedulable",
    why: "has subrequests",
  },
  {
    name: "claim-with-prioritized-list",
    claims: [claim("c", [firstOf("req-0", {})])],
    slices: oneDevice,
    expect: "fits",
  },
  {
    name: "wrong-topology",
    claims: [allocated("node-2")],
    expect: "unschedulable",
    why: "resourceclaim not available on the node",
  },
  { name: "good-topology", claims: [allocated("node-1")], expect: "fits" },
  { name: "reserved-okay", claims: [allocated("node-1", {}, { reservedFor: [ref] })], expect: "fits" },
  {
    name: "canceled",
    slices: oneDevice,
    stop: () => "canceled",
    expect: "unschedulable",
    why: "asked by caller to stop",
  },
  {
    name: "timeout",
    slices: oneDevice,
    stop: () => "timeout",
    expect: "error",
    why: "node node-1: timed out trying to allocate devices",
  },
  { name: "timeout_disabled", slices: oneDevice, stop: () => undefined, expect: "fits" },
  { name: "timeout_zero: no limit", slices: oneDevice, expect: "fits" },
  {
    name: "bound-claim-with-mixed-binding-conditions",
    claims: [
      since("2026-01-01T00:59:00Z", {
        devices: [
          {
            ...reported("ready").devices[0],
            conditions: [
              ...(reported("ready").devices[0]?.conditions ?? []),
              ...(reported("broken").devices[0]?.conditions ?? []),
            ],
          },
        ],
      }),
    ],
    expect: "unschedulable",
  },
  {
    name: "bound-claim-with-succeeded-binding-conditions",
    claims: [since("2026-01-01T00:59:00Z", reported("ready"))],
    expect: "fits",
  },
  {
    name: "bound-claim-with-failed-binding",
    claims: [since("2026-01-01T00:59:00Z", reported("broken"))],
    expect: "unschedulable",
  },
  { name: "bound-claim-with-timed-out-binding", claims: [since("2026-01-01T00:00:00Z")], expect: "unschedulable" },
  { name: "bound-claim-without-binding-conditions", claims: [allocated()], expect: "fits" },
];

test.each(filters)("Filter: $name", (each) => {
  const features = { ...allFeatures, ...Object.fromEntries((each.off ?? []).map((name) => [name, false])) };
  const claims = (each.claims ?? [plain]).map((one) => ({ entry: "gpu", claim: one }));
  const prepared = prepareClaims({
    pod: pod(),
    claims,
    pendingAllocation: () => each.pending,
    ...(each.mayJoin !== undefined && { mayJoin: () => each.mayJoin === true }),
    classOf: (name) => [classA, classB].find(({ metadata }) => metadata.name === name),
    selectors: new SelectorCache(),
    features,
  });
  const state = new AllocatedSets();
  for (const key of each.taken ?? []) state.devices.add(key);
  const verdict =
    prepared.kind !== "ready"
      ? prepared
      : filterNode(prepared.needs, node1, {
          sliceIndex: new SliceIndex(each.slices ?? [], features),
          state,
          features,
          nowMs,
          ...(each.stop !== undefined && { stop: each.stop }),
        });
  expect(verdict.kind).toBe(each.expect);
  if (each.why !== undefined) expect("why" in verdict ? verdict.why : "").toContain(each.why);
});

test("more-claims-than-allocations is impossible: a node that fits has an allocation for every claim, by its UID", () => {
  const claims = [plain, claim("d", [request("req-0")]), { ...allocated(), metadata: { ...plain.metadata, uid: "e" } }];
  const prepared = prepareClaims({
    pod: pod(),
    claims: claims.map((one) => ({ entry: one.metadata.uid, claim: one })),
    pendingAllocation: () => undefined,
    classOf: () => classA,
    selectors: new SelectorCache(),
    features: allFeatures,
  });
  if (prepared.kind !== "ready") throw new Error(prepared.kind);
  const sliceIndex = new SliceIndex([slice("slice-1", { devices: ["d1", "d2", "d3"] })], allFeatures);
  const verdict = filterNode(prepared.needs, node1, {
    sliceIndex,
    state: new AllocatedSets(),
    features: allFeatures,
    nowMs,
  });
  if (verdict.kind !== "fits") throw new Error(verdict.kind);
  expect([...verdict.allocations.keys()].sort()).toEqual(claims.map(({ metadata }) => metadata.uid).sort());
});

test("structured-ignore-allocated-admin-access: a device that is allocated with admin access only is free", () => {
  const looking = allocatedStateOf([allocated("node-1", { adminAccess: true })]);
  expect(looking.isTaken("driver-a/pool-1/d1")).toBe(false);
});

test("class-parameters-CEL-runtime-error: a class's selector fails like a claim's", () => {
  const prepared = prepareClaims({
    pod: pod(),
    claims: [{ entry: "gpu", claim: plain }],
    pendingAllocation: () => undefined,
    classOf: () => deviceClass("class-a", failing),
    selectors: new SelectorCache(),
    features: allFeatures,
  });
  if (prepared.kind !== "ready") throw new Error(prepared.kind);
  const sliceIndex = new SliceIndex(oneDevice, allFeatures);
  expect(
    filterNode(prepared.needs, node1, { sliceIndex, state: new AllocatedSets(), features: allFeatures, nowMs }),
  ).toMatchObject({
    kind: "error",
    why: expect.stringContaining("no such key"),
  });
});

test("CEL-runtime-error-for-one-of-two-nodes, CEL-runtime-error-for-one-of-three-nodes: the whole pod fails, because the error is in the claim", () => {
  const broken = claim("c", [request("req-0", { where: failing })]);
  const features = allFeatures;
  const prepared = prepareClaims({
    pod: pod(),
    claims: [{ entry: "gpu", claim: broken }],
    pendingAllocation: () => undefined,
    classOf: () => classA,
    selectors: new SelectorCache(),
    features,
  });
  if (prepared.kind !== "ready") throw new Error(prepared.kind);
  const sliceIndex = new SliceIndex([slice("slice-1", { devices: ["d1"] })], features);
  const ask = (node: typeof node1) =>
    filterNode(prepared.needs, node, { sliceIndex, state: new AllocatedSets(), features, nowMs }).kind;
  expect([ask(node2), ask(node1)]).toEqual(["unschedulable", "error"]);
});

/**
 * Which alternative each request of each claim got. Only their order matters, so scores are not normalized to 100 as
 * upstream.
 */
describe("scores", () => {
  test.each([
    { name: "single-request, the first alternative", chosen: [[0]], score: 8 },
    { name: "single-request, the last alternative", chosen: [[7]], score: 1 },
    { name: "multiple-requests", chosen: [[0, 3]], score: 13 },
    { name: "mix-of-allocated-and-unallocated-claims, no alternatives", chosen: [[]], score: 0 },
    { name: "single-claim-prioritized-list-scoring, the better node", chosen: [[0]], score: 8 },
    { name: "single-claim-prioritized-list-scoring, the other", chosen: [[1]], score: 7 },
    { name: "multiple-claims-prioritized-list-scoring, the better node", chosen: [[0], [1]], score: 15 },
    { name: "multiple-claims-prioritized-list-scoring, the other", chosen: [[1], [2]], score: 13 },
    { name: "multiple-requests-prioritized-list-scoring, the best node", chosen: [[0, 0]], score: 16 },
    { name: "multiple-requests-prioritized-list-scoring, the second", chosen: [[0, 1]], score: 15 },
    { name: "multiple-requests-prioritized-list-scoring, the third", chosen: [[1, 1]], score: 14 },
  ])("$name", ({ chosen, score }) => {
    const options = Array.from({ length: 8 }, () => ({}));
    const claims = chosen.map((picks, at) => {
      const wanted = claim(
        `c${at}`,
        picks.map((_, i) => firstOf(`req-${i}`, ...options)),
      );
      const results = picks.map((index, i) => ({
        request: `req-${i}/sub-${index}`,
        driver: "d",
        pool: "p",
        device: `x${at}-${i}`,
      }));
      const has: ResourceClaim = { ...wanted, status: { allocation: { devices: { results } } } };
      return { entry: `gpu${at}`, claim: has };
    });
    const prepared = prepareClaims({
      pod: pod(),
      claims,
      pendingAllocation: () => undefined,
      classOf: () => classA,
      selectors: new SelectorCache(),
      features: allFeatures,
    });
    if (prepared.kind !== "ready") throw new Error(prepared.kind);
    const input = {
      sliceIndex: new SliceIndex([], allFeatures),
      state: new AllocatedSets(),
      features: allFeatures,
      nowMs,
    };
    expect(filterNode(prepared.needs, node1, input)).toMatchObject({ kind: "fits", score });
  });
});

describe("PodGroups", () => {
  const group = partly<PodGroup>({
    kind: "PodGroup",
    metadata: { name: "g", namespace: "default", uid: "uid-g", resourceVersion: "1", creationTimestamp: "" },
    spec: { schedulingPolicy: {}, resourceClaims: [{ name: "gpu", resourceClaimName: "c" }] },
  });
  const templated = {
    ...group,
    spec: { ...group.spec, resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "t" }] },
  } as PodGroup;
  const groupRef = { apiGroup: "scheduling.k8s.io", resource: "podgroups", name: "g", uid: "uid-g" };
  const member = (more: { spec?: object; status?: object } = {}): Pod =>
    pod({ ...more, spec: { schedulingGroup: { podGroupName: "g" }, ...more.spec } });
  /** The consumers of the claim after the write, or the error. */
  const reservedFor = (one: Pod, has: ResourceClaim, of: PodsGroup, allocation?: AllocationResult): unknown => {
    const own = claimsOfPod(one, () => has, of);
    if (!own.ok) return own.why;
    const [first] = own.claims;
    if (first === undefined) return "no claims";
    const step = nextBindStep({
      claim: first.claim,
      uid: first.claim.metadata.uid,
      allocation,
      pod: one,
      nowMs,
      ...(first.group !== undefined && { group: first.group }),
    });
    if (step.kind !== "write") return step.kind;
    return (step.intent as unknown as { object: ResourceClaim }).object.status?.reservedFor;
  };

  test("podgroup-claim-reference: an allocated claim that the group names is reserved for the group", () => {
    expect(reservedFor(member(), allocated(), group)).toEqual([groupRef]);
  });

  test("podgroup-claim-template: so is one that was created for the group", () => {
    const grouped = { ...owned("uid-g"), status: { allocation: allocationOn("node-1") } };
    expect(reservedFor(member({ spec: template, status: made }), grouped, templated)).toEqual([groupRef]);
    const others = { ...owned("uid-p"), status: { allocation: allocationOn("node-1") } };
    expect(reservedFor(member({ spec: template, status: made }), others, templated)).toContain(
      "was not created for PodGroup g",
    );
  });

  test("podgroup-claim-reference-feature-disabled-reserves-for-pod", () => {
    const off = groupOfPod(member(), undefined);
    expect(reservedFor(member(), allocated(), off)).toEqual([ref]);
  });

  test("podgroup-with-resources, podgroup-with-resources-feature-disabled-reserves-for-pod", () => {
    const guarded = {
      ...plain,
      metadata: { ...plain.metadata, finalizers: ["resource.kubernetes.io/delete-protection"] },
    };
    expect(reservedFor(member(), guarded, group, allocationOn("node-1"))).toEqual([groupRef]);
    expect(reservedFor(member(), guarded, "none", allocationOn("node-1"))).toEqual([ref]);
  });

  test("reserved-okay-podgroup: nothing is written", () => {
    expect(reservedFor(member(), allocated("node-1", {}, { reservedFor: [groupRef] }), group)).toBe("done");
  });

  test("bind-podgroup-failure: the pod that failed does not change a claim of its group", () => {
    expect(unreserve(allocated("node-1", {}, { reservedFor: [groupRef] }), member())).toBeUndefined();
  });

  test("a pod whose group does not exist yet waits for it", () => {
    expect(
      reservedFor(
        member(),
        allocated(),
        groupOfPod(member(), () => undefined),
      ),
    ).toContain("does not exist yet");
  });
});

describe("PreBind", () => {
  const protectedClaim = {
    ...plain,
    metadata: { ...plain.metadata, finalizers: ["resource.kubernetes.io/delete-protection"] },
  };
  const wanted = allocationOn("node-1");
  const step = (each: ResourceClaim, allocation: AllocationResult | undefined) =>
    nextBindStep({ claim: each, uid: plain.metadata.uid, allocation, pod: pod(), nowMs });

  test("with-resources: the finalizer first, then the allocation with the reservation and its time", () => {
    expect(step(plain, wanted)).toMatchObject({ kind: "write", intent: { type: "update" } });
    expect(step(protectedClaim, wanted)).toMatchObject({
      kind: "write",
      intent: {
        type: "status",
        object: { status: { allocation: { allocationTimestamp: "2026-01-01T01:00:00Z" }, reservedFor: [ref] } },
      },
    });
  });

  test("with-resources-has-finalizer, with-resources-finalizer-gets-added: it is not added twice", () => {
    expect(step(protectedClaim, wanted)).toMatchObject({ kind: "write", intent: { type: "status" } });
  });

  test("with-resources-finalizer-gets-removed: after a conflict everything begins again, with the finalizer", () => {
    const removed = { ...plain, metadata: { ...plain.metadata, resourceVersion: "2" } };
    expect(step(removed, wanted)).toMatchObject({
      kind: "write",
      intent: { type: "update", expected: { resourceVersion: "2" } },
    });
  });

  test("add-allocation-timestamp, dont-add-allocation-timestamp: the time is written with the allocation, and not again", () => {
    const first = step(protectedClaim, wanted) as unknown as { intent: { object: ResourceClaim } };
    expect(first.intent.object.status?.allocation?.allocationTimestamp).toBe("2026-01-01T01:00:00Z");
    const later = step(since("2026-01-01T00:00:00Z"), undefined) as unknown as { intent: { object: ResourceClaim } };
    expect(later.intent.object.status?.allocation?.allocationTimestamp).toBe("2026-01-01T00:00:00Z");
  });

  test("add-allocation-timestamp-failure: a claim that was deallocated meanwhile is refused", () => {
    expect(step(protectedClaim, undefined)).toEqual({ kind: "failed", why: "claim c got deallocated elsewhere" });
  });

  test.each([
    { name: "claim-reference: reserved", claim: allocated(), allocation: undefined, kind: "write" },
    {
      name: "reserved-okay",
      claim: allocated("node-1", {}, { reservedFor: [ref] }),
      allocation: undefined,
      kind: "done",
    },
    { name: "got allocated elsewhere", claim: allocated("node-2"), allocation: wanted, kind: "failed" },
    { name: "a gang's other pod wrote the same", claim: allocated(), allocation: wanted, kind: "write" },
    {
      name: "a gang's other pod wrote the same, at its own time",
      claim: { ...plain, status: { allocation: { ...wanted, allocationTimestamp: "2026-01-01T00:00:00Z" } } },
      allocation: wanted,
      kind: "write",
    },
    { name: "bind-failure-concurrent-deallocation", claim: protectedClaim, allocation: undefined, kind: "failed" },
    {
      name: "the claim is being deleted",
      claim: { ...protectedClaim, metadata: { ...protectedClaim.metadata, deletionTimestamp: "x" } },
      allocation: wanted,
      kind: "failed",
    },
    {
      name: "a namesake",
      claim: { ...protectedClaim, metadata: { ...protectedClaim.metadata, uid: "another" } },
      allocation: wanted,
      kind: "failed",
    },
  ])("$name", ({ claim: each, allocation, kind }) => {
    expect(step(each, allocation).kind).toBe(kind);
  });

  test("bind-failure: the pod's reservation is removed, the allocation stays", () => {
    const intent = unreserve(allocated("node-1", {}, { reservedFor: [ref] }), pod());
    expect(intent).toMatchObject({ type: "status", object: { status: { allocation: wanted } } });
    expect((intent as unknown as { object: { status: object } }).object.status).not.toHaveProperty("reservedFor");
    expect(unreserve(plain, pod())).toBeUndefined();
  });

  test("wrong-topology: a claim that only this pod uses is deallocated completely", () => {
    const mine = allocated("node-2", {}, { reservedFor: [ref], devices: [] });
    expect(mayDeallocate(mine, pod())).toBe(true);
    expect(mayDeallocate(allocated("node-2", {}, { reservedFor: [ref, { ...ref, uid: "other" }] }), pod())).toBe(false);
    expect((deallocate(mine, "") as unknown as { object: { status: object } }).object.status).toEqual({});
  });

  test.each([
    { name: "nothing to wait for", claim: allocated(), kind: "ready" },
    {
      name: "multi-claims-binding-conditions-all-success",
      claim: since("2026-01-01T00:59:00Z", reported("ready")),
      kind: "ready",
    },
    { name: "bind-claim-with-binding-conditions", claim: since("2026-01-01T00:59:00Z"), kind: "waiting" },
    {
      name: "multi-claims-binding-conditions-one-fail",
      claim: since("2026-01-01T00:59:00Z", reported("broken")),
      kind: "failed",
    },
    { name: "prebind-fail-with-binding-timeout", claim: since("2026-01-01T00:00:00Z"), kind: "timedOut" },
    {
      name: "the status of another share of the device does not count",
      claim: since("2026-01-01T00:59:00Z", {
        devices: [{ ...reported("ready").devices[0], shareID: "00000000-0000-4000-8000-000000000000" }],
      }),
      kind: "waiting",
    },
  ])("binding conditions: $name", ({ claim: each, kind }) => {
    expect(bindingOf(each as ResourceClaim, nowMs, 600_000).kind).toBe(kind);
  });
});

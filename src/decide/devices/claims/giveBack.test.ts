/** What is deallocated when pods fit nowhere, by the names that Kubernetes' own tables give the cases. */
import { expect, test } from "vitest";
import type { Pod, PodGroup, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { type GiveBackInput, type StuckPod, whatToGiveBack } from "./giveBack.ts";

const meta = (name: string) => ({ name, namespace: "default", uid: `uid-${name}`, resourceVersion: "1" });
const pod = (name: string): Pod => ({ kind: "Pod", metadata: meta(name), spec: {} }) as Pod;
const group = { kind: "PodGroup", metadata: meta("g"), spec: { schedulingPolicy: {} } } as PodGroup;
const spread = {
  ...group,
  spec: { ...group.spec, schedulingConstraints: { topology: [{ key: "rack" }] } },
} as PodGroup;
const forGroup = { apiGroup: "scheduling.k8s.io", resource: "podgroups", name: "g", uid: "uid-g" };
const forPod = (name: string) => ({ resource: "pods", name, uid: `uid-${name}` });
const claim = (name: string, ...reservedFor: object[]): ResourceClaim =>
  ({ metadata: meta(name), spec: {}, status: { allocation: {}, reservedFor } }) as ResourceClaim;

interface Uses {
  readonly own?: ResourceClaim;
  readonly shared?: ResourceClaim;
  readonly leftover?: ResourceClaim;
  /** The claims that keep the pod from its nodes. */
  readonly blockedBy?: readonly string[];
}

function stuck(name: string, { own, shared, leftover, blockedBy = [] }: Uses): StuckPod {
  return {
    pod: pod(name),
    claims: [
      ...(own === undefined ? [] : [{ entry: "own", claim: own }]),
      ...(shared === undefined ? [] : [{ entry: "shared", claim: shared, group }]),
    ],
    unavailable: new Set(blockedBy.map((each) => `uid-${each}`)),
    ...(leftover !== undefined && { leftover }),
  };
}

interface Case extends GiveBackInput {
  readonly name: string;
  readonly expect: readonly string[];
}

const cases: Case[] = [
  { name: "empty", pods: [], expect: [] },
  { name: "PostFilterNoOpStatusHasNoUserVisibleReason: no claim blocks the pod", pods: [stuck("p", {})], expect: [] },
  {
    name: "wrong-topology",
    pods: [stuck("p", { own: claim("c", forPod("p")), blockedBy: ["c"] })],
    expect: ["deallocate c of p"],
  },
  {
    name: "a claim that is reserved for another pod is kept",
    pods: [stuck("p", { own: claim("c", forPod("q")), blockedBy: ["c"] })],
    expect: [],
  },
  {
    name: "a pod that shares a claim and cannot use it removes its reservation, so that the last one can deallocate it",
    pods: [stuck("p", { own: claim("c", forPod("p"), forPod("q")), blockedBy: ["c"] })],
    expect: ["unreserve c"],
  },
  {
    name: "extended-resource-name-with-resources-has-claim, extended-resource-name-with-resources-delete-claim",
    pods: [stuck("p", { leftover: claim("e", forPod("p")) })],
    expect: ["delete e"],
  },
  {
    name: "postfilter-deallocate-reserved-podgroup",
    pods: [stuck("p", { shared: claim("s", forGroup), blockedBy: ["s"] })],
    group,
    expect: ["deallocate s of g"],
  },
  {
    name: "postfilter-deallocate-unreserved-podgroup",
    pods: [stuck("p", { shared: claim("s"), blockedBy: ["s"] })],
    group,
    expect: ["deallocate s of g"],
  },
  {
    name: "postfilter-skip-deallocate-reserved-podgroup-feature-disabled: the reservation of the group is that of another consumer",
    pods: [stuck("p", { own: claim("s", forGroup), blockedBy: ["s"] })],
    expect: [],
  },
  {
    name: "postfilter-skip-deallocate-reserved-podgroup-when-pods-active",
    pods: [stuck("p", { shared: claim("s", forGroup), blockedBy: ["s"] })],
    group,
    isGroupActive: true,
    expect: [],
  },
  {
    name: "deallocate-pod-level-claim",
    pods: [stuck("p", { own: claim("c"), blockedBy: ["c"] })],
    group,
    expect: ["deallocate c of p"],
  },
  {
    name: "deallocate-podgroup-level-claim",
    pods: [stuck("p", { shared: claim("s", forGroup), blockedBy: ["s"] })],
    group,
    expect: ["deallocate s of g"],
  },
  {
    name: "delete-pod-level-extended-claim",
    pods: [stuck("p", { leftover: claim("e") })],
    group,
    expect: ["delete e"],
  },
  {
    name: "unreserve-podgroup-claim",
    pods: [stuck("p", { shared: claim("s", forGroup) })],
    group,
    expect: ["unreserve s"],
  },
  {
    name: "unreserve-podgroup-multiple-unscheduled-pods: once, however many pods name it",
    pods: [stuck("p", { shared: claim("s", forGroup) }), stuck("q", { shared: claim("s", forGroup) })],
    group,
    expect: ["unreserve s"],
  },
  {
    name: "mixed-pod-level-and-podgroup-claims",
    pods: [stuck("p", { own: claim("c"), shared: claim("s", forGroup), blockedBy: ["c"] })],
    group,
    expect: ["deallocate c of p", "unreserve s"],
  },
  {
    name: "skip-deallocate-feature-disabled",
    pods: [stuck("p", { own: claim("s", forGroup), blockedBy: ["s"] })],
    expect: [],
  },
  {
    name: "skip-deallocate-topology-aware-podgroup",
    pods: [stuck("p", { shared: claim("s", forGroup), blockedBy: ["s"] })],
    group: spread,
    expect: [],
  },
];

test.each(cases)("$name", ({ name: _name, expect: wanted, ...input }) => {
  const told = whatToGiveBack(input).map((step) => {
    const { name } = step.claim.metadata;
    return step.kind === "deallocate" ? `deallocate ${name} of ${step.user.metadata.name}` : `${step.kind} ${name}`;
  });
  expect(told).toEqual(wanted);
});

/** The release of a claim whose pods are gone, by the names that Kubernetes' own table gives the cases. */
import { expect, test } from "vitest";
import type { Node, Pod, PodGroup, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { type Known, releaseClaim } from "./releaseClaim.ts";

const protection = "resource.kubernetes.io/delete-protection";
const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "default",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2026-01-01T00:00:00Z",
  ...more,
});
const pod = (more: { metadata?: object; spec?: object; status?: object } = {}): Known<Pod> => ({
  object: {
    metadata: meta("p", more.metadata),
    spec: { nodeName: "n1", ...more.spec },
    status: more.status,
  } as unknown as Pod,
});
const user = { resource: "pods", name: "p", uid: "uid-p" };
const groupUser = { apiGroup: "scheduling.k8s.io", resource: "podgroups", name: "g", uid: "uid-g" };
const allocation = {
  devices: { results: [{ request: "r", driver: "d", pool: "n1", device: "x" }] },
  nodeSelector: { nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["n1"] }] }] },
};
const prepared = [
  { driver: "d", pool: "n1", device: "x", conditions: [{ type: "Ready", status: "True", reason: "Prepared" }] },
];
const claim = (status: object, metadata: object = {}): ResourceClaim =>
  ({ metadata: meta("c", { finalizers: [protection], ...metadata }), spec: {}, status }) as unknown as ResourceClaim;
const owned = { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "uid-p", controller: true }] };
const deleting = { deletionTimestamp: "2026-01-01T00:00:00Z" };
const node = (taints: object[] = []): Known<Node> => ({
  object: { metadata: meta("n1"), spec: { taints } } as unknown as Node,
});

interface Case {
  readonly name: string;
  readonly claim: ResourceClaim;
  readonly pod?: Known<Pod>;
  readonly node?: Known<Node>;
  /** Where groups have claims. */
  readonly group?: Known<PodGroup>;
  readonly kind: ReturnType<typeof releaseClaim>["kind"];
  /** The claim's status after the write. */
  readonly status?: object;
  readonly finalizers?: string[];
}

const cases: Case[] = [
  { name: "stay-reserved-seen", claim: claim({ allocation, reservedFor: [user] }), pod: pod(), kind: "none" },
  { name: "stay-reserved-not-seen", claim: claim({ allocation, reservedFor: [user] }), pod: "unseen", kind: "look" },
  {
    name: "clear-reserved-structured",
    claim: claim({ allocation, reservedFor: [user] }),
    pod: "gone",
    kind: "write",
    status: {},
  },
  {
    name: "a pod of the same name with another UID does not count",
    claim: claim({ allocation, reservedFor: [user] }),
    pod: pod({ metadata: { uid: "another" } }),
    kind: "write",
    status: {},
  },
  {
    name: "clear-reserved-podgroup",
    claim: claim({ allocation, reservedFor: [groupUser] }),
    group: "gone",
    kind: "write",
    status: {},
  },
  {
    name: "clear-reserved-podgroup: a group of the same name with another UID does not count",
    claim: claim({ allocation, reservedFor: [groupUser] }),
    group: { object: { metadata: meta("g", { uid: "another" }) } as unknown as PodGroup },
    kind: "write",
    status: {},
  },
  {
    name: "a group that is not in the cache is read from the API",
    claim: claim({ allocation, reservedFor: [groupUser] }),
    group: "unseen",
    kind: "look",
  },
  {
    name: "stay-reserved-seen-podgroup",
    claim: claim({ allocation, reservedFor: [groupUser] }),
    group: { object: { metadata: meta("g") } as unknown as PodGroup },
    kind: "none",
  },
  {
    name: "dont-clear-reserved-podgroup-feature-disabled",
    claim: claim({ allocation, reservedFor: [groupUser] }),
    kind: "none",
  },
  {
    name: "clear-reserved-podgroup-deleted",
    claim: claim({ allocation, reservedFor: [groupUser] }, deleting),
    group: "gone",
    kind: "write",
    status: {},
  },
  {
    name: "dont-clear-reserved-structured: a consumer of another kind is removed by its own controller",
    claim: claim({ allocation, reservedFor: [{ apiGroup: "g", resource: "others", name: "o", uid: "uid-o" }] }),
    kind: "none",
  },
  {
    name: "clear-reserved-deleted: a claim that is being deleted",
    claim: claim({ allocation, reservedFor: [user] }, deleting),
    pod: "gone",
    kind: "write",
    status: {},
  },
  {
    name: "clear-reserved-when-done",
    claim: claim({ allocation, reservedFor: [user] }),
    pod: pod({ status: { phase: "Succeeded" } }),
    kind: "write",
    status: {},
  },
  {
    name: "a pod that was deleted before it had a node is finished",
    claim: claim({ allocation, reservedFor: [user] }),
    pod: pod({ metadata: deleting, spec: { nodeName: "" } }),
    kind: "write",
    status: {},
  },
  {
    name: "a terminating pod uses its claim until its node has stopped it",
    claim: claim({ allocation, reservedFor: [user] }),
    pod: pod({ metadata: deleting, spec: { nodeName: "n1" } }),
    kind: "none",
  },
  { name: "structured-deleted", claim: claim({ allocation }, deleting), kind: "write", status: {} },
  { name: "structured-deleted, and nothing is allocated", claim: claim({}, deleting), kind: "write", finalizers: [] },
  {
    name: "remove-reserved",
    claim: claim({ allocation, reservedFor: [user, { resource: "pods", name: "gone", uid: "uid-gone" }] }),
    pod: pod(),
    kind: "write",
    status: { allocation, reservedFor: [user] },
  },
  {
    name: "remove-pod-reservation-with-non-pod-reservation-present",
    claim: claim({ allocation, reservedFor: [user, { apiGroup: "g", resource: "others", name: "o", uid: "uid-o" }] }),
    pod: "gone",
    kind: "write",
    status: { allocation, reservedFor: [{ apiGroup: "g", resource: "others", name: "o", uid: "uid-o" }] },
  },
  {
    name: "delete-claim-when-done",
    claim: claim({}, { finalizers: undefined, ...owned }),
    pod: pod({ status: { phase: "Failed" } }),
    kind: "delete",
  },
  {
    name: "a claim whose owner is unknown is left to the garbage collector",
    claim: claim({}, owned),
    pod: "unseen",
    kind: "none",
  },
  { name: "an allocated claim without any reservation is left alone", claim: claim({ allocation }), kind: "none" },
  { name: "a claim of a running pod is left alone", claim: claim({}, owned), pod: pod(), kind: "none" },
  {
    name: "the node still has the devices prepared",
    claim: claim({ allocation, reservedFor: [user], devices: prepared }),
    pod: "gone",
    node: node(),
    kind: "wait",
  },
  {
    name: "the node that has them prepared is not in the cache",
    claim: claim({ allocation, reservedFor: [user], devices: prepared }),
    pod: "gone",
    node: "unseen",
    kind: "look",
  },
  {
    name: "the node that had them prepared is deleted",
    claim: claim({ allocation, reservedFor: [user], devices: prepared }),
    pod: "gone",
    node: "gone",
    kind: "write",
    status: {},
  },
  {
    name: "the node that has them prepared is out of service",
    claim: claim({ allocation, reservedFor: [user], devices: prepared }),
    pod: "gone",
    node: node([{ key: "node.kubernetes.io/out-of-service", effect: "NoExecute" }]),
    kind: "write",
    status: {},
  },
];

test.each(cases)("$name", (each) => {
  const verdict = releaseClaim({
    claim: each.claim,
    podOf: (name) => (name === "p" ? (each.pod ?? "gone") : "gone"),
    nodeOf: () => each.node ?? node(),
    ...(each.group !== undefined && { groupOf: () => each.group as Known<PodGroup> }),
  });
  expect(verdict.kind).toBe(each.kind);
  if (verdict.kind !== "write" || !("object" in verdict.intent)) return;
  const written = verdict.intent.object as unknown as ResourceClaim;
  if (each.status !== undefined) expect(written.status ?? {}).toEqual(each.status);
  if (each.finalizers !== undefined) expect(written.metadata.finalizers ?? []).toEqual(each.finalizers);
  expect(verdict.intent).toMatchObject({ expected: { uid: "uid-c", resourceVersion: "1" } });
});

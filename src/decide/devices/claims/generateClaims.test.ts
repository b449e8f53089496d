/** Claims from templates, by the names that Kubernetes' own table gives the cases. */
import { expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { Pod, ResourceClaim, ResourceClaimTemplate } from "../../../model/kubernetes.generated.ts";
import { claimNameBase } from "./claimFromTemplate.ts";
import { generateClaims } from "./generateClaims.ts";

const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "default",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2026-01-01T00:00:00Z",
  ...more,
});

function pod(more: { status?: object; spec?: object; metadata?: object } = {}): Pod {
  return partly<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: meta("p", more.metadata),
    spec: { containers: [], resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "t" }], ...more.spec },
    ...(more.status !== undefined && { status: more.status }),
  });
}

function claim(name: string, more: { owner?: string; entry?: string; status?: object } = {}): ResourceClaim {
  const { owner = "uid-p", entry = "gpu" } = more;
  return partly<ResourceClaim>({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: meta(name, {
      annotations: { "resource.kubernetes.io/pod-claim-name": entry },
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid: owner, controller: true }],
    }),
    spec: {},
    ...(more.status !== undefined && { status: more.status }),
  });
}

const template = partly<ResourceClaimTemplate>({
  metadata: meta("t"),
  spec: { metadata: { labels: { a: "b" }, annotations: { c: "d" } }, spec: { devices: { requests: [] } } },
});

const named = (name: string) => ({ resourceClaimStatuses: [{ name: "gpu", resourceClaimName: name }] });
const allocated = { allocation: { devices: {} } };

interface Case {
  readonly name: string;
  readonly pod: Pod;
  readonly claims?: readonly ResourceClaim[];
  readonly templates?: readonly string[];
  /** The index of owners, where it lags behind. */
  readonly owned?: readonly ResourceClaim[];
  readonly expect: { creates?: number; status?: string | undefined; reserves?: string[]; missing?: string[] };
}

const cases: Case[] = [
  { name: "create", pod: pod(), expect: { creates: 1 } },
  { name: "create-with-other-claim", pod: pod(), claims: [claim("other", { owner: "uid-q" })], expect: { creates: 1 } },
  {
    name: "create-for-grouped-pod",
    pod: pod({ spec: { schedulingGroup: { podGroupName: "g" } } }),
    expect: { creates: 1 },
  },
  { name: "nop", pod: pod({ status: named("c") }), claims: [claim("c")], expect: {} },
  {
    name: "nop-mutation-cache, nop-api-server: the claim is known only by the answer to its creation",
    pod: pod({ status: named("c") }),
    claims: [claim("c")],
    owned: [],
    expect: {},
  },
  {
    name: "find-created-claim-in-cache",
    pod: pod(),
    claims: [claim("c")],
    expect: { status: "c" },
  },
  { name: "recreate", pod: pod({ status: named("c") }), expect: { creates: 1 } },
  { name: "missing-template", pod: pod(), templates: [], expect: { missing: ["t"] } },
  { name: "find-existing-claim-by-label", pod: pod(), claims: [claim("c")], expect: { status: "c" } },
  {
    name: "a claim of another entry of the pod is not used for this one",
    pod: pod({ spec: { resourceClaims: ["gpu", "nic"].map((name) => ({ name, resourceClaimTemplateName: "t" })) } }),
    claims: [claim("c", { entry: "nic" })],
    expect: { creates: 1 },
  },
  {
    name: "recreate-wrong-owner",
    pod: pod({ status: named("c") }),
    claims: [claim("c", { owner: "uid-q" })],
    expect: { creates: 1 },
  },
  { name: "wrong-claim-owner", pod: pod(), claims: [claim("c", { owner: "uid-q" })], expect: { creates: 1 } },
  { name: "pod-deleted", pod: pod({ metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }), expect: {} },
  { name: "pod that has finished", pod: pod({ status: { phase: "Succeeded" } }), expect: {} },
  { name: "no-volumes", pod: pod({ spec: { resourceClaims: [] } }), expect: {} },
  {
    name: "add-reserved",
    pod: pod({ spec: { nodeName: "n1" }, status: named("c") }),
    claims: [claim("c", { status: allocated })],
    expect: { reserves: ["c"] },
  },
  {
    name: "add-reserved, but the claim is not allocated",
    pod: pod({ spec: { nodeName: "n1" }, status: named("c") }),
    claims: [claim("c")],
    expect: {},
  },
  {
    name: "add-reserved, but it is reserved already",
    pod: pod({ spec: { nodeName: "n1" }, status: named("c") }),
    claims: [claim("c", { status: { ...allocated, reservedFor: [{ resource: "pods", name: "p", uid: "uid-p" }] } })],
    expect: {},
  },
];

test.each(cases)("$name", (each) => {
  const { claims = [], templates = ["t"] } = each;
  const generated = generateClaims({
    pod: each.pod,
    templateOf: (name) => (templates.includes(name) ? template : undefined),
    claimOf: (name) => claims.find(({ metadata }) => metadata.name === name),
    owned:
      each.owned ??
      claims.filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uid === each.pod.metadata.uid)),
    absentAtRevision: "9",
  });
  expect(generated.creates).toHaveLength(each.expect.creates ?? 0);
  expect(generated.missing).toEqual(each.expect.missing ?? []);
  expect(generated.reserves.map(({ target }) => target.name)).toEqual(each.expect.reserves ?? []);
  const { status } = generated;
  const statuses =
    status?.type === "apply" ? (status.fields["status"] as { resourceClaimStatuses: object[] }) : undefined;
  expect(statuses?.resourceClaimStatuses).toEqual(
    each.expect.status === undefined ? undefined : [{ name: "gpu", resourceClaimName: each.expect.status }],
  );
});

test("a claim is made with the template's labels and annotations, its owner, and a name that follows from the pod", () => {
  const input = { pod: pod(), templateOf: () => template, claimOf: () => undefined, owned: [], absentAtRevision: "9" };
  const [first] = generateClaims(input).creates;
  const [second] = generateClaims(input).creates;
  expect(first).toEqual(second);
  expect(first?.object.metadata).toMatchObject({
    labels: { a: "b" },
    annotations: { c: "d", "resource.kubernetes.io/pod-claim-name": "gpu" },
    ownerReferences: [{ kind: "Pod", name: "p", uid: "uid-p", controller: true }],
  });
  expect(first?.object["spec"]).toBe(template.spec.spec);
});

test("create-conflict: a name that another owner's claim has is skipped", () => {
  const input = { pod: pod(), templateOf: () => template, owned: [], absentAtRevision: "9" };
  const [first] = generateClaims({ ...input, claimOf: () => undefined }).creates;
  const taken = first?.target.name ?? "";
  const claimOf = (name: string) => (name === taken ? claim(taken, { owner: "uid-q" }) : undefined);
  const [second] = generateClaims({ ...input, claimOf }).creates;
  expect(second?.target.name).not.toBe(taken);
});

test("flapping-resourceclaim-statuses: the same statuses in another order are not written again", () => {
  const status = {
    resourceClaimStatuses: [
      { name: "z", resourceClaimName: "cz" },
      { name: "gpu", resourceClaimName: "c" },
    ],
  };
  const claims = [claim("c"), claim("cz", { entry: "z" })];
  const spec = {
    resourceClaims: [
      { name: "gpu", resourceClaimTemplateName: "t" },
      { name: "z", resourceClaimTemplateName: "t" },
    ],
  };
  const claimOf = (name: string) => claims.find(({ metadata }) => metadata.name === name);
  const generated = generateClaims({
    pod: pod({ status, spec }),
    templateOf: () => template,
    claimOf,
    owned: claims,
    absentAtRevision: "9",
  });
  expect(generated.status).toBeUndefined();
});

test.each([
  { pod: "p", entry: "e", base: "p-e-" },
  { pod: "a".repeat(60), entry: "b".repeat(60), base: `${"a".repeat(28)}-${"b".repeat(28)}-` },
  { pod: "a".repeat(80), entry: "b".repeat(4), base: `${"a".repeat(53)}-bbb-` },
])("the name of a claim for $pod, $entry begins with both", ({ pod: podName, entry, base }) => {
  expect(claimNameBase(podName, entry)).toBe(base);
});

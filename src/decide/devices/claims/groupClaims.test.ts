/** Claims of PodGroups, by the names that Kubernetes' own table gives the cases. */
import { describe, expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { Pod, PodGroup, ResourceClaim, ResourceClaimTemplate } from "../../../model/kubernetes.generated.ts";
import { generateClaims } from "./generateClaims.ts";
import { generateForGroup } from "./groupClaims.ts";
import { groupOfPod, type PodsGroup } from "./podsGroup.ts";

const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "default",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2026-01-01T00:00:00Z",
  ...more,
});
const template = partly<ResourceClaimTemplate>({
  metadata: meta("t"),
  spec: { spec: { devices: { requests: [] } } },
});
const named = (name: string) => ({ resourceClaimStatuses: [{ name: "gpu", resourceClaimName: name }] });
const entries = [{ name: "gpu", resourceClaimTemplateName: "t" }];

function group(more: { status?: object; claims?: object[]; metadata?: object } = {}): PodGroup {
  return partly<PodGroup>({
    apiVersion: "scheduling.k8s.io/v1alpha2",
    kind: "PodGroup",
    metadata: meta("g", more.metadata),
    spec: { schedulingPolicy: {}, resourceClaims: more.claims ?? entries },
    ...(more.status !== undefined && { status: more.status }),
  });
}

function pod(more: { status?: object; claims?: object[]; spec?: object } = {}): Pod {
  const resourceClaims = more.claims ?? entries;
  const spec = { containers: [], schedulingGroup: { podGroupName: "g" }, resourceClaims, ...more.spec };
  return partly<Pod>({
    apiVersion: "v1",
    kind: "Pod",
    metadata: meta("p"),
    spec,
    ...(more.status !== undefined && { status: more.status }),
  });
}

function claim(name: string, more: { owner?: string; status?: object } = {}): ResourceClaim {
  const uid = more.owner ?? "uid-g";
  return partly<ResourceClaim>({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: meta(name, {
      annotations: { "resource.kubernetes.io/pod-claim-name": "gpu" },
      ownerReferences: [
        { apiVersion: "scheduling.k8s.io/v1alpha2", kind: "PodGroup", name: "g", uid, controller: true },
      ],
    }),
    spec: {},
    ...(more.status !== undefined && { status: more.status }),
  });
}

interface GroupCase {
  readonly name: string;
  readonly group: PodGroup;
  readonly claims?: readonly ResourceClaim[];
  readonly templates?: readonly string[];
  readonly expect: { creates?: number; status?: string; missing?: string[] };
}

const groupCases: GroupCase[] = [
  { name: "create-for-podgroup", group: group(), expect: { creates: 1 } },
  { name: "nop-podgroup", group: group({ status: named("c") }), claims: [claim("c")], expect: {} },
  { name: "recreate-podgroup", group: group({ status: named("c") }), expect: { creates: 1 } },
  { name: "missing-template-podgroup", group: group(), templates: [], expect: { missing: ["t"] } },
  { name: "find-existing-claim-by-label-podgroup", group: group(), claims: [claim("c")], expect: { status: "c" } },
  { name: "find-created-claim-in-cache-podgroup", group: group(), claims: [claim("c")], expect: { status: "c" } },
  {
    name: "recreate-wrong-owner-podgroup",
    group: group({ status: named("c") }),
    claims: [claim("c", { owner: "uid-other" })],
    expect: { creates: 1 },
  },
  {
    name: "wrong-claim-owner-podgroup",
    group: group(),
    claims: [claim("c", { owner: "uid-other" })],
    expect: { creates: 1 },
  },
  { name: "no-volumes-podgroup", group: group({ claims: [] }), expect: {} },
  { name: "podgroup-deleted", group: group({ metadata: { deletionTimestamp: "x" } }), expect: {} },
  {
    name: "a claim that the group references by name is not created",
    group: group({ claims: [{ name: "gpu", resourceClaimName: "c" }] }),
    expect: {},
  },
];

describe("for the group", () => {
  test.each(groupCases)("$name", (each) => {
    const { claims = [], templates = ["t"] } = each;
    const { creates, status, missing } = generateForGroup({
      group: each.group,
      templateOf: (name) => (templates.includes(name) ? template : undefined),
      claimOf: (name) => claims.find(({ metadata }) => metadata.name === name),
      owned: claims.filter(({ metadata }) => metadata.ownerReferences?.[0]?.uid === "uid-g"),
      absentAtRevision: "9",
    });
    expect(creates).toHaveLength(each.expect.creates ?? 0);
    for (const { object } of creates) {
      expect(object.metadata["ownerReferences"]).toMatchObject([{ kind: "PodGroup", uid: "uid-g", controller: true }]);
    }
    expect(missing).toEqual(each.expect.missing ?? []);
    const written = status?.type === "apply" ? (status.fields["status"] as object) : undefined;
    expect(written).toEqual(each.expect.status === undefined ? undefined : named(each.expect.status));
  });

  test("create-conflict-podgroup: a name that another owner's claim has is skipped", () => {
    const input = { group: group(), templateOf: () => template, owned: [], absentAtRevision: "9" };
    const [first] = generateForGroup({ ...input, claimOf: () => undefined }).creates;
    const taken = first?.target.name ?? "";
    const claimOf = (name: string) => (name === taken ? claim(taken, { owner: "uid-other" }) : undefined);
    expect(generateForGroup({ ...input, claimOf }).creates[0]?.target.name).not.toBe(taken);
  });
});

interface PodCase {
  readonly name: string;
  readonly pod: Pod;
  readonly group: PodsGroup;
  readonly claims?: readonly ResourceClaim[];
  readonly expect: { creates?: number; status?: string; reserves?: { claim: string; user: string }[] };
}

const allocated = { allocation: { devices: {} } };
const bound = { nodeName: "n1" };
const podCases: PodCase[] = [
  {
    name: "create-for-grouped-pod: an entry that is not the group's",
    pod: pod({ claims: [{ name: "own", resourceClaimTemplateName: "t" }] }),
    group: group(),
    expect: { creates: 1 },
  },
  { name: "skip-create-for-pod-podgroup-does-not-exist", pod: pod(), group: "missing", expect: {} },
  { name: "skip-create-podgroup-claim-for-pod", pod: pod(), group: group(), expect: {} },
  {
    name: "update-pod-status-with-podgroup-claim",
    pod: pod(),
    group: group({ status: named("c") }),
    claims: [claim("c")],
    expect: { status: "c" },
  },
  {
    name: "a claim in the group's status that is not the group's is not used",
    pod: pod(),
    group: group({ status: named("c") }),
    claims: [claim("c", { owner: "uid-other" })],
    expect: {},
  },
  {
    name: "add-reserved-podgroup",
    pod: pod({ status: named("c"), spec: bound }),
    group: group({ status: named("c") }),
    claims: [claim("c", { status: allocated })],
    expect: { reserves: [{ claim: "c", user: "uid-g" }] },
  },
  {
    name: "add-reserved-podgroup, but the claim is not allocated",
    pod: pod({ status: named("c"), spec: bound }),
    group: group({ status: named("c") }),
    claims: [claim("c")],
    expect: {},
  },
  {
    name: "add-reserved-podgroup, but it is reserved already",
    pod: pod({ status: named("c"), spec: bound }),
    group: group({ status: named("c") }),
    claims: [
      claim("c", { status: { ...allocated, reservedFor: [{ resource: "podgroups", name: "g", uid: "uid-g" }] } }),
    ],
    expect: {},
  },
];

describe("for its pods", () => {
  test.each(podCases)("$name", (each) => {
    const { claims = [] } = each;
    const generated = generateClaims({
      pod: each.pod,
      group: each.group,
      templateOf: () => template,
      claimOf: (name) => claims.find(({ metadata }) => metadata.name === name),
      owned: [],
      absentAtRevision: "9",
    });
    expect(generated.creates).toHaveLength(each.expect.creates ?? 0);
    const { status } = generated;
    const written = status?.type === "apply" ? (status.fields["status"] as object) : undefined;
    expect(written).toEqual(each.expect.status === undefined ? undefined : named(each.expect.status));
    const reserves = generated.reserves.map((intent) => {
      const { metadata, status: after } = (intent as unknown as { object: ResourceClaim }).object;
      return { claim: metadata.name, user: after?.reservedFor?.at(-1)?.uid };
    });
    expect(reserves).toEqual(each.expect.reserves ?? []);
  });

  test("skip-create-for-podgroup-genericworkload-disabled, -workloadresourceclaims-disabled: a pod makes its claims itself", () => {
    const off = groupOfPod(pod(), undefined);
    expect(off).toBe("none");
    const input = {
      pod: pod(),
      group: off,
      templateOf: () => template,
      claimOf: () => undefined,
      owned: [],
      absentAtRevision: "9",
    };
    expect(generateClaims(input).creates[0]?.object.metadata["ownerReferences"]).toMatchObject([{ kind: "Pod" }]);
  });
});

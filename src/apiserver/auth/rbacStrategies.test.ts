import { describe, expect, test } from "vitest";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { UserInfo, WriteContext } from "../strategy.ts";
import { RbacAuthorizer } from "./rbac.ts";
import { type RbacKind, rbacStrategies } from "./rbacStrategies.ts";

const group = "rbac.authorization.k8s.io";

function object(kind: RbacKind, body: Record<string, unknown>): KubeObject {
  const metadata = kind.startsWith("Cluster") ? { name: "x" } : { name: "x", namespace: "ns" };
  return { apiVersion: `${group}/v1`, kind, metadata, ...body } as KubeObject;
}
const roleRef = (kind: string, name: string) => ({ apiGroup: group, kind, name });
const someone = [{ kind: "User", apiGroup: group, name: "someone" }];
const by = (user: UserInfo, roles: Record<string, unknown[]> = {}): WriteContext => ({
  nowMs: 0,
  user,
  subresource: "",
  dryRun: false,
  get: (resource, namespace, name) =>
    resource === `${group}/clusterroles` && namespace === "" && Object.hasOwn(roles, name)
      ? object("ClusterRole", { rules: roles[name] })
      : undefined,
  list: () => [],
  warn: () => undefined,
  randomBelow: () => 0,
});

/** A user `jo` who holds the given rules everywhere (`cluster`) and in the namespace `ns` (`local`), in a world whose roles are `roles`. */
function world(held: { cluster?: unknown[]; local?: unknown[]; roles?: Record<string, unknown[]> }) {
  const rbac = new RbacAuthorizer();
  const put = (resource: string, namespace: string, name: string, body: Record<string, unknown>) =>
    rbac.apply(`${group}/${resource}`, namespace, name, {
      metadata: { name } as never,
      apiVersion: "",
      kind: "",
      ...body,
    });
  put("clusterroles", "", "mine", { rules: held.cluster ?? [] });
  put("clusterrolebindings", "", "mine", {
    roleRef: roleRef("ClusterRole", "mine"),
    subjects: [{ kind: "User", name: "jo" }],
  });
  put("roles", "ns", "mine", { rules: held.local ?? [] });
  put("rolebindings", "ns", "mine", { roleRef: roleRef("Role", "mine"), subjects: [{ kind: "User", name: "jo" }] });
  return rbacStrategies(rbac);
}
const joUser: UserInfo = { username: "jo", groups: ["team", "system:authenticated"] };
const jo = by(joUser);
const root = by({ username: "root", groups: ["system:masters"] });
const pods = (...verbs: string[]) => ({ verbs, apiGroups: [""], resources: ["pods"] });
const everything = [
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
];

describe("writing a role", () => {
  test.each<[string, unknown[], unknown[], boolean]>([
    ["with rules the writer holds is allowed", [pods("get", "list")], [pods("get")], true],
    ["with a verb the writer lacks is refused", [pods("get")], [pods("get", "delete")], false],
    [
      "with a star is refused to a holder of every verb he could name",
      [pods("get", "list", "watch")],
      [pods("*")],
      false,
    ],
    ["with rules spread over several held rules is allowed", [pods("get"), pods("list")], [pods("list", "get")], true],
    [
      "for one name is allowed to a holder of all names",
      [pods("get")],
      [{ ...pods("get"), resourceNames: ["a"] }],
      true,
    ],
    ["for all names is refused to a holder of one", [{ ...pods("get"), resourceNames: ["a"] }], [pods("get")], false],
    [
      "for a held name and another is refused",
      [{ ...pods("get"), resourceNames: ["a"] }],
      [{ ...pods("get"), resourceNames: ["a", "b"] }],
      false,
    ],
    [
      "for one subresource is allowed to a holder of it on everything",
      [{ verbs: ["get"], apiGroups: ["*"], resources: ["*/scale"] }],
      [{ verbs: ["get"], apiGroups: ["apps"], resources: ["deployments/scale"] }],
      true,
    ],
    [
      "for a path is allowed below a held star",
      [{ verbs: ["get"], nonResourceURLs: ["/a/*"] }],
      [{ verbs: ["get"], nonResourceURLs: ["/a/b", "/a/c/*"] }],
      true,
    ],
    [
      "for a path outside is refused",
      [{ verbs: ["get"], nonResourceURLs: ["/a/*"] }],
      [{ verbs: ["get"], nonResourceURLs: ["/b"] }],
      false,
    ],
    [
      "with anything is allowed to who may escalate",
      [{ verbs: ["escalate"], apiGroups: [group], resources: ["clusterroles"] }],
      everything,
      true,
    ],
    ["with nothing in it is allowed", [], [], true],
  ])("%s", (_, held, rules, allowed) => {
    const write = () => world({ cluster: held }).ClusterRole.prepareForCreate?.(object("ClusterRole", { rules }), jo);
    if (allowed) expect(write).not.toThrow();
    else expect(write).toThrow(/not currently held/);
  });

  test("is refused with the list of what is missing", () => {
    const rules = [pods("get", "delete", "patch"), { verbs: ["get"], nonResourceURLs: ["/m"] }];
    const write = () =>
      world({ cluster: [pods("get")] }).ClusterRole.prepareForCreate?.(object("ClusterRole", { rules }), jo);
    expect(write).toThrow(
      'clusterroles.rbac.authorization.k8s.io "x" is forbidden: user "jo" (groups=["team" "system:authenticated"]) ' +
        "is attempting to grant RBAC permissions not currently held:\n" +
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}\n' +
        '{NonResourceURLs:["/m"], Verbs:["get"]}',
    );
  });

  test("of a namespace counts what is held there, and a ClusterRole does not", () => {
    const strategies = world({ local: [pods("get")] });
    const rules = [pods("get")];
    expect(() => strategies.Role.prepareForCreate?.(object("Role", { rules }), jo)).not.toThrow();
    expect(() => strategies.ClusterRole.prepareForCreate?.(object("ClusterRole", { rules }), jo)).toThrow(
      /not currently held/,
    );
  });

  test("again needs its rules, even for a label; only what garbage collection needs is free", () => {
    const { ClusterRole } = world({});
    const old = object("ClusterRole", { rules: [pods("get")] });
    const held = object("ClusterRole", { rules: [pods("get")] });
    held.metadata.finalizers = ["example.com/hold"];
    expect(() => ClusterRole.prepareForUpdate?.(held, old, jo)).not.toThrow();
    const labelled = object("ClusterRole", { rules: [pods("get")] });
    labelled.metadata.labels = { a: "b" };
    expect(() => ClusterRole.prepareForUpdate?.(labelled, old, jo)).toThrow(/not currently held/);
    const wider = object("ClusterRole", { rules: [pods("get", "list")] });
    expect(() => ClusterRole.prepareForUpdate?.(wider, old, jo)).toThrow(/not currently held/);
  });

  test("that aggregates needs everything, also to stop aggregating", () => {
    const aggregationRule = { clusterRoleSelectors: [{}] };
    const gathering = object("ClusterRole", { rules: [], aggregationRule });
    const plain = object("ClusterRole", { rules: [] });
    const need = /must have cluster-admin privileges to use the aggregationRule/;
    expect(() => world({}).ClusterRole.prepareForCreate?.(gathering, jo)).toThrow(need);
    expect(() => world({}).ClusterRole.prepareForUpdate?.(plain, gathering, jo)).toThrow(need);
    expect(() => world({ cluster: everything }).ClusterRole.prepareForCreate?.(gathering, jo)).not.toThrow();
  });

  test("is never refused to system:masters", () => {
    expect(() =>
      world({}).ClusterRole.prepareForCreate?.(object("ClusterRole", { rules: everything }), root),
    ).not.toThrow();
  });
});

describe("writing a binding", () => {
  const binding = (kind: RbacKind, role: string) =>
    object(kind, { roleRef: roleRef("ClusterRole", role), subjects: someone });
  const roles = { reader: [pods("get")], "cluster-admin": everything };
  const bindVerb = {
    verbs: ["bind"],
    apiGroups: [group],
    resources: ["clusterroles"],
    resourceNames: ["cluster-admin"],
  };
  test.each<[string, Parameters<typeof world>[0], RbacKind, string, RegExp | undefined]>([
    [
      "to a role whose rules are held is allowed",
      { cluster: [pods("get")], roles },
      "ClusterRoleBinding",
      "reader",
      undefined,
    ],
    [
      "to a stronger role is refused",
      { cluster: [pods("get")], roles },
      "ClusterRoleBinding",
      "cluster-admin",
      /clusterrolebindings.*not currently held/s,
    ],
    ["in a namespace counts what is held there", { local: [pods("get")], roles }, "RoleBinding", "reader", undefined],
    ["of the cluster does not", { local: [pods("get")], roles }, "ClusterRoleBinding", "reader", /not currently held/],
    [
      "is allowed to who may bind that role",
      { cluster: [bindVerb], roles },
      "ClusterRoleBinding",
      "cluster-admin",
      undefined,
    ],
    [
      "is refused to who may bind another role",
      { cluster: [bindVerb], roles },
      "ClusterRoleBinding",
      "reader",
      /not currently held/,
    ],
    [
      "to a missing role is allowed to who may bind any role",
      { cluster: everything, roles: {} },
      "RoleBinding",
      "gone",
      undefined,
    ],
    [
      "to a missing role without the right to bind is not found",
      { roles: {} },
      "RoleBinding",
      "gone",
      /clusterrole\.rbac\.authorization\.k8s\.io "gone" not found/,
    ],
  ])("%s", (_, held, kind, role, refusal) => {
    const write = () => world(held)[kind].prepareForCreate?.(binding(kind, role), by(joUser, held.roles));
    if (refusal === undefined) expect(write).not.toThrow();
    else expect(write).toThrow(refusal);
  });

  test("again is free as long as role and subjects stay", () => {
    const { RoleBinding } = world({ roles });
    const old = binding("RoleBinding", "cluster-admin");
    expect(() => RoleBinding.prepareForUpdate?.(binding("RoleBinding", "cluster-admin"), old, jo)).not.toThrow();
    const more = { ...binding("RoleBinding", "cluster-admin"), subjects: [...someone, { kind: "User", name: "jo" }] };
    expect(() => RoleBinding.prepareForUpdate?.(more, old, by(joUser, roles))).toThrow(/not currently held/);
  });
});

describe("validation", () => {
  const ref = roleRef("ClusterRole", "r");
  test.each<[string, RbacKind, Record<string, unknown>, string[]]>([
    ["accepts a plain role", "Role", { rules: [pods("get")] }, []],
    ["accepts a role without rules", "ClusterRole", { rules: null }, []],
    [
      "wants verbs, groups and resources",
      "Role",
      { rules: [{}] },
      [
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
      ],
    ],
    [
      "keeps paths out of namespaces",
      "Role",
      { rules: [{ verbs: ["get"], nonResourceURLs: ["/a"] }] },
      ['rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs'],
    ],
    [
      "keeps paths and resources apart",
      "ClusterRole",
      { rules: [{ ...pods("get"), nonResourceURLs: ["/a"] }] },
      [
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs',
      ],
    ],
    [
      "wants a selector in an aggregation",
      "ClusterRole",
      { aggregationRule: {} },
      [
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
      ],
    ],
    ["accepts a binding without subjects", "RoleBinding", { roleRef: ref }, []],
    [
      "knows two kinds of roles in a namespace",
      "RoleBinding",
      { roleRef: roleRef("Pod", "r") },
      ['roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"'],
    ],
    [
      "knows one kind of role in the cluster",
      "ClusterRoleBinding",
      { roleRef: roleRef("Role", "r") },
      ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
    ],
    ["wants the name of the role", "RoleBinding", { roleRef: roleRef("Role", "") }, ["roleRef.name: Required value"]],
    [
      "refuses a role name that is a path",
      "RoleBinding",
      { roleRef: roleRef("Role", "a/b") },
      [`roleRef.name: Invalid value: "a/b": may not contain '/'`],
    ],
    [
      "wants a namespace for a service account in the cluster",
      "ClusterRoleBinding",
      { roleRef: ref, subjects: [{ kind: "ServiceAccount", name: "a" }] },
      ["subjects[0].namespace: Required value"],
    ],
    [
      "knows three kinds of subjects",
      "RoleBinding",
      { roleRef: ref, subjects: [{ kind: "Robot", name: "a" }] },
      ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
    ],
    [
      "wants the right group of a user",
      "RoleBinding",
      { roleRef: ref, subjects: [{ kind: "User", name: "a", apiGroup: "x" }] },
      ['subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"'],
    ],
    [
      "wants the name of a subject",
      "RoleBinding",
      { roleRef: ref, subjects: [{ kind: "User" }] },
      ["subjects[0].name: Required value"],
    ],
  ])("%s", (_, kind, body, expected) => {
    const strategy = world({})[kind];
    const made = object(kind, body);
    strategy.setDefaults?.(made);
    expect(strategy.validate?.(made, root).map(describeFieldError)).toEqual(expected);
  });

  test("fills the group of the role and of users and groups, not of service accounts", () => {
    const made = object("RoleBinding", {
      roleRef: { kind: "Role", name: "r" },
      subjects: [
        { kind: "User", name: "u" },
        { kind: "Group", name: "g", apiGroup: "" },
        { kind: "ServiceAccount", name: "s" },
      ],
    });
    world({}).RoleBinding.setDefaults?.(made);
    expect(made).toMatchObject({
      roleRef: roleRef("Role", "r"),
      subjects: [
        { kind: "User", apiGroup: group },
        { kind: "Group", apiGroup: group },
        { kind: "ServiceAccount", name: "s" },
      ],
    });
    expect((made["subjects"] as object[])[2]).not.toHaveProperty("apiGroup");
  });

  test("never lets a binding point to another role", () => {
    const next = object("RoleBinding", { roleRef: roleRef("Role", "b") });
    const old = object("RoleBinding", { roleRef: roleRef("Role", "a") });
    const errors = world({}).RoleBinding.validateUpdate?.(next, old, root) ?? [];
    expect(errors.map(describeFieldError)).toEqual([
      `roleRef: Invalid value: ${JSON.stringify(next["roleRef"])}: cannot change roleRef`,
    ]);
  });
});

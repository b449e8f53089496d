import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../model/objects/object.ts";
import type { UserInfo } from "../strategy.ts";
import { type Access, demandAccess, forbiddenAccess, resourceAccess } from "./access.ts";
import { aggregateAll, aggregateRules } from "./aggregateRules.ts";
import { RbacAuthorizer } from "./rbac.ts";

const group = "rbac.authorization.k8s.io";
const plural: Record<string, string> = {
  Role: "roles",
  ClusterRole: "clusterroles",
  RoleBinding: "rolebindings",
  ClusterRoleBinding: "clusterrolebindings",
};

function object(kind: string, path: string, body: Record<string, unknown>): KubeObject {
  const [first = "", second] = path.split("/");
  const metadata = second === undefined ? { name: first } : { name: second, namespace: first };
  return { apiVersion: `${group}/v1`, kind, metadata, ...body } as KubeObject;
}
const rule = (verbs: string, resources: string, rest: Record<string, unknown> = {}) => ({
  verbs: verbs.split(","),
  apiGroups: [""],
  resources: resources.split(","),
  ...rest,
});
const role = (path: string, ...rules: unknown[]) =>
  object(path.includes("/") ? "Role" : "ClusterRole", path, { rules });
/** `bind("ns/b", "ClusterRole view", "User jo", "ServiceAccount ns/robot")` */
function bind(path: string, roleRef: string, ...subjects: string[]): KubeObject {
  const [kind, name] = roleRef.split(" ");
  return object(path.includes("/") ? "RoleBinding" : "ClusterRoleBinding", path, {
    roleRef: { apiGroup: group, kind, name },
    subjects: subjects.map((text) => {
      const [subjectKind, own = ""] = text.split(" ");
      const [first = "", second] = own.split("/");
      if (subjectKind !== "ServiceAccount") return { kind: subjectKind, apiGroup: group, name: own };
      return second === undefined
        ? { kind: subjectKind, name: first }
        : { kind: subjectKind, namespace: first, name: second };
    }),
  });
}
function rbac(...objects: KubeObject[]): RbacAuthorizer {
  const authorizer = new RbacAuthorizer();
  for (const one of objects) put(authorizer, one);
  return authorizer;
}
function put(authorizer: RbacAuthorizer, one: KubeObject): void {
  authorizer.apply(`${group}/${plural[one.kind]}`, one.metadata.namespace ?? "", one.metadata.name, one);
}
const user = (username: string, ...groups: string[]): UserInfo => ({ username, groups });
/** `get pods/log ns/name`, `list deployments.apps`, `get /version` */
function access(text: string): Access {
  const [verb = "", what = "", where = ""] = text.split(" ");
  if (what.startsWith("/")) return { verb, path: what };
  const [combined = "", ...groupParts] = what.split(".");
  const [resource = "", subresource = ""] = combined.split("/");
  const [namespace = "", name = ""] = where.split("/");
  return resourceAccess({ verb, group: groupParts.join("."), resource, subresource, namespace, name });
}

describe("a role", () => {
  const jo = user("jo", "system:authenticated");
  test.each<[string, unknown, string, boolean]>([
    ["allows its verb on its resource", rule("get", "pods"), "get pods ns/a", true],
    ["allows no other verb", rule("get", "pods"), "delete pods ns/a", false],
    ["allows no other resource", rule("get", "pods"), "get secrets ns/a", false],
    [
      "allows no resource of the same name in another group",
      rule("get", "pods"),
      "get pods.metrics.k8s.io ns/a",
      false,
    ],
    ["allows no subresource by naming the parent", rule("get", "pods"), "get pods/log ns/a", false],
    ["allows the subresource it names", rule("get", "pods/log"), "get pods/log ns/a", true],
    ["allows no parent by naming the subresource", rule("get", "pods/log"), "get pods ns/a", false],
    ["allows a subresource of every resource", rule("get", "*/scale"), "get deployments/scale ns/a", true],
    ["allows no other subresource by that", rule("get", "*/scale"), "get deployments/status ns/a", false],
    ["allows no subresource that ends alike", rule("get", "*/scale"), "get deployments/upscale ns/a", false],
    ["does not read a star inside a word", rule("get", "pod*"), "get pods ns/a", false],
    ["with a star for resources allows subresources too", rule("get", "*"), "get pods/log ns/a", true],
    ["with a star for verbs allows every verb", rule("*", "pods"), "deletecollection pods ns", true],
    ["with a star for groups allows every group", rule("get", "pods", { apiGroups: ["*"] }), "get pods.x.y ns/a", true],
    ["with names allows those names", rule("get", "pods", { resourceNames: ["a", "b"] }), "get pods ns/b", true],
    ["with names allows no other name", rule("get", "pods", { resourceNames: ["a"] }), "get pods ns/b", false],
    ["with names allows no list", rule("list", "pods", { resourceNames: ["a"] }), "list pods ns", false],
    ["allows a path", { verbs: ["get"], nonResourceURLs: ["/healthz"] }, "get /healthz", true],
    ["allows no path below it", { verbs: ["get"], nonResourceURLs: ["/healthz"] }, "get /healthz/etcd", false],
    [
      "with a star at the end allows paths below",
      { verbs: ["get"], nonResourceURLs: ["/apis/*"] },
      "get /apis/apps",
      true,
    ],
    [
      "with a star behind a slash leaves the path itself out",
      { verbs: ["get"], nonResourceURLs: ["/apis/*"] },
      "get /apis",
      false,
    ],
    ["with a star inside allows nothing by it", { verbs: ["get"], nonResourceURLs: ["/a/*/b"] }, "get /a/x/b", false],
    ["on every path allows no resource", { verbs: ["*"], nonResourceURLs: ["*"] }, "get pods ns/a", false],
    ["on every resource allows no path", rule("*", "*", { apiGroups: ["*"] }), "get /version", false],
    ["with nothing in it allows nothing", {}, "get pods ns/a", false],
  ])("%s", (_, one, asked, allowed) => {
    const authorizer = rbac(role("r", one), bind("b", "ClusterRole r", "User jo"));
    expect(authorizer.authorize(jo, access(asked)).allowed).toBe(allowed);
  });
});

describe("a binding", () => {
  const view = role("view", rule("get,list", "pods"), { verbs: ["get"], nonResourceURLs: ["/metrics"] });
  const local = role("ns/own", rule("get", "pods"));
  const robot = user("system:serviceaccount:ns:robot", "system:serviceaccounts", "system:serviceaccounts:ns");
  test.each<[string, KubeObject, UserInfo, string, boolean]>([
    [
      "of the cluster reaches every namespace",
      bind("b", "ClusterRole view", "User jo"),
      user("jo"),
      "get pods x/a",
      true,
    ],
    [
      "of the cluster reaches all namespaces at once",
      bind("b", "ClusterRole view", "User jo"),
      user("jo"),
      "list pods",
      true,
    ],
    [
      "in a namespace reaches that namespace",
      bind("ns/b", "ClusterRole view", "User jo"),
      user("jo"),
      "get pods ns/a",
      true,
    ],
    ["in a namespace reaches no other", bind("ns/b", "ClusterRole view", "User jo"), user("jo"), "get pods x/a", false],
    [
      "in a namespace does not reach all namespaces",
      bind("ns/b", "ClusterRole view", "User jo"),
      user("jo"),
      "list pods",
      false,
    ],
    ["in a namespace reaches no path", bind("ns/b", "ClusterRole view", "User jo"), user("jo"), "get /metrics", false],
    ["may name a role of its namespace", bind("ns/b", "Role own", "User jo"), user("jo"), "get pods ns/a", true],
    ["cannot name a role of another namespace", bind("x/b", "Role own", "User jo"), user("jo"), "get pods x/a", false],
    [
      "of the cluster cannot name a Role, not even one called like a ClusterRole",
      bind("b", "Role view", "User jo"),
      user("jo"),
      "get pods x/a",
      false,
    ],
    ["means the user it names", bind("b", "ClusterRole view", "User jo"), user("joe"), "get pods x/a", false],
    [
      "means the members of a group",
      bind("b", "ClusterRole view", "Group team"),
      user("jo", "team"),
      "get pods x/a",
      true,
    ],
    ["does not take a user for a group", bind("b", "ClusterRole view", "Group jo"), user("jo"), "get pods x/a", false],
    [
      "does not take a group for a user",
      bind("b", "ClusterRole view", "User team"),
      user("jo", "team"),
      "get pods x/a",
      false,
    ],
    ["means a service account", bind("b", "ClusterRole view", "ServiceAccount ns/robot"), robot, "get pods x/a", true],
    [
      "means no service account of another namespace",
      bind("b", "ClusterRole view", "ServiceAccount x/robot"),
      robot,
      "get pods x/a",
      false,
    ],
    [
      "takes a service account without namespace from its own",
      bind("ns/b", "ClusterRole view", "ServiceAccount robot"),
      robot,
      "get pods ns/a",
      true,
    ],
    [
      "of the cluster ignores a service account without namespace",
      bind("b", "ClusterRole view", "ServiceAccount robot"),
      robot,
      "get pods ns/a",
      false,
    ],
    [
      "means all service accounts of a namespace",
      bind("b", "ClusterRole view", "Group system:serviceaccounts:ns"),
      robot,
      "get pods x/a",
      true,
    ],
    [
      "may name a service account by its long user name",
      bind("b", "ClusterRole view", "User system:serviceaccount:ns:robot"),
      robot,
      "get pods x/a",
      true,
    ],
  ])("%s", (_, binding, who, asked, allowed) => {
    expect(rbac(view, local, binding).authorize(who, access(asked)).allowed).toBe(allowed);
  });

  test("says in the verdict which binding allowed it", () => {
    const authorizer = rbac(view, bind("ns/b", "ClusterRole view", "ServiceAccount robot"));
    expect(authorizer.authorize(robot, access("get pods ns/a"))).toEqual({
      allowed: true,
      reason: 'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "view" to ServiceAccount "robot/ns"',
    });
  });

  test("to a role that is missing allows nothing and names the role", () => {
    const authorizer = rbac(bind("b", "ClusterRole gone", "User jo"), bind("ns/b", "Role lost", "User jo"));
    expect(authorizer.authorize(user("jo"), access("get pods ns/a"))).toEqual({
      allowed: false,
      reason:
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "lost" not found]',
    });
  });
});

describe("a change takes effect at the next request", () => {
  const jo = user("jo");
  const asks = (authorizer: RbacAuthorizer) => authorizer.authorize(jo, access("get pods ns/a")).allowed;

  test("when a role, a binding, or a subject is added or removed", () => {
    const authorizer = rbac();
    expect(asks(authorizer)).toBe(false);
    put(authorizer, bind("b", "ClusterRole r", "User jo"));
    expect(asks(authorizer)).toBe(false);
    put(authorizer, role("r", rule("get", "pods")));
    expect(asks(authorizer)).toBe(true);
    put(authorizer, role("r", rule("list", "pods")));
    expect(asks(authorizer)).toBe(false);
    put(authorizer, role("r", rule("get", "pods")));
    put(authorizer, bind("b", "ClusterRole r", "User other"));
    expect(asks(authorizer)).toBe(false);
    put(authorizer, bind("b", "ClusterRole r", "User jo"));
    expect(asks(authorizer)).toBe(true);
    authorizer.apply(`${group}/clusterrolebindings`, "", "b", undefined);
    expect(asks(authorizer)).toBe(false);
  });

  test("and changes of other resources are ignored", () => {
    const authorizer = rbac(role("r", rule("get", "pods")), bind("b", "ClusterRole r", "User jo"));
    authorizer.apply("/pods", "", "b", undefined);
    expect(asks(authorizer)).toBe(true);
  });
});

test("system:masters may do everything, with no role at all", () => {
  const root = user("root", "system:masters");
  expect(rbac().authorize(root, access("delete nodes /n")).allowed).toBe(true);
  expect(rbac().authorize(root, { verb: "get", path: "/anything" }).allowed).toBe(true);
});

test("a group name with a zero byte is not two groups", () => {
  const authorizer = rbac(role("r", rule("get", "pods")), bind("b", "ClusterRole r", "Group b"));
  expect(authorizer.authorize(user("jo", "a", "b"), access("get pods ns/a")).allowed).toBe(true);
  expect(authorizer.authorize(user("jo", "a\0b"), access("get pods ns/a")).allowed).toBe(false);
});

test("in any order of requests, a cached decision equals a new one", () => {
  const names = fc.constantFrom("a", "b", "c");
  const change = fc.oneof(
    fc.record({ kind: fc.constant("role"), name: names, verb: fc.constantFrom("get", "list", "*") }),
    fc.record({
      kind: fc.constant("bind"),
      name: names,
      role: names,
      subject: fc.constantFrom("User u", "Group g", "User v"),
    }),
    fc.record({ kind: fc.constant("unbind"), name: names }),
  );
  fc.assert(
    fc.property(fc.array(change, { maxLength: 20 }), (changes) => {
      const kept = new RbacAuthorizer();
      const world = new Map<string, KubeObject>();
      for (const one of changes) {
        if (one.kind === "unbind") {
          kept.apply(`${group}/rolebindings`, "ns", one.name, undefined);
          world.delete(`bind ${one.name}`);
        } else {
          const made =
            "verb" in one
              ? role(one.name, rule(one.verb, "pods"))
              : "role" in one
                ? bind(`ns/${one.name}`, `ClusterRole ${one.role}`, one.subject)
                : undefined;
          if (made === undefined) continue;
          put(kept, made);
          world.set(`${one.kind} ${one.name}`, made);
        }
        const fresh = rbac(...world.values());
        for (const who of [user("u"), user("v", "g"), user("w")]) {
          for (const asked of ["get pods ns/x", "list pods ns", "get pods other/x"]) {
            expect(kept.authorize(who, access(asked)).allowed).toBe(fresh.authorize(who, access(asked)).allowed);
          }
        }
      }
    }),
    { numRuns: 60 },
  );
});

test.each<[string, string]>([
  [
    "get pods ns/a",
    'pods "a" is forbidden: User "jo" cannot get resource "pods" in API group "" in the namespace "ns"',
  ],
  ["list pods", 'pods is forbidden: User "jo" cannot list resource "pods" in API group "" at the cluster scope'],
  [
    "update deployments/scale.apps ns/d",
    'deployments.apps "d" is forbidden: User "jo" cannot update resource "deployments/scale" in API group "apps" in the namespace "ns"',
  ],
  ["get /metrics", 'forbidden: User "jo" cannot get path "/metrics"'],
])("the refusal of `%s` reads as kubectl's users know it", (asked, message) => {
  const parsed = asked.includes("/scale.")
    ? resourceAccess({
        verb: "update",
        group: "apps",
        resource: "deployments",
        subresource: "scale",
        namespace: "ns",
        name: "d",
      })
    : access(asked);
  const { status } = forbiddenAccess(user("jo"), parsed, "");
  expect(status).toMatchObject({ code: 403, reason: "Forbidden", message });
  expect(() => demandAccess(rbac(), user("jo"), parsed)).toThrow(message);
});

describe("aggregation", () => {
  const labelled = (name: string, labels: Record<string, string>, ...rules: unknown[]): KubeObject => {
    const made = role(name, ...rules);
    made.metadata.labels = labels;
    return made;
  };
  const gather = (...clusterRoleSelectors: unknown[]) =>
    object("ClusterRole", "all", { aggregationRule: { clusterRoleSelectors }, rules: [] });
  const others = [
    labelled("b", { to: "edit" }, rule("get", "b")),
    labelled("a", { to: "edit", tier: "x" }, rule("get", "a"), rule("get", "b")),
    labelled("c", { to: "view" }, rule("get", "c")),
  ];

  test("gathers the rules of the chosen roles by name, each once", () => {
    expect(aggregateRules(gather({ matchLabels: { to: "edit" } }), others)).toEqual([
      rule("get", "a"),
      rule("get", "b"),
    ]);
  });

  test.each<[string, unknown, string[]]>([
    ["In", { key: "to", operator: "In", values: ["view"] }, ["c"]],
    ["NotIn", { key: "to", operator: "NotIn", values: ["edit"] }, ["c"]],
    ["Exists", { key: "tier", operator: "Exists" }, ["a", "b"]],
    ["DoesNotExist", { key: "to", operator: "DoesNotExist" }, []],
  ])("understands %s", (_, expression, resources) => {
    const rules = aggregateRules(gather({ matchExpressions: [expression] }), others) ?? [];
    expect(rules).toEqual(resources.map((name) => rule("get", name)));
  });

  test("does not aggregate itself, and returns nothing when nothing changes", () => {
    const self = gather({});
    self.metadata.labels = { to: "edit" };
    self["rules"] = [rule("get", "b")];
    expect(aggregateRules(self, [self, others[0]!])).toBeUndefined();
    expect(aggregateRules(others[0]!, others)).toBeUndefined();
  });

  test("follows a chain in one pass, whatever the order, and reports only changes", () => {
    const chain = (name: string, from: string, ...rules: unknown[]) => {
      const made = object("ClusterRole", name, {
        aggregationRule: { clusterRoleSelectors: [{ matchLabels: { is: from } }] },
        rules,
      });
      made.metadata.labels = { is: name };
      return made;
    };
    const source = labelled("d", { is: "d" }, rule("get", "d"));
    const roles = [chain("a", "b"), chain("b", "c"), chain("c", "d", rule("get", "d")), source];
    const expected = new Map([
      ["a", [rule("get", "d")]],
      ["b", [rule("get", "d")]],
    ]);
    expect(aggregateAll(roles)).toEqual(expected);
    expect(aggregateAll(roles.toReversed())).toEqual(expected);
    expect(roles[0]!["rules"]).toEqual([]);
  });

  test("of three roles in a cycle ends", () => {
    const ring = (name: string, from: string) => {
      const made = object("ClusterRole", name, {
        aggregationRule: { clusterRoleSelectors: [{ matchLabels: { is: from } }] },
        rules: [rule("get", name)],
      });
      made.metadata.labels = { is: name };
      return made;
    };
    expect(aggregateAll([ring("a", "b"), ring("b", "c"), ring("c", "a")]).size).toBe(3);
  });
});

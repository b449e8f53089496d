import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { copyJson } from "../../model/objects/json.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import { type Access, resourceAccess } from "../auth/access.ts";
import { anonymous } from "../auth/authenticate.ts";
import { RbacAuthorizer } from "../auth/rbac.ts";
import { type RbacKind, rbacStrategies } from "../auth/rbacStrategies.ts";
import { definitionName } from "../builtinResources.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import { decodeObject } from "../schema/decode.ts";
import type { UserInfo, WriteContext } from "../strategy.ts";
import { autoUpdateAnnotation, bootstrapObjects } from "./bootstrapObjects.ts";
import { bootstrapUpdate } from "./bootstrapUpdate.ts";

const group = "rbac.authorization.k8s.io";
const options = { authority: "PEM", port: 6443 };
const objects = bootstrapObjects(options);
const find = (kind: string, name: string, namespace?: string): KubeObject => {
  const one = objects.find(
    ({ object }) => object.kind === kind && object.metadata.name === name && object.metadata.namespace === namespace,
  );
  if (one === undefined) throw new Error(`no ${kind} ${name}`);
  return one.object;
};

/** The bootstrap roles, with people bound to three of them in the namespace `team`. */
function cluster(): RbacAuthorizer {
  const rbac = new RbacAuthorizer();
  for (const { resource, object } of objects)
    rbac.apply(resource, object.metadata.namespace ?? "", object.metadata.name, object);
  for (const role of ["admin", "edit", "view"]) {
    const binding = partly<KubeObject>({
      roleRef: { kind: "ClusterRole", name: role },
      subjects: [{ kind: "User", name: role }],
    });
    rbac.apply(`${group}/rolebindings`, "team", role, binding);
  }
  return rbac;
}
const known = (username: string, ...groups: string[]): UserInfo => ({
  username,
  groups: [...groups, "system:authenticated"],
});
const people = {
  admin: known("admin"),
  edit: known("edit"),
  view: known("view"),
  nobody: known("nobody"),
  stranger: anonymous,
  root: known("root", "system:masters"),
  scheduler: known("system:kube-scheduler"),
  node: known("system:node:n1", "system:nodes"),
  dns: known("system:serviceaccount:kube-system:kube-dns", "system:serviceaccounts"),
  jobs: known("system:serviceaccount:kube-system:job-controller", "system:serviceaccounts"),
};
function access(text: string): Access {
  const [verb = "", what = "", namespace = ""] = text.split(" ");
  if (what.startsWith("/")) return { verb, path: what };
  const [resource = "", subresource = ""] = (what.split(":")[0] ?? "").split("/");
  return resourceAccess({ verb, group: what.split(":")[1] ?? "", resource, subresource, namespace });
}

test.each<[keyof typeof people, string, boolean]>([
  ["view", "list pods team", true],
  ["view", "get pods/log team", true],
  ["view", "get secrets team", false],
  ["view", "get pods/exec team", false],
  ["view", "delete pods team", false],
  ["view", "list pods other", false],
  ["view", "get resourceclaims:resource.k8s.io team", true],
  ["view", "list events:events.k8s.io team", true],
  ["view", "list deployments:extensions team", true],
  ["edit", "delete events:events.k8s.io team", true],
  ["edit", "list pods team", true],
  ["edit", "create pods/exec team", true],
  ["edit", "get secrets team", true],
  ["edit", "create deployments:apps team", true],
  ["edit", "create serviceaccounts/token team", true],
  ["edit", `create roles:${group} team`, false],
  ["edit", "update resourcequotas team", false],
  ["admin", "create deployments:apps team", true],
  ["admin", `create rolebindings:${group} team`, true],
  ["admin", "update resourcequotas team", false],
  ["admin", `create clusterroles:${group}`, false],
  ["nobody", "get /apis/apps/v1", true],
  ["nobody", "get /openapi/v3", true],
  ["nobody", "create selfsubjectaccessreviews:authorization.k8s.io", true],
  ["nobody", "create selfsubjectreviews:authentication.k8s.io", true],
  ["nobody", "create subjectaccessreviews:authorization.k8s.io", false],
  ["nobody", "list pods team", false],
  ["nobody", "get /metrics", false],
  ["stranger", "get /version", true],
  ["stranger", "get /readyz", true],
  ["stranger", "get /api", false],
  ["stranger", "create selfsubjectreviews:authentication.k8s.io", false],
  ["root", "delete nodes", true],
  ["scheduler", "create pods/binding team", true],
  ["scheduler", "update resourceclaims/status:resource.k8s.io team", true],
  ["scheduler", "get secrets team", false],
  // Nodes have the node authorizer; no role gives them all of a kind.
  ["node", "update nodes/status", false],
  ["node", "get secrets team", false],
  ["node", "delete namespaces", false],
  ["scheduler", "update leases:coordination.k8s.io kube-system", true],
  ["scheduler", "get configmaps kube-system", false],
  ["dns", "list endpoints", true],
  ["jobs", "create pods team", true],
  ["jobs", "get secrets team", false],
  ["jobs", "get /openid/v1/jwks", true],
])("on a fresh cluster %s and `%s`: %s", (who, asked, allowed) => {
  expect(cluster().authorize(people[who], access(asked)).allowed).toBe(allowed);
});

test("every object is what its schema allows, in the form in which it is stored", () => {
  for (const { object } of objects) {
    const { group: own, version } = splitApiVersion(object.apiVersion);
    const schema = schemaFor(definitionName(own, version, object.kind));
    const decodeOptions = { kindName: object.kind, apiVersion: object.apiVersion, fieldValidation: "Strict" } as const;
    expect(decodeObject(schema, object, decodeOptions).object).toMatchObject(object);
  }
});

test("every role and binding is valid", () => {
  const strategies = rbacStrategies(new RbacAuthorizer());
  const context = { user: people.root } as WriteContext;
  for (const { object, resource } of objects.filter((one) => one.resource.startsWith(group))) {
    const strategy = strategies[object.kind as RbacKind];
    const before = copyJson(object);
    strategy.setDefaults?.(object);
    expect(object).toEqual(before);
    expect([resource, object.metadata.name, strategy.validate?.(object, context).map(describeFieldError)]).toEqual([
      resource,
      object.metadata.name,
      [],
    ]);
  }
});

test("two fresh clusters are the same, and share nothing that one could change for the other", () => {
  expect(JSON.stringify(bootstrapObjects(options))).toBe(JSON.stringify(objects));
  const spoiled = bootstrapObjects(options);
  const view = spoiled.find(({ object }) => object.metadata.name === "view")!.object["rules"] as { verbs: string[] }[];
  view[0]!.verbs.push("delete");
  expect(JSON.stringify(bootstrapObjects(options))).toBe(JSON.stringify(objects));
  expect(JSON.stringify(spoiled.find(({ object }) => object.metadata.name === "edit"))).toBe(
    JSON.stringify(objects.find(({ object }) => object.metadata.name === "edit")),
  );
});

test("programs find the roles of every cluster in its own namespaces", () => {
  const reader = find("RoleBinding", "system::extension-apiserver-authentication-reader", "kube-system");
  expect(reader["roleRef"]).toMatchObject({ kind: "Role", name: "extension-apiserver-authentication-reader" });
  expect(find("ConfigMap", "extension-apiserver-authentication", "kube-system")["data"]).toEqual({
    "client-ca-file": "PEM",
  });
});

test("no object is there twice, and namespaces precede their objects", () => {
  const seen = new Set<string>();
  for (const { resource, object } of objects) {
    const { namespace, name } = object.metadata;
    const key = `${resource} ${namespace ?? ""} ${name}`;
    expect(seen).not.toContain(key);
    if (namespace !== undefined) expect(seen).toContain(`/namespaces  ${namespace}`);
    seen.add(key);
  }
});

test.each(["default", "kube-system", "kube-public", "kube-node-lease"])(
  "the namespace %s has its account and the authority",
  (namespace) => {
    expect(find("Namespace", namespace)).toMatchObject({
      spec: { finalizers: ["kubernetes"] },
      status: { phase: "Active" },
      metadata: { labels: { "kubernetes.io/metadata.name": namespace } },
    });
    expect(find("ServiceAccount", "default", namespace)).toBeDefined();
    expect(find("ConfigMap", "kube-root-ca.crt", namespace)["data"]).toEqual({ "ca.crt": "PEM" });
  },
);

test("the Service kubernetes leads from port 443 to the server's own", () => {
  expect(find("Service", "kubernetes", "default")["spec"]).toMatchObject({
    clusterIP: "10.96.0.1",
    ports: [{ port: 443, targetPort: 6443 }],
  });
});

test("the priority of a node's own pods is above that of the cluster's", () => {
  expect([
    find("PriorityClass", "system-node-critical")["value"],
    find("PriorityClass", "system-cluster-critical")["value"],
  ]).toEqual([2_000_001_000, 2_000_000_000]);
});

describe("a later start", () => {
  const role = find("ClusterRole", "system:kube-scheduler");
  const binding = find("ClusterRoleBinding", "system:discovery");

  test("changes nothing that is as it should be", () => {
    for (const { object } of objects) expect(bootstrapUpdate(object, object)).toBeUndefined();
  });

  test("adds missing rules to a role and keeps additional ones", () => {
    const own = { verbs: ["get"], apiGroups: ["example.com"], resources: ["things"] };
    const rules = role["rules"] as unknown[];
    const updated = bootstrapUpdate({ ...role, rules: [own, ...rules.slice(2)] }, role);
    expect(updated?.["rules"]).toEqual([own, ...rules.slice(2), ...rules.slice(0, 2)]);
  });

  test("does not add a rule that is held in other words", () => {
    const all = [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }];
    expect(bootstrapUpdate({ ...role, rules: all }, role)).toBeUndefined();
  });

  test("adds missing subjects to a binding", () => {
    expect(bootstrapUpdate({ ...binding, subjects: [] }, binding)?.["subjects"]).toEqual(binding["subjects"]);
  });

  test("removes the group of all nodes from the binding of system:node, and keeps other subjects", () => {
    const wanted = find("ClusterRoleBinding", "system:node");
    const all = { apiGroup: group, kind: "Group", name: "system:nodes" };
    const own = { apiGroup: group, kind: "User", name: "someone" };
    expect(bootstrapUpdate({ ...wanted, subjects: [all, own] }, wanted)?.["subjects"]).toEqual([own]);
    expect(bootstrapUpdate({ ...wanted, subjects: [own] }, wanted)).toBeUndefined();
  });

  test("does not change objects with the opt-out annotation", () => {
    const kept = {
      ...role,
      rules: [],
      metadata: { ...role.metadata, annotations: { [autoUpdateAnnotation]: "false" } },
    };
    expect(bootstrapUpdate(kept, role)).toBeUndefined();
  });

  test("publishes the port of this start in the Service kubernetes and its endpoints", () => {
    const at = (port: number): Map<string, KubeObject> =>
      new Map(
        bootstrapObjects({ authority: "PEM", address: "192.0.2.1", port })
          .filter(({ object }) => object.metadata.name === "kubernetes")
          .map(({ object }) => [object.kind, object]),
      );
    const [before, now] = [at(1001), at(1002)];
    for (const kind of ["Service", "Endpoints", "EndpointSlice"]) {
      const wanted = now.get(kind) as KubeObject;
      expect(bootstrapUpdate(before.get(kind) as KubeObject, wanted)).toEqual(wanted);
      expect(bootstrapUpdate(wanted, wanted)).toBeUndefined();
    }
  });

  test("publishes a renewed authority", () => {
    const map = find("ConfigMap", "kube-root-ca.crt", "default");
    expect(bootstrapUpdate({ ...map, data: { "ca.crt": "old" } }, map)?.["data"]).toEqual({ "ca.crt": "PEM" });
  });
});

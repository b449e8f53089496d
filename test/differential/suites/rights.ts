/** Roles, escalation, impersonation, reviews and tokens. */
import type { Loose } from "../apiUnderTest.ts";
import { namespace, type Probe } from "../probe.ts";

const group = "rbac.authorization.k8s.io";
const root = `/apis/${group}/v1`;
const roles = `${root}/namespaces/${namespace}/roles`;
const alice = { "Impersonate-User": "alice" };
const readPods = { apiGroups: [""], resources: ["pods"], verbs: ["get", "list"] };
const role = (name: string, rules: object[]) => ({
  apiVersion: `${group}/v1`,
  kind: "Role",
  metadata: { name },
  rules,
});
const binding = (name: string, kind: string, to: string) => ({
  apiVersion: `${group}/v1`,
  kind: "RoleBinding",
  metadata: { name },
  roleRef: { apiGroup: group, kind, name: to },
  subjects: [{ kind: "User", apiGroup: group, name: "alice" }],
});

export async function rights(probe: Probe): Promise<void> {
  await probe.namespace();
  await probe.both(
    "POST",
    roles,
    role("editor", [
      { apiGroups: [group], resources: ["roles", "rolebindings"], verbs: ["*"] },
      readPods,
      { apiGroups: [""], resources: ["configmaps"], verbs: ["get"], resourceNames: ["one"] },
    ]),
  );
  await probe.both("POST", `${root}/namespaces/${namespace}/rolebindings`, binding("editor", "Role", "editor"));
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const asked: Record<string, object[]> = {
    within: [readPods],
    "more verbs": [{ ...readPods, verbs: ["get", "delete"] }],
    "more resources": [{ ...readPods, resources: ["secrets", "pods"] }],
    all: [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }],
    nothing: [],
  };
  for (const [what, rules] of Object.entries(asked))
    await probe.compare(`escalate ${what}`, "POST", `${roles}?dryRun=All`, role("x", rules), { headers: alice });
  for (const [kind, to] of [
    ["Role", "editor"],
    ["ClusterRole", "cluster-admin"],
    ["ClusterRole", "none"],
    ["Role", "none"],
  ] as const) {
    await probe.compare(
      `bind ${kind} ${to}`,
      "POST",
      `${root}/namespaces/${namespace}/rolebindings?dryRun=All`,
      binding("x", kind, to),
      { headers: alice },
    );
  }
  const paths =
    `/api/v1/nodes /api/v1/namespaces/${namespace}/secrets /api/v1/namespaces/${namespace}/pods?labelSelector=zz /api/v1/namespaces/${namespace}/pods/x /api/v1/namespaces/${namespace}/pods/x/log
/api/v1/namespaces/${namespace}/configmaps/one /api/v1/namespaces/${namespace}/configmaps/two /version /metrics /healthz /nope /apis/nope/v1/foos /api /openapi/v2`.split(
      /\s+/,
    );
  for (const user of ["alice", "system:anonymous", `system:serviceaccount:${namespace}:default`]) {
    for (const path of paths)
      await probe.compare(`as ${user} ${path}`, "GET", path, undefined, {
        headers: { "Impersonate-User": user },
        keep: (body) => (path === "/openapi/v2" ? Object.keys(body) : body),
      });
  }
  const impersonations: Record<string, string>[] = [
    { "Impersonate-Group": "g" },
    { "Impersonate-Uid": "1" },
    { "Impersonate-User": "system:serviceaccount:x" },
    { "Impersonate-User": "u", "Impersonate-Group": "system:masters", "Impersonate-Uid": "7" },
    { "Impersonate-User": "" },
  ];
  for (const headers of impersonations) {
    await probe.compare(
      `impersonate ${JSON.stringify(headers)}`,
      "POST",
      "/apis/authentication.k8s.io/v1/selfsubjectreviews",
      { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
      { headers },
    );
  }
  for (const value of ["Bearer nope", "Basic eDp5", "zz"])
    await probe.compare(`authorization ${value}`, "GET", "/api/v1/nodes", undefined, {
      headers: { Authorization: value },
    });
  await reviews(probe);
  const { real, ours } = await probe.both("GET", `${root}/clusterroles`);
  const names = (body: Loose): string[] => body.items.map(({ metadata }: Loose) => metadata.name);
  probe.record(
    "names of ClusterRoles",
    "GET clusterroles",
    undefined,
    { real, ours },
    { keep: (body) => names(body).sort() },
  );
  const shared = names(real.json).filter((name) => names(ours.json).includes(name));
  for (const name of shared) {
    await probe.compare(`rules of ${name}`, "GET", `${root}/clusterroles/${name}`, undefined, {
      keep: ({ rules, aggregationRule }) => ({ rules, aggregationRule }),
    });
  }
}

async function reviews(probe: Probe): Promise<void> {
  const at = "/apis/authorization.k8s.io/v1";
  const specs: Record<string, Loose> = {
    get: { user: "alice", resourceAttributes: { namespace, verb: "get", resource: "pods" } },
    delete: { user: "alice", resourceAttributes: { namespace, verb: "delete", resource: "pods" } },
    named: { user: "alice", resourceAttributes: { namespace, verb: "get", resource: "configmaps", name: "one" } },
    path: { user: "alice", groups: ["system:authenticated"], nonResourceAttributes: { path: "/version", verb: "get" } },
    masters: { user: "x", groups: ["system:masters"], resourceAttributes: { verb: "*", resource: "*", group: "*" } },
    nothing: { user: "alice" },
    both: { user: "alice", resourceAttributes: { verb: "get" }, nonResourceAttributes: { path: "/" } },
    "no user": { resourceAttributes: { verb: "get", resource: "pods" } },
    selectors: {
      user: "alice",
      resourceAttributes: {
        verb: "get",
        resource: "pods",
        fieldSelector: { rawSelector: "a=b", requirements: [{ key: "a", operator: "In", values: ["b"] }] },
      },
    },
  };
  for (const [what, spec] of Object.entries(specs)) {
    await probe.compare(`review ${what}`, "POST", `${at}/subjectaccessreviews`, {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec,
    });
    const { user, groups, ...self } = spec;
    await probe.compare(
      `self review ${what}`,
      "POST",
      `${at}/selfsubjectaccessreviews`,
      { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: self },
      { headers: alice },
    );
  }
  for (const name of [namespace, ""]) {
    await probe.compare(
      `rules review ${name}`,
      "POST",
      `${at}/selfsubjectrulesreviews`,
      { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace: name } },
      { headers: alice },
    );
  }
  const token = `/api/v1/namespaces/${namespace}/serviceaccounts/default/token`;
  for (const spec of [
    {},
    { audiences: ["a"] },
    { expirationSeconds: 5 },
    { expirationSeconds: 600 },
    { boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "none" } },
    { boundObjectRef: { kind: "ConfigMap", apiVersion: "v1", name: "x" } },
  ]) {
    await probe.compare(`token ${JSON.stringify(spec)}`, "POST", token, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec,
    });
  }
  for (const value of ["", "x", "a.b.c"])
    await probe.compare(`token review ${value}`, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token: value },
    });
}

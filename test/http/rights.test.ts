import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";

/** Requests of a user with few rights, over HTTP: no other verb or path gives access that RBAC denies. */
let server: ApiServer;

const tokens = ['root,root,root,"system:masters"', "limited,limited,limited,", "labeller,labeller,labeller,"].join(
  "\n",
);

async function call(user: string, method: string, path: string, body?: unknown, type = "application/json") {
  const headers = { authorization: `Bearer ${user}`, "content-type": type };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${server.url}${path}`, { method, headers, ...sent });
  return { code: response.status, body: (await response.json()) as { message?: string; reason?: string } };
}

const rbac = "/apis/rbac.authorization.k8s.io/v1";

async function grant(user: string, rules: unknown[]): Promise<void> {
  const role = { metadata: { name: user }, rules };
  expect((await call("root", "POST", `${rbac}/clusterroles`, role)).code).toBe(201);
  const binding = {
    metadata: { name: user },
    roleRef: { kind: "ClusterRole", name: user },
    subjects: [{ kind: "User", name: user }],
  };
  expect((await call("root", "POST", `${rbac}/clusterrolebindings`, binding)).code).toBe(201);
}

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tls: false, tokenFile: tokens });
  await grant("limited", [
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "update", "patch"] },
    { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "update"] },
  ]);
  await grant("labeller", [
    {
      apiGroups: ["rbac.authorization.k8s.io"],
      resources: ["clusterroles", "clusterrolebindings"],
      verbs: ["get", "list", "create", "update", "patch"],
    },
  ]);
});
afterAll(() => server.stop());

describe("a user with the right to update but not to create", () => {
  test("cannot create by applying", async () => {
    const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" }, data: {} };
    const path = "/api/v1/namespaces/default/configmaps/c?fieldManager=x";
    const answer = await call("limited", "PATCH", path, config, "application/apply-patch+yaml");
    expect(answer).toMatchObject({ code: 403, body: { reason: "Forbidden" } });
    expect(answer.body.message).toContain('cannot create resource "configmaps"');
    expect(server.core.store.get("/configmaps", "default", "c")).toBeUndefined();
  });

  test("cannot create by a PUT of a missing object", async () => {
    const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    const answer = await call("limited", "PUT", path, { metadata: { name: "l" }, spec: {} });
    expect(answer.code).toBe(403);
    expect(server.core.store.get("coordination.k8s.io/leases", "default", "l")).toBeUndefined();
  });

  test("can apply to an existing object", async () => {
    await call("root", "POST", "/api/v1/namespaces/default/configmaps", { metadata: { name: "there" } });
    const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "there" }, data: { a: "b" } };
    const path = "/api/v1/namespaces/default/configmaps/there?fieldManager=x";
    expect((await call("limited", "PATCH", path, config, "application/apply-patch+yaml")).code).toBe(200);
  });
});

describe("a user that may write roles but holds none of their rules", () => {
  const merge = "application/merge-patch+json";

  test("cannot label a role so that another role aggregates it", async () => {
    const patch = { metadata: { labels: { "rbac.authorization.k8s.io/aggregate-to-view": "true" } } };
    const answer = await call("labeller", "PATCH", `${rbac}/clusterroles/cluster-admin`, patch, merge);
    expect(answer).toMatchObject({ code: 403, body: { reason: "Forbidden" } });
  });

  test("cannot change a binding to such a role", async () => {
    const patch = { metadata: { labels: { x: "y" } } };
    const answer = await call("labeller", "PATCH", `${rbac}/clusterrolebindings/cluster-admin`, patch, merge);
    expect(answer.code).toBe(403);
  });

  test("may change owner references and finalizers", async () => {
    const patch = { metadata: { finalizers: ["example.com/hold"] } };
    const answer = await call("labeller", "PATCH", `${rbac}/clusterroles/edit`, patch, merge);
    expect(answer.code).toBe(200);
  });
});

describe("a path that spans all namespaces", () => {
  test.each(["DELETE", "POST", "PUT", "PATCH"])("refuses %s", async (method) => {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const body = method === "DELETE" ? undefined : {};
    expect(await call("root", method, "/api/v1/configmaps", body, type)).toMatchObject({
      code: 405,
      body: { reason: "MethodNotAllowed" },
    });
    expect(server.core.store.get("/configmaps", "default", "kube-root-ca.crt")).toBeDefined();
  });
});

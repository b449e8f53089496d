import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HttpCaller } from "../httpCaller.ts";
import { namespaced, type ServedApi, serveApi } from "./servedApi.ts";

/** Behaviour of a kube-apiserver and its controllers without a request. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

describe("a Secret of type service-account-token", () => {
  const secret = (name: string, account: string): object => ({
    metadata: { name, annotations: { "kubernetes.io/service-account.name": account } },
    type: "kubernetes.io/service-account-token",
  });

  test("gets a valid token of its account", async () => {
    const { api, server } = served;
    await api.post(`${namespaced}/serviceaccounts`, { metadata: { name: "robot" } });
    await api.post(`${namespaced}/secrets`, secret("robot-token", "robot"));
    await server.controllers.idle();
    const { json } = await api.get(`${namespaced}/secrets/robot-token`);
    const data = json["data"] as Record<string, string>;
    expect(Object.keys(data).sort()).toEqual(["ca.crt", "namespace", "token"]);
    expect(json.metadata["annotations"]).toHaveProperty(["kubernetes.io/service-account.uid"]);
    const token = Buffer.from(data["token"] ?? "", "base64").toString();
    const review = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", { spec: { token } });
    expect(review.json["status"]).toMatchObject({
      authenticated: true,
      user: { username: "system:serviceaccount:default:robot" },
    });
  });

  test("is deleted with its account, and at once if it has none", async () => {
    const { api, server } = served;
    await api.post(`${namespaced}/serviceaccounts`, { metadata: { name: "leaver" } });
    await api.post(`${namespaced}/secrets`, secret("leaver-token", "leaver"));
    await api.post(`${namespaced}/secrets`, secret("orphan-token", "nobody-here"));
    await api.delete(`${namespaced}/serviceaccounts/leaver`);
    await server.controllers.idle();
    expect((await api.get(`${namespaced}/secrets/leaver-token`)).code).toBe(404);
    expect((await api.get(`${namespaced}/secrets/orphan-token`)).code).toBe(404);
  });
});

test("the Endpoints of a Service are deleted with it", async () => {
  const { api } = served;
  await api.post(`${namespaced}/services`, { metadata: { name: "s" }, spec: { ports: [{ port: 80 }] } });
  await api.post(`${namespaced}/endpoints`, { metadata: { name: "s" } });
  await api.delete(`${namespaced}/services/s`);
  expect((await api.get(`${namespaced}/endpoints/s`)).code).toBe(404);
});

test("the Service kubernetes has Endpoints and an EndpointSlice with the address of the server", async () => {
  const { api, server } = served;
  const { hostname, port } = new URL(server.url);
  const endpoints = await api.get(`${namespaced}/endpoints/kubernetes`);
  const ports = [{ name: "https", port: Number(port), protocol: "TCP" }];
  expect(endpoints.json["subsets"]).toEqual([{ addresses: [{ ip: hostname }], ports }]);
  const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  const slice = await api.get(`${slices}?labelSelector=kubernetes.io/service-name=kubernetes`);
  expect(slice.json.items).toMatchObject([
    {
      metadata: { name: "kubernetes" },
      addressType: "IPv4",
      endpoints: [{ addresses: [hostname], conditions: { ready: true } }],
      ports,
    },
  ]);
});

describe("a request without credentials", () => {
  test("is anonymous: it may read the version, and everything else is forbidden", async () => {
    const ask = async (path: string, headers: Record<string, string> = {}): Promise<number> =>
      (await fetch(`${served.server.url}${path}`, { headers })).status;
    expect(await ask("/version")).toBe(200);
    expect(await ask("/api")).toBe(403);
    expect(await ask("/api/v1/secrets")).toBe(403);
    expect(await ask("/api", { authorization: "Basic x" })).toBe(403);
    expect(await ask("/api", { authorization: "Bearer wrong" })).toBe(401);
  });
});

test("impersonation of a group alone is a bad request", async () => {
  const caller = new HttpCaller(served.server.url);
  const answer = await caller.call("GET", "/api", undefined, { headers: { "impersonate-group": "g" } });
  caller.close();
  expect(answer.code).toBe(400);
});

test("a policy may reject exec into a container", async () => {
  const { api } = served;
  const group = "/apis/admissionregistration.k8s.io/v1";
  const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CONNECT"], resources: ["pods/attach"] };
  const spec = {
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression: "false", message: "attaching to a pod is not allowed" }],
  };
  await api.post(`${group}/validatingadmissionpolicies`, { metadata: { name: "no-attach" }, spec });
  const binding = { policyName: "no-attach", validationActions: ["Deny"] };
  await api.post(`${group}/validatingadmissionpolicybindings`, { metadata: { name: "no-attach" }, spec: binding });
  await api.post(`${namespaced}/pods`, {
    metadata: { name: "p" },
    spec: { nodeName: "n", containers: [{ name: "main", image: "app" }] },
  });
  const answer = await api.call("POST", `${namespaced}/pods/p/attach?stdin=true&container=main`);
  expect(answer.json.message).toContain("attaching to a pod is not allowed");
});

test("the Service kubernetes and its endpoints are created again when they are deleted", async () => {
  const { api, server } = served;
  const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
  for (const path of [`${namespaced}/services`, `${namespaced}/endpoints`, slices]) {
    const before = (await api.get(`${path}/kubernetes`)).json;
    expect((await api.delete(`${path}/kubernetes`)).code).toBe(200);
    await server.controllers.idle();
    const after = (await api.get(`${path}/kubernetes`)).json;
    expect(after.metadata.uid).not.toBe(before.metadata.uid);
    const { spec, subsets, endpoints, ports } = after;
    expect({ spec, subsets, endpoints, ports }).toEqual({
      spec: before["spec"],
      subsets: before["subsets"],
      endpoints: before["endpoints"],
      ports: before["ports"],
    });
  }
});

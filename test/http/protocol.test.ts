import { afterAll, beforeAll, expect, test } from "vitest";
import { patchTypes } from "../httpCaller.ts";
import { namespaced, type ServedApi, serveApi } from "./servedApi.ts";

/** Paths, methods and statuses as a kube-apiserver answers them. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
  await served.api.post(`${namespaced}/configmaps`, { metadata: { name: "a" } });
});
afterAll(() => served.stop());

test.each(["GET", "POST", "PUT", "DELETE"])("%s of a path that nothing serves is 404 as text", async (method) => {
  for (const path of ["/nope", "/apis/nope", "/apis/nope/v1"]) {
    const answer = await served.api.call(method, path);
    expect([answer.code, answer.text]).toEqual([404, "404 page not found\n"]);
  }
});

test("an unknown path below the core API is a Status with 404", async () => {
  const answer = await served.api.call("POST", "/api/v2");
  expect(answer.code).toBe(404);
  expect(answer.json).toMatchObject({ kind: "Status", reason: "NotFound" });
});

test("a method that a path does not have is 405 without a kind", async () => {
  for (const [method, path] of [
    ["POST", "/version"],
    ["DELETE", "/apis/apps"],
    ["PUT", `${namespaced}/configmaps`],
    ["HEAD", `${namespaced}/configmaps/a`],
  ] as const) {
    expect((await served.api.call(method, path)).code).toBe(405);
  }
  const { json } = await served.api.call("PUT", `${namespaced}/configmaps`);
  expect(json).toMatchObject({ reason: "MethodNotAllowed", details: {} });
  expect(json["details"]).toEqual({});
});

test("errors in lists of metadata have the field of the list, without an index", async () => {
  const metadata = {
    name: "b",
    finalizers: ["abc"],
    ownerReferences: [{ apiVersion: "v1", kind: "", name: "x", uid: "y" }],
  };
  const { json } = await served.api.post(`${namespaced}/configmaps`, { metadata });
  const { causes } = json["details"] as { causes: { field: string }[] };
  expect(causes.map(({ field }) => field).sort()).toEqual(["metadata.finalizers", "metadata.ownerReferences.kind"]);
});

test("an update without a revision that needs one is refused by the name of its resource", async () => {
  const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
  await served.api.post(leases, { metadata: { name: "l" } });
  const { code, json } = await served.api.call("PUT", `${leases}/l`, { metadata: { name: "l" } });
  expect(code).toBe(422);
  expect(json["details"]).toMatchObject({ group: "coordination.k8s.io", kind: "leases" });
});

test("a completed deletion answers with a Status without a code", async () => {
  const { code, json } = await served.api.call("DELETE", `${namespaced}/configmaps/a?dryRun=All`);
  expect(code).toBe(200);
  expect(json).toMatchObject({ status: "Success", details: { name: "a", kind: "configmaps" } });
  expect(json).not.toHaveProperty("code");
});

test("a strategic merge patch cannot change the kind of an object", async () => {
  const headers = { "Content-Type": patchTypes.strategic };
  const answer = await served.api.call(
    "PATCH",
    `${namespaced}/configmaps/a`,
    { kind: "Nope", data: { a: "b" } },
    { headers },
  );
  expect(answer.json).toMatchObject({ kind: "ConfigMap", data: { a: "b" } });
});

test("a merge patch whose result is no object of the kind is rejected without a name", async () => {
  const headers = { "Content-Type": patchTypes.merge };
  const answer = await served.api.call("PATCH", `${namespaced}/configmaps/a`, { data: 5 }, { headers });
  expect(answer.code).toBe(422);
  expect(answer.json["details"]).not.toHaveProperty("kind");
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ServedApi, serveApi } from "./servedApi.ts";

/**
 * A custom resource in several versions without a conversion webhook: the fields that each version shows and prunes.
 */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

const text = { type: "string" };
const version = (name: string, storage: boolean, properties: object): object => ({
  name,
  served: true,
  storage,
  schema: { openAPIV3Schema: { type: "object", properties: { spec: { type: "object", properties } } } },
});

async function define(plural: string, versions: object[]): Promise<string> {
  const kind = plural.slice(0, 1).toUpperCase() + plural.slice(1, -1);
  const names = { plural, singular: plural.slice(0, -1), kind, listKind: `${kind}List` };
  const body = {
    metadata: { name: `${plural}.example.com` },
    spec: { group: "example.com", scope: "Cluster", names, versions },
  };
  const answer = await served.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body);
  expect([answer.code, answer.json.message]).toEqual([201, undefined]);
  return kind;
}

describe("two versions with different fields", () => {
  const path = (at: string): string => `/apis/example.com/${at}/widgets`;

  test("show their own fields, and store only the fields of the storage version", async () => {
    const kind = await define("widgets", [
      version("v1", true, { a: text, b: text }),
      version("v1beta1", false, { a: text, c: text }),
    ]);
    const body = { apiVersion: "example.com/v1", kind, metadata: { name: "w" }, spec: { a: "1", b: "2" } };
    await served.api.post(path("v1"), body);
    expect((await served.api.get(`${path("v1beta1")}/w`)).json["spec"]).toEqual({ a: "1" });
    expect((await served.api.get(path("v1beta1"))).json.items[0]?.["spec"]).toEqual({ a: "1" });
    expect((await served.api.get(`${path("v1")}/w`)).json["spec"]).toEqual({ a: "1", b: "2" });
    const other = { apiVersion: "example.com/v1beta1", kind, metadata: { name: "x" }, spec: { a: "1", c: "3" } };
    expect((await served.api.post(path("v1beta1"), other)).json["spec"]).toEqual({ a: "1" });
  });
});

test("objects that were stored before the stored version moved are served and patched in the new one", async () => {
  const kind = await define("movers", [version("v1", true, { a: text }), version("v2", false, { a: text })]);
  const collection = (at: string): string => `/apis/example.com/${at}/movers`;
  const body = { apiVersion: "example.com/v1", kind, metadata: { name: "m" }, spec: { a: "1" } };
  await served.api.post(collection("v1"), body);
  const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/movers.example.com";
  const moved = [
    { op: "replace", path: "/spec/versions/0/storage", value: false },
    { op: "replace", path: "/spec/versions/1/storage", value: true },
  ];
  expect((await served.api.patch(definition, "json", moved)).code).toBe(200);
  expect((await served.api.get(`${collection("v2")}/m`)).json.apiVersion).toBe("example.com/v2");
  expect((await served.api.get(`${collection("v1")}/m`)).json.apiVersion).toBe("example.com/v1");
  const patched = await served.api.patch(`${collection("v2")}/m`, "merge", { spec: { a: "2" } });
  expect([patched.code, patched.json.message]).toEqual([200, undefined]);
  expect(patched.json).toMatchObject({ apiVersion: "example.com/v2", spec: { a: "2" } });
});

test("an apply may have unknown fields inside an object that preserves them", async () => {
  const spec = {
    type: "object",
    "x-kubernetes-preserve-unknown-fields": true,
    properties: { known: { type: "object", properties: { a: text } } },
  };
  const kind = await define("keepers", [
    { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object", properties: { spec } } } },
  ]);
  const config = {
    apiVersion: "example.com/v1",
    kind,
    metadata: { name: "k" },
    spec: { known: { a: "b", drop: 1 }, free: { x: 1 } },
  };
  const answer = await served.api.patch("/apis/example.com/v1/keepers/k?fieldManager=me", "apply", config);
  expect([answer.code, answer.json.message]).toEqual([201, undefined]);
  expect(answer.json["spec"]).toEqual({ known: { a: "b" }, free: { x: 1 } });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { namespaced, type ServedApi, serveApi } from "./servedApi.ts";

/** Query parameters, valid and invalid, as a kube-apiserver parses them. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
  for (const name of ["a", "b", "c"]) {
    const labels = name === "a" ? { probe: "yes" } : {};
    await served.api.post(`${namespaced}/configmaps`, { metadata: { name, labels } });
  }
});
afterAll(() => served.stop());

test("a GET of one object with watch=1 answers the object and ends", async () => {
  const answer = await served.api.get(`${namespaced}/configmaps/a?watch=1`);
  expect(answer.json).toMatchObject({ kind: "ConfigMap", metadata: { name: "a" } });
});

test("an empty dryRun is rejected", async () => {
  const answer = await served.api.post(`${namespaced}/configmaps?dryRun=`, { metadata: { name: "never" } });
  expect(answer.code).toBe(422);
  expect((await served.api.get(`${namespaced}/configmaps/never`)).code).toBe(404);
});

describe("invalid parameters", () => {
  test.each<[string, number, string]>([
    ["timeout=invalid", 400, "invalid timeout specified in the request URL"],
    ["timeoutSeconds=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'],
    ["resourceVersion=x", 400, 'strconv.ParseUint: parsing "x": invalid syntax'],
    ["watch=1&continue=x", 422, "resourceVersionMatch is forbidden when continue is provided"],
    ["resourceVersionMatch=Nope", 422, 'Unsupported value: "Nope"'],
    ["resourceVersionMatch=Nope", 422, "forbidden unless resourceVersion is provided"],
    ["resourceVersionMatch=Exact&continue=x", 422, "forbidden when continue is provided"],
  ])("%s is %i", async (query, code, text) => {
    const answer = await served.api.get(`${namespaced}/configmaps?${query}`);
    expect(answer.code).toBe(code);
    expect(answer.json.message).toContain(text);
  });
});

test("a page with a selector has a continue token while objects are left, whether they match or not", async () => {
  const query = "limit=1&labelSelector=probe%3Dyes";
  const first = await served.api.get(`${namespaced}/configmaps?${query}`);
  expect(first.json.items.map(({ metadata }) => metadata.name)).toEqual(["a"]);
  const token = String(first.json.metadata["continue"] ?? "");
  expect(token).not.toBe("");
  const second = await served.api.get(`${namespaced}/configmaps?${query}&continue=${encodeURIComponent(token)}`);
  expect(second.json.items).toEqual([]);
  expect(second.json.metadata["continue"]).toBeUndefined();
});

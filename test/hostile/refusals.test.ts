/** What is refused is refused briefly: neither a large value nor many errors come back whole, and none ends in a 500. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { HttpCaller, tokenFile } from "../httpCaller.ts";

let server: ApiServer;
let caller: HttpCaller;
const ours: unknown[] = [];
const maps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";

beforeAll(async () => {
  const log = ({ error }: { error: unknown }): void => void ours.push(error);
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tls: false, tokenFile, log });
  caller = new HttpCaller(server.url);
});

afterAll(async () => {
  caller.close();
  await server.stop();
});

const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const long = "x".repeat(2_000_000);
const pod = (spec: object) => ({ metadata: { name: "p" }, spec: { containers: [{ name: "c", image: "i" }], ...spec } });

test.each([
  { name: "80,000 bad labels", path: maps, body: { metadata: labels(80_000) }, field: "metadata.labels" },
  {
    name: "90,000 empty finalizers",
    path: maps,
    body: meta({ finalizers: many(90_000, () => "") }),
    field: "finalizers",
  },
  {
    name: "20,000 empty owners",
    path: maps,
    body: meta({ ownerReferences: many(20_000, () => ({})) }),
    field: "owner",
  },
  {
    name: "45,000 bad tolerations",
    path: pods,
    body: pod({ tolerations: many(45_000, () => ({ key: "!" })) }),
    field: "tolerations",
  },
  { name: "45,000 empty volumes", path: pods, body: pod({ volumes: many(45_000, () => ({})) }), field: "volumes" },
  {
    name: "45,000 empty containers",
    path: pods,
    body: pod({ containers: many(45_000, () => ({})) }),
    field: "containers",
  },
  { name: "a name of 2 MB", path: maps, body: { metadata: { name: long } }, field: "metadata.name" },
  { name: "a label of 2 MB", path: maps, body: meta({ labels: { a: long } }), field: "metadata.labels" },
  { name: "a label key of 2 MB", path: maps, body: meta({ labels: { [long]: "a" } }), field: "metadata.labels" },
  { name: "a data key of 2 MB", path: maps, body: { ...meta({}), data: { [`/${long}`]: "a" } }, field: "data" },
])("$name: 422 names the field, in less than 300 KB", async ({ path, body, field }) => {
  const { code, text } = await caller.post(path, body);
  expect({ code, ours }).toEqual({ code: 422, ours: [] });
  expect(text).toContain(field);
  expect(text.length).toBeLessThan(300_000);
});

const yaml = { headers: { "content-type": "application/yaml" } };

test.each([
  { name: "900,000 empty containers", body: JSON.stringify(pod({ containers: many(900_000, () => ({})) })), as: {} },
  { name: "150,000 keys", body: JSON.stringify({ ...meta({}), data: keys(150_000) }), as: {} },
  { name: "1,000,000 comments of YAML", body: `metadata: {name: x}\n${"#\n".repeat(1_000_000)}`, as: yaml },
  { name: "75,000 lines of YAML", body: `data:\n${many(75_000, (at) => `  k${at}: "v"`).join("\n")}`, as: yaml },
])("$name: 413 before any work is done with them", async ({ body, as }) => {
  const { code, text } = await caller.call("POST", pods, undefined, { ...as, raw: body });
  expect({ code, ours }).toEqual({ code: 413, ours: [] });
  expect(text).toMatch(/100000 fields and list items|send the object as JSON/);
});

test("JSON that is sent as YAML is not measured by the limit of YAML", async () => {
  const body = JSON.stringify({ metadata: { name: "j" }, data: { a: "x".repeat(600_000) } });
  expect((await caller.call("POST", maps, undefined, { ...yaml, raw: body })).code).toBe(201);
});

function keys(count: number): object {
  return Object.fromEntries(many(count, (at) => [`k${at}`, "v"]));
}

function meta(metadata: object): { metadata: object } {
  return { metadata: { name: "x", ...metadata } };
}

function labels(count: number): object {
  return { name: "x", labels: Object.fromEntries(many(count, (at) => [`a b ${at}`, "c d"])) };
}

test("an anonymous user reads the health of the server as a whole, and one check of it only with the rights of monitoring", async () => {
  for (const root of ["/healthz", "/livez", "/readyz"]) {
    expect((await fetch(`${server.url}${root}`)).status, root).toBe(200);
    expect((await fetch(`${server.url}${root}/ping`)).status, root).toBe(403);
  }
  const { code } = await caller.call("GET", "/livez/ping", undefined, {
    headers: { "impersonate-user": "monitor", "impersonate-group": "system:monitoring" },
  });
  expect(code).toBe(200);
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { podAgent } from "../../testing/apiserver/podAgent.ts";
import { HttpCaller, tokenFile } from "../httpCaller.ts";

const pods = "/api/v1/namespaces/default/pods";
let server: ApiServer;
let caller: HttpCaller;

/** A log whose text names its container. */
const agent = podAgent({
  async *log(_pod, { container }) {
    yield `log of ${container}`;
  },
});

beforeAll(async () => {
  server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls: false,
    tokenFile,
    agent,
  });
  caller = new HttpCaller(server.url);
});
afterAll(async () => {
  caller.close();
  await server.stop();
});

const named = (...names: string[]) => names.map((name) => ({ name, image: "i" }));

test.each([
  { name: "one", spec: { containers: named("a") }, code: 200, says: "log of a" },
  { name: "init", spec: { containers: named("a"), initContainers: named("i") }, code: 200, says: "log of a" },
  {
    name: "sidecar",
    spec: { containers: named("a"), initContainers: [{ name: "s", image: "i", restartPolicy: "Always" }] },
    code: 200,
    says: "log of a",
  },
  {
    name: "two",
    spec: { containers: named("a", "b"), initContainers: named("i") },
    code: 400,
    says: "a container name must be specified for pod two, choose one of: [a b] or one of the init containers: [i]",
  },
])("a log without a container is that of the only regular one: $name", async ({ name, spec, code, says }) => {
  expect((await caller.post(pods, { metadata: { name }, spec: { nodeName: "n", ...spec } })).code).toBe(201);
  const answer = await caller.get(`${pods}/${name}/log`);
  expect(answer.code).toBe(code);
  expect(code === 200 ? answer.text : answer.json.message).toBe(says);
});

test("an ephemeral container does not make the container of a log request ambiguous", async () => {
  const spec = { nodeName: "n", containers: named("a") };
  await caller.post(pods, { metadata: { name: "debugged" }, spec });
  const debug = { spec: { ephemeralContainers: named("d") } };
  expect((await caller.patch(`${pods}/debugged/ephemeralcontainers`, "strategic", debug)).code).toBe(200);
  expect((await caller.get(`${pods}/debugged/log`)).text).toBe("log of a");
  expect((await caller.get(`${pods}/debugged/log?container=d`)).text).toBe("log of d");
});

test("OpenAPI version 2 is answered as JSON", async () => {
  const { code, json } = await caller.call("GET", "/openapi/v2", undefined, {
    headers: { accept: "application/json" },
  });
  expect(code).toBe(200);
  expect(json).toMatchObject({ swagger: "2.0", definitions: { "io.k8s.api.core.v1.Pod": { type: "object" } } });
});

import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { ManualClock, settle } from "../../testing/apiserver/manualClock.ts";
import { adminToken, HttpCaller, tokenFile } from "../httpCaller.ts";

/* Clients that send slowly, ask for what has not happened yet, or stay for ever; time is ours. */

const clock = new ManualClock();
let server: ApiServer;
let caller: HttpCaller;
const mistakes: unknown[] = [];
const maps = "/api/v1/namespaces/default/configmaps";

beforeAll(async () => {
  server = await startApiServer({
    clock,
    random: systemRandom(),
    tls: false,
    tokenFile,
    log: ({ error }) => mistakes.push(error),
  });
  caller = new HttpCaller(server.url);
});

afterAll(async () => {
  caller.close();
  const stopped = server.stop();
  await clock.advance(5_000);
  await stopped;
  expect(mistakes).toEqual([]);
});

/** A connection that has sent something and can send more. */
class SlowClient {
  readonly closed: Promise<void>;
  text = "";
  private readonly socket: Socket;

  constructor(bytes: string) {
    const { hostname, port } = new URL(server.url);
    this.socket = connect(Number(port), hostname, () => this.socket.write(bytes));
    this.socket.on("data", (chunk) => {
      this.text += chunk.toString();
    });
    this.socket.on("error", () => {});
    this.closed = new Promise((resolve) => this.socket.on("close", () => resolve()));
  }

  send(bytes: string): void {
    this.socket.write(bytes);
  }
}

/** Until the server has set so many more timers: it has begun to wait. */
async function untilWaiting(before: number, more = 1): Promise<void> {
  while (clock.pending < before + more) await settle(1);
}

function half(query = ""): string {
  const head = `POST ${maps}${query} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminToken}\r\n`;
  return `${head}content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"metadata":{"name":"slow"}`;
}

test("a body that does not come is waited for a minute, then refused with 504, and what comes later writes nothing", async () => {
  const before = server.core.store.revision;
  const timers = clock.pending;
  const client = new SlowClient(half());
  await untilWaiting(timers);
  await clock.advance(59_000);
  expect(client.text).toBe("");
  await clock.advance(1_000);
  client.send(`${" ".repeat(972)}}`);
  await client.closed;
  expect(client.text).toMatch(/^HTTP\/1\.1 504 /);
  expect(client.text).toContain('"reason":"Timeout"');
  expect((await caller.get(`${maps}/slow`)).code).toBe(404);
  expect(server.core.store.revision).toBe(before);
});

test("a client may ask for a shorter wait", async () => {
  const timers = clock.pending;
  const client = new SlowClient(half("?timeout=2s"));
  await untilWaiting(timers);
  await clock.advance(2_000);
  await client.closed;
  expect(client.text).toMatch(/^HTTP\/1\.1 504 /);
});

test("fifty clients that dawdle do not keep others waiting", async () => {
  const timers = clock.pending;
  const clients = Array.from({ length: 50 }, () => new SlowClient(half()));
  await untilWaiting(timers, 50);
  const answer = await caller.post(maps, { metadata: { name: "quick" } });
  expect(answer.code).toBe(201);
  await clock.advance(60_000);
  await Promise.all(clients.map(({ closed }) => closed));
  expect(clients.every(({ text }) => text.startsWith("HTTP/1.1 504"))).toBe(true);
});

test("a read of a revision that has not come is answered when it comes", async () => {
  const wanted = server.core.store.revision + 1;
  const timers = clock.pending;
  const list = caller.get(`${maps}?resourceVersion=${wanted}`);
  await untilWaiting(timers, 2);
  await caller.post(maps, { metadata: { name: "awaited" } });
  const answer = await list;
  expect(answer.code).toBe(200);
  expect(answer.json.items.map(({ metadata }) => metadata.name)).toContain("awaited");
});

test("a read of a revision that does not come is refused after three seconds, with the reason that clients look for", async () => {
  const wanted = server.core.store.revision + 1000;
  for (const path of [`${maps}?resourceVersion=${wanted}`, `${maps}/quick?resourceVersion=${wanted}`]) {
    const timers = clock.pending;
    const read = caller.get(path);
    await untilWaiting(timers, 2);
    await clock.advance(3_000);
    const { code, json, headers } = await read;
    expect(code).toBe(504);
    expect(json).toMatchObject({
      reason: "Timeout",
      details: { retryAfterSeconds: 1, causes: [{ reason: "ResourceVersionTooLarge" }] },
    });
    expect(json.message).toBe(`Timeout: Too large resource version: ${wanted}, current: ${wanted - 1000}`);
    expect(headers["retry-after"]).toBe("1");
  }
});

test("a watch outlives every deadline, gets a bookmark about once a minute, and ends at its own time", async () => {
  const since = server.core.store.revision;
  const watch = await caller.watch(
    `${maps}?watch=1&resourceVersion=${since}&allowWatchBookmarks=true&timeoutSeconds=600`,
  );
  await clock.advance(180_000);
  for (let at = 0; at < 3; at++) {
    const line = await watch.next();
    expect(line?.type).toBe("BOOKMARK");
    expect(Object.keys(line?.object ?? {}).sort()).toEqual(["apiVersion", "kind", "metadata"]);
    expect(line?.object.metadata).toEqual({ resourceVersion: String(since) });
  }
  const { json } = await caller.post(maps, { metadata: { name: "late" } });
  expect((await watch.next())?.object).toEqual(json);
  await clock.advance(420_000);
  const rest: string[] = [];
  for (let line = await watch.next(); line !== undefined; line = await watch.next()) {
    rest.push(`${line.type} ${line.object.metadata.resourceVersion}`);
  }
  expect(new Set(rest)).toEqual(new Set([`BOOKMARK ${json.metadata.resourceVersion}`]));
});

test("a watch without a time of its own ends after half an hour to an hour", async () => {
  const watch = await caller.watch(`${maps}?watch=1&resourceVersion=${server.core.store.revision}`);
  const size = server.core.hub.size;
  await clock.advance(1_799_000);
  expect(server.core.hub.size).toBe(size);
  await clock.advance(1_801_000);
  expect(await watch.next()).toBeUndefined();
});

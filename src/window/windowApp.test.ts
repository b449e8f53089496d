import { describe, expect, test } from "vitest";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { ModelScript, model } from "../../testing/window/readModels.ts";
import { Feed } from "./feed.ts";
import { Guard } from "./guard.ts";
import { Streams } from "./streams.ts";
import { type Actions, type QueryResult, windowApp } from "./windowApp.ts";

const token = "the-token-of-this-test";
const host = "127.0.0.1:6480";
const origin = `http://${host}`;

type Asking = Omit<RequestInit, "headers"> & { headers?: Record<string, string> };

function setUp() {
  const clock = new ManualClock();
  const source = new ModelScript(model(7));
  const feed = new Feed({ source, clock, epoch: "e1" });
  feed.look();
  const guard = new Guard({ token, hosts: () => new Set([host, "localhost:6480"]), scheme: "http", clock });
  const streams = new Streams(feed, { clock, isToken: (given) => guard.isToken(given) });
  const done: unknown[] = [];
  const actions: Actions = {
    break: async (body): Promise<QueryResult> => {
      done.push(body);
      return { ok: true, value: { done: true } };
    },
  };
  const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(new TextEncoder().encode(text));
  const files = new Map([
    ["/index.html", { type: "text/html; charset=utf-8", bytes: bytes("<!doctype html>") }],
    ["/assets/main.js", { type: "text/javascript; charset=utf-8", bytes: bytes("1") }],
  ]);
  const app = windowApp({
    mode: "embedded",
    version: "0",
    isDemo: true,
    feed,
    guard,
    streams,
    files,
    clock,
    questions: {},
    actions,
  });
  const ask = (path: string, init: Asking = {}) =>
    app.request(`${origin}${path}`, { ...init, headers: { host, ...init.headers } });
  const asUser = (path: string, init: Asking = {}) =>
    ask(path, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });
  const post = (path: string, headers: Record<string, string> = {}, body = "{}") =>
    asUser(path, { method: "POST", headers: { origin, "content-type": "application/json", ...headers }, body });
  return { clock, source, feed, streams, done, ask, asUser, post };
}

describe("the token", () => {
  test("is needed for every answer of the API, and for no file of the page", async () => {
    const { ask } = setUp();
    for (const path of ["about", "wall", "jobs", "queues", "gangs", "ribbon", "stream", "why/a/b"])
      expect((await ask(`/api/v1/${path}`)).status, path).toBe(401);
    expect((await ask("/wall/n1/0")).status).toBe(200);
    expect((await ask("/assets/main.js")).status).toBe(200);
  });

  test("in the address or in a cookie counts for nothing", async () => {
    const { ask } = setUp();
    expect((await ask(`/api/v1/wall?token=${token}`)).status).toBe(401);
    expect((await ask("/api/v1/wall", { headers: { cookie: `token=${token}` } })).status).toBe(401);
  });

  test("may be wrong ten times a minute, and the right one is accepted all the while", async () => {
    const { clock, ask, asUser } = setUp();
    const wrong = async (): Promise<number> =>
      (await ask("/api/v1/wall", { headers: { authorization: "Bearer no" } })).status;
    for (let n = 0; n < 10; n++) expect(await wrong()).toBe(401);
    expect(await wrong()).toBe(429);
    expect((await asUser("/api/v1/wall")).status).toBe(200);
    await clock.advance(60_000);
    expect(await wrong()).toBe(401);
  });
});

describe("a request", () => {
  test("for a host that is not ours is refused, so that a name that points here gains nothing", async () => {
    const { asUser, ask } = setUp();
    for (const foreign of ["evil.example", "evil.example:6480", "127.0.0.1:1", ""]) {
      expect((await asUser("/api/v1/wall", { headers: { host: foreign } })).status, foreign).toBe(421);
      expect((await ask("/wall", { headers: { host: foreign } })).status, foreign).toBe(421);
    }
    expect((await asUser("/api/v1/wall", { headers: { host: "LOCALHOST:6480" } })).status).toBe(200);
  });

  test("of another origin or site is refused, with the right token too", async () => {
    const { asUser, post, done } = setUp();
    expect((await asUser("/api/v1/wall", { headers: { origin: "https://evil.example" } })).status).toBe(403);
    expect((await asUser("/api/v1/wall", { headers: { origin: "null" } })).status).toBe(403);
    for (const site of ["cross-site", "same-site"])
      expect((await asUser("/api/v1/wall", { headers: { "sec-fetch-site": site } })).status).toBe(403);
    expect((await post("/api/v1/actions/break", { origin: "http://127.0.0.1:6481" })).status).toBe(403);
    expect((await asUser("/api/v1/wall", { headers: { origin, "sec-fetch-site": "same-origin" } })).status).toBe(200);
    expect(done).toEqual([]);
  });

  test("gets no header that would let another origin read the answer", async () => {
    const { asUser } = setUp();
    const answer = await asUser("/api/v1/wall", { headers: { origin } });
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect((await asUser("/api/v1/wall", { method: "OPTIONS", headers: { origin } })).status).toBe(405);
  });

  test("of a path outside of the page's files finds nothing", async () => {
    const { ask } = setUp();
    for (const path of [
      "/etc/passwd",
      "/assets/../../package.json",
      "/assets/%2e%2e/%2e%2e/package.json",
      "/assets/",
      "/files.json",
      "/wallpaper",
    ])
      expect((await ask(path)).status, path).toBe(404);
  });
});

describe("an action", () => {
  test("is a POST of JSON from our own page, and nothing else", async () => {
    const { asUser, post, done } = setUp();
    expect((await asUser("/api/v1/actions/break")).status).toBe(405);
    expect(
      (
        await asUser("/api/v1/actions/break", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: "{}",
        })
      ).status,
    ).toBe(403);
    expect((await post("/api/v1/actions/break", { "content-type": "text/plain" })).status).toBe(415);
    expect((await post("/api/v1/actions/break", { "content-type": "application/x-www-form-urlencoded" })).status).toBe(
      415,
    );
    expect((await post("/api/v1/actions/__proto__")).status).toBe(404);
    expect((await post("/api/v1/actions/toString")).status).toBe(404);
    expect(done).toEqual([]);
    expect((await post("/api/v1/actions/break", {}, '{"node":"n1"}')).status).toBe(200);
    expect(done).toEqual([{ node: "n1" }]);
  });

  test("has a body of at most 64 KiB", async () => {
    const { post, done } = setUp();
    const large = JSON.stringify({ text: "x".repeat(1024 * 1024) });
    expect((await post("/api/v1/actions/break", {}, large)).status).toBe(413);
    expect(done).toEqual([]);
  });
});

describe("every answer", () => {
  test("carries the headers that keep scripts, frames and referrers out", async () => {
    const { ask, asUser } = setUp();
    for (const answer of [
      await ask("/wall"),
      await asUser("/api/v1/wall"),
      await ask("/api/v1/wall"),
      await ask("/nothing"),
      await ask("/wall", { headers: { host: "evil" } }),
    ]) {
      const policy = answer.headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).toContain("require-trusted-types-for 'script'");
      expect(policy).not.toContain("unsafe");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
      expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
      expect(answer.headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(answer.headers.get("cross-origin-resource-policy")).toBe("same-origin");
    }
  });

  test("of the API is of one revision, and kept by no cache", async () => {
    const { asUser } = setUp();
    const answer = await asUser("/api/v1/wall");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await answer.json()).toMatchObject({
      epoch: "e1",
      rev: 7,
      at: model(7).at,
      sums: { total: 2000, free: 2000 },
    });
  });
});

describe("the past", () => {
  test("is answered as it was, and a forgotten revision with the oldest that is known", async () => {
    const { source, feed, asUser } = setUp();
    source.next = model(9, { gpus: [["f"], ["c"]] });
    feed.look();
    expect(await (await asUser("/api/v1/wall?rev=8")).json()).toMatchObject({ rev: 7, sums: { free: 2000 } });
    expect(await (await asUser("/api/v1/wall?rev=9")).json()).toMatchObject({ rev: 9, sums: { cordoned: 1000 } });
    const gone = await asUser("/api/v1/wall?rev=3");
    expect(gone.status).toBe(410);
    expect(await gone.json()).toMatchObject({ oldest: 7, error: { code: "window-forgotten" } });
    expect((await asUser("/api/v1/wall?rev=x")).status).toBe(400);
  });
});

test("before the cluster is read, numbers are refused instead of being zero", async () => {
  const { asUser, feed } = setUp();
  expect(feed.model).toBeDefined();
  const clock = new ManualClock();
  const empty = new Feed({ source: new ModelScript(), clock, epoch: "e1" });
  empty.look();
  const guard = new Guard({ token, hosts: () => new Set([host]), scheme: "http", clock });
  const streams = new Streams(empty, { clock, isToken: () => true });
  const app = windowApp({
    mode: "file",
    version: "0",
    isDemo: false,
    feed: empty,
    guard,
    streams,
    files: new Map(),
    clock,
    questions: {},
    actions: {},
  });
  const headers = { host, authorization: `Bearer ${token}` };
  expect((await app.request(`${origin}/api/v1/wall`, { headers })).status).toBe(503);
  expect(await (await app.request(`${origin}/api/v1/about`, { headers })).json()).toMatchObject({
    rev: null,
    newest: null,
  });
  expect((await asUser("/api/v1/stream?parts=wall,nothing")).status).toBe(400);
});

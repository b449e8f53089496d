/** Attacks on the window's server that only a real connection shows. */
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import type { GpuCell } from "../../src/model/window/parts.ts";
import { startWindow, type WindowServer } from "../../src/window/startWindow.ts";
import { streamLimits } from "../../src/window/streams.ts";
import { ModelScript, model } from "../../testing/window/readModels.ts";

const token = "a-token-of-forty-three-characters-in-base64";
const source = new ModelScript(model(1));
let server: WindowServer;
let port = 0;

beforeAll(async () => {
  server = await startWindow({
    source,
    questions: {},
    actions: {},
    files: new Map([["/index.html", { type: "text/html", bytes: new Uint8Array([60, 33]) }]]),
    clock: systemClock(),
    token,
    epoch: "e1",
    mode: "embedded",
    isDemo: false,
    version: "0",
    listen: { host: "127.0.0.1", port: 0 },
    limits: { ...streamLimits, perTokenMax: 64, beatMs: 20, stuckMs: 200 },
  });
  port = Number(new URL(server.url).port);
});
afterAll(() => server.stop());

/** Bytes as they are, and what comes back until the server closes. */
function raw(text: string): Promise<string> {
  return new Promise((done) => {
    const socket = connect(port, "127.0.0.1", () => socket.end(text));
    let answer = "";
    socket.on("data", (bytes) => {
      answer += bytes.toString();
    });
    socket.on("close", () => done(answer));
    socket.on("error", () => done(answer));
  });
}

const head = (path: string, more = ""): string =>
  `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n${more}\r\n`;
const auth = `Authorization: Bearer ${token}\r\n`;

function openStream(): Promise<{
  readonly status: number;
  readonly answer: IncomingMessage;
  readonly call: ClientRequest;
}> {
  return new Promise((done, fail) => {
    const headers = { authorization: `Bearer ${token}` };
    const call = request({ port, host: "127.0.0.1", path: "/api/v1/stream", headers }, (answer) => {
      answer.on("error", () => {});
      done({ status: answer.statusCode ?? 0, answer, call });
    });
    call.on("error", fail);
    call.end();
  });
}

test("the address that is printed has the token in the fragment, where no server sees it", () => {
  const url = new URL(server.url);
  expect(url.hash).toBe(`#token=${token}`);
  expect(url.search).toBe("");
});

describe("over a connection", () => {
  test("a request without a host, with another one, or with two is refused", async () => {
    expect(await raw(`GET /api/v1/wall HTTP/1.1\r\nConnection: close\r\n${auth}\r\n`)).toMatch(/^HTTP\/1.1 4/);
    expect(await raw(`GET /wall HTTP/1.1\r\nHost: rebound.example:${port}\r\nConnection: close\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 421/,
    );
    const twice = `GET /api/v1/wall HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nHost: evil\r\nConnection: close\r\n${auth}\r\n`;
    expect(await raw(twice)).toMatch(/^HTTP\/1.1 4/);
  });

  test("no path leads out of the page's files", async () => {
    for (const path of [
      "/../../../../etc/passwd",
      "/%2e%2e/%2e%2e/etc/passwd",
      "/..%2f..%2fetc/passwd",
      "//etc/passwd",
      "/assets\\..\\..\\package.json",
    ]) {
      const answer = await raw(head(path));
      expect(answer, path).toMatch(/^HTTP\/1.1 (?:400|404)/);
      expect(answer).not.toContain("root:");
    }
  });

  test("an absolute address of another server is not answered", async () => {
    expect(await raw(head("http://evil.example/wall"))).not.toMatch(/^HTTP\/1.1 200/);
  });

  test("a body that never ends is cut off at 64 KiB", async () => {
    const chunk = `8000\r\n${"x".repeat(0x8000)}\r\n`;
    const post =
      `POST /api/v1/whatif HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nOrigin: http://127.0.0.1:${port}\r\n${auth}` +
      `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunk.repeat(32)}0\r\n\r\n`;
    expect(await raw(post)).toMatch(/^HTTP\/1.1 413/);
  });

  test("the 65th stream is refused, and served when another has ended", async () => {
    const open = await Promise.all(Array.from({ length: 64 }, openStream));
    expect(open.every(({ status }) => status === 200)).toBe(true);
    for (const { answer } of open) answer.resume();
    const more = await openStream();
    expect(more.status).toBe(429);
    more.answer.resume();
    const closed = new Promise<void>((done) => open[0]?.answer.once("close", done));
    open[0]?.call.destroy();
    await closed;
    await expect
      .poll(async () => {
        const again = await openStream();
        again.call.destroy();
        return again.status;
      })
      .toBe(200);
    for (const { call } of open) call.destroy();
  });

  test("a reader that takes nothing is cut, and others go on", async () => {
    const stuck = await openStream();
    stuck.answer.pause();
    const well = await openStream();
    await expect.poll(() => server.streams.size).toBe(2);
    let heard = 0;
    well.answer.on("data", (bytes: Buffer) => {
      heard += bytes.length;
    });
    // Far more than the socket's buffers and the window's own hold.
    const many = (state: "f" | "c"): GpuCell[] => Array.from({ length: 40_000 }, () => [state]);
    let rev = 10;
    const more = setInterval(() => {
      rev++;
      source.next = model(rev, { gpus: many(rev % 2 === 0 ? "f" : "c") });
      server.feed.look();
    }, 10);
    await expect.poll(() => server.streams.size, { timeout: 60_000 }).toBe(1);
    clearInterval(more);
    const closed = new Promise<void>((done) => stuck.answer.once("close", done));
    stuck.answer.resume();
    await closed;
    expect(heard).toBeGreaterThan(1_000_000);
    well.call.destroy();
  });
});

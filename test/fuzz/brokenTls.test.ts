import { request } from "node:https";
import { connect } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";

let server: ApiServer;
let stranger: ApiServer;
const mistakes: unknown[] = [];

function start(): Promise<ApiServer> {
  const log = ({ error }: { error: unknown }) => mistakes.push(error);
  return startApiServer({ clock: systemClock(), random: systemRandom(), log });
}

beforeAll(async () => {
  server = await start();
  stranger = await start();
});
afterAll(async () => {
  await server.stop();
  await stranger.stop();
});

test.each([
  { name: "plain HTTP", bytes: Buffer.from("GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n") },
  { name: "noise", bytes: Buffer.from(Array.from({ length: 500 }, (_, at) => (at * 73) % 256)) },
  { name: "a greeting of an unknown protocol", bytes: Buffer.from([0x16, 3, 9, 0, 5, 1, 0, 0, 1, 0]) },
  { name: "a record that promises more than it brings", bytes: Buffer.from([0x16, 3, 1, 0xff, 0xff, 1, 0, 0]) },
  { name: "nothing at all", bytes: Buffer.alloc(0) },
])("$name on a TLS port is dropped, and the server goes on", async ({ bytes }) => {
  await sendAndLeave(bytes);
  expect(await ready()).toBe(200);
  expect(mistakes).toEqual([]);
});

test("a hundred handshakes that are abandoned leave the server as it was", async () => {
  const hello = await greeting();
  await Promise.all(Array.from({ length: 100 }, () => abandonHandshake(hello)));
  expect(await ready()).toBe(200);
  expect(mistakes).toEqual([]);
});

test("a certificate of another authority is worth nothing, whatever name it bears", async () => {
  expect(await codeOf("/api/v1/namespaces", stranger.pki.admin)).toBe(401);
  expect(await codeOf("/api/v1/namespaces", server.pki.admin)).toBe(200);
});

test("without a certificate only probes are answered", async () => {
  expect(await codeOf("/readyz")).toBe(200);
  expect(await codeOf("/api/v1/namespaces")).toBe(403);
});

function ready(): Promise<number> {
  return codeOf("/readyz");
}

function codeOf(path: string, credential?: { certificate: string; key: string }): Promise<number> {
  return new Promise((resolve, reject) => {
    const identity = credential === undefined ? {} : { cert: credential.certificate, key: credential.key };
    const sent = request(
      `${server.url}${path}`,
      { ca: server.pki.authority, agent: false, ...identity },
      (response) => {
        response.resume();
        response.on("end", () => resolve(response.statusCode ?? 0));
      },
    );
    sent.on("error", reject);
    sent.end();
  });
}

/** Sends bytes, says that there are no more, and waits for the end. */
function sendAndLeave(bytes: Buffer): Promise<void> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.end(bytes));
    socket.on("error", () => {});
    socket.resume();
    socket.on("close", () => resolve());
  });
}

/** The first message of a handshake, as a real client would send it. */
function greeting(): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({ read() {}, write: (chunk: Buffer) => resolve(chunk) });
    connectTls({ socket: wire, ca: server.pki.authority }).on("error", () => {});
  });
}

/** Greets, waits for the first word of the server, and breaks off. */
function abandonHandshake(hello: Buffer): Promise<void> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.write(hello));
    socket.once("data", () => socket.resetAndDestroy());
    socket.on("error", () => {});
    socket.on("close", () => resolve());
  });
}

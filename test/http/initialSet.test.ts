import { request } from "node:https";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import type { Resource } from "../../src/apiserver/resource.ts";
import { sentByUs } from "../../src/apiserver/resource.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { systemCall } from "../../src/apiserver/systemCall.ts";
import { createObject } from "../../src/apiserver/verbs/create.ts";

const objects = 120;
let server: ApiServer;

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  const resource = server.core.registry.find("", "v1", "configmaps") as Resource;
  for (let at = 0; at < objects; at++) {
    const object = { metadata: { name: `big-${at}` }, data: { text: "x".repeat(1_000_000) } };
    const target = { resource, namespace: "default", name: "", subresource: "" };
    await createObject(server.core, target, sentByUs(object), systemCall("test"));
  }
});
afterAll(() => server.stop());

test("a watch delivers all initial events to a slow reader, even if they are larger than the backlog limit", async () => {
  const { pki, url } = server;
  const query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
  const { lines, bookmarks } = await new Promise<{ lines: number; bookmarks: number }>((resolve, reject) => {
    const path = `/api/v1/namespaces/default/configmaps?${query}`;
    const options = { ca: pki.authority, cert: pki.admin.certificate, key: pki.admin.key };
    const call = request(`${url}${path}`, options, (response) => {
      let lines = 0;
      let reads = 0;
      response.on("data", (data: Buffer) => {
        for (const byte of data) if (byte === 10) lines++;
        if (data.includes("initial-events-end")) {
          call.destroy();
          resolve({ lines, bookmarks: 1 });
        } else if (++reads % 50 === 0) {
          // The socket buffer fills up meanwhile; the server must wait, not disconnect.
          response.pause();
          setImmediate(() => response.resume());
        }
      });
      response.on("end", () => reject(new Error(`the stream ended after ${lines} lines`)));
    });
    call.on("error", reject);
    call.end();
  });
  expect(bookmarks).toBe(1);
  // kube-root-ca.crt is there too, and the bookmark itself is a line.
  expect(lines).toBe(objects + 2);
});

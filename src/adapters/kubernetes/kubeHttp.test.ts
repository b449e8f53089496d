import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import {
  type Answer,
  cut,
  json,
  type ScriptedServer,
  scriptedServer,
  silence,
  status,
  text,
} from "../../../testing/adapters/scriptedServer.ts";
import { ManualClock, settle } from "../../../testing/apiserver/manualClock.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { MemoryMetrics } from "../../control/runtime/memoryMetrics.ts";
import type { Json } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome, RefusalReason } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi, ObjectRef, Patch, WatchEvent, WatchOptions } from "../../ports/kubeApi.ts";
import type { Log, LogFields } from "../../ports/log.ts";
import { type CredentialSource, fixedCredentials } from "../kubeHttp/connection.ts";
import { RequestBook } from "../kubeHttp/requestBook.ts";
import { type KubeHttp, type KubeHttpOptions, kubeHttp } from "./kubeHttp.ts";

const maps = builtin.ConfigMap;
const map: ObjectRef = { ...maps, namespace: "default", name: "a" };
const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "default", name: "a" } } as KubeObject;

interface Scene {
  readonly server: ScriptedServer;
  readonly kube: KubeHttp;
  readonly clock: ManualClock;
  readonly logged: { fields: LogFields; message: string }[];
}

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

async function scene(
  answers: Answer[],
  more: { credentials?: CredentialSource; prefix?: string; headers?: Record<string, string[]> } = {},
  options: Partial<KubeHttpOptions> = {},
): Promise<Scene> {
  const server = await scriptedServer(...answers);
  const clock = new ManualClock();
  const logged: Scene["logged"] = [];
  const write = (fields: LogFields, message: string): void => void logged.push({ fields, message });
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const connection = {
    server: `${server.url}${more.prefix ?? ""}`,
    namespace: "default",
    credentials: more.credentials ?? fixedCredentials({ authorization: "Bearer t" }),
    ...(more.headers === undefined ? {} : { headers: more.headers }),
  };
  const kube = kubeHttp(connection, { clock, log }, { fieldManager: "tests", ...options });
  open.push(async () => {
    kube.close();
    await server.close();
  });
  return { server, kube, clock, logged };
}

/** Lets the network do its work until something holds; time stands still. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await settle(1);
}

const reason = (outcome: Outcome<unknown>): RefusalReason | "ok" => (outcome.ok ? "ok" : outcome.reason);

const writes: [string, (kube: KubeApi) => Promise<Outcome<unknown>>][] = [
  ["create", (kube) => kube.create(maps, object)],
  ["update", (kube) => kube.update(map, object)],
  ["patch", (kube) => kube.patch(map, { type: "merge", body: {} })],
  ["delete", (kube) => kube.delete(map)],
  ["bind", (kube) => kube.bind(map, { node: "n", uid: "u" })],
  ["evict", (kube) => kube.evict(map)],
];

test("a write that waited for a free connection longer than it may leave is Fenced, and never sent", async () => {
  const held: (() => void)[] = [];
  const { kube, server } = await scene([(response) => void held.push(() => json(200, object)(response, {} as never))]);
  const before = Array.from({ length: 64 }, () => kube.patch(map, { type: "merge", body: {} }));
  await until(() => held.length === 64);
  let leader = true;
  const late = kube.create(maps, object, { maySend: () => leader });
  await settle(20);
  leader = false;
  for (const answer of held) answer();
  expect((await Promise.all(before)).map(reason)).toEqual(Array(64).fill("ok"));
  expect(reason(await late)).toBe("Fenced");
  expect(server.requests).toHaveLength(64);
});

describe("a request", () => {
  test("carries its user agent and the formats it accepts", async () => {
    const { kube, server } = await scene([json(200, object)], {}, { userAgent: "muster/1 (test)" });
    await kube.get(map);
    expect(server.requests[0]).toMatchObject({ method: "GET", url: "/api/v1/namespaces/default/configmaps/a" });
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: "Bearer t",
      accept: "application/json",
      "accept-encoding": "gzip",
      "user-agent": "muster/1 (test)",
    });
  });

  test("keeps to the path of an API that is not at the root, and sends the headers of the connection", async () => {
    const headers = { "impersonate-group": ["a", "b"] };
    const { kube, server } = await scene([json(200, object)], { prefix: "/k8s/clusters/c-1/", headers });
    await kube.get({
      group: "apps",
      version: "v1",
      plural: "deployments",
      namespace: "n",
      name: "d",
      subresource: "scale",
    });
    expect(server.requests[0]?.url).toBe("/k8s/clusters/c-1/apis/apps/v1/namespaces/n/deployments/d/scale");
    expect(server.requests[0]?.headers["impersonate-group"]).toBe("a, b");
  });

  test("escapes what is no part of a path", async () => {
    const { kube, server } = await scene([json(200, object)]);
    await kube.get({ ...map, name: "../secrets?x=#" });
    expect(server.requests[0]?.url).toBe("/api/v1/namespaces/default/configmaps/..%2Fsecrets%3Fx%3D%23");
  });

  test.each<[Patch["type"], string, string]>([
    ["merge", "application/merge-patch+json", "?fieldManager=tests"],
    ["strategic", "application/strategic-merge-patch+json", "?fieldManager=tests"],
    ["json", "application/json-patch+json", "?fieldManager=tests"],
    ["apply", "application/apply-patch+yaml", "?fieldManager=tests&force=true"],
  ])("with a %s patch is of type %s", async (type, contentType, query) => {
    const { kube, server } = await scene([json(200, object)]);
    await kube.patch(map, { type, body: [] as Json, force: true } as Patch);
    expect(server.requests[0]?.headers["content-type"]).toBe(contentType);
    expect(server.requests[0]?.url).toBe(`/api/v1/namespaces/default/configmaps/a${query}`);
  });

  test("to delete carries its conditions and its dry run in the body, where servers look", async () => {
    const { kube, server } = await scene([json(200, { kind: "Status", apiVersion: "v1", status: "Success" })]);
    const preconditions = { uid: "u", resourceVersion: "7" };
    const options = { preconditions, gracePeriodSeconds: 0, propagationPolicy: "Foreground", dryRun: true } as const;
    expect(await kube.delete(map, options)).toEqual({ ok: true, value: undefined });
    expect(JSON.parse(server.requests[0]?.body ?? "")).toEqual({
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions,
      gracePeriodSeconds: 0,
      propagationPolicy: "Foreground",
      dryRun: ["All"],
    });
  });

  test("uses the connection of the one before", async () => {
    const { kube, server } = await scene([json(200, object)]);
    for (let at = 0; at < 5; at++) await kube.get(map);
    expect(server.connections.count).toBe(1);
  });
});

describe("an answer", () => {
  test("that was packed is unpacked", async () => {
    const list = {
      kind: "ConfigMapList",
      apiVersion: "v1",
      metadata: { resourceVersion: "9" },
      items: [{ metadata: {} }],
    };
    const packed: Answer = (response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
      response.end(gzipSync(JSON.stringify(list)));
    };
    const { kube } = await scene([packed]);
    const outcome = await kube.list(maps);
    expect(outcome).toEqual({
      ok: true,
      value: { revision: "9", items: [{ apiVersion: "v1", kind: "ConfigMap", metadata: {} }] },
    });
  });

  test("with an empty list may say null", async () => {
    const { kube } = await scene([json(200, { kind: "XList", apiVersion: "a/v1", metadata: {}, items: null })]);
    expect(await kube.list(maps)).toEqual({ ok: true, value: { revision: "", items: [] } });
  });

  test.each<[string, object]>([
    ["is JSON of another kind of server", { welcome: true }],
    ["has no list", { kind: "XList", apiVersion: "a/v1", metadata: {}, items: 7 }],
    ["has no metadata", { kind: "XList", apiVersion: "a/v1", items: [] }],
    ["lists what are no objects", { kind: "XList", apiVersion: "a/v1", metadata: {}, items: [{ metadata: {} }, null] }],
    ["lists objects without metadata", { kind: "XList", apiVersion: "a/v1", metadata: {}, items: [{}] }],
  ])("to a list that %s is unknown, and nothing is thrown", async (_, answer) => {
    const { kube } = await scene([json(200, answer)]);
    expect(reason(await kube.list(maps))).toBe("Unknown");
  });

  test.each<[string, Answer, RefusalReason]>([
    ["400", json(400, status(400, "BadRequest")), "Invalid"],
    ["401", json(401, status(401, "Unauthorized")), "Unauthorized"],
    ["403", json(403, status(403, "Forbidden")), "Forbidden"],
    ["404", json(404, status(404, "NotFound")), "NotFound"],
    ["409 for a name that is taken", json(409, status(409, "AlreadyExists")), "AlreadyExists"],
    ["409", json(409, status(409, "Conflict")), "Conflict"],
    ["410", json(410, status(410, "Expired")), "Expired"],
    ["413", json(413, status(413, "RequestEntityTooLarge")), "Invalid"],
    ["422", json(422, status(422, "Invalid")), "Invalid"],
    ["429", json(429, status(429, "TooManyRequests")), "TooManyRequests"],
    ["500", json(500, status(500, "InternalError")), "Unknown"],
    ["503 of the API server, which then did nothing", json(503, status(503, "ServiceUnavailable")), "Unavailable"],
    ["504", json(504, status(504, "Timeout")), "Unknown"],
    ["503 of a proxy, which may have passed the request on", text(503, "<h1>no upstream</h1>"), "Unknown"],
    ["502 of a proxy", text(502, "bad gateway"), "Unknown"],
    ["404 of a proxy", text(404, "no such page"), "NotFound"],
    ["a redirect", text(302, "", { location: "https://login.example.com" }), "Invalid"],
    ["success that cannot be read", text(200, "<html>welcome</html>"), "Unknown"],
    ["success that is no object", text(201, "[]"), "Unknown"],
    ["success that is JSON of another kind of server", json(200, { welcome: true }), "Unknown"],
  ])("%s means %s", async (_, answer, expected) => {
    const { kube, server } = await scene([answer]);
    expect(reason(await kube.create(maps, object))).toBe(expected);
    expect(server.requests).toHaveLength(1);
  });

  test("says how long to wait: in its status, in seconds, or as a date", async () => {
    const nowMs = new ManualClock().nowMs();
    const date = new Date(nowMs + 7_000).toUTCString();
    for (const [answer, waitMs] of [
      [json(429, status(429, "TooManyRequests", { retryAfterSeconds: 3 })), 3_000],
      [json(429, status(429, "TooManyRequests"), { "retry-after": "4" }), 4_000],
      [text(429, "slow down", { "retry-after": date }), 7_000],
    ] as const) {
      const { kube } = await scene([answer]);
      expect(await kube.create(maps, object)).toMatchObject({ reason: "TooManyRequests", retryAfterMs: waitMs });
    }
  });

  test("with warnings is logged, each warning once", async () => {
    const warning = ['299 - "spec.a is deprecated"', '299 - "say \\"b\\" instead"'];
    const { kube, logged } = await scene([json(200, object, { warning })]);
    await kube.get(map);
    await kube.get(map);
    expect(logged.map(({ fields }) => fields["warning"])).toEqual(["spec.a is deprecated", 'say "b" instead']);
  });
});

describe("what becomes of requests", () => {
  test("is counted, also of watches, and fifty that get no answer are one warning", async () => {
    const clock = new ManualClock();
    const log = new KeptLog();
    const metrics = new MemoryMetrics();
    const server = await scriptedServer(json(200, object), json(403, status(403, "Forbidden")), json(200, object));
    const connection = { server: server.url, namespace: "default", credentials: fixedCredentials({}) };
    const requests = new RequestBook({ clock, log, metrics });
    const kube = kubeHttp(connection, { clock, log, requests }, { fieldManager: "tests" });
    open.push(async () => kube.close());
    await kube.get(map);
    await kube.create(maps, object);
    await new Promise<void>((ended) => {
      kube.watch(maps, {}, { event: () => {}, ended: () => ended() });
    });
    await server.close();
    for (let at = 0; at < 50; at++) await kube.patch(map, { type: "merge", body: {} });
    const counted = (verb: string, code: string): number =>
      metrics.value("muster_api_requests_total", { verb, resource: "configmaps", code });
    expect([counted("get", "200"), counted("create", "403"), counted("watch", "200")]).toEqual([1, 1, 1]);
    expect(counted("patch", "<error>")).toBe(50);
    const warned = log.lines.filter(({ level }) => level === "warn").map(({ message }) => message);
    expect(warned).toEqual(["the API server forbids a request", "requests get no answer from the API server"]);
  });
});

describe("a write is sent once", () => {
  test.each(writes)("%s whose connection breaks is Unknown", async (_, write) => {
    const { kube, server, logged } = await scene([cut]);
    expect(reason(await write(kube))).toBe("Unknown");
    expect(server.requests).toHaveLength(1);
    expect(logged.some(({ fields }) => fields["cause"] instanceof Error)).toBe(true);
  });

  test.each(writes)("%s that the server is too busy for is not repeated", async (_, write) => {
    const { kube, server, clock } = await scene([json(429, status(429, "TooManyRequests"), { "retry-after": "1" })]);
    expect(await write(kube)).toMatchObject({ reason: "TooManyRequests", retryAfterMs: 1_000 });
    await clock.advance(10_000);
    expect(server.requests).toHaveLength(1);
  });

  test("a kept connection that the server gave up makes it Unknown: the request may have been read", async () => {
    const { kube, server } = await scene([json(200, object), cut]);
    await kube.get(map);
    expect(reason(await kube.create(maps, object))).toBe("Unknown");
    expect(server.requests).toHaveLength(2);
  });

  test("an answer that breaks off in the middle is Unknown", async () => {
    const half: Answer = (response) => {
      response.writeHead(201, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"kind":"ConfigMap"', () => response.destroy());
    };
    const { kube } = await scene([half]);
    expect(reason(await kube.create(maps, object))).toBe("Unknown");
  });

  test("no response within the timeout is Unknown, and the connection is closed", async () => {
    const closed: string[] = [];
    const never: Answer = (response) => void response.on("close", () => closed.push("closed"));
    const { kube, server, clock } = await scene([never], {}, { requestMs: 5_000 });
    const writing = kube.create(maps, object);
    await until(() => server.requests.length === 1);
    await clock.advance(5_000);
    expect(reason(await writing)).toBe("Unknown");
    await until(() => closed.length === 1);
  });

  test("a call cancelled while in flight is Unknown", async () => {
    const { kube, server } = await scene([silence]);
    const listeners: (() => void)[] = [];
    const cancel = {
      cancelled: false,
      onCancel: (run: () => void) => {
        listeners.push(run);
        return () => {};
      },
    };
    const writing = kube.create(maps, object, { cancel });
    await until(() => server.requests.length === 1);
    for (const run of listeners) run();
    expect(reason(await writing)).toBe("Unknown");
  });
});

describe("nothing listens", () => {
  test.each([
    ...writes,
    ["get", (kube: KubeApi) => kube.get(map)] as const,
    ["list", (kube: KubeApi) => kube.list(maps)] as const,
  ])("%s is Unavailable: it did not happen", async (_, call) => {
    const { kube, server } = await scene([silence]);
    await server.close();
    expect(reason(await call(kube))).toBe("Unavailable");
  });

  test("a name that no machine has is Unavailable", async () => {
    const connection = { server: "http://no-such-host.invalid", namespace: "", credentials: fixedCredentials({}) };
    const { clock } = await scene([silence]);
    const log: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const kube = kubeHttp(connection, { clock, log }, { fieldManager: "tests" });
    expect(reason(await kube.create(maps, object))).toBe("Unavailable");
    kube.close();
  });

  test("after close() every call is Unavailable", async () => {
    const { kube, server } = await scene([json(200, object)]);
    kube.close();
    expect(reason(await kube.get(map))).toBe("Unavailable");
    expect(server.requests).toHaveLength(0);
  });
});

describe("a read", () => {
  const busy = json(429, status(429, "TooManyRequests"), { "retry-after": "2" });

  test("with a Retry-After is retried then", async () => {
    const { kube, server, clock } = await scene([
      busy,
      json(503, status(503, "ServiceUnavailable"), { "retry-after": "1" }),
      json(200, object),
    ]);
    const reading = kube.get(map);
    await until(() => server.requests.length === 1);
    await settle(50);
    await clock.advance(1_900);
    expect(server.requests).toHaveLength(1);
    await clock.advance(100);
    await until(() => server.requests.length === 2);
    await settle(50);
    await clock.advance(1_000);
    expect(reason(await reading)).toBe("ok");
    expect(server.requests).toHaveLength(3);
  });

  test("is not repeated for ever, nor after a wait that is too long", async () => {
    const { kube, server, clock } = await scene([busy]);
    let outcome: Outcome<unknown> | undefined;
    void kube.get(map).then((found) => {
      outcome = found;
    });
    while (outcome === undefined) {
      await settle(5);
      await clock.advance(100);
    }
    expect(outcome).toMatchObject({ reason: "TooManyRequests", retryAfterMs: 2_000 });
    expect(server.requests).toHaveLength(4);
    const patient = await scene([json(429, status(429, "TooManyRequests"), { "retry-after": "60" })]);
    expect(await patient.kube.get(map)).toMatchObject({ reason: "TooManyRequests", retryAfterMs: 60_000 });
  });

  test("on a kept connection that the server closed is sent again at once", async () => {
    const { kube, server } = await scene([json(200, object), cut, json(200, object)]);
    await kube.get(map);
    expect(reason(await kube.get(map))).toBe("ok");
    expect(server.requests).toHaveLength(3);
  });
});

describe("credentials", () => {
  const onlyFor = (token: string, then: Answer): Answer => {
    const refusal = json(401, status(401, "Unauthorized"));
    return (response, request) =>
      (request.headers.authorization === `Bearer ${token}` ? then : refusal)(response, request);
  };
  const rotating = (...tokens: string[]): { source: CredentialSource; asked: boolean[] } => {
    const asked: boolean[] = [];
    const source: CredentialSource = async ({ refused }) => {
      const token = tokens[Math.min(asked.length, tokens.length - 1)];
      asked.push(refused);
      return { authorization: `Bearer ${token}`, goodForMs: 60_000 };
    };
    return { source, asked };
  };

  test("that are refused are renewed, and the same request is sent with the new ones", async () => {
    const { source, asked } = rotating("old", "new");
    const { kube, server } = await scene([onlyFor("new", json(201, object))], { credentials: source });
    expect(reason(await kube.create(maps, object))).toBe("ok");
    expect(asked).toEqual([false, true]);
    expect(server.requests).toHaveLength(2);
    expect(server.requests[1]?.body).toBe(server.requests[0]?.body);
  });

  test("that had to be reloaded hold back a write that may no longer be sent", async () => {
    const { source } = rotating("old", "new");
    const { kube, server } = await scene([onlyFor("new", json(201, object))], { credentials: source });
    let leader = true;
    server.requests.push = (...sent) => {
      leader = false;
      return Array.prototype.push.apply(server.requests, sent);
    };
    expect(reason(await kube.create(maps, object, { maySend: () => leader }))).toBe("Fenced");
    expect(server.requests).toHaveLength(1);
  });

  test("that are refused and do not change end as Unauthorized after one request", async () => {
    const { source } = rotating("old");
    const { kube, server } = await scene([onlyFor("new", json(201, object))], { credentials: source });
    expect(reason(await kube.create(maps, object))).toBe("Unauthorized");
    expect(server.requests).toHaveLength(1);
  });

  test("that are rejected again and again are reloaded once a second", async () => {
    const { source, asked } = rotating("old");
    const { kube, clock } = await scene([onlyFor("new", json(201, object))], { credentials: source });
    for (let at = 0; at < 5; at++) await kube.get(map);
    expect(asked).toEqual([false, true]);
    await clock.advance(1_000);
    await kube.get(map);
    expect(asked).toEqual([false, true, true]);
  });

  test("that are refused twice end as Unauthorized", async () => {
    const { source } = rotating("old", "also-old", "new");
    const { kube, server } = await scene([onlyFor("new", json(201, object))], { credentials: source });
    expect(reason(await kube.create(maps, object))).toBe("Unauthorized");
    expect(server.requests).toHaveLength(2);
  });

  test("that are old are reloaded", async () => {
    const { source, asked } = rotating("one", "two");
    const { kube, server, clock } = await scene([json(200, object)], { credentials: source });
    await kube.get(map);
    await clock.advance(59_000);
    await kube.get(map);
    await clock.advance(1_000);
    await kube.get(map);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer one",
      "Bearer one",
      "Bearer two",
    ]);
    expect(asked).toEqual([false, false]);
  });

  test("are loaded once, however many calls need them", async () => {
    const { source, asked } = rotating("old", "new");
    const { kube } = await scene([onlyFor("new", json(200, object))], { credentials: source });
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => kube.get(map)));
    expect(outcomes.map(reason)).toEqual(Array<string>(10).fill("ok"));
    expect(asked).toHaveLength(2);
  });

  test("that cannot be reloaded stay in use, with a log line", async () => {
    let asked = 0;
    const credentials: CredentialSource = async () => {
      if (asked++ > 0) throw new Error("the file is gone");
      return { authorization: "Bearer one", goodForMs: 1_000 };
    };
    const { kube, clock, logged } = await scene([json(200, object)], { credentials });
    await kube.get(map);
    await clock.advance(1_000);
    expect(reason(await kube.get(map))).toBe("ok");
    expect(logged).toMatchObject([{ fields: { cause: new Error("the file is gone") } }]);
  });

  test("that cannot be found at all make a call Unauthorized, and nothing is sent", async () => {
    const credentials: CredentialSource = () => Promise.reject(new Error("please log in"));
    const { kube, server } = await scene([json(200, object)], { credentials });
    expect(await kube.get(map)).toMatchObject({ reason: "Unauthorized", message: "no credentials: please log in" });
    expect(server.requests).toHaveLength(0);
  });

  test("with characters that no header may hold do not throw", async () => {
    const { kube } = await scene([json(200, object)], { credentials: fixedCredentials({ authorization: "a\nb" }) });
    expect(reason(await kube.get(map))).toBe("Unavailable");
  });
});

describe("a watch", () => {
  interface Told {
    readonly events: WatchEvent[];
    readonly ends: (Outcome<never> | undefined)[];
    stop(): void;
  }

  function watch(kube: KubeApi, options: WatchOptions = {}): Told {
    const events: WatchEvent[] = [];
    const ends: Told["ends"] = [];
    const { stop } = kube.watch(maps, options, {
      event: (event) => events.push(event),
      ended: (why) => ends.push(why),
    });
    return { events, ends, stop };
  }

  const line = (type: string, body: unknown = object): string => `${JSON.stringify({ type, object: body })}\n`;
  const bookmark = (revision: string, annotations?: object): string =>
    line("BOOKMARK", { kind: "ConfigMap", apiVersion: "v1", metadata: { resourceVersion: revision, annotations } });
  const lines =
    (...texts: string[]): Answer =>
    (response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(texts.join(""));
    };

  test("sends the parameters of the options", async () => {
    const { kube, server } = await scene([lines()]);
    const told = watch(kube, { namespace: "n", labelSelector: "a=b", sendInitialEvents: true, timeoutSeconds: 300 });
    await until(() => told.ends.length > 0);
    const url = new URL(server.requests[0]?.url ?? "", server.url);
    expect(url.pathname).toBe("/api/v1/namespaces/n/configmaps");
    expect(Object.fromEntries(url.searchParams)).toEqual({
      watch: "true",
      labelSelector: "a=b",
      allowWatchBookmarks: "true",
      sendInitialEvents: "true",
      resourceVersionMatch: "NotOlderThan",
      timeoutSeconds: "300",
    });
    expect(server.requests[0]?.headers["accept-encoding"]).toBeUndefined();
  });

  test("reads events that come in pieces, and in crowds", async () => {
    const named = { ...object, data: { text: "gr\u00fc\u00dfe \u{1f600}" } };
    const whole = Buffer.from(`${line("ADDED", named)}${bookmark("7")}${line("DELETED", named)}`);
    const pieces: Answer = (response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const send = (at: number): void => {
        if (at >= whole.length) response.end();
        else response.write(whole.subarray(at, at + 1), () => setImmediate(send, at + 1));
      };
      send(0);
    };
    const { kube } = await scene([pieces]);
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    expect(told.events).toEqual([
      { type: "ADDED", object: named },
      { type: "BOOKMARK", revision: "7", initialEventsEnd: false },
      { type: "DELETED", object: named },
    ]);
    expect(told.ends).toEqual([undefined]);
  });

  test("tells the end of the initial set", async () => {
    const { kube } = await scene([lines(bookmark("7", { "k8s.io/initial-events-end": "true" }))]);
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    expect(told.events).toEqual([{ type: "BOOKMARK", revision: "7", initialEventsEnd: true }]);
  });

  test.each<[string, Answer, object | undefined]>([
    ["its time is up", lines(line("ADDED")), undefined],
    ["the past was forgotten", lines(line("ADDED"), line("ERROR", status(410, "Expired"))), { reason: "Expired" }],
    ["the server fails in the middle", lines(line("ADDED"), line("ERROR", { kind: "Status" })), { reason: "Unknown" }],
    ["the last line has no end", lines(line("ADDED"), '{"type":"ADD'), { reason: "Unknown" }],
    ["a line is no event", lines(line("ADDED"), "hello\n"), { reason: "Unknown" }],
    [
      "a line is larger than any object",
      (response) => {
        response.writeHead(200);
        response.write(line("ADDED"));
        response.end(`{"type":"ADDED","object":{"x":"${"x".repeat(17 * 1024 * 1024)}"}}\n`);
      },
      { reason: "Invalid" },
    ],
    [
      "the connection breaks",
      (response) => {
        response.writeHead(200);
        response.write(line("ADDED"), () => setImmediate(() => response.destroy()));
      },
      { reason: "Unknown" },
    ],
  ])("ends once when %s, after what came before", async (_, answer, why) => {
    const { kube } = await scene([answer]);
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    await settle(50);
    expect(told.events).toEqual([{ type: "ADDED", object }]);
    if (why === undefined) expect(told.ends).toEqual([undefined]);
    else expect(told.ends).toMatchObject([{ ok: false, ...why }]);
  });

  test.each<[string, Answer, object]>([
    [
      "the server is busy",
      json(429, status(429, "TooManyRequests"), { "retry-after": "9" }),
      { reason: "TooManyRequests", retryAfterMs: 9_000 },
    ],
    ["the past was forgotten", json(410, status(410, "Expired")), { reason: "Expired" }],
    ["the connection breaks before an answer", cut, { reason: "Unknown" }],
  ])("that cannot begin because %s ends with that", async (_, answer, why) => {
    const { kube } = await scene([answer]);
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    expect(told.ends).toMatchObject([{ ok: false, ...why }]);
  });

  test("where nothing listens ends as Unavailable", async () => {
    const { kube, server } = await scene([silence]);
    await server.close();
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    expect(told.ends).toMatchObject([{ ok: false, reason: "Unavailable" }]);
  });

  test("skips kinds of events that are not known yet", async () => {
    const { kube } = await scene([lines(line("WONDER"), line("ADDED"))]);
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    expect(told.events).toEqual([{ type: "ADDED", object }]);
  });

  test("loads new credentials when the old ones are rejected", async () => {
    let asked = 0;
    const credentials: CredentialSource = async () => ({ authorization: `Bearer ${asked++}` });
    const { kube, server } = await scene([json(401, status(401, "Unauthorized")), lines(line("ADDED"))], {
      credentials,
    });
    const told = watch(kube);
    await until(() => told.ends.length > 0);
    expect(told.ends).toEqual([undefined]);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer 0", "Bearer 1"]);
  });

  test("that allows bookmarks and receives nothing is closed", async () => {
    const responses: { write(text: string): void }[] = [];
    const slow: Answer = (response) => {
      response.writeHead(200);
      response.flushHeaders();
      responses.push(response);
    };
    const { kube, clock } = await scene([slow], {}, { watchSilenceMs: 100_000 });
    const told = watch(kube, { allowBookmarks: true });
    await until(() => responses.length === 1);
    await settle(50);
    await clock.advance(90_000);
    responses[0]?.write(bookmark("7"));
    await until(() => told.events.length === 1);
    await clock.advance(90_000);
    expect(told.ends).toEqual([]);
    await clock.advance(10_000);
    expect(told.ends).toMatchObject([{ ok: false, reason: "Unknown" }]);
  });

  test("without bookmarks may be silent for as long as it likes", async () => {
    const quiet: Answer = (response) => {
      response.writeHead(200);
      response.flushHeaders();
    };
    const { kube, server, clock } = await scene([quiet], {}, { watchSilenceMs: 100_000 });
    const told = watch(kube);
    await until(() => server.requests.length === 1);
    await settle(50);
    await clock.advance(3_600_000);
    expect(told.ends).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  test("without response headers is closed after the timeout", async () => {
    const { kube, server, clock } = await scene([silence], {}, { requestMs: 5_000 });
    const told = watch(kube);
    await until(() => server.requests.length === 1);
    await clock.advance(5_000);
    expect(told.ends).toMatchObject([{ ok: false, reason: "Unknown" }]);
  });

  test("that is stopped closes its connection and its timer", async () => {
    const closed: string[] = [];
    const quiet: Answer = (response) => {
      response.writeHead(200);
      response.flushHeaders();
      response.on("close", () => closed.push("closed"));
    };
    const { kube, server, clock } = await scene([quiet]);
    const told = watch(kube, { allowBookmarks: true });
    await until(() => server.requests.length === 1);
    await settle(50);
    told.stop();
    await until(() => closed.length === 1);
    expect(clock.pending).toBe(0);
    expect(told.ends).toEqual([]);
  });

  test("does not keep calls waiting, however many there are", async () => {
    const quietOrCall: Answer = (response, request) => {
      if (request.url?.includes("watch=true")) {
        response.writeHead(200);
        response.flushHeaders();
      } else json(200, object)(response, request);
    };
    const { kube, server } = await scene([quietOrCall]);
    const all = Array.from({ length: 100 }, () => watch(kube));
    await until(() => server.requests.length === 100);
    expect(reason(await kube.get(map))).toBe("ok");
    for (const { stop } of all) stop();
  });

  test("is stopped by close() without a word, and cannot begin after it", async () => {
    const { kube, server } = await scene([silence]);
    const told = watch(kube);
    await until(() => server.requests.length === 1);
    kube.close();
    await settle(50);
    expect(told.ends).toEqual([]);
    const late = watch(kube);
    await until(() => late.ends.length > 0);
    expect(late.ends).toMatchObject([{ ok: false, reason: "Unavailable" }]);
  });
});

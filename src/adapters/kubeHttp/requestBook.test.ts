import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../testing/apiserver/manualClock.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import type { MetricLabels, Metrics } from "../../ports/metrics.ts";
import { RequestBook, type RequestKind, resourceWord } from "./requestBook.ts";

const listPods: RequestKind = { verb: "list", resource: "pods" };
const bind: RequestKind = { verb: "create", resource: "pods/binding" };
const away = new Error("connect ECONNREFUSED");
const forbidden = 'pods is forbidden: User "muster" cannot create resource "pods/binding" in API group ""';

function scene() {
  const clock = new ManualClock();
  const log = new KeptLog();
  const counted: Record<string, number> = {};
  const metrics: Metrics = {
    count: (name, labels: MetricLabels, by = 1) => {
      const key = `${name} ${labels["verb"]} ${labels["resource"]} ${labels["code"]}`;
      counted[key] = (counted[key] ?? 0) + by;
    },
    gauge: () => {},
    observe: () => {},
  };
  return { clock, log, counted, book: new RequestBook({ clock, log, metrics }) };
}

test("requests are counted by verb, resource and code, also those without an answer", () => {
  const { book, counted } = scene();
  book.answered(listPods, 200);
  book.answered(bind, 201);
  book.answered(bind, 409, "it is bound already");
  book.broke(bind, away);
  expect(counted).toEqual({
    "muster_api_requests_total list pods 200": 1,
    "muster_api_requests_total create pods/binding 201": 1,
    "muster_api_requests_total create pods/binding 409": 1,
    "muster_api_requests_total create pods/binding <error>": 1,
  });
});

test("resources are named as roles name them", () => {
  expect(resourceWord({ group: "", version: "v1", plural: "pods" })).toBe("pods");
  const status = { group: "grove.io", version: "v1", plural: "podcliques", subresource: "status" };
  expect(resourceWord(status)).toBe("podcliques.grove.io/status");
});

test("owners of a thousand invented kinds do not make a thousand series", () => {
  const { book, counted } = scene();
  for (let at = 0; at < 1000; at++) book.answered({ verb: "get", resource: `things${at}.example.com` }, 403, "no");
  expect(Object.keys(counted)).toHaveLength(201);
  expect(counted["muster_api_requests_total get other 403"]).toBe(800);
});

describe("an outage of the API server", () => {
  test("of 45 s with 4,500 failed requests is five lines and one about its end", async () => {
    const { book, log, clock } = scene();
    for (let at = 0; at < 4500; at++) {
      book.broke(at % 2 === 0 ? bind : listPods, away);
      await clock.advance(10);
    }
    book.answered(listPods, 200);
    const warned = log.lines.filter(({ level }) => level === "warn");
    expect(warned.map(({ fields }) => fields["failed"])).toEqual([1, 1001, 2001, 3001, 4001]);
    expect(warned[1]?.fields).toMatchObject({ why: "connect ECONNREFUSED", forMs: 10_000 });
    const [end, ...more] = log.lines.filter(({ level }) => level !== "warn");
    expect(end).toMatchObject({ message: "the API server answers again", fields: { failed: 4500, awayMs: 45_000 } });
    expect(more).toEqual([]);
  });

  test("makes the process unready after 15 s, and its first answer ready again, even if it is a refusal", async () => {
    const { book, clock } = scene();
    book.broke(listPods, away);
    expect(book.outage).toBeUndefined();
    await clock.advance(15_000);
    book.broke(listPods, away);
    expect(book.outage).toBe("no answer from the API server for 15 s (2 requests: connect ECONNREFUSED)");
    book.answered(listPods, 429, "too many requests");
    expect(book.outage).toBeUndefined();
  });

  test("that begins and ends every second is a line in ten seconds", async () => {
    const { book, log, clock } = scene();
    for (let at = 0; at < 60; at++) {
      book.broke(bind, away);
      await clock.advance(500);
      book.answered(bind, 201);
      await clock.advance(500);
    }
    expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(6);
  });
});

describe("refusals", () => {
  test.each([
    [401, "the API server rejects the credentials"],
    [403, "the API server forbids a request"],
    [429, "the API server is overloaded and rejects requests"],
  ] as const)("with %i are a warning a minute, with how many there were", async (code, message) => {
    const { book, log, clock } = scene();
    for (let at = 0; at < 121; at++) {
      book.answered(bind, code, "no");
      await clock.advance(1000);
    }
    expect(log.lines).toMatchObject([
      { level: "warn", message, fields: { verb: "create", resource: "pods/binding", refused: 1 } },
      { level: "warn", message, fields: { refused: 60 } },
      { level: "warn", message, fields: { refused: 60 } },
    ]);
  });

  test.each([404, 409, 410, 422])("with %i belong to the day's work: no line", (code) => {
    const { book, log } = scene();
    book.answered(bind, code, "no");
    expect(log.lines).toEqual([]);
  });

  test("of credentials for 15 s make the process unready until one request is accepted", async () => {
    const { book, clock } = scene();
    book.answered(listPods, 401, "Unauthorized");
    await clock.advance(15_000);
    expect(book.outage).toMatch(/has refused the credentials for 15 s/);
    book.answered(listPods, 200);
    expect(book.outage).toBeUndefined();
  });

  test("by RBAC for ten seconds make the process unready until the same request is allowed, or is not sent for two minutes", async () => {
    const { book, clock } = scene();
    const refuseFor10s = async (): Promise<void> => {
      book.answered(bind, 403, forbidden);
      await clock.advance(10_000);
      book.answered(bind, 403, forbidden);
    };
    await refuseFor10s();
    expect(book.missingRights).toMatch(/^no permission to create pods\/binding: compare the roles/);
    book.answered(listPods, 200);
    expect(book.missingRights).toBeDefined();
    book.answered(bind, 201);
    expect(book.missingRights).toBeUndefined();
    await refuseFor10s();
    await clock.advance(120_000);
    expect(book.missingRights).toBeUndefined();
  });

  test("of an API server that has just started and has not read its roles leave the process ready", async () => {
    const { book, clock } = scene();
    book.answered(listPods, 403, 'User "muster" cannot list resource "pods" in API group ""');
    await clock.advance(2_000);
    expect(book.missingRights).toBeUndefined();
    book.answered({ verb: "watch", resource: "pods" }, 200);
    await clock.advance(20_000);
    book.answered(listPods, 403, 'User "muster" cannot list resource "pods" in API group ""');
    expect(book.missingRights).toBeUndefined();
  });

  test.each<[string, RequestKind, string]>([
    ["a quota", bind, "pods is forbidden: exceeded quota: team"],
    [
      "an owner of a kind that a tenant invented",
      { verb: "get", resource: "things.example.com" },
      'cannot get resource "things"',
    ],
    [
      "an Event",
      { verb: "create", resource: "events.events.k8s.io" },
      'cannot create resource "events" in API group "events.k8s.io"',
    ],
  ])("by %s leave the process ready", async (_, request, message) => {
    const { book, clock } = scene();
    book.answered(request, 403, message);
    await clock.advance(30_000);
    book.answered(request, 403, message);
    expect(book.missingRights).toBeUndefined();
  });
});

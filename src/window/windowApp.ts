/** The window over HTTP: a function from a request to an answer, so that tests need no port. */
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { compress } from "hono/compress";
import { type PartName, partNames } from "../model/window/parts.ts";
import type { Clock } from "../ports/clock.ts";
import type { Feed } from "./feed.ts";
import { type Guard, type RefusedRequest, securityHeaders } from "./guard.ts";
import { binMs } from "./ribbon.ts";
import type { StaticFiles } from "./staticFiles.ts";
import type { Streams } from "./streams.ts";

/** The result of a query that is computed on request. */
export type QueryResult =
  | { readonly ok: true; readonly value: object }
  | {
      readonly ok: false;
      readonly status: 400 | 404 | 409 | 429 | 503;
      readonly code: string;
      readonly message: string;
    };

/** Queries that need more than the read model. */
export interface Questions {
  /** `namespace/name`. */
  why?(name: string): QueryResult | Promise<QueryResult>;
  whatIf?(question: unknown): QueryResult | Promise<QueryResult>;
}

/** Actions that change the cluster; only the embedded cluster has any. */
export type Actions = Readonly<Record<string, (body: unknown) => Promise<QueryResult>>>;

export interface WindowOptions {
  readonly mode: "embedded" | "attached" | "file";
  readonly version: string;
  readonly isDemo: boolean;
  readonly feed: Feed;
  readonly guard: Guard;
  readonly streams: Streams;
  readonly files: StaticFiles;
  readonly clock: Clock;
  readonly questions: Questions;
  readonly actions: Actions;
}

/** The Node response below, where there is one. */
type Env = { Bindings: { readonly outgoing?: { destroy(): void } } };

const bodyBytesMax = 64 * 1024;
/** Addresses of views: each is answered with the page. */
const views = ["/", "/wall", "/why", "/queues", "/gangs", "/timeline", "/inventory", "/museum", "/simulator"];

export function windowApp(options: WindowOptions): Hono<Env> {
  const { feed, guard, streams, files, clock, questions, actions } = options;
  const app = new Hono<Env>();
  app.use(async (c, next) => {
    const refusal = guard.refuses(c.req.raw);
    if (refusal !== undefined) c.res = refused(c, refusal);
    else await next();
    for (const [name, value] of Object.entries(securityHeaders)) c.res.headers.set(name, value);
  });
  app.use("/api/*", async (c, next) => {
    const refusal = guard.refusesToken(c.req.raw);
    if (refusal !== undefined) return refused(c, refusal);
    await next();
    c.res.headers.set("cache-control", "no-store");
    return undefined;
  });
  const limit = bodyLimit({
    maxSize: bodyBytesMax,
    onError: (c) => problem(c, 413, "window-body", "a body has 64 KiB at most"),
  });
  app.post("/api/*", limit);

  app.get("/api/v1/stream", (c) => {
    const parts = partsOf(c.req.query("parts"));
    if (parts === undefined) return problem(c, 400, "window-parts", `parts are some of ${partNames.join(", ")}`);
    const token = c.req.header("authorization")?.slice("Bearer ".length) ?? "";
    const { outgoing } = c.env ?? {};
    const cut = outgoing === undefined ? {} : { cut: () => outgoing.destroy() };
    const body = streams.open({ token, parts, lastEventId: c.req.header("last-event-id"), ...cut });
    if (body === undefined) return problem(c, 429, "window-streams", "too many windows are open: close one of them");
    // Without it a proxy or the server itself would buffer events to compress them.
    const headers = { "content-type": "text/event-stream; charset=utf-8", "content-encoding": "identity" };
    return c.body(body, 200, { ...headers, "x-accel-buffering": "no" });
  });

  app.use("/api/v1/*", compress());
  app.get("/api/v1/about", (c) => {
    const { mode, version, isDemo } = options;
    const oldest = feed.history.oldestRev ?? null;
    return c.json({
      ...momentOf(feed),
      ...{ mode, version, isDemo, oldest, newest: feed.model?.rev ?? null },
      actions: Object.keys(actions),
      clock: new Date(clock.nowMs()).toISOString(),
    });
  });
  for (const part of partNames) app.get(`/api/v1/${part}`, (c) => partAnswer(c, feed, part));
  app.get("/api/v1/ribbon", (c) => c.json({ ...momentOf(feed), binMs, bins: feed.ribbon.list() }));
  app.get("/api/v1/why/:namespace/:name", async (c) => {
    if (feed.model === undefined) return unread(c);
    const { namespace, name } = c.req.param();
    const asked = await (questions.why?.(`${namespace}/${name}`) ?? notServed);
    return respondWith(c, feed, asked);
  });
  app.post("/api/v1/whatif", async (c) => {
    const asked = await (questions.whatIf?.(await jsonOf(c)) ?? notServed);
    return respondWith(c, feed, asked);
  });
  app.post("/api/v1/actions/:kind", async (c) => {
    const action = Object.hasOwn(actions, c.req.param("kind")) ? actions[c.req.param("kind")] : undefined;
    if (action === undefined) return problem(c, 404, "window-action", "this cluster has no such action");
    return respondWith(c, feed, await action(await jsonOf(c)));
  });
  app.all("/api/*", (c) =>
    c.req.path.startsWith("/api/v1/actions/")
      ? problem(c, 405, "window-method", "an action is a POST")
      : problem(c, 404, "window-address", "there is no such answer"),
  );

  app.get("*", (c) => {
    const { path } = c.req;
    const isView = views.some((view) => path === view || (view !== "/" && path.startsWith(`${view}/`)));
    const file = files.get(isView ? "/index.html" : path);
    if (file === undefined) return problem(c, 404, "window-address", "there is no such page");
    const packed = (c.req.header("accept-encoding") ?? "").includes("gzip") ? file.gzip : undefined;
    return c.body(packed ?? file.bytes, 200, {
      "content-type": file.type,
      // Names of built files carry their content's hash; the page itself does not.
      "cache-control": isView ? "no-cache" : "public, max-age=31536000, immutable",
      ...(packed !== undefined && { "content-encoding": "gzip" }),
      vary: "accept-encoding",
    });
  });
  app.all("*", (c) => problem(c, 405, "window-method", "there is nothing to change here"));
  app.onError((error, c) => problem(c, 500, "window-failed", error.message));
  return app;
}

function momentOf({ epoch, model }: Feed): { epoch: string; rev: number | null; at: string | null } {
  return { epoch, rev: model?.rev ?? null, at: model?.at ?? null };
}

function partAnswer(c: Context, feed: Feed, part: PartName): Response {
  if (feed.model === undefined) return unread(c);
  const asked = c.req.query("rev");
  if (asked !== undefined && !/^[0-9]{1,15}$/.test(asked))
    return problem(c, 400, "window-revision", "rev is a revision: a number");
  const model = asked === undefined ? feed.model : feed.history.byRev(Number(asked));
  if (model === undefined) {
    const oldest = feed.history.oldestRev;
    const message = `revision ${asked} is no longer known; the oldest is ${oldest}`;
    return c.json({ epoch: feed.epoch, error: { code: "window-forgotten", message }, oldest }, 410);
  }
  return c.json({ epoch: feed.epoch, rev: model.rev, at: model.at, ...model[part] });
}

function respondWith(c: Context, feed: Feed, asked: QueryResult): Response {
  if (!asked.ok) return problem(c, asked.status, asked.code, asked.message);
  return c.json({ ...momentOf(feed), ...asked.value });
}

const notServed: QueryResult = {
  ok: false,
  status: 404,
  code: "window-question",
  message: "this question has no answer here",
};

function unread(c: Context): Response {
  return problem(c, 503, "window-unread", "the cluster has not been read yet");
}

async function jsonOf(c: Context): Promise<unknown> {
  try {
    return await c.req.json();
  } catch {
    return undefined;
  }
}

function partsOf(text: string | undefined): ReadonlySet<PartName> | undefined {
  if (text === undefined) return new Set(partNames);
  const asked = text.split(",");
  const known = asked.filter((name): name is PartName => (partNames as readonly string[]).includes(name));
  return known.length === asked.length ? new Set(known) : undefined;
}

function refused(c: Context, { status, code, message }: RefusedRequest): Response {
  return problem(c, status, code, message);
}

function problem(c: Context, status: number, code: string, message: string): Response {
  // Hono names statuses by their numbers.
  return c.json({ error: { code, message } }, status as 400);
}

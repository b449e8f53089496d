import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TLSSocket } from "node:tls";
import {
  badRequest,
  failure,
  internalError,
  methodNotAllowed,
  StatusError,
  timeout,
  unavailable,
  unknownPath,
} from "../../model/objects/status.ts";
import { demandAccess } from "../auth/access.ts";
import { anonymous, authenticate } from "../auth/authenticate.ts";
import { clientCertificateOf } from "../auth/clientCertificate.ts";
import { impersonate } from "../auth/impersonate.ts";
import { type Core, newUid } from "../verbs/core.ts";
import type { Documents } from "./documents.ts";
import { Exchange } from "./exchange.ts";
import { faultError, type Pressed } from "./faults.ts";
import { Query } from "./query.ts";
import { handleResource, isWatching, type ResourceContext, verbOf } from "./resourceHandler.ts";
import { parseRoute, type Route } from "./route.ts";
import type { Upgrade } from "./upgrade.ts";

export interface HandlerContext extends ResourceContext {
  readonly documents: Documents;
  /** Requests in flight, watches included. */
  readonly inFlight: { count: number };
  /** Names of failing checks, for /readyz. */
  readonly unready: () => string[];
  readonly log: (problem: { error: unknown; method: string; path: string }) => void;
}

/** Handles one request. Never throws: an error becomes a Status. */
export async function handle(
  context: HandlerContext,
  request: IncomingMessage,
  response: ServerResponse,
  upgrade?: Upgrade,
): Promise<void> {
  const { clock } = context.core;
  const startedMs = clock.monotonicMs();
  context.inFlight.count++;
  const { path, search } = splitUrl(request.url ?? "/");
  const exchange = new Exchange(request, response, {
    path,
    query: new Query(search),
    auditId: newUid(context.core.random),
    user: anonymous,
    upgrade,
  });
  const route = parseRoute(path);
  const watching = route.kind === "resource" && isWatching(exchange, route);
  const verb = route.kind === "resource" ? verbOf(exchange.method, route, watching) : exchange.method.toLowerCase();
  let code = 200;
  response.on("close", () => {
    code = response.statusCode;
    context.inFlight.count--;
    record(context, route, verb, code, (clock.monotonicMs() - startedMs) / 1000);
  });
  let cancelDeadline = (): void => {};
  try {
    if (!watching && !isLong(route)) cancelDeadline = startDeadline(context, exchange);
    await answer(context, exchange, route, verb);
  } catch (error) {
    refuse(context, exchange, error);
  } finally {
    cancelDeadline();
  }
}

/** Requests whose answer takes as long as a program on a node does. */
function isLong(route: Route): boolean {
  return route.kind === "resource" && ["attach", "exec", "log", "portforward", "proxy"].includes(route.subresource);
}

/** All other requests but watches are answered within this time, or with a timeout: the write may still happen. */
const deadlineMs = 60_000;

function startDeadline({ core }: HandlerContext, exchange: Exchange): () => void {
  const text = exchange.query.text("timeout") ?? "";
  const asked = parseDuration(text);
  if (asked === undefined && text !== "") {
    const why = `time: invalid duration ${JSON.stringify(text)}`;
    throw badRequest(`invalid timeout specified in the request URL - ${why}`);
  }
  const ms = asked === undefined || asked <= 0 ? deadlineMs : Math.min(asked, deadlineMs);
  return core.clock.after(ms, () => {
    if (exchange.response.headersSent) return;
    exchange.sendStatus(timeout("request did not complete within the requested timeout", 0).status);
  });
}

/** Durations in Go's form, as far as timeouts use it: `32s`, `500ms`, `1m30s`. */
function parseDuration(text: string): number | undefined {
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
  if (!/^(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+$/.test(text)) return undefined;
  let ms = 0;
  for (const [, amount = "0", unit = "s"] of text.matchAll(/([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)/g)) {
    ms += Number(amount) * (units[unit] ?? 0);
  }
  return ms;
}

async function answer(context: HandlerContext, exchange: Exchange, route: Route, verb: string): Promise<void> {
  const { core } = context;
  identify(context, exchange);
  const fault = context.faults.take(verb, route.kind === "resource" ? route.plural : "");
  if (fault?.delayMs !== undefined) {
    const delayMs = fault.delayMs;
    await new Promise<void>((resolve) => core.clock.after(delayMs, resolve));
  }
  if (fault?.code !== undefined) throw faultError(fault.code);
  if (fault?.breakAfter === true) {
    exchange.response.end = ((..._: unknown[]) => exchange.response.destroy()) as typeof exchange.response.end;
  }
  if (route.kind === "resource") {
    const pressure = underPressure(context);
    if (pressure !== undefined) await pressure;
    await handleResource(context, exchange, route);
    return;
  }
  demandAccess(context.authorizer, exchange.user, { verb: exchange.method.toLowerCase(), path: exchange.path });
  if (exchange.method !== "GET" && exchange.method !== "HEAD") {
    if (context.documents.has(route) || ownPaths.test(exchange.path)) throw methodNotAllowed();
    refusePath(exchange);
    return;
  }
  if (context.documents.answer(exchange, route)) return;
  if (answerHealth(context, exchange)) return;
  if (exchange.path === "/metrics") {
    exchange.sendBytes(200, "text/plain; version=0.0.4; charset=utf-8", Buffer.from(await context.metrics.allText()));
    return;
  }
  refusePath(exchange);
}

const ownPaths = /^\/(version|openapi\/v[23]|healthz|livez|readyz|metrics)(\/|$)/;

/** Below /api/ a 404 is a Status; elsewhere it is plain text, as upstream. */
function refusePath(exchange: Exchange): void {
  if (exchange.path.startsWith("/api/")) throw unknownPath();
  exchange.sendText(404, "404 page not found\n");
}

/** Applies a fault of the whole API. Health and discovery are excluded. */
function underPressure({ faults, core }: HandlerContext): Promise<void> | undefined {
  const pressed = faults.press();
  return pressed === undefined ? undefined : press(core, pressed);
}

async function press(core: Core, pressed: Pressed): Promise<void> {
  if (pressed.delayMs > 0) await new Promise<void>((resolve) => core.clock.after(pressed.delayMs, resolve));
  if (pressed.status !== undefined) throw faultError(pressed.status);
}

/** The user of a request: from its certificate or token, or the user that it impersonates. */
function identify(context: HandlerContext, exchange: Exchange): void {
  const { request } = exchange;
  const socket = request.socket as TLSSocket;
  const certificate = socket.encrypted === true ? clientCertificateOf(socket) : undefined;
  const user = authenticate(
    { certificate, authorization: exchange.header("authorization") },
    context.sources,
    context.core.clock.nowMs(),
  );
  exchange.user = impersonate(user, request.rawHeaders, context.authorizer);
}

const healthChecks = ["ping", "store", "registry"];

function answerHealth(context: HandlerContext, exchange: Exchange): boolean {
  const match = /^\/(healthz|livez|readyz)(?:\/(.+))?$/.exec(exchange.path);
  if (match === null) return false;
  const [, root = "", only] = match;
  if (only !== undefined && !healthChecks.includes(only)) throw unknownPath();
  const excluded = exchange.query.all("exclude");
  const unwell = root === "livez" ? [] : context.unready();
  const checks = (only === undefined ? healthChecks : [only]).filter((name) => !excluded.includes(name));
  const failed = checks.filter((name) => unwell.includes(name));
  if (exchange.query.flag("verbose") || failed.length > 0) {
    const lines = checks.map((name) =>
      failed.includes(name) ? `[-]${name} failed: reason withheld` : `[+]${name} ok`,
    );
    lines.push(failed.length > 0 ? `${root} check failed` : `${root} check passed`);
    exchange.sendText(failed.length > 0 ? 500 : 200, `${lines.join("\n")}\n`);
    return true;
  }
  exchange.sendText(200, "ok");
  return true;
}

function refuse(context: HandlerContext, exchange: Exchange, error: unknown): void {
  const { response } = exchange;
  let status = error instanceof StatusError ? error.status : undefined;
  if (status === undefined) {
    context.log({ error, method: exchange.method, path: exchange.path });
    const text = error instanceof Error ? error.message : String(error);
    status = (isStoreFailure(error) ? unavailable(text) : internalError(text)).status;
  }
  if (response.headersSent) {
    // The response has been sent in part; only a closed connection tells the client that the rest is missing.
    response.destroy();
    return;
  }
  exchange.sendStatus(status);
}

/** The disk failed, or the write came after it did. */
function isStoreFailure(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === "store-failed";
}

function record(context: HandlerContext, route: Route, verb: string, code: number, seconds: number): void {
  const { metrics } = context;
  const where =
    route.kind === "resource"
      ? {
          group: route.group,
          version: route.version,
          resource: route.plural,
          subresource: route.subresource,
          scope: route.name !== "" ? "resource" : route.namespace !== "" ? "namespace" : "cluster",
        }
      : { group: "", version: "", resource: "", subresource: "", scope: "" };
  if (route.kind === "resource" && context.core.registry.find(route.group, route.version, route.plural) === undefined) {
    // Unknown names come from clients; as metric labels they would grow without bound.
    metrics.add(
      "apiserver_request_total",
      `verb="${verb.toUpperCase()}",group="",version="",resource="",subresource="",scope="",code="${code}"`,
    );
    return;
  }
  const labels = `verb="${verb.toUpperCase()}",group="${where.group}",version="${where.version}",resource="${where.resource}",subresource="${safe(where.subresource)}",scope="${where.scope}"`;
  metrics.add("apiserver_request_total", `${labels},code="${code}"`);
  if (verb !== "watch") metrics.observe("apiserver_request_duration_seconds", labels, seconds);
}

function safe(label: string): string {
  return /^[a-z]{0,32}$/.test(label) ? label : "other";
}

function splitUrl(url: string): { path: string; search: string } {
  const at = url.indexOf("?");
  return at < 0 ? { path: url, search: "" } : { path: url.slice(0, at), search: url.slice(at + 1) };
}

/** The response to requests while the server shuts down. */
export function shuttingDown(): StatusError {
  return failure(503, "ServiceUnavailable", "the server is shutting down");
}

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
import { newUid } from "../verbs/core.ts";
import type { Documents } from "./documents.ts";
import { Exchange } from "./exchange.ts";
import { faultError } from "./faults.ts";
import { Query } from "./query.ts";
import { handleResource, isWatching, type ResourceContext, verbOf } from "./resourceHandler.ts";
import { parseRoute, type Route } from "./route.ts";
import type { Upgrade } from "./upgrade.ts";

export interface HandlerContext extends ResourceContext {
  readonly documents: Documents;
  /** Requests that have not been answered yet, watches included. */
  readonly inFlight: { count: number };
  /** Names of checks that are not well, for /readyz. */
  readonly unready: () => string[];
  readonly log: (problem: { error: unknown; method: string; path: string }) => void;
}

/** One request from the first byte to the last. Never throws: what goes wrong becomes a Status. */
export async function handle(
  world: HandlerContext,
  request: IncomingMessage,
  response: ServerResponse,
  upgrade?: Upgrade,
): Promise<void> {
  const { clock } = world.core;
  const startedMs = clock.monotonicMs();
  world.inFlight.count++;
  const { path, search } = splitUrl(request.url ?? "/");
  const exchange = new Exchange(request, response, {
    path,
    query: new Query(search),
    auditId: newUid(world.core.random),
    user: anonymous,
    upgrade,
  });
  const route = parseRoute(path);
  const watching = route.kind === "resource" && isWatching(exchange, route);
  const verb = route.kind === "resource" ? verbOf(exchange.method, route, watching) : exchange.method.toLowerCase();
  let code = 200;
  response.on("close", () => {
    code = response.statusCode;
    world.inFlight.count--;
    record(world, route, verb, code, (clock.monotonicMs() - startedMs) / 1000);
  });
  let cancelDeadline = (): void => {};
  try {
    if (!watching) cancelDeadline = startDeadline(world, exchange);
    await answer(world, exchange, route, verb);
  } catch (error) {
    refuse(world, exchange, error);
  } finally {
    cancelDeadline();
  }
}

/** Requests other than watches get their answer within this time, or a time-out: what they started may still happen. */
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
    if (exchange.response.headersSent || exchange.query.flag("follow")) return;
    exchange.sendStatus(timeout("request did not complete within the requested timeout", 0).status);
  });
}

/** Durations as Go writes them, as far as timeouts need: `32s`, `500ms`, `1m30s`. */
function parseDuration(text: string): number | undefined {
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
  if (!/^(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+$/.test(text)) return undefined;
  let ms = 0;
  for (const [, amount = "0", unit = "s"] of text.matchAll(/([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)/g)) {
    ms += Number(amount) * (units[unit] ?? 0);
  }
  return ms;
}

async function answer(world: HandlerContext, exchange: Exchange, route: Route, verb: string): Promise<void> {
  const { core } = world;
  identify(world, exchange);
  const fault = world.faults.take(verb, route.kind === "resource" ? route.plural : "");
  if (fault?.delayMs !== undefined) {
    const delayMs = fault.delayMs;
    await new Promise<void>((resolve) => core.clock.after(delayMs, resolve));
  }
  if (fault?.code !== undefined) throw faultError(fault.code);
  if (fault?.breakAfter === true) {
    exchange.response.end = ((..._: unknown[]) => exchange.response.destroy()) as typeof exchange.response.end;
  }
  if (route.kind === "resource") {
    await underPressure(world);
    await handleResource(world, exchange, route);
    return;
  }
  demandAccess(world.authorizer, exchange.user, { verb: exchange.method.toLowerCase(), path: exchange.path });
  if (exchange.method !== "GET" && exchange.method !== "HEAD") {
    if (world.documents.has(route) || ownPaths.test(exchange.path)) throw methodNotAllowed();
    refusePath(exchange);
    return;
  }
  if (world.documents.answer(exchange, route)) return;
  if (answerHealth(world, exchange)) return;
  if (exchange.path === "/metrics") {
    exchange.sendBytes(200, "text/plain; version=0.0.4; charset=utf-8", Buffer.from(world.metrics.text()));
    return;
  }
  refusePath(exchange);
}

const ownPaths = /^\/(version|openapi\/v[23]|healthz|livez|readyz|metrics)(\/|$)/;

/** Below the core API the answer is an object; anywhere else no API is there to make one. */
function refusePath(exchange: Exchange): void {
  if (exchange.path.startsWith("/api/")) throw unknownPath();
  exchange.sendText(404, "404 page not found\n");
}

/** A fault of the whole API, if there is one now. Health and discovery are spared: the server is well, only pressed. */
async function underPressure({ faults, core }: HandlerContext): Promise<void> {
  const pressed = faults.press();
  if (pressed === undefined) return;
  if (pressed.delayMs > 0) await new Promise<void>((resolve) => core.clock.after(pressed.delayMs, resolve));
  if (pressed.status !== undefined) throw faultError(pressed.status);
}

/** The user of a request: by certificate or token, or the one that it impersonates. */
function identify(world: HandlerContext, exchange: Exchange): void {
  const { request } = exchange;
  const socket = request.socket as TLSSocket;
  const certificate = socket.encrypted === true ? clientCertificateOf(socket) : undefined;
  const user = authenticate(
    { certificate, authorization: exchange.header("authorization") },
    world.sources,
    world.core.clock.nowMs(),
  );
  exchange.user = impersonate(user, request.rawHeaders, world.authorizer);
}

const healthChecks = ["ping", "store", "registry"];

function answerHealth(world: HandlerContext, exchange: Exchange): boolean {
  const match = /^\/(healthz|livez|readyz)(?:\/(.+))?$/.exec(exchange.path);
  if (match === null) return false;
  const [, root = "", only] = match;
  if (only !== undefined && !healthChecks.includes(only)) throw unknownPath();
  const excluded = exchange.query.all("exclude");
  const unwell = root === "livez" ? [] : world.unready();
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

function refuse(world: HandlerContext, exchange: Exchange, error: unknown): void {
  const { response } = exchange;
  let status = error instanceof StatusError ? error.status : undefined;
  if (status === undefined) {
    world.log({ error, method: exchange.method, path: exchange.path });
    const text = error instanceof Error ? error.message : String(error);
    status = (isStoreFailure(error) ? unavailable(text) : internalError(text)).status;
  }
  if (response.headersSent) {
    // Half an answer is out; only a broken connection tells the client that the rest will not come.
    response.destroy();
    return;
  }
  exchange.sendStatus(status);
}

function isStoreFailure(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOSPC" || code === "EIO" || code === "EDQUOT";
}

function record(world: HandlerContext, route: Route, verb: string, code: number, seconds: number): void {
  const { metrics } = world;
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
  if (route.kind === "resource" && world.core.registry.find(route.group, route.version, route.plural) === undefined) {
    // Unknown names come from strangers; as labels they would grow without bound.
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

/** The answer to requests while the server stops. */
export function shuttingDown(): StatusError {
  return failure(503, "ServiceUnavailable", "the server is shutting down");
}

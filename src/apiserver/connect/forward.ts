/** Forwards a request to a backend: `nodes/proxy`, `pods/proxy`, `services/proxy`, and upgrades to kubelets. */
import { Buffer } from "node:buffer";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import type { Exchange } from "../http/exchange.ts";
import type { Backend } from "./backend.ts";
import type { BackendClient, Upgraded } from "./backendClient.ts";
import { joinSockets } from "./joinSockets.ts";
import { type LinkBase, rewriteLinks, rewriteLocation } from "./rewriteLinks.ts";

/** Headers of one connection, which are not forwarded. */
const hopHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
/** Longer pages are forwarded unchanged. */
const pageBytesMax = 8 << 20;

export interface ForwardTo {
  readonly backend: Backend;
  /** With the query. */
  readonly path: string;
  /** The path of this proxy, for the links of pages; undefined where pages are forwarded as they are. */
  readonly links?: LinkBase;
}

/** Forwards a request, and an upgrade with it. Throws a StatusError when the backend cannot be reached. */
export async function forward(client: BackendClient, exchange: Exchange, to: ForwardTo): Promise<void> {
  const { request } = exchange;
  const headers = forwardedHeaders(exchange);
  if (exchange.upgrade !== undefined && exchange.header("upgrade") !== undefined) {
    const upgrade = { ...headers, connection: "Upgrade", upgrade: exchange.header("upgrade") };
    const answer = await client.upgrade(to.backend, { method: exchange.method, path: to.path, headers: upgrade });
    if ("refused" in answer) await sendResponse(exchange, answer.refused, to);
    else acceptUpgrade(exchange, answer);
    return;
  }
  const sent = { method: exchange.method, path: to.path, headers };
  const hasBody = request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
  await sendResponse(exchange, await client.send(to.backend, sent, hasBody ? request : undefined), to);
}

/** Answers the client with the backend's own acceptance, and joins the connections. */
export function acceptUpgrade(exchange: Exchange, { response, socket, head }: Upgraded): void {
  const { upgrade } = exchange;
  if (upgrade === undefined) return;
  const lines = [`HTTP/1.1 101 ${response.statusMessage ?? "Switching Protocols"}`];
  const { rawHeaders } = response;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  exchange.detach();
  upgrade.socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  joinSockets(upgrade, { socket, head });
}

/** The credentials of the client are for the API server alone. */
export function forwardedHeaders({ request }: Exchange): OutgoingHttpHeaders {
  const named = new Set((request.headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
  const headers: OutgoingHttpHeaders = {};
  for (const [name, values] of Object.entries(request.headersDistinct)) {
    const isPrivate = name === "authorization" || name.startsWith("impersonate-");
    if (values === undefined || name === "host" || isPrivate || hopHeaders.has(name) || named.has(name)) continue;
    headers[name] = values.length === 1 ? values[0] : values;
  }
  const before = request.headers["x-forwarded-for"];
  const address = request.socket.remoteAddress ?? "";
  headers["x-forwarded-for"] = before === undefined ? address : `${before}, ${address}`;
  return headers;
}

async function sendResponse(exchange: Exchange, answer: IncomingMessage, to: ForwardTo): Promise<void> {
  const { response } = exchange;
  const headers: Record<string, string | string[]> = {};
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    if (values !== undefined && !hopHeaders.has(name)) headers[name] = values.length === 1 ? (values[0] ?? "") : values;
  }
  const { links } = to;
  const { location } = answer.headers;
  if (links !== undefined && location !== undefined) headers["location"] = rewriteLocation(location, links);
  const page = links === undefined ? undefined : await pageOf(answer);
  if (links !== undefined && page !== undefined) {
    const bytes = Buffer.from(rewriteLinks(page, links));
    delete headers["content-encoding"];
    response.writeHead(answer.statusCode ?? 200, { ...headers, "content-length": String(bytes.length) });
    response.end(exchange.method === "HEAD" ? undefined : bytes);
    return;
  }
  response.writeHead(answer.statusCode ?? 200, headers);
  await stream(answer, exchange);
}

/** Copies a response as it comes. */
export function stream(answer: IncomingMessage, { response }: Exchange): Promise<void> {
  return new Promise((resolve) => {
    response.on("close", () => {
      answer.destroy();
      resolve();
    });
    // The rest is missing: only a closed connection tells the client.
    answer.on("error", () => response.destroy());
    answer.on("aborted", () => response.destroy());
    response.flushHeaders();
    answer.pipe(response);
  });
}

/** The text of an HTML page; undefined for all other responses, which stay unread. */
async function pageOf(answer: IncomingMessage): Promise<string | undefined> {
  const { "content-type": type = "", "content-encoding": encoding = "", "content-length": length } = answer.headers;
  if (!/^text\/html\b/i.test(type) || !["", "gzip"].includes(encoding) || Number(length ?? 0) > pageBytesMax)
    return undefined;
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  const bytes = Buffer.concat(parts);
  return (encoding === "gzip" ? gunzipSync(bytes, { maxOutputLength: pageBytesMax }) : bytes).toString("utf8");
}

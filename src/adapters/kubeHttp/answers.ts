import type { Buffer } from "node:buffer";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import type { Status } from "../../model/objects/status.ts";
import { type Refusal, refusalOf, refused } from "../../model/outcome.ts";
import type { Broken } from "./exchange.ts";

/** The body as an object, or undefined when it is something else: a truncated response, the page of a proxy. */
export function jsonIn(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The refusal of a response other than success. */
export function refusalIn(code: number, headers: IncomingHttpHeaders, bytes: Buffer, nowMs: number): Refusal {
  const waitMs = retryAfterMs(headers["retry-after"], nowMs);
  const waiting = waitMs === undefined ? {} : { retryAfterMs: waitMs };
  const json = jsonIn(bytes.toString("utf8"));
  if (json?.["kind"] === "Status") return { ...waiting, ...refusalOf({ ...(json as Status), code }) };
  const text = bytes.toString("utf8", 0, 200).trim();
  const message = `HTTP ${code}${text === "" ? "" : `: ${text}`}`;
  // A proxy answered, not the API server. A proxy may answer 503 after it forwarded the request.
  if (code >= 500) return refused("Unknown", message, waiting);
  if (code >= 300 && code < 400) {
    return refused("Invalid", `HTTP ${code}: the server redirects to ${headers.location ?? "another address"}`);
  }
  const status: Status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, code };
  const { status: _, ...refusal } = refusalOf(status);
  return { ...refusal, ...waiting };
}

/** The refusal of a request without a response. */
export function refusalOfBroken({ sent, why, error }: Broken): Refusal {
  if (why === "withdrawn") return refused("Fenced", error.message);
  if (why === "tooLarge") return refused("Invalid", `${error.message}: ask for less at once`);
  return refused(sent ? "Unknown" : "Unavailable", error.message || (error as NodeJS.ErrnoException).code || why);
}

/** The header in milliseconds: a number of seconds, or a date. */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^[0-9]+$/.test(header)) return Number(header) * 1000;
  const dateMs = Date.parse(header);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs);
}

/** Texts of the `Warning` headers: `299 - "text"`, with quotes and backslashes escaped. */
export function warningsIn(response: IncomingMessage): string[] {
  const texts: string[] = [];
  for (const header of response.headersDistinct["warning"] ?? []) {
    for (const [, text = ""] of header.matchAll(/\b299 \S+ "((?:[^"\\]|\\.)*)"/g)) {
      texts.push(text.replace(/\\(.)/g, "$1"));
    }
  }
  return texts;
}

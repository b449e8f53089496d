/** Which requests the window answers: by token, Host, Origin and the browser's Sec-Fetch headers. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../ports/clock.ts";

/** Why a request is refused: a status and a sentence. */
export interface RefusedRequest {
  readonly status: 401 | 403 | 405 | 415 | 421 | 429;
  readonly code: string;
  readonly message: string;
}

export interface GuardOptions {
  readonly token: string;
  /** `127.0.0.1:6480` and every other name that it is reached by. */
  readonly hosts: () => ReadonlySet<string>;
  /** `https` behind a proxy that ends TLS, or with a certificate. */
  readonly scheme: "http" | "https";
  readonly clock: Clock;
}

const wrongMax = 10;
const wrongMs = 60_000;

export class Guard {
  private readonly options: GuardOptions;
  private readonly digest: Buffer;
  private wrong: number[] = [];

  constructor(options: GuardOptions) {
    this.options = options;
    this.digest = digestOf(options.token);
  }

  /** For every request, the page's files included. */
  refuses(request: Request): RefusedRequest | undefined {
    const { method, headers } = request;
    const host = headers.get("host") ?? "";
    const hosts = this.options.hosts();
    // The host of an absolute request target has precedence over the Host header.
    if (!hosts.has(host.toLowerCase()) || !hosts.has(new URL(request.url).host.toLowerCase())) {
      return { status: 421, code: "window-host", message: "the Host header is not an address of this server" };
    }
    const site = headers.get("sec-fetch-site");
    if (site !== null && site !== "same-origin" && site !== "none") {
      return {
        status: 403,
        code: "window-site",
        message: "the request was sent by a page of another site: open the printed address",
      };
    }
    const origin = headers.get("origin");
    const own = `${this.options.scheme}://${host}`;
    if (method === "GET" || method === "HEAD") {
      if (origin !== null && origin.toLowerCase() !== own.toLowerCase())
        return {
          status: 403,
          code: "window-origin",
          message: "the Origin header is not this page's: open the printed address",
        };
      return undefined;
    }
    if (method !== "POST") return { status: 405, code: "window-method", message: "only GET and POST are answered" };
    if (origin?.toLowerCase() !== own.toLowerCase())
      return { status: 403, code: "window-origin", message: "a POST needs the Origin header of this page" };
    const type = (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
    if (type !== "application/json")
      return {
        status: 415,
        code: "window-content-type",
        message: "the content type of a POST must be application/json",
      };
    return undefined;
  }

  /** For the API: a token in the header, never in the address. */
  refusesToken(request: Request): RefusedRequest | undefined {
    const given = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "")?.[1];
    if (given !== undefined && this.isToken(given)) return undefined;
    const nowMs = this.options.clock.nowMs();
    this.wrong = this.wrong.filter((atMs) => nowMs - atMs < wrongMs);
    if (this.wrong.length >= wrongMax)
      return { status: 429, code: "window-token-tries", message: "too many wrong tokens: wait a minute" };
    if (given !== undefined) this.wrong.push(nowMs);
    return { status: 401, code: "window-token", message: "the token is missing or wrong: open the printed address" };
  }

  /** In constant time: both sides are digests of the same length. */
  isToken(given: string): boolean {
    return timingSafeEqual(digestOf(given), this.digest);
  }
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Headers of every response. */
export const securityHeaders: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

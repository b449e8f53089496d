import { Buffer } from "node:buffer";
import type { Agent as HttpAgent, IncomingMessage } from "node:http";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Status } from "../../model/objects/status.ts";
import { type Outcome, refusalOf, refused } from "../../model/outcome.ts";
import type { Clock } from "../../ports/clock.ts";
import type { WatchEvent } from "../../ports/kubeApi.ts";
import { jsonIn, refusalIn } from "./answers.ts";
import { type Endpoint, type HttpRequest, Sending } from "./exchange.ts";
import { LineSplitter } from "./lineSplitter.ts";

/** The server limits requests to 3 MiB; this leaves room for the rest of an event. */
const lineBytesMax = 16 * 1024 * 1024;

/** An error response is a Status; no more than this is read. */
const refusalBytesMax = 1024 * 1024;

/** TCP keep-alive probes detect an unreachable peer of a connection without traffic. */
const probeEveryMs = 15_000;

export interface WatchLimits {
  readonly clock: Clock;
  /** Timeout until the response headers. */
  readonly openMs: number;
  /** Without a byte for this long the watch is closed; undefined when silence is normal. */
  readonly silenceMs?: number | undefined;
}

export interface WatchHandler {
  opened(response: IncomingMessage): void;
  event(event: WatchEvent): void;
  /** Called once, and last. A rejection before the stream began has a `code`. */
  ended(why: Outcome<never> | undefined, code?: number): void;
}

/** One watch on one connection, from the request to the last line. */
export class WatchConnection {
  private readonly handler: WatchHandler;
  private readonly limits: WatchLimits;
  private readonly sending: Sending;
  private readonly lines = new LineSplitter(lineBytesMax);
  private cancelTimer: () => void = () => {};
  private lastByteMs = 0;
  private open = true;

  /** Throws when the request cannot be created. */
  constructor(endpoint: Endpoint, agent: HttpAgent, what: HttpRequest, limits: WatchLimits, handler: WatchHandler) {
    this.handler = handler;
    this.limits = limits;
    this.sending = new Sending(endpoint, agent, what);
    const { request } = this.sending;
    this.cancelTimer = limits.clock.after(limits.openMs, () => this.broke(`no answer within ${limits.openMs} ms`));
    request.on("socket", (socket) => socket.setKeepAlive(true, probeEveryMs));
    request.on("error", (error) => this.broke(error.message || String((error as NodeJS.ErrnoException).code)));
    request.on("close", () => this.broke("the connection closed before the answer came"));
    request.on("response", (response) => {
      this.cancelTimer();
      if (response.statusCode === 200) this.read(response);
      else this.readRefusal(response);
    });
  }

  /** Nothing is delivered after this. */
  stop(): void {
    if (!this.open) return;
    this.open = false;
    this.cancelTimer();
    this.sending.request.destroy();
  }

  private read(response: IncomingMessage): void {
    this.handler.opened(response);
    this.lastByteMs = this.limits.clock.nowMs();
    this.expectBytes();
    response.on("data", (chunk: Buffer) => {
      this.lastByteMs = this.limits.clock.nowMs();
      const fits = this.lines.push(chunk, (text) => this.line(text));
      if (!fits) this.end(refused("Invalid", `an event is larger than ${lineBytesMax} bytes`));
    });
    response.on("error", (error) => this.broke(error.message));
    response.on("end", () => {
      if (response.complete && this.lines.isWhole) this.end(undefined);
    });
    response.on("close", () => this.broke("the connection closed in the middle of the stream"));
  }

  /** Bookmarks come about once a minute: a watch that receives nothing for much longer has lost its server. */
  private expectBytes(): void {
    const { clock, silenceMs } = this.limits;
    if (silenceMs === undefined || !this.open) return;
    const leftMs = this.lastByteMs + silenceMs - clock.nowMs();
    if (leftMs <= 0) this.broke(`nothing received for ${silenceMs} ms, not even a bookmark`);
    else this.cancelTimer = clock.after(leftMs, () => this.expectBytes());
  }

  private line(text: string): void {
    if (!this.open) return;
    const frame = jsonIn(text);
    const type = frame?.["type"];
    const object = frame?.["object"];
    if (!isObject(object)) {
      this.end(refused("Unknown", `the watch stream has a line that is not an event: ${text.slice(0, 200)}`));
    } else if (type === "ADDED" || type === "MODIFIED" || type === "DELETED") {
      this.handler.event({ type, object: object as KubeObject });
    } else if (type === "BOOKMARK") {
      this.handler.event(bookmarkIn(object as KubeObject));
    } else if (type === "ERROR") {
      const status = object as Status;
      this.end(refusalOf({ ...status, code: typeof status.code === "number" ? status.code : 500 }));
    }
    // Events of an unknown type are ignored.
  }

  private readRefusal(response: IncomingMessage): void {
    const chunks: Buffer[] = [];
    let length = 0;
    const code = response.statusCode ?? 0;
    const finish = (): void => {
      const nowMs = this.limits.clock.nowMs();
      this.end(refusalIn(code, response.headers, Buffer.concat(chunks), nowMs), code);
    };
    this.cancelTimer = this.limits.clock.after(this.limits.openMs, finish);
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > refusalBytesMax) finish();
    });
    response.on("end", finish);
    response.on("error", finish);
    response.on("close", finish);
  }

  private broke(message: string): void {
    this.end(refused(this.sending.sent ? "Unknown" : "Unavailable", message));
  }

  private end(why: Outcome<never> | undefined, code?: number): void {
    if (!this.open) return;
    this.stop();
    this.handler.ended(why, code);
  }
}

function bookmarkIn({ metadata }: KubeObject): WatchEvent {
  const initialEventsEnd = metadata.annotations?.["k8s.io/initial-events-end"] === "true";
  return { type: "BOOKMARK", revision: metadata.resourceVersion, initialEventsEnd };
}

import { Buffer } from "node:buffer";
import { type ClientRequest, type Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";

/** One request to be sent. */
export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body?: string;
}

/** The address of a server. */
export interface Endpoint {
  readonly isTls: boolean;
  readonly host: string;
  readonly port: number;
}

/** A request without a complete response. */
export interface Broken {
  readonly kind: "broken";
  /** False: no byte of it can have reached the server. */
  readonly sent: boolean;
  /** It was sent on a keep-alive connection that the server had closed. */
  readonly onKeptConnection: boolean;
  readonly why: "cancelled" | "timeout" | "connection" | "tooLarge" | "withdrawn";
  readonly error: Error;
}

export interface Answered {
  readonly kind: "answered";
  readonly code: number;
  readonly response: IncomingMessage;
  readonly bytes: Buffer;
}

/** Longer responses do not fit into one string. */
const answerBytesMax = 500 * 1024 * 1024;

const unpack = promisify(gunzip);

export function endpointOf(server: string): Endpoint & { prefix: string } {
  const { protocol, hostname, port, pathname } = new URL(server);
  const isTls = protocol === "https:";
  return {
    isTls,
    // Brackets belong to IPv6 addresses, not to host names.
    host: hostname.startsWith("[") ? hostname.slice(1, -1) : hostname,
    port: port === "" ? (isTls ? 443 : 80) : Number(port),
    prefix: pathname.replace(/\/+$/, ""),
  };
}

/** `maySend` returned false before a byte of the request was sent. */
export class Withdrawn extends Error {}

/**
 * Connections whose handshake is complete. Node's `reusedSocket` does not show it: it is false where a queued request
 * gets the connection of an earlier one.
 */
const ready = new WeakSet<Socket>();

/** Starts a request, and records whether the server can have received it. */
export class Sending {
  readonly request: ClientRequest;
  private connected = false;
  private reused = false;

  constructor(endpoint: Endpoint, agent: HttpAgent, what: HttpRequest, maySend: () => boolean = () => true) {
    const { method, path, headers, body } = what;
    const open = endpoint.isTls ? httpsRequest : httpRequest;
    const { host, port } = endpoint;
    const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
    this.request = open({ host, port, agent, method, path, headers: { ...headers, ...length } });
    this.request.on("socket", (socket: Socket) => {
      // Before the handshake is complete nothing of the request has been sent, so it can still be cancelled.
      const transmit = (): void => {
        if (!maySend()) {
          this.request.destroy(new Withdrawn("withdrawn before it was sent"));
          return;
        }
        this.connected = true;
        this.request.end(body);
      };
      this.reused = ready.has(socket);
      if (this.reused) {
        transmit();
        return;
      }
      const open = (): void => {
        ready.add(socket);
        transmit();
      };
      // Through a proxy the TCP connection is open before the TLS session is.
      if (endpoint.isTls || socket.connecting) socket.once(endpoint.isTls ? "secureConnect" : "connect", open);
      else open();
    });
    this.request.setNoDelay(true);
  }

  get sent(): boolean {
    return this.connected;
  }

  /** Whether it was sent on a connection that had carried another request before. */
  get isOnKeptConnection(): boolean {
    return this.reused;
  }
}

/** Sends a request and reads the complete response. Never rejects. */
export function exchange(
  endpoint: Endpoint,
  agent: HttpAgent,
  what: HttpRequest,
  limits: {
    readonly clock: Clock;
    readonly timeoutMs: number;
    readonly cancel?: Cancel | undefined;
    readonly maySend?: (() => boolean) | undefined;
  },
): Promise<Answered | Broken> {
  return new Promise((resolve) => {
    let sending: Sending;
    try {
      sending = new Sending(endpoint, agent, what, limits.maySend);
    } catch (error) {
      // A header has invalid characters: the request was never sent.
      resolve({ kind: "broken", sent: false, onKeptConnection: false, why: "connection", error: error as Error });
      return;
    }
    const { request } = sending;
    let settled = false;
    let answering = false;
    const settle = (result: Answered | Broken): void => {
      if (settled) return;
      settled = true;
      cancelTimer();
      forgetCancel();
      resolve(result);
    };
    const fail = (why: Broken["why"], error: Error): void => {
      const { sent, isOnKeptConnection } = sending;
      const onKeptConnection = isOnKeptConnection && why === "connection";
      settle({ kind: "broken", sent, onKeptConnection, why, error });
      request.destroy();
    };
    const cancelTimer = limits.clock.after(limits.timeoutMs, () =>
      fail("timeout", new Error(`no answer within ${limits.timeoutMs} ms`)),
    );
    let forgetCancel = (): void => {};
    request.on("error", (error) => fail(error instanceof Withdrawn ? "withdrawn" : "connection", error));
    request.on("close", () => {
      if (!answering) fail("connection", new Error("the connection closed before the answer came"));
    });
    request.on("response", (response) => {
      answering = true;
      readWhole(response).then(
        (bytes) => settle({ kind: "answered", code: response.statusCode ?? 0, response, bytes }),
        (error: Error) => fail(error instanceof AnswerTooLarge ? "tooLarge" : "connection", error),
      );
    });
    forgetCancel =
      limits.cancel?.onCancel(() => fail("cancelled", new Error("cancelled by the caller"))) ?? ((): void => {});
    if (settled) forgetCancel();
  });
}

class AnswerTooLarge extends Error {}

function readWhole(response: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length <= answerBytesMax) return;
      reject(new AnswerTooLarge(`the answer is larger than ${answerBytesMax} bytes`));
      response.destroy();
    });
    response.on("error", reject);
    response.on("close", () => reject(new Error("the connection closed in the middle of the answer")));
    response.on("end", () => {
      if (!response.complete) return;
      const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      if (response.headers["content-encoding"] !== "gzip" || whole.length === 0) resolve(whole);
      else resolve(unpack(whole, { maxOutputLength: answerBytesMax }).catch(tooLargeOrBroken));
    });
  });
}

function tooLargeOrBroken(error: NodeJS.ErrnoException): never {
  throw error.code === "ERR_BUFFER_TOO_LARGE" ? new AnswerTooLarge(error.message) : error;
}

/**
 * The smallest client that can say anything, well formed or not: plain HTTP with a token, requests by hand, watches
 * line by line. Tests that ask what a server does with odd input must not have a library between them and the wire.
 */
import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";

export interface KubeJson {
  kind: string;
  apiVersion: string;
  metadata: {
    name: string;
    namespace?: string;
    uid: string;
    resourceVersion: string;
    labels?: Record<string, string>;
    [field: string]: unknown;
  };
  [field: string]: unknown;
}

export interface Answer {
  code: number;
  headers: IncomingMessage["headers"];
  text: string;
  /** The body as JSON; undefined when it is something else. */
  json: KubeJson & { items: KubeJson[]; reason: string; message: string };
}

export interface WatchLine {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: KubeJson & { code?: number; reason?: string };
}

export interface CallOptions {
  headers?: Record<string, string>;
  /** Sent as it is instead of JSON of the body. */
  raw?: Buffer | string;
}

/** A token that may do everything, for `tokenFile`. */
export const adminToken = "test-admin-token";
export const tokenFile = `${adminToken},admin,1,"system:masters"\n`;

export const patchTypes = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

export class HttpCaller {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  call(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Answer> {
    const payload = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
    return new Promise((resolve, reject) => {
      const sent = this.open(method, path, {
        ...(payload === undefined ? {} : { "content-type": "application/json" }),
        ...(payload === undefined || options.headers?.["transfer-encoding"] !== undefined
          ? {}
          : { "content-length": lengthOf(payload) }),
        ...options.headers,
      });
      sent.on("error", reject);
      sent.on("response", (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({ code: response.statusCode ?? 0, headers: response.headers, text, json: parse(text) });
        });
      });
      sent.end(payload);
    });
  }

  get(path: string): Promise<Answer> {
    return this.call("GET", path);
  }

  post(path: string, body: unknown): Promise<Answer> {
    return this.call("POST", path, body);
  }

  put(path: string, body: unknown): Promise<Answer> {
    return this.call("PUT", path, body);
  }

  patch(path: string, type: keyof typeof patchTypes, body: unknown): Promise<Answer> {
    return this.call("PATCH", path, body, { headers: { "content-type": patchTypes[type] } });
  }

  delete(path: string, options?: unknown): Promise<Answer> {
    return this.call("DELETE", path, options);
  }

  /** Opens a watch; resolves when the headers are there. */
  watch(path: string): Promise<WatchReader> {
    return new Promise((resolve, reject) => {
      const sent = this.open("GET", path, {});
      sent.on("error", reject);
      sent.on("response", (response) => {
        if (response.statusCode !== 200) reject(new Error(`watch ${path}: ${response.statusCode}`));
        else resolve(new WatchReader(sent, response));
      });
      sent.end();
    });
  }

  close(): void {
    this.agent.destroy();
  }

  private open(method: string, path: string, headers: Record<string, string | number>): ClientRequest {
    const { hostname, port } = new URL(this.url);
    return request({
      agent: this.agent,
      host: hostname,
      port,
      method,
      path,
      headers: { authorization: `Bearer ${adminToken}`, ...headers },
    });
  }
}

/** One open watch, read line by line. */
export class WatchReader {
  private readonly sent: ClientRequest;
  private readonly lines: WatchLine[] = [];
  private waiting: (() => void) | undefined;
  private over = false;
  private rest = "";

  constructor(sent: ClientRequest, response: IncomingMessage) {
    this.sent = sent;
    sent.on("error", () => this.end());
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      const components = (this.rest + chunk).split("\n");
      this.rest = components.pop() ?? "";
      for (const part of components) if (part !== "") this.lines.push(JSON.parse(part) as WatchLine);
      this.wake();
    });
    response.on("error", () => this.end());
    response.on("close", () => this.end());
  }

  /** The next event; undefined when the stream has ended. */
  async next(): Promise<WatchLine | undefined> {
    while (this.lines.length === 0 && !this.over) {
      await new Promise<void>((resolve) => {
        this.waiting = resolve;
      });
    }
    return this.lines.shift();
  }

  /** Breaks the connection, as a network would. */
  destroy(): void {
    this.sent.destroy();
  }

  private end(): void {
    this.over = true;
    this.wake();
  }

  private wake(): void {
    this.waiting?.();
    this.waiting = undefined;
  }
}

function parse(text: string): Answer["json"] {
  try {
    return JSON.parse(text) as Answer["json"];
  } catch {
    return undefined as unknown as Answer["json"];
  }
}

function lengthOf(payload: Buffer | string): number {
  return typeof payload === "string" ? Buffer.byteLength(payload) : payload.length;
}

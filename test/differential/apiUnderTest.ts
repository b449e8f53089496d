/** One API server and the credentials of its administrator, with as little as possible between a suite and the wire. */
import { Agent, type RequestOptions, request } from "node:https";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
/** biome-ignore lint/suspicious/noExplicitAny: suites walk into answers of every kind. */
export type Loose = any;

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string[]>;
  readonly text: string;
  /** The body; a watch is the list of its events. Undefined when it is no JSON. */
  readonly json: Loose;
}

interface Credentials {
  readonly token?: string;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

export class ApiUnderTest {
  /** Texts that are replaced in answers, since only this server has them. */
  readonly aliases: readonly (readonly [string, string])[];
  private readonly agent: Agent;
  private readonly port: number;
  private readonly token: string | undefined;

  constructor(port: number, { token, ...pair }: Credentials, aliases: readonly (readonly [string, string])[] = []) {
    this.port = port;
    this.token = token;
    this.aliases = [...aliases, [`127.0.0.1:${port}`, "HOST"]];
    this.agent = new Agent({ keepAlive: true, maxSockets: 16, rejectUnauthorized: false, ...pair });
  }

  send(method: string, path: string, body?: unknown, headers: Record<string, string | null> = {}): Promise<Answer> {
    const payload = body === undefined ? undefined : toBuffer(body);
    const all: Record<string, string | null> = {
      Accept: "application/json",
      "User-Agent": "probe/1",
      ...(this.token === undefined ? {} : { Authorization: `Bearer ${this.token}` }),
      ...(payload === undefined ? {} : { "Content-Type": "application/json", "Content-Length": `${payload.length}` }),
      ...headers,
    };
    const sent = Object.fromEntries(
      Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null),
    );
    const options: RequestOptions = {
      port: this.port,
      method,
      path,
      headers: sent,
      agent: this.agent,
      timeout: 30_000,
    };
    return new Promise((resolve) => {
      const failed = (error: Error) =>
        resolve({ status: 0, headers: {}, text: `connection: ${error.message}`, json: undefined });
      const call = request({ ...options, host: "127.0.0.1" }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", failed);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({ status: response.statusCode ?? 0, headers: lists(response.rawHeaders), text, json: decode(text) });
        });
      });
      call.on("timeout", () => call.destroy(new Error("no answer in 30 s")));
      call.on("error", failed);
      call.end(payload);
    });
  }
}

function toBuffer(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

function decode(text: string): Loose {
  try {
    return JSON.parse(text);
  } catch {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    try {
      return lines.length === 0 ? undefined : lines.map((line) => JSON.parse(line));
    } catch {
      return undefined;
    }
  }
}

function lists(raw: string[]): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? "").toLowerCase();
    found[name] = [...(found[name] ?? []), raw[at + 1] ?? ""];
  }
  return found;
}

/**
 * Replays a recorded row against a server and collects its responses. Retries where a controller must act first, as
 * kubectl did.
 */
import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import type { ApiServer } from "../../../src/apiserver/startApiServer.ts";
import { decodeProtobuf } from "../../../src/apiserver/wire/protobuf.ts";
import { act } from "../changeCluster.ts";
import { bodyBytes, type Learnt, particularise, type RecordedRequest, type Step } from "./recording.ts";

/** One answer in the short form of the table: `GET pods/p 200 Pod`. */
export interface Answer {
  readonly line: string;
  /** Parsed when it is JSON or protobuf, text otherwise; the events so far for a watch. */
  readonly body: unknown;
}

/** Whether a response is the expected one. */
export type Wanted = (at: number, answer: Answer) => boolean;

/** Longer than any controller takes on a busy machine. */
const patienceMs = 10_000;

export async function replayRow(
  server: ApiServer,
  user: string,
  steps: readonly Step[],
  wanted: Wanted,
): Promise<Answer[]> {
  const { certificate, key } = server.pki.issueClient(user, ["system:masters"], Date.now());
  const agent = new Agent({ cert: certificate, key, ca: server.pki.authority, keepAlive: true });
  const learnt: Learnt = { continueToken: "", documents: {} };
  const answers: Answer[] = [];
  const watches: Watch[] = [];
  try {
    for (const step of steps) {
      if ("act" in step) {
        await act(server, step.act);
        continue;
      }
      const at = answers.length;
      const recorded = step.request;
      if (isWatch(recorded)) {
        const watch = await openWatch(server, agent, particularise(server.core, recorded, learnt));
        watches.push(watch);
        answers.push({ line: `${shortLine(recorded)} ${watch.code} Watch`, body: watch.events });
        continue;
      }
      const answer = await untilWanted(
        server,
        async () => {
          const { code, body } = await send(server, agent, particularise(server.core, recorded, learnt));
          learn(learnt, body);
          return { line: `${shortLine(recorded)} ${code} ${kindOf(body)}`.trimEnd(), body };
        },
        (one) => wanted(at, one),
      );
      answers.push(answer);
    }
    await settleWatches(answers, wanted, watches);
    return answers;
  } finally {
    for (const watch of watches) watch.close();
    agent.destroy();
  }
}

/**
 * Controllers act a little later, and a budget allows a disruption once its controller has counted: retry after each
 * commit.
 */
async function untilWanted(
  server: ApiServer,
  ask: () => Promise<Answer>,
  fits: (answer: Answer) => boolean,
): Promise<Answer> {
  const endMs = Date.now() + patienceMs;
  for (;;) {
    let changed = (): void => {};
    const change = new Promise<void>((done) => {
      changed = done;
    });
    const stop = server.core.store.onEvent(() => changed());
    const timer = setTimeout(() => changed(), Math.max(0, endMs - Date.now()));
    try {
      const answer = await ask();
      const mayChange = answer.line.startsWith("GET ") || / 429 /.test(answer.line);
      if (fits(answer) || !mayChange || Date.now() >= endMs) return answer;
      await change;
    } finally {
      stop();
      clearTimeout(timer);
    }
  }
}

/** Waits for the expected events. */
async function settleWatches(answers: readonly Answer[], wanted: Wanted, watches: readonly Watch[]): Promise<void> {
  const endMs = Date.now() + patienceMs;
  for (const watch of watches) {
    const at = answers.findIndex((answer) => answer.body === watch.events);
    const answer = answers[at];
    while (answer !== undefined && !wanted(at, answer) && Date.now() < endMs) await watch.next(endMs - Date.now());
  }
}

interface Watch {
  readonly code: number;
  /** `ADDED name` and so on. */
  readonly events: string[];
  next(withinMs: number): Promise<void>;
  close(): void;
}

async function openWatch(server: ApiServer, agent: Agent, request: RecordedRequest): Promise<Watch> {
  const response = await call(server, agent, request);
  const events: string[] = [];
  let heard = (): void => {};
  let rest = "";
  response.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    const parsed = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as WatchLine);
    // The time of bookmarks is not fixed.
    events.push(...parsed.filter(({ type }) => type !== "BOOKMARK").map(eventOf));
    heard();
  });
  response.on("error", () => {});
  return {
    code: response.statusCode ?? 0,
    events,
    next: (withinMs) =>
      new Promise((done) => {
        const timer = setTimeout(done, withinMs);
        heard = () => {
          clearTimeout(timer);
          done();
        };
      }),
    close: () => response.destroy(),
  };
}

interface WatchLine {
  type: string;
  object: { kind: string; metadata?: { name?: string }; rows?: { object: { metadata: { name: string } } }[] };
}

function eventOf({ type, object }: WatchLine): string {
  return `${type} ${object.rows?.[0]?.object.metadata.name ?? object.metadata?.name ?? ""}`.trimEnd();
}

function isWatch({ method, url }: RecordedRequest): boolean {
  return method === "GET" && /[?&]watch=true/.test(url);
}

async function send(
  server: ApiServer,
  agent: Agent,
  request: RecordedRequest,
): Promise<{ code: number; body: unknown }> {
  const response = await call(server, agent, request);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    code: response.statusCode ?? 0,
    body: bodyOf(response.headers["content-type"] ?? "", Buffer.concat(chunks)),
  };
}

function bodyOf(contentType: string, bytes: Buffer): unknown {
  if (contentType.startsWith("application/vnd.kubernetes.protobuf")) return decodeProtobuf(bytes);
  return contentType.startsWith("application/json") ? JSON.parse(bytes.toString("utf8")) : bytes.toString("utf8");
}

function call(server: ApiServer, agent: Agent, request: RecordedRequest): Promise<IncomingMessage> {
  const bytes = bodyBytes(request);
  const url = new URL(server.url);
  return new Promise((resolve, reject) => {
    const sent = httpsRequest(
      {
        agent,
        host: url.hostname,
        port: url.port,
        method: request.method,
        path: request.url,
        headers: { ...request.headers, ...(bytes.length > 0 ? { "content-length": bytes.length } : {}) },
      },
      resolve,
    );
    sent.on("error", reject);
    sent.end(bytes);
  });
}

/** `GET /apis/apps/v1/namespaces/row-45/deployments/web?x=y` as `GET deployments.apps/web`. */
export function shortLine({ method, url }: RecordedRequest): string {
  const [path = ""] = url.split("?");
  const components = /^\/(?:api\/v1|apis\/([^/]+)\/[^/]+)\/(?:namespaces\/([^/]+)\/)?([^/]+)(\/.*)?$/.exec(path);
  if (components === null) return `${method} ${path}`;
  const [, group, namespace = "", plural = "", rest = ""] = components;
  // The namespace of the row is left out.
  const where = namespace === "" || namespace.startsWith("row-") ? "" : `${namespace}:`;
  return `${method} ${where}${group === undefined ? plural : `${plural}.${group}`}${rest}`;
}

function kindOf(body: unknown): string {
  if (typeof body !== "object" || body === null) return "";
  const { kind = "", reason = "" } = body as { kind?: string; reason?: string };
  return kind === "Status" && reason !== "" ? `${kind} ${reason}` : kind;
}

function learn(learnt: Learnt, body: unknown): void {
  if (typeof body !== "object" || body === null) return;
  const { metadata, paths } = body as {
    metadata?: { continue?: string };
    paths?: Record<string, { serverRelativeURL?: string }>;
  };
  if (metadata?.continue !== undefined) learnt.continueToken = metadata.continue;
  for (const [path, { serverRelativeURL }] of Object.entries(paths ?? {})) {
    if (serverRelativeURL !== undefined) learnt.documents[path] = serverRelativeURL;
  }
}

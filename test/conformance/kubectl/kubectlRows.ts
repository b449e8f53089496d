/**
 * Rows of the kubectl table as tests: one server for a file of rows, one namespace and one user for a row. Requests of
 * concurrent rows are assigned by their user. Without kubectl the rows are skipped.
 */
import { Buffer } from "node:buffer";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, type ExpectStatic, test } from "vitest";
import { stringify } from "yaml";
import { systemClock } from "../../../src/adapters/systemClock.ts";
import { systemRandom } from "../../../src/adapters/systemRandom.ts";
import { kubeconfigText } from "../../../src/apiserver/auth/kubeconfig.ts";
import { type ApiServer, startApiServer } from "../../../src/apiserver/startApiServer.ts";
import type { KubeObject } from "../../../src/model/objects/object.ts";
import type { PodAgent } from "../../../src/ports/podAgent.ts";
import { act, type Deed, type Manifest, stored } from "../changeCluster.ts";
import {
  generalise,
  isDiscovery,
  type RecordedRequest,
  type Recording,
  relevantHeaders,
  type Step,
} from "../recorded/recording.ts";
import { normalise } from "./normalise.ts";

/** The output of kubectl, with values that differ from run to run replaced by placeholders. */
export interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** All of it for a golden text: errors behind `! `, the exit code when it is not 0. */
  readonly text: string;
}

export interface RunOptions {
  readonly stdin?: string | Manifest | readonly Manifest[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A running kubectl: a watch, a wait, a drain. */
export interface Running {
  /** Waits until the output (normalised) has what is looked for. */
  until(found: (out: string, err: string) => boolean): Promise<Output>;
  /** Waits until it exits. */
  ended(): Promise<Output>;
  stop(): Promise<Output>;
}

export interface Row {
  readonly server: ApiServer;
  readonly namespace: string;
  /** Runs a command line to its end; words with blanks need the array form. */
  kubectl(args: string | readonly string[], options?: RunOptions): Promise<Output>;
  start(args: string | readonly string[], options?: RunOptions): Running;
  given(...objects: readonly Manifest[]): Promise<void>;
  patched(object: Manifest, subresource?: string): Promise<void>;
  removed(object: Manifest): Promise<void>;
  /** By `group/plural` (`/plural` for the core group) and name, from the row's namespace, else from the cluster. */
  stored(key: string, name: string): KubeObject | undefined;
  /** The requests so far, as `METHOD /path?query`, without discovery. */
  requests(): string[];
  discovery(): string[];
  /** Bodies of requests whose line matches. JSON is parsed, protobuf stays bytes. */
  bodies(line: RegExp): unknown[];
  /** Waits until a request has been answered; a watch, until its headers are sent. */
  requested(line: RegExp): Promise<void>;
  /** Waits until the store has it; checked after every commit. */
  observed(found: () => boolean): Promise<void>;
  forget(): void;
  /** A folder for files of the row. */
  directory(): Promise<string>;
  /** A kubeconfig with the server and without credentials, for tokens. */
  bareKubeconfig(): Promise<string>;
}

const version = spawnSync("kubectl", ["version", "--client", "-o", "json"], { encoding: "utf8" });
const hasKubectl = version.status === 0;

/** Declares the rows of a file. `recordAs` is the file for the requests of kubectl. */
export function kubectlRows(recordAs: string, options: { agent?: PodAgent } = {}) {
  const recording: Recording = {};
  const rows = new Map<string, Traffic>();
  let server: ApiServer;
  let home = "";
  const cacheDir = (): string => join(home, "cache");

  beforeAll(async () => {
    if (!hasKubectl) return;
    home = mkdtempSync(join(tmpdir(), "muster-kubectl-"));
    server = await startApiServer({
      clock: systemClock(),
      random: systemRandom(),
      freeze: true,
      ...(options.agent === undefined ? {} : { agent: options.agent }),
      onRequest: (request, response) => rows.get(userOf(request))?.see(request, response, server),
    });
    // Discovery is cached once for the file; the rows about discovery have their own cache.
    const kubeconfig = join(home, "warm.kubeconfig");
    await writeFile(kubeconfig, server.kubeconfig);
    await startKubectl(["api-resources"], { home, kubeconfig, cacheDir: cacheDir(), url: server.url }).ended();
  });

  afterAll(async () => {
    if (!hasKubectl) return;
    await server.stop();
    await rm(home, { recursive: true, force: true });
    if (process.env["MUSTER_RECORD"] === "1") await writeRecording(recordAs, recording);
  });

  const open = async (name: string): Promise<{ row: Row; close: () => Promise<void> }> => {
    const number = /^\[(\d+)/.exec(name)?.[1] ?? "";
    const namespace = `row-${number}`;
    const user = `kubectl-${number}`;
    const traffic = new Traffic();
    rows.set(user, traffic);
    recording[name] = traffic.steps;
    const kubeconfig = join(home, `${namespace}.kubeconfig`);
    const credential = server.pki.issueClient(user, ["system:masters"], Date.now());
    const { authority } = server.pki;
    await writeFile(kubeconfig, kubeconfigText({ server: server.url, authority, user, credential, namespace }));
    const running: Running[] = [];
    const start: Row["start"] = (args, run = {}) => {
      const words = typeof args === "string" ? args.split(" ") : args;
      const started = startKubectl(words, { home, kubeconfig, cacheDir: cacheDir(), url: server.url, ...run });
      running.push(started);
      return started;
    };
    const doing = async (deed: Deed): Promise<void> => {
      await act(server, deed);
      traffic.steps.push({ act: deed });
    };
    const inNamespace = (object: Manifest): Manifest => {
      const { type } = server.core.registry.kind(object.apiVersion, object.kind) ?? {};
      if (type?.namespaced !== true || object.metadata.namespace !== undefined) return object;
      return { ...object, metadata: { ...object.metadata, namespace } };
    };
    const row: Row = {
      server,
      namespace,
      kubectl: (args, run) => start(args, run).ended(),
      start,
      given: async (...objects) => {
        for (const object of objects) await doing({ given: inNamespace(object) });
      },
      patched: (object, subresource) =>
        doing({ patched: inNamespace(object), ...(subresource === undefined ? {} : { subresource }) }),
      removed: (object) => doing({ removed: inNamespace(object) }),
      stored: (key, object) => stored(server, key, namespace, object) ?? stored(server, key, "", object),
      requests: () => traffic.lines.filter((line) => !isDiscovery(line.split(" ")[1] ?? "")),
      discovery: () => traffic.lines.filter((line) => isDiscovery(line.split(" ")[1] ?? "")),
      bodies: (line) => traffic.bodies(line),
      requested: (line) => traffic.wait(line),
      observed: (found) => observed(server, found),
      forget: () => traffic.forget(),
      directory: async () => {
        const directory = join(home, namespace);
        await mkdir(directory, { recursive: true });
        return directory;
      },
      bareKubeconfig: async () => {
        const file = join(home, `${namespace}-bare.kubeconfig`);
        const credential = { token: "none" };
        await writeFile(file, kubeconfigText({ server: server.url, authority, user, credential, namespace }));
        return file;
      },
    };
    await row.given({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    const close = async (): Promise<void> => {
      for (const one of running) await one.stop();
      rows.delete(user);
    };
    return { row, close };
  };

  /** One row (or several neighbours) of the table: `[25] create -f makes the object`. */
  return function kubectlRow(name: string, body: (at: { row: Row; expect: ExpectStatic }) => Promise<void>): void {
    const title = hasKubectl ? name : `${name} (skipped: there is no kubectl on the PATH)`;
    test.skipIf(!hasKubectl).concurrent(title, async ({ expect }) => {
      const { row, close } = await open(name);
      try {
        await body({ row, expect });
      } finally {
        await close();
      }
    });
  };
}

/** The requests of one row. */
class Traffic {
  readonly steps: Step[] = [];
  lines: string[] = [];
  private answered: string[] = [];
  private seen: { line: string; body: () => Buffer; contentType: string }[] = [];
  private waiting: { line: RegExp; done: () => void }[] = [];

  see(request: IncomingMessage, response: ServerResponse, server: ApiServer): void {
    const { method = "", url = "" } = request;
    const line = `${method} ${url}`;
    const chunks: Buffer[] = [];
    // Reading the body here must not start the stream before the handler does.
    const push = request.push.bind(request);
    request.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk !== null) chunks.push(chunk as Buffer);
      return push(chunk, encoding);
    };
    const contentType = request.headers["content-type"] ?? "";
    this.lines.push(line);
    this.seen.push({ line, body: () => Buffer.concat(chunks), contentType });
    // A watch has started when its headers are sent.
    const writeHead = response.writeHead.bind(response);
    response.writeHead = ((...args: Parameters<typeof writeHead>) => {
      const result = writeHead(...args);
      this.answered.push(line);
      for (const one of this.waiting) if (one.line.test(line)) setImmediate(one.done);
      return result;
    }) as typeof response.writeHead;
    const headers: Record<string, string> = {};
    for (const name of relevantHeaders) {
      const value = request.headers[name];
      if (value !== undefined && value !== "keep-alive") headers[name] = String(value);
    }
    const step: { request: RecordedRequest } = { request: { method, url, headers } };
    this.steps.push(step);
    // Before the response the cluster is unchanged.
    step.request = generalise(server.core, step.request);
    request.on("end", () => {
      const bytes = Buffer.concat(chunks);
      if (bytes.length === 0) return;
      const binary = contentType.includes("protobuf");
      const body = bytes.toString(binary ? "base64" : "utf8");
      step.request = generalise(server.core, { ...step.request, body, ...(binary ? { encoding: "base64" } : {}) });
    });
  }

  bodies(line: RegExp): unknown[] {
    return this.seen
      .filter((one) => line.test(one.line))
      .map((one) => (one.contentType.includes("protobuf") ? one.body() : parse(one.body())));
  }

  wait(line: RegExp): Promise<void> {
    if (this.answered.some((one) => line.test(one))) return Promise.resolve();
    return new Promise((done) => this.waiting.push({ line, done }));
  }

  forget(): void {
    this.lines = [];
    this.answered = [];
    this.seen = [];
  }
}

function observed(server: ApiServer, found: () => boolean): Promise<void> {
  return new Promise((done) => {
    const stop = server.core.store.onEvent(() => {
      if (!found()) return;
      stop();
      done();
    });
    if (found()) {
      stop();
      done();
    }
  });
}

function parse(bytes: Buffer): unknown {
  return bytes.length === 0 ? undefined : JSON.parse(bytes.toString("utf8"));
}

function userOf(request: IncomingMessage): string {
  const subject = (request.socket as TLSSocket).getPeerCertificate().subject as { CN?: string } | undefined;
  return subject?.CN ?? "";
}

interface Place {
  readonly home: string;
  readonly kubeconfig: string;
  readonly cacheDir: string;
  readonly url: string;
}

function startKubectl(
  args: readonly string[],
  { home, kubeconfig, cacheDir, url, stdin, env }: Place & RunOptions,
): Running {
  const child: ChildProcess = spawn("kubectl", args, {
    env: { PATH: process.env["PATH"] ?? "", HOME: home, KUBECONFIG: kubeconfig, KUBECACHEDIR: cacheDir, ...env },
    cwd: home,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  let code: number | undefined;
  let waiting: (() => void)[] = [];
  const tell = (): void => {
    const told = waiting;
    waiting = [];
    for (const one of told) one();
  };
  const output = (): Output => {
    const plain = { code: code ?? -1, out: normalise(out, url), err: normalise(err, url) };
    const errors = plain.err.replace(/^(?=.)/gm, "! ");
    return { ...plain, text: `${plain.out}${errors}${plain.code > 0 ? `exit ${plain.code}\n` : ""}`.trimEnd() };
  };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    out += text;
    tell();
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    err += text;
    tell();
  });
  child.on("close", (status) => {
    code = status ?? -1;
    tell();
  });
  // kubectl may exit without reading its input.
  child.stdin?.on("error", () => {});
  child.stdin?.end(typeof stdin === "object" ? yamlOf(stdin) : (stdin ?? ""));
  const change = (): Promise<void> => new Promise((done) => waiting.push(done));
  const ended = async (): Promise<Output> => {
    while (code === undefined) await change();
    return output();
  };
  return {
    ended,
    until: async (found) => {
      for (;;) {
        const now = output();
        if (found(now.out, now.err)) return now;
        if (code !== undefined) throw new Error(`kubectl ${args.join(" ")} ended early:\n${now.out}\n${now.err}`);
        await change();
      }
    },
    stop: async () => {
      if (code === undefined) child.kill("SIGKILL");
      return ended();
    },
  };
}

/** Several documents of one stream. */
function yamlOf(objects: Manifest | readonly Manifest[]): string {
  const list = Array.isArray(objects) ? (objects as readonly Manifest[]) : [objects as Manifest];
  return list.map((object) => stringify(object)).join("---\n");
}

async function writeRecording(name: string, recording: Recording): Promise<void> {
  const directory = new URL("../recorded/rows/", import.meta.url);
  await mkdir(directory, { recursive: true });
  const file = new URL(`${name}.json`, directory);
  const before: Recording = await readFile(file, "utf8").then(
    (text) => JSON.parse(text) as Recording,
    () => ({}),
  );
  // A run of some rows keeps the recordings of the others.
  const rows = Object.entries({ ...before, ...withoutDiscovery(recording) }).sort(([a], [b]) => order(a) - order(b));
  await writeFile(file, `${JSON.stringify(Object.fromEntries(rows), undefined, 1)}\n`);
}

/** Discovery belongs to a row without other requests; elsewhere it depends on the cache. */
function withoutDiscovery(recording: Recording): Recording {
  const kept: Recording = {};
  for (const [name, steps] of Object.entries(recording)) {
    const asksMore = steps.some((step) => "request" in step && !isDiscovery(step.request.url));
    // Some builds of kubectl request the server version first.
    const noise = (url: string) => (asksMore ? isDiscovery(url) : url === "/version?timeout=5s");
    kept[name] = steps.filter((step) => !("request" in step) || !noise(step.request.url));
  }
  return kept;
}

function order(name: string): number {
  return Number(/^\[(\d+)/.exec(name)?.[1] ?? 0);
}

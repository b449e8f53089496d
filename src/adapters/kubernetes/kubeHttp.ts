import type { IncomingMessage } from "node:http";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, type Refusal, refused, succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  BindTarget,
  CallOptions,
  DeleteOptions,
  KubeApi,
  KubeList,
  ListOptions,
  ObjectRef,
  Patch,
  Watch,
  WatchEvent,
  WatchOptions,
  WatchSink,
  WriteOptions,
} from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import { Agents } from "../kubeHttp/agents.ts";
import { jsonIn, refusalIn, refusalOfBroken, warningsIn } from "../kubeHttp/answers.ts";
import { bindingBody, deleteBody, evictionBody } from "../kubeHttp/bodies.ts";
import type { KubeConnection } from "../kubeHttp/connection.ts";
import { CredentialKeeper, type HeldCredentials } from "../kubeHttp/credentialKeeper.ts";
import { type Answered, type Broken, type Endpoint, endpointOf, exchange } from "../kubeHttp/exchange.ts";
import { collectionPath, listQuery, objectPath, queryText, wantsBookmarks, watchQuery } from "../kubeHttp/paths.ts";
import { RequestBook, type RequestKind, resourceWord } from "../kubeHttp/requestBook.ts";
import { RequestLimiter } from "../kubeHttp/requestLimiter.ts";
import { WatchConnection } from "../kubeHttp/watchConnection.ts";

export interface KubeHttpOptions {
  /** The field manager of writes, unless a call names another. */
  readonly fieldManager: string;
  readonly userAgent?: string;
  /** Timeout of one attempt of a call; by default a minute, as on API servers. */
  readonly requestMs?: number;
  /** A watch with bookmarks that receives nothing for this long is closed; servers send a bookmark a minute. */
  readonly watchSilenceMs?: number;
  /** Accept compressed responses; default true. On one machine decompression costs more than it saves. */
  readonly gzip?: boolean;
}

/** A connection to a cluster. */
export interface KubeHttp extends KubeApi {
  /** Ends watches without an end event and cancels calls. */
  close(): void;
}

/** Reads with a Retry-After are retried this often, if the delay is not longer than the maximum below. */
const repeatsMax = 3;
const patienceMs = 5_000;
const patienceMsMin = 100;

const watchSilenceMsDefault = 180_000;
const requestMsDefault = 60_000;
const knownWarningsMax = 1_000;

const patchTypes = {
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

/**
 * The Kubernetes API of any cluster over HTTP.
 *
 * The outcome after a failure is precise: a request that was never sent did not happen (`Unavailable`); the outcome of
 * a request without a response is `Unknown`. A write is sent once. A 401 means that nothing was done, so the same write
 * is sent again with new credentials; reads may always be retried.
 */
export function kubeHttp(
  connection: KubeConnection,
  ports: {
    readonly clock: Clock;
    readonly log: Log;
    /** Counts requests and logs rejections; connections of one process share it. */
    readonly requests?: RequestBook;
  },
  options: KubeHttpOptions,
): KubeHttp {
  return new KubeOverHttp(connection, ports, options);
}

interface Request {
  readonly about: RequestKind;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly cancel?: Cancel | undefined;
  readonly maySend?: (() => boolean) | undefined;
}

class KubeOverHttp implements KubeHttp {
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly requests: RequestBook;
  private readonly options: KubeHttpOptions;
  private readonly endpoint: Endpoint & { readonly prefix: string };
  private readonly keeper: CredentialKeeper;
  private readonly agents: Agents;
  private readonly limiter: RequestLimiter;
  private readonly headers: Readonly<Record<string, string | string[]>>;
  private readonly knownWarnings = new Set<string>();
  private readonly watches = new Set<Watch>();
  private closed = false;

  constructor(
    connection: KubeConnection,
    ports: { clock: Clock; log: Log; requests?: RequestBook },
    options: KubeHttpOptions,
  ) {
    this.clock = ports.clock;
    this.log = ports.log;
    this.requests = ports.requests ?? new RequestBook(ports);
    this.options = options;
    this.endpoint = endpointOf(connection.server);
    this.keeper = new CredentialKeeper(connection.credentials, this.clock, this.log);
    this.agents = new Agents(connection);
    this.limiter = new RequestLimiter(this.clock);
    this.headers = {
      ...connection.headers,
      accept: "application/json",
      "user-agent": options.userAgent ?? "muster",
    };
  }

  async get<T extends KubeObject>(ref: ObjectRef<T>, options: CallOptions = {}): Promise<Outcome<T>> {
    if (ref.name === "") return nameless;
    return this.object({ about: about("get", ref), method: "GET", path: objectPath(ref), ...limitsIn(options) });
  }

  async list<T extends KubeObject>(kind: Resource<T>, options: ListOptions = {}): Promise<Outcome<KubeList<T>>> {
    const path = `${collectionPath(kind, options.namespace ?? "")}${listQuery(options)}`;
    const answer = await this.json({ about: about("list", kind), method: "GET", path, ...limitsIn(options) });
    return answer.ok ? listIn<T>(answer.value) : answer;
  }

  create<T extends KubeObject>(
    kind: Resource<T>,
    object: Unstored<T>,
    options: WriteOptions = {},
  ): Promise<Outcome<T>> {
    const path = `${collectionPath(kind, object.metadata?.namespace ?? "")}${this.writeQuery(options)}`;
    return this.object({ about: about("create", kind), method: "POST", path, body: object, ...limitsIn(options) });
  }

  async update<T extends KubeObject>(ref: ObjectRef<T>, object: T, options: WriteOptions = {}): Promise<Outcome<T>> {
    if (ref.name === "") return nameless;
    const path = `${objectPath(ref)}${this.writeQuery(options)}`;
    return this.object({ about: about("update", ref), method: "PUT", path, body: object, ...limitsIn(options) });
  }

  async patch<T extends KubeObject>(
    ref: ObjectRef<T>,
    patch: Patch<T>,
    options: WriteOptions = {},
  ): Promise<Outcome<T>> {
    if (ref.name === "") return nameless;
    const force = patch.type === "apply" && patch.force === true ? true : undefined;
    const path = `${objectPath(ref)}${this.writeQuery(options, { force })}`;
    const contentType = patchTypes[patch.type];
    const { body } = patch;
    return this.object({ about: about("patch", ref), method: "PATCH", path, body, contentType, ...limitsIn(options) });
  }

  async delete<T extends KubeObject>(ref: ObjectRef<T>, options: DeleteOptions = {}): Promise<Outcome<T | undefined>> {
    if (ref.name === "") return nameless;
    const body = deleteBody(options);
    const path = objectPath(ref);
    const answer = await this.object<T>({
      ...{ about: about("delete", ref), method: "DELETE", path, body },
      ...limitsIn(options),
    });
    return answer.ok && answer.value.kind === "Status" ? succeeded(undefined) : answer;
  }

  async bind(pod: ObjectRef, target: BindTarget, options: WriteOptions = {}): Promise<Outcome<undefined>> {
    if (pod.name === "") return nameless;
    const ref = { ...pod, subresource: "binding" };
    const path = `${objectPath(ref)}${this.writeQuery(options)}`;
    const body = bindingBody(pod, target);
    return nothingOf(
      await this.json({ about: about("create", ref), method: "POST", path, body, ...limitsIn(options) }),
    );
  }

  async evict(pod: ObjectRef, options: DeleteOptions = {}): Promise<Outcome<undefined>> {
    if (pod.name === "") return nameless;
    const query = queryText({ dryRun: options.dryRun === true ? "All" : undefined });
    const ref = { ...pod, subresource: "eviction" };
    const path = `${objectPath(ref)}${query}`;
    const body = evictionBody(pod, options);
    return nothingOf(
      await this.json({ about: about("create", ref), method: "POST", path, body, ...limitsIn(options) }),
    );
  }

  watch<T extends KubeObject>(kind: Resource<T>, options: WatchOptions, sink: WatchSink<T>): Watch {
    let open = true;
    let connection: WatchConnection | undefined;
    const watch: Watch = {
      stop: () => {
        open = false;
        this.watches.delete(watch);
        connection?.stop();
      },
    };
    const end = (why: Outcome<never> | undefined): void => {
      if (!open) return;
      open = false;
      this.watches.delete(watch);
      sink.ended(why);
    };
    const path = `${collectionPath(kind, options.namespace ?? "")}${watchQuery(options)}`;
    const asked = about("watch", kind);
    const connect = (held: HeldCredentials, mayAskAgain: boolean): void => {
      if (!open) return;
      const request = { method: "GET", path: this.endpoint.prefix + path, headers: this.headersFor(held, false) };
      const limits = { clock: this.clock, openMs: this.requestMs, silenceMs: this.silenceMs(options) };
      const agent = this.agents.for("watches", held.credentials);
      let isOpen = false;
      connection = new WatchConnection(this.endpoint, agent, request, limits, {
        opened: (response) => {
          isOpen = true;
          this.requests.answered(asked, response.statusCode ?? 200);
          this.noteWarnings(response, "GET", path);
        },
        event: (event) => {
          if (open) sink.event(event as WatchEvent<T>);
        },
        ended: (why, code) => {
          const message = why === undefined || why.ok ? "" : why.message;
          if (code !== undefined) this.requests.answered(asked, code, message);
          else if (!isOpen && why !== undefined) this.requests.broke(asked, new Error(message));
          if (code === 401 && mayAskAgain) void again(held, why);
          else {
            // The reflector reports the consequences, and an outage is reported once for all requests.
            if (why !== undefined) this.log.debug({ path, why }, "a watch ended with an error");
            end(why);
          }
        },
      });
    };
    const again = (held: HeldCredentials, why: Outcome<never> | undefined): Promise<void> =>
      attempt(async () => {
        const next = await this.keeper.afterRefusal(held);
        if (next.generation === held.generation) end(why);
        else connect(next, false);
      });
    const attempt = (run: () => Promise<void>): Promise<void> =>
      run().catch((error: unknown) => end(this.withoutCredentials(error)));
    this.watches.add(watch);
    void attempt(async () => {
      // The caller has the watch before anything is delivered to its sink.
      await undefined;
      if (this.closed) end(closedRefusal);
      else connect(await this.keeper.current(), true);
    });
    return watch;
  }

  close(): void {
    this.closed = true;
    this.limiter.releaseAll();
    for (const watch of [...this.watches]) watch.stop();
    this.agents.close();
  }

  private get requestMs(): number {
    return this.options.requestMs ?? requestMsDefault;
  }

  /** Without bookmarks a watch of an unchanged collection is silent. */
  private silenceMs(options: WatchOptions): number | undefined {
    return wantsBookmarks(options) ? (this.options.watchSilenceMs ?? watchSilenceMsDefault) : undefined;
  }

  private writeQuery(options: WriteOptions, more: { force?: boolean | undefined } = {}): string {
    const { fieldManager = this.options.fieldManager, dryRun } = options;
    return queryText({ fieldManager, dryRun: dryRun === true ? "All" : undefined, ...more });
  }

  /** The server is trusted to respond with the type of the resource handle. */
  private async object<T extends KubeObject>(request: Request): Promise<Outcome<T>> {
    const answer = await this.json(request);
    if (!answer.ok || answer.value["kind"] === "Status" || isObject(answer.value["metadata"])) {
      return answer as Outcome<T>;
    }
    return refused("Unknown", "the answer is JSON, and no object of Kubernetes");
  }

  private async json(request: Request): Promise<Outcome<JsonObject>> {
    const answer = await this.call(request);
    if (!("kind" in answer)) return answer;
    const value = jsonIn(answer.bytes.toString("utf8"));
    if (value !== undefined) return succeeded(value);
    const { method, path } = request;
    this.log.warn({ method, path, code: answer.code }, "the API server's answer cannot be read");
    return refused("Unknown", `HTTP ${answer.code} with an answer that is no object`);
  }

  /** Sends until there is a final response. Never rejects. */
  private async call(request: Request): Promise<Answered | Refusal> {
    const isRead = request.method === "GET";
    let held: HeldCredentials | undefined;
    let reconnected = false;
    let reauthenticated = false;
    for (let repeats = 0; ; ) {
      if (this.closed) return closedRefusal;
      if (request.cancel?.cancelled === true) return refused("Unavailable", "cancelled before it was sent");
      const turn = await this.limiter.enter(request.cancel);
      if (turn === undefined) continue;
      let result: Answered | Broken | undefined;
      try {
        held ??= await this.keeper.current();
        result = await this.send(request, held);
      } catch (error) {
        return this.withoutCredentials(error);
      } finally {
        this.limiter.leave(turn, isOneTooMany(request, result));
      }
      if (result.kind === "broken") {
        if (isRead && result.onKeptConnection && !reconnected) {
          reconnected = true;
          continue;
        }
        return this.broken(request, result);
      }
      const { code, response, bytes } = result;
      this.noteWarnings(response, request.method, request.path);
      if (code >= 200 && code < 300) {
        this.requests.answered(request.about, code);
        return result;
      }
      const refusal = refusalIn(code, response.headers, bytes, this.clock.nowMs());
      this.requests.answered(request.about, code, refusal.message);
      if (code === 401 && !reauthenticated) {
        reauthenticated = true;
        const before: HeldCredentials = held;
        try {
          held = await this.keeper.afterRefusal(before);
        } catch (error) {
          return this.withoutCredentials(error);
        }
        if (held.generation !== before.generation) continue;
      }
      const { retryAfterMs } = refusal;
      const busy = code === 429 || code === 503;
      if (!isRead || !busy || retryAfterMs === undefined || retryAfterMs > patienceMs || repeats >= repeatsMax) {
        return refusal;
      }
      repeats++;
      await this.wait(Math.max(retryAfterMs, patienceMsMin), request.cancel);
    }
  }

  private send({ method, path, body, contentType, cancel, maySend }: Request, held: HeldCredentials) {
    const agent = this.agents.for("calls", held.credentials);
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = this.headersFor(held, this.options.gzip !== false);
    if (body !== undefined) headers["content-type"] = contentType ?? "application/json";
    const limits = { clock: this.clock, timeoutMs: this.requestMs, cancel, maySend };
    return exchange(this.endpoint, agent, { method, path: this.endpoint.prefix + path, headers, ...sent }, limits);
  }

  private headersFor({ credentials }: HeldCredentials, gzip: boolean): Record<string, string | string[]> {
    const headers: Record<string, string | string[]> = { ...this.headers };
    if (gzip) headers["accept-encoding"] = "gzip";
    if (credentials.authorization !== undefined) headers["authorization"] = credentials.authorization;
    return headers;
  }

  private broken({ about, method, path }: Request, broken: Broken): Refusal {
    const refusal = refusalOfBroken(broken);
    if (broken.why !== "cancelled" && broken.why !== "withdrawn") {
      this.requests.broke(about, broken.error);
      this.log.debug({ method, path, reason: refusal.reason, cause: broken.error }, "a request got no answer");
    }
    return refusal;
  }

  private withoutCredentials(error: unknown): Refusal {
    this.log.warn({ cause: error }, "no credentials for the API server");
    return refused("Unauthorized", `no credentials: ${error instanceof Error ? error.message : String(error)}`);
  }

  private wait(ms: number, cancel: Cancel | undefined): Promise<void> {
    return new Promise((resolve) => {
      let forget = (): void => {};
      const cancelTimer = this.clock.after(ms, () => {
        forget();
        resolve();
      });
      forget =
        cancel?.onCancel(() => {
          cancelTimer();
          resolve();
        }) ?? forget;
    });
  }

  /** A warning of the server is logged once: the same object is written again and again. */
  private noteWarnings(response: IncomingMessage, method: string, path: string): void {
    if (response.headers["warning"] === undefined) return;
    for (const warning of warningsIn(response)) {
      if (this.knownWarnings.has(warning) || this.knownWarnings.size >= knownWarningsMax) continue;
      this.knownWarnings.add(warning);
      this.log.warn({ warning, method, path }, "the API server warns");
    }
  }
}

function about(verb: RequestKind["verb"], ref: Resource): RequestKind {
  return { verb, resource: resourceWord(ref) };
}

/** Evictions are answered 429 as well, for the sake of a disruption budget. */
function isOneTooMany({ about }: Request, result: Answered | Broken | undefined): boolean {
  return result?.kind === "answered" && result.code === 429 && !about.resource.endsWith("/eviction");
}

function limitsIn({ cancel, maySend }: CallOptions): Pick<Request, "cancel" | "maySend"> {
  return { cancel, maySend };
}

const closedRefusal: Refusal = refused("Unavailable", "the connection to the cluster was closed");

/** Without a name the path would be that of the collection. */
const nameless: Refusal = refused("Invalid", "resource name may not be empty");

function nothingOf(outcome: Outcome<unknown>): Outcome<undefined> {
  return outcome.ok ? succeeded(undefined) : outcome;
}

/** Items of built-in kinds do not repeat the kind and apiVersion of their list. */
/** A list, or a refusal when the response does not come from an API server: a proxy, a log-in page. */
function listIn<T extends KubeObject>(json: JsonObject): Outcome<KubeList<T>> {
  const { kind, apiVersion, metadata, items } = json;
  const objects = items ?? [];
  if (typeof kind !== "string" || !isObject(metadata) || !Array.isArray(objects)) return noList;
  const itemKind = kind.endsWith("List") ? kind.slice(0, -"List".length) : kind;
  for (const object of objects) {
    if (!isObject(object) || !isObject(object["metadata"])) return noList;
    object["kind"] ??= itemKind;
    object["apiVersion"] ??= apiVersion as string;
  }
  const { continue: continueToken = "", resourceVersion: revision = "" } = metadata as Record<string, string>;
  const list = { revision, items: objects as T[] };
  return succeeded(continueToken === "" ? list : { ...list, continueToken });
}

const noList = refused("Unknown", "the answer is JSON, and no list of objects");

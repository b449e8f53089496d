import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { hostname, networkInterfaces } from "node:os";
import type { AdmissionHook } from "../model/objects/admissionHook.ts";
import { UserError } from "../model/userError.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyFiles } from "../ports/keyFiles.ts";
import type { PodAgent } from "../ports/podAgent.ts";
import type { Random } from "../ports/random.ts";
import type { OpenReport, Store } from "../ports/store.ts";
import { createAdmission } from "./admission/createAdmission.ts";
import { advertisedAddress, certificateNames, isWildcard } from "./advertisedAddress.ts";
import { kubeconfigText } from "./auth/kubeconfig.ts";
import { memoryKeyFiles, openPki, type Pki } from "./auth/pki.ts";
import { TokenIssuer } from "./auth/serviceAccountToken.ts";
import { StaticTokens } from "./auth/staticTokens.ts";
import { BackendClient, kubeletClientUser } from "./connect/backendClient.ts";
import { KubeletUsage } from "./connect/kubeletUsage.ts";
import { type Api, type ApiOptions, createApi } from "./createApi.ts";
import { Documents } from "./http/documents.ts";
import { Exchange } from "./http/exchange.ts";
import { Faults } from "./http/faults.ts";
import { type HandlerContext, handle, shuttingDown } from "./http/handler.ts";
import { Metrics } from "./http/metrics.ts";
import { metricsResources } from "./http/metricsApi.ts";
import { Query } from "./http/query.ts";
import { onUpgrade, type Upgrade } from "./http/upgrade.ts";
import { FrameCache, type WatchStream } from "./http/watchStream.ts";
import type { Retention } from "./storage/objectStore.ts";

export interface ApiServerOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly memory?: ApiOptions["memory"];
  /** Durable when given, in memory otherwise. */
  readonly store?: Store | undefined;
  /** Where keys are stored; created at each start when left out. */
  readonly keyFiles?: KeyFiles;
  /** Port 0 picks a free one. */
  readonly listen?: { readonly host?: string; readonly port?: number };
  /** The address under which nodes and pods reach the server (default: the one that it listens on). */
  readonly advertise?: string;
  /** More names and addresses for its certificate. */
  readonly names?: readonly string[];
  /** The serving certificate and its key, as PEM, in place of those of the cluster's own authority. */
  readonly serving?: { readonly certificate: string; readonly key: string };
  /** Another authority of client certificates, as PEM, beside the cluster's own. */
  readonly clientAuthority?: string;
  readonly controllers?: ApiOptions["controllers"];
  readonly ignoresServiceAccounts?: boolean;
  /** False: plain HTTP, for benchmarks and for clients on this machine. Default true. */
  readonly tls?: boolean;
  /** Lines of `token,user,uid,"group,group"`. */
  readonly tokenFile?: string;
  readonly agent?: PodAgent;
  readonly retention?: Partial<Retention>;
  readonly freeze?: boolean;
  readonly admission?: ApiOptions["admission"];
  /** Admission hooks that run in this process. */
  readonly hooks?: readonly AdmissionHook[];
  /** Addresses of webhooks that name a Service: `{"ns/name:port": "https://127.0.0.1:8443"}`. */
  readonly webhookServices?: Readonly<Record<string, string>>;
  /** Called once when the disk has failed; the server is read-only from then on. */
  readonly onStoreFailure?: (error: Error) => void;
  /** Called with internal errors of the server. */
  readonly log?: HandlerContext["log"];
  /** Called with every request before it is answered, for tests. */
  readonly onRequest?: (request: IncomingMessage, response: ServerResponse) => void;
}

/** A running server. A process may run several. */
export interface ApiServer extends Api {
  readonly url: string;
  /** A kubeconfig with full rights. */
  readonly kubeconfig: string;
  readonly pki: Pki;
  readonly tokens: TokenIssuer;
  readonly opened: OpenReport;
  readonly metrics: Metrics;
  /** Hooks for tests; none of them is reachable over the network. */
  readonly faults: Faults;
  /** A kubeconfig for another user of this server. */
  kubeconfigFor(user: string, groups: readonly string[]): string;
  /** Compacts now: a watch from an older revision gets 410. */
  compactNow(): void;
  closeWatches(resource?: string): void;
  stop(): Promise<void>;
}

export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { clock, random } = options;
  const host = options.listen?.host ?? "127.0.0.1";
  const tls = options.tls ?? true;
  const pki = await openPki({
    files: options.keyFiles ?? memoryKeyFiles(),
    random,
    nowMs: clock.nowMs(),
    hosts: certificateNames(host, {
      interfaces: networkInterfaces(),
      hostname: hostname(),
      more: [...(options.names ?? []), ...(options.advertise === undefined ? [] : [options.advertise])],
    }),
  });
  const serving = options.serving ?? pki.server;
  const state: { context: HandlerContext | undefined; stopping: boolean } = { context: undefined, stopping: false };
  const onRequest = (request: IncomingMessage, response: ServerResponse, upgrade?: Upgrade): void => {
    const { context } = state;
    options.onRequest?.(request, response);
    if (context === undefined || state.stopping) {
      const at = { path: "", query: new Query(""), auditId: "", user: { username: "", groups: [] } };
      new Exchange(request, response, at).sendStatus(shuttingDown().status);
      return;
    }
    void handle(context, request, response, upgrade);
  };
  const server: Server = tls
    ? createTlsServer(
        {
          cert: serving.certificate,
          key: serving.key,
          ca: [pki.authority, ...(options.clientAuthority === undefined ? [] : [options.clientAuthority])],
          requestCert: true,
          rejectUnauthorized: false,
          ALPNProtocols: ["http/1.1"],
        },
        (request, response) => onRequest(request, response),
      )
    : createServer((request, response) => onRequest(request, response));
  onUpgrade(server, onRequest);
  server.keepAliveTimeout = 90_000;
  server.requestTimeout = 0;
  server.maxRequestsPerSocket = 0;
  // The server listens first, so that its address is known when the bootstrap objects are written; until then requests
  // get 503.
  const port = await listen(server, host, options.listen?.port ?? 0);
  const own = isWildcard(host) ? "127.0.0.1" : host;
  const url = `${tls ? "https" : "http"}://${own.includes(":") ? `[${own}]` : own}:${port}`;
  const metrics = new Metrics();
  const tokens = new TokenIssuer(pki.tokenKey);
  const api = await createApi({
    clock,
    random,
    ...(options.memory && { memory: options.memory }),
    log: options.store,
    authority: pki.authority,
    tokens,
    signRequest: pki.signRequest,
    address: options.advertise ?? advertisedAddress(host, networkInterfaces()),
    port,
    onError: (what, error) => options.log?.({ error, method: "controller", path: what }),
    ...(options.controllers && { controllers: options.controllers }),
    ...(options.ignoresServiceAccounts && { ignoresServiceAccounts: true }),
    ...(options.retention === undefined ? {} : { retention: options.retention }),
    ...(options.freeze === undefined ? {} : { freeze: options.freeze }),
    ...(options.onStoreFailure === undefined ? {} : { onStoreFailure: options.onStoreFailure }),
    onSync: (seconds) => metrics.observe("muster_store_wal_fsync_seconds", "", seconds, fsyncBuckets),
    admission:
      options.admission ??
      createAdmission({
        services: options.webhookServices ?? {},
        hooks: options.hooks ?? [],
        observe: (webhook, seconds) =>
          metrics.observe(
            "apiserver_admission_webhook_admission_duration_seconds",
            `name=${JSON.stringify(webhook)}`,
            seconds,
          ),
      }),
  }).catch((error: unknown) => {
    // An open port would keep the process alive, and answer 503 forever.
    server.close();
    server.closeAllConnections();
    throw error;
  });
  const { core, rbac, authorizer } = api;
  const lookup = (resource: string, namespace: string, name: string) =>
    core.store.get(resource, namespace, name)?.object();
  describeMetrics(metrics, api);
  const faults = new Faults();
  const inFlight = { count: 0 };
  metrics.describe("apiserver_current_inflight_requests", "gauge", "Requests in flight, watches included.");
  metrics.gauge("apiserver_current_inflight_requests", () => [["", inFlight.count]]);
  const streams = new Set<WatchStream>();
  const issue = () => pki.issueClient(kubeletClientUser, [], clock.nowMs());
  const client = new BackendClient({ clock, authority: pki.authority, issue });
  state.context = {
    core,
    rbac,
    authorizer,
    sources: {
      tokens,
      lookup,
      staticTokens: options.tokenFile === undefined ? undefined : StaticTokens.parse(options.tokenFile),
    },
    agent: options.agent,
    client,
    kubelets: new KubeletUsage(client, clock),
    frames: new FrameCache(({ type }, bytes) =>
      metrics.observe(
        "apiserver_watch_events_sizes",
        `group="${type.group}",version="${type.version}",resource="${type.plural}"`,
        bytes,
        sizeBuckets,
      ),
    ),
    metrics,
    streams,
    documents: new Documents({
      registry: core.registry,
      serverAddress: `${host}:${port}`,
      nowMs: () => clock.nowMs(),
      issuer: tokens,
      more: options.agent === undefined ? [] : metricsResources,
    }),
    faults,
    inFlight,
    unready: () => (core.store.isHealthy ? [] : ["store"]),
    log: options.log ?? (() => {}),
  };
  // Of another certificate the authority is not known: clients trust the certificate itself.
  const authority = options.serving === undefined ? pki.authority : serving.certificate;
  const kubeconfig = kubeconfigText({ server: url, authority, user: "admin", credential: pki.admin });
  return {
    ...api,
    url,
    kubeconfig,
    pki,
    tokens,
    metrics,
    faults,
    kubeconfigFor: (user, groups) =>
      kubeconfigText({
        server: url,
        authority,
        user,
        credential: pki.issueClient(user, groups, clock.nowMs()),
      }),
    compactNow: () => core.store.compact(core.store.durableRevision),
    closeWatches: (resource) => core.hub.closeWatches(resource),
    stop: async () => {
      if (state.stopping) return;
      state.stopping = true;
      api.controllers.stop();
      core.admission.stop?.();
      core.hub.closeWatches();
      for (const stream of streams) stream.finish();
      // A client with a busy connection must not delay the shutdown.
      const cancel = clock.after(2_000, () => server.closeAllConnections());
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
      cancel();
      await core.store.close();
    },
  };
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(listenProblem(error, host, port)));
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
  });
}

function listenProblem(error: NodeJS.ErrnoException, host: string, port: number): Error {
  switch (error.code) {
    case "EADDRINUSE":
      return new UserError(
        "port-in-use",
        `port ${port} of ${host} is in use`,
        "pass --port 0 for a free port, or stop the program that uses this one",
      );
    case "EACCES":
      return new UserError(
        "port-forbidden",
        `this user may not listen on port ${port} of ${host}`,
        "pass a --port of 1024 or higher, or 0 for a free one",
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new UserError(
        "host-unusable",
        `${host} is no address of this machine`,
        "pass --host 127.0.0.1 for this machine only, or 0.0.0.0 for all its networks",
      );
    default:
      return error;
  }
}

const fsyncBuckets = [0.0001, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1];
const sizeBuckets = [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 1048576];

function describeMetrics(metrics: Metrics, { core }: Api): void {
  metrics.describe("apiserver_request_total", "counter", "Requests by verb, resource and code.");
  metrics.describe("apiserver_request_duration_seconds", "histogram", "Response latency.");
  metrics.describe("apiserver_watch_events_total", "counter", "Events delivered to watches that have ended.");
  metrics.describe(
    "apiserver_watch_events_sizes",
    "histogram",
    "Bytes of an event, counted once for all its watchers.",
  );
  metrics.describe("apiserver_admission_webhook_admission_duration_seconds", "histogram", "Duration of webhook calls.");
  metrics.describe(
    "muster_store_wal_fsync_seconds",
    "histogram",
    "Duration from append to durable; one sync covers many writes.",
  );
  metrics.describe("apiserver_storage_objects", "gauge", "Objects by resource.");
  metrics.describe("apiserver_resource_objects", "gauge", "Objects by group and resource.");
  metrics.describe("apiserver_longrunning_requests", "gauge", "Open watches.");
  metrics.describe("muster_store_revision", "gauge", "Newest revision.");
  metrics.gauge("muster_store_revision", () => [["", core.store.revision]]);
  metrics.gauge("apiserver_longrunning_requests", () => [['verb="WATCH"', core.hub.size]]);
  const counts = function* (): Generator<readonly [string, number]> {
    for (const key of core.store.resources()) {
      const [group = "", resource = ""] = key.split("/");
      yield [`resource="${group === "" ? resource : `${resource}.${group}`}"`, core.store.collection(key).size];
    }
  };
  metrics.gauge("apiserver_storage_objects", counts);
  metrics.gauge("apiserver_resource_objects", function* () {
    for (const key of core.store.resources()) {
      const [group = "", resource = ""] = key.split("/");
      yield [`group="${group}",resource="${resource}"`, core.store.collection(key).size];
    }
  });
}

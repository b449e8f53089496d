import { Buffer } from "node:buffer";
import { isIP } from "node:net";
import type { Component } from "../../control/runtime/component.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import { cachedLookup } from "../../control/webhooks/cachedLookup.ts";
import { ensureWebhookClients, ensureWebhooks } from "../../control/webhooks/ensureWebhooks.ts";
import { type WebhookClient, webhookConfigurations } from "../../control/webhooks/webhookConfigurations.ts";
import type { AdmissionLookup } from "../../model/objects/admissionHook.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import { UsageError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Random } from "../../ports/random.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { readKeysInFolder } from "./keysInFolder.ts";
import { openKeysInSecret, type WebhookKeys } from "./keysInSecret.ts";
import { startWebhookServer, type WebhookServer } from "./webhookServer.ts";

export interface WebhookFlags {
  /** `namespace/name`. */
  readonly webhookService?: string;
  readonly webhookHost?: string;
  /** The folder of a certificate that another program renews; it also writes the CA into the configurations. */
  readonly webhookCertDir?: string;
}

/** How the API server reaches the webhooks, from the flags; undefined without webhooks. */
export type Reached = { readonly service: { namespace: string; name: string } } | { readonly host: string };

export function reachedBy({ webhookService, webhookHost }: WebhookFlags): Reached | undefined {
  if (webhookService !== undefined && webhookHost !== undefined) {
    const problem = "--webhook-service and --webhook-host exclude each other";
    throw new UsageError("flags-conflict", problem, "pass one of them");
  }
  if (webhookHost !== undefined) return { host: webhookHost.replace(/^\[|\]$/g, "") };
  if (webhookService === undefined) return undefined;
  const [, namespace, name] = /^([a-z0-9-]+)\/([a-z0-9-]+)$/.exec(webhookService) ?? [];
  if (namespace === undefined || name === undefined) {
    const problem = `${JSON.stringify(webhookService)} is not a Service`;
    throw new UsageError("service-malformed", problem, "write it as namespace/name");
  }
  return { service: { namespace, name } };
}

const secretName = "muster-webhooks";
const servicePort = 443;
const problem = "the webhooks could not be set up";
/**
 * How often keys and configurations are read again: another process may have renewed the keys, a user may have changed
 * a configuration.
 */
const lookAgainMs = 10 * 60_000;
/** The interval of reads while configurations are missing, and of checks of the key files. */
const lookSoonMs = 5_000;
const lookAtFilesMs = 60_000;

export interface WebhookPorts {
  /** Not fenced by leadership: every replica serves webhooks. */
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/**
 * The admission hooks of the components as webhooks of a cluster: their keys, their server, and their configurations in
 * the API server.
 */
export class Webhooks {
  private readonly ports: WebhookPorts;
  private readonly components: readonly Component[];
  private readonly reached: Reached;
  private readonly namespace: string;
  private readonly isInstalled: boolean;
  private readonly folder: string | undefined;
  private missing: readonly string[] = [];
  private readonly lookup: AdmissionLookup;
  private server: WebhookServer | undefined;
  private stopTimer = (): void => {};

  /** Called before the controllers start, because the hooks read from their caches. */
  constructor(
    ports: WebhookPorts,
    controllers: Controllers,
    options: {
      readonly components: readonly Component[];
      readonly reached: Reached;
      readonly namespace: string;
      /** An installation created the configurations: this process only writes the client configuration. */
      readonly isInstalled?: boolean;
      readonly folder?: string | undefined;
    },
  ) {
    this.isInstalled = options.isInstalled ?? false;
    this.folder = options.folder;
    this.ports = ports;
    this.components = options.components;
    this.reached = options.reached;
    this.namespace = options.namespace;
    this.lookup = cachedLookup(controllers, this.hooks);
    // A Service only routes to ready pods.
    controllers.readiness.add("webhooks", () => (this.server === undefined ? "not served yet" : undefined));
  }

  /** Called when caches have synced: from here on the API server calls the webhooks. */
  async start(listen: { readonly host: string; readonly port: number }): Promise<void> {
    const keys = mustSucceed(await this.keys(), problem);
    const { hooks, lookup } = this;
    this.server = await startWebhookServer({ hooks, lookup, log: this.ports.log }, listen, keys.server);
    mustSucceed(await this.publish(this.server, keys), problem);
    this.lookAgainLater(this.server);
  }

  async stop(): Promise<void> {
    this.stopTimer();
    await this.server?.stop();
  }

  private get hooks() {
    return this.components.flatMap(({ hooks = [] }) => hooks);
  }

  private lookAgainLater(server: WebhookServer): void {
    const usualMs = this.folder === undefined ? lookAgainMs : lookAtFilesMs;
    this.stopTimer = this.ports.clock.after(this.missing.length > 0 ? lookSoonMs : usualMs, () => {
      void this.lookAgain(server).then(() => this.lookAgainLater(server));
    });
  }

  private async lookAgain(server: WebhookServer): Promise<void> {
    const keys = await this.keys();
    const outcome = keys.ok ? await this.publish(server, keys.value) : keys;
    if (keys.ok) server.useKeys(keys.value.server);
    if (!outcome.ok)
      this.ports.log.warn({ why: outcome.message }, "webhook keys or configurations could not be updated");
  }

  private keys(): Promise<Outcome<WebhookKeys>> {
    const { kube, random, clock } = this.ports;
    if (this.folder !== undefined) return readKeysInFolder(this.folder);
    const place = { namespace: this.namespace, name: secretName, hosts: hostsOf(this.reached) };
    return openKeysInSecret({ kube, random, nowMs: clock.nowMs() }, place);
  }

  private async publish(server: WebhookServer, keys: WebhookKeys): Promise<Outcome<undefined>> {
    if (this.folder !== undefined) return succeeded(undefined);
    const place = {
      client: clientOf(this.reached, server.port),
      authority: Buffer.from(keys.authority).toString("base64"),
      ownNamespace: this.namespace,
    };
    const wanted = webhookConfigurations(this.components, place);
    if (!this.isInstalled) return ensureWebhooks(this.ports.kube, wanted);
    const outcome = await ensureWebhookClients(this.ports.kube, wanted);
    if (!outcome.ok) return outcome;
    const { value: missing } = outcome;
    if (missing.join() !== this.missing.join()) {
      if (missing.length > 0)
        this.ports.log.warn({ missing }, "the API server does not call the webhooks: their configurations are missing");
      else this.ports.log.info({}, "the API server calls the webhooks: their configurations exist");
    }
    this.missing = missing;
    return succeeded(undefined);
  }
}

function hostsOf(reached: Reached): string[] {
  if ("host" in reached) return [reached.host];
  const { namespace, name } = reached.service;
  return [`${name}.${namespace}`, `${name}.${namespace}.svc`, `${name}.${namespace}.svc.cluster.local`];
}

function clientOf(reached: Reached, port: number): WebhookClient {
  if ("service" in reached) return { service: { ...reached.service, port: servicePort } };
  const { host } = reached;
  return { url: `https://${isIP(host) === 6 ? `[${host}]` : host}:${port}` };
}

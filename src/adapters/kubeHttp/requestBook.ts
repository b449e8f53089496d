import type { Resource } from "../../model/objects/resource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";

/** Verb and resource of a request, as RBAC names them: `patch`, `pods/status`, `queues.scheduling.run.ai`. */
export interface RequestKind {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";
  readonly resource: string;
}

export function resourceWord({ group, plural, subresource }: Resource & Partial<ObjectRef>): string {
  const kind = group === "" ? plural : `${plural}.${group}`;
  return subresource === undefined || subresource === "" ? kind : `${kind}/${subresource}`;
}

/** During an outage, or while requests are rejected with the same reason, a line is logged this often. */
const outageLineMs = 10_000;
const refusalLineMs = 60_000;
/** A shorter outage does not make the process unready. */
const outageMs = 15_000;
/** A missing right that was not needed since then may have been granted. */
const missingMs = 120_000;
/** A starting API server forbids every request until it has read its roles. */
const settledMs = 10_000;
/** Owner references may name any kind: a tenant must not create a time series for each. */
const resourcesMax = 200;

/** As client-go counts them. */
const noAnswer = "<error>";

interface Refusals {
  count: number;
  /** When the last line about it was logged. */
  saidMs: number;
}

/**
 * Outcomes of requests: counted by verb, resource and code, and logged per outage instead of per request. An
 * unreachable API server fails hundreds of requests a second.
 */
export class RequestBook {
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly metrics: Metrics | undefined;
  private readonly resources = new Set<string>();
  private readonly refusals = new Map<string, Refusals>();
  private readonly missing = new Map<string, { readonly sinceMs: number; readonly lastMs: number }>();
  private unanswered: { readonly sinceMs: number; failed: number; isSaid: boolean; why: string } | undefined;
  private outageSaidMs = Number.NEGATIVE_INFINITY;
  private unauthorizedSinceMs: number | undefined;

  constructor(ports: { readonly clock: Clock; readonly log: Log; readonly metrics?: Metrics | undefined }) {
    this.clock = ports.clock;
    this.log = ports.log;
    this.metrics = ports.metrics;
  }

  /** The server responded, with whatever code. */
  answered(request: RequestKind, code: number, message = ""): void {
    this.count(request, String(code));
    this.endOutage();
    const nowMs = this.clock.monotonicMs();
    const key = `${request.verb} ${request.resource}`;
    if (code === 401) this.unauthorizedSinceMs ??= nowMs;
    else this.unauthorizedSinceMs = undefined;
    if (code === 403 && isMissingRight(message)) {
      this.missing.set(key, { sinceMs: this.missing.get(key)?.sinceMs ?? nowMs, lastMs: nowMs });
    } else if (code !== 401 && code !== 403 && code !== 429 && code < 500) this.granted(request);
    if (code === 401 || code === 403 || code === 429) this.refused(request, code, message);
  }

  /** No response was received, or the request could not be sent. */
  broke(request: RequestKind, error: Error): void {
    this.count(request, noAnswer);
    const nowMs = this.clock.monotonicMs();
    this.unanswered ??= { sinceMs: nowMs, failed: 0, isSaid: false, why: "" };
    const outage = this.unanswered;
    outage.failed++;
    outage.why = error.message || String((error as NodeJS.ErrnoException).code ?? error.name);
    if (nowMs - this.outageSaidMs < outageLineMs) return;
    this.outageSaidMs = nowMs;
    outage.isSaid = true;
    const { failed, why, sinceMs } = outage;
    this.log.warn(
      { ...request, why, failed, forMs: Math.round(nowMs - sinceMs) },
      "requests get no answer from the API server",
    );
  }

  /** Why the API server cannot be used now, if so: it is unreachable, or rejects the credentials. */
  get outage(): string | undefined {
    const nowMs = this.clock.monotonicMs();
    if (this.unanswered !== undefined && nowMs - this.unanswered.sinceMs >= outageMs) {
      const { sinceMs, failed, why } = this.unanswered;
      return `no answer from the API server for ${seconds(nowMs - sinceMs)} s (${failed} requests: ${why})`;
    }
    if (this.unauthorizedSinceMs !== undefined && nowMs - this.unauthorizedSinceMs >= outageMs) {
      const forS = seconds(nowMs - this.unauthorizedSinceMs);
      return `the API server has refused the credentials for ${forS} s: check that the token or certificate is valid`;
    }
    return undefined;
  }

  /**
   * Rights that the process needs and lacks, by the last rejection of each. Not `get`, as a pod's owner may be of any
   * kind, and not Events, which nothing depends on.
   */
  get missingRights(): string | undefined {
    const nowMs = this.clock.monotonicMs();
    const lacking = [...this.missing]
      .filter(([, { sinceMs, lastMs }]) => lastMs - sinceMs >= settledMs && nowMs - lastMs < missingMs)
      .filter(([key]) => !key.startsWith("get ") && !/ events(\.|$)/.test(key))
      .map(([key]) => key)
      .sort();
    if (lacking.length === 0) return undefined;
    return `no permission to ${lacking.join(", ")}: compare the roles of this account with those that \`muster install --print\` shows`;
  }

  /** A kind is listed by a watch with initial events, or page by page: either shows it. */
  private granted({ verb, resource }: RequestKind): void {
    const verbs = verb === "list" || verb === "watch" ? ["list", "watch"] : [verb];
    for (const each of verbs) this.missing.delete(`${each} ${resource}`);
  }

  private endOutage(): void {
    const outage = this.unanswered;
    if (outage === undefined) return;
    this.unanswered = undefined;
    if (!outage.isSaid) return;
    const awayMs = Math.round(this.clock.monotonicMs() - outage.sinceMs);
    this.log.info({ failed: outage.failed, awayMs }, "the API server answers again");
  }

  private refused(request: RequestKind, code: 401 | 403 | 429, message: string): void {
    const key = `${code} ${request.verb} ${this.bounded(request.resource)}`;
    const nowMs = this.clock.monotonicMs();
    const known = this.refusals.get(key) ?? { count: 0, saidMs: Number.NEGATIVE_INFINITY };
    this.refusals.set(key, known);
    known.count++;
    if (nowMs - known.saidMs < refusalLineMs) return;
    const { count } = known;
    known.count = 0;
    known.saidMs = nowMs;
    this.log.warn({ ...request, code, refused: count, why: message }, refusalMessages[code]);
  }

  private count({ verb, resource }: RequestKind, code: string): void {
    this.metrics?.count("muster_api_requests_total", { verb, resource: this.bounded(resource), code });
  }

  private bounded(resource: string): string {
    if (this.resources.has(resource)) return resource;
    if (this.resources.size >= resourcesMax) return "other";
    this.resources.add(resource);
    return resource;
  }
}

const refusalMessages = {
  401: "the API server rejects the credentials",
  403: "the API server forbids a request",
  429: "the API server is overloaded and rejects requests",
} as const;

/** Quotas, policies and terminating namespaces answer 403 as well; only RBAC has this text. */
function isMissingRight(message: string): boolean {
  return /\bcannot \w+ resource\b/.test(message);
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}

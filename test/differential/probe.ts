/** Sends one request to both servers and remembers what differed. A suite is a function of a probe. */
import type { Answer, Loose } from "./apiUnderTest.ts";
import { brief, type Difference, differences } from "./difference.ts";
import type { Peers } from "./peers.ts";

export interface Case {
  readonly name: string;
  readonly request: string;
  readonly body: string;
  readonly status: { real: number; ours: number };
  readonly messages: { real: string; ours: string };
  readonly differences: Difference[];
}

export interface Options {
  readonly headers?: Record<string, string | null>;
  /** Sent to our server instead of the body, where versions and uids differ. */
  readonly ours?: unknown;
  /** Paths of differences that do not count here. */
  readonly ignore?: RegExp;
  readonly keep?: (body: Loose) => Loose;
}

export interface Both {
  readonly real: Answer;
  readonly ours: Answer;
}

export const namespace = "probe";
export const patchTypes = {
  merge: { "Content-Type": "application/merge-patch+json" },
  json: { "Content-Type": "application/json-patch+json" },
  strategic: { "Content-Type": "application/strategic-merge-patch+json" },
  apply: { "Content-Type": "application/apply-patch+yaml" },
} as const;
export const accepts = {
  table: "application/json;as=Table;v=v1;g=meta.k8s.io",
  partial: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
  partials: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
} as const;

export class Probe {
  readonly cases: Case[] = [];
  readonly peers: Peers;

  constructor(peers: Peers) {
    this.peers = peers;
  }

  /** The same request to both, without a comparison: to set a stage or to clear it. */
  async both(method: string, path: string, body?: unknown, options: Options = {}): Promise<Both> {
    const { headers, ours = body } = options;
    const [real, mine] = await Promise.all([
      this.peers.real.send(method, path, body, headers),
      this.peers.ours.send(method, path, ours, headers),
    ]);
    return { real, ours: mine };
  }

  async compare(name: string, method: string, path: string, body?: unknown, options: Options = {}): Promise<Both> {
    const answers = await this.both(method, path, body, options);
    this.record(name, `${method} ${path}`, body, answers, options);
    return answers;
  }

  record(name: string, request: string, body: unknown, answers: Both, options: Options = {}): void {
    const found = differences(answers, this.peers, options.keep).filter(({ path }) => !options.ignore?.test(path));
    this.cases.push({
      name,
      request,
      body: body === undefined ? "" : Buffer.isBuffer(body) ? brief(body.toString("utf8")) : brief(body, 700),
      status: { real: answers.real.status, ours: answers.ours.status },
      messages: { real: brief(answers.real.json?.message), ours: brief(answers.ours.json?.message) },
      differences: found,
    });
  }

  /** Requests that do not depend on each other, a few at a time. */
  async all<T>(items: Iterable<T>, each: (item: T) => Promise<unknown>, atOnce = 8): Promise<void> {
    const queue = [...items];
    const worker = async () => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await each(next);
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  /** A namespace with its service account, on both. */
  async namespace(name = namespace, labels: Record<string, string> = {}): Promise<void> {
    await this.both("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } });
    await this.until("GET", `/api/v1/namespaces/${name}/serviceaccounts/default`, ({ status }) => status === 200);
  }

  /** Asks both until both answers will do, for what controllers write; gives up after ten seconds. */
  async until(method: string, path: string, holds: (answer: Answer) => boolean): Promise<Both> {
    for (let attempt = 0; ; attempt++) {
      const answers = await this.both(method, path);
      if ((holds(answers.real) && holds(answers.ours)) || attempt === 50) return answers;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

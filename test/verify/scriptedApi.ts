/** A cluster that follows a script: what there is at which moment, and which calls go wrong. Time is the test's own. */
import type { KindName } from "../../src/decide/verify/readKinds.ts";
import { readKinds } from "../../src/decide/verify/readKinds.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { type Outcome, type Refusal, refused, succeeded } from "../../src/model/outcome.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { KubeApi, KubeList, ListOptions, Watch, WatchOptions, WatchSink } from "../../src/ports/kubeApi.ts";

/** Everything there is from `atS` seconds on. A kind that is left out stays as it was. */
export type Moment = { readonly atS: number } & { readonly [K in KindName]?: readonly KubeObject[] };

export interface Script {
  readonly moments: readonly Moment[];
  /** Asked before every list; an answer is the refusal that the caller gets. */
  readonly refuse?: (call: ListCall) => Refusal | undefined;
  /** Asked before every list: true is a call that nobody answers. */
  readonly hang?: (call: ListCall) => boolean;
  /** Calls that hang do not end when they are cancelled either. */
  readonly deaf?: boolean;
  /** Asked before every list that goes on from a token: true answers from another revision than it began at. */
  readonly drift?: (call: ListCall) => boolean;
  /** How long every list takes. */
  readonly takesS?: number;
  /** Changes of pods are told to watchers. Without it a watch is silent. */
  readonly watches?: boolean;
  /** Kinds that are kept in another store: plain lists of them have its revision. */
  readonly revisionOf?: { readonly [K in KindName]?: string };
  /** Lists come in pages of this size. */
  readonly pageSize?: number;
}

export interface ListCall {
  readonly kind: string;
  readonly atS: number;
  /** Counts lists of this kind from 1. */
  readonly nth: number;
  readonly options: ListOptions;
}

const firstRevision = 100;

export class ScriptedApi implements KubeApi {
  readonly calls: ListCall[] = [];
  private readonly clock: Clock;
  private readonly script: Script;
  private readonly startMs: number;

  constructor(clock: Clock, script: Script) {
    this.clock = clock;
    this.script = script;
    this.startMs = clock.nowMs();
  }

  /** How often each kind was listed. */
  get listsByKind(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { kind } of this.calls) counts[kind] = (counts[kind] ?? 0) + 1;
    return counts;
  }

  async list<T extends KubeObject>(ref: Resource<T>, options: ListOptions = {}): Promise<Outcome<KubeList<T>>> {
    const kind = ref.plural;
    const nth = this.calls.filter((call) => call.kind === kind).length + 1;
    const call = { kind, atS: this.nowS, nth, options };
    this.calls.push(call);
    if (this.script.hang?.(call) === true) {
      return new Promise((resolve) => {
        if (this.script.deaf !== true)
          options.cancel?.onCancel(() => resolve(refused("Unknown", "cancelled by the caller")));
      });
    }
    const { takesS } = this.script;
    if (takesS !== undefined) await new Promise<void>((resolve) => void this.clock.after(takesS * 1000, resolve));
    const refusal = this.script.refuse?.(call);
    if (refusal !== undefined) return refusal;
    const token = options.continueToken === undefined ? undefined : options.continueToken.split("/").map(Number);
    const at =
      token?.[0] ?? (options.resourceVersionMatch === "Exact" ? Number(options.resourceVersion) : this.revision);
    const objects = this.objectsAt(at - firstRevision, kind as KindName);
    if (objects === undefined) return refused("NotFound", `the server could not find ${kind}`);
    const from = token?.[1] ?? 0;
    const until = this.script.pageSize === undefined ? objects.length : from + this.script.pageSize;
    const next = until < objects.length ? { continueToken: `${at}/${until}` } : {};
    const elsewhere = options.resourceVersionMatch === "Exact" ? undefined : this.script.revisionOf?.[kind as KindName];
    const drifted = token !== undefined && this.script.drift?.(call) === true ? String(at + 1) : undefined;
    return succeeded({
      revision: drifted ?? elsewhere ?? String(at),
      items: objects.slice(from, until) as T[],
      ...next,
    });
  }

  watch(_: Resource, options: WatchOptions, sink: WatchSink): Watch {
    const cancels: (() => void)[] = [];
    if (this.script.watches === true) {
      const from = Number(options.resourceVersion) - firstRevision;
      for (const [index, moment] of this.script.moments.entries()) {
        if (index <= from || moment.pods === undefined) continue;
        const before = new Map((this.objectsAt(index - 1, "pods") ?? []).map((pod) => [pod.metadata.uid, pod]));
        const tell = (): void => {
          for (const pod of moment.pods ?? []) {
            const old = before.get(pod.metadata.uid);
            before.delete(pod.metadata.uid);
            if (old !== pod) sink.event({ type: old === undefined ? "ADDED" : "MODIFIED", object: pod });
          }
          for (const pod of before.values()) sink.event({ type: "DELETED", object: pod });
        };
        cancels.push(this.clock.after(Math.max(0, this.startMs + moment.atS * 1000 - this.clock.nowMs()), tell));
      }
    }
    return {
      stop: () => {
        for (const cancel of cancels) cancel();
      },
    };
  }

  get = this.unused;
  create = this.unused;
  update = this.unused;
  patch = this.unused;
  delete = this.unused;
  bind = this.unused;
  evict = this.unused;

  /** Verification reads and never writes. */
  private unused(): never {
    throw new Error("verify must only list and watch");
  }

  private get nowS(): number {
    return (this.clock.nowMs() - this.startMs) / 1000;
  }

  private get revision(): number {
    return (
      firstRevision +
      Math.max(
        0,
        this.script.moments.findLastIndex(({ atS }) => atS <= this.nowS),
      )
    );
  }

  private objectsAt(index: number, kind: KindName): readonly KubeObject[] | undefined {
    for (let at = index; at >= 0; at--) {
      const objects = this.script.moments[at]?.[kind];
      if (objects !== undefined) return objects;
    }
    return "builtin" in readKinds[kind] ? [] : undefined;
  }
}

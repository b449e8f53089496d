import type { KubeObject, Unstored } from "../model/objects/object.ts";
import type { Resource } from "../model/objects/resource.ts";
import { type Outcome, type Refusal, refused } from "../model/outcome.ts";
import type { Cancel } from "../ports/cancel.ts";
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
  WatchOptions,
  WatchSink,
  WriteOptions,
} from "../ports/kubeApi.ts";
import type { Actor } from "./actor.ts";
import { drawFate, type Fate, fateOf, timeoutUs, wayUs } from "./callFate.ts";
import { hashText } from "./chance.ts";
import { type CallRecord, objectKey } from "./history.ts";
import type { Simulation } from "./simulation.ts";
import { SimWatch } from "./simWatch.ts";

/** The largest page of a list, whatever limit the client sends. */
const pageSize = 2;

/**
 * The API of one process: the server's own verbs behind a network that delays and loses responses, and in some runs
 * behind lagging replicas. A write may first wait in its client; then every call is two events, its arrival at the
 * server and the arrival of the response.
 */
export class SimKube implements KubeApi {
  private readonly simulation: Simulation;
  private readonly actor: Actor;
  private readonly life: number;
  private readonly server: KubeApi;
  /**
   * The pages so far of lists that are not complete, by resource and continue token: different resources may use equal
   * tokens.
   */
  private readonly pages = new Map<string, KubeObject[]>();
  /** Whether the server supports watches with initial events. */
  private canStream: boolean | undefined;

  constructor(simulation: Simulation, actor: Actor, server: KubeApi) {
    this.simulation = simulation;
    this.actor = actor;
    this.life = actor.life;
    this.server = server;
  }

  get<T extends KubeObject>(ref: ObjectRef<T>, options: CallOptions = {}): Promise<Outcome<T>> {
    const call = { verb: "get", ...about(ref), write: false, ...limits(options) };
    return this.call(call, () => this.server.get(ref), this.learnOne(ref));
  }

  list<T extends KubeObject>(kind: Resource<T>, options: ListOptions = {}): Promise<Outcome<KubeList<T>>> {
    const { cancel, maySend: _, ...asked } = options;
    const call = { verb: "list", resource: resourceOf(kind), namespace: "", name: "", write: false, cancel };
    const key = this.simulation.chance.nth(`${this.actor.name}|list|${resourceOf(kind)}`);
    return this.call(
      call,
      () => this.listNow(kind, asked, key),
      (list) => this.learnList(resourceOf(kind), list, asked),
    );
  }

  watch<T extends KubeObject>(kind: Resource<T>, options: WatchOptions, sink: WatchSink<T>): Watch {
    const resource = resourceOf(kind);
    if (this.actor.life !== this.life) return { stop: () => {} };
    const { simulation, actor, server } = this;
    this.canStream ??=
      simulation.decide("no-streaming", simulation.chance.nth(`${actor.name}|dialect`), (dice, strength) =>
        dice.perMille(300 * strength) ? 1 : 0,
      ) === 0;
    const about = { simulation, actor, server, kind, resource, options, sink, canStream: this.canStream };
    return new SimWatch(about);
  }

  create<T extends KubeObject>(
    kind: Resource<T>,
    object: Unstored<T>,
    options: WriteOptions = {},
  ): Promise<Outcome<T>> {
    const { namespace = "", name, generateName } = object.metadata;
    const ref = { ...kind, namespace, name: name || `${generateName ?? ""}*` };
    const call = { verb: "create", ...about(ref), write: true, ...limits(options), object, named: Boolean(name) };
    return this.call(call, () => this.server.create(kind, object, sendable(options)), this.learnOne(kind));
  }

  update<T extends KubeObject>(ref: ObjectRef<T>, object: T, options: WriteOptions = {}): Promise<Outcome<T>> {
    const { uid, resourceVersion } = object.metadata;
    const preconditions = { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) };
    const changes = options.dryRun !== true;
    const call = { verb: "update", ...about(ref), write: true, changes, ...limits(options), preconditions };
    return this.call(call, () => this.server.update(ref, object, sendable(options)), this.learnOne(ref));
  }

  patch<T extends KubeObject>(ref: ObjectRef<T>, patch: Patch<T>, options: WriteOptions = {}): Promise<Outcome<T>> {
    const preconditions = preconditionsIn(patch);
    const changes = options.dryRun !== true;
    const call = { verb: "patch", ...about(ref), write: true, changes, ...limits(options), preconditions };
    return this.call(call, () => this.server.patch(ref, patch, sendable(options)), this.learnOne(ref));
  }

  delete<T extends KubeObject>(ref: ObjectRef<T>, options: DeleteOptions = {}): Promise<Outcome<T | undefined>> {
    const { cancel, maySend, ...asked } = options;
    const preconditions = options.preconditions ?? {};
    const call = { verb: "delete", ...about(ref), write: true, cancel, maySend, preconditions };
    return this.call(call, () => this.server.delete(ref, asked));
  }

  bind(pod: ObjectRef, binding: BindTarget, options: WriteOptions = {}): Promise<Outcome<undefined>> {
    const { uid, resourceVersion } = binding;
    const preconditions = { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) };
    const call = { verb: "bind", ...about(pod), write: true, ...limits(options), preconditions };
    return this.call(call, () => this.server.bind(pod, binding, sendable(options)));
  }

  evict(pod: ObjectRef, options: DeleteOptions = {}): Promise<Outcome<undefined>> {
    const { cancel, maySend, ...asked } = options;
    const preconditions = options.preconditions ?? {};
    const call = { verb: "evict", ...about(pod), write: true, cancel, maySend, preconditions };
    return this.call(call, () => this.server.evict(pod, asked));
  }

  private call<T>(
    about: CallAbout,
    run: () => Promise<Outcome<T>>,
    learn: (value: T) => void = () => {},
  ): Promise<Outcome<T>> {
    const { simulation, actor, life } = this;
    // A crashed process receives no responses. Its code may still run to its next await.
    if (actor.life !== life) return new Promise(() => {});
    const taken = takenBack(about);
    if (taken !== undefined) return Promise.resolve(taken);
    const target = objectKey(about.resource, about.namespace, about.name);
    const key = simulation.chance.nth(`${actor.name}|${about.verb}|${target}`);
    const asked = {
      requestedUs: simulation.nowUs,
      requestedOwnMs: simulation.ownMs(actor),
      seen: actor.knowledge.get(target),
    };
    const waitUs = about.write ? this.queuedUs(key) : 0;
    if (waitUs === 0) return this.leave({ about, run, learn, target, key, asked });
    return new Promise<Outcome<T>>((resolve) => {
      const forget = about.cancel?.onCancel(() => resolve(refused("Unavailable", "cancelled before it was sent")));
      simulation.post({ actor, life }, waitUs, hashText(simulation.chance.seed, key), () => {
        forget?.();
        const late = takenBack(about);
        if (late !== undefined) resolve(late);
        else void this.leave({ about, run, learn, target, key, asked }).then(resolve);
      });
    });
  }

  /** Sends the call. From here on the network decides. */
  private leave<T>({ about, run, learn, target, key, asked }: Leaving<T>): Promise<Outcome<T>> {
    const { simulation, actor, life } = this;
    const fate = this.fate(about, key);
    const record = this.record(about, target, fate, asked);
    simulation.sent(record);
    if (fate.kind !== "none") simulation.fault(actor.name, `${fate.kind}: ${about.verb} ${target}`);
    return new Promise<Outcome<T>>((resolve) => {
      const tie = hashText(simulation.chance.seed, key);
      let forget = (): void => {};
      let givenUp = false;
      const answer = (outcome: Outcome<T>, delayUs: number): void => {
        simulation.post({ actor, life }, delayUs, tie, () => {
          forget();
          if (givenUp) return;
          simulation.history.count(simulation.nowUs, key, outcome.ok ? "ok" : outcome.reason);
          if (outcome.ok) learn(outcome.value);
          resolve(outcome);
        });
      };
      const arrive = (answering: boolean): void => {
        if (simulation.outages.isAway) {
          lost();
          if (answering) answer(refused(about.write ? "Unknown" : "Unavailable", "connection reset"), wayUs);
          return;
        }
        if (fate.kind === "crash-after") simulation.kill(actor, `after ${about.verb} ${target}`);
        const before = simulation.core.store.revision;
        simulation.act(record, key, run).then(
          (outcome) => {
            if (outcome.ok && about.changes === true) {
              const { metadata } = outcome.value as KubeObject;
              simulation.accepted(record, before, Number(metadata.resourceVersion));
            }
            simulation.over(record);
            if (answering) answer(outcome, wayUs + (tie % wayUs) + this.slow(key, "answer"));
          },
          (error: unknown) => simulation.fail("bug", "the server does not throw", String(error)),
        );
      };
      const lost = (): void => simulation.over(record);
      const thereUs = wayUs + ((tie >>> 8) % wayUs) + this.slow(key, "request");
      switch (fate.kind) {
        case "none":
        case "crash-after":
          simulation.later(thereUs, tie, () => arrive(true));
          break;
        case "timeout-after":
          simulation.later(thereUs, tie, () => arrive(false));
          answer(refused("Unknown", "timed out"), timeoutUs);
          break;
        case "lands-late":
          simulation.later(fate.delayMs * 1000, tie, () => arrive(false));
          answer(refused("Unknown", "timed out"), timeoutUs);
          break;
        case "timeout-before":
          lost();
          answer(refused(about.write ? "Unknown" : "Unavailable", "timed out"), timeoutUs);
          break;
        case "conflict":
        case "busy":
        case "outage":
          lost();
          answer(fate.refusal, thereUs + wayUs);
          break;
        case "crash-before":
          lost();
          simulation.kill(actor, `before it sent ${about.verb} ${target}`);
          break;
      }
      // The caller of a cancelled call does not get its outcome.
      forget =
        about.cancel?.onCancel(() => {
          givenUp = true;
          if (actor.life === life) resolve(refused("Unknown", "cancelled while waiting for the answer"));
        }) ?? forget;
    });
  }

  private fate({ resource, write }: CallAbout, key: string): Fate {
    const drawn = fateOf(drawFate(this.simulation, key, write));
    const refusal = this.simulation.outages.refusal(resource);
    return refusal === undefined ? drawn : { kind: "outage", refusal };
  }

  private record(about: CallAbout, key: string, fate: Fate, asked: CallStart): CallRecord {
    const { simulation, actor } = this;
    return {
      actor: actor.name,
      life: actor.life,
      verb: about.verb,
      key,
      ...asked,
      sentUs: simulation.nowUs,
      preconditions: about.preconditions ?? {},
      object: about.object,
      named: about.named ?? true,
      fault: fate.kind === "none" ? "" : fate.kind,
    };
  }

  /** How long a write waits in its client, for a free connection or for new credentials. */
  private queuedUs(key: string): number {
    return this.simulation.decide("client-queue", key, (dice, strength) => {
      if (!dice.perMille(40 * strength)) return 0;
      return dice.between(500, dice.below(4) === 0 ? 5_000_000 : 200_000);
    });
  }

  private slow(key: string, way: string): number {
    return this.simulation.decide("slow-call", `${key}|${way}`, (dice, strength) => {
      if (!dice.perMille(60 * strength)) return 0;
      const span = dice.below(20);
      return dice.between(500, span === 0 ? 3_000_000 : span < 6 ? 300_000 : 20_000);
    });
  }

  private listNow<T extends KubeObject>(
    kind: Resource<T>,
    options: ListOptions,
    key: string,
  ): Promise<Outcome<KubeList<T>>> {
    const { simulation } = this;
    // Small pages, so that a list of a small store has several.
    const asked = options.limit === undefined ? options : { ...options, limit: Math.min(options.limit, pageSize) };
    const { resourceVersion, resourceVersionMatch, continueToken, limit } = asked;
    if (limit !== undefined) {
      const page = simulation.decide("partial-page", key, (dice, strength) =>
        dice.perMille(150 * strength) ? dice.between(1, 2) : 0,
      );
      if (page === 2 && continueToken !== undefined) {
        return Promise.resolve(refused("Expired", "the continue token is too old"));
      }
      if (page > 0) return this.server.list(kind, { ...asked, limit: 1 });
    }
    if (resourceVersionMatch === "Exact" || continueToken !== undefined) return this.server.list(kind, asked);
    // A read without a resourceVersion must return the newest state. If it does not, the revision of the response shows
    // it.
    const fault = resourceVersion === undefined ? "lagging-replica" : "stale-read";
    const lagMs = simulation.decide(fault, key, (dice, strength) =>
      dice.perMille((fault === "stale-read" ? 250 : 40) * strength) ? dice.between(1, 5_000) : 0,
    );
    if (lagMs === 0) return this.server.list(kind, asked);
    const revision = String(Math.max(simulation.revisionBefore(lagMs * 1000), Number(resourceVersion ?? "0")));
    return this.server.list(kind, { ...asked, resourceVersion: revision, resourceVersionMatch: "Exact" });
  }

  /**
   * The objects of a list count as observed when its last page has arrived.
   */
  private learnList(resource: string, list: KubeList, asked: ListOptions): void {
    const { continueToken: continued, namespace = "", labelSelector = "", fieldSelector = "" } = asked;
    const keyOfPage = (token: string): string => [resource, namespace, labelSelector, fieldSelector, token].join(" ");
    const before = continued === undefined ? [] : (this.pages.get(keyOfPage(continued)) ?? []);
    const items = [...before, ...list.items];
    if (list.continueToken !== undefined) {
      this.pages.set(keyOfPage(list.continueToken), items);
      return;
    }
    // A cache of the kind lists all of it; a list by name or by labels is a read beside the cache.
    const isRead = fieldSelector.includes("metadata.name=") || labelSelector !== "";
    const via = isRead ? "answer" : "stream";
    for (const object of items) this.simulation.delivered(this.actor, { resource, object, gone: false, via });
  }

  private learnOne(kind: Resource): (object: KubeObject) => void {
    const resource = resourceOf(kind);
    return (object) => this.simulation.delivered(this.actor, { resource, object, gone: false, via: "answer" });
  }
}

/** When a call was requested, and what its author had observed. */
type CallStart = Pick<CallRecord, "requestedUs" | "requestedOwnMs" | "seen">;

interface Leaving<T> {
  readonly about: CallAbout;
  readonly run: () => Promise<Outcome<T>>;
  readonly learn: (value: T) => void;
  readonly target: string;
  readonly key: string;
  readonly asked: CallStart;
}

interface CallAbout {
  readonly verb: string;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly write: boolean;
  /** An update or a patch that is no dry run. */
  readonly changes?: boolean;
  readonly cancel?: Cancel | undefined;
  readonly maySend?: (() => boolean) | undefined;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly object?: Unstored;
  readonly named?: boolean;
}

/** Why a call must not be sent any more; undefined if it may. */
function takenBack({ cancel, maySend }: CallAbout): Refusal | undefined {
  if (cancel?.cancelled === true) return refused("Unavailable", "cancelled before it was sent");
  return maySend?.() === false ? refused("Fenced", "withdrawn before it was sent") : undefined;
}

function about(ref: ObjectRef): { resource: string; namespace: string; name: string } {
  return { resource: resourceOf(ref), namespace: ref.namespace, name: ref.name };
}

/** The store's name of a resource: `apps/deployments`, `/pods`. */
function resourceOf({ group, plural }: Resource): string {
  return `${group}/${plural}`;
}

/** The options that are sent to the server; `cancel` and `maySend` stay in the client. */
function sendable<T extends CallOptions>({ cancel: _, maySend: __, ...options }: T): Omit<T, "cancel" | "maySend"> {
  return options;
}

function limits({ cancel, maySend }: CallOptions): Pick<CallAbout, "cancel" | "maySend"> {
  return { cancel, maySend };
}

function preconditionsIn(patch: Patch): { uid?: string; resourceVersion?: string } {
  const { metadata } = (patch.body ?? {}) as { metadata?: { uid?: string; resourceVersion?: string } };
  const { uid, resourceVersion } = metadata ?? {};
  return { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) };
}

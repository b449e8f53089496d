import type { ApplyOptions, Written } from "../../intents/applyIntent.ts";
import { type FreshObject, lookAgain, lookAtVictim, type Recheck } from "../../intents/lookAgain.ts";
import { assert } from "../../model/assert.ts";
import { type DestructiveIntent, type Intent, intentId, resourceKey } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, refused, succeeded } from "../../model/outcome.ts";
import type { Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import type { AssumeCache } from "../../snapshot/assumeCache.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import { inParallel } from "./inParallel.ts";
import type { Writer } from "./writer.ts";

/** An intent and its effects. */
export interface Decision<V = never> {
  readonly intent: Intent;
  readonly effects?: readonly Effect<V>[];
}

/** A delete or an eviction that a second, consistent read has to confirm. */
export interface Removal<V = never> {
  readonly intent: DestructiveIntent;
  /** Pure. Gets the victim as the second read shows it, and uses that version as the precondition. */
  recheck(fresh: FreshObject): Recheck;
  effects?(victim: KubeObject): readonly Effect<V>[];
}

export interface Committed {
  readonly intent: Intent;
  readonly outcome: Outcome<Written>;
}

/** The author of a write: the reconcile of a key. */
export interface Author {
  /** Controller and key. */
  readonly name: string;
  /** Enqueues the key. */
  readonly wake: () => void;
}

/** How the writes of one decision follow each other. */
export interface Pace {
  /** The largest number of writes in flight at once. */
  readonly atOnce: number;
  /**
   * Writes that start slowly: one, then twice as many in each batch, so that a quota that refuses all of them is asked
   * once.
   */
  readonly ramp: "creates" | "all" | "none";
  /**
   * Which writes a refusal stops. `sort`: the rest of the same verb and kind, unless the refusal concerns one object
   * only; verbs and kinds are sent one after the other.
   */
  readonly stop: "sort" | "all" | "never";
}

export interface CommitOptions extends ApplyOptions {
  /**
   * Tracks the writes until the watch has delivered them; see resolveWrites. Without an author the next reconcile
   * decides again.
   */
  readonly author?: Author;
  readonly pace?: Pace;
  /** Called when all of them count, before the first one is sent. */
  readonly counted?: () => void;
  /** Called with each outcome when it arrives, and the index of its decision. */
  readonly tell?: (committed: Committed, at: number) => void;
}

/** A removal counts after its read, so there is no moment at which all of them count. */
export type RemoveOptions = Omit<CommitOptions, "counted">;

export interface ResolveOptions {
  readonly cancel?: Cancel;
  /** What to do with a write that did not happen, as a read shows: decide again, or send it again. */
  readonly unproven?: "drop" | "send";
}

const oneByOne: Pace = { atOnce: 1, ramp: "none", stop: "never" };
/** The number of writes without an answer that are looked up at once. */
const readsAtOnce = 64;

interface Open<V> extends Decision<V> {
  readonly author: Author;
}

type Sender = Pick<Writer, "apply">;
type Numbered<T> = [at: number, each: T];
type Stop = "sort" | "all";

/**
 * The writes of a component's controllers that the watch has not delivered yet, and the only way to send them. All
 * writes of a decision count before the first one is sent, so that a decision that is taken meanwhile includes them. A
 * key can wait until it has none in flight:
 *
 *   replica set controller       API                        our watch
 *   t0  3 wanted, 0 seen  -->    3 pods, revision 7 to 9    revision 6
 *   t1  an event, a reconcile                               revision 8: 2 seen, and 1 still in flight, so: wait
 *   t2                                                      revision 9: 3 seen, nothing in flight, decide
 *
 * Upstream counts expectations for this and lets them expire after five minutes. Here each write is looked up by its
 * own revision in the ledger, so nothing expires and nothing is miscounted. A write without an answer is resolved by a
 * consistent read. If it has not happened, it is dropped and decided again from the current state: names are derived
 * from identity, so a late first attempt and the second one meet under one name.
 */
export class InFlightWrites<V = never> {
  readonly assumeCache: AssumeCache<V>;
  private readonly kube: KubeReads;
  private readonly writer: Sender;
  private readonly open = new Map<string, Open<V>>();
  private readonly byAuthor = new Map<string, Set<Open<V>>>();
  /** Intents whose outcome was unknown and may be known by now. */
  private readonly unknown = new Set<Open<V>>();
  /** The author whose own call completes writes now: it is running, and is not enqueued for them. */
  private acting: string | undefined;

  constructor({ kube, writer }: { readonly kube: KubeReads; readonly writer: Sender }, assumeCache: AssumeCache<V>) {
    this.kube = kube;
    this.writer = writer;
    this.assumeCache = assumeCache;
    assumeCache.onEnd((id) => this.release(id));
  }

  /**
   * Sends what was decided and returns the outcomes, in order. Writes that a refusal stopped are not among them. A
   * decision on a version that has changed, or on an object with a write in flight, is not sent: its outcome is a
   * conflict.
   */
  async commit(decisions: readonly Decision<V>[], options: CommitOptions = {}): Promise<Committed[]> {
    const { author, pace = oneByOne, counted, tell, ...sending } = options;
    const outcomes: Outcome<Written>[] = [];
    const verdicts = decisions.map((decision) => this.count(decision, author));
    counted?.();
    const answered = (at: number, intent: Intent, outcome: Outcome<Written>): Stop | undefined => {
      outcomes[at] = outcome;
      tell?.({ intent, outcome }, at);
      return outcome.ok ? undefined : stoppedBy(outcome, pace, sending.cancel);
    };
    const run = async ([at, { intent }]: Numbered<Decision<V>>): Promise<Stop | undefined> =>
      answered(at, intent, await this.send(intent, sending, author));
    let stopped: Stop | undefined;
    const all = [...decisions.entries()].filter(([at, { intent }]) => {
      if (verdicts[at] !== "stale") return true;
      stopped = answered(at, intent, movedOn(intent));
      return false;
    });
    try {
      if (stopped !== "all") await inOrder(all, pace, run);
    } finally {
      for (const [at, { intent }] of all) {
        if (verdicts[at] !== "decided" || this.assumeCache.stateOf(intent) !== "decided") continue;
        this.as(author, () => this.assumeCache.abandon(intent));
      }
    }
    return decisions.flatMap(({ intent }, at) => {
      const outcome = outcomes[at];
      return outcome === undefined ? [] : [{ intent, outcome }];
    });
  }

  /** The same for one. */
  async commitOne(decision: Decision<V>, options: CommitOptions = {}): Promise<Outcome<Written>> {
    const [committed] = await this.commit([decision], options);
    assert(committed !== undefined, () => `${intentId(decision.intent)} has no outcome`);
    return committed.outcome;
  }

  /**
   * Reads each victim again, and deletes or evicts those that still are victims. A victim that is gone or kept has no
   * outcome. Outcomes are reported, paced and stopped as those of `commit`; each removal counts after its read.
   */
  async remove(removals: readonly Removal<V>[], options: RemoveOptions = {}): Promise<Committed[]> {
    const { pace = oneByOne, tell, ...sending } = options;
    const outcomes: Committed[][] = [];
    await inOrder([...removals.entries()], pace, async ([at, removal]) => {
      const removed = await this.removeOne(removal, sending);
      if (removed === undefined) return undefined;
      outcomes[at] = [removed];
      tell?.(removed, at);
      return removed.outcome.ok ? undefined : stoppedBy(removed.outcome, pace, sending.cancel);
    });
    return outcomes.flat();
  }

  private async removeOne(removal: Removal<V>, options: RemoveOptions): Promise<Committed | undefined> {
    const { intent } = removal;
    const look = { atLeast: this.revisionOf(intent), ...(options.cancel && { cancel: options.cancel }) };
    const looked = await lookAtVictim(this.kube, intent, (fresh) => removal.recheck(fresh), look);
    if (!looked.ok) return { intent, outcome: looked };
    if ("noLongerDue" in looked.value) return undefined;
    const { still, victim } = looked.value;
    const outcome = await this.commitOne({ intent: still, effects: removal.effects?.(victim) ?? [] }, options);
    return !outcome.ok && outcome.reason === "NotFound" ? undefined : { intent: still, outcome };
  }

  /**
   * Whether the author may decide on what the watch shows. `waiting`: it has writes in flight, and is enqueued when the
   * last of them is observed. A refusal: the outcome of a write could not be resolved.
   */
  async resolveWrites(
    author: Author,
    { cancel, unproven = "drop" }: ResolveOptions,
  ): Promise<"clear" | "waiting" | Refusal> {
    const options = cancel === undefined ? {} : { cancel };
    let refusal: Refusal | undefined;
    await inParallel(this.unknownOf(author), readsAtOnce, async ({ intent }) => {
      const resolved = await this.resolve(intent, options, author);
      if (!resolved.ok) refusal ??= resolved;
      else if (!resolved.value && unproven === "drop") this.as(author, () => this.assumeCache.abandon(intent));
      // A refusal of the second attempt proves nothing about the first one, which may still land.
      else if (!resolved.value) await this.send(intent, options, author);
    });
    return refusal ?? (this.byAuthor.has(author.name) ? "waiting" : "clear");
  }

  /**
   * Looks up an intent of unknown outcome by a consistent read of its object. False when the read proves nothing: the
   * object has not changed, and the write may still land.
   */
  async resolve(intent: Intent, options: ApplyOptions = {}, author?: Author): Promise<Outcome<boolean>> {
    const fresh = await lookAgain(this.kube, intent.target, { atLeast: this.revisionOf(intent), ...options });
    if (!fresh.ok) return fresh;
    this.as(author, () => this.assumeCache.read(intent, fresh.value));
    return succeeded(this.assumeCache.stateOf(intent) !== "unknown");
  }

  /** In flight, or done and not observed yet: the watch will enqueue the keys concerned. */
  isUnderWay(intent: Intent): boolean {
    const state = this.assumeCache.stateOf(intent);
    return state !== undefined && state !== "decided" && state !== "unknown";
  }

  /** Nothing that the author has sent so far can take effect any more, if it has not already. */
  forget(author: Author): void {
    for (const { intent } of this.unknownOf(author)) this.as(author, () => this.assumeCache.abandon(intent));
  }

  /** Its writes of unknown outcome. */
  inDoubt(author: Author): readonly Intent[] {
    return this.unknownOf(author).map(({ intent }) => intent);
  }

  /** The write can take effect no more, and has not. */
  abandon(intent: Intent, author: Author): void {
    this.as(author, () => this.assumeCache.abandon(intent));
  }

  private revisionOf({ target }: Intent): Revision {
    return this.assumeCache.snapshot().kind(resourceKey(target)).revision;
  }

  private unknownOf({ name }: Author): Open<V>[] {
    return [...this.unknown].filter(
      ({ intent, author }) => author.name === name && this.assumeCache.stateOf(intent) === "unknown",
    );
  }

  /** From now on the intent counts, unless its object has changed since the decision. */
  private count(decision: Decision<V>, author: Author | undefined): ReturnType<AssumeCache<V>["decide"]> {
    const verdict = this.assumeCache.decide(decision.intent, decision.effects);
    if (author === undefined || verdict === "stale") return verdict;
    // A write of another author: that author resolves its outcome.
    if (verdict === "counted") return "stale";
    const open: Open<V> = { ...decision, author };
    this.open.set(intentId(decision.intent), open);
    const own = this.byAuthor.get(author.name);
    if (own === undefined) this.byAuthor.set(author.name, new Set([open]));
    else own.add(open);
    return verdict;
  }

  private async send(intent: Intent, options: ApplyOptions, author: Author | undefined): Promise<Outcome<Written>> {
    const attempt = this.assumeCache.send(intent);
    if (attempt === undefined) return movedOn(intent);
    let outcome: Outcome<Written> = refused("Unknown", "the call threw an exception");
    try {
      outcome = await this.writer.apply(intent, options);
    } finally {
      // The answer to a write returns to the reconcile that sent it; enqueuing that key as well would repeat a write
      // without effect for ever. Other keys may have waited for this write.
      this.as(author, () => this.assumeCache.answer(intent, outcome, attempt));
      const open = this.open.get(intentId(intent));
      if (open !== undefined && this.assumeCache.stateOf(intent) === "unknown") this.unknown.add(open);
    }
    return outcome;
  }

  private as(author: Author | undefined, run: () => unknown): void {
    this.acting = author?.name;
    try {
      run();
    } finally {
      this.acting = undefined;
    }
  }

  private release(id: string): void {
    const found = this.open.get(id);
    if (found === undefined) return;
    this.open.delete(id);
    this.unknown.delete(found);
    const { name, wake } = found.author;
    const own = this.byAuthor.get(name);
    own?.delete(found);
    if (own?.size !== 0) return;
    this.byAuthor.delete(name);
    if (name !== this.acting) wake();
  }
}

function movedOn(intent: Intent): Refusal {
  return refused(
    "Conflict",
    `not sent: the object of ${intentId(intent)} has changed since the decision, or has a write in flight`,
  );
}

/** Runs all tasks with bounded parallelism, until one of them stops the rest. */
async function paced<T>(
  all: readonly T[],
  { atOnce, isRamp }: { readonly atOnce: number; readonly isRamp: boolean },
  run: (each: T) => Promise<Stop | undefined>,
): Promise<Stop | undefined> {
  let stopped: Stop | undefined;
  let width = isRamp ? 1 : all.length;
  for (let at = 0; at < all.length && stopped === undefined; at += width, width = Math.min(width * 2, atOnce)) {
    await inParallel(all.slice(at, at + width), atOnce, async (each) => {
      if (stopped !== undefined) return;
      try {
        const stop = await run(each);
        if (stopped !== "all") stopped = stop ?? stopped;
      } catch (error) {
        stopped = "all";
        throw error;
      }
    });
  }
  return stopped;
}

function stoppedBy(refusal: Refusal, { stop }: Pace, cancel: Cancel | undefined): Stop | undefined {
  if (stop !== "sort") return stop === "all" ? "all" : undefined;
  if (isOfOneObject(refusal)) return undefined;
  return refusal.reason === "Fenced" || cancel?.cancelled === true ? "all" : "sort";
}

/** The refusal concerns this object and not the next one. */
function isOfOneObject({ reason }: Refusal): boolean {
  return reason === "Conflict" || reason === "AlreadyExists" || reason === "NotFound" || reason === "Unknown";
}

/** Runs all writes as the pace says. */
async function inOrder<T extends { readonly intent: Intent }>(
  all: readonly Numbered<T>[],
  pace: Pace,
  run: (each: Numbered<T>) => Promise<Stop | undefined>,
): Promise<void> {
  for (const sort of pace.stop === "sort" ? sorts(all) : [all]) {
    const isRamp = pace.ramp === "all" || (pace.ramp === "creates" && sort[0]?.[1].intent.type === "create");
    if ((await paced(sort, { atOnce: pace.atOnce, isRamp }, run)) === "all") return;
  }
}

/** Neighbours of the same verb and kind. */
function sorts<T extends { readonly intent: Intent }>(decisions: readonly Numbered<T>[]): Numbered<T>[][] {
  const all: Numbered<T>[][] = [];
  let last = "";
  for (const each of decisions) {
    const { type, target } = each[1].intent;
    const sort = `${type} ${resourceKey(target)}`;
    if (sort === last) all.at(-1)?.push(each);
    else all.push([each]);
    last = sort;
  }
  return all;
}

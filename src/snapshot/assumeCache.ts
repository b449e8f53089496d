import { assert } from "../model/assert.ts";
import { basisOf, type Expected, type Intent, intentId, keyOf, resourceKey } from "../model/intent.ts";
import { equalFields } from "../model/objects/json.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Revision } from "../model/revision.ts";
import { ChunkedMap } from "./chunkedMap.ts";
import type { Applied, KindChange, KindEvent, KindTable, KindView } from "./kindTable.ts";
import {
  type Answer,
  type Attempt,
  type CountedIntent,
  type Effect,
  type Ended,
  hasMovedOn,
  holderOf,
  type IntentState,
  Ledger,
} from "./ledger.ts";
import type { Held, Snapshot } from "./snapshot.ts";
import { countedValues, createSnapshot } from "./snapshot.ts";

/** A kind in an assume cache: its table, and what its objects hold. */
export interface AssumeCacheKind<V, T extends KubeObject = KubeObject> {
  readonly table: KindTable<T>;
  /** Pure: what an object holds depends on the object alone, so it can be computed again when the object is deleted. */
  effects?(object: T): readonly Effect<V>[];
}

export interface AssumeCacheOptions<V> {
  /** Whether two values of one key are the same; by default as JSON. */
  readonly isSame?: (a: V, b: V) => boolean;
  /** Called for every key whose values may have changed, for users that keep packed arrays. */
  readonly onEffect?: (key: string) => void;
  /**
   * Called for every state that an intent enters. An end without an event (a list lacks an object that was never
   * observed) is only reported here. Called in the middle of a change: record it, and read the cache later.
   */
  readonly onIntent?: (id: string, state: IntentState) => void;
  /** For checks: objects are folded again from their tables, and intents are read from the ledger of this cache. */
  readonly like?: AssumeCache<V>;
}

/**
 * The caches of several kinds, with the intents that are decided and not observed yet (compare kube-scheduler's assume
 * cache). Events and intents go in; the output is an immutable snapshot with the revision up to which it is complete.
 * Taking a snapshot copies nothing. A decision reads a snapshot and nothing else.
 *
 * Usage is not incremented and decremented. A key has holders, each an observed object or an intent; when a holder
 * changes, the key's holders are evaluated again.
 */
export class AssumeCache<V = never> {
  private readonly kinds: ReadonlyMap<string, AssumeCacheKind<V>>;
  private readonly ledger: Ledger<V>;
  private readonly held = new ChunkedMap<readonly Held<V>[]>();
  private readonly isSame: (a: V, b: V) => boolean;
  private readonly onEffect: (key: string) => void;
  private readonly endListeners: ((id: string) => void)[] = [];
  private current: Snapshot<V> | undefined;

  /** Kinds are named as resourceKey names them. */
  constructor(kinds: Readonly<Record<string, AssumeCacheKind<V>>>, options: AssumeCacheOptions<V> = {}) {
    this.kinds = new Map(Object.entries(kinds).sort(([a], [b]) => (a < b ? -1 : 1)));
    this.isSame = options.isSame ?? equalFields;
    this.onEffect = options.onEffect ?? (() => {});
    this.ledger =
      options.like?.ledger ??
      new Ledger<V>(
        (key) => this.onEffect(key),
        (id, state) => {
          options.onIntent?.(id, state);
          if (state !== "observed" && state !== "rejected" && state !== "abandoned") return;
          for (const listener of this.endListeners) listener(id);
        },
      );
    for (const [name, { table, effects }] of this.kinds) {
      if (effects === undefined) continue;
      for (const [key, object] of table.view().objects) this.recount(name, { type: "added", key, object }, effects);
    }
    for (const key of this.ledger.view().keys()) this.onEffect(key);
  }

  /** Calls back when an intent has ended, in the middle of a change: record it, and read the cache later. */
  onEnd(listener: (id: string) => void): void {
    this.endListeners.push(listener);
  }

  /** The current state. Returns the same object as before if nothing has changed since. */
  snapshot(): Snapshot<V> {
    this.current ??= createSnapshot({
      kinds: this.kindViews(),
      held: this.held.view(),
      overlay: this.ledger.view(),
      isSame: this.isSame,
    });
    return this.current;
  }

  /** Applies one watch event to the table and to this cache, where no ObjectCache owns the table. */
  applyEvent(kind: string, event: KindEvent): Applied<KubeObject> & { readonly ended: readonly Ended[] } {
    const applied = this.kind(kind).table.apply(event);
    return { ...applied, ended: this.observed(kind, applied.changes, event.type === "relistDone") };
  }

  /** An event was applied to the kind's table, and these are its changes. */
  observed(kind: string, changes: readonly KindChange[], isNewList = false): readonly Ended[] {
    this.current = undefined;
    const { table } = this.kind(kind);
    const ended = this.observe(kind, changes);
    if (this.ledger.size === 0) return ended;
    ended.push(...this.ledger.passed(kind, table.revision));
    if (isNewList) ended.push(...this.ledger.compare(kind, table.revision, (key) => table.get(key)));
    return ended;
  }

  /**
   * The intent counts from now on. `counted` before: it counts already, and nothing changes. `stale`: its object is no
   * longer what it was decided on, and it must not be sent.
   */
  decide(intent: Intent, effects: readonly Effect<V>[] = []): "decided" | "counted" | "stale" {
    const counted = countedIntent(intent, effects);
    if (this.isStale(counted)) return "stale";
    this.current = undefined;
    const verdict = this.ledger.decide(counted);
    return verdict === "entered" ? "decided" : verdict;
  }

  /** After a restart: a durable intent was found that has not ended, so its effects may be true. */
  restore(intent: Intent, effects: readonly Effect<V>[]): "unknown" | "counted" | "stale" {
    const counted = countedIntent(intent, effects);
    if (this.isStale(counted)) return "stale";
    this.current = undefined;
    const verdict = this.ledger.restore(counted);
    return verdict === "entered" ? "unknown" : verdict;
  }

  /** Called just before the write is sent. Undefined: do not send it; it is stale, or in flight already. */
  send(intent: Intent): Attempt | undefined {
    this.current = undefined;
    return this.ledger.send(intentId(intent));
  }

  /** The outcome of an attempt; without one, of the attempt that is in flight. */
  answer(intent: Intent, outcome: Outcome<Answer>, attempt?: Attempt): readonly Ended[] {
    this.current = undefined;
    const kind = resourceKey(intent.target);
    const answered = attempt ?? this.ledger.inFlight(intentId(intent));
    const { revision } = this.kind(kind).table;
    const ended = answered === undefined ? [] : this.ledger.answer(answered, outcome, revision);
    // The write may have changed nothing, or the watch may have been faster than the answer.
    return [...ended, ...this.ledger.passed(kind, revision)];
  }

  /** A consistent read of the intent's object, for an intent whose outcome is unknown. */
  read(intent: Intent, fresh: { object: KubeObject | undefined; revision: Revision }): readonly Ended[] {
    this.current = undefined;
    const kind = resourceKey(intent.target);
    const object: Expected | undefined = fresh.object?.metadata;
    const ended = this.ledger.read(intentId(intent), { object, revision: fresh.revision });
    return [...ended, ...this.ledger.passed(kind, this.kind(kind).table.revision)];
  }

  /** The write will never happen, and the caller can prove that. */
  abandon(intent: Intent): readonly Ended[] {
    this.current = undefined;
    return this.ledger.abandon(intentId(intent));
  }

  /** Ids of the intents of unknown outcome, in order. Each needs a consistent read, or is sent again. */
  unknownIntents(): string[] {
    return this.ledger.idsIn("unknown");
  }

  stateOf(intent: Intent): ReturnType<Ledger<V>["stateOf"]> {
    return this.ledger.stateOf(intentId(intent));
  }

  /** The values that a key has or may have now; see Snapshot.values. For users of `onEffect`. */
  values(key: string): readonly V[] {
    return countedValues(this.held.get(key), this.ledger.valuesAt(key), this.isSame);
  }

  private observe(kind: string, changes: readonly KindChange[]): Ended[] {
    const ended: Ended[] = [];
    const { effects } = this.kind(kind);
    for (const change of changes) {
      // The observed object first, then the end of the intent: in between both count under one key, so once.
      if (effects !== undefined) this.recount(kind, change, effects);
      if (this.ledger.size > 0) ended.push(...this.ledger.observe(kind, change));
    }
    return ended;
  }

  private recount(kind: string, change: KindChange, effects: (object: KubeObject) => readonly Effect<V>[]): void {
    const holder = holderOf(kind, change.key);
    const before = change.type === "added" ? [] : effects(change.before);
    const after = change.type === "deleted" ? [] : effects(change.object);
    for (const { key } of before) {
      if (after.some((effect) => effect.key === key)) continue;
      this.hold(key, holder, undefined);
    }
    for (const effect of after) {
      const known = before.find(({ key }) => key === effect.key);
      if (known === undefined || !this.isSame(known.value, effect.value)) this.hold(effect.key, holder, effect);
    }
  }

  private hold(key: string, holder: string, effect: Effect<V> | undefined): void {
    const others = (this.held.get(key) ?? []).filter((each) => each.holder !== holder);
    if (effect !== undefined) others.push({ holder, value: effect.value });
    if (others.length === 0) this.held.delete(key);
    else this.held.set(key, others.length === 1 ? others : others.sort((a, b) => (a.holder < b.holder ? -1 : 1)));
    this.onEffect(key);
  }

  private isStale({ kind, key, basis }: CountedIntent<V>): boolean {
    const { table } = this.kind(kind);
    return table.isComplete && hasMovedOn(basis, table.get(key)?.metadata, table.revision);
  }

  private kind(name: string): AssumeCacheKind<V> {
    const kind = this.kinds.get(name);
    assert(kind !== undefined, () => `${name} is not in this assumeCache`);
    return kind;
  }

  private kindViews(): ReadonlyMap<string, KindView> {
    return new Map([...this.kinds].map(([name, { table }]) => [name, table.view()]));
  }
}

function countedIntent<V>(intent: Intent, effects: readonly Effect<V>[]): CountedIntent<V> {
  const { target } = intent;
  return {
    id: intentId(intent),
    kind: resourceKey(target),
    key: keyOf(target.namespace, target.name),
    basis: basisOf(intent),
    effects,
  };
}

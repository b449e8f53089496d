import { assert } from "../model/assert.ts";
import type { Basis, Expected } from "../model/intent.ts";
import { equalFields } from "../model/objects/json.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { Outcome } from "../model/outcome.ts";
import { compareRevisions, isAtLeast, isLater, laterOf, type Revision } from "../model/revision.ts";
import { ChunkedMap, type OrderedView } from "./chunkedMap.ts";
import { Heap } from "./heap.ts";
import type { KindChange } from "./kindTable.ts";

/**
 * What is decided and not yet observed. An intent counts from the moment it is decided until the watch shows how it
 * ended:
 *
 *   scheduler                 API                      our watch
 *   t0  decide: p on n1       p pending, revision 5    revision 5      p counts on n1: decided
 *   t1  send the bind   -->   p on n1, revision 7      revision 5      p counts on n1: sent
 *   t2  answer: done                                   revision 5      p counts on n1: acknowledged
 *   t3                                                 revision 7      p counts on n1: observed
 *
 * There is no moment between the four in which it counts nowhere, and none in which it counts twice, because an effect
 * has a key that is derived from a UID: the ledger and the watch use the same key, and the one replaces the other.
 *
 * What makes the end certain is the precondition that every write carries. It can only take effect on the state that it
 * was decided on, so the first later state of the object either has it or rules it out for ever. That also ends a
 * time-out, whose write may land at any later moment: it counts as possible until the object has changed.
 *
 * A create has only its name. It ends when the watch shows an object of that name that was created since; if that was
 * another object, the answer shows it, and the intent counts again. One hole is left, and only for a create that is
 * sent again after a time-out: one attempt creates the object, it is observed and deleted, and then the other attempt
 * lands. Such an object has the right name and owner, and is observed like any other.
 */
export type IntentState =
  | "decided"
  | "sent"
  /** Sent again while an earlier attempt may still land. */
  | "sentAgain"
  /** Whether it happened is unknown, and it may still happen. */
  | "unknown"
  /** Accepted by the API, not observed yet. */
  | "acknowledged"
  /** A consistent read showed that the object has moved on; the watch has not shown it. */
  | "settling"
  | IntentEnd;

export type IntentEnd = "observed" | "rejected" | "abandoned";

type Input = "send" | "done" | "refused" | "timedOut" | "readMovedOn" | "shown" | "abandon";

/** Where each input leads. What is missing cannot happen; what leads to itself changes nothing. */
export const transitions: Readonly<Record<IntentState, Readonly<Partial<Record<Input, IntentState>>>>> = {
  decided: { send: "sent", shown: "rejected", readMovedOn: "rejected", abandon: "abandoned" },
  sent: { done: "acknowledged", refused: "rejected", timedOut: "unknown", readMovedOn: "sent", shown: "observed" },
  // A refusal of the second attempt says nothing about the first one: it may be the reason for it.
  sentAgain: {
    done: "acknowledged",
    refused: "unknown",
    timedOut: "unknown",
    readMovedOn: "sentAgain",
    shown: "observed",
  },
  unknown: { send: "sentAgain", readMovedOn: "settling", shown: "observed", abandon: "abandoned" },
  acknowledged: { readMovedOn: "acknowledged", shown: "observed" },
  settling: { readMovedOn: "settling", shown: "observed", abandon: "abandoned" },
  observed: {},
  rejected: {},
  abandoned: {},
};

/** One thing that an intent makes true, or an object holds: a pod takes devices on a node. */
export interface Effect<V> {
  /** Derived from a UID, so that what is decided and what is observed have the same key. */
  readonly key: string;
  readonly value: V;
}

export interface CountedIntent<V> {
  /** See intentId. */
  readonly id: string;
  /** The kind whose watch will show it; see kindOf. */
  readonly kind: string;
  /** The object's namespace and name. */
  readonly key: string;
  /** The state that it was decided on. The name of a create must be ours alone. */
  readonly basis: Basis;
  readonly effects: readonly Effect<V>[];
}

/** A value that a key may have because of an intent. */
export interface Overlay<V> {
  readonly intent: string;
  /** See holderOf: the object that will hold it. */
  readonly holder: string;
  readonly value: V;
  /** Accepted by the API: what the watch shows of this holder is the past. */
  readonly isCertain: boolean;
}

export interface Ended {
  readonly id: string;
  readonly end: IntentEnd;
}

interface Entry<V> {
  readonly id: string;
  readonly kind: string;
  readonly key: string;
  basis: Basis;
  effects: readonly Effect<V>[];
  state: IntentState;
  /** Counted until the watch of the kind has passed this revision. */
  untilRevision: Revision | undefined;
  /** Accepted by the API, and the object is no longer in the state that it was decided on. */
  hasLeftItsState: boolean;
}

interface KindEntries<V> {
  readonly byKey: Map<string, Entry<V>[]>;
  /** Those that end when the kind reaches a revision, the earliest first. What has ended otherwise is passed over. */
  readonly waiting: Heap<Waiting<V>>;
}

interface Waiting<V> {
  readonly entry: Entry<V>;
  readonly revision: Revision;
  readonly order: number;
}

/** One write that left. Its answer belongs to it, also when the same thing has been decided again since. */
export interface Attempt {
  readonly id: string;
}

/** The result of a write, as far as the ledger needs it. */
export interface Answer {
  /** The revision that the write got, where the API returns it. */
  readonly revision?: Revision;
  /** That it changed its object is certain, though the API returns no revision. */
  readonly isChange?: boolean;
}

export class Ledger<V> {
  private readonly entries = new Map<string, Entry<V>>();
  private readonly kinds = new Map<string, KindEntries<V>>();
  private readonly overlay = new ChunkedMap<readonly Overlay<V>[]>();
  private readonly onEffect: (key: string) => void;
  private readonly onIntent: (id: string, state: IntentState) => void;
  private waits = 0;

  constructor(
    onEffect: (key: string) => void = () => {},
    onIntent: (id: string, state: IntentState) => void = () => {},
  ) {
    this.onEffect = onEffect;
    this.onIntent = onIntent;
  }

  get size(): number {
    return this.entries.size;
  }

  /** By key of effect. Immutable. */
  view(): OrderedView<readonly Overlay<V>[]> {
    return this.overlay.view();
  }

  valuesAt(key: string): readonly Overlay<V>[] | undefined {
    return this.overlay.get(key);
  }

  /** Undefined when it has ended, or never was. */
  stateOf(id: string): IntentState | undefined {
    return this.entries.get(id)?.state;
  }

  /** Ids of the intents in a state, in order: those that are unknown want a consistent read. */
  idsIn(state: IntentState): string[] {
    const ids: string[] = [];
    for (const entry of this.entries.values()) if (entry.state === state) ids.push(entry.id);
    return ids.sort();
  }

  /**
   * From now on it counts. `counted`: it does already. `stale`: another write took effect on the state it was decided
   * on.
   */
  decide(intent: CountedIntent<V>): "entered" | "counted" | "stale" {
    return this.enter(intent, "decided");
  }

  /** After a restart: a durable intent was found, and its progress is unknown. */
  restore(intent: CountedIntent<V>): "entered" | "counted" | "stale" {
    return this.enter(intent, "unknown");
  }

  /** Undefined when it must not be sent: its object has changed since it was decided, or it is in flight. */
  send(id: string): Attempt | undefined {
    const entry = this.entries.get(id);
    if (entry === undefined || transitions[entry.state].send === undefined) return undefined;
    this.move(entry, "send");
    return entry;
  }

  /** The attempt that waits for its answer, if there is one. */
  onItsWay(id: string): Attempt | undefined {
    const entry = this.entries.get(id);
    return entry?.state === "sent" || entry?.state === "sentAgain" ? entry : undefined;
  }

  /** The outcome of an attempt. `shown` is the revision up to which the watch of its kind has delivered everything. */
  answer(attempt: Attempt, outcome: Outcome<Answer>, shown: Revision): readonly Ended[] {
    const entry = this.entries.get(attempt.id);
    if (entry !== attempt) {
      // The watch was faster than the answer, or what it showed was not what we made.
      if (outcome.ok && entry === undefined) this.countAgain(attempt as Entry<V>, outcome.value, shown);
      return [];
    }
    if (!outcome.ok) return this.move(entry, outcome.reason === "Unknown" ? "timedOut" : "refused");
    if (outcome.value.revision !== undefined) this.waitFor(entry, outcome.value.revision);
    entry.hasLeftItsState = leavesItsState(entry.basis, outcome.value);
    return [...this.ruleOutRivals(entry), ...this.move(entry, "done")];
  }

  /**
   * A consistent read of the object (undefined: it does not exist). A state that the intent was decided on proves
   * nothing: the write may still land.
   */
  read(id: string, fresh: { readonly object: Expected | undefined; readonly revision: Revision }): readonly Ended[] {
    const entry = this.entries.get(id);
    if (entry === undefined || !hasMovedOn(entry.basis, fresh.object, fresh.revision)) return [];
    this.waitFor(entry, fresh.revision);
    return this.move(entry, "readMovedOn");
  }

  /** Its owner vouches that it will never happen. */
  abandon(id: string): readonly Ended[] {
    const entry = this.entries.get(id);
    return entry === undefined ? [] : this.move(entry, "abandon");
  }

  /** The watch showed a change. Call `passed` when all changes of one revision have been shown. */
  observe(kind: string, change: KindChange): readonly Ended[] {
    const entries = this.kinds.get(kind)?.byKey.get(change.key);
    if (entries === undefined) return [];
    const ended: Ended[] = [];
    for (const entry of [...entries]) {
      if (isBefore(change.object.metadata.resourceVersion, entry)) continue;
      if (isShownBy(entry.basis, change)) ended.push(...this.move(entry, "shown"));
    }
    return ended;
  }

  /**
   * A new list was delivered: an object that is not in it is gone, and for one that was never observed there is no
   * other sign.
   */
  compare(kind: string, revision: Revision, get: (key: string) => KubeObject | undefined): readonly Ended[] {
    const ended: Ended[] = [];
    for (const [key, entries] of [...(this.kinds.get(kind)?.byKey ?? [])].sort(byKey)) {
      const object = get(key)?.metadata;
      for (const entry of [...entries]) {
        if (isBefore(revision, entry)) continue;
        if (hasMovedOn(entry.basis, object, revision)) ended.push(...this.move(entry, "shown"));
      }
    }
    return ended;
  }

  /** The watch has shown everything up to the revision. */
  passed(kind: string, revision: Revision): readonly Ended[] {
    const waiting = this.kinds.get(kind)?.waiting;
    if (waiting === undefined) return [];
    const ended: Ended[] = [];
    for (let next = waiting.first; next !== undefined && isAtLeast(revision, next.revision); next = waiting.first) {
      waiting.pop();
      const { entry } = next;
      const isCurrent = this.entries.get(entry.id) === entry && entry.untilRevision === next.revision;
      if (isCurrent) ended.push(...this.move(entry, "shown"));
    }
    return ended;
  }

  private enter(intent: CountedIntent<V>, state: "decided" | "unknown"): "entered" | "counted" | "stale" {
    const known = this.entries.get(intent.id);
    if (known !== undefined) {
      this.decideAgain(known, intent);
      return "counted";
    }
    const { byKey } = this.kindEntries(intent.kind);
    const others = byKey.get(intent.key);
    if (others?.some((other) => other.state === "acknowledged" && rulesOut(other, intent.basis))) return "stale";
    this.begin({ ...intent, state, untilRevision: undefined, hasLeftItsState: false });
    return "entered";
  }

  private begin(entry: Entry<V>): void {
    const { byKey } = this.kindEntries(entry.kind);
    assert(!this.entries.has(entry.id), () => `intent ${entry.id} is counted already`);
    this.entries.set(entry.id, entry);
    const others = byKey.get(entry.key);
    if (others === undefined) byKey.set(entry.key, [entry]);
    else others.push(entry);
    this.lay(entry);
    this.onIntent(entry.id, entry.state);
  }

  /**
   * A create ended because the watch showed its name, and now the API says that it was made later than that: the watch
   * had shown a namesake, which is gone. It counts again until the watch has passed what we made.
   */
  private countAgain(attempt: Entry<V>, { revision }: Answer, shown: Revision): void {
    if (attempt.state !== "observed" || "uid" in attempt.basis) return;
    if (revision === undefined || !isLater(revision, shown)) return;
    this.begin({ ...attempt, state: "decided", untilRevision: undefined, hasLeftItsState: false });
    const again = this.entries.get(attempt.id) as Entry<V>;
    this.move(again, "send");
    this.waitFor(again, revision);
    this.move(again, "done");
  }

  /** What may be sent again may have another effect this time: both count, since either may happen. */
  private decideAgain(entry: Entry<V>, intent: CountedIntent<V>): void {
    if (transitions[entry.state].send === undefined) return;
    // The name was free more recently: what had it before that is not what the next attempt makes.
    entry.basis = intent.basis;
    const added = intent.effects.filter(
      ({ key, value }) => !entry.effects.some((effect) => effect.key === key && equalFields(effect.value, value)),
    );
    if (added.length === 0) return;
    entry.effects = [...entry.effects, ...added];
    this.lay(entry);
  }

  private move(entry: Entry<V>, input: Input): readonly Ended[] {
    const next = transitions[entry.state][input];
    assert(next !== undefined, () => `intent ${entry.id} is ${entry.state} and cannot ${input}`);
    if (next === entry.state) return [];
    if (next === "observed" || next === "rejected" || next === "abandoned") return [this.end(entry, next)];
    entry.state = next;
    if (next === "acknowledged") this.lay(entry);
    this.onIntent(entry.id, next);
    return [];
  }

  private end(entry: Entry<V>, end: IntentEnd): Ended {
    entry.state = end;
    this.leave(entry);
    this.onIntent(entry.id, end);
    return { id: entry.id, end };
  }

  /** A write that changed a state rules out every other that was decided on the same one. */
  private ruleOutRivals(winner: Entry<V>): readonly Ended[] {
    const ended: Ended[] = [];
    for (const rival of [...(this.kinds.get(winner.kind)?.byKey.get(winner.key) ?? [])]) {
      if (rival === winner || !rulesOut(winner, rival.basis)) continue;
      ended.push(this.end(rival, "rejected"));
    }
    return ended;
  }

  private waitFor(entry: Entry<V>, revision: Revision): void {
    const until = entry.untilRevision === undefined ? revision : laterOf(entry.untilRevision, revision);
    entry.untilRevision = until;
    this.kindEntries(entry.kind).waiting.push({ entry, revision: until, order: this.waits++ });
  }

  private leave(entry: Entry<V>): void {
    assert(this.entries.get(entry.id) === entry, () => `intent ${entry.id} is not counted`);
    this.entries.delete(entry.id);
    const entries = this.kindEntries(entry.kind);
    const others = (entries.byKey.get(entry.key) ?? []).filter((other) => other !== entry);
    if (others.length === 0) entries.byKey.delete(entry.key);
    else entries.byKey.set(entry.key, others);
    for (const { key } of entry.effects) {
      const left = (this.overlay.get(key) ?? []).filter(({ intent }) => intent !== entry.id);
      if (left.length === 0) this.overlay.delete(key);
      else this.overlay.set(key, left);
      this.onEffect(key);
    }
  }

  private lay(entry: Entry<V>): void {
    const isCertain = entry.state === "acknowledged";
    const holder = holderOf(entry.kind, entry.key);
    const [first] = entry.effects;
    if (first !== undefined && entry.effects.length === 1 && this.overlay.get(first.key) === undefined) {
      this.overlay.set(first.key, [{ intent: entry.id, holder, value: first.value, isCertain }]);
      this.onEffect(first.key);
      return;
    }
    for (const key of new Set(entry.effects.map((effect) => effect.key))) {
      const overlay = (this.overlay.get(key) ?? []).filter(
        ({ intent }) => intent !== entry.id && !(isCertain && this.isOutdatedBy(intent, entry)),
      );
      for (const effect of entry.effects) {
        if (effect.key === key) overlay.push({ intent: entry.id, holder, value: effect.value, isCertain });
      }
      this.overlay.set(key, overlay.sort(byIntent));
      this.onEffect(key);
    }
  }

  /** Of two writes that both took effect on one object, the later one was decided on what the earlier one left. */
  private isOutdatedBy(id: string, { kind, key, basis }: Entry<V>): boolean {
    const earlier = this.entries.get(id);
    if (earlier?.state !== "acknowledged" || earlier.kind !== kind || earlier.key !== key) return false;
    const { untilRevision } = earlier;
    return "uid" in basis && untilRevision !== undefined && isAtLeast(basis.resourceVersion, untilRevision);
  }

  private kindEntries(kind: string): KindEntries<V> {
    let entries = this.kinds.get(kind);
    if (entries === undefined) {
      entries = { byKey: new Map(), waiting: new Heap<Waiting<V>>(byRevision) };
      this.kinds.set(kind, entries);
    }
    return entries;
  }
}

/** Names an object among those of all kinds. */
export function holderOf(kind: string, key: string): string {
  return `${kind} ${key}`;
}

/**
 * Whether the object, as it was at a revision, is no longer what was decided on, so that the write can no longer take
 * effect.
 */
export function hasMovedOn(basis: Basis, object: Expected | undefined, atRevision: Revision): boolean {
  // The name of a create is ours alone, so what has it since is what we made.
  if (!("uid" in basis)) return object !== undefined && isLater(object.resourceVersion, basis.absentAt);
  if (object?.uid === basis.uid) return isLater(object.resourceVersion, basis.resourceVersion);
  // A UID never returns: absence ends it, unless the read is of a time before it was created.
  return isAtLeast(atRevision, basis.resourceVersion);
}

/** Whether the watch is still before the revision of a create: what it shows under the name is an older object. */
function isBefore(revision: Revision, { basis, state, untilRevision }: Entry<unknown>): boolean {
  if ("uid" in basis || state !== "acknowledged") return false;
  return untilRevision !== undefined && isLater(untilRevision, revision);
}

/**
 * Whether a write that succeeded changed its object. A write without a difference succeeds and changes nothing:
 * whatever else was decided on the same state can still land after it.
 */
function leavesItsState(basis: Basis, { revision, isChange }: Answer): boolean {
  return isChange === true || (revision !== undefined && "uid" in basis && isLater(revision, basis.resourceVersion));
}

/** Whether a write that took effect on one state leaves no room for one that was decided on the other. */
function rulesOut({ basis: winner, hasLeftItsState }: Entry<unknown>, rival: Basis): boolean {
  if (!hasLeftItsState || !("uid" in winner) || !("uid" in rival) || winner.uid !== rival.uid) return false;
  return isAtLeast(winner.resourceVersion, rival.resourceVersion);
}

function isShownBy(basis: Basis, change: KindChange): boolean {
  const { metadata } = change.object;
  if (change.type !== "deleted") return hasMovedOn(basis, metadata, metadata.resourceVersion);
  if ("uid" in basis) return change.before.metadata.uid === basis.uid;
  return isLater(metadata.resourceVersion, basis.absentAt);
}

function byRevision(a: Waiting<unknown>, b: Waiting<unknown>): number {
  return compareRevisions(a.revision, b.revision) || a.order - b.order;
}

function byIntent(a: Overlay<unknown>, b: Overlay<unknown>): number {
  return a.intent < b.intent ? -1 : a.intent > b.intent ? 1 : 0;
}

function byKey(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
}

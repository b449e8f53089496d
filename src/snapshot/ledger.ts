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
 * The intents that are decided and not yet observed. An intent counts from the moment it is decided until the watch
 * shows how it ended:
 *
 *   scheduler                 API                      our watch
 *   t0  decide: p on n1       p pending, revision 5    revision 5      p counts on n1: decided
 *   t1  send the bind   -->   p on n1, revision 7      revision 5      p counts on n1: sent
 *   t2  answer: done                                   revision 5      p counts on n1: acknowledged
 *   t3                                                 revision 7      p counts on n1: observed
 *
 * At no moment between the four does the pod count nowhere or twice, because an effect has a key that is derived from a
 * UID: the ledger and the watch use the same key, and the observed effect replaces the decided one.
 *
 * Every write carries a precondition. The write can only take effect on the state that it was decided on, so the first
 * later state of the object either contains the write or rules it out for ever. This also resolves a timeout, whose
 * write may land at any later moment: it counts as possible until the object has changed.
 *
 * The precondition of a create is its name. A create ends when the watch shows an object of that name that was created
 * since; if that was another object, the response of the create shows it, and the intent counts again. One gap is left,
 * and only for a create that is sent again after a timeout: one attempt creates the object, the object is observed and
 * deleted, and then the other attempt lands. Such an object has the right name and owner, and is observed like any
 * other.
 */
export type IntentState =
  | "decided"
  | "sent"
  /** Sent again, while an earlier attempt may still land. */
  | "sentAgain"
  /** Whether it happened is unknown, and it may still happen. */
  | "unknown"
  /** Accepted by the API, not observed yet. */
  | "acknowledged"
  /** A consistent read showed that the object has moved on; the watch has not shown it. */
  | "movedOn"
  | IntentEnd;

export type IntentEnd = "observed" | "rejected" | "abandoned";

type Input = "send" | "done" | "refused" | "timedOut" | "readMovedOn" | "shown" | "abandon";

/** The next state for each input. A missing input cannot happen in that state. */
export const transitions: Readonly<Record<IntentState, Readonly<Partial<Record<Input, IntentState>>>>> = {
  decided: { send: "sent", shown: "rejected", readMovedOn: "rejected", abandon: "abandoned" },
  sent: { done: "acknowledged", refused: "rejected", timedOut: "unknown", readMovedOn: "sent", shown: "observed" },
  // A refusal of the second attempt does not mean that the first one failed: its success may be the reason.
  sentAgain: {
    done: "acknowledged",
    refused: "unknown",
    timedOut: "unknown",
    readMovedOn: "sentAgain",
    shown: "observed",
  },
  unknown: { send: "sentAgain", readMovedOn: "movedOn", shown: "observed", abandon: "abandoned" },
  acknowledged: { readMovedOn: "acknowledged", shown: "observed" },
  movedOn: { readMovedOn: "movedOn", shown: "observed", abandon: "abandoned" },
  observed: {},
  rejected: {},
  abandoned: {},
};

/** Something that an object holds, or will hold because of an intent: a pod holds devices on a node. */
export interface Effect<V> {
  /** Derived from a UID, so that what is decided and what is observed have the same key. */
  readonly key: string;
  readonly value: V;
}

export interface CountedIntent<V> {
  /** See intentId. */
  readonly id: string;
  /** The kind whose watch will show it; see resourceKey. */
  readonly kind: string;
  /** The object's namespace and name. */
  readonly key: string;
  /** The state that it was decided on. No other client may create an object with the name of a create. */
  readonly basis: Basis;
  readonly effects: readonly Effect<V>[];
}

/** A value that a key may have because of an intent. */
export interface Overlay<V> {
  readonly intent: string;
  /** See holderOf: the object that will hold it. */
  readonly holder: string;
  readonly value: V;
  /** Accepted by the API: the state that the watch shows of this holder is older. */
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

/** One write that was sent. Its response belongs to it, also if the same intent has been decided again since. */
export interface Attempt {
  readonly id: string;
}

/** The result of a write, as far as the ledger needs it. */
export interface Answer {
  /** The revision that the write got, where the API returns it. */
  readonly revision?: Revision;
  /** The write has certainly changed its object, though the API returns no revision. */
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

  /** Undefined if the intent has ended or was never decided. */
  stateOf(id: string): IntentState | undefined {
    return this.entries.get(id)?.state;
  }

  /** Ids of the intents in a state, in order. Intents of unknown outcome need a consistent read. */
  idsIn(state: IntentState): string[] {
    const ids: string[] = [];
    for (const entry of this.entries.values()) if (entry.state === state) ids.push(entry.id);
    return ids.sort();
  }

  /**
   * The intent counts from now on. `counted`: it counts already. `stale`: another write took effect on the state that
   * the intent was decided on.
   */
  decide(intent: CountedIntent<V>): "entered" | "counted" | "stale" {
    return this.enter(intent, "decided");
  }

  /** After a restart: a stored intent was found, and its progress is unknown. */
  restore(intent: CountedIntent<V>): "entered" | "counted" | "stale" {
    return this.enter(intent, "unknown");
  }

  /** Undefined if the intent must not be sent: its object has changed since the decision, or it is in flight. */
  send(id: string): Attempt | undefined {
    const entry = this.entries.get(id);
    if (entry === undefined || transitions[entry.state].send === undefined) return undefined;
    this.move(entry, "send");
    return entry;
  }

  /** The attempt that was sent and has no response yet, if there is one. */
  inFlight(id: string): Attempt | undefined {
    const entry = this.entries.get(id);
    return entry?.state === "sent" || entry?.state === "sentAgain" ? entry : undefined;
  }

  /** The outcome of an attempt. `shown` is the revision up to which the watch of its kind has delivered everything. */
  answer(attempt: Attempt, outcome: Outcome<Answer>, shown: Revision): readonly Ended[] {
    const entry = this.entries.get(attempt.id);
    if (entry !== attempt) {
      // The watch was faster than the response, or showed another object than the one that was created.
      if (outcome.ok && entry === undefined) this.countAgain(attempt as Entry<V>, outcome.value, shown);
      return [];
    }
    if (!outcome.ok) return this.move(entry, outcome.reason === "Unknown" ? "timedOut" : "refused");
    if (outcome.value.revision !== undefined) this.waitFor(entry, outcome.value.revision);
    entry.hasLeftItsState = leavesItsState(entry.basis, outcome.value);
    return [...this.ruleOutRivals(entry), ...this.move(entry, "done")];
  }

  /**
   * A consistent read of the object (undefined: it does not exist). If the object is still in the state that the intent
   * was decided on, the write may still land.
   */
  read(id: string, fresh: { readonly object: Expected | undefined; readonly revision: Revision }): readonly Ended[] {
    const entry = this.entries.get(id);
    if (entry === undefined || !hasMovedOn(entry.basis, fresh.object, fresh.revision)) return [];
    this.waitFor(entry, fresh.revision);
    return this.move(entry, "readMovedOn");
  }

  /** The caller guarantees that the write will never happen. */
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
   * A new list was delivered: an object that is not in it was deleted. For an object that was never observed there is
   * no event.
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
   * A create ended because the watch showed an object of its name, and the response has a later revision: the watch had
   * shown another object, which is deleted by now. The create counts again until the watch has passed that revision.
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

  /** The second attempt may have other effects than the first: both count, since either may take effect. */
  private decideAgain(entry: Entry<V>, intent: CountedIntent<V>): void {
    if (transitions[entry.state].send === undefined) return;
    // The name was free at a later revision: an object that had it before is not the one that the next attempt creates.
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

  /** A write that changed a state rules out every other write that was decided on the same state. */
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
  // No other client uses the name of a create, so an object that has it since is the one that was created.
  if (!("uid" in basis)) return object !== undefined && isLater(object.resourceVersion, basis.absentAtRevision);
  if (object?.uid === basis.uid) return isLater(object.resourceVersion, basis.resourceVersion);
  // A UID is never reused: an absent object ends the intent, unless the read is older than the object.
  return isAtLeast(atRevision, basis.resourceVersion);
}

/** Whether the watch is still before the revision of a create: the object that it shows is an older one. */
function isBefore(revision: Revision, { basis, state, untilRevision }: Entry<unknown>): boolean {
  if ("uid" in basis || state !== "acknowledged") return false;
  return untilRevision !== undefined && isLater(untilRevision, revision);
}

/**
 * Whether a write that succeeded changed its object. A write without a difference succeeds and changes nothing: other
 * writes that were decided on the same state can still land after it.
 */
function leavesItsState(basis: Basis, { revision, isChange }: Answer): boolean {
  return isChange === true || (revision !== undefined && "uid" in basis && isLater(revision, basis.resourceVersion));
}

/** Whether a write that took effect on one state makes a write that was decided on the other state impossible. */
function rulesOut({ basis: winner, hasLeftItsState }: Entry<unknown>, rival: Basis): boolean {
  if (!hasLeftItsState || !("uid" in winner) || !("uid" in rival) || winner.uid !== rival.uid) return false;
  return isAtLeast(winner.resourceVersion, rival.resourceVersion);
}

function isShownBy(basis: Basis, change: KindChange): boolean {
  const { metadata } = change.object;
  if (change.type !== "deleted") return hasMovedOn(basis, metadata, metadata.resourceVersion);
  if ("uid" in basis) return change.before.metadata.uid === basis.uid;
  return isLater(metadata.resourceVersion, basis.absentAtRevision);
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

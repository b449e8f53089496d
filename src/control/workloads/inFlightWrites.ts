import type { Written } from "../../intents/applyIntent.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { assert } from "../../model/assert.ts";
import { type Intent, intentId, kindOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, type Refusal, refused } from "../../model/outcome.ts";
import { firstRevision, isLater, type Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Ended } from "../../snapshot/ledger.ts";
import { Picture } from "../../snapshot/picture.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Committed } from "../runtime/commit.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { inParallel } from "../runtime/inParallel.ts";

/** The author of a write: a controller and the key of its reconcile. */
export interface Author {
  readonly controller: string;
  readonly key: string;
}

/** So many writes of one reconcile are in flight at once. */
const widthMax = 64;

/**
 * The writes of a component's controllers that the watch has not shown yet. A key reconciles only when it has no writes
 * in flight:
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
export class InFlightWrites {
  private readonly controllers: Controllers;
  private readonly caches = new Map<string, ObjectCache>();
  private readonly picture: Picture;
  private readonly open = new Map<string, { readonly intent: Intent; readonly author: Author }>();
  private readonly byAuthor = new Map<string, Set<Intent>>();
  private readonly wakers = new Map<string, (key: string) => void>();

  constructor(controllers: Controllers, kinds: readonly Resource[]) {
    this.controllers = controllers;
    for (const kind of kinds) this.caches.set(kindOf(kind), controllers.cache(kind));
    const tables = [...this.caches].map(([kind, { table }]) => [kind, { table }] as const);
    this.picture = new Picture(Object.fromEntries(tables));
    for (const [kind, cache] of this.caches) {
      cache.onChanges((changes, isNewList) => this.wake(this.ended(this.picture.observed(kind, changes, isNewList))));
    }
  }

  cache<T extends KubeObject>(kind: Resource<T>): ObjectCache<T> {
    const cache = this.caches.get(kindOf(kind));
    assert(cache !== undefined, () => `${kindOf(kind)} is not tracked here`);
    return cache as ObjectCache<T>;
  }

  /** Everything that happened to these kinds up to here is known. */
  revisionOf(kinds: readonly Resource[]): Revision {
    let oldest: Revision | undefined;
    for (const kind of kinds) {
      const { revision } = this.cache(kind);
      if (oldest === undefined || isLater(oldest, revision)) oldest = revision;
    }
    return oldest ?? firstRevision;
  }

  /** Called when the last write of a key has been shown. */
  onClear(controller: string, wake: (key: string) => void): void {
    this.wakers.set(controller, wake);
  }

  /**
   * Whether the key may decide. `waiting`: the watch will show its writes, and enqueues it. A refusal: the outcome of a
   * write could not be resolved.
   */
  async settle(author: Author, cancel: Cancel): Promise<"clear" | "waiting" | Refusal> {
    const open = this.byAuthor.get(nameOf(author));
    if (open === undefined) return "clear";
    const inDoubt = [...open].filter((intent) => this.picture.stateOf(intent) === "unknown");
    let refusal: Refusal | undefined;
    await inParallel(inDoubt, widthMax, async (intent) => {
      const { revision } = this.cache(intent.target);
      const fresh = await lookAgain(this.controllers.kube, intent.target, { atLeast: revision, cancel });
      if (!fresh.ok) {
        refusal ??= fresh;
        return;
      }
      this.ended(this.picture.read(intent, fresh.value));
      if (this.picture.stateOf(intent) === "unknown") this.ended(this.picture.abandon(intent));
    });
    if (refusal !== undefined) return refusal;
    return this.byAuthor.has(nameOf(author)) ? "waiting" : "clear";
  }

  /**
   * Sends what was decided. All of it counts before the first write leaves. Writes of one sort go side by side, first
   * one, then twice as many each time, so that a quota that refuses all is asked once and not five hundred times; the
   * sorts go one after the other.
   */
  async carryOut(author: Author, intents: readonly Intent[], cancel: Cancel): Promise<Committed[]> {
    const committed: Committed[] = [];
    const decided = intents.filter((intent) => {
      if (this.picture.decide(intent) === "decided") {
        this.enter(author, intent);
        return true;
      }
      committed.push({ intent, outcome: movedOn(intent) });
      return false;
    });
    let isOver = false;
    for (const sort of sorts(decided)) {
      let isStopped = isOver;
      let width = sort[0]?.type === "create" ? 1 : widthMax;
      for (let at = 0; at < sort.length; ) {
        const batch = sort.slice(at, at + width);
        at += batch.length;
        width = Math.min(widthMax, width * 2);
        if (isStopped) {
          for (const intent of batch) this.ended(this.picture.abandon(intent));
          continue;
        }
        const answers = await Promise.all(batch.map((intent) => this.send(intent, cancel)));
        for (const [i, intent] of batch.entries()) {
          const outcome = answers[i] ?? movedOn(intent);
          committed.push({ intent, outcome });
          if (outcome.ok || isOfOneObject(outcome)) continue;
          isStopped = true;
          if (outcome.reason === "Fenced" || cancel.cancelled) isOver = true;
        }
      }
    }
    return committed;
  }

  private async send(intent: Intent, cancel: Cancel): Promise<Outcome<Written>> {
    const attempt = this.picture.send(intent);
    if (attempt === undefined) return movedOn(intent);
    let outcome: Outcome<Written> = refused("Unknown", "the call threw an exception");
    try {
      outcome = await this.controllers.writer.apply(intent, { cancel });
    } finally {
      const { author } = this.open.get(intentId(intent)) ?? {};
      // The end of a write by its answer is for the reconcile that waits for it: enqueuing that one as well would
      // repeat a write that changes nothing for ever. Other keys may have waited for a write that this one has ruled
      // out.
      const cleared = this.ended(this.picture.answer(intent, outcome, attempt));
      this.wake(cleared.filter((other) => other !== author));
    }
    return outcome;
  }

  private enter(author: Author, intent: Intent): void {
    const name = nameOf(author);
    this.open.set(intentId(intent), { intent, author });
    const own = this.byAuthor.get(name);
    if (own === undefined) this.byAuthor.set(name, new Set([intent]));
    else own.add(intent);
  }

  /** The authors that have no writes in flight any more. */
  private ended(ended: readonly Ended[]): Author[] {
    const cleared: Author[] = [];
    for (const { id } of ended) {
      const found = this.open.get(id);
      if (found === undefined) continue;
      this.open.delete(id);
      const name = nameOf(found.author);
      const own = this.byAuthor.get(name);
      own?.delete(found.intent);
      if (own?.size !== 0) continue;
      this.byAuthor.delete(name);
      cleared.push(found.author);
    }
    return cleared;
  }

  private wake(authors: readonly Author[]): void {
    for (const { controller, key } of authors) this.wakers.get(controller)?.(key);
  }
}

function nameOf({ controller, key }: Author): string {
  return `${controller} ${key}`;
}

function movedOn(intent: Intent): Refusal {
  return refused("Conflict", `not sent: ${intentId(intent)} is no longer what it was decided on, or is on its way`);
}

/** The refusal is about this object and says nothing about the next one. */
function isOfOneObject({ reason }: Refusal): boolean {
  return reason === "Conflict" || reason === "AlreadyExists" || reason === "NotFound" || reason === "Unknown";
}

/** Neighbours of the same verb and kind. */
function sorts(intents: readonly Intent[]): Intent[][] {
  const all: Intent[][] = [];
  let last = "";
  for (const intent of intents) {
    const sort = `${intent.type} ${kindOf(intent.target)}`;
    if (sort === last) all.at(-1)?.push(intent);
    else all.push([intent]);
    last = sort;
  }
  return all;
}

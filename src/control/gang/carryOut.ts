/**
 * A reconciler of the gang operator consists of its sources and a decision function. This file carries decisions out:
 * first the Events that must precede it, then the writes, then the deletes after a second read.
 */
import type {
  Announcement,
  GangDecision,
  Removal as GangRemoval,
  NamedAnnouncement,
} from "../../decide/gang/gangDraft.ts";
import {
  type Done,
  type ReconcilerKind,
  reconcileEvents,
  reconcileFailures,
} from "../../decide/gang/reconcileEvents.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { type GangKind, gangResources } from "../../model/gang/keys.ts";
import { expectedOf, type Intent, resourceKey } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Refusal } from "../../model/outcome.ts";
import { firstRevision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import type { ControllerOptions } from "../runtime/controller.ts";
import { coreEvent } from "../runtime/coreEvent.ts";
import type { Author, Committed, Pace, Removal } from "../runtime/inFlightWrites.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { Channel } from "../runtime/sources.ts";
import { type GangCaches, gangReporter, type Presence, presenceOf } from "./gangCaches.ts";

export interface GangReconcile {
  readonly author: Author;
  readonly cancel: Cancel;
  /** The parent of the children that are reconciled: it gets the Events, and its status the failures. */
  readonly about?: {
    readonly of: ReconcilerKind;
    readonly object: KubeObject;
    /** Enqueues the reconcile that writes the object's status. */
    readonly wakeStatus: () => void;
  };
}

interface GangReconciler extends Omit<ControllerOptions, "reconcile"> {
  /** The channel by which other reconcilers enqueue keys of this one. */
  readonly again?: Channel;
  reconcile(key: string, context: GangReconcile): Promise<ReconcileResult> | ReconcileResult;
}

/** When the API refuses one write of a decision it would refuse them all. */
const pace: Pace = { atOnce: 16, ramp: "all", stop: "all" };

/**
 * Before each reconcile, intents of an earlier one whose outcome is unknown are looked up. Names are derived and
 * deletes carry a precondition, so a write that is decided again takes effect at most once; if the earlier write lands
 * late, the watch shows it.
 */
export function addGangReconciler(caches: GangCaches, options: GangReconciler): void {
  const { again = new Channel(), reconcile, ...rest } = options;
  caches.controllers.add({
    ...rest,
    sources: [again, ...rest.sources],
    reconcile: async (key, { cancel }) => {
      const takenOver = await caches.takeOver.done(cancel);
      if (!takenOver.ok) return reconcileResultOf(takenOver) ?? { again: takenOver.message };
      const author: Author = { name: `${rest.name} ${key}`, wake: () => again.push(key) };
      const settled = await caches.inFlight.resolveWrites(author, { cancel });
      if (typeof settled !== "string") return { again: "the outcome of an earlier write is unknown" };
      return reconcile(key, { author, cancel });
    },
  });
}

export async function carryOut(
  caches: GangCaches,
  decision: GangDecision,
  context: GangReconcile,
): Promise<ReconcileResult> {
  const { author, cancel } = context;
  const unannounced = await announceAll(caches, decision.announcements, context);
  const write = (isStatus: boolean): Promise<Committed[]> => {
    const intents = decision.intents.filter(({ type }) => (type === "status") === isStatus);
    const due = intents.filter((intent) => !caches.inFlight.isUnderWay(intent));
    const decisions = due.map((intent) => ({ intent, effects: effectsOf(intent) }));
    return caches.inFlight.commit(decisions, { author, pace, cancel });
  };
  const written = await write(false);
  // The status is written also where creates are refused: a clique whose new pods are refused is below its minimum all
  // the same. But not before the Event that the status records as written.
  const saved = unannounced === undefined ? await write(true) : [];
  const unsaved = unannounced ?? worstOf(saved);
  // Deletes may be recorded in the status: they follow that write, or wait for the next reconcile.
  const removals = unsaved === undefined ? await grounded(caches, decision.removals, context) : [];
  const removed = await caches.inFlight.remove(removals.map(removalOf), { author, pace, cancel });
  const done = [...written, ...removed].flatMap((committed) => deedOf(committed, context));
  // The status write records what a note reports; until it succeeds, both are decided again.
  const hasStatus = decision.intents.some(({ type }) => type === "status");
  const notes = !hasStatus || saved.some(isWritten) ? decision.notes : [];
  for (const { regarding, ...note } of [...notes, ...told(caches, context, done)]) {
    caches.recorder.record(regarding as KubeObject, note);
  }
  // A retry that one failure needs is not cancelled by another failure that needs none.
  const refusals = [worstOf(written), unsaved ?? worstOf(removed)];
  const results = refusals.flatMap((refusal) => (refusal && reconcileResultOf(refusal)) ?? []);
  const result = results.find((each) => !("giveUp" in each)) ?? results[0];
  if (result !== undefined || decision.wakeAtMs === undefined) return result;
  return { requeueAfterMs: Math.max(1, decision.wakeAtMs - caches.nowMs) };
}

function told(caches: GangCaches, { author, about }: GangReconcile, done: readonly Done[]): readonly Announcement[] {
  if (about === undefined) return [];
  const { of, object, wakeStatus } = about;
  if (caches.noteFailures(object.metadata.uid, author.name, reconcileFailures(of, done))) wakeStatus();
  return reconcileEvents(of, object, done);
}

/** The Event for a write; none for a write to the reconciled object itself. */
function deedOf({ intent: { type, target }, outcome }: Committed, { about }: GangReconcile): readonly Done[] {
  const kind = kindByPlace.get(resourceKey(target));
  if (kind === undefined || kind === about?.object.kind) return [];
  if (type !== "create" && type !== "patch" && type !== "delete") return [];
  return [{ kind, verb: type, name: target.name, ...(!outcome.ok && { refusal: outcome }) }];
}

const kindByPlace: ReadonlyMap<string, GangKind> = new Map(
  Object.entries(gangResources).map(([kind, place]) => [resourceKey(place), kind as GangKind]),
);

/** Also a write without an answer, which may have happened: a note that is recorded twice is better than none. */
function isWritten({ outcome }: Committed): boolean {
  return outcome.ok || outcome.reason === "Unknown";
}

/** The deletion of an object enqueues the key; other refusals have to be retried. */
function worstOf(committed: readonly Committed[]): Refusal | undefined {
  const refusals = committed.flatMap(({ outcome }) => (outcome.ok ? [] : [outcome]));
  return refusals.find(({ reason }) => reason !== "NotFound") ?? refusals[0];
}

function effectsOf(intent: Intent): readonly Effect<Presence>[] {
  if (resourceKey(intent.target) !== resourceKey(gangResources.Pod) || intent.type !== "create") return [];
  return presenceOf(intent.object);
}

/** Deletes exactly the version that was read again. */
function removalOf({ intent, stillRight }: GangRemoval): Removal<Presence> {
  const isPod = resourceKey(intent.target) === resourceKey(gangResources.Pod);
  return {
    intent,
    recheck: ({ object }) =>
      object === undefined || object.metadata.deletionTimestamp !== undefined || !stillRight(object)
        ? { noLongerDue: "the object is kept, or is terminating already" }
        : { still: { ...intent, expected: expectedOf(object) } },
    effects: (victim) => (isPod ? presenceOf(victim as Pod).map(({ key }) => ({ key, value: "gone" })) : []),
  };
}

/** Drops the removals whose ground no longer holds. */
async function grounded(
  caches: GangCaches,
  removals: readonly GangRemoval[],
  context: GangReconcile,
): Promise<GangRemoval[]> {
  const holds = new Map<GangRemoval["ground"], boolean>();
  const kept: GangRemoval[] = [];
  for (const removal of removals) {
    const { ground } = removal;
    if (ground === undefined) {
      kept.push(removal);
      continue;
    }
    let isStill = holds.get(ground);
    if (isStill === undefined) {
      const fresh = await lookAgain(caches.controllers.kube, ground.target, {
        atLeast: caches.assumeCache.snapshot().kind(resourceKey(ground.target)).revision,
        cancel: context.cancel,
      });
      // An error proves nothing: the next reconcile reads again.
      if (!fresh.ok) context.author.wake();
      isStill = fresh.ok && ground.holds(fresh.value.object);
      holds.set(ground, isStill);
    }
    if (isStill) kept.push(removal);
  }
  return kept;
}

/** Permanent refusals: the Event cannot be created, and the reconcile continues without it. */
const permanentEventErrors: readonly string[] = ["Forbidden", "Invalid", "Unauthorized", "NotFound"];

async function announceAll(
  caches: GangCaches,
  announcements: readonly NamedAnnouncement[],
  context: GangReconcile,
): Promise<Refusal | undefined> {
  for (const announcement of announcements) {
    const refusal = await announce(caches, announcement, context);
    if (refusal === undefined) continue;
    if (!permanentEventErrors.includes(refusal.reason)) return refusal;
    caches.controllers.ports.log.warn(
      { event: announcement.name, why: refusal.message },
      "an Event may not be written",
    );
  }
  return undefined;
}

/** Writes an Event whose name is derived from its content: AlreadyExists means that it was written before. */
async function announce(
  caches: GangCaches,
  { name, regarding, type, reason, action, note }: NamedAnnouncement,
  context: GangReconcile,
): Promise<Refusal | undefined> {
  const namespace = regarding.metadata.namespace ?? "default";
  const event = coreEvent({
    name,
    regarding,
    note: { type, reason, action, note },
    times: { firstMs: caches.nowMs, lastMs: caches.nowMs, count: 1 },
    source: { component: gangReporter.controller },
    reporter: gangReporter,
  });
  const target = { ...gangResources.Event, namespace, name };
  const outcome = await caches.controllers.writer.apply(
    { type: "create", target, absentAtRevision: firstRevision, object: event, why: note },
    { cancel: context.cancel },
  );
  return outcome.ok || outcome.reason === "AlreadyExists" ? undefined : outcome;
}

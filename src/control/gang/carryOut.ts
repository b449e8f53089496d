/**
 * Carries a decision out: first the Events that must precede it, then the writes, then the deletes after a second read.
 */
import type { Announcement, GangDecision, NamedAnnouncement, Removal } from "../../decide/gang/gangDraft.ts";
import {
  type Done,
  type ReconcilerKind,
  reconcileEvents,
  reconcileFailures,
} from "../../decide/gang/reconcileEvents.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { type GangKind, places } from "../../model/gang/keys.ts";
import { expectedOf, type Intent, intentId, kindOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Refusal } from "../../model/outcome.ts";
import { firstRevision } from "../../model/revision.ts";
import { formatMicroTime } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import { commit, resolveUnknown } from "../runtime/commit.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { type GangCaches, type Presence, presenceOf } from "./gangCaches.ts";

export interface GangReconcile {
  /** Controller and key. */
  readonly key: string;
  readonly cancel: Cancel;
  /** Enqueues the key of this reconcile. */
  readonly wake: () => void;
  /** The parent of the children that are reconciled: it gets the Events, and its status the failures. */
  readonly about?: {
    readonly of: ReconcilerKind;
    readonly object: KubeObject;
    /** Enqueues the reconcile that writes the object's status. */
    readonly wakeStatus: () => void;
  };
}

/** How many writes of one decision are in flight at most; it begins with one. */
const parallelMax = 16;

export async function carryOut(
  caches: GangCaches,
  decision: GangDecision,
  context: GangReconcile,
): Promise<ReconcileResult> {
  const unsaid = await announceAll(caches, decision.announcements, context);
  const done: Done[] = [];
  const noted = async (intent: Intent, outcome: Promise<Refusal | undefined>): Promise<Refusal | undefined> => {
    const refusal = await outcome;
    const deed = deedOf(intent, context);
    if (deed !== undefined) done.push({ ...deed, ...(refusal && { refusal }) });
    return refusal;
  };
  const isStatus = ({ type }: Intent): boolean => type === "status";
  const doing = await inBatches(
    decision.intents.filter((intent) => !isStatus(intent) && !isUnderWay(caches, intent)),
    (intent) => noted(intent, write(caches, intent, context)),
  );
  // The status is written also where creates are refused: a clique whose new pods are refused is below its minimum all
  // the same. But not before the Event that the status records as written.
  const saying =
    unsaid ??
    (await inBatches(
      decision.intents.filter((intent) => isStatus(intent) && !isUnderWay(caches, intent)),
      (intent) => write(caches, intent, context),
    ));
  // Deletes may be recorded in the status: they follow that write, or wait for the next reconcile.
  const removing =
    saying ??
    (await inBatches(await grounded(caches, decision.removals, context), (removal) =>
      noted(removal.intent, takeAway(caches, removal, context)),
    ));
  for (const { regarding, ...note } of [...decision.notes, ...told(caches, context, done)]) {
    caches.recorder.record(regarding as KubeObject, note);
  }
  // What is to be tried again is, also beside something that is not.
  const results = [doing, removing].flatMap((refusal) => (refusal && reconcileResultOf(refusal)) ?? []);
  const result = results.find((each) => !("giveUp" in each)) ?? results[0];
  if (result !== undefined || decision.wakeAtMs === undefined) return result;
  return { requeueAfterMs: Math.max(1, decision.wakeAtMs - caches.nowMs) };
}

function told(caches: GangCaches, { key, about }: GangReconcile, done: readonly Done[]): readonly Announcement[] {
  if (about === undefined) return [];
  const { of, object, wakeStatus } = about;
  if (caches.noteFailures(object.metadata.uid, key, reconcileFailures(of, done))) wakeStatus();
  return reconcileEvents(of, object, done);
}

/** The Event for a write; none for a write to the reconciled object itself. */
function deedOf({ type, target }: Intent, { about }: GangReconcile): Omit<Done, "refusal"> | undefined {
  const kind = kindByPlace.get(kindOf(target));
  if (kind === undefined || kind === about?.object.kind) return undefined;
  if (type !== "create" && type !== "patch" && type !== "delete") return undefined;
  return { kind, deed: type, name: target.name };
}

const kindByPlace: ReadonlyMap<string, GangKind> = new Map(
  Object.entries(places).map(([kind, place]) => [kindOf(place), kind as GangKind]),
);

/** One, two, four and so on: when the API refuses one it would refuse them all. */
async function inBatches<T>(
  items: readonly T[],
  run: (item: T) => Promise<Refusal | undefined>,
): Promise<Refusal | undefined> {
  let size = 1;
  for (let at = 0; at < items.length; at += size, size = Math.min(size * 2, parallelMax)) {
    const running = items.slice(at, at + size).map(run);
    let first: Refusal | undefined;
    for (const each of running) {
      const refusal = await each;
      // The deletion of an object enqueues the key; other refusals have to be retried.
      if (first === undefined || first.reason === "NotFound") first = refusal ?? first;
    }
    if (first !== undefined) return first;
  }
  return undefined;
}

async function write(caches: GangCaches, intent: Intent, context: GangReconcile): Promise<Refusal | undefined> {
  const effects = effectsOf(intent);
  const id = intentId(intent);
  if (effects.length > 0) caches.expect(id, context.wake);
  const [committed] = await commit(caches.picture, caches.controllers.writer, [{ intent, effects }], {
    cancel: context.cancel,
  });
  const outcome = committed?.outcome;
  if (outcome === undefined || outcome.ok) return undefined;
  if (outcome.reason === "Unknown") caches.doubt(context.key, intent);
  return outcome;
}

/** In flight, or done and not observed yet: the watch will enqueue the keys concerned. */
function isUnderWay(caches: GangCaches, intent: Intent): boolean {
  const state = caches.picture.stateOf(intent);
  return state === "sent" || state === "sentAgain" || state === "acknowledged" || state === "settling";
}

function effectsOf(intent: Intent): readonly Effect<Presence>[] {
  if (kindOf(intent.target) !== kindOf(places.Pod) || intent.type !== "create") return [];
  return presenceOf(intent.object);
}

/** Leaves out what rests on something that no longer holds. */
async function grounded(caches: GangCaches, removals: readonly Removal[], context: GangReconcile): Promise<Removal[]> {
  const holds = new Map<Removal["ground"], boolean>();
  const kept: Removal[] = [];
  for (const removal of removals) {
    const { ground } = removal;
    if (ground === undefined) {
      kept.push(removal);
      continue;
    }
    let isStill = holds.get(ground);
    if (isStill === undefined) {
      const fresh = await lookAgain(caches.controllers.kube, ground.target, {
        atLeast: caches.picture.snapshot().kind(kindOf(ground.target)).revision,
        cancel: context.cancel,
      });
      // An error is no answer; the next reconcile reads again.
      if (!fresh.ok) context.wake();
      isStill = fresh.ok && ground.holds(fresh.value.object);
      holds.set(ground, isStill);
    }
    if (isStill) kept.push(removal);
  }
  return kept;
}

/** Reads the victim again and deletes exactly the version that was read. */
async function takeAway(
  caches: GangCaches,
  { intent, stillRight }: Removal,
  context: GangReconcile,
): Promise<Refusal | undefined> {
  const { kube } = caches.controllers;
  const atLeast = caches.picture.snapshot().kind(kindOf(intent.target)).revision;
  const fresh = await lookAgain(kube, intent.target, { atLeast, cancel: context.cancel });
  if (!fresh.ok) return fresh;
  const victim = fresh.value.object;
  if (victim?.metadata.uid !== intent.expected.uid || victim.metadata.deletionTimestamp !== undefined) return undefined;
  if (!stillRight(victim)) return undefined;
  const now: Intent = { ...intent, expected: expectedOf(victim) };
  const gone = kindOf(intent.target) === kindOf(places.Pod) ? presenceOf(victim) : [];
  const effects = gone.map(({ key }): Effect<Presence> => ({ key, value: "gone" }));
  if (effects.length > 0) caches.expect(intentId(now), context.wake);
  const [committed] = await commit(caches.picture, caches.controllers.writer, [{ intent: now, effects }], {
    cancel: context.cancel,
  });
  const outcome = committed?.outcome;
  if (outcome === undefined || outcome.ok) return undefined;
  if (outcome.reason === "NotFound") return undefined;
  if (outcome.reason === "Unknown") caches.doubt(context.key, now);
  return outcome;
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

/** Writes an Event whose name is derived from its content: AlreadyExists means that it is written. */
async function announce(
  caches: GangCaches,
  { name, regarding, type, reason, action, note }: NamedAnnouncement,
  context: GangReconcile,
): Promise<Refusal | undefined> {
  const { apiVersion, kind, metadata } = regarding;
  const namespace = metadata.namespace ?? "default";
  const event = {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name, namespace },
    eventTime: formatMicroTime(caches.nowMs),
    reportingController: "muster.dev/gang",
    reportingInstance: "muster",
    type,
    reason,
    action,
    note,
    regarding: { apiVersion, kind, namespace, name: metadata.name, uid: metadata.uid },
  };
  const target = { ...places.Event, namespace, name };
  const outcome = await caches.controllers.writer.apply(
    { type: "create", target, absentAt: firstRevision, object: event, why: note },
    { cancel: context.cancel },
  );
  return outcome.ok || outcome.reason === "AlreadyExists" ? undefined : outcome;
}

/**
 * Resolves intents of unknown outcome of an earlier reconcile of this key. Names are derived and deletes carry their
 * precondition, so what is decided again instead can happen once at most; if the old write lands after all, the watch
 * shows it. False: an outcome could not be resolved.
 */
export async function settleDoubts(caches: GangCaches, context: GangReconcile): Promise<boolean> {
  for (const intent of caches.takeDoubts(context.key)) {
    if (caches.picture.stateOf(intent) !== "unknown") continue;
    const outcome = await resolveUnknown(caches.picture, caches.controllers.kube, intent, { cancel: context.cancel });
    if (!outcome.ok) {
      caches.doubt(context.key, intent);
      return false;
    }
    if (!outcome.value) for (const { id } of caches.picture.abandon(intent)) caches.ended(id);
  }
  return true;
}

/**
 * A decision in the making: what to write, what to delete after a second read, when to requeue. One object has one
 * intent in a decision; a second change to it waits for the next reconcile.
 */
import { assert } from "../../model/assert.ts";
import { type GangKind, gangResources } from "../../model/gang/keys.ts";
import {
  type DeleteIntent,
  expectedOf,
  type Intent,
  type IntentTarget,
  keyOf,
  type NewObject,
} from "../../model/intent.ts";
import { earliest } from "../../model/objects/draft.ts";
import { equalFields, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject, MergePatch } from "../../model/objects/object.ts";
import type { ObjectOf } from "../../model/objects/resource.ts";
import type { Revision } from "../../model/revision.ts";

/** The revision at which the name of a new object was free. */
export type AbsentAt = (kind: GangKind) => Revision;

/** A delete, and what must still hold when the object is read again. */
export interface Removal<T extends KubeObject = KubeObject> {
  readonly intent: DeleteIntent<T>;
  /** Pure. Gets the victim as the second read shows it. */
  stillRight(fresh: T): boolean;
  /** Another object that the removal depends on: read first, once for all removals that name it. */
  readonly ground?: Ground;
}

export interface Ground<T extends KubeObject = KubeObject> {
  readonly target: IntentTarget<T>;
  holds(fresh: T | undefined): boolean;
}

/** An Event about an object. */
export interface Announcement {
  readonly regarding: KubeObject;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/**
 * An Event that must exist before anything of this decision is written, because the status will record that it does.
 */
export interface NamedAnnouncement extends Announcement {
  readonly name: string;
}

export interface GangDecision {
  readonly announcements: readonly NamedAnnouncement[];
  readonly intents: readonly Intent[];
  readonly removals: readonly Removal[];
  /** Events for people, best effort: recorded when the status write of this decision, if it has one, succeeds. */
  readonly notes: readonly Announcement[];
  readonly wakeAtMs: number | undefined;
  /** What the reconcile waits for, as text. Empty: the object is in its desired state. */
  readonly waits: readonly string[];
}

type Place = { readonly namespace?: string; readonly name: string };

export function targetOf<K extends GangKind>(kind: K, place: Place): IntentTarget<ObjectOf<(typeof gangResources)[K]>>;
export function targetOf(kind: string, place: Place): IntentTarget;
export function targetOf(kind: string, { namespace = "", name }: Place): IntentTarget {
  const place = gangResources[kind as GangKind];
  assert(place !== undefined, () => `the gang operator writes no ${kind}`);
  return { group: place.group, version: place.version, plural: place.plural, namespace, name };
}

export class GangDraft {
  readonly announcements: NamedAnnouncement[] = [];
  readonly intents: Intent[] = [];
  readonly removals: Removal[] = [];
  readonly notes: Announcement[] = [];
  readonly waits: string[] = [];
  readonly #absentAtRevision: AbsentAt;
  readonly #touched = new Set<string>();
  #wakeAtMs: number | undefined;

  constructor(absentAtRevision: AbsentAt) {
    this.#absentAtRevision = absentAtRevision;
  }

  create(object: NewObject, why: string): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    this.intents.push({
      type: "create",
      target,
      absentAtRevision: this.#absentAtRevision(object.kind as GangKind),
      object,
      why,
    });
  }

  patch<T extends KubeObject>(object: T, patch: MergePatch<NoInfer<T>>, why: string, subresource?: string): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    const intent = { type: "patch", target, expected: expectedOf(object), patch, why } as const;
    this.intents.push(subresource === undefined ? intent : { ...intent, subresource });
  }

  /** Replaces the status if it has changed. */
  status(object: KubeObject & { status?: unknown }, status: object, why: string): boolean {
    const before = object.status ?? {};
    if (equalFields(status, before) || this.has(object)) return false;
    // A field that is left out equals one that is undefined.
    const next = JSON.parse(JSON.stringify(status)) as JsonObject;
    if (equalFields(next, before)) return false;
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    const written = { ...object, status: next };
    this.intents.push({ type: "status", target, expected: expectedOf(object), object: written, why });
    return true;
  }

  remove<T extends KubeObject>(
    object: T,
    why: string,
    more: Partial<Pick<Removal<NoInfer<T>>, "stillRight" | "ground">> = {},
  ): void {
    if (object.metadata.deletionTimestamp !== undefined || this.has(object)) return;
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    const intent: DeleteIntent = { type: "delete", target, expected: expectedOf(object), why };
    const { stillRight = () => true, ground } = more;
    this.removals.push({ intent, stillRight, ...(ground && { ground }) });
  }

  announce(announcement: NamedAnnouncement): void {
    this.announcements.push(announcement);
  }

  note(note: Announcement): void {
    this.notes.push(note);
  }

  wait(why: string): void {
    this.waits.push(why);
  }

  wakeAt(atMs: number | undefined): void {
    this.#wakeAtMs = earliest(this.#wakeAtMs, atMs);
  }

  has(object: KubeObject): boolean {
    return this.#touched.has(placeOf(targetOf(object.kind, object.metadata)));
  }

  decision(): GangDecision {
    const { announcements, intents, removals, notes, waits } = this;
    return { announcements, intents, removals, notes, waits, wakeAtMs: this.#wakeAtMs };
  }

  #touch(target: IntentTarget): void {
    const place = placeOf(target);
    assert(!this.#touched.has(place), () => `two intents for ${place} in one decision`);
    this.#touched.add(place);
  }
}

function placeOf(target: IntentTarget): string {
  return `${target.group}/${target.plural}/${keyOf(target.namespace, target.name)}`;
}

/** Adds or removes a finalizer, if that changes anything. */
export function keepFinalizer(draft: GangDraft, object: KubeObject, finalizer: string): boolean {
  const { finalizers = [] } = object.metadata;
  if (finalizers.includes(finalizer)) return true;
  draft.patch(object, { metadata: { finalizers: [...finalizers, finalizer] } }, "the operator has to see its deletion");
  return false;
}

export function dropFinalizer(draft: GangDraft, object: KubeObject, finalizer: string): void {
  const { finalizers = [] } = object.metadata;
  if (!finalizers.includes(finalizer)) return;
  const rest = finalizers.filter((each) => each !== finalizer);
  draft.patch(
    object,
    { metadata: { finalizers: rest.length === 0 ? null : rest } },
    "the operator has nothing left to delete; garbage collection removes the rest",
  );
}

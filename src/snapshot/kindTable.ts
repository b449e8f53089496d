import { assert } from "../model/assert.ts";
import { keyOfObject } from "../model/intent.ts";
import type { KubeObject } from "../model/objects/object.ts";
import { compareRevisions, firstRevision, isLater, type Revision } from "../model/revision.ts";
import { ChunkedMap, type OrderedView, walkBoth } from "./chunkedMap.ts";

/** The events of a watch of one kind, in order. Between `relistBegins` and `relistDone` they are a new list. */
export type KindEvent<T extends KubeObject = KubeObject> =
  | { readonly type: "relistBegins" }
  | { readonly type: "put" | "removed"; readonly object: T }
  /** The list is complete: nothing that is not in it existed at this revision. */
  | { readonly type: "relistDone"; readonly revision: Revision }
  /** Everything up to this revision has been delivered. */
  | { readonly type: "bookmark"; readonly revision: Revision };

/** One change of the table. */
export type KindChange<T extends KubeObject = KubeObject> =
  | { readonly type: "added"; readonly key: string; readonly object: T }
  | { readonly type: "updated"; readonly key: string; readonly before: T; readonly object: T }
  | {
      readonly type: "deleted";
      readonly key: string;
      readonly before: T;
      /** The final state; if that is unknown (the deletion was missed), the last observed state. */
      readonly object: T;
      readonly isFinalStateUnknown: boolean;
    };

/** One kind at one revision. Immutable. */
export interface KindView<T extends KubeObject = KubeObject> {
  /** Everything that happened to this kind up to here is in it. */
  readonly revision: Revision;
  /** False until the first list is complete. */
  readonly isComplete: boolean;
  readonly objects: OrderedView<T>;
}

export interface Applied<T extends KubeObject> {
  readonly changes: readonly KindChange<T>[];
  /** Why the list was discarded: it is older than the table. Another list is needed. */
  readonly refused?: string;
}

export interface KindTableOptions<T extends KubeObject> {
  /** Drops fields that are never read. Must keep uid, resourceVersion, namespace and name. */
  transform?(object: T): T;
  /** For tests: a write to a shared object throws. */
  readonly freeze?: boolean;
}

const unchanged: Applied<never> = { changes: [] };

/**
 * The objects of one kind, folded from its watch. A new list replaces the old one at once: readers see the old one
 * until the new one is complete, and objects that are missing from the new one are reported as deleted.
 *
 * The table never goes back in time. A lagging server may answer a relist with an older state than was delivered
 * already (deleted pods return, a device is free again); such a list is refused (kubernetes#59848). Since everything up
 * to the table's revision is known, an event at or below it is a repetition and changes nothing.
 */
export class KindTable<T extends KubeObject = KubeObject> {
  private objects = new ChunkedMap<T>();
  private staged: ChunkedMap<T> | undefined;
  private readonly transform: KindTableOptions<T>["transform"];
  private readonly freeze: boolean;
  private current: KindView<T> | undefined;
  private knownRevision: Revision = firstRevision;
  private hasList = false;

  constructor(options: KindTableOptions<T> = {}) {
    this.transform = options.transform;
    this.freeze = options.freeze ?? false;
  }

  get revision(): Revision {
    return this.knownRevision;
  }

  get isComplete(): boolean {
    return this.hasList;
  }

  get(key: string): T | undefined {
    return this.objects.get(key);
  }

  view(): KindView<T> {
    this.current ??= { revision: this.knownRevision, isComplete: this.hasList, objects: this.objects.view() };
    return this.current;
  }

  apply(event: KindEvent<T>): Applied<T> {
    switch (event.type) {
      case "relistBegins":
        this.staged = new ChunkedMap();
        return unchanged;
      case "relistDone":
        return this.swap(event.revision);
      case "bookmark":
        if (this.staged === undefined) this.advance(event.revision);
        return unchanged;
      case "put":
        return this.staged === undefined ? this.put(event.object) : this.stage(this.staged, event.object);
      case "removed":
        if (this.staged === undefined) return this.remove(event.object);
        this.staged.delete(keyOfObject(event.object));
        return unchanged;
    }
  }

  private put(incoming: T): Applied<T> {
    const { resourceVersion } = incoming.metadata;
    if (!isLater(resourceVersion, this.knownRevision)) return unchanged;
    const key = keyOfObject(incoming);
    const object = this.prepare(incoming);
    assert(keyOfObject(object) === key, () => `${key} is ${keyOfObject(object)} when fields are dropped`);
    const before = this.objects.get(key);
    this.advance(resourceVersion);
    // A list may hold a state that is newer than its own revision; the event for it is a repetition.
    if (before !== undefined && before.metadata.resourceVersion === resourceVersion) return unchanged;
    this.objects.set(key, object);
    return { changes: changesBetween(key, before, object) };
  }

  private remove(object: T): Applied<T> {
    const { resourceVersion, uid } = object.metadata;
    const key = keyOfObject(object);
    const before = this.objects.get(key);
    const isNews = isLater(resourceVersion, this.knownRevision);
    if (isNews) this.advance(resourceVersion);
    if (before === undefined) return unchanged;
    // Some servers send a deletion under the last state's own revision. No two changes share one, so it is not a
    // repetition.
    const isLastState = before.metadata.resourceVersion === resourceVersion;
    if (!isNews && !isLastState) return unchanged;
    this.objects.delete(key);
    this.current = undefined;
    const isFinalStateUnknown = before.metadata.uid !== uid;
    const last = isFinalStateUnknown ? before : this.prepare(object);
    return { changes: [{ type: "deleted", key, before, object: last, isFinalStateUnknown }] };
  }

  private stage(staged: ChunkedMap<T>, incoming: T): Applied<T> {
    const key = keyOfObject(incoming);
    const known = this.objects.get(key);
    // A state that the table has already is not kept twice in memory.
    staged.set(key, known !== undefined && isSameState(known, incoming) ? known : this.prepare(incoming));
    return unchanged;
  }

  private swap(revision: Revision): Applied<T> {
    const staged = this.staged ?? new ChunkedMap<T>();
    this.staged = undefined;
    if (isLater(this.knownRevision, revision)) {
      return { changes: [], refused: `the list is of revision ${revision}, and ${this.knownRevision} is known` };
    }
    const changes: KindChange<T>[] = [];
    for (const [key, before, object] of walkBoth(this.objects.view(), staged.view())) {
      if (before === object) continue;
      if (before !== undefined && object !== undefined && isOlderState(object, before)) {
        const [was, is] = [before.metadata.resourceVersion, object.metadata.resourceVersion];
        return { changes: [], refused: `the list has ${key} at revision ${is}, and ${was} is known` };
      }
      changes.push(...changesBetween(key, before, object));
    }
    assert(!isLater(this.knownRevision, revision), () => `revision ${this.knownRevision} would go back to ${revision}`);
    this.objects = staged;
    this.hasList = true;
    this.knownRevision = revision;
    this.current = undefined;
    return { changes };
  }

  private advance(revision: Revision): void {
    if (!isLater(revision, this.knownRevision)) return;
    this.knownRevision = revision;
    this.current = undefined;
  }

  private prepare(incoming: T): T {
    const object = this.transform === undefined ? incoming : this.transform(incoming);
    return this.freeze ? deepFreeze(object) : object;
  }
}

function changesBetween<T extends KubeObject>(
  key: string,
  before: T | undefined,
  object: T | undefined,
): KindChange<T>[] {
  if (before === undefined) return object === undefined ? [] : [{ type: "added", key, object }];
  if (object !== undefined && before.metadata.uid === object.metadata.uid) {
    return [{ type: "updated", key, before, object }];
  }
  // Deleted and created again unobserved: objects with different UIDs are never one update.
  const gone: KindChange<T> = { type: "deleted", key, before, object: before, isFinalStateUnknown: true };
  return object === undefined ? [gone] : [gone, { type: "added", key, object }];
}

function isSameState(a: KubeObject, b: KubeObject): boolean {
  return a.metadata.resourceVersion === b.metadata.resourceVersion && a.metadata.uid === b.metadata.uid;
}

function isOlderState(object: KubeObject, than: KubeObject): boolean {
  return (
    object.metadata.uid === than.metadata.uid &&
    compareRevisions(object.metadata.resourceVersion, than.metadata.resourceVersion) < 0
  );
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const below of Object.values(value)) deepFreeze(below);
  return value;
}

/** A table of one list of this revision. */
export function tableOf<T extends KubeObject>(objects: Iterable<T>, revision: Revision): KindTable<T> {
  const table = new KindTable<T>();
  table.apply({ type: "relistBegins" });
  for (const object of objects) table.apply({ type: "put", object });
  table.apply({ type: "relistDone", revision });
  return table;
}

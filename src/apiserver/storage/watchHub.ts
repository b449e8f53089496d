import type { Clock } from "../../ports/clock.ts";
import type { ObjectStore } from "./objectStore.ts";
import type { StoreEvent } from "./storeEvent.ts";
import { keyOf, type Version } from "./version.ts";

/** An event of a watch. A bookmark has no object, only a revision. */
export type WatchEvent =
  | {
      readonly type: "ADDED" | "MODIFIED" | "DELETED";
      readonly version: Version;
      readonly revision: number;
      /** An initial event, not a change. */
      readonly initial?: true;
    }
  | { readonly type: "BOOKMARK"; readonly revision: number; readonly initialEventsEnd: boolean };

export interface WatchFilter {
  /** Empty for all namespaces. */
  readonly namespace: string;
  /** Only the object of this name. */
  readonly name?: string | undefined;
  /** Only objects with this value in the indexed field; `matches` still decides. */
  readonly indexedValue?: string | undefined;
  /** Selectors; namespace and name are checked by the hub. */
  matches(version: Version): boolean;
}

export interface WatchOptions {
  readonly resource: string;
  readonly filter: WatchFilter;
  /** Events after this revision are delivered. */
  readonly sinceRevision: number;
  readonly bookmarks: boolean;
  readonly timeoutMs?: number | undefined;
  deliver(event: WatchEvent): void;
  /** The watch ended on its own: it timed out, or the server closed it. */
  closed(): void;
}

interface Watcher {
  readonly options: WatchOptions;
  readonly bucket: string;
  /** Events at or below this revision have been delivered. */
  lastRevision: number;
  /** The watch is replaying history; events that are committed meanwhile are delivered by the replay, in order. */
  isCatchingUp: boolean;
  cancelTimeout: (() => void) | undefined;
}

const bookmarkEveryMs = 50_000;

/**
 * Delivers every change to the watches that match it: in order, once, complete. A watch is in one bucket (by name, by
 * indexed field, by namespace, or for all), so that one pod event does not visit five thousand kubelets.
 */
export class WatchHub {
  private readonly store: ObjectStore;
  private readonly clock: Clock;
  private readonly indexedFields: Readonly<Record<string, number>>;
  private readonly resources = new Map<string, Map<string, Set<Watcher>>>();
  private readonly watchers = new Set<Watcher>();
  private cancelBookmarks: (() => void) | undefined;
  private bookmarksDropped = 0;
  /** Old versions that stopped matching a selector, with the revision of the event that changed them. */
  private readonly restamped = new WeakMap<StoreEvent, Version>();

  constructor(store: ObjectStore, clock: Clock, indexedFields: Readonly<Record<string, number>> = {}) {
    this.store = store;
    this.clock = clock;
    this.indexedFields = indexedFields;
    store.onEvent((event) => this.dispatch(event));
  }

  get size(): number {
    return this.watchers.size;
  }

  /**
   * Starts a watch; the caller has checked that `sinceRevision` is not compacted. The returned function stops it
   * without an end event.
   */
  watch(options: WatchOptions): () => void {
    const watcher: Watcher = {
      options,
      bucket: bucketOf(options.filter, this.indexedFields[options.resource] !== undefined),
      lastRevision: options.sinceRevision,
      isCatchingUp: true,
      cancelTimeout: undefined,
    };
    this.add(watcher);
    if (options.timeoutMs !== undefined) {
      watcher.cancelTimeout = this.clock.after(options.timeoutMs, () => this.end(watcher));
    }
    this.catchUp(watcher);
    return () => this.remove(watcher);
  }

  /**
   * A watcher may write when it gets an event, before this returns. The new event must not overtake those still to be
   * delivered, so the next one is found by revision each time, and `dispatch` skips this watch.
   */
  private catchUp(watcher: Watcher): void {
    const collection = this.store.collection(watcher.options.resource);
    while (this.watchers.has(watcher)) {
      const event = collection.events[collection.firstAfter(watcher.lastRevision)];
      if (event === undefined || event.revision > this.store.durableRevision) break;
      this.offer(watcher, event);
    }
    watcher.isCatchingUp = false;
  }

  /** Ends watches as if they timed out: all of them, or those of one resource. */
  closeWatches(resource?: string): void {
    for (const watcher of [...this.watchers]) {
      if (resource === undefined || watcher.options.resource === resource) this.end(watcher);
    }
  }

  /** The next N rounds of bookmarks are not sent (a fault for tests). */
  dropBookmarks(rounds: number): void {
    this.bookmarksDropped += rounds;
  }

  /** Sends a bookmark to every watch that allows it. */
  sendBookmarks(): void {
    if (this.bookmarksDropped > 0) {
      this.bookmarksDropped--;
      return;
    }
    for (const watcher of [...this.watchers]) this.bookmark(watcher);
  }

  private bookmark(watcher: Watcher): void {
    if (!watcher.options.bookmarks || watcher.isCatchingUp) return;
    const revision = this.store.durableRevision;
    // A watch may have been opened at a future revision, which has not been reached.
    if (revision < watcher.lastRevision) return;
    watcher.lastRevision = revision;
    watcher.options.deliver({ type: "BOOKMARK", revision, initialEventsEnd: false });
  }

  private end(watcher: Watcher): void {
    if (!this.watchers.has(watcher)) return;
    this.bookmark(watcher);
    this.remove(watcher);
    watcher.options.closed();
  }

  private add(watcher: Watcher): void {
    const { resource } = watcher.options;
    let buckets = this.resources.get(resource);
    if (buckets === undefined) {
      buckets = new Map();
      this.resources.set(resource, buckets);
    }
    const bucket = buckets.get(watcher.bucket);
    if (bucket === undefined) buckets.set(watcher.bucket, new Set([watcher]));
    else bucket.add(watcher);
    this.watchers.add(watcher);
    this.cancelBookmarks ??= this.scheduleBookmarks();
  }

  private remove(watcher: Watcher): void {
    if (!this.watchers.delete(watcher)) return;
    watcher.cancelTimeout?.();
    const buckets = this.resources.get(watcher.options.resource);
    const bucket = buckets?.get(watcher.bucket);
    bucket?.delete(watcher);
    if (bucket?.size === 0) buckets?.delete(watcher.bucket);
    if (this.watchers.size === 0) {
      this.cancelBookmarks?.();
      this.cancelBookmarks = undefined;
    }
  }

  private scheduleBookmarks(): () => void {
    return this.clock.after(bookmarkEveryMs, () => {
      this.cancelBookmarks = this.scheduleBookmarks();
      this.sendBookmarks();
    });
  }

  private dispatch(event: StoreEvent): void {
    const { current, previous } = event;
    const buckets = this.resources.get(current.resource);
    if (buckets === undefined) return;
    this.offerBucket(buckets, "", event);
    if (buckets.size === (buckets.has("") ? 1 : 0)) return;
    this.offerBucket(buckets, `n:${current.namespace}`, event);
    this.offerBucket(buckets, `k:${keyOf(current.namespace, current.name)}`, event);
    if (current.namespace !== "") this.offerBucket(buckets, `k:${current.name}`, event);
    const field = this.indexedFields[current.resource];
    if (field === undefined) return;
    const now = current.side.fields[field] ?? "";
    const before = previous?.side.fields[field] ?? now;
    this.offerBucket(buckets, `f:${now}`, event);
    if (before !== now) this.offerBucket(buckets, `f:${before}`, event);
  }

  private offerBucket(buckets: Map<string, Set<Watcher>>, key: string, event: StoreEvent): void {
    const bucket = buckets.get(key);
    if (bucket === undefined) return;
    for (const watcher of bucket) if (!watcher.isCatchingUp) this.offer(watcher, event);
  }

  private offer(watcher: Watcher, event: StoreEvent): void {
    if (event.revision <= watcher.lastRevision) return;
    watcher.lastRevision = event.revision;
    const { filter } = watcher.options;
    const { current, previous, revision } = event;
    if (filter.namespace !== "" && filter.namespace !== current.namespace) return;
    if (filter.name !== undefined && filter.name !== current.name) return;
    const before = previous !== undefined && filter.matches(previous);
    const after = !current.deleted && filter.matches(current);
    if (after) {
      watcher.options.deliver({ type: before ? "MODIFIED" : "ADDED", version: current, revision });
    } else if (before) {
      const version = current.deleted ? current : this.restamp(event, previous);
      watcher.options.deliver({ type: "DELETED", version, revision });
    }
  }

  /**
   * In a watch with a selector, an object that stops matching is DELETED: with its last matching state, at the revision
   * of this event.
   */
  private restamp(event: StoreEvent, previous: Version): Version {
    let version = this.restamped.get(event);
    if (version === undefined) {
      version = previous.restamp(event.revision);
      this.restamped.set(event, version);
    }
    return version;
  }
}

/** Only buckets that `dispatch` visits are allowed: a watch by a field without an index is in the bucket for all. */
function bucketOf(filter: WatchFilter, isIndexed: boolean): string {
  if (filter.name !== undefined) return `k:${keyOf(filter.namespace, filter.name)}`;
  if (isIndexed && filter.indexedValue !== undefined) return `f:${filter.indexedValue}`;
  return filter.namespace === "" ? "" : `n:${filter.namespace}`;
}

import { Buffer } from "node:buffer";
import { assert } from "../../model/assert.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Memory } from "../../ports/memory.ts";
import type { OpenReport, SideRecord, Store, StoredChange } from "../../ports/store.ts";
import { Collection } from "./collection.ts";
import type { StoreEvent } from "./storeEvent.ts";
import { keyOf, RecentlyParsed, Version } from "./version.ts";

/**
 * All objects of the API server, under one revision. A commit is synchronous: nothing runs between a read and the
 * commit, so a precondition that was checked holds when the write takes effect.
 *
 * Commits that are not durable yet are visible to writers only (the next write builds on them): events and responses
 * are sent when the log has them. So no client ever acts on a write that a crash could lose.
 */
export class ObjectStore {
  private readonly collections = new Map<string, Collection>();
  private readonly listeners: ((event: StoreEvent) => void)[] = [];
  private readonly log: Store | undefined;
  private readonly clock: Clock;
  private readonly retention: Retention;
  private readonly memory: Memory | undefined;
  private readonly recent = new RecentlyParsed(4096);
  private readonly freeze: boolean;
  private readonly indexedFields: Readonly<Record<string, number>>;
  /**
   * Every retained event, in order, from `historyStart` on; the dropped entries before it are cut off from time to
   * time.
   */
  private history: (StoreEvent | undefined)[] = [];
  private historyStart = 0;
  private historyBytes = 0;
  /** Committed, not yet durable. */
  private undelivered: StoreEvent[] = [];
  private delivering = false;
  private syncing: Promise<void> | undefined;
  private failed: Error | undefined;
  private snapshotting: Promise<void> | undefined;
  private snapshotNotBeforeMs = 0;
  private readonly onProblem: (error: unknown) => void;
  private readonly onSync: (seconds: number) => void;
  private readonly onFailure: (error: Error) => void;
  private waiters: { revision: number; resolve: () => void; cancel: () => void }[] = [];

  /** The newest committed revision. */
  revision = 0;
  /** The newest durable revision; without a log that is the newest committed one. */
  durableRevision = 0;
  /** Reads at a revision below this one are rejected: the history was compacted. */
  compactedRevision = 0;

  constructor(options: ObjectStoreOptions) {
    this.log = options.log;
    this.clock = options.clock;
    this.retention = { ...defaultRetention, ...options.retention };
    this.memory = options.memory;
    this.freeze = options.freeze ?? false;
    this.indexedFields = options.indexedFields ?? {};
    this.onProblem = options.onProblem ?? rethrow;
    this.onSync = options.onSync ?? (() => {});
    this.onFailure = options.onFailure ?? (() => {});
  }

  /** Replays the log. The history since its last snapshot is restored too, so watches resume across a restart. */
  async open(): Promise<OpenReport> {
    if (this.log === undefined) return { revision: 0, snapshotRevision: 0, cutBytes: 0 };
    const report = await this.log.open({
      object: (change) => {
        this.insert(this.versionFromLog(change, undefined));
      },
      change: (change) => {
        const collection = this.collection(change.key.resource);
        const head = collection.head(keyOf(change.key.namespace, change.key.name));
        const current = this.versionFromLog(change, head);
        this.insert(current);
        this.remember(this.eventOf(current, head));
      },
    });
    this.log.onFailure?.((error) => this.fail(error));
    this.revision = report.revision;
    this.durableRevision = report.revision;
    this.compactedRevision = Math.max(report.snapshotRevision, report.lostUpTo ?? 0);
    return report;
  }

  collection(resource: string): Collection {
    let collection = this.collections.get(resource);
    if (collection === undefined) {
      collection = new Collection(resource, this.indexedFields[resource]);
      this.collections.set(resource, collection);
    }
    return collection;
  }

  /** Resources that have ever had an object, in order of name. */
  resources(): string[] {
    return [...this.collections.keys()].sort();
  }

  get(resource: string, namespace: string, name: string): Version | undefined {
    return liveOrNone(this.collections.get(resource)?.head(keyOf(namespace, name)));
  }

  /** Writes one object at the next revision. The store owns the object from here on. */
  put(resource: string, object: KubeObject, side: SideRecord): Version {
    const { namespace = "", name } = object.metadata;
    const revision = this.begin();
    object.metadata.resourceVersion = String(revision);
    if (this.freeze) deepFreeze(object);
    const head = this.collection(resource).head(keyOf(namespace, name));
    const at = { revision, resource, namespace, name, deleted: false };
    const version = new Version(at, side, object, head, this.recent);
    if (this.log !== undefined) version.keepBytes();
    this.commit(version, head);
    return version;
  }

  /** Deletes an object. The tombstone has its last state at the revision of the deletion. */
  remove(version: Version, lastState: KubeObject = version.object()): Version {
    const { resource, namespace, name, side } = version;
    const revision = this.begin();
    const object: KubeObject = {
      ...lastState,
      metadata: { ...lastState.metadata, resourceVersion: String(revision) },
    };
    if (this.freeze) deepFreeze(object);
    const head = this.collection(resource).head(version.key);
    const tombstone = new Version(
      { revision, resource, namespace, name, deleted: true },
      side,
      object,
      head,
      this.recent,
    );
    if (this.log !== undefined) tombstone.keepBytes();
    this.commit(tombstone, head);
    return tombstone;
  }

  /** Called in order of revision with every durable change. */
  onEvent(listener: (event: StoreEvent) => void): () => void {
    this.listeners.push(listener);
    return () => {
      const at = this.listeners.indexOf(listener);
      if (at >= 0) this.listeners.splice(at, 1);
    };
  }

  /**
   * Undefined when the revision is durable already, which is always so without a log; saves a turn of the event loop.
   */
  whenDurable(revision: number): Promise<void> | undefined {
    if (revision <= this.durableRevision) return undefined;
    if (this.failed !== undefined) return Promise.reject(this.failed);
    return this.reach(revision).promise;
  }

  /** Resolves once the revision has been reached and is durable, for reads at a future revision. */
  reach(revision: number): { promise: Promise<void>; cancel: () => void } {
    let cancel = (): void => {};
    const promise = new Promise<void>((resolve, reject) => {
      if (revision <= this.durableRevision) return resolve();
      if (this.failed !== undefined) return reject(this.failed);
      const waiter = { revision, resolve, cancel: () => reject(this.failed ?? new Error("cancelled")) };
      this.waiters.push(waiter);
      cancel = () => {
        this.waiters = this.waiters.filter((other) => other !== waiter);
      };
    });
    return { promise, cancel };
  }

  /** Compacts the history before the revision: exact reads and watches from there get 410. */
  compact(revision: number): void {
    const upTo = Math.min(revision, this.durableRevision);
    while (this.historyStart < this.history.length) {
      const event = this.history[this.historyStart] as StoreEvent;
      if (event.revision > upTo) break;
      this.forget(event);
    }
    this.compactedRevision = Math.max(this.compactedRevision, upTo);
    this.dropForgotten();
  }

  /** Writes a snapshot if the log has grown enough, or at once when forced. */
  async snapshotIfWanted(force = false): Promise<void> {
    const log = this.log;
    if (log === undefined || this.failed !== undefined) return;
    if (this.snapshotting !== undefined) return this.snapshotting;
    if (!force && (this.clock.nowMs() < this.snapshotNotBeforeMs || !log.wantsSnapshot())) return;
    const objects: StoredChange[] = [];
    for (const resource of this.resources()) {
      for (const version of this.collection(resource).all()) objects.push(storedChange(version));
    }
    this.snapshotting = log.snapshot({ revision: this.revision, objects }).finally(() => {
      this.snapshotting = undefined;
    });
    return this.snapshotting;
  }

  async close(): Promise<void> {
    if (this.log === undefined) return;
    await this.syncing?.catch(() => {});
    await this.snapshotting?.catch(() => {});
    await this.log.close();
  }

  /** False once the disk has failed: further writes are rejected. */
  get isHealthy(): boolean {
    return this.failed === undefined;
  }

  /** Retained events, and their size. */
  get historySize(): { events: number; bytes: number } {
    return { events: this.history.length - this.historyStart, bytes: this.historyBytes };
  }

  private postponeSnapshot(error: unknown): void {
    this.snapshotNotBeforeMs = this.clock.nowMs() + snapshotRetryMs;
    this.onProblem(error);
  }

  private begin(): number {
    if (this.failed !== undefined) throw this.failed;
    return this.revision + 1;
  }

  private commit(version: Version, head: Version | undefined): void {
    assert(version.revision > this.revision, () => `revision ${version.revision} is not after ${this.revision}`);
    assert(
      head === undefined || head.revision < version.revision,
      () => `${version.resource}/${version.name} at ${head?.revision} is newer than ${version.revision}`,
    );
    this.revision = version.revision;
    this.insert(version);
    const event = this.eventOf(version, head);
    this.remember(event);
    this.undelivered.push(event);
    if (this.log === undefined) {
      this.deliver(version.revision);
      return;
    }
    this.log.append([storedChange(version)]);
    this.syncing ??= this.sync(this.log);
  }

  /** One sync makes every commit durable that was queued before it began. */
  private async sync(log: Store): Promise<void> {
    try {
      // Yields once, so that other commits of this turn join the sync.
      await Promise.resolve();
      while (this.durableRevision < this.revision) {
        const upTo = this.revision;
        const startedMs = this.clock.monotonicMs();
        await log.synced();
        this.onSync((this.clock.monotonicMs() - startedMs) / 1000);
        this.deliver(upTo);
      }
    } catch (error) {
      this.fail(error instanceof Error ? error : new Error(String(error)));
    } finally {
      this.syncing = undefined;
    }
    // A failed snapshot only makes the log longer; a disk failure shows at the next sync.
    this.snapshotIfWanted().catch((error: unknown) => this.postponeSnapshot(error));
  }

  private fail(error: Error): void {
    if (this.failed !== undefined) return;
    this.failed = error;
    for (const waiter of this.waiters.splice(0)) waiter.cancel();
    this.onFailure(error);
  }

  private deliver(upTo: number): void {
    assert(upTo <= this.revision, () => `revision ${upTo} is durable, and ${this.revision} is the newest`);
    this.durableRevision = Math.max(this.durableRevision, upTo);
    // A listener may commit; its events are queued and delivered by the loop below, in order.
    if (this.delivering) return;
    this.delivering = true;
    let delivered = 0;
    try {
      while (delivered < this.undelivered.length) {
        const event = this.undelivered[delivered] as StoreEvent;
        if (event.revision > this.durableRevision) break;
        delivered++;
        for (const listener of this.listeners) this.tell(listener, event);
      }
    } finally {
      this.undelivered.splice(0, delivered);
      this.delivering = false;
    }
    if (this.waiters.length > 0) {
      const due = this.waiters.filter((waiter) => waiter.revision <= this.durableRevision);
      if (due.length > 0) {
        this.waiters = this.waiters.filter((waiter) => waiter.revision > this.durableRevision);
        for (const waiter of due) waiter.resolve();
      }
    }
    this.trim();
  }

  /** A listener that throws must not keep the event from the others, nor stop the store. */
  private tell(listener: (event: StoreEvent) => void, event: StoreEvent): void {
    try {
      listener(event);
    } catch (error) {
      this.onProblem(error);
    }
  }

  private insert(version: Version): void {
    this.collection(version.resource).setHead(version);
  }

  private eventOf(current: Version, head: Version | undefined): StoreEvent {
    const { revision } = current;
    const previous = liveOrNone(head);
    const collection = this.collection(current.resource);
    // Size of what only the history keeps: the replaced version, and a tombstone.
    const bytes =
      (previous === undefined ? 0 : collection.weightOf(previous)) +
      (current.deleted ? collection.weightOf(current) : 0);
    return { revision, atMs: this.clock.nowMs(), previous, current, bytes };
  }

  private remember(event: StoreEvent): void {
    this.history.push(event);
    this.collection(event.current.resource).remember(event);
    this.historyBytes += event.bytes;
  }

  /** Compacts what the retention no longer covers. */
  private trim(): void {
    const { events, ageMs, bytes } = this.retention;
    let count = this.history.length - this.historyStart;
    if (count <= events && this.historyBytes <= bytes) return;
    // Where memory is scarce, deleted objects must not be kept for their age.
    const oldEnough = this.clock.nowMs() - (this.memory?.isScarce() === true ? 0 : ageMs);
    while (count > 0) {
      const event = this.history[this.historyStart] as StoreEvent;
      const spare = count > events && event.atMs < oldEnough;
      if (!spare && this.historyBytes <= bytes) break;
      if (event.revision > this.durableRevision) break;
      this.forget(event);
      this.compactedRevision = event.revision;
      count--;
    }
    this.dropForgotten();
  }

  private forget(event: StoreEvent): void {
    // Release the entry: the array is cut only when half of it is dropped, and would otherwise keep twice the allowed
    // size.
    this.history[this.historyStart++] = undefined;
    this.historyBytes -= event.bytes;
    event.current.previous = undefined;
    this.collection(event.current.resource).forget(event);
  }

  private dropForgotten(): void {
    // Cutting the array at each event would copy it each time.
    if (this.historyStart < 1024 || this.historyStart * 2 < this.history.length) return;
    this.history = this.history.slice(this.historyStart);
    this.historyStart = 0;
  }

  private versionFromLog(change: StoredChange, head: Version | undefined): Version {
    const { resource, namespace, name } = change.key;
    const at = { revision: change.revision, resource, namespace, name, deleted: change.body === null };
    if (change.body !== null && change.side !== null) {
      return new Version(at, change.side, asBuffer(change.body), head, this.recent);
    }
    if (head === undefined)
      throw new Error(`the log deletes ${resource} ${keyOf(namespace, name)}, which does not exist`);
    const last = head.object();
    const object = { ...last, metadata: { ...last.metadata, resourceVersion: String(change.revision) } };
    const tombstone = new Version(at, head.side, object, head, this.recent);
    tombstone.keepBytes();
    return tombstone;
  }
}

export interface ObjectStoreOptions {
  /** Makes commits durable; without it the store is in memory. */
  log?: Store | undefined;
  clock: Clock;
  retention?: Partial<Retention>;
  /** While it is scarce only the number of events counts for the history. */
  memory?: Memory | undefined;
  /** Tests freeze stored objects, so that a reader that changes one fails. */
  freeze?: boolean;
  /** By resource, the position of the indexed field in its side record. */
  indexedFields?: Readonly<Record<string, number>>;
  /** Called with errors that do not affect the store: a snapshot that could not be written, a listener that threw. */
  onProblem?: (error: unknown) => void;
  /** Called with the duration of each sync of the log. */
  onSync?: (seconds: number) => void;
  /** Called once when the log has failed: durable objects can still be read, writes are rejected. */
  onFailure?: (error: Error) => void;
}

function rethrow(error: unknown): never {
  throw error;
}

/** Delay after a failed snapshot. */
const snapshotRetryMs = 60_000;

/** How much history is retained: the larger of age and count, unless it exceeds `bytes`. */
export interface Retention {
  events: number;
  ageMs: number;
  bytes: number;
}

/** A watch resumes within minutes or not at all, so longer history is not needed. */
const defaultRetention: Retention = { events: 10_000, ageMs: 300_000, bytes: 512 * 1024 * 1024 };

function liveOrNone(version: Version | undefined): Version | undefined {
  return version === undefined || version.deleted ? undefined : version;
}

function storedChange(version: Version): StoredChange {
  const { revision, resource, namespace, name } = version;
  const key = { resource, namespace, name };
  if (version.deleted) return { revision, key, side: null, body: null };
  return { revision, key, side: version.side, body: version.bytes() };
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function deepFreeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const key of Object.keys(value)) deepFreeze((value as Record<string, unknown>)[key]);
}

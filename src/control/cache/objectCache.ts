import { resourceKey } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isAtLeast, type Revision } from "../../model/revision.ts";
import { spread } from "../../ports/backoff.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { type KindChange, type KindEvent, KindTable, type KindView } from "../../snapshot/kindTable.ts";
import { type IndexKeys, type Kept, ObjectIndex } from "../../snapshot/objectIndex.ts";
import { Reflector, type ReflectorOptions, type Selection } from "./reflector.ts";

export interface ObjectCacheOptions<T extends KubeObject> extends ReflectorOptions<T> {
  /** Drops fields that no controller reads, before the object is stored. */
  transform?(object: T): T;
  /** For tests: a write to a shared object throws. */
  readonly freeze?: boolean;
  /** Called when the server is found to be behind the cache, and when it has caught up; see `serverRollback`. */
  readonly onConsistency?: () => void;
  /** Delivers every object again after this time, with jitter. Off by default. */
  readonly resyncMs?: number;
}

/** A change of an object, as handlers receive it. */
export type CacheEvent<T extends KubeObject = KubeObject> = KindChange<T> & {
  /** True for objects of the first list and of a resync: the object has not just changed. */
  readonly isOld: boolean;
};

export type CacheHandler<T extends KubeObject = KubeObject> = (event: CacheEvent<T>) => void;

/**
 * Receives all changes of one watch event before any handler, so that the assume cache is complete before a decision is
 * taken from it.
 */
export type CacheFollower<T extends KubeObject = KubeObject> = (
  changes: readonly KindChange<T>[],
  isNewList: boolean,
) => void;

/** This many older lists in a row are not explained by a lagging replica: with their back-off they take minutes. */
const refusalsMax = 5;
/** Jitter of the resync interval, as a fraction of it. */
const resyncSpread = 0.1;

/**
 * The objects of one kind, kept current by a watch and shared by all readers. Objects are returned without a copy and
 * must never be changed.
 *
 * Events are delivered one after the other: an event that a handler causes is delivered after the current one, to all
 * handlers.
 */
export class ObjectCache<T extends KubeObject = KubeObject> {
  readonly kind: string;
  readonly table: KindTable<T>;
  private readonly options: ObjectCacheOptions<T>;
  private readonly reflector: Reflector;
  private handlers: Kept<CacheEvent<T>>[] = [];
  private followers: Kept<Step<T>>[] = [];
  private readonly indexes: ObjectIndex<T>[] = [];
  private pending: KindEvent<T>[] = [];
  private isTelling = false;
  private waiters: Waiter[] = [];
  private stopResync: (() => void) | undefined;

  constructor(options: ObjectCacheOptions<T>) {
    this.options = options;
    this.kind = resourceKey(options.resource);
    this.table = new KindTable<T>({
      ...(options.transform && { transform: (object: T) => this.transformed(object) }),
      ...(options.freeze !== undefined && { freeze: options.freeze }),
    });
    let isConsistent = true;
    this.reflector = new Reflector(
      options,
      (event) => this.receive(event as KindEvent<T>),
      () => {
        if (isConsistent === (this.serverRollback === undefined)) return;
        isConsistent = !isConsistent;
        if (!isConsistent)
          options.log.error({ kind: this.kind, why: this.serverRollback }, "the server is behind this cache");
        options.onConsistency?.();
      },
    );
  }

  start(): void {
    if (this.reflector.phase !== "idle") return;
    this.reflector.start();
    this.scheduleResync();
  }

  stop(): void {
    this.reflector.stop();
    this.stopResync?.();
    for (const waiter of this.waiters) waiter.resolve(false);
    this.waiters = [];
  }

  /** Which objects of the kind are watched. */
  get selection(): Selection {
    return this.options.selection ?? {};
  }

  get isOfWholeKind(): boolean {
    const { namespace = "", labelSelector = "", fieldSelector = "" } = this.selection;
    return namespace === "" && labelSelector === "" && fieldSelector === "";
  }

  /**
   * The reason, if the server is behind this cache: every list is older than the known revision. The server was
   * restored from a backup, so its revisions have other meanings now, and every decision on them is invalid. Only a
   * restart of this process resets the cache.
   */
  get serverRollback(): string | undefined {
    if (this.reflector.refusals < refusalsMax) return undefined;
    const { refusals } = this.reflector;
    return `${this.kind}: ${refusals} lists in a row are older than the observed revision ${this.revision}: was the server restored from a backup?`;
  }

  /** Whether a watch is open now. Between two watches objects may change unobserved. */
  get isFollowed(): boolean {
    return this.reflector.isFollowing;
  }

  /** The time since the last event or bookmark; undefined before the first watch. */
  get silentForMs(): number | undefined {
    return this.reflector.silentForMs;
  }

  /** How long the kind could not be watched, and why; undefined while it is watched. */
  get outage(): { readonly forMs: number; readonly why: string } | undefined {
    return this.reflector.outage;
  }

  /** How often the watch was interrupted. */
  get breaks(): number {
    return this.reflector.breaks;
  }

  /** Ends a back-off, because the server answers again. */
  retrySoon(): void {
    this.reflector.retrySoon();
  }

  /** Retries before the end of the back-off. Returns whether a back-off was ended. */
  probe(): boolean {
    return this.reflector.probe();
  }

  /** Whether the first list has been delivered completely. */
  get hasSynced(): boolean {
    return this.table.isComplete;
  }

  get revision(): Revision {
    return this.table.revision;
  }

  get(key: string): T | undefined {
    return this.table.get(key);
  }

  view(): KindView<T> {
    return this.table.view();
  }

  /** Existing objects are delivered first, in order of key, as old. The returned function removes the handler. */
  onEvent(handler: CacheHandler<T>): () => void {
    this.handlers.push(handler);
    for (const [key, object] of this.table.view().objects) {
      this.tellOne(handler, { type: "added", key, object, isOld: true });
    }
    return () => {
      this.handlers = this.handlers.filter((other) => other !== handler);
    };
  }

  onChanges(follower: CacheFollower<T>): () => void {
    const kept = ({ changes, isNewList }: Step<T>): void => follower(changes, isNewList);
    this.followers.push(kept);
    return () => {
      this.followers = this.followers.filter((other) => other !== kept);
    };
  }

  /** An index of the objects by another value. An object may have several values or none. */
  index(keysOf: IndexKeys<T>): ObjectIndex<T> {
    const index = new ObjectIndex<T>(keysOf);
    for (const [key, object] of this.table.view().objects) index.apply({ type: "added", key, object });
    this.indexes.push(index);
    return index;
  }

  /**
   * Resolves true when the cache has reached the revision, false when the wait was cancelled. To observe an own write,
   * wait for its revision.
   */
  waitForRevision(revision: Revision, options: { timeoutMs?: number; cancel?: Cancel } = {}): Promise<boolean> {
    return this.waitFor(() => this.hasSynced && isAtLeast(this.table.revision, revision), options);
  }

  waitForSync(options: { timeoutMs?: number; cancel?: Cancel } = {}): Promise<boolean> {
    return this.waitFor(() => this.hasSynced, options);
  }

  private waitFor(isDone: () => boolean, options: { timeoutMs?: number; cancel?: Cancel }): Promise<boolean> {
    if (isDone()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const release: (() => void)[] = [];
      const waiter: Waiter = {
        isDone,
        resolve: (isReached) => {
          for (const each of release) each();
          resolve(isReached);
        },
      };
      const giveUp = (): void => {
        this.waiters = this.waiters.filter((other) => other !== waiter);
        waiter.resolve(false);
      };
      this.waiters.push(waiter);
      if (options.timeoutMs !== undefined) release.push(this.options.clock.after(options.timeoutMs, giveUp));
      if (options.cancel !== undefined) release.push(options.cancel.onCancel(giveUp));
    });
  }

  private receive(event: KindEvent<T>): void {
    this.pending.push(event);
    if (this.isTelling) return;
    this.isTelling = true;
    // A sink must not throw into the reflector: exceptions of transforms, indexes, followers and handlers are caught
    // here.
    try {
      for (let next = this.pending.shift(); next !== undefined; next = this.pending.shift()) this.apply(next);
    } finally {
      this.isTelling = false;
    }
  }

  /** An object on which the transform fails is kept unchanged. */
  private transformed(object: T): T {
    let result = object;
    this.guard(() => {
      result = this.options.transform?.(object) ?? object;
    });
    return result;
  }

  private apply(event: KindEvent<T>): void {
    const isFirstList = !this.table.isComplete;
    const { changes, refused } = this.table.apply(event);
    if (refused !== undefined) {
      this.reflector.refuse(refused);
      return;
    }
    if (event.type === "relistBegins") return;
    const isNewList = event.type === "relistDone";
    for (const index of this.indexes) for (const change of changes) this.guard(() => index.apply(change));
    for (const follower of this.followers) this.guard(() => follower({ changes, isNewList }));
    for (const change of changes) {
      const told: CacheEvent<T> = { ...change, isOld: isFirstList };
      for (const handler of this.handlers) this.tellOne(handler, told);
    }
    if (this.waiters.length > 0) this.wake();
  }

  private wake(): void {
    const done = this.waiters.filter((waiter) => waiter.isDone());
    if (done.length === 0) return;
    this.waiters = this.waiters.filter((waiter) => !done.includes(waiter));
    for (const waiter of done) waiter.resolve(true);
  }

  private tellOne(handler: CacheHandler<T>, event: CacheEvent<T>): void {
    this.guard(() => handler(event));
  }

  private guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.options.log.error({ kind: this.kind, error }, "a handler failed");
      this.options.metrics.count("muster_handler_failures_total", { kind: this.kind });
    }
  }

  private scheduleResync(): void {
    const { resyncMs, clock, random } = this.options;
    if (resyncMs === undefined) return;
    this.stopResync = clock.after(spread(resyncMs, resyncSpread, random), () => {
      for (const [key, object] of this.table.view().objects) {
        const again: CacheEvent<T> = { type: "updated", key, before: object, object, isOld: true };
        for (const handler of this.handlers) this.tellOne(handler, again);
      }
      this.scheduleResync();
    });
  }
}

/** All changes of one watch event. */
interface Step<T extends KubeObject> {
  readonly changes: readonly KindChange<T>[];
  readonly isNewList: boolean;
}

interface Waiter {
  readonly isDone: () => boolean;
  readonly resolve: (isReached: boolean) => void;
}

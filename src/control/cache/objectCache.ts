import { kindOf } from "../../model/intent.ts";
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
  /** Called when what is here can no longer be believed, and when it can again; see `lostTrust`. */
  readonly onTrust?: () => void;
  /** Delivers every object again after this time, with jitter. Off by default. */
  readonly resyncMs?: number;
}

/** A change of an object, as handlers receive it. */
export type CacheEvent<T extends KubeObject = KubeObject> = KindChange<T> & {
  /** It existed before the first list, or is a resync: the object has not just changed. */
  readonly isOld: boolean;
};

export type CacheHandler<T extends KubeObject = KubeObject> = (event: CacheEvent<T>) => void;

/** Receives all changes of one step, before any handler: the picture is complete before a decision is taken from it. */
export type CacheFollower<T extends KubeObject = KubeObject> = (
  changes: readonly KindChange<T>[],
  isNewList: boolean,
) => void;

/** So many older lists in a row are no replica that lags: with their back-off they take minutes. */
const refusalsMax = 5;
/** A share of the time between two resyncs by which chance puts the next one off. */
const resyncSpread = 0.1;

/**
 * The objects of one kind, kept current by a watch and shared by all readers. They are handed out as they are and must
 * never be changed.
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
    this.kind = kindOf(options.resource);
    this.table = new KindTable<T>({
      ...(options.transform && { transform: (object: T) => this.transformed(object) }),
      ...(options.freeze !== undefined && { freeze: options.freeze }),
    });
    let isTrusted = true;
    this.reflector = new Reflector(
      options,
      (event) => this.receive(event as KindEvent<T>),
      () => {
        if (isTrusted === (this.lostTrust === undefined)) return;
        isTrusted = !isTrusted;
        if (!isTrusted)
          options.log.error({ kind: this.kind, why: this.lostTrust }, "the server is behind what is known");
        options.onTrust?.();
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

  /** What of the kind is followed. */
  get selection(): Selection {
    return this.options.selection ?? {};
  }

  get isOfWholeKind(): boolean {
    const { namespace = "", labelSelector = "", fieldSelector = "" } = this.selection;
    return namespace === "" && labelSelector === "" && fieldSelector === "";
  }

  /**
   * Why what is here cannot be believed any more, if so: every list is older than what is known. The server was
   * restored from a backup; its revisions mean something else now, and with them everything that was decided. Only a
   * restart forgets.
   */
  get lostTrust(): string | undefined {
    if (this.reflector.refusals < refusalsMax) return undefined;
    const { refusals } = this.reflector;
    return `${this.kind}: ${refusals} lists in a row are older than revision ${this.revision}, which is known: was the server restored?`;
  }

  /** Whether the first list has been delivered completely. */
  /** Whether a watch is open now. Between two watches objects may change unobserved. */
  get isFollowed(): boolean {
    return this.reflector.isFollowing;
  }

  /** For how long the watch has said nothing; undefined before the first one. */
  get silentForMs(): number | undefined {
    return this.reflector.silentForMs;
  }

  /** For how long it could not be followed, and why; undefined while it is. */
  get outage(): { readonly forMs: number; readonly why: string } | undefined {
    return this.reflector.outage;
  }

  /** How often it was not. */
  get breaks(): number {
    return this.reflector.breaks;
  }

  /** The server answers again. */
  hurry(): void {
    this.reflector.hurry();
  }

  /** Whether it asks now whether the server answers again. */
  scout(): boolean {
    return this.reflector.scout();
  }

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

  /** Existing objects are delivered first, in order of key, as old. The returned function ends it. */
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

  /** Objects by something else than their key. An object may be under several values or none. */
  index(keysOf: IndexKeys<T>): ObjectIndex<T> {
    const index = new ObjectIndex<T>(keysOf);
    for (const [key, object] of this.table.view().objects) index.apply({ type: "added", key, object });
    this.indexes.push(index);
    return index;
  }

  /**
   * Resolves true when everything up to the revision is in the cache, false when the wait was given up. After a write
   * of this kind, its revision is what to wait for.
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
    // A sink must not throw into the reflector: exceptions of transforms, indexes, followers and handlers end here.
    try {
      for (let next = this.pending.shift(); next !== undefined; next = this.pending.shift()) this.apply(next);
    } finally {
      this.isTelling = false;
    }
  }

  /** An object that the transform cannot understand is kept as it came: better too much of it than nothing at all. */
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

/** All that one event of the watch changed. */
interface Step<T extends KubeObject> {
  readonly changes: readonly KindChange<T>[];
  readonly isNewList: boolean;
}

interface Waiter {
  readonly isDone: () => boolean;
  readonly resolve: (isReached: boolean) => void;
}

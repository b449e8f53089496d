import { keyOf } from "../../model/intent.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import { spread } from "../../ports/backoff.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { CacheEvent, ObjectCache } from "../cache/objectCache.ts";
import type { Predicate } from "./predicates.ts";
import { lowPriority, type WorkQueue } from "./workQueue.ts";

/** What enqueues the keys of a controller. */
export interface Source {
  /** Begins to add keys; the returned function ends it. */
  start(queue: Pick<WorkQueue, "add" | "addAfter">): () => void;
  /** Present where workers must wait until this cache has synced. */
  readonly cache?: ObjectCache;
  /** Present where a key is the key of an object in this cache: a failure is reported on that object. */
  readonly keyed?: ObjectCache;
}

/** The keys that an event is about. */
export type KeysOf<T extends KubeObject = KubeObject> = (event: CacheEvent<T>) => Iterable<string>;

/** Changes of a kind. Objects of the first list have low priority. */
export function kindSource<T extends KubeObject>(
  cache: ObjectCache<T>,
  keysOf: KeysOf<T>,
  predicate: Predicate<T> = () => true,
): Source {
  return {
    cache,
    ...(keysOf === ownKey && { keyed: cache }),
    start: (queue) =>
      cache.onEvent((event) => {
        if (!predicate(event)) return;
        const options = event.isOld ? { priority: lowPriority } : {};
        for (const key of keysOf(event)) queue.add(key, options);
      }),
  };
}

/** Keys that code pushes: a webhook, another controller. Keys pushed before the start wait for it. */
export class Channel implements Source {
  private readonly early = new Set<string>();
  private queue: Pick<WorkQueue, "add"> | undefined;

  push(key: string): void {
    if (this.queue === undefined) this.early.add(key);
    else this.queue.add(key);
  }

  start(queue: Pick<WorkQueue, "add">): () => void {
    this.queue = queue;
    for (const key of [...this.early].sort()) queue.add(key);
    this.early.clear();
    return () => {
      this.queue = undefined;
    };
  }
}

/** The same keys at an interval, with jitter. */
export function timerSource(
  { clock, random }: { clock: Clock; random: Random },
  everyMs: number,
  keys: () => Iterable<string>,
): Source {
  return {
    start: (queue) => {
      let cancel = (): void => {};
      const arm = (): void => {
        cancel = clock.after(spread(everyMs, 0.1, random), () => {
          for (const key of keys()) queue.add(key);
          arm();
        });
      };
      arm();
      return () => cancel();
    },
  };
}

/** The object itself. */
export function forObject(): KeysOf {
  return ownKey;
}

const ownKey: KeysOf = ({ key }) => [key];

/**
 * The owner of the object, and on an update the former owner too. By default only the controller. If the owner was
 * deleted and created again, the key is the new object's: the reconcile compares UIDs.
 */
export function forOwner(owner: { group: string; kind: string }, options: { isAnyOwner?: boolean } = {}): KeysOf {
  const ownersOf = ({ metadata }: KubeObject): string[] =>
    (metadata.ownerReferences ?? [])
      .filter(({ apiVersion, kind }) => kind === owner.kind && splitApiVersion(apiVersion).group === owner.group)
      .filter(({ controller }) => controller === true || options.isAnyOwner === true)
      .map(({ name }) => keyOf(metadata.namespace, name));
  return (event) => {
    const owners = ownersOf(event.object);
    return event.type === "updated" ? new Set([...ownersOf(event.before), ...owners]) : owners;
  };
}

/** Keys of other objects that depend on this one, by its current state and, on an update, by its state before. */
export function forMapped<T extends KubeObject>(map: (object: T) => Iterable<string>): KeysOf<T> {
  return (event) =>
    event.type === "updated" ? new Set([...map(event.before), ...map(event.object)]) : new Set(map(event.object));
}

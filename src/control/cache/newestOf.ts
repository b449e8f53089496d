import { keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isAtLeast } from "../../model/revision.ts";
import type { ObjectCache } from "./objectCache.ts";

/**
 * The objects of a cache, or newer versions from the answers to own writes: the answer to a write contains the object
 * before the watch delivers it. Answers that the cache has passed are dropped. Without them a late watch would make a
 * node renew a lease twice, and a GPU be allocated twice.
 */
export class NewestOf<T extends KubeObject = KubeObject> {
  readonly cache: ObjectCache<T>;
  private readonly ours = new Map<string, T>();

  constructor(cache: ObjectCache<T>) {
    this.cache = cache;
  }

  /** Adds the object of an answer. */
  learn(object: T): void {
    const { resourceVersion } = object.metadata;
    if (isAtLeast(this.cache.revision, resourceVersion)) return;
    const key = keyOfObject(object);
    const known = this.ours.get(key);
    // Answers may arrive out of order.
    if (known !== undefined && isAtLeast(known.metadata.resourceVersion, resourceVersion)) return;
    this.ours.set(key, object);
  }

  get(key: string): T | undefined {
    const seen = this.cache.get(key);
    return this.ourOwn(key, seen) ?? seen;
  }

  newest(seen: T): T {
    return this.ourOwn(keyOfObject(seen), seen) ?? seen;
  }

  /** The newest versions of these objects, and own writes that the cache does not have yet, if they match. */
  among(seen: readonly T[], belongs: (object: T) => boolean): T[] {
    if (this.ours.size === 0) return [...seen];
    const found = new Map(seen.map((object) => [keyOfObject(object), this.newest(object)]));
    for (const [key, object] of [...this.ours].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (this.ourOwn(key, this.cache.get(key)) !== undefined) found.set(key, object);
    }
    return [...found.values()].filter(belongs);
  }

  /** Whether a matching object is known only from an own write. */
  isAhead(belongs: (object: T) => boolean): boolean {
    for (const [key, object] of this.ours)
      if (belongs(object) && this.ourOwn(key, this.cache.get(key)) !== undefined) return true;
    return false;
  }

  private ourOwn(key: string, seen: T | undefined): T | undefined {
    const ours = this.ours.get(key);
    if (ours === undefined) return undefined;
    const { resourceVersion } = ours.metadata;
    const isPassed =
      isAtLeast(this.cache.revision, resourceVersion) ||
      (seen !== undefined && isAtLeast(seen.metadata.resourceVersion, resourceVersion));
    if (!isPassed) return ours;
    this.ours.delete(key);
    return undefined;
  }
}

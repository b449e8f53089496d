import { keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isAtLeast } from "../../model/revision.ts";
import type { ObjectCache } from "./objectCache.ts";

/**
 * A kind as its cache shows it, or newer where the answers to our own writes are: the answer to a write is the object
 * after it, long before the watch delivers it. What the cache has passed is dropped. Without it a node renews a lease
 * twice, and a GPU is allocated twice, because a watch is late.
 */
export class NewestOf<T extends KubeObject = KubeObject> {
  readonly cache: ObjectCache<T>;
  private readonly ours = new Map<string, T>();

  constructor(cache: ObjectCache<T>) {
    this.cache = cache;
  }

  /** The API answered with this. */
  learn(object: T): void {
    const { resourceVersion } = object.metadata;
    if (isAtLeast(this.cache.revision, resourceVersion)) return;
    const key = keyOfObject(object);
    const known = this.ours.get(key);
    // Answers may overtake each other.
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

  /** These as they are now, plus our own writes that the cache does not show yet, as far as they belong. */
  among(seen: readonly T[], belongs: (object: T) => boolean): T[] {
    if (this.ours.size === 0) return [...seen];
    const found = new Map(seen.map((object) => [keyOfObject(object), this.newest(object)]));
    for (const [key, object] of [...this.ours].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (this.ourOwn(key, this.cache.get(key)) !== undefined) found.set(key, object);
    }
    return [...found.values()].filter(belongs);
  }

  /** Whether something that belongs is known only from our own writes. */
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

import type { KubeObject } from "../../model/object.ts";
import { isAtLeast } from "../../model/revision.ts";
import type { ObjectCache } from "../objectCache.ts";

/**
 * A cache with our own answered writes on top: what the API has acknowledged counts from then on, until the watch has
 * passed it. Without it a node renews a lease twice, or publishes a slice again, because its watch is late.
 */
export class OwnWrites<T extends KubeObject> {
  private readonly cache: ObjectCache<T>;
  private readonly own = new Map<string, T>();

  constructor(cache: ObjectCache<T>) {
    this.cache = cache;
  }

  /** The newest state that we know of. */
  latest(key: string): T | undefined {
    const seen = this.cache.get(key);
    const own = this.own.get(key);
    if (own === undefined) return seen;
    const { resourceVersion } = own.metadata;
    const isPassed = isAtLeast(seen?.metadata.resourceVersion ?? this.cache.revision, resourceVersion);
    if (!isPassed) return own;
    this.own.delete(key);
    return seen;
  }

  /** The API has answered with this state. */
  answered(key: string, object: T): void {
    this.own.set(key, object);
    this.latest(key);
  }

  forget(key: string): void {
    this.own.delete(key);
  }
}

import { keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { ObjectCache } from "../cache/objectCache.ts";

/** Names that are remembered of one owner, and owners of which any are; older ones may be used again. */
const namesMax = 200;
const ownersMax = 2000;

/**
 * Names that objects of an owner had and have no longer. Names follow from the owner and a slot, so that a create that
 * is sent twice meets itself; a new object must not have the name of one that was seen to go, or a client that waits
 * for the name to go waits for ever. A restart forgets them: such a wait is shorter than that.
 */
export class UsedNames<T extends KubeObject> {
  /** By UID of the owner. Owners and names that were added first come first. */
  private readonly gone = new Map<string, Set<string>>();
  private readonly cache: ObjectCache<T>;

  constructor(cache: ObjectCache<T>) {
    this.cache = cache;
    cache.onEvent((event) => {
      if (event.type === "deleted") this.remember(event.object);
    });
  }

  /** Whether an object has the name, or had it as one of the owner's. */
  has({ metadata: { namespace, uid } }: KubeObject, name: string): boolean {
    return this.cache.get(keyOf(namespace, name)) !== undefined || this.gone.get(uid)?.has(name) === true;
  }

  private remember({ metadata }: T): void {
    const owner = controllerOf(metadata)?.uid;
    if (owner === undefined) return;
    const names = this.gone.get(owner) ?? new Set();
    this.gone.delete(owner);
    this.gone.set(owner, names);
    names.delete(metadata.name);
    names.add(metadata.name);
    dropFirst(names, namesMax);
    dropFirst(this.gone, ownersMax);
  }
}

function dropFirst(entries: Set<string> | Map<string, unknown>, max: number): void {
  if (entries.size <= max) return;
  for (const first of entries.keys()) return void entries.delete(first);
}

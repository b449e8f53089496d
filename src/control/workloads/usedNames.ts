import { keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { ObjectCache } from "../cache/objectCache.ts";

/** The number of names for each owner, and of owners; older names may be used again. */
const namesMax = 200;
const ownersMax = 2000;

/**
 * Names of deleted objects of an owner. Names are derived from the owner and a slot, so that a create that is sent
 * twice creates one object; but a new object must not get the name of a deleted one, otherwise a client that waits for
 * the deletion waits for ever. The names are lost in a restart, which is acceptable because such waits are short.
 */
export class UsedNames<T extends KubeObject> {
  /** By UID of the owner, in the order of insertion. */
  private readonly gone = new Map<string, Set<string>>();
  private readonly cache: ObjectCache<T>;

  constructor(cache: ObjectCache<T>) {
    this.cache = cache;
    cache.onEvent((event) => {
      if (event.type === "deleted") this.remember(event.object);
    });
  }

  /** Whether an object has the name, or a deleted object of the owner had it. */
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

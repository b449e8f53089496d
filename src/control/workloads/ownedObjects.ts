import { keyOf } from "../../model/intent.ts";
import type { Known } from "../../model/objects/draft.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { Resource } from "../../model/objects/resource.ts";

import type { CacheIndex } from "../cache/cacheIndex.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { InFlightWrites } from "./inFlightWrites.ts";

/** A kind as the controllers read it: by name, by controller, and the objects without a controller. Never all of it. */
export class OwnedObjects<T extends Known> {
  readonly kind: Resource;
  readonly cache: ObjectCache;
  private readonly owned: CacheIndex;
  private readonly orphans: CacheIndex;

  constructor(desk: InFlightWrites, kind: Resource) {
    this.kind = kind;
    this.cache = desk.cache(kind);
    this.owned = this.cache.index(({ metadata }) => {
      const owner = controllerOf(metadata);
      return owner === undefined ? nobody : [owner.uid];
    });
    this.orphans = this.cache.index(({ metadata }) =>
      controllerOf(metadata) === undefined ? [metadata.namespace ?? ""] : nobody,
    );
  }

  get(namespace: string | undefined, name: string): T | undefined {
    return this.cache.get(keyOf(namespace, name)) as T | undefined;
  }

  has(namespace: string | undefined, name: string): boolean {
    return this.cache.get(keyOf(namespace, name)) !== undefined;
  }

  ownedBy({ metadata }: { metadata: { uid: string } }): readonly T[] {
    return this.owned.get(metadata.uid) as readonly KubeObject[] as unknown as readonly T[];
  }

  /** How many the owner has. */
  countOf({ metadata }: { metadata: { uid: string } }): number {
    return this.owned.count(metadata.uid);
  }

  /** Those that the owner has, and those that it may take: what a claim is decided on. */
  candidatesOf({ metadata }: Known): T[] {
    const orphans = this.orphans.get(metadata.namespace ?? "") as readonly KubeObject[] as unknown as readonly T[];
    return orphans.length === 0 ? [...this.ownedBy({ metadata })] : [...this.ownedBy({ metadata }), ...orphans];
  }
}

const nobody: readonly string[] = [];

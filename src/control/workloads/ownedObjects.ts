import { keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { Resource } from "../../model/objects/resource.ts";

import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";

/**
 * Indexes of a kind: by name, by controller, and the objects without a controller. Controllers never list all objects.
 */
export class OwnedObjects<T extends KubeObject> {
  readonly kind: Resource<T>;
  readonly cache: ObjectCache<T>;
  private readonly owned: ObjectIndex<T>;
  private readonly orphans: ObjectIndex<T>;

  constructor(controllers: Controllers, kind: Resource<T>) {
    this.kind = kind;
    this.cache = controllers.cache(kind);
    this.owned = this.cache.index(({ metadata }) => {
      const owner = controllerOf(metadata);
      return owner === undefined ? nobody : [owner.uid];
    });
    this.orphans = this.cache.index(({ metadata }) =>
      controllerOf(metadata) === undefined ? [metadata.namespace ?? ""] : nobody,
    );
  }

  get(namespace: string | undefined, name: string): T | undefined {
    return this.cache.get(keyOf(namespace, name));
  }

  has(namespace: string | undefined, name: string): boolean {
    return this.cache.get(keyOf(namespace, name)) !== undefined;
  }

  ownedBy({ metadata }: { metadata: { uid: string } }): readonly T[] {
    return this.owned.get(metadata.uid);
  }

  /** The number of objects of the owner. */
  countOf({ metadata }: { metadata: { uid: string } }): number {
    return this.owned.count(metadata.uid);
  }

  /** The objects of the owner, and orphans that it may adopt. */
  candidatesOf({ metadata }: KubeObject): T[] {
    const orphans = this.orphans.get(metadata.namespace ?? "");
    return orphans.length === 0 ? [...this.ownedBy({ metadata })] : [...this.ownedBy({ metadata }), ...orphans];
  }
}

const nobody: readonly string[] = [];

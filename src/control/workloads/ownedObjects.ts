import { keyOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { Resource } from "../../model/objects/resource.ts";

import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";

/** A kind as the controllers read it: by name, by controller, and the objects without a controller. Never all of it. */
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

  /** How many the owner has. */
  countOf({ metadata }: { metadata: { uid: string } }): number {
    return this.owned.count(metadata.uid);
  }

  /** Those that the owner has, and those that it may take: what a claim is decided on. */
  candidatesOf({ metadata }: KubeObject): T[] {
    const orphans = this.orphans.get(metadata.namespace ?? "");
    return orphans.length === 0 ? [...this.ownedBy({ metadata })] : [...this.ownedBy({ metadata }), ...orphans];
  }
}

const nobody: readonly string[] = [];

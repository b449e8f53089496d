import { keyOf } from "../../model/intent.ts";
import type { AdmissionHook, AdmissionLookup, HookResource } from "../../model/objects/admissionHook.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";

/** Lookups of admission hooks, from caches of the kinds that they declare. The caches may lag behind the server. */
export function cachedLookup(controllers: Controllers, hooks: readonly AdmissionHook[]): AdmissionLookup {
  const caches = new Map<string, ObjectCache>();
  for (const resource of hooks.flatMap(({ reads = [] }) => reads)) {
    caches.set(wordFor(resource), controllers.cache(resource));
  }
  const cacheOf = <T extends KubeObject>(resource: HookResource<T>): ObjectCache<T> => {
    const cache = caches.get(wordFor(resource));
    if (cache === undefined) throw new Error(`a hook looks up ${wordFor(resource)}, which it does not declare to read`);
    return cache as ObjectCache<T>;
  };
  return {
    get: (resource, namespace, name) => cacheOf(resource).get(keyOf(namespace, name)),
    list: (resource, namespace) =>
      [...cacheOf(resource).view().objects.values()].filter(
        ({ metadata }) => namespace === "" || metadata.namespace === namespace,
      ),
  };
}

function wordFor({ group, plural }: HookResource): string {
  return group === "" ? plural : `${plural}.${group}`;
}

import type { KubeObject } from "../../model/objects/object.ts";
import { AssumeCache, type AssumeCacheOptions } from "../../snapshot/assumeCache.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import type { ObjectCache } from "../cache/objectCache.ts";

/** An assume cache of some kinds, kept current by their caches. `effects`: what objects hold, by resource key. */
export function assumeCacheOf<V = never>(
  caches: readonly ObjectCache[],
  effects: Readonly<Record<string, (object: KubeObject) => readonly Effect<V>[]>> = {},
  options: AssumeCacheOptions<V> = {},
): AssumeCache<V> {
  const tables = caches.map(({ kind, table }) => {
    const held = effects[kind];
    return [kind, held === undefined ? { table } : { table, effects: held }] as const;
  });
  const assumeCache = new AssumeCache<V>(Object.fromEntries(tables), options);
  for (const cache of caches) {
    cache.onChanges((changes, isNewList) => void assumeCache.observed(cache.kind, changes, isNewList));
  }
  return assumeCache;
}

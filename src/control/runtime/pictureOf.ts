import type { KubeObject } from "../../model/objects/object.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import { Picture, type PictureOptions } from "../../snapshot/picture.ts";
import type { ObjectCache } from "../cache/objectCache.ts";

/** One picture of some kinds, kept current by their caches. What objects hold is given by resource key. */
export function pictureOf<V = never>(
  caches: readonly ObjectCache[],
  effects: Readonly<Record<string, (object: KubeObject) => readonly Effect<V>[]>> = {},
  options: PictureOptions<V> = {},
): Picture<V> {
  const tables = caches.map(({ kind, table }) => {
    const held = effects[kind];
    return [kind, held === undefined ? { table } : { table, effects: held }] as const;
  });
  const picture = new Picture<V>(Object.fromEntries(tables), options);
  for (const cache of caches) {
    cache.onChanges((changes, isNewList) => void picture.observed(cache.kind, changes, isNewList));
  }
  return picture;
}

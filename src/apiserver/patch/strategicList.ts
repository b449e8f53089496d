/**
 * Lists in a strategic merge patch: items are matched by their merge key (or by value, for primitives), and the result
 * is ordered by the patch and by the server's list.
 */
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { badRequest, failure } from "../../model/objects/status.ts";
import type { ListNode, SchemaNode } from "../schema/schemaNode.ts";
import { badOrder, clean, goText, ownValue, unknownDirective } from "./strategicDirectives.ts";

type MergeItem = (server: JsonObject, patch: JsonObject, schema: SchemaNode) => JsonObject;

export function mergeList(input: {
  server: Json[];
  patch: Json[];
  /** The list of `$setElementOrder`, if given. */
  order: Json[] | undefined;
  schema: ListNode;
  /** Merges two items with the same key. */
  mergeItem: MergeItem;
}): Json[] {
  const { server, patch, order, schema, mergeItem } = input;
  const kind = itemKind([...server, ...patch]);
  if (kind === undefined) return [];
  if (kind === "primitive") {
    if (order !== undefined) checkOrder(patch, order, "");
    // A patch that only orders keeps repeated values.
    const merged = patch.length === 0 ? server.slice() : [...new Set([...server, ...patch])];
    return arrange(merged, order ?? patch, server, identityOf);
  }
  const mergeKey = schema.patchMergeKey;
  if (mergeKey === "") {
    throw badRequest(`cannot merge lists without merge key for ${"name" in schema.items ? schema.items.name : "list"}`);
  }
  const { kept, items } = takeDirectives(server as JsonObject[], patch as JsonObject[], mergeKey);
  if (order !== undefined) checkOrder(items, order, mergeKey);
  const merged = mergeItems(kept, items, schema, mergeItem);
  const keyOf = (item: Json): string | undefined =>
    isObject(item) && Object.hasOwn(item, mergeKey) ? identityOf(item[mergeKey] ?? null) : undefined;
  if (order === undefined) return arrange(merged, items, kept, keyOf);
  // With an explicit order, upstream lets new items take the indexes of removed ones before it compares indexes.
  return arrange(merged, order, kept.concat(merged.slice(kept.length, server.length)), keyOf);
}

/** Removes the items that `$patch` directives delete; the other items of the patch remain. */
function takeDirectives(server: JsonObject[], patch: JsonObject[], mergeKey: string) {
  const items: JsonObject[] = [];
  const gone = new Set<string>();
  let replace = false;
  for (const item of patch) {
    const directive = ownValue(item, "$patch");
    if (directive === undefined) items.push(item);
    else if (directive === "delete") gone.add(identityOf(keyValue(item, mergeKey)));
    else if (directive === "replace") replace = true;
    else if (directive === "merge") throw badRequest("merging lists cannot yet be specified in the patch");
    else throw unknownDirective(directive, item);
  }
  if (replace) return { kept: [], items };
  const kept = server.filter((item) => !Object.hasOwn(item, mergeKey) || !gone.has(identityOf(item[mergeKey] ?? null)));
  return { kept, items };
}

/**
 * Merges each item into the first one with its key, or appends it. Keys need not be unique on the server (port 53 for
 * TCP and for UDP): then the first one is patched, as upstream.
 */
function mergeItems(server: JsonObject[], items: JsonObject[], schema: ListNode, mergeItem: MergeItem): JsonObject[] {
  const mergeKey = schema.patchMergeKey;
  const merged = server.slice();
  const places = new Map<string, number>();
  for (const [place, item] of merged.entries()) {
    if (!Object.hasOwn(item, mergeKey)) continue;
    const key = identityOf(item[mergeKey] ?? null);
    if (!places.has(key)) places.set(key, place);
  }
  for (const item of items) {
    const key = identityOf(keyValue(item, mergeKey));
    const place = places.get(key);
    const found = place === undefined ? undefined : merged[place];
    if (place !== undefined && found !== undefined) {
      merged[place] = mergeItem(found, item, schema.items);
    } else {
      const fresh = clean(item, schema.items);
      if (!isObject(fresh)) continue;
      places.set(key, merged.length);
      merged.push(fresh);
    }
  }
  return merged;
}

/**
 * Items of `wanted` are in its order; the server's own keep theirs. Where both meet, an item of the server precedes the
 * next wanted one if it preceded it on the server. So a new item without an explicit order becomes the first, as
 * upstream.
 */
function arrange(merged: Json[], wanted: Json[], server: Json[], keyOf: (item: Json) => string | undefined): Json[] {
  const wantedAt = places(wanted, keyOf);
  const serverAt = places(server, keyOf);
  const placeIn = (at: Map<string, number>, item: Json): number | undefined => {
    const key = keyOf(item);
    return key === undefined ? undefined : at.get(key);
  };
  const listed: Json[] = [];
  const own: Json[] = [];
  for (const item of merged) (placeIn(wantedAt, item) === undefined ? own : listed).push(item);
  // Sorting is stable, so items that share a key keep their order.
  const sortBy = (list: Json[], at: Map<string, number>) =>
    list.sort((a, b) => (placeIn(at, a) ?? list.length) - (placeIn(at, b) ?? list.length));
  sortBy(listed, wantedAt);
  sortBy(own, serverAt);

  const result: Json[] = [];
  let next = 0;
  for (const item of listed) {
    const at = placeIn(serverAt, item);
    while (next < own.length) {
      const candidate = own[next] as Json;
      const before = placeIn(serverAt, candidate);
      if (at === undefined || before === undefined || before >= at) break;
      result.push(candidate);
      next++;
    }
    result.push(item);
  }
  return result.concat(own.slice(next));
}

function places(list: Json[], keyOf: (item: Json) => string | undefined): Map<string, number> {
  const at = new Map<string, number>();
  for (const [place, item] of list.entries()) {
    const key = keyOf(item);
    if (key !== undefined && !at.has(key)) at.set(key, place);
  }
  return at;
}

/** Patched items must appear in the order list, in the same order. */
function checkOrder(items: Json[], order: Json[], mergeKey: string): void {
  if (items.length === 0 || order.length === 0) return;
  const keyOf = (item: Json) => {
    if (mergeKey === "") return identityOf(item);
    if (!isObject(item)) throw badOrder();
    return identityOf(keyValue(item, mergeKey));
  };
  let found = 0;
  for (const entry of order) {
    const item = items[found];
    if (item === undefined) break;
    if (keyOf(entry) === keyOf(item)) found++;
  }
  if (found < items.length) {
    throw badRequest(
      `The order in patch list:\n${goText(items)}\n doesn't match $setElementOrder list:\n${goText(order)}\n`,
    );
  }
}

function keyValue(item: JsonObject, mergeKey: string): Json {
  const value = ownValue(item, mergeKey);
  if (value === undefined) {
    throw badRequest(`map: ${goText(item)} does not contain declared merge key: ${mergeKey}`);
  }
  return value;
}

/** Text that is equal when two primitives are; the string "80" and the number 80 differ. */
function identityOf(value: Json): string {
  return typeof value === "string" ? `s${value}` : JSON.stringify(value);
}

function itemKind(items: Json[]): "map" | "primitive" | undefined {
  let kind: "map" | "primitive" | undefined;
  for (const item of items) {
    if (Array.isArray(item)) throw failure(422, "Invalid", "lists of lists are not supported", {});
    const next = isObject(item) ? "map" : "primitive";
    if (kind !== undefined && kind !== next) {
      throw badRequest(`list element types are not identical: ${goText(items)}`);
    }
    kind = next;
  }
  return kind;
}

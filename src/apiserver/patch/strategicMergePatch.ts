/**
 * The patch that kubectl sends for built-in kinds: a merge patch in which lists with a merge key are merged item by
 * item, and keys that start with `$` are directives: delete an item, set an order, retain keys. The schema states which
 * lists merge and by which key. The input never changes; unchanged subtrees are shared with it.
 */
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { badRequest } from "../../model/objects/status.ts";
import type { ListNode, SchemaNode } from "../schema/schemaNode.ts";
import { refusePrototypeKey } from "./mergePatch.ts";
import {
  badOrder,
  childSchema,
  clean,
  cleanMap,
  orderPrefix,
  ownValue,
  removePrefix,
  retainKeys,
  unknownDirective,
} from "./strategicDirectives.ts";
import { mergeList } from "./strategicList.ts";

export function strategicMergePatch(target: JsonObject, patch: Json, schema: SchemaNode): JsonObject {
  if (!isObject(patch)) throw badRequest("invalid JSON document");
  return mergeMap(target, patch, schema);
}

/** Merges one object; also how list items that match by key are merged. */
function mergeMap(original: JsonObject, patch: JsonObject, schema: SchemaNode | undefined): JsonObject {
  const directive = ownValue(patch, "$patch");
  if (directive === "delete") return {};
  if (directive === "replace") return cleanMap(patch, schema);
  if (directive !== undefined && directive !== "merge") throw unknownDirective(directive, patch);

  const result = retained(original, patch);
  for (const [field, change] of changesOf(patch)) {
    const before = ownValue(result, field);
    const after = applyChange(before, change, childSchema(schema, field));
    if (after === undefined) delete result[field];
    else result[field] = after;
  }
  return result;
}

/** The change of one field: its value, the order of its items, and primitives to delete. */
type Change = { value?: Json; order?: Json[]; remove?: Json[] };

function changesOf(patch: JsonObject): Map<string, Change> {
  const changes = new Map<string, Change>();
  const changeOf = (field: string): Change => {
    refusePrototypeKey(field);
    const known = changes.get(field);
    if (known !== undefined) return known;
    const change: Change = {};
    changes.set(field, change);
    return change;
  };
  for (const [key, value] of Object.entries(patch)) {
    if (key === "$patch" || key === retainKeys) continue;
    if (key.startsWith("$setElementOrder")) {
      if (!key.startsWith(orderPrefix) || !Array.isArray(value)) throw badOrder();
      changeOf(key.slice(orderPrefix.length)).order = value;
    } else if (key.startsWith("$deleteFromPrimitiveList")) {
      if (!key.startsWith(removePrefix) || !Array.isArray(value)) {
        throw badRequest("invalid patch format of primitive list");
      }
      changeOf(key.slice(removePrefix.length)).remove = value;
    } else {
      changeOf(key).value = value;
    }
  }
  return changes;
}

/** The field after the change, or undefined when it is removed. */
function applyChange(before: Json | undefined, change: Change, schema: SchemaNode | undefined): Json | undefined {
  const { value, order, remove } = change;
  let after: Json | undefined = before;
  if (schema?.kind === "list" && schema.patchMerge && (value === undefined ? order !== undefined : value !== null)) {
    after = mergeListField(before, value, order, schema);
  } else if (value === null) {
    if (order !== undefined) throw badOrder();
    after = undefined;
  } else if (value !== undefined) {
    after = mergeValue(before, value, schema);
  }
  if (remove !== undefined && Array.isArray(after)) {
    const gone = new Set(remove);
    after = after.filter((item) => !gone.has(item));
  }
  return after;
}

function mergeListField(
  before: Json | undefined,
  value: Json | undefined,
  order: Json[] | undefined,
  schema: ListNode,
): Json | undefined {
  if (value !== undefined && !Array.isArray(value)) {
    if (order !== undefined) throw badOrder();
    return clean(value, schema);
  }
  if (before !== undefined && !Array.isArray(before)) {
    if (order !== undefined) throw badOrder();
    return clean(value ?? null, schema);
  }
  if (before === undefined && value === undefined) return undefined;
  return mergeList({ server: before ?? [], patch: value ?? [], order, schema, mergeItem: mergeMap });
}

function mergeValue(before: Json | undefined, value: Json, schema: SchemaNode | undefined): Json | undefined {
  if (!isObject(value) || !isObject(before)) return clean(value, schema);
  if (schema?.kind === "struct" && schema.replace === true) return clean(value, schema);
  return mergeMap(before, value, schema);
}

/** A copy of the original without the keys that `$retainKeys` does not list. */
function retained(original: JsonObject, patch: JsonObject): JsonObject {
  const keep = ownValue(patch, retainKeys);
  if (keep === undefined) return { ...original };
  if (!Array.isArray(keep)) throw badRequest("invalid patch format of retainKeys");
  const kept = new Set(keep);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || key.startsWith("$")) continue;
    if (!kept.has(key)) throw badRequest("invalid patch format of retainKeys");
  }
  const result: JsonObject = {};
  for (const [key, value] of Object.entries(original)) if (kept.has(key)) result[key] = value;
  return result;
}

import { equalJson } from "../../model/objects/json.ts";
import type { KubeObject, ManagedFieldsEntry } from "../../model/objects/object.ts";
import type { SchemaNode } from "../schema/schemaNode.ts";
import { type Comparison, compareObjects } from "./compareObjects.ts";
import { difference, type FieldSet, fromPaths, leaf, union } from "./fieldSet.ts";
import {
  decodeEntries,
  equalExceptTimes,
  fieldsOfEntry,
  foldAncient,
  isReset,
  ownershipEntry,
  revised,
  sortEntries,
} from "./ownershipEntry.ts";
import { UnnamedItemError } from "./pathElement.ts";
import { type Shape, shapeOf } from "./shape.ts";
import { createdFields } from "./trackedFields.ts";

/**
 * Keeps metadata.managedFields: which manager owns which field of an object.
 *
 * How the verbs use this folder. In upstream ownership is settled before admission, so what admission and the
 * registry add has no owner; what defaults add to a created or updated object is owned by the writer, what they
 * add to an applied one is not.
 *
 *   create:  decode, defaults -> updateManagedFields(live: undefined) -> admission -> prepare, validate -> commit
 *   update:  decode, defaults -> updateManagedFields(live, next)      -> admission -> prepare, validate -> commit
 *   apply:   parse -> applyPatch(live, what was parsed) -> decode, defaults -> admission -> prepare, validate -> commit
 *
 * The result of updateManagedFields replaces next.metadata.managedFields, which is deleted if there is none. applyPatch
 * has already set the list in the object that it returns. Before any commit, `isSameExceptTimes(live, next)` detects a
 * write that changes nothing but times: its response is the live object and nothing is stored.
 */

export interface OwnershipUpdate {
  readonly schema: SchemaNode;
  /** The object before the write; undefined on create. */
  readonly live: KubeObject | undefined;
  /** The object to be written; its managedFields are what the client sent. */
  readonly next: KubeObject;
  readonly manager: string;
  readonly apiVersion: string;
  /** Empty for the main endpoint. */
  readonly subresource: string;
  /** The current time, as RFC 3339 in seconds. */
  readonly time: string;
  /**
   * Fields that this endpoint does not take from the client: `resetStatus` on a main endpoint with a status
   * subresource.
   */
  readonly resetFields?: FieldSet;
}

/** For main endpoints of kinds with /status. */
export const resetStatus: FieldSet = { "f:status": leaf };
/** For /status. */
export const resetSpec: FieldSet = { "f:spec": leaf };
/** For /status of Deployments. */
export const resetSpecAndLabels: FieldSet = { "f:metadata": { "f:labels": leaf }, "f:spec": leaf };
/** For /status of custom resources, which writes only the status. */
export const resetSpecAndMetadata: FieldSet = { "f:metadata": leaf, "f:spec": leaf };

/** Identity and bookkeeping, which have no owner. This is metadata itself, not all its fields. */
export const neverTracked = fromPaths([
  ["f:apiVersion"],
  ["f:kind"],
  ...[
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
  ].map((name) => ["f:metadata", `f:${name}`]),
]) as FieldSet;

const skipSets = new WeakMap<FieldSet, FieldSet>();

/** The fields that a comparison skips at an endpoint with these reset fields. */
export function skippedFields(resetFields: FieldSet | undefined): FieldSet {
  if (resetFields === undefined) return neverTracked;
  const known = skipSets.get(resetFields);
  if (known !== undefined) return known;
  const skip = union(neverTracked, resetFields) as FieldSet;
  skipSets.set(resetFields, skip);
  return skip;
}

/**
 * The managedFields after a create, an update or a patch other than apply; undefined if there are none. Changed fields
 * move to the writer from all other managers; removed fields are removed from all managers.
 */
export function updateManagedFields(update: OwnershipUpdate): ManagedFieldsEntry[] | undefined {
  const { live, next } = update;
  const stored = live?.metadata.managedFields;
  const entries = entriesBefore(update, stored);
  // An object whose managedFields were reset stays without them until the next apply.
  if (live !== undefined && (entries === undefined || entries.length === 0)) return undefined;

  let found: Comparison | undefined;
  try {
    const shape = shapeOf(update.schema);
    const skip = skippedFields(update.resetFields);
    found =
      live === undefined
        ? { changed: createdInEmpty(shape, next, skip), removed: undefined }
        : compareObjects(shape, live, next, skip);
  } catch (error) {
    // A list whose items have no keys cannot be compared. Field ownership is no reason to reject a write.
    if (error instanceof UnnamedItemError) return stored;
    throw error;
  }
  if (found === undefined) return entries;
  const result = sortEntries(foldAncient(moveOwnership(update, entries ?? [], found)));
  return result.length === 0 ? undefined : result;
}

/** All fields of an object, as if it had just been created. */
export function createdInEmpty(shape: Shape, object: KubeObject, skip: FieldSet): FieldSet | undefined {
  return createdFields(shape, object, true, skip);
}

function moveOwnership(
  update: OwnershipUpdate,
  entries: readonly ManagedFieldsEntry[],
  { changed, removed }: Comparison,
): ManagedFieldsEntry[] {
  const { manager, apiVersion, subresource, time } = update;
  const result: ManagedFieldsEntry[] = [];
  let isWriterListed = false;
  for (const entry of entries) {
    const owned = fieldsOfEntry(entry);
    const isWriter =
      entry.operation === "Update" &&
      entry.manager === manager &&
      entry.apiVersion === apiVersion &&
      (entry.subresource ?? "") === subresource;
    if (isWriter && changed !== undefined) {
      isWriterListed = true;
      result.push(revised(entry, union(difference(owned, removed), changed), time));
      continue;
    }
    const rest = difference(difference(owned, changed), removed);
    if (rest === owned && owned !== undefined) result.push(entry);
    else if (rest !== undefined) result.push(revised(entry, rest, entry.time));
  }
  if (!isWriterListed && changed !== undefined) {
    result.push(ownershipEntry({ manager, operation: "Update", apiVersion, subresource }, time, changed));
  }
  return result;
}

/** managedFields sent by a client are used, except on subresources: kubectl migrates ownership that way. */
function entriesBefore(
  { next, subresource }: OwnershipUpdate,
  stored: ManagedFieldsEntry[] | undefined,
): ManagedFieldsEntry[] | undefined {
  const sent = next.metadata.managedFields;
  if (subresource !== "" || !Array.isArray(sent) || sent === stored || equalJson(sent, stored)) return stored;
  if (isReset(sent)) return undefined;
  return decodeEntries(sent) ?? stored;
}

/**
 * Whether a write would change nothing but the times of managedFields. The content is compared first, since most writes
 * change it.
 */
export function isSameExceptTimes(live: KubeObject, next: KubeObject): boolean {
  return (
    equalBut("metadata", live, next) &&
    equalBut("managedFields", live.metadata, next.metadata) &&
    equalExceptTimes(live.metadata.managedFields, next.metadata.managedFields)
  );
}

function equalBut(key: string, a: object, b: object): boolean {
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  for (const name in right) {
    if (name !== key && left[name] === undefined && right[name] !== undefined) return false;
  }
  for (const name in left) if (name !== key && !equalJson(left[name], right[name])) return false;
  return true;
}

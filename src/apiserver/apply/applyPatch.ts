import { copyJson, equalJson, isObject } from "../../model/objects/json.ts";
import { type KubeObject, type ManagedFieldsEntry, splitApiVersion } from "../../model/objects/object.ts";
import { badRequest, StatusError } from "../../model/objects/status.ts";
import type { SchemaNode } from "../schema/schemaNode.ts";
import { applyConflict, type Conflict, conflictsOf } from "./applyConflict.ts";
import { checkApplied } from "./checkApplied.ts";
import { type Comparison, compareObjects } from "./compareObjects.ts";
import {
  difference,
  type FieldSet,
  has,
  intersection,
  leaf,
  recursiveDifference,
  union,
  unionAll,
} from "./fieldSet.ts";
import { fieldsOfLastApplied, kubectlManager, noteLastApplied } from "./lastApplied.ts";
import { createdInEmpty, neverTracked, skippedFields } from "./managedFields.ts";
import { mergeObjects } from "./mergeObjects.ts";
import { equalExceptTimes, fieldsOfEntry, ownershipEntry, revised, sortEntries } from "./ownershipEntry.ts";
import { UnnamedItemError } from "./pathElement.ts";
import { reconcileWithSchema } from "./reconcileWithSchema.ts";
import { removeItems, withDeclaredFields } from "./removeItems.ts";
import { type Shape, shapeOf } from "./shape.ts";
import { appliedFields } from "./trackedFields.ts";

/**
 * Server-side apply: merges the configuration into the live object. Its fields become the applier's, and fields that
 * the applier had applied before and now omits are removed unless another manager owns them.
 */

export interface ApplyRequest {
  readonly schema: SchemaNode;
  /** Undefined if the object does not exist yet. */
  readonly live: KubeObject | undefined;
  /**
   * The configuration as parsed: neither defaulted nor decoded, because no manager applied a default or a zero value.
   */
  readonly config: KubeObject;
  readonly manager: string;
  /** Take over fields from their owners instead of returning a conflict. */
  readonly force: boolean;
  readonly apiVersion: string;
  readonly subresource: string;
  /** The current time, as RFC 3339 in seconds. */
  readonly time: string;
  readonly resetFields?: FieldSet;
  /**
   * Decodes without defaults. The outcome is compared in the form in which the live object is stored, so that `cpu:
   * 1000m` over `cpu: "1"`, `hostNetwork: false` or `creationTimestamp: null` over nothing are no changes, and no
   * conflicts with a manager that set the same value.
   */
  readonly decode?: (object: KubeObject) => KubeObject;
}

export interface Applied {
  /** A private copy with its managedFields, to be decoded and defaulted. */
  readonly object: KubeObject;
  /** The managedFields of `object`, for callers whose decoding drops them. */
  readonly managedFields: ManagedFieldsEntry[] | undefined;
  /** Nothing but times differs from the live object, so it need not be written. Defaults cannot change that. */
  readonly isUnchanged: boolean;
}

/** Throws 409 with a cause per field on conflict, 400 and 500 on a configuration that cannot be applied. */
export function applyPatch(request: ApplyRequest): Applied {
  const { config, live, manager, apiVersion, subresource, time } = request;
  checkMetadata(request);
  const shape = shapeOf(request.schema);
  refuseUnappliable(request.schema, config);

  const before = entriesBefore(request, shape);
  const own = before.find((entry) => isApplier(entry, manager, subresource));
  const others = before.filter((entry) => entry !== own);
  const wanted = recursiveDifference(appliedFields(shape, config), request.resetFields);

  let merged: KubeObject;
  let found: Comparison | undefined;
  try {
    merged = mergeObjects(shape, live, config) as KubeObject;
    merged = prune(shape, merged, own, [wanted, ...others.map(fieldsOfEntry)]) as KubeObject;
    // Merged once more for fields that pruning emptied: the configuration decides whether they are null or empty.
    merged = mergeObjects(shape, merged, config) as KubeObject;
    if (request.decode !== undefined && merged !== live) merged = decodeContent(request.decode, merged);
    found = live === undefined ? undefined : compareObjects(shape, live, merged, skippedFields(request.resetFields));
  } catch (error) {
    if (error instanceof UnnamedItemError) throw unappliable("live", live ?? config, [error.message]);
    throw error;
  }

  if (!request.force) refuseConflicts(request, shape, others, found?.changed);
  const isSameObject = live !== undefined && equalJson(live, merged);
  const result = otherEntries(others, found);
  const tracked = difference(wanted, stripped);
  if (tracked !== undefined) {
    const who = { manager, operation: "Apply", apiVersion, subresource } as const;
    // Upstream sets the time of an apply only when the object changes: a new co-owner of equal values has no time.
    result.push(ownershipEntry(who, isSameObject ? own?.time : time, tracked));
  }
  sortEntries(result);

  const { managedFields: _, ...metadata } = merged.metadata;
  const object: KubeObject = copyJson({ ...merged, metadata });
  if (manager === kubectlManager) noteLastApplied(object, config);
  const isUnchanged =
    isSameObject &&
    equalExceptTimes(live.metadata.managedFields, result) &&
    equalJson(object.metadata.annotations, live.metadata.annotations);
  const managedFields = isUnchanged ? live.metadata.managedFields : result.length === 0 ? undefined : result;
  if (managedFields !== undefined) object.metadata.managedFields = managedFields;
  return { object, managedFields, isUnchanged };
}

/** Throws upstream's error for a configuration that does not fit its schema, before any other check. */
export function refuseUnappliable(schema: SchemaNode, config: KubeObject): void {
  const mistakes = checkApplied(shapeOf(schema), config);
  if (mistakes.length > 0) throw unappliable("patch", config, mistakes);
}

/** The configuration was only parsed, so its metadata may have any type. */
function checkMetadata({ config, live }: ApplyRequest): void {
  const metadata: unknown = config.metadata;
  if (metadata === undefined && live !== undefined) return;
  if (!isObject(metadata)) throw badRequest("error decoding patch: metadata must be an object");
  if ((metadata["managedFields"] ?? undefined) !== undefined) throw badRequest("metadata.managedFields must be nil");
}

const stripped = union(neverTracked, { "f:metadata": leaf });

/**
 * An object without managers gets one for its current fields, so that applying cannot overwrite them without a
 * conflict.
 */
function entriesBefore(request: ApplyRequest, shape: Shape): ManagedFieldsEntry[] {
  const { live, apiVersion, subresource, time } = request;
  if (live === undefined) return [];
  const stored = live.metadata.managedFields ?? [];
  if (stored.length > 0) {
    return stored.map((entry) => {
      const fields = fieldsOfEntry(entry);
      const reconciled = reconcileWithSchema(shape, fields);
      return reconciled === fields ? entry : revised(entry, reconciled, entry.time);
    });
  }
  const fields = createdInEmpty(shape, live, skippedFields(request.resetFields));
  const who = { manager: "before-first-apply", operation: "Update", apiVersion, subresource } as const;
  return fields === undefined ? [] : [ownershipEntry(who, time, fields)];
}

function isApplier(entry: ManagedFieldsEntry, manager: string, subresource: string): boolean {
  return entry.operation === "Apply" && entry.manager === manager && (entry.subresource ?? "") === subresource;
}

/**
 * Removes fields that the applier owned and no longer applies. Removing an item or a struct also removes everything
 * below it, including fields of other managers; so the first step removes too much on purpose, then all owned fields
 * are restored, then all fields that the applier had never applied.
 */
function prune(
  shape: Shape,
  merged: unknown,
  own: ManagedFieldsEntry | undefined,
  owned: readonly (FieldSet | undefined)[],
): unknown {
  const last = withDeclaredFields(shape, own && fieldsOfEntry(own));
  if (last === undefined) return merged;
  const all = withDeclaredFields(shape, appliedFields(shape, merged));
  const cut = withDeclaredFields(shape, appliedFields(shape, removeItems(shape, merged, last) ?? {}));
  const keep = union(cut, withDeclaredFields(shape, unionAll(owned)));
  const putBack = removeItems(shape, merged, difference(all, keep)) ?? {};
  const kept = withDeclaredFields(shape, appliedFields(shape, putBack));
  return removeItems(shape, merged, intersection(difference(all, kept), last)) ?? {};
}

function refuseConflicts(
  request: ApplyRequest,
  shape: Shape,
  others: readonly ManagedFieldsEntry[],
  changed: FieldSet | undefined,
): void {
  let conflicts: Conflict[] = [];
  for (const owner of others) {
    const contested = intersection(fieldsOfEntry(owner), changed);
    if (contested !== undefined) for (const conflict of conflictsOf(owner, contested)) conflicts.push(conflict);
  }
  if (conflicts.length > 0 && request.manager === kubectlManager && request.live !== undefined) {
    const excused = fieldsOfLastApplied(shape, request.live, request.apiVersion);
    conflicts = conflicts.filter(({ path }) => !has(excused, path));
  }
  if (conflicts.length > 0) throw applyConflict(conflicts);
}

function otherEntries(others: readonly ManagedFieldsEntry[], found: Comparison | undefined): ManagedFieldsEntry[] {
  const result: ManagedFieldsEntry[] = [];
  for (const entry of others) {
    const owned = fieldsOfEntry(entry);
    const rest = difference(difference(owned, found?.changed), found?.removed);
    if (rest !== undefined) result.push(rest === owned ? entry : revised(entry, rest, entry.time));
  }
  return result;
}

/** managedFields are written by this server: they are the largest part of many objects and need no decoding. */
function decodeContent(decode: (object: KubeObject) => KubeObject, object: KubeObject): KubeObject {
  const { managedFields, ...metadata } = object.metadata;
  const decoded = decode({ ...object, metadata });
  if (managedFields !== undefined) decoded.metadata.managedFields = managedFields;
  return decoded;
}

/** Upstream answers this with a plain 500, and clients know the text. */
function unappliable(which: "patch" | "live", object: KubeObject, mistakes: readonly string[]): StatusError {
  const { group, version } = splitApiVersion(object.apiVersion);
  const where = `${object.metadata?.namespace ?? ""}/${object.metadata?.name ?? ""}`;
  const what = mistakes.length === 1 ? mistakes[0] : ["errors:", ...mistakes.map((text) => `  ${text}`)].join("\n");
  const type = `${group === "" ? "" : group}/${version}, Kind=${object.kind}`;
  return new StatusError({
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: `failed to create typed ${which} object (${where}; ${type}): ${what}`,
    code: 500,
  });
}

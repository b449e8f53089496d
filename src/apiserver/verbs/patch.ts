import { invalid, required } from "../../model/objects/fieldError.ts";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import {
  badRequest,
  failure,
  invalidObject,
  notFound,
  StatusError,
  unsupportedMediaType,
} from "../../model/objects/status.ts";
import { formatTime } from "../../model/values/time.ts";
import { applyPatch, refuseUnappliable } from "../apply/applyPatch.ts";
import { checkKind } from "../builtinResource.ts";
import { jsonPatch } from "../patch/jsonPatch.ts";
import { mergePatch } from "../patch/mergePatch.ts";
import { strategicMergePatch } from "../patch/strategicMergePatch.ts";
import { type Sent, sentByUs } from "../resource.ts";
import type { Call, Core, Target, Written } from "./core.ts";
import { insertObject, resetFieldsOf, setManagedFields } from "./create.ts";
import { type Change, checkIdentity, keepManagedFieldsReset, updateObject } from "./update.ts";

/** The four types of patches. */
export type PatchType = "json" | "merge" | "strategic" | "apply";

/** Media types of patches, in the order of error messages. */
export const patchMediaTypes: Readonly<Record<string, PatchType>> = {
  "application/json-patch+json": "json",
  "application/merge-patch+json": "merge",
  "application/strategic-merge-patch+json": "strategic",
  "application/apply-patch+yaml": "apply",
};

export interface PatchCall extends Call {
  /** Apply takes over fields of other managers. */
  readonly force: boolean;
}

/** PATCH. A patch without a resourceVersion is retried on the newest state. */
export async function patchObject(
  core: Core,
  target: Target,
  type: PatchType,
  patch: Sent,
  call: PatchCall,
  limits: Pick<Change, "restrict" | "validate"> = {},
): Promise<Written> {
  const { resource } = target;
  if (type === "apply") return applyObject(core, target, patch, call, limits);
  if (type === "strategic" && resource.custom !== undefined) throw unsupportedMediaType(customPatchTypes);
  const change: Change = {
    ...limits,
    options: patchOptions(call),
    build: (current) => {
      const patched = applyPatchTo(target, type, current, patch.value);
      return decodePatched(target, patched, patch.duplicates, call);
    },
  };
  return updateObject(core, target, change, call);
}

const customPatchTypes = [
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/apply-patch+yaml",
];

export function patchOptions(call: PatchCall): Readonly<Record<string, unknown>> {
  return { kind: "PatchOptions", apiVersion: "meta.k8s.io/v1", fieldManager: call.fieldManager, force: call.force };
}

/** The patched document, not decoded. Unchanged subtrees are shared with `current`. */
export function applyPatchTo(
  target: Target,
  type: Exclude<PatchType, "apply">,
  current: KubeObject,
  patch: Json,
): Json {
  const document = current as JsonObject;
  switch (type) {
    case "json":
      return jsonPatch(document, patch);
    case "merge":
      return mergePatch(document, patch);
    case "strategic":
      return ofItsKind(document, strategicMergePatch(document, patch, target.resource.schema));
  }
}

/** A strategic merge patch may name any kind: the object keeps its own. */
function ofItsKind({ kind, apiVersion }: JsonObject, patched: Json): Json {
  return isObject(patched) ? { ...patched, kind: kind ?? null, apiVersion: apiVersion ?? null } : patched;
}

function decodePatched(target: Target, patched: Json, duplicates: readonly string[], call: Call): KubeObject {
  const { resource } = target;
  let next: KubeObject;
  try {
    // The decoded object shares nothing with the patched one, nor with the object before it.
    next = resource.decode({ value: patched, duplicates }, call.fieldValidation, call.warn);
  } catch (error) {
    // The patch was parsed, but its result cannot be decoded: 422, as upstream, not 400.
    if (!(error instanceof StatusError) || error.status.code !== 400) throw error;
    const why = (error.status.message ?? "").replace(/^.*? cannot be handled as an? [A-Za-z]+: /, "");
    throw invalidObject({ group: "", kind: "" }, "", [invalid("patch", JSON.stringify(patched), why)]);
  }
  keepManagedFieldsReset(next, patched);
  resource.setDefaults(next);
  checkIdentity(target, next);
  return next;
}

/** Server-side apply: the body is the desired state, and the manager owns the fields in it. */
async function applyObject(
  core: Core,
  target: Target,
  sent: Sent,
  call: PatchCall,
  limits: Pick<Change, "restrict" | "validate">,
): Promise<Written> {
  const { resource } = target;
  const { type } = resource;
  const body = sent.value;
  if (call.fieldManager === "") {
    throw invalidObject({ group: "meta.k8s.io", kind: "PatchOptions" }, "", [
      required("fieldManager", "is required for apply patch"),
    ]);
  }
  if (!isObject(body)) throw badRequest("error decoding patch: an apply configuration must be an object");
  // For other verbs the URL implies the kind; an apply configuration must state it.
  if (!body["apiVersion"]) {
    throw badRequest(
      `Incorrect version specified in apply patch. Specified patch version: , expected: ${resource.apiVersion}`,
    );
  }
  if (!body["kind"]) throw badRequest("error decoding patch: the apply configuration names no kind");
  checkKind({ apiVersion: resource.apiVersion, kind: type.kind }, body);
  refuseUnappliable(resource.schema, body as KubeObject);
  const config = resource.decode(sent, call.fieldValidation, call.warn);
  config.metadata.name ||= target.name;
  checkIdentity(target, config);
  const found = core.store.get(type.storageKey, target.namespace, target.name);
  const time = formatTime(core.clock.nowMs());
  const build = (live: KubeObject | undefined): KubeObject => {
    const { object } = applyPatch({
      schema: resource.schema,
      live,
      // As sent: decoding adds zero values, and the applier would own fields that it did not apply.
      config: body as KubeObject,
      decode: (object) => resource.decode(sentByUs(object), "Ignore", call.warn),
      manager: call.fieldManager,
      force: call.force,
      apiVersion: resource.apiVersion,
      subresource: target.subresource,
      time,
      ...resetFieldsOf(resource, target.subresource),
    });
    const { managedFields } = object.metadata;
    const next = resource.decode(sentByUs(object), "Ignore", call.warn);
    resource.setDefaults(next);
    setManagedFields(next, managedFields);
    return next;
  };
  if (found !== undefined) {
    return updateObject(core, target, { ...limits, options: patchOptions(call), ownsFields: true, build }, call);
  }
  if (target.subresource !== "") throw notFound(resource.groupResource, target.name);
  if (config.metadata.uid) {
    const why = `uid mismatch: the provided object specified uid ${config.metadata.uid}, and no existing object was found`;
    throw failure(409, "Conflict", why);
  }
  call.demandCreate?.();
  return insertObject(core, target, build(undefined), call, "Apply");
}

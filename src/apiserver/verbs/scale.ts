import { invalid, required } from "../../model/objects/fieldError.ts";
import { copyJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, invalidObject, notFound, StatusError } from "../../model/objects/status.ts";
import { formatTime } from "../../model/values/time.ts";
import { applyPatch } from "../apply/applyPatch.ts";
import { decodeAs } from "../builtinResource.ts";
import { definitionName } from "../builtinResources.ts";
import { type Resource, type Sent, sentByUs } from "../resource.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import type { Call, Core, Target, Written } from "./core.ts";
import { setManagedFields } from "./create.ts";
import { applyPatchTo, type PatchCall, type PatchType, patchOptions } from "./patch.ts";
import { type Change, updateObject } from "./update.ts";

/** `autoscaling/v1 Scale`: the replicas of a workload. */
const scaleKind = { apiVersion: "autoscaling/v1", kind: "Scale" } as const;

/** The scale of an object. */
export function scaleOf(resource: Resource, object: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const paths = pathsOf(resource);
  const replicas = numberAt(object, paths.spec);
  const selector = selectorText(resource, object);
  return {
    kind: scaleKind.kind,
    apiVersion: scaleKind.apiVersion,
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), uid, resourceVersion, creationTimestamp },
    spec: replicas === 0 ? {} : { replicas },
    status: { replicas: numberAt(object, paths.status), ...(selector === "" ? {} : { selector }) },
  };
}

export async function readScale(core: Core, target: Target): Promise<KubeObject> {
  const version = core.store.get(target.resource.type.storageKey, target.namespace, target.name);
  if (version === undefined) throw notFound(target.resource.groupResource, target.name);
  await core.store.whenDurable(version.revision);
  return scaleOf(target.resource, target.resource.fromStorage(version.object()));
}

export async function replaceScale(core: Core, target: Target, sent: Sent, call: Call): Promise<KubeObject> {
  const options = { kind: "UpdateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: call.fieldManager };
  return changeScale(core, target, options, call, () => sent);
}

export async function patchScale(
  core: Core,
  target: Target,
  type: PatchType,
  patch: Sent,
  call: PatchCall,
): Promise<KubeObject> {
  if (type === "apply") return applyScale(core, target, patch, call);
  return changeScale(core, target, patchOptions(call), call, (scale) => {
    const scaleTarget: Target = { ...target, resource: { ...target.resource, schema: scaleSchema() } };
    return sentByUs(copyJson(applyPatchTo(scaleTarget, type, scale, patch.value)));
  });
}

/** An applied Scale owns the replicas of its object, and conflicts with any other owner of them. */
async function applyScale(core: Core, target: Target, patch: Sent, call: PatchCall): Promise<KubeObject> {
  const { resource } = target;
  if (call.fieldManager === "") {
    const why = [required("fieldManager", "is required for apply patch")];
    throw invalidObject({ group: "meta.k8s.io", kind: "PatchOptions" }, "", why);
  }
  const scale = decodeAs({ ...scaleKind, schema: scaleSchema() }, patch, call.fieldValidation, call.warn);
  refuseOtherName(scale, target);
  const said = isObject(patch.value) && isObject(patch.value["spec"]) ? patch.value["spec"]["replicas"] : undefined;
  const replicas = said === undefined || said === null ? undefined : replicasOf(scale, target);
  const metadata = { name: target.name } as KubeObject["metadata"];
  const config: KubeObject = { apiVersion: resource.apiVersion, kind: resource.type.kind, metadata };
  if (replicas !== undefined) writePath(config, pathsOf(resource).spec, replicas);
  const change: Change = {
    options: patchOptions(call),
    ownsFields: true,
    build: (live) => {
      const { object, managedFields } = asScale(resource, () =>
        applyPatch({
          schema: resource.schema,
          live,
          config,
          decode: (one) => resource.decode(sentByUs(one), "Ignore", call.warn),
          manager: call.fieldManager,
          force: call.force,
          apiVersion: resource.apiVersion,
          subresource: target.subresource,
          time: formatTime(core.clock.nowMs()),
        }),
      );
      const next = resource.decode(sentByUs(object), "Ignore", call.warn);
      resource.setDefaults(next);
      setManagedFields(next, managedFields);
      return next;
    },
    restrict: keepStatus,
  };
  const written = await updateObject(core, target, change, call);
  return scaleOf(resource, resource.fromStorage(written.version.object()));
}

/** Errors name fields of the Scale, which is what the client sent. */
function asScale<T>(resource: Resource, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const words = (text: string): string => text.replaceAll(`using ${resource.apiVersion}`, "using autoscaling/v1");
    const { status } = error;
    const causes = status.details?.causes?.map((cause) => ({ ...cause, message: words(cause.message ?? "") }));
    throw new StatusError({
      ...status,
      message: words(status.message ?? ""),
      ...(causes === undefined ? {} : { details: { ...status.details, causes } }),
    });
  }
}

function refuseOtherName(scale: KubeObject, target: Target): void {
  const { name } = scale.metadata;
  if (name !== undefined && name !== "" && name !== target.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${target.name})`);
  }
}

function replicasOf(scale: KubeObject, target: Target): number {
  const spec = scale["spec"];
  const replicas = isObject(spec) && typeof spec["replicas"] === "number" ? spec["replicas"] : 0;
  if (replicas >= 0) return replicas;
  throw invalidObject({ group: "autoscaling", kind: "Scale" }, target.name, [
    invalid("spec.replicas", replicas, "must be greater than or equal to 0"),
  ]);
}

function keepStatus(next: KubeObject, current: KubeObject): KubeObject {
  if (current["status"] !== undefined) next["status"] = current["status"];
  return next;
}

async function changeScale(
  core: Core,
  target: Target,
  options: Change["options"],
  call: Call,
  build: (scale: KubeObject) => Sent,
): Promise<KubeObject> {
  const { resource } = target;
  const change: Change = {
    options,
    build: (current) => {
      const scale = decodeAs(
        { ...scaleKind, schema: scaleSchema() },
        build(scaleOf(resource, current)),
        call.fieldValidation,
        call.warn,
      );
      refuseOtherName(scale, target);
      const replicas = replicasOf(scale, target);
      const next = copyJson(current);
      writePath(next, pathsOf(resource).spec, replicas);
      // A Scale has the resourceVersion of its object: a stale one conflicts.
      next.metadata.resourceVersion = scale.metadata.resourceVersion ?? "";
      next.metadata.uid = scale.metadata.uid ?? current.metadata.uid;
      return next;
    },
    restrict: keepStatus,
  };
  const written: Written = await updateObject(core, target, change, call);
  return scaleOf(resource, resource.fromStorage(written.version.object()));
}

function scaleSchema(): Resource["schema"] {
  return schemaFor(definitionName("autoscaling", "v1", "Scale"));
}

function pathsOf(resource: Resource): { spec: string; status: string } {
  const scale = resource.custom?.scale;
  return { spec: scale?.specReplicasPath ?? ".spec.replicas", status: scale?.statusReplicasPath ?? ".status.replicas" };
}

/** Scale paths have plain fields only. */
function readPath(object: KubeObject, path: string): Json | undefined {
  let value: Json | undefined = object as Json;
  for (const field of path.split(".").slice(1)) value = isObject(value) ? value[field] : undefined;
  return value;
}

function writePath(object: KubeObject, path: string, value: Json): void {
  const fields = path.split(".").slice(1);
  let place = object as JsonObject;
  for (const field of fields.slice(0, -1)) {
    const next = place[field];
    if (isObject(next)) place = next;
    else {
      const made: JsonObject = {};
      place[field] = made;
      place = made;
    }
  }
  place[fields.at(-1) ?? ""] = value;
}

function numberAt(object: KubeObject, path: string): number {
  const value = readPath(object, path);
  return typeof value === "number" ? value : 0;
}

function selectorText(resource: Resource, object: KubeObject): string {
  if (resource.custom !== undefined) {
    const path = resource.custom.scale?.labelSelectorPath;
    const value = path === undefined ? undefined : readPath(object, path);
    return typeof value === "string" ? value : "";
  }
  const spec = object["spec"];
  const selector = isObject(spec) ? spec["selector"] : undefined;
  if (!isObject(selector)) return "";
  // A ReplicationController selects by a plain map, other kinds by a LabelSelector.
  if (resource.type.plural === "replicationcontrollers") return pairs(selector).join(",");
  const words = isObject(selector["matchLabels"]) ? pairs(selector["matchLabels"]) : [];
  const expressions = selector["matchExpressions"];
  for (const expression of Array.isArray(expressions) ? expressions : []) {
    if (isObject(expression)) words.push(expressionText(expression));
  }
  return words.join(",");
}

function pairs(labels: { [key: string]: Json }): string[] {
  return Object.keys(labels)
    .sort()
    .map((key) => `${key}=${String(labels[key])}`);
}

function expressionText(expression: { [key: string]: Json }): string {
  const key = String(expression["key"] ?? "");
  const values = Array.isArray(expression["values"]) ? [...expression["values"]].map(String).sort() : [];
  switch (expression["operator"]) {
    case "In":
      return `${key} in (${values.join(",")})`;
    case "NotIn":
      return `${key} notin (${values.join(",")})`;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return key;
  }
}

import { invalid } from "../../model/objects/fieldError.ts";
import { copyJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, invalidObject, notFound } from "../../model/objects/status.ts";
import { decodeAs } from "../builtinResource.ts";
import { type Resource, type Sent, sentByUs } from "../resource.ts";
import { definitionName } from "../resources.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import type { Call, Core, Target, Written } from "./core.ts";
import { applyPatchTo, type PatchCall, type PatchType, patchOptions } from "./patch.ts";
import { type Change, updateObject } from "./update.ts";

/** `autoscaling/v1 Scale`: the number of replicas of a workload, seen through a window that shows nothing else. */
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
  return changeScale(core, target, patchOptions(call), call, (scale) => {
    // An applied Scale says all that a Scale can say, so applying it is merging it.
    const how = type === "apply" ? "merge" : type;
    const scaleTarget: Target = { ...target, resource: { ...target.resource, schema: scaleSchema() } };
    return sentByUs(copyJson(applyPatchTo(scaleTarget, how, scale, patch.value)));
  });
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
      const { name } = scale.metadata;
      if (name !== undefined && name !== "" && name !== target.name) {
        throw badRequest(`the name of the object (${name}) does not match the name on the URL (${target.name})`);
      }
      const spec = scale["spec"];
      const replicas = isObject(spec) && typeof spec["replicas"] === "number" ? spec["replicas"] : 0;
      if (replicas < 0) {
        throw invalidObject({ group: "autoscaling", kind: "Scale" }, target.name, [
          invalid("spec.replicas", replicas, "must be greater than or equal to 0"),
        ]);
      }
      const next = copyJson(current);
      writePath(next, pathsOf(resource).spec, replicas);
      // A Scale carries the revision of its object: a stale one conflicts.
      next.metadata.resourceVersion = scale.metadata.resourceVersion ?? "";
      next.metadata.uid = scale.metadata.uid ?? current.metadata.uid;
      return next;
    },
    restrict: (next, current) => {
      if (current["status"] !== undefined) next["status"] = current["status"];
      return next;
    },
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

/** Scale paths are plain: fields after dots, no lists. */
function readPath(object: KubeObject, path: string): Json | undefined {
  let value: Json | undefined = object as unknown as Json;
  for (const field of path.split(".").slice(1)) value = isObject(value) ? value[field] : undefined;
  return value;
}

function writePath(object: KubeObject, path: string, value: Json): void {
  const fields = path.split(".").slice(1);
  let place = object as unknown as JsonObject;
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
  // A ReplicationController selects by a plain map, everything newer by a LabelSelector.
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

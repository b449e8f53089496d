import { isObject, type Json, type JsonObject } from "../model/objects/json.ts";
import { apiVersionOf, type KubeObject } from "../model/objects/object.ts";
import { badRequest } from "../model/objects/status.ts";
import type { ResourceType } from "./builtinResources.ts";
import { sameVersion } from "./registry.ts";
import type { Resource, Sent } from "./resource.ts";
import { schemaFor } from "./schema/builtinSchemas.ts";
import { decodeObject, type FieldValidation } from "./schema/decode.ts";
import type { Strategy } from "./strategy.ts";

/** Converts between a served version and the stored version. */
export interface Conversion {
  toStorage(object: KubeObject): KubeObject;
  fromStorage(object: KubeObject): KubeObject;
}

const noFields: string[] = [];

/** Deprecated built-in kinds, and the warning for their clients. */
const deprecations: Readonly<Record<string, string>> = {
  "v1 ComponentStatus": "v1 ComponentStatus is deprecated in v1.19+",
  "v1 Endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
};

/** A resource of the table, with its schema and strategy. */
export function builtinResource(type: ResourceType, strategy: Strategy, conversion?: Conversion): Resource {
  const apiVersion = apiVersionOf(type.group, type.version);
  const schema = schemaFor(type.definition);
  return {
    type,
    apiVersion,
    groupResource: { group: type.group, resource: type.plural },
    schema,
    strategy,
    deprecation: deprecations[`${apiVersion} ${type.kind}`],
    custom: undefined,
    decode: (sent, fieldValidation, warn) =>
      decodeAs({ apiVersion, kind: type.kind, schema }, sent, fieldValidation, warn),
    setDefaults: (object) => strategy.setDefaults?.(object),
    toStorage: conversion?.toStorage ?? sameVersion,
    fromStorage: conversion?.fromStorage ?? sameVersion,
    selectFields: (stored) => strategy.selectFields?.(stored) ?? noFields,
  };
}

/** Decodes a body as one kind; kind and apiVersion may be left out, but must not differ. */
export function decodeAs(
  as: { apiVersion: string; kind: string; schema: Resource["schema"] },
  sent: Sent,
  fieldValidation: FieldValidation,
  warn: (text: string) => void,
): KubeObject {
  const { value } = sent;
  checkKind(as, value);
  const { object, warnings } = decodeObject(as.schema, value, {
    kindName: as.kind,
    apiVersion: as.apiVersion,
    fieldValidation,
    duplicateFields: sent.duplicates,
    positions: sent.positions,
  });
  for (const text of warnings) warn(text);
  object.kind = as.kind;
  object.apiVersion = as.apiVersion;
  object.metadata ??= {} as KubeObject["metadata"];
  return object;
}

/** Rejects a body of another kind or version than that of the URL. */
export function checkKind(as: { apiVersion: string; kind: string }, value: Json): void {
  if (!isObject(value)) throw badRequest(`${as.kind} in version ${JSON.stringify(as.apiVersion)} must be an object`);
  const kind = typeField(value, "kind");
  const apiVersion = typeField(value, "apiVersion");
  if (apiVersion !== undefined && apiVersion !== "" && apiVersion !== as.apiVersion) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${as.apiVersion})`,
    );
  }
  if (kind !== undefined && kind !== "" && kind !== as.kind) {
    throw badRequest(
      `${kind} in version ${JSON.stringify(as.apiVersion)} cannot be handled as a ${as.kind}: no kind ${JSON.stringify(kind)} is expected at this path`,
    );
  }
}

function typeField(value: JsonObject, field: "kind" | "apiVersion"): string | undefined {
  const sent = value[field] ?? undefined;
  if (sent === undefined || typeof sent === "string") return sent;
  throw badRequest(`couldn't get version/kind; json parse error: the field ${field} must be a string`);
}

import { type FieldError, invalid, required } from "../../model/objects/fieldError.ts";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import {
  dns1035LabelErrors,
  labelValueErrors,
  pathSegmentErrors,
  qualifiedNameErrors,
} from "../../model/objects/names.ts";
import { DecodeError, decodeFields } from "../schema/decode.ts";
import type { StructNode } from "../schema/schemaNode.ts";
import { embeddedResources } from "./prune.ts";
import type { Structural } from "./structural.ts";

/** Whole resources inside a custom resource (x-kubernetes-embedded-resource): their metadata is real metadata. */

/** Drops what is not metadata from embedded metadata, and what has the wrong type. Returns the unknown paths. */
export function cleanEmbedded(root: JsonObject, schema: Structural, objectMeta: StructNode): string[] {
  const unknown: string[] = [];
  for (const { path, object } of embeddedResources(root, schema)) {
    if (path === "" || object["metadata"] === undefined) continue;
    if (!isObject(object["metadata"])) {
      delete object["metadata"];
      continue;
    }
    object["metadata"] = cleanMetadata(object["metadata"], objectMeta, `${path}.metadata`, unknown);
  }
  return unknown;
}

function cleanMetadata(metadata: JsonObject, objectMeta: StructNode, path: string, unknown: string[]): Json {
  try {
    const { object, unknownFields } = decodeFields(objectMeta, metadata, true);
    for (const field of unknownFields) unknown.push(`${path}.${field}`);
    return object;
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
  }
  // A field has the wrong type: keep the fields that are valid on their own.
  const kept: JsonObject = {};
  for (const key of Object.keys(metadata)) {
    if (!objectMeta.fields.has(key)) {
      unknown.push(`${path}.${key}`);
      continue;
    }
    try {
      const { object } = decodeFields(objectMeta, { [key]: metadata[key] }, false);
      Object.assign(kept, object);
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
    }
  }
  return kept;
}

export function embeddedErrors(root: JsonObject, schema: Structural): FieldError[] {
  const errors: FieldError[] = [];
  for (const { path, object } of embeddedResources(root, schema)) {
    if (path !== "") checkEmbedded(object, path, errors);
  }
  return errors;
}

function checkEmbedded(object: JsonObject, path: string, errors: FieldError[]): void {
  const { apiVersion, kind, metadata } = object;
  if (typeof apiVersion !== "string" || apiVersion === "") {
    errors.push(required(`${path}.apiVersion`, "must not be empty"));
  } else if (apiVersion.split("/").length > 2) {
    errors.push(invalid(`${path}.apiVersion`, apiVersion, `unexpected GroupVersion string: ${apiVersion}`));
  }
  if (typeof kind !== "string" || kind === "") errors.push(required(`${path}.kind`, "must not be empty"));
  else {
    const [problem] = dns1035LabelErrors(kind.toLowerCase());
    if (problem !== undefined) {
      errors.push(invalid(`${path}.kind`, kind, `may have mixed case, but should otherwise match: ${problem}`));
    }
  }
  if (!isObject(metadata)) return;
  const { name } = metadata;
  if (typeof name === "string" && name !== "") {
    for (const problem of pathSegmentErrors(name)) errors.push(invalid(`${path}.metadata.name`, name, problem));
  }
  checkKeys(metadata["labels"], `${path}.metadata.labels`, true, errors);
  checkKeys(metadata["annotations"], `${path}.metadata.annotations`, false, errors);
}

function checkKeys(map: Json | undefined, path: string, isLabels: boolean, errors: FieldError[]): void {
  if (!isObject(map)) return;
  for (const key of Object.keys(map)) {
    for (const problem of qualifiedNameErrors(isLabels ? key : key.toLowerCase()))
      errors.push(invalid(path, key, problem));
    const value = map[key];
    if (!isLabels || typeof value !== "string") continue;
    for (const problem of labelValueErrors(value)) errors.push(invalid(path, value, problem));
  }
}

import { isObject, type Json } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { compareObjects } from "./compareObjects.ts";
import { difference, type FieldSet } from "./fieldSet.ts";
import { UnnamedItemError } from "./pathElement.ts";
import type { Shape } from "./shape.ts";
import { appliedFields } from "./trackedFields.ts";

/**
 * Migration from client-side to server-side apply. Client-side kubectl recorded the applied configuration in an
 * annotation; when it first applies on the server, the fields that the annotation names and the object still has become
 * its own, whichever manager is listed as owner. Only the manager named `kubectl` is treated so.
 */
const annotation = "kubectl.kubernetes.io/last-applied-configuration";
const annotationsBytesMax = 256 * 1024;

export const kubectlManager = "kubectl";

export function lastAppliedText(object: KubeObject): string | undefined {
  const text = object.metadata.annotations?.[annotation];
  return text === "" ? undefined : text;
}

/** The fields of the annotation that still have its value; undefined without a readable annotation. */
export function fieldsOfLastApplied(shape: Shape, live: KubeObject, apiVersion: string): FieldSet | undefined {
  const text = lastAppliedText(live);
  if (text === undefined) return undefined;
  try {
    const noted = JSON.parse(text) as Json;
    if (!isObject(noted) || noted["apiVersion"] !== apiVersion) return undefined;
    const found = compareObjects(shape, noted, live, undefined);
    return difference(difference(appliedFields(shape, noted), found?.changed), found?.removed);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof UnnamedItemError) return undefined;
    throw error;
  }
}

/**
 * Updates the annotation after a server-side apply, so that a later client-side apply still works. It is removed when
 * it would make the annotations too large. Changes the object.
 */
export function noteLastApplied(object: KubeObject, config: KubeObject): void {
  if (lastAppliedText(object) === undefined) return;
  const annotations: Record<string, string> = { ...object.metadata.annotations };
  annotations[annotation] = `${sortedText(withoutNote(config) as Json)}\n`;
  let bytes = 0;
  for (const key of Object.keys(annotations))
    bytes += Buffer.byteLength(key) + Buffer.byteLength(annotations[key] ?? "");
  if (bytes > annotationsBytesMax) delete annotations[annotation];
  object.metadata.annotations = annotations;
}

function withoutNote(config: KubeObject): KubeObject {
  if (config.metadata.annotations === undefined) return config;
  const annotations = { ...config.metadata.annotations };
  delete annotations[annotation];
  const metadata = { ...config.metadata, annotations };
  if (Object.keys(annotations).length === 0) delete (metadata as Partial<typeof metadata>).annotations;
  return { ...config, metadata };
}

/** JSON with sorted keys, as Go writes a map. */
function sortedText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sortedText).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  return `{${keys
    .sort()
    .map((key) => `${JSON.stringify(key)}:${sortedText(value[key] as Json)}`)
    .join(",")}}`;
}

/** A pod template as something to compare and to name. */

import type { PodTemplateSpec } from "../kubernetes.generated.ts";
import { fnv32, safeText } from "./derivedName.ts";
import { equalFields } from "./json.ts";

export const templateHashLabel = "pod-template-hash";

/** Equal but for the hash that the controller itself has put in. */
export function isSameTemplate(a: PodTemplateSpec | undefined, b: PodTemplateSpec | undefined): boolean {
  return equalFields(essence(a), essence(b));
}

function essence(template: PodTemplateSpec | undefined) {
  const { labels = {}, annotations = {} } = template?.metadata ?? {};
  const { [templateHashLabel]: _hash, ...rest } = labels;
  return { labels: rest, annotations, spec: template?.spec };
}

/**
 * The hash that names a ReplicaSet or a revision: FNV-1a (32 bits) over the template as JSON with sorted keys, followed
 * by the collision count, in letters that spell no words. The same template has the same hash for ever; when another
 * template already has the name, the count goes up and the name changes. It is not upstream's number.
 */
export function templateHash(content: unknown, collisionCount: number | undefined): string {
  const hash = fnv32(canonicalJson(content));
  return safeText(collisionCount === undefined ? hash : fnv32(String(collisionCount), hash));
}

export function canonicalJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const given = value as Record<string, unknown>;
  const fields = Object.keys(given)
    .filter((key) => given[key] !== undefined)
    .sort();
  return `{${fields.map((key) => `${JSON.stringify(key)}:${canonicalJson(given[key])}`).join(",")}}`;
}

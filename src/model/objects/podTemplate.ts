/** Comparison and hash of pod templates. */

import type { PodTemplateSpec } from "../kubernetes.generated.ts";
import { fnv32, safeText } from "./derivedName.ts";
import { equalFields } from "./json.ts";

export const templateHashLabel = "pod-template-hash";

/** Equal, ignoring the hash label that the controller sets. */
export function isSameTemplate(a: PodTemplateSpec | undefined, b: PodTemplateSpec | undefined): boolean {
  return equalFields(withoutHash(a), withoutHash(b));
}

function withoutHash(template: PodTemplateSpec | undefined) {
  const { labels = {}, annotations = {} } = template?.metadata ?? {};
  const { [templateHashLabel]: _, ...rest } = labels;
  return { labels: rest, annotations, spec: template?.spec };
}

/**
 * The hash that names a ReplicaSet or a revision: FNV-1a (32 bits) over the template as JSON with sorted keys, followed
 * by the collision count, in safe letters. The same template always has the same hash; when another template already
 * has the name, the count is incremented and the name changes. The hash differs from upstream's.
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

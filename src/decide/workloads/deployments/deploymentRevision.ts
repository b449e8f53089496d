/** Which ReplicaSet has the Deployment's current template, and the revision numbers for `kubectl rollout history`. */

import type { Deployment, ReplicaSet } from "../../../model/kubernetes.generated.ts";
import type { JsonObject } from "../../../model/objects/json.ts";
import { byAge } from "../../../model/objects/podFacts.ts";
import { isSameTemplate } from "../../../model/objects/podTemplate.ts";
import { shareOf } from "../shareOf.ts";

export const revisionAnnotation = "deployment.kubernetes.io/revision";
const historyAnnotation = "deployment.kubernetes.io/revision-history";
const desiredAnnotation = "deployment.kubernetes.io/desired-replicas";
const maxAnnotation = "deployment.kubernetes.io/max-replicas";

const ownAnnotations: ReadonlySet<string> = new Set([
  "kubectl.kubernetes.io/last-applied-configuration",
  revisionAnnotation,
  historyAnnotation,
  desiredAnnotation,
  maxAnnotation,
  "deprecated.deployment.rollback.to",
]);

/** The oldest ReplicaSet with the Deployment's template: two exist only after manual changes. */
export function presentSet(deployment: Deployment, sets: readonly ReplicaSet[]): ReplicaSet | undefined {
  return [...sets].sort(byAge).find(({ spec }) => isSameTemplate(spec?.template, deployment.spec?.template));
}

/** A BigInt: other controllers write 64-bit revisions, which a double would round. */
export function revisionOf({ metadata }: { metadata: Deployment["metadata"] }): bigint {
  const text = metadata.annotations?.[revisionAnnotation];
  return text !== undefined && /^[0-9]{1,19}$/.test(text) ? BigInt(text) : 0n;
}

export function nextRevision(old: readonly ReplicaSet[]): bigint {
  let last = 0n;
  for (const set of old) if (revisionOf(set) > last) last = revisionOf(set);
  return last + 1n;
}

export function byRevision(a: ReplicaSet, b: ReplicaSet): number {
  const [left, right] = [revisionOf(a), revisionOf(b)];
  return left < right ? -1 : left > right ? 1 : byAge(a, b);
}

export function sizeLimits(deployment: Deployment): { maxSurge: number; maxUnavailable: number } {
  const { strategy, replicas = 1 } = deployment.spec ?? {};
  if (strategy?.type === "Recreate") return { maxSurge: 0, maxUnavailable: 0 };
  const rolling = strategy?.rollingUpdate;
  const maxSurge = shareOf(rolling?.maxSurge ?? "25%", replicas, "up");
  const maxUnavailable = shareOf(rolling?.maxUnavailable ?? "25%", replicas, "down");
  // If both are rounded to 0, the update would never progress; then one pod may be unavailable.
  return { maxSurge, maxUnavailable: maxSurge === 0 && maxUnavailable === 0 ? 1 : Math.min(maxUnavailable, replicas) };
}

export function desiredOf({ metadata }: ReplicaSet): number | undefined {
  return numberOf(metadata.annotations?.[desiredAnnotation]);
}

export function maxReplicasOf({ metadata }: ReplicaSet): number | undefined {
  return numberOf(metadata.annotations?.[maxAnnotation]);
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined || !/^-?[0-9]+$/.test(text) ? undefined : Number(text);
}

/** The Deployment's replicas, recorded on its ReplicaSets, so that a later scale is detected. */
export function sizeAnnotations(deployment: Deployment): Record<string, string> {
  const replicas = deployment.spec?.replicas ?? 1;
  const { maxSurge } = sizeLimits(deployment);
  return { [desiredAnnotation]: String(replicas), [maxAnnotation]: String(replicas + maxSurge) };
}

/** The Deployment's annotations for its current ReplicaSet, with the revision and the history of earlier ones. */
export function presentAnnotations(
  deployment: Deployment,
  set: ReplicaSet | undefined,
  revision: bigint,
): Record<string, string> {
  const wanted: Record<string, string> = {};
  for (const [key, value] of Object.entries(deployment.metadata.annotations ?? {})) {
    if (!ownAnnotations.has(key)) wanted[key] = value;
  }
  const had = set === undefined ? 0n : revisionOf(set);
  if (had >= revision) return wanted;
  wanted[revisionAnnotation] = String(revision);
  if (set !== undefined && had > 0n) {
    const history = set.metadata.annotations?.[historyAnnotation];
    wanted[historyAnnotation] = history === undefined || history === "" ? String(had) : `${history},${had}`;
  }
  return wanted;
}

/** The annotations that the object does not have yet. */
export function missingAnnotations(
  { metadata }: { metadata: ReplicaSet["metadata"] },
  wanted: Readonly<Record<string, string>>,
): JsonObject | undefined {
  const missing = Object.entries(wanted).filter(([key, value]) => metadata.annotations?.[key] !== value);
  return missing.length === 0 ? undefined : Object.fromEntries(missing);
}

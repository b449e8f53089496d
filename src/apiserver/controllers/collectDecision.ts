/** What the garbage collector does with one object, decided from the state of its owners. */

/**
 * - `solid`: exists and keeps its dependents.
 * - `absent`: does not exist, or another object has its name now.
 * - `deletingDependents`: is terminating, and waits until its dependents are deleted (foreground).
 * - `orphaning`: is terminating, and waits until its dependents have no reference to it.
 * - `unknown`: its kind is not served, so it cannot be looked up.
 * - `misplaced`: a namespaced owner of a cluster-scoped object, which can never be resolved.
 */
export type OwnerState = "solid" | "absent" | "deletingDependents" | "orphaning" | "unknown" | "misplaced";

export interface DependentFacts {
  readonly owners: readonly { readonly uid: string; readonly state: OwnerState }[];
  readonly isTerminating: boolean;
  readonly finalizers: readonly string[];
  /** Whether other objects name this one as their owner. */
  readonly hasDependents: boolean;
  /** Whether one of those dependents itself waits for its dependents, so that the two wait for each other. */
  readonly isInCycle: boolean;
}

export type Propagation = "Background" | "Foreground" | "Orphan";

export type CollectVerdict =
  | { readonly kind: "keep" }
  | { readonly kind: "dropReferences"; readonly uids: readonly string[] }
  | { readonly kind: "delete"; readonly policy: Propagation; readonly unblockFirst: boolean };

const keep: CollectVerdict = { kind: "keep" };

export function collectDecision(facts: DependentFacts): CollectVerdict {
  const { owners } = facts;
  const orphaning = uidsOf(facts, "orphaning");
  if (orphaning.length > 0) return { kind: "dropReferences", uids: orphaning };
  if (facts.isTerminating || owners.length === 0) return keep;
  if (owners.some(({ state }) => state === "unknown" || state === "misplaced")) return keep;

  const absent = uidsOf(facts, "absent");
  const deleting = uidsOf(facts, "deletingDependents");
  if (absent.length + deleting.length < owners.length) {
    const stale = [...absent, ...deleting];
    return stale.length === 0 ? keep : { kind: "dropReferences", uids: stale };
  }
  if (deleting.length > 0 && facts.hasDependents) {
    return { kind: "delete", policy: "Foreground", unblockFirst: facts.isInCycle };
  }
  return { kind: "delete", policy: policyOf(facts.finalizers), unblockFirst: false };
}

/** A finalizer on the object already states its propagation policy. */
function policyOf(finalizers: readonly string[]): Propagation {
  if (finalizers.includes("orphan")) return "Orphan";
  if (finalizers.includes("foregroundDeletion")) return "Foreground";
  return "Background";
}

function uidsOf(facts: DependentFacts, wanted: OwnerState): string[] {
  return facts.owners.filter(({ state }) => state === wanted).map(({ uid }) => uid);
}

/** What a terminating owner waits for. */
export function waitMode(metadata: {
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
}): "orphan" | "foreground" | undefined {
  if (metadata.deletionTimestamp === undefined || metadata.finalizers === undefined) return undefined;
  if (metadata.finalizers.includes("orphan")) return "orphan";
  return metadata.finalizers.includes("foregroundDeletion") ? "foreground" : undefined;
}

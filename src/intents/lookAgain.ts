import type { DestructiveIntent, IntentTarget } from "../model/intent.ts";
import type { KubeObject } from "../model/objects/object.ts";
import type { Resource } from "../model/objects/resource.ts";
import { type Outcome, refused, succeeded } from "../model/outcome.ts";
import { isAtLeast, type Revision } from "../model/revision.ts";
import type { Cancel } from "../ports/cancel.ts";
import type { KubeApi, KubeReads, ListOptions } from "../ports/kubeApi.ts";
import { type ApplyOptions, applyIntent, type Written } from "./applyIntent.ts";

/** An object of a consistent read, or its absence, with the revision of the read. */
export interface FreshObject<T extends KubeObject = KubeObject> {
  readonly object: T | undefined;
  readonly revision: Revision;
}

export interface FreshList<T extends KubeObject = KubeObject> {
  readonly items: readonly T[];
  readonly revision: Revision;
}

export interface LookOptions {
  /** The revision of the last own write, or of the assume cache of the decision, whichever is later. */
  readonly atLeast: Revision;
  readonly cancel?: Cancel;
}

/**
 * A consistent read of one object, at or beyond a revision. It is a list by name, because only a list has the revision
 * at which the object was absent: "not found" without one proves nothing.
 */
export async function lookAgain<T extends KubeObject>(
  kube: KubeReads,
  target: IntentTarget<T>,
  options: LookOptions,
): Promise<Outcome<FreshObject<T>>> {
  const place = target.namespace === "" ? {} : { namespace: target.namespace };
  const outcome = await lookAgainAtAll(
    kube,
    target,
    { ...place, fieldSelector: `metadata.name=${target.name}` },
    options,
  );
  if (!outcome.ok) return outcome;
  const { items, revision } = outcome.value;
  return succeeded({ object: items.find(({ metadata }) => metadata.name === target.name), revision });
}

/** The same for all objects that a selector matches. */
export async function lookAgainAtAll<T extends KubeObject>(
  kube: KubeReads,
  kind: Resource<T>,
  selection: Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector">,
  { atLeast, cancel }: LookOptions,
): Promise<Outcome<FreshList<T>>> {
  const outcome = await kube.list(kind, { ...selection, ...(cancel && { cancel }) });
  if (!outcome.ok) return outcome;
  const { items, revision } = outcome.value;
  if (!isAtLeast(revision, atLeast)) {
    // A lagging server answered. Its state is old, and a delete must not be decided on it.
    return refused("Unavailable", `the list is of revision ${revision}, and at least ${atLeast} is needed`);
  }
  return succeeded({ items, revision });
}

/** The result of a recheck. */
export type Recheck<T extends KubeObject = KubeObject> =
  | { readonly still: DestructiveIntent<T> }
  | { readonly noLongerDue: string };

/**
 * Reads the victim again and decides whether it is still a victim. The recheck is pure and gets the fresh object. Other
 * objects that it depends on must have been recorded on the victim (such as its holders), otherwise they may change
 * unnoticed.
 */
export async function lookAtVictim<T extends KubeObject>(
  kube: KubeReads,
  intent: DestructiveIntent<T>,
  recheck: (fresh: FreshObject<T>) => Recheck<T>,
  options: LookOptions,
): Promise<Outcome<{ readonly still: DestructiveIntent<T>; readonly victim: T } | { readonly noLongerDue: string }>> {
  const fresh = await lookAgain(kube, intent.target, options);
  if (!fresh.ok) return fresh;
  const victim = fresh.value.object;
  if (victim?.metadata.uid !== intent.expected.uid) {
    return succeeded({ noLongerDue: `the object does not exist at revision ${fresh.value.revision}` });
  }
  const verdict = recheck(fresh.value);
  return succeeded("still" in verdict ? { still: verdict.still, victim } : verdict);
}

/** The same, and then sends the write with the version that was just read as its precondition. */
export async function destroyAfterLooking<T extends KubeObject>(
  kube: KubeApi,
  intent: DestructiveIntent<T>,
  recheck: (fresh: FreshObject<T>) => Recheck<T>,
  options: LookOptions & ApplyOptions,
): Promise<Outcome<Written<T> | { readonly noLongerDue: string }>> {
  const looked = await lookAtVictim(kube, intent, recheck, options);
  if (!looked.ok) return looked;
  return "still" in looked.value ? applyIntent(kube, looked.value.still, options) : succeeded(looked.value);
}

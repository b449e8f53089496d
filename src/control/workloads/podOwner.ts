/** What the controllers have in common that own pods: what wakes them, and what they tell about their pods. */
import type { Known } from "../../decide/workloads/draft.ts";
import { controllerOf } from "../../decide/workloads/ownership.ts";
import { keyOf } from "../../model/intent.ts";
import { type LabelRequirements, type LabelSelector, selectorRequirements } from "../../model/labelSelector.ts";
import { type KubeObject, splitApiVersion } from "../../model/object.ts";
import type { Refusal } from "../../model/outcome.ts";
import type { Committed } from "../commit.ts";
import type { EventNote, EventRecorder } from "../eventRecorder.ts";
import type { ObjectCache } from "../objectCache.ts";
import { forMapped, kindSource, type Source } from "../sources.ts";
import { isOrphan, SelectorIndex } from "./selectorIndex.ts";

/** Wakes the owner of a dependent, and for a dependent without one everybody who selects it and may adopt it. */
export function dependentSource(
  dependents: ObjectCache,
  owners: ObjectCache,
  owner: { readonly group: string; readonly kind: string },
): Source {
  const selecting = new SelectorIndex({
    selectors: owners,
    requirementsOf: ownSelector,
    objects: dependents,
    isEligible: isOrphan,
  });
  const keys = (object: KubeObject): string[] => {
    const controller = controllerOf(object.metadata);
    if (controller === undefined) return selecting.selectorsOf(object);
    if (controller.kind !== owner.kind || splitApiVersion(controller.apiVersion).group !== owner.group) return nobody;
    return [keyOf(object.metadata.namespace, controller.name)];
  };
  return kindSource(dependents, forMapped(keys));
}

const nobody: string[] = [];

/** A selector for everything adopts nothing: the controllers leave such an owner alone. */
function ownSelector(owner: KubeObject): LabelRequirements | undefined {
  const { selector } = (owner["spec"] ?? {}) as { selector?: LabelSelector };
  const requirements = selectorRequirements(selector);
  return requirements.length === 0 ? undefined : requirements;
}

export function normal(reason: string, action: string, note: string): EventNote {
  return { type: "Normal", reason, action, note };
}

export function warning(reason: string, action: string, note: string): EventNote {
  return { type: "Warning", reason, action, note };
}

/** The API refused what was wanted and will refuse it again: worth telling, unlike a lost race. */
export function isTelling(outcome: Committed["outcome"]): outcome is Refusal {
  if (outcome.ok || (outcome.reason !== "Forbidden" && outcome.reason !== "Invalid")) return false;
  // In a namespace on its way out nothing is created, and nobody needs to be told.
  return outcome.status?.details?.causes?.some(({ reason }) => reason === "NamespaceTerminating") !== true;
}

/** Creates and deletes of pods, in upstream's words. */
export function tellPods(recorder: EventRecorder, owner: Known, committed: readonly Committed[]): void {
  const regarding = owner as unknown as KubeObject;
  for (const { intent, outcome } of committed) {
    if (intent.target.plural !== "pods") continue;
    const { name } = intent.target;
    if (intent.type === "create") {
      if (outcome.ok) recorder.record(regarding, normal("SuccessfulCreate", "Create", `Created pod: ${name}`));
      else if (isTelling(outcome))
        recorder.record(regarding, warning("FailedCreate", "Create", `Error creating: ${outcome.message}`));
    } else if (intent.type === "delete") {
      if (outcome.ok) recorder.record(regarding, normal("SuccessfulDelete", "Delete", `Deleted pod: ${name}`));
      else if (isTelling(outcome))
        recorder.record(regarding, warning("FailedDelete", "Delete", `Error deleting: ${outcome.message}`));
    }
  }
}

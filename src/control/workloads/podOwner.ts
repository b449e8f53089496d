/** Shared by the controllers that own pods: their sources, and the Events about their pods. */

import { keyOf } from "../../model/intent.ts";
import { type LabelRequirements, type LabelSelector, selectorRequirements } from "../../model/objects/labelSelector.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { Refusal } from "../../model/outcome.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { EventNote, EventRecorder } from "../runtime/eventRecorder.ts";
import type { Committed } from "../runtime/inFlightWrites.ts";
import { forMapped, type KeysOf, type Source } from "../runtime/sources.ts";
import { lowPriority } from "../runtime/workQueue.ts";
import type { OwnedObjects } from "./ownedObjects.ts";
import { isOrphan, SelectorIndex } from "./selectorIndex.ts";

/** The number of dependents that adds one millisecond of delay. */
const dependentsPerMs = 20;
const calmMsMax = 100;

/**
 * Enqueues the owner after a delay that grows with its number of dependents: a reconcile over a thousand pods for each
 * of a thousand events would be a million reads, and fifty milliseconds are short.
 */
export function calmSource<T extends KubeObject>(
  cache: ObjectCache<T>,
  keysOf: KeysOf<T>,
  sizeOf: (key: string) => number,
): Source {
  return {
    cache,
    start: (queue) =>
      cache.onEvent((event) => {
        const options = event.isOld ? { priority: lowPriority } : {};
        for (const key of keysOf(event)) {
          queue.addAfter(key, Math.min(calmMsMax, Math.floor(sizeOf(key) / dependentsPerMs)), options);
        }
      }),
  };
}

/** Enqueues the owner of a dependent, and for an orphan every owner whose selector matches it. */
export function dependentSource<T extends KubeObject>(
  following: OwnedObjects<T>,
  owners: ObjectCache,
  owner: { readonly group: string; readonly kind: string },
): Source {
  const dependents = following.cache;
  const selecting = new SelectorIndex({
    selectors: owners,
    requirementsOf: ownSelector,
    objects: dependents,
    isEligible: isOrphan,
  });
  const keys = (object: T): string[] => {
    const controller = controllerOf(object.metadata);
    if (controller === undefined) return selecting.selectorsOf(object);
    if (controller.kind !== owner.kind || splitApiVersion(controller.apiVersion).group !== owner.group) return nobody;
    return [keyOf(object.metadata.namespace, controller.name)];
  };
  const sizeOf = (key: string): number => {
    const owning = owners.get(key);
    return owning === undefined ? 0 : following.countOf(owning);
  };
  return calmSource(dependents, forMapped(keys), sizeOf);
}

const nobody: string[] = [];

/** A selector for everything adopts nothing: the controllers leave such an owner alone. */
function ownSelector(owner: KubeObject): LabelRequirements | undefined {
  const { selector } = (owner["spec"] ?? {}) as { selector?: LabelSelector };
  // A ReplicationController selects by a plain map.
  const isMap = owner.kind === "ReplicationController";
  const matchLabels = selector as Record<string, string> | undefined;
  const requirements = selectorRequirements(isMap ? { matchLabels: matchLabels ?? {} } : selector);
  return requirements.length === 0 ? undefined : requirements;
}

export function normal(reason: string, action: string, note: string): EventNote {
  return { type: "Normal", reason, action, note };
}

export function warning(reason: string, action: string, note: string): EventNote {
  return { type: "Warning", reason, action, note };
}

/** A permanent refusal of the API: worth an Event, unlike a conflict. */
export function isWorthAnEvent(outcome: Committed["outcome"]): outcome is Refusal {
  if (outcome.ok || (outcome.reason !== "Forbidden" && outcome.reason !== "Invalid")) return false;
  // In a terminating namespace nothing can be created, and no Event is needed.
  return outcome.status?.details?.causes?.some(({ reason }) => reason === "NamespaceTerminating") !== true;
}

/** Events for creates and deletes of pods, with upstream's texts. */
export function recordPodEvents(recorder: EventRecorder, regarding: KubeObject, committed: readonly Committed[]): void {
  for (const { intent, outcome } of committed) {
    if (intent.target.plural !== "pods") continue;
    const { name } = intent.target;
    if (intent.type === "create") {
      if (outcome.ok) recorder.record(regarding, normal("SuccessfulCreate", "Create", `Created pod: ${name}`));
      else if (isWorthAnEvent(outcome))
        recorder.record(regarding, warning("FailedCreate", "Create", `Error creating: ${outcome.message}`));
    } else if (intent.type === "delete") {
      if (outcome.ok) recorder.record(regarding, normal("SuccessfulDelete", "Delete", `Deleted pod: ${name}`));
      else if (isWorthAnEvent(outcome))
        recorder.record(regarding, warning("FailedDelete", "Delete", `Error deleting: ${outcome.message}`));
    }
  }
}

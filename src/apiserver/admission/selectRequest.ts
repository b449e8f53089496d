import {
  type LabelRequirements,
  type LabelSelector,
  matchesLabels,
  selectorRequirements,
} from "../../model/objects/labelSelector.ts";
import type { Core } from "../verbs/core.ts";
import type { AdmissionAttributes } from "./admission.ts";

/** The two selectors of webhooks and policies. Undefined selects everything. */
export interface Selectors {
  readonly namespace: LabelRequirements | undefined;
  readonly object: LabelRequirements | undefined;
}

export function selectorsOf(source: {
  readonly namespaceSelector?: unknown;
  readonly objectSelector?: unknown;
}): Selectors {
  return { namespace: requirementsOf(source.namespaceSelector), object: requirementsOf(source.objectSelector) };
}

function requirementsOf(selector: unknown): LabelRequirements | undefined {
  const requirements = selectorRequirements((selector ?? {}) as LabelSelector);
  return requirements.length === 0 ? undefined : requirements;
}

export function selectsRequest(core: Core, selectors: Selectors, attributes: AdmissionAttributes): boolean {
  return selectsNamespace(core, selectors.namespace, attributes) && selectsObject(selectors.object, attributes);
}

/** A namespace selector never excludes cluster-scoped objects; a Namespace is matched by its own labels. */
function selectsNamespace(
  core: Core,
  requirements: LabelRequirements | undefined,
  attributes: AdmissionAttributes,
): boolean {
  if (requirements === undefined) return true;
  if (attributes.type.storageKey === "/namespaces") {
    const self = attributes.object ?? attributes.oldObject;
    return matchesLabels(requirements, self?.metadata.labels);
  }
  if (attributes.namespace === "") return true;
  const namespace = core.store.get("/namespaces", "", attributes.namespace);
  return namespace !== undefined && matchesLabels(requirements, namespace.side.labels ?? undefined);
}

/** The old object is matched too: an update cannot avoid a selector by removing a label. */
function selectsObject(requirements: LabelRequirements | undefined, attributes: AdmissionAttributes): boolean {
  if (requirements === undefined) return true;
  const { object, oldObject } = attributes;
  return (
    (object !== undefined && matchesLabels(requirements, object.metadata.labels)) ||
    (oldObject !== undefined && matchesLabels(requirements, oldObject.metadata.labels))
  );
}

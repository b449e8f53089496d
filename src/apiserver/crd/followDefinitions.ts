import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import type { Resource } from "../resource.ts";
import type { Version } from "../storage/version.ts";
import type { Core } from "../verbs/core.ts";
import { isEstablished } from "./crdNames.ts";
import { servedResources } from "./customResourceType.ts";
import { crdResource } from "./validateCrd.ts";

/** A definition as it is served. */
interface Served {
  readonly storageKey: string;
  /** Changes when the served API does. */
  readonly shape: string;
  readonly terminating: boolean;
  readonly selectableFields: string;
}

/**
 * Serves custom resources as soon as their definition is written: a client that sees the definition can use it. Watches
 * of a kind end when its schema or names change, so that clients list again.
 */
export function followDefinitions(
  { store, hub, registry }: Core,
  failed: (what: string, error: unknown) => void = () => {},
): void {
  const served = new Map<string, Served>();

  const follow = (version: Version): void => {
    const crd = version.object() as CustomResourceDefinition;
    const before = served.get(version.name);
    if (version.deleted || !isEstablished(crd.status)) {
      if (before === undefined) return;
      served.delete(version.name);
      registry.remove(before.storageKey);
      hub.closeWatches(before.storageKey);
      return;
    }
    const shape = JSON.stringify([crd.metadata.uid, crd.spec, crd.status?.acceptedNames]);
    const terminating = crd.metadata.deletionTimestamp !== undefined;
    if (before?.shape === shape && before.terminating === terminating) return;
    const resources = servedResources(crd);
    const [first] = resources;
    if (first === undefined) return;
    const { storageKey } = first.type;
    const selectableFields = first.type.selectableFields.join(" ");
    if (before !== undefined) registry.remove(before.storageKey);
    registry.add(resources);
    served.set(version.name, { storageKey, shape, terminating, selectableFields });
    if ((before?.selectableFields ?? "") !== selectableFields) refreshSides(first);
    if (before !== undefined && before.shape !== shape) hub.closeWatches(before.storageKey);
  };

  /** Existing objects are indexed by the new selectable fields. */
  const refreshSides = (resource: Resource): void => {
    for (const version of store.collection(resource.type.storageKey).all()) {
      (version.side as { fields: readonly string[] }).fields = resource.selectFields(version.object());
    }
  };

  /**
   * A definition that passed validation and cannot be compiled is a defect of the server; it must not affect other
   * kinds.
   */
  const tryToFollow = (version: Version): void => {
    try {
      follow(version);
    } catch (error) {
      failed(`definition ${version.name}`, error);
    }
  };

  for (const version of store.collection(crdResource).all()) tryToFollow(version);
  store.onEvent(({ current }) => {
    if (current.resource === crdResource) tryToFollow(current);
  });
}

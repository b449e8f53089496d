import type { NewObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { GroupResource } from "../../model/objects/status.ts";
import { StatusError } from "../../model/objects/status.ts";
import { sentByUs } from "../resource.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core, Target, Written } from "../verbs/core.ts";
import { createObject } from "../verbs/create.ts";
import { updateObject } from "../verbs/update.ts";

/** A controller of the API server itself. It gets every event and reads the store when it reconciles. */
export interface Controller {
  /** Called once, before the first event, to read the existing objects. */
  start(): void;
  /** Called for every change, in order; only enqueues keys. Must be cheap: it runs inside every write. */
  observe(event: StoreEvent): void;
  stop?(): void;
}

/** The location of an object, and its UID. */
export interface Place {
  /** Group and plural: `apps/deployments`, `/pods`. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The target of a verb, or undefined when the resource is not served (any more). */
export function targetAt(core: Core, place: Omit<Place, "uid">, subresource = ""): Target | undefined {
  const resource = core.registry.stored(place.resource);
  if (resource === undefined) return undefined;
  return { resource, namespace: place.namespace, name: place.name, subresource };
}

/**
 * Changes the metadata of one object, if it still has this UID. Validation of the kind does not run: an object that
 * became invalid when the rules changed must still be able to lose its finalizers.
 */
export function changeMetadata(
  core: Core,
  place: Place,
  manager: string,
  change: (metadata: KubeObject["metadata"]) => KubeObject["metadata"],
): Promise<Written> | undefined {
  const target = targetAt(core, place);
  if (target === undefined) return undefined;
  return updateObject(
    core,
    target,
    {
      options: updateOptions(manager),
      build: (current) => ({ ...current, metadata: { ...change(current.metadata), uid: place.uid } }),
      restrict: (next) => next,
      validate: () => [],
    },
    systemCall(manager),
  );
}

/** Writes the status of one object, if it is still at the revision that the status was computed from. */
export function writeStatus(
  core: Core,
  place: Omit<Place, "uid">,
  manager: string,
  seen: KubeObject,
  status: unknown,
): Promise<Written> | undefined {
  const target = targetAt(core, place, "status");
  if (target === undefined) return undefined;
  const { uid, resourceVersion } = seen.metadata;
  return updateObject(
    core,
    target,
    {
      options: updateOptions(manager),
      build: (current) => ({ ...current, metadata: { ...current.metadata, uid, resourceVersion }, status }),
    },
    systemCall(manager),
  );
}

export function createHere(
  core: Core,
  resource: string,
  object: NewObject | KubeObject,
  manager: string,
): Promise<Written> {
  const { namespace = "", name } = object.metadata;
  const target = targetAt(core, { resource, namespace, name });
  if (target === undefined) throw new Error(`a controller creates an object of unknown resource ${resource}`);
  return createObject(core, target, sentByUs(object), systemCall(manager));
}

export function updateOptions(manager: string): Readonly<Record<string, unknown>> {
  return { kind: "UpdateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: manager };
}

/** Whether the error is a Status with one of these reasons: `NotFound`, `Conflict`... */
export function isRefusal(error: unknown, ...reasons: string[]): boolean {
  return error instanceof StatusError && reasons.includes(error.status.reason ?? "");
}

/** Ignores errors with these reasons, for work that another writer has already done. */
export async function unlessRefused(work: Promise<unknown> | undefined, ...reasons: string[]): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isRefusal(error, ...reasons)) throw error;
  }
}

/** `apps/deployments` to its two halves. */
export function groupResourceOf(storageKey: string): GroupResource {
  const slash = storageKey.indexOf("/");
  return { group: storageKey.slice(0, slash), resource: storageKey.slice(slash + 1) };
}

import type { Expected, NewObject } from "../../model/intent.ts";
import type { Lease, Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import type { KubeObject, ObjectMeta } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ObjectRef, Patch } from "../../ports/kubeApi.ts";

/**
 * The writes of a simulated node. The driver sends them in order; a refusal ends the reconcile, and the next one
 * decides again from the state then.
 */
export type NodeWrite<T extends KubeObject = KubeObject> =
  | { readonly kind: "create"; readonly ref: ObjectRef<T>; readonly object: NewObject<T> }
  /** Carries the resourceVersion that it was computed from; after a Conflict the object is read again. */
  | { readonly kind: "update"; readonly ref: ObjectRef<T>; readonly object: T }
  /** Where `expected` is given, it is sent in the metadata of the body as a precondition. */
  | { readonly kind: "patch"; readonly ref: ObjectRef<T>; readonly patch: Patch<T>; readonly expected?: Expected }
  | { readonly kind: "delete"; readonly ref: ObjectRef<T>; readonly expected: Identity; readonly graceSeconds: number }
  | { readonly kind: "evict"; readonly ref: ObjectRef<T>; readonly expected: Expected }
  | NodeEvent;

/**
 * Identifies the object. Without a version any version is accepted, because an earlier write of the same reconcile has
 * changed it.
 */
export interface Identity {
  readonly uid: string;
  readonly resourceVersion?: string;
}

/** An Event about an object; the driver gives it a name, a source and times. */
export interface NodeEvent {
  readonly kind: "event";
  readonly regarding: EventTarget;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

export interface EventTarget {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** What to write now and when to reconcile again; undefined means: when the object changes. */
export interface Next<T extends KubeObject = KubeObject> {
  readonly writes: readonly NodeWrite<T>[];
  readonly wakeAtMs: number | undefined;
}

export function identityOf({ uid, resourceVersion }: ObjectMeta): Expected {
  return { uid, resourceVersion };
}

export function podRef(metadata: { namespace?: string; name: string }, subresource?: string): ObjectRef<Pod> {
  return ref(builtin.Pod, metadata.namespace ?? "", metadata.name, subresource);
}

export function nodeRef(name: string, subresource?: string): ObjectRef<Node> {
  return ref(builtin.Node, "", name, subresource);
}

export function leaseRef(node: string): ObjectRef<Lease> {
  return ref(builtin.Lease, "kube-node-lease", node);
}

export function sliceRef(name: string): ObjectRef<ResourceSlice> {
  return ref(builtin.ResourceSlice, "", name);
}

export function claimRef(
  metadata: { namespace?: string; name: string },
  subresource?: string,
): ObjectRef<ResourceClaim> {
  return ref(builtin.ResourceClaim, metadata.namespace ?? "", metadata.name, subresource);
}

function ref<T extends KubeObject>(
  resource: Resource<T>,
  namespace: string,
  name: string,
  subresource?: string,
): ObjectRef<T> {
  return subresource === undefined ? { ...resource, namespace, name } : { ...resource, namespace, name, subresource };
}

/** The earlier of two times; undefined means never. */
export function earliest(...moments: readonly (number | undefined)[]): number | undefined {
  let first: number | undefined;
  for (const moment of moments) if (moment !== undefined && (first === undefined || moment < first)) first = moment;
  return first;
}

export function eventTarget(object: {
  apiVersion: string;
  kind: string;
  metadata: { namespace?: string; name: string; uid: string };
}): EventTarget {
  const { namespace = "", name, uid } = object.metadata;
  return { apiVersion: object.apiVersion, kind: object.kind, namespace, name, uid };
}

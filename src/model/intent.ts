import type { DeepReadonly, KubeObject, MergePatch, NewMeta } from "./objects/object.ts";
import type { Resource } from "./objects/resource.ts";
import type { Revision } from "./revision.ts";

/**
 * A decided write to one object. Every intent carries the state of the object that it was decided on as a precondition:
 * if the object has changed since, the write is refused and the decision is made again.
 */
export type Intent<T extends KubeObject = KubeObject> =
  | CreateIntent<T>
  | UpdateIntent<T>
  | StatusIntent<T>
  | PatchIntent<T>
  | ApplyIntent<T>
  | BindIntent<T>
  | EvictIntent<T>
  | DeleteIntent<T>;

/** The API path of an object. */
export interface IntentTarget<T extends KubeObject = KubeObject> extends Resource<T> {
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

/**
 * The UID and resourceVersion of the object that was read; another object of the same name or a later version does not
 * match.
 */
export interface Expected {
  readonly uid: string;
  readonly resourceVersion: Revision;
}

/** What a decision is based on: a version of an object, or that no object had the name at a revision. */
export type Basis = Expected | { readonly absentAtRevision: Revision };

interface Decided<T extends KubeObject> {
  readonly target: IntentTarget<T>;
  /** The reason as a sentence, for the log, the event and the condition. */
  readonly why: string;
}

/** The precondition is that no object of that name exists, so the name is derived and not random. */
export interface CreateIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "create";
  readonly absentAtRevision: Revision;
  readonly object: NewObject<T>;
}

/** An object that is created under a derived name. */
export type NewObject<T extends KubeObject = KubeObject> = {
  readonly [F in keyof T]: F extends "metadata"
    ? NewMeta & { readonly name: string; readonly generateName?: never }
    : DeepReadonly<T[F]>;
};

/** Replaces the object. The precondition is the object's own uid and resourceVersion. */
export interface UpdateIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "update";
  readonly expected: Expected;
  readonly object: T;
}

/** Replaces the object's status and nothing else. */
export interface StatusIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "status";
  readonly expected: Expected;
  readonly object: T;
}

/** A merge patch; null removes a field. */
export interface PatchIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "patch";
  readonly expected: Expected;
  readonly patch: MergePatch<T>;
  /** How lists are merged: replaced, as the standard says, or by their keys, as Kubernetes does for built-in kinds. */
  readonly strategy?: "merge" | "strategic";
  readonly subresource?: string;
}

/** Server-side apply of some fields to an existing object. A missing object is created by a CreateIntent. */
export interface ApplyIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "apply";
  readonly expected: Expected;
  /** The fields to own, including `apiVersion` and `kind`. */
  readonly fields: MergePatch<T>;
  /** Takes fields from other owners instead of reporting a conflict. */
  readonly force?: boolean;
  readonly subresource?: string;
}

export interface BindIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "bind";
  readonly expected: Expected;
  readonly node: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Destructive: read again before it is sent. */
export interface EvictIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "evict";
  readonly expected: Expected;
  readonly gracePeriodSeconds?: number;
}

/** Destructive: read again before it is sent. */
export interface DeleteIntent<T extends KubeObject = KubeObject> extends Decided<T> {
  readonly type: "delete";
  readonly expected: Expected;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
}

export type DestructiveIntent<T extends KubeObject = KubeObject> = EvictIntent<T> | DeleteIntent<T>;

export function isDestructive<T extends KubeObject>(intent: Intent<T>): intent is DestructiveIntent<T> {
  return intent.type === "evict" || intent.type === "delete";
}

/** Group and plural: `apps/deployments`, `/pods` for the core group. The key of a kind's watch and revision. */
export function resourceKey(target: { readonly group: string; readonly plural: string }): string {
  return `${target.group}/${target.plural}`;
}

/** `namespace/name`, or the name alone for cluster-scoped objects. */
export function keyOf(namespace: string | undefined, name: string): string {
  return namespace === undefined || namespace === "" ? name : `${namespace}/${name}`;
}

export function keyOfObject({ metadata }: KubeObject): string {
  return keyOf(metadata.namespace, metadata.name);
}

/** The precondition that the object has not changed. */
export function expectedOf({ metadata }: KubeObject): Expected {
  return { uid: metadata.uid, resourceVersion: metadata.resourceVersion };
}

export function basisOf(intent: Intent): Basis {
  return intent.type === "create" ? { absentAtRevision: intent.absentAtRevision } : intent.expected;
}

/**
 * Derived from identity: the same decision on the same state of the same object has the same id, whichever process
 * takes it and however often. Two different updates of one state share an id too, and so do all creates of one name:
 * only one of them can take effect.
 */
export function intentId(intent: Intent): string {
  let id = ids.get(intent);
  if (id === undefined) {
    id = describeIntent(intent);
    ids.set(intent, id);
  }
  return id;
}

/** The id of an intent is read often. */
const ids = new WeakMap<Intent, string>();

function describeIntent(intent: Intent): string {
  const { target } = intent;
  const place = `${intent.type} ${resourceKey(target)}/${keyOf(target.namespace, target.name)}`;
  if (intent.type === "create") return place;
  const state = `${place} ${intent.expected.uid}@${intent.expected.resourceVersion}`;
  if (intent.type === "bind") return `${state} ${intent.node}`;
  const hasPart = intent.type === "patch" || intent.type === "apply";
  return hasPart && intent.subresource !== undefined ? `${state} ${intent.subresource}` : state;
}

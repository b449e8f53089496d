import { type Json, type JsonObject, setKey } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Memory } from "../../ports/memory.ts";
import type { Random } from "../../ports/random.ts";
import type { SideRecord } from "../../ports/store.ts";
import type { Admission } from "../admission/admission.ts";
import type { Registry } from "../registry.ts";
import type { Resource } from "../resource.ts";
import type { FieldValidation } from "../schema/decode.ts";
import type { Collection } from "../storage/collection.ts";
import type { ObjectStore } from "../storage/objectStore.ts";
import type { Version } from "../storage/version.ts";
import type { WatchHub } from "../storage/watchHub.ts";
import type { UserInfo, WriteContext } from "../strategy.ts";

/** What every verb needs. */
export interface Core {
  readonly store: ObjectStore;
  readonly hub: WatchHub;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
  readonly admission: Admission;
  /** Pods are admitted without a look at their service account. */
  readonly ignoresServiceAccounts?: boolean;
  /** Left out: unlimited. */
  readonly memory?: Memory;
}

/** The object or collection that a request addresses. */
export interface Target {
  readonly resource: Resource;
  /** Empty for cluster-scoped resources and for all namespaces. */
  readonly namespace: string;
  /** Empty for a collection. */
  readonly name: string;
  readonly subresource: string;
}

/** The caller of a verb, and the options of its request. */
export interface Call {
  readonly user: UserInfo;
  readonly dryRun: boolean;
  readonly fieldManager: string;
  readonly fieldValidation: FieldValidation;
  warn(text: string): void;
  /**
   * Rejects (403) when an update or an apply is about to create and the caller may not create. Left out: the caller
   * may.
   */
  demandCreate?(): void;
}

/** A completed write, or a dry run (whose version is in no collection). */
export interface Written {
  readonly version: Version;
  readonly created: boolean;
  /** The write removed the last finalizer, and so deleted the object. */
  readonly deleted?: boolean;
}

export function writeContext(core: Core, call: Call, subresource: string): WriteContext {
  return {
    nowMs: core.clock.nowMs(),
    user: call.user,
    subresource,
    dryRun: call.dryRun,
    get: (resource, namespace, name) => core.store.get(resource, namespace, name)?.object(),
    list: (resource, namespace) => objectsOf(core, resource, namespace),
    warn: call.warn,
    ignoresServiceAccounts: core.ignoresServiceAccounts === true,
    randomBelow: (bound) => core.random.uint32() % bound,
  };
}

const none: readonly KubeObject[] = [];

function objectsOf(core: Core, resource: string, namespace: string): Iterable<KubeObject> {
  const collection = core.store.collection(resource);
  return collection.size === 0 ? none : currentObjects(core, collection, namespace);
}

function* currentObjects(core: Core, collection: Collection, namespace: string): Generator<KubeObject> {
  for (const version of collection.at(core.store.revision, namespace)) yield version.object();
}

/** The values that lists and watches select by. */
export function sideRecord(resource: Resource, stored: KubeObject): SideRecord {
  const { metadata } = stored;
  return {
    uid: metadata.uid,
    labels: metadata.labels ?? null,
    fields: resource.selectFields(stored),
    owners: metadata.ownerReferences === undefined ? null : metadata.ownerReferences.map((owner) => owner.uid),
  };
}

/** Kind and apiVersion first: lists cut off that prefix instead of encoding items again. */
export function inStoredOrder(object: KubeObject): KubeObject {
  const { kind, apiVersion, metadata } = object;
  const ordered: KubeObject = { kind, apiVersion, metadata };
  for (const key in object) {
    if (key !== "kind" && key !== "apiVersion" && key !== "metadata")
      setKey(ordered as JsonObject, key, object[key] as Json);
  }
  return ordered;
}

/** A random version 4 UUID. */
export function newUid(random: Random): string {
  const a = random.uint32();
  const b = random.uint32();
  const c = random.uint32();
  const d = random.uint32();
  const versioned = (b & 0xffff0fff) | 0x4000;
  const variant = (c & 0x3fffffff) | 0x80000000;
  return `${hex4(a >>> 16)}${hex4(a)}-${hex4(b >>> 16)}-${hex4(versioned)}-${hex4(variant >>> 16)}-${hex4(c)}${hex4(d >>> 16)}${hex4(d)}`;
}

const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The lower 16 bits. */
function hex4(bits: number): string {
  return `${hexOfByte[(bits >>> 8) & 0xff]}${hexOfByte[bits & 0xff]}`;
}

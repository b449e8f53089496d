import { assert } from "../assert.ts";
import { expectedOf, type Intent, type IntentTarget, keyOf, type NewObject } from "../intent.ts";
import { builtin } from "../resources.generated.ts";
import type { Revision } from "../revision.ts";
import { equalFields, type JsonObject } from "./json.ts";
import type { KubeObject, MergePatch } from "./object.ts";

/** The writes of a controller, in this order, and when to requeue though nothing has changed. */
export interface Decision {
  readonly intents: readonly Intent[];
  readonly wakeAtMs: number | undefined;
  /** Why less was decided than is asked for, in a sentence for an event. */
  readonly limit?: string;
}

export interface RemoveOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
}

const places: Readonly<Record<string, { group: string; version: string; plural: string }>> = {
  Pod: builtin.Pod,
  Node: builtin.Node,
  PersistentVolumeClaim: builtin.PersistentVolumeClaim,
  Endpoints: builtin.Endpoints,
  ReplicaSet: builtin.ReplicaSet,
  ReplicationController: builtin.ReplicationController,
  Deployment: builtin.Deployment,
  StatefulSet: builtin.StatefulSet,
  DaemonSet: builtin.DaemonSet,
  ControllerRevision: builtin.ControllerRevision,
  Job: builtin.Job,
  CronJob: builtin.CronJob,
  EndpointSlice: builtin.EndpointSlice,
};

export function targetOf(kind: string, metadata: { readonly namespace?: string; readonly name: string }): IntentTarget {
  const place = places[kind];
  assert(place !== undefined, () => `no controller writes a ${kind}`);
  return { ...place, namespace: metadata.namespace ?? "", name: metadata.name };
}

/**
 * A decision in the making. It takes one intent for one object: a second one would carry the same precondition as the
 * first and be refused, so a second change to an object waits for the next reconcile.
 */
export class Draft {
  readonly intents: Intent[] = [];
  #wakeAtMs: number | undefined;
  #limit: string | undefined;
  readonly #touched = new Set<string>();
  /** How many intents there are up to the last one that says whose an object is, if any of them adopts. */
  #claims = 0;

  create(absentAt: Revision, object: NewObject, why: string): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    this.intents.push({ type: "create", target, absentAt, object, why });
  }

  patch<T extends KubeObject>(object: T, patch: MergePatch<NoInfer<T>>, why: string, subresource?: string): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    const intent = { type: "patch", target, expected: expectedOf(object), patch, why } as const;
    this.intents.push(subresource === undefined ? intent : { ...intent, subresource });
  }

  /** Writes the status if it says something new. */
  status(object: KubeObject & { status?: unknown }, status: object, why: string): void {
    const given = withoutUndefined(status);
    if (equalFields(given, object.status ?? {})) return;
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    const next = { ...object, status: given };
    this.intents.push({ type: "status", target, expected: expectedOf(object), object: next, why });
  }

  remove(object: KubeObject, why: string, more: RemoveOptions = {}): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    this.intents.push({ type: "delete", target, expected: expectedOf(object), why, ...more });
  }

  wakeAt(atMs: number | undefined): void {
    this.#wakeAtMs = earliest(this.#wakeAtMs, atMs);
  }

  limitedBy(message: string): void {
    this.#limit = message;
  }

  /** Whether an intent about the object has been taken. */
  has(object: KubeObject): boolean {
    return this.#touched.has(placeOf(targetOf(object.kind, object.metadata)));
  }

  /**
   * An object was adopted with the intents so far. Whether it is ours is known when the API has agreed: two owners may
   * want one orphan, and the one that does not get it must not have deleted a pod of its own to make room. So nothing
   * that comes after it in this draft is decided now; the next reconcile counts again.
   *
   * Found by: muster sim replay --scenario workloads --seed 794753571
   */
  adopted(): void {
    this.#claims = this.intents.length;
  }

  decision(): Decision {
    if (this.#claims > 0) return { intents: this.intents.slice(0, this.#claims), wakeAtMs: undefined };
    const limit = this.#limit;
    return { intents: this.intents, wakeAtMs: this.#wakeAtMs, ...(limit !== undefined && { limit }) };
  }

  #touch(target: IntentTarget): void {
    const place = placeOf(target);
    assert(!this.#touched.has(place), () => `two intents for ${place} in one decision`);
    this.#touched.add(place);
  }
}

function placeOf(target: IntentTarget): string {
  return `${target.plural}/${keyOf(target.namespace, target.name)}`;
}

/** JSON has no undefined; a field left out and a field set to undefined are the same thing to say. */
function withoutUndefined(status: object): JsonObject {
  const given: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(status)) if (value !== undefined) given[key] = value;
  return given as JsonObject;
}

/** The earlier of moments; undefined is never. */
export function earliest(...moments: readonly (number | undefined)[]): number | undefined {
  let first: number | undefined;
  for (const moment of moments) if (moment !== undefined && (first === undefined || moment < first)) first = moment;
  return first;
}

/** Counts that the API leaves out when they are zero; written so, a status equals what is stored. */
export function withoutZeros<T extends object>(status: T, keys: readonly (keyof T)[]): T {
  const kept = { ...status };
  for (const key of keys) if (kept[key] === 0) delete kept[key];
  return kept;
}

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
  /** Why fewer objects were decided than requested, as a sentence for an Event. */
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
 * Builds a Decision. It accepts one intent for each object: a second one would have the same precondition as the first
 * and be refused, so a second change waits for the next reconcile.
 */
export class Draft {
  readonly intents: Intent[] = [];
  #wakeAtMs: number | undefined;
  #limit: string | undefined;
  readonly #touched = new Set<string>();
  /** The number of intents up to the last one that changes an owner reference, if any of them adopts. */
  #claims = 0;

  create(absentAtRevision: Revision, object: NewObject, why: string): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    this.intents.push({ type: "create", target, absentAtRevision, object, why });
  }

  patch<T extends KubeObject>(object: T, patch: MergePatch<NoInfer<T>>, why: string, subresource?: string): void {
    const target = targetOf(object.kind, object.metadata);
    this.#touch(target);
    const intent = { type: "patch", target, expected: expectedOf(object), patch, why } as const;
    this.intents.push(subresource === undefined ? intent : { ...intent, subresource });
  }

  /** Writes the status if it has changed. */
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

  /** Whether the draft has an intent for the object. */
  has(object: KubeObject): boolean {
    return this.#touched.has(placeOf(targetOf(object.kind, object.metadata)));
  }

  /**
   * The intents so far adopt an object. The adoption may be refused: two owners may select one orphan, and the owner
   * that does not get it must not have deleted a pod of its own because of it. So later intents of this draft are
   * dropped; the next reconcile counts again.
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

/** Removes fields that are undefined, which JSON does not have. */
function withoutUndefined(status: object): JsonObject {
  const given: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(status)) if (value !== undefined) given[key] = value;
  return given as JsonObject;
}

/** The earliest time; undefined means never. */
export function earliest(...moments: readonly (number | undefined)[]): number | undefined {
  let first: number | undefined;
  for (const moment of moments) if (moment !== undefined && (first === undefined || moment < first)) first = moment;
  return first;
}

/** Removes zero counts that the API omits, so that the status equals the stored one. */
export function withoutZeros<T extends object>(status: T, keys: readonly (keyof T)[]): T {
  const kept = { ...status };
  for (const key of keys) if (kept[key] === 0) delete kept[key];
  return kept;
}

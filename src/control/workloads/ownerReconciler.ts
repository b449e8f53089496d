import { lookAgain } from "../../intents/lookAgain.ts";
import { type Intent, isDestructive, keyOfObject } from "../../model/intent.ts";
import type { Decision } from "../../model/objects/draft.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";

import type { Controller } from "../runtime/controller.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { Author, Committed, InFlightWrites, Pace } from "../runtime/inFlightWrites.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { Channel, type Source } from "../runtime/sources.ts";

/** What a controller does for one object that owns others. */
export interface OwnerController<T extends KubeObject> {
  /** The upstream name, such as `replicaset-controller`, in events, logs and metrics. */
  readonly name: string;
  readonly kind: Resource<T>;
  readonly sources: readonly Source[];
  /** Reads the caches and decides synchronously. */
  decide(owner: T, nowMs: number): ReportedDecision;
  /** Runs first in every reconcile, also when the owner is deleted. */
  before?(key: string, context: ReconcileContext & { readonly author: Author }): Promise<ReconcileResult>;
}

/** A decision, and a callback for its outcome. */
export interface ReportedDecision extends Decision {
  readonly onCommitted?: (committed: readonly Committed[]) => void;
}

/** The latest requeue: the time zone or the clock may change. */
const wakeMsMax = 3_600_000;
const reconcilesAtOnce = 16;
/** How the writes of one reconcile are sent. */
export const pace: Pace = { atOnce: 64, ramp: "creates", stop: "sort" };
/** A full quota or a refusing webhook is retried at least this often. */
const backoff = { baseMs: 5, maxMs: 30_000 };

/**
 * Reconciles the objects of a kind: wait until our own writes are observed, decide, read again before deletes, write,
 * report.
 */
export function addOwnerController<T extends KubeObject>(
  controllers: Controllers,
  inFlight: InFlightWrites,
  options: OwnerController<T>,
): Controller {
  const { name, kind } = options;
  const cache = controllers.cache(kind);
  const { kube, ports } = controllers;
  const shown = new Channel();

  const reconcile = async (key: string, given: ReconcileContext): Promise<ReconcileResult> => {
    const { cancel } = given;
    const author: Author = { name: `${name} ${key}`, wake: () => shown.push(key) };
    const state = await inFlight.resolveWrites(author, { cancel });
    if (state === "waiting") return undefined;
    if (state !== "clear") return reconcileResultOf(state) ?? { again: state.message };
    const first = await options.before?.(key, { ...given, author });
    if (first !== undefined) return first;
    const owner = cache.get(key);
    if (owner === undefined) return undefined;
    let decision = options.decide(owner, ports.clock.nowMs());
    if (decision.intents.some((intent) => needsFreshOwner(intent, owner))) {
      const fresh = await freshOwner(owner, cancel);
      if (!fresh.ok) return reconcileResultOf(fresh) ?? { again: fresh.message };
      if (fresh.value === undefined) return undefined;
      // The caches have changed as well, so the decision is taken again.
      decision = options.decide(fresh.value, ports.clock.nowMs());
    }
    const committed = await inFlight.commit(
      decision.intents.map((intent) => ({ intent })),
      { author, pace, cancel },
    );
    decision.onCommitted?.(committed);
    return resultOf(decision, committed, ports.clock.nowMs());
  };

  /** Without an object: it is deleted, and the watch will deliver that. */
  const freshOwner = async (owner: T, cancel: Cancel): Promise<Outcome<T | undefined>> => {
    const { namespace = "", name: ownerName, uid } = owner.metadata;
    const target = { ...kind, namespace, name: ownerName };
    const outcome = await lookAgain(kube, target, { atLeast: cache.revision, cancel });
    if (!outcome.ok) return outcome;
    const { object } = outcome.value;
    return succeeded(object?.metadata.uid === uid ? object : undefined);
  };

  return controllers.add({
    name,
    sources: [...options.sources, shown],
    concurrency: reconcilesAtOnce,
    backoff,
    reconcile,
  });
}

/**
 * Deletes and adoptions are not decided on a cache alone: the owner may have been scaled up, or may be another object
 * of the same name, which must neither lose its pods nor adopt those of the earlier one.
 */
function needsFreshOwner(intent: Intent, owner: KubeObject): boolean {
  if (isDestructive(intent)) return true;
  if (intent.type !== "patch" || keyOfObject(owner) === `${intent.target.namespace}/${intent.target.name}`)
    return false;
  const { metadata } = intent.patch;
  if (metadata?.ownerReferences === undefined) return false;
  const ownerReferences = [...(metadata.ownerReferences ?? [])];
  return controllerOf({ ...owner.metadata, ownerReferences })?.uid === owner.metadata.uid;
}

export function resultOf(decision: Decision, committed: readonly Committed[], nowMs: number): ReconcileResult {
  for (const { outcome } of committed) {
    if (outcome.ok || outcome.reason === "NotFound") continue;
    if (outcome.reason === "Fenced") return reconcileResultOf(outcome);
    const again = `${outcome.reason}: ${outcome.message}`;
    return outcome.retryAfterMs === undefined ? { again } : { again, atLeastMs: outcome.retryAfterMs };
  }
  const { wakeAtMs } = decision;
  if (wakeAtMs === undefined) return undefined;
  return { requeueAfterMs: Math.min(Math.max(1, wakeAtMs - nowMs), wakeMsMax) };
}

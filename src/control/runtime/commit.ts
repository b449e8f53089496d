import type { ApplyOptions, Written } from "../../intents/applyIntent.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { type Intent, intentId, kindOf } from "../../model/intent.ts";
import { type Outcome, refused } from "../../model/outcome.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import type { Effect } from "../../snapshot/ledger.ts";
import type { Picture } from "../../snapshot/picture.ts";
import type { Writer } from "./writer.ts";

/** An intent and what it makes true. */
export interface Decision<V> {
  readonly intent: Intent;
  readonly effects: readonly Effect<V>[];
}

export interface Committed {
  readonly intent: Intent;
  readonly outcome: Outcome<Written>;
}

/**
 * Carries out what was decided from the picture. All intents count before the first write is sent, so that a decision
 * taken meanwhile sees them; then the writes are sent one after the other, and the outcome of each is recorded before
 * the next.
 */
export async function commit<V>(
  picture: Picture<V>,
  writer: Writer,
  decisions: readonly Decision<V>[],
  options: ApplyOptions = {},
): Promise<Committed[]> {
  const verdicts = decisions.map(({ intent, effects }) => picture.decide(intent, effects));
  const committed: Committed[] = [];
  for (const [at, { intent }] of decisions.entries()) {
    const isStale = verdicts[at] === "stale";
    committed.push({ intent, outcome: isStale ? movedOn(intent) : await send(picture, writer, intent, options) });
  }
  return committed;
}

/**
 * Resolves an intent of unknown outcome, by a consistent read of its object. False when that proves nothing: the object
 * is as it was, the write may still land, and only sending it again (or any other write to the object) ends it.
 */
export async function resolveUnknown<V>(
  picture: Picture<V>,
  kube: KubeReads,
  intent: Intent,
  options: ApplyOptions = {},
): Promise<Outcome<boolean>> {
  const atLeast = picture.snapshot().kind(kindOf(intent.target)).revision;
  const fresh = await lookAgain(kube, intent.target, { atLeast, ...options });
  if (!fresh.ok) return fresh;
  picture.read(intent, fresh.value);
  return { ok: true, value: picture.stateOf(intent) !== "unknown" };
}

async function send<V>(
  picture: Picture<V>,
  writer: Writer,
  intent: Intent,
  options: ApplyOptions,
): Promise<Outcome<Written>> {
  // Another reconcile may be sending the same, or the watch has shown that the object has changed.
  const attempt = picture.send(intent);
  if (attempt === undefined) return movedOn(intent);
  let outcome: Outcome<Written> = refused("Unknown", "the call threw an exception");
  try {
    outcome = await writer.apply(intent, options);
  } finally {
    picture.answer(intent, outcome, attempt);
  }
  return outcome;
}

function movedOn(intent: Intent): Outcome<never> {
  return refused("Conflict", `not sent: ${intentId(intent)} is no longer what it was decided on, or is on its way`);
}

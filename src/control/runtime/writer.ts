import { type ApplyOptions, applyIntent, type Written } from "../../intents/applyIntent.ts";
import { destroyAfterLooking, type FreshObject, type LookOptions, type Recheck } from "../../intents/lookAgain.ts";
import { type DestructiveIntent, type Intent, type IntentTarget, isDestructive } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

/** Gets the object after a write, as the API returned it. */
export type OnAnswer = (target: IntentTarget, object: KubeObject) => void;

/**
 * The one way in which controllers change the cluster. What is written is an intent, so it carries its precondition;
 * the API behind it is fenced, so no write is sent once the lease cannot be proven. Controllers read by `KubeReads`,
 * which has no verb that writes.
 */
export class Writer {
  private readonly kube: KubeApi;
  private readonly onAnswer: OnAnswer | undefined;

  /** `kube` is the fenced API: see fencedKube. */
  constructor(kube: KubeApi, onAnswer?: OnAnswer) {
    this.kube = kube;
    this.onAnswer = onAnswer;
  }

  /** The same for a component that reads the results of its writes before the watch delivers them. */
  answering(onAnswer: OnAnswer): Writer {
    return new Writer(this.kube, onAnswer);
  }

  /** Sends one intent, once. The reconcile that decided it decides again if it is refused. */
  apply<T extends KubeObject>(intent: Intent<T>, options: ApplyOptions = {}): Promise<Outcome<Written<T>>> {
    const sent = applyIntent(this.kube, intent, options);
    return this.onAnswer === undefined ? sent : this.answered(intent, sent, this.onAnswer);
  }

  /** Deletes or evicts what a second, consistent read still shows to be a victim: see destroyAfterLooking. */
  remove<T extends KubeObject>(
    intent: DestructiveIntent<T>,
    recheck: (fresh: FreshObject<T>) => Recheck<T>,
    options: LookOptions & ApplyOptions,
  ): Promise<Outcome<Written<T> | { readonly noLongerDue: string }>> {
    return destroyAfterLooking(this.kube, intent, recheck, options);
  }

  private async answered<T extends KubeObject>(
    intent: Intent<T>,
    sent: Promise<Outcome<Written<T>>>,
    onAnswer: OnAnswer,
  ): Promise<Outcome<Written<T>>> {
    const outcome = await sent;
    // The answer to a delete may be the object before it.
    if (outcome.ok && outcome.value.object !== undefined && !isDestructive(intent)) {
      onAnswer(intent.target, outcome.value.object);
    }
    return outcome;
  }
}

import { type ApplyOptions, applyIntent, type Written } from "../../intents/applyIntent.ts";
import { destroyAfterLooking, type FreshObject, type LookOptions, type Recheck } from "../../intents/lookAgain.ts";
import type { DestructiveIntent, Intent } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

/**
 * The one way in which controllers change the cluster. What is written is an intent, so it carries its precondition;
 * the API behind it is fenced, so nothing leaves once the lease cannot be proven. Controllers read by `KubeReads`,
 * which has no verb that writes.
 */
export class Writer {
  private readonly kube: KubeApi;

  /** `kube` is the API as a leader may use it: see fencedKube. */
  constructor(kube: KubeApi) {
    this.kube = kube;
  }

  /** Sends one intent, once. The reconcile that decided it decides again if it is refused. */
  apply<T extends KubeObject>(intent: Intent<T>, options: ApplyOptions = {}): Promise<Outcome<Written<T>>> {
    return applyIntent(this.kube, intent, options);
  }

  /** Deletes or evicts what a second, consistent read still shows to be a victim: see destroyAfterLooking. */
  remove<T extends KubeObject>(
    intent: DestructiveIntent<T>,
    recheck: (fresh: FreshObject<T>) => Recheck<T>,
    options: LookOptions & ApplyOptions,
  ): Promise<Outcome<Written<T> | { readonly notAnyMore: string }>> {
    return destroyAfterLooking(this.kube, intent, recheck, options);
  }
}

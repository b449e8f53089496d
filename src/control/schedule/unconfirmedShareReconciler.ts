import { lookAgainAtAll } from "../../intents/lookAgain.ts";
import { firstRevision, laterOf } from "../../model/revision.ts";
import { gpuGroupsOfLabels, reservationNamespace } from "../../model/scheduling/keys.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/** How long the watch of pods may take to reach the revision of a list. */
const showMs = 5_000;

/**
 * A BindRequest for a GPU share has ended, and its reservation pod may exist without being in the cache: each kind has
 * a watch of its own.
 *
 *   binder                       API                             scheduler
 *   keep a GPU for group g  -->  reservation of g, revision 7    (pods at revision 5)
 *   give up              ----->  request failed, revision 9 -->  the share is free: a GPU for another pod
 *                                                                (pods at revision 7) it never was
 *
 * So the share counts until a list has shown which reservations exist, and the cache has caught up with that list.
 */
export class UnconfirmedShareReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  /** The share of a pod no longer counts: pods that wait for it are decided again. */
  private readonly onConfirmed: () => void;

  constructor(controllers: Controllers, caches: SchedulerCaches, onConfirmed: () => void) {
    this.controllers = controllers;
    this.caches = caches;
    this.onConfirmed = onConfirmed;
  }

  async reconcile(uid: string, cancel: Cancel): Promise<ReconcileResult> {
    const { caches } = this;
    const shares = caches.model.unconfirmedShares(uid);
    if (shares.length === 0) return undefined;
    const groups = new Set(shares.flatMap((share) => share.groups));
    const atLeast = laterOf(caches.requests.revision, caches.pods.revision);
    const kept = await lookAgainAtAll(
      this.controllers.kube,
      refs.pods,
      { namespace: reservationNamespace },
      { atLeast, cancel },
    );
    if (!kept.ok) return reconcileResultOf(kept);
    let newest = firstRevision;
    for (const { metadata } of kept.value.items) {
      const isOurs = gpuGroupsOfLabels(metadata.labels).some((group) => groups.has(group));
      if (isOurs) newest = laterOf(newest, metadata.resourceVersion);
    }
    const isShown = await caches.pods.waitForRevision(newest, { cancel, timeoutMs: showMs });
    if (!isShown) return { requeueAfterMs: 1 };
    caches.model.confirmShares(uid, shares);
    this.onConfirmed();
    return undefined;
  }
}

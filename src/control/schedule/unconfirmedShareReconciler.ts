import { lookAgain, lookAgainAtAll } from "../../intents/lookAgain.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import { firstRevision, laterOf, type Revision } from "../../model/revision.ts";
import { gpuGroupsOfLabels, reservationNamespace } from "../../model/scheduling/keys.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/** How long the watch of pods may take to reach the revision of a list. */
const showMs = 5_000;

/**
 * A BindRequest has ended without being observed as successful. Its pod may be bound, and the reservation pod of its
 * share may exist, without being so in the cache: each kind has a watch of its own.
 *
 *   binder                       API                             scheduler
 *   keep a GPU for group g  -->  reservation of g, revision 7    (pods at revision 5)
 *   give up              ----->  request failed, revision 9 -->  the share is free: a GPU for another pod
 *                                                                (pods at revision 7) it never was
 *
 * So the place counts until a read has shown the pod and which reservations exist, and the cache has caught up.
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
    const pod = await this.readPod(uid, atLeast, cancel);
    if (!pod.ok) return reconcileResultOf(pod);
    const reservations =
      groups.size === 0 ? succeeded(firstRevision) : await this.readReservations(groups, atLeast, cancel);
    if (!reservations.ok) return reconcileResultOf(reservations);
    const newest = laterOf(pod.value, reservations.value);
    const isShown = await caches.pods.waitForRevision(newest, { cancel, timeoutMs: showMs });
    if (!isShown) return { requeueAfterMs: 1 };
    caches.model.confirmShares(uid, shares);
    this.onConfirmed();
    return undefined;
  }

  /** The revision of the pod now. */
  private async readPod(uid: string, atLeast: Revision, cancel: Cancel): Promise<Outcome<Revision>> {
    const known = this.caches.cluster.tasks.get(uid)?.pod.metadata;
    if (known === undefined) return succeeded(firstRevision);
    const { namespace = "", name } = known;
    const fresh = await lookAgain(this.controllers.kube, { ...refs.pods, namespace, name }, { atLeast, cancel });
    if (!fresh.ok) return fresh;
    const found = fresh.value.object?.metadata;
    return succeeded(found?.uid === uid ? (found.resourceVersion ?? firstRevision) : firstRevision);
  }

  /** The revision of the newest reservation of these groups. */
  private async readReservations(
    groups: ReadonlySet<string>,
    atLeast: Revision,
    cancel: Cancel,
  ): Promise<Outcome<Revision>> {
    const kept = await lookAgainAtAll(
      this.controllers.kube,
      refs.pods,
      { namespace: reservationNamespace },
      { atLeast, cancel },
    );
    if (!kept.ok) return kept;
    let newest = firstRevision;
    for (const { metadata } of kept.value.items) {
      const isOurs = gpuGroupsOfLabels(metadata.labels).some((group) => groups.has(group));
      if (isOurs) newest = laterOf(newest, metadata.resourceVersion);
    }
    return succeeded(newest);
  }
}

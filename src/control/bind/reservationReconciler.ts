import {
  type GroupVerdict,
  type GroupView,
  judgeGroup,
  type Refusal,
  refusedPin,
} from "../../decide/bind/judgeGroup.ts";
import { releasePod } from "../../decide/bind/releasePod.ts";
import {
  deviceOf,
  holdersOf,
  holdersPatch,
  newReservation,
  podsRef,
  type ReservationOptions,
} from "../../decide/bind/reservation.ts";
import { expectedOf, type Intent, keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { Revision } from "../../model/revision.ts";
import { reservationNamespace } from "../../model/scheduling/keys.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import type { BinderCaches } from "./binderCaches.ts";
import { readGroup } from "./readGroup.ts";

/**
 * Keeps a group's reservation as long as a pod or BindRequest needs it. The cache only shows which groups to read:
 * every write is decided on a consistent read at one revision, and carries the versions that were read.
 */
export class ReservationReconciler {
  private readonly controllers: Controllers;
  private readonly caches: BinderCaches;
  private readonly recorder: EventRecorder;
  private readonly options: ReservationOptions;
  /**
   * By group, how a node refused the device of a lost reservation. Losing it on a restart only delays the eviction of
   * the pods.
   */
  private readonly refusals = new Map<
    string,
    { readonly sinceMs: number; readonly uid: string; readonly seenMs: number }
  >();
  /** By group and node, the BindRequest that alone keeps the reservation, as it was last logged. */
  private readonly keepers = new Map<string, Map<string, string>>();

  constructor(controllers: Controllers, caches: BinderCaches, recorder: EventRecorder, options: ReservationOptions) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
    this.options = options;
  }

  async reconcile(group: string, context: ReconcileContext): Promise<ReconcileResult> {
    const nodes = this.caches.nodesOf(group);
    if (nodes.length === 0) {
      this.refusals.delete(group);
      this.keepers.delete(group);
    }
    for (const node of nodes) {
      const view = this.caches.view(group, node);
      const verdict = judgeGroup(view);
      if (verdict.type === "keep") {
        this.logKeeper(verdict, { group, node });
        if (view.reservations.some((pod) => deviceOf(pod) !== undefined)) this.refusals.delete(group);
        continue;
      }
      const result = await this.lookAgain(group, node, context);
      if (result !== undefined) return result;
    }
    // An object that is known only from the answer to an own write may be deleted before the cache observes it, and
    // then no event enqueues the group.
    return this.caches.isAhead(group) ? { requeueAfterMs: lagMs } : undefined;
  }

  private async lookAgain(group: string, node: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const { kube, ports } = this.controllers;
    const atLeast = this.caches.pods.cache.revision;
    const fresh = await readGroup(kube, { group, node }, { atLeast, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const verdict = judgeGroup({ ...fresh.value, refusal: this.refusalOf(fresh.value) });
    this.logKeeper(verdict, { group, node });
    if (verdict.type === "keep") {
      ports.log.debug({ group, node, why: verdict.why }, "a reservation is kept");
      // The cache differs and will catch up; if no event comes, the requeue reads again.
      return { requeueAfterMs: lagMs };
    }
    for (const intent of this.intentsOf(verdict, { group, node, atLeast })) {
      const outcome = await this.caches.writer.apply(intent, { cancel });
      const { type: what, why } = intent;
      if (outcome.ok) ports.log.info({ group, node, what, why, outcome: "ok" }, "reservation");
      else ports.log.warn({ group, node, what, why, outcome: outcome.reason, refusal: outcome.message }, "reservation");
      if (verdict.type === "restore") this.tellRestore(verdict, group, outcome);
      if (!outcome.ok) return outcome.reason === "NotFound" ? { again: "it is gone" } : reconcileResultOf(outcome);
    }
    // Another step may follow: the holder that was removed may have been the last one.
    return { requeueAfterMs: 0 };
  }

  /** Logs why a reservation without users is kept: once for each group and request, until that changes. */
  private logKeeper(verdict: GroupVerdict, { group, node }: { readonly group: string; readonly node: string }): void {
    const request = verdict.type === "keep" ? verdict.request : undefined;
    const known = this.keepers.get(group) ?? new Map<string, string>();
    if (request === undefined) {
      known.delete(node);
      return;
    }
    const bindRequest = keyOf(request.metadata.namespace, request.metadata.name);
    if (known.get(node) === bindRequest) return;
    this.keepers.set(group, known.set(node, bindRequest));
    this.controllers.ports.log.info(
      { gpuGroup: group, bindRequest, node },
      "Skipping reservation pod deletion, active BindRequests exist",
    );
  }

  private refusalOf(view: GroupView): Refusal | undefined {
    const refused = refusedPin(view);
    if (refused === undefined) return undefined;
    const { uid } = refused.metadata;
    const nowMs = this.controllers.ports.clock.monotonicMs();
    const known = this.refusals.get(view.group);
    const { sinceMs = nowMs } = known ?? {};
    const seenMs = known?.uid === uid ? known.seenMs : nowMs;
    this.refusals.set(view.group, { sinceMs, uid, seenMs });
    return { forMs: nowMs - sinceMs, ageMs: nowMs - seenMs };
  }

  private intentsOf(verdict: GroupVerdict, about: { group: string; node: string; atLeast: Revision }): Intent[] {
    const { group, node, atLeast } = about;
    switch (verdict.type) {
      case "keep":
        return [];
      case "release":
        return verdict.pods.map((pod) => releasePod(pod, [group], verdict.why));
      case "drop": {
        const { reservation, uids, why } = verdict;
        const left = new Map([...holdersOf(reservation)].filter(([uid]) => !uids.includes(uid)));
        return [{ type: "patch", ...on(reservation), patch: holdersPatch(left), why }];
      }
      case "delete": {
        const { reservation, why } = verdict;
        return [{ type: "delete", ...on(reservation), gracePeriodSeconds: graceSeconds, why }];
      }
      case "restore": {
        const object = newReservation({
          ...about,
          users: verdict.users,
          pinnedDevice: verdict.device,
          options: this.options,
        });
        const target = { ...podsRef, namespace: object.metadata.namespace ?? "", name: object.metadata.name };
        return [{ type: "create", target, absentAtRevision: atLeast, object, why: verdict.why }];
      }
      case "place":
        return [{ type: "bind", ...on(verdict.reservation), node, why: verdict.why }];
      case "evict":
        this.controllers.ports.log.warn({ group, node, why: verdict.why }, "pods have lost their reservation");
        this.warn(verdict.users, "ReservationLost", verdict.why);
        return verdict.users.map((pod) => ({ type: "evict", ...on(pod), why: verdict.why }));
    }
  }

  private tellRestore(
    { users, why }: Extract<GroupVerdict, { type: "restore" }>,
    group: string,
    outcome: Outcome<unknown>,
  ): void {
    if (outcome.ok) {
      this.warn(users, "ReservationRestored", why);
      return;
    }
    this.controllers.ports.metrics.count("muster_reservations_refused_total", { reason: outcome.reason });
    const cure =
      outcome.reason === "NotFound"
        ? `create namespace ${reservationNamespace} with its ServiceAccount again, by \`muster install\` or \`helm upgrade\``
        : `allow Muster's binder to create pods in namespace ${reservationNamespace}`;
    this.warn(
      users,
      "ReservationRefused",
      `the reservation of GPU group ${group} cannot be created: ${outcome.message}. To repair: ${cure}`,
    );
  }

  private warn(pods: readonly Pod[], reason: string, note: string): void {
    for (const pod of pods) {
      this.recorder.record(pod, { type: "Warning", reason, action: "Reserving", note });
    }
  }
}

/** How long a cache may lag behind an answer before the group is read again. */
const lagMs = 2_000;

function on(pod: Pod): { target: Intent["target"]; expected: ReturnType<typeof expectedOf> } {
  const { namespace = "", name } = pod.metadata;
  return { target: { ...podsRef, namespace, name }, expected: expectedOf(pod) };
}

/**
 * A device is free when its node has released it, so reservations are deleted with a grace period. KAI deletes them by
 * force, and a node that still holds the GPU refuses the next pod. A reservation without a node is deleted by the API
 * server at once.
 */
const graceSeconds = 1;

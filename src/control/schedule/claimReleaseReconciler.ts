import { deallocate, unreserve } from "../../decide/devices/claims/bindClaim.ts";
import { claimsHeldBy, createdExtendedClaim } from "../../decide/devices/claims/extendedClaim.ts";
import { type GiveBack, whatToGiveBack } from "../../decide/devices/claims/giveBack.ts";
import { claimsOfPod, deleteProtection, isReservedFor, type PodClaim } from "../../decide/devices/claims/podClaims.ts";
import { withoutProtection } from "../../decide/devices/claims/releaseClaim.ts";
import { expectedOf, type Intent } from "../../model/intent.ts";
import type { Pod, PodGroup, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { type DeviceCaches, deviceKinds } from "../devices/deviceCaches.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

const gaveBackAnnotation = "muster.dev/gave-back-claim";

/**
 * A pod whose bind failed keeps the devices that are allocated to its claim, and so their node. If it no longer fits
 * there, the devices of claims that only this pod uses are released, so that it can be placed on another node.
 */
export class ClaimReleaseReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly devices: DeviceCaches;

  constructor(controllers: Controllers, caches: SchedulerCaches, devices: DeviceCaches) {
    this.controllers = controllers;
    this.caches = caches;
    this.devices = devices;
  }

  async reconcile(uid: string, cancel: Cancel): Promise<ReconcileResult> {
    const task = this.caches.cluster.tasks.get(uid);
    if (task?.status !== "pending" || this.caches.requests.get(task.key) !== undefined) return undefined;
    const { pod } = task;
    const podsGroup = this.devices.model.groupOf(pod);
    const group = typeof podsGroup === "string" ? undefined : podsGroup;
    const claims = this.settledClaims(pod);
    const steps = whatToGiveBack({
      pods: [{ pod, claims, unavailable: new Set(claims.map(({ claim }) => claim.metadata.uid)) }],
      ...(group !== undefined && {
        group,
        isGroupActive: this.membersOf(group).some((member) => this.isPlaced(member)),
      }),
    });
    for (const step of steps) {
      const outcome = await this.giveBack(step, pod, cancel);
      if (!outcome.ok) return reconcileResultOf(outcome);
      const { name } = step.claim.metadata;
      this.controllers.ports.log.info(
        { pod: task.key, claim: name, how: step.kind },
        "released the devices of a claim",
      );
    }
    return steps.length > 0 ? undefined : this.removeLeftover(pod, cancel);
  }

  /** Claims of the pod that are allocated and have no decision in flight. */
  private settledClaims(pod: Pod): readonly PodClaim[] {
    const { tracker } = this.devices;
    const get = (namespace: string, name: string): ResourceClaim | undefined => tracker.get(namespace, name);
    const own = claimsOfPod(pod, get, this.devices.model.groupOf(pod));
    const named = own.ok ? own.claims : [];
    const held = claimsHeldBy(pod, get).filter(({ claim }) => !named.some((each) => each.claim === claim));
    return [...named, ...held].filter(
      ({ claim }) => claim.status?.allocation !== undefined && !tracker.claimHasPendingAllocation(claim.metadata.uid),
    );
  }

  private async giveBack(step: GiveBack, pod: Pod, cancel: Cancel): Promise<Outcome<unknown>> {
    const { claim } = step;
    const why = `pod ${pod.metadata.name} fits no node with the devices of claim ${claim.metadata.name}`;
    const intent = step.kind === "unreserve" ? unreserve(claim, step.user) : deallocate(claim, why);
    if (intent === undefined) return { ok: true, value: undefined };
    // A bind of a pod that uses the claim may be in flight. Writing to the pod first makes that bind conflict; the
    // value differs each time, because a write without a difference does not change the revision.
    for (const user of this.usersOf(claim, pod)) {
      const { namespace = "", name } = user.metadata;
      const mark = `${claim.metadata.uid} ${claim.metadata.resourceVersion}`;
      const touched = await this.controllers.writer.apply(
        {
          type: "patch",
          target: { ...refs.pods, namespace, name },
          expected: expectedOf(user),
          patch: { metadata: { annotations: { [gaveBackAnnotation]: mark } } },
          why,
        },
        { cancel },
      );
      if (!touched.ok) return touched;
    }
    return this.write(claim, intent, cancel);
  }

  /**
   * Deletes the claim for extended resources that an earlier attempt created and that was never allocated: its requests
   * may be wrong for other nodes.
   */
  private async removeLeftover(pod: Pod, cancel: Cancel): Promise<ReconcileResult> {
    const { tracker } = this.devices;
    const claim = createdExtendedClaim(pod, (namespace, name) => tracker.get(namespace, name));
    if (claim === undefined || claim.status?.allocation !== undefined) return undefined;
    if (tracker.claimHasPendingAllocation(claim.metadata.uid)) return undefined;
    const { namespace = "", name, finalizers = [] } = claim.metadata;
    const intent: Intent = finalizers.includes(deleteProtection)
      ? withoutProtection(claim)
      : {
          type: "delete",
          target: { ...deviceKinds.claims, namespace, name },
          expected: expectedOf(claim),
          why: `it was created for an earlier attempt to bind pod ${pod.metadata.name}`,
        };
    const outcome = await this.write(claim, intent, cancel);
    if (outcome.ok || outcome.reason === "NotFound")
      return intent.type === "delete" ? undefined : { requeueAfterMs: 1 };
    return reconcileResultOf(outcome);
  }

  private async write({ metadata }: ResourceClaim, intent: Intent, cancel: Cancel): Promise<Outcome<unknown>> {
    const { tracker } = this.devices;
    const written = tracker.writing(metadata.namespace ?? "", metadata.name, "scheduler");
    const outcome = await this.controllers.writer.apply(intent, { cancel });
    if (intent.type !== "delete" && outcome.ok && outcome.value.object !== undefined) {
      tracker.assumeClaimAfterApiCall(outcome.value.object);
    }
    written();
    return outcome;
  }

  /** The pods that the claim is reserved for: this one, or those of its group. */
  private usersOf(claim: ResourceClaim, pod: Pod): readonly Pod[] {
    const group = this.devices.model.groupOf(pod);
    if (typeof group !== "string" && isReservedFor(claim, group.metadata.uid)) {
      return this.membersOf(group).filter((member) => !this.isPlaced(member));
    }
    return [pod];
  }

  private membersOf({ metadata }: PodGroup): readonly Pod[] {
    return this.devices.podsByGroup.get(`${metadata.namespace ?? ""}/${metadata.name}`);
  }

  private isPlaced({ metadata, spec }: Pod): boolean {
    if (spec?.nodeName) return true;
    return (this.caches.cluster.tasks.get(metadata.uid)?.places.length ?? 0) > 0;
  }
}

import { deallocate, mayDeallocate } from "../../decide/devices/claims/bindClaim.ts";
import { claimsHeldBy } from "../../decide/devices/claims/extendedClaim.ts";
import { applyIntent } from "../../intents/applyIntent.ts";
import { expectedOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { DeviceCaches } from "../devices/deviceCaches.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

const gaveBackAnnotation = "muster.dev/gave-back-claim";

/**
 * A pod that was not bound after all keeps the devices that its claim has got for it, and with them their node. Where it fits nowhere any more,
 * what only it counts on is given back, and it is free to go elsewhere.
 */
export class GiveBackReconciler {
  private readonly controllers: Controllers;
  private readonly world: SchedulerCaches;
  private readonly devices: DeviceCaches;

  constructor(controllers: Controllers, world: SchedulerCaches, devices: DeviceCaches) {
    this.controllers = controllers;
    this.world = world;
    this.devices = devices;
  }

  async turn(uid: string, cancel: Cancel): Promise<ReconcileResult> {
    const { tracker } = this.devices;
    const task = this.world.cluster.tasks.get(uid);
    if (task?.status !== "pending" || this.world.requests.get(task.key) !== undefined) return undefined;
    const pod: Pod = task.pod;
    const claim = claimsHeldBy(pod, (namespace, name) => tracker.get(namespace, name))
      .map((each) => each.claim)
      .find((each) => mayDeallocate(each, pod) && !tracker.claimHasPendingAllocation(each.metadata.uid));
    if (claim === undefined) return undefined;
    const why = `pod ${task.name} fits nowhere with what claim ${claim.metadata.name} has`;
    // A bind may still be on its way to the pod. Writing to the pod first makes it miss.
    const touched = await applyIntent(
      this.controllers.kube,
      {
        type: "patch",
        target: { ...refs.pods, namespace: task.namespace, name: task.name },
        expected: expectedOf(pod as unknown as KubeObject),
        patch: { metadata: { annotations: { [gaveBackAnnotation]: claim.metadata.uid } } },
        why,
      },
      { cancel },
    );
    if (!touched.ok) return reconcileResultOf(touched);
    const written = tracker.writing(claim.metadata.namespace ?? "", claim.metadata.name, "scheduler");
    const outcome = await applyIntent(this.controllers.kube, deallocate(claim, why), { cancel });
    if (outcome.ok && outcome.value.object !== undefined) tracker.assumeClaimAfterApiCall(outcome.value.object);
    written();
    if (!outcome.ok) return reconcileResultOf(outcome);
    this.controllers.ports.log.info({ pod: task.key, claim: claim.metadata.name }, "gave a claim's devices back");
    return undefined;
  }
}

import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { patchObject } from "./patchObject.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/**
 * Removes the eviction plan from a preemptor that is bound: a plan is in effect only while its preemptor is pending.
 */
export class EvictionPlanReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;

  constructor(controllers: Controllers, caches: SchedulerCaches) {
    this.controllers = controllers;
    this.caches = caches;
  }

  isOver(object: KubeObject): boolean {
    const { metadata, spec } = object as Pod;
    const hasPlan = metadata.annotations?.[annotationKeys.plan] !== undefined;
    return hasPlan && (spec?.nodeName ?? "") !== "" && metadata.deletionTimestamp === undefined;
  }

  async reconcile(key: string, cancel: Cancel): Promise<ReconcileResult> {
    const pod = this.caches.pods.get(key);
    if (pod === undefined || !this.isOver(pod)) return undefined;
    const patch = { metadata: { annotations: { [annotationKeys.plan]: null } } };
    const why = "the preemptor is bound: no further victim is evicted for it";
    const outcome = await patchObject(this.controllers.writer, refs.pods, pod, { patch, why }, cancel);
    return outcome.ok || outcome.reason === "NotFound" ? undefined : reconcileResultOf(outcome);
  }
}

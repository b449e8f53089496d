import { planScaleUp } from "../../decide/schedule/scaleUp.ts";
import { type CreateIntent, type DeleteIntent, expectedOf, type NewObject } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { annotationKeys, scalingNamespace } from "../../model/scheduling/keys.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Component } from "../runtime/component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { ReconcileResult } from "../runtime/loop.ts";
import { kindSource } from "../runtime/sources.ts";
import { refs } from "./schedulerCaches.ts";

const adjustKey = "adjust";
/** Reasons that a new node does not resolve. */
const notOfMachines = new Set([
  "OverLimit",
  "NonPreemptibleOverQuota",
  "QueueDoesNotExist",
  "QueueTakesNoPods",
  "NoScheduler",
]);

/** For clusters with an autoscaler: creates placeholder pods for GPU shares that need a new node. */
export function scaleAdjusterComponent(): Component {
  return {
    name: "scale-adjuster",
    about: "lets a cluster autoscaler add nodes for GPU shares",
    startObjects: [{ apiVersion: "v1", kind: "Namespace", metadata: { name: scalingNamespace } }],
    add: (controllers) => {
      const adjuster = new ScaleAdjuster(controllers);
      controllers.add({
        name: "scale-adjuster",
        sources: [kindSource(adjuster.pods, () => [adjustKey]), kindSource(adjuster.groups, () => [adjustKey])],
        reconcile: (_, { cancel }) => adjuster.reconcile(cancel),
      });
    },
  };
}

class ScaleAdjuster {
  readonly pods: ObjectCache<Pod>;
  readonly groups: ObjectCache<PodGroup>;
  private readonly controllers: Controllers;
  private lastMs: number | undefined;

  constructor(controllers: Controllers) {
    this.controllers = controllers;
    this.pods = controllers.cache(refs.pods);
    this.groups = controllers.cache(refs.groups);
  }

  async reconcile(cancel: Cancel): Promise<ReconcileResult> {
    const { clock } = this.controllers.ports;
    const nowMs = clock.nowMs();
    const { create, remove, wakeMs } = planScaleUp({
      pods: this.pods.table.view().objects.values(),
      wouldHelp: (pod) => this.wouldHelp(pod),
      nowMs,
      lastMs: this.lastMs,
    });
    let again: string | undefined;
    for (const { pod, why } of remove) again = (await this.remove(pod, why, cancel)) ?? again;
    for (const object of create) again = (await this.create(object, nowMs, cancel)) ?? again;
    if (again !== undefined) return { again };
    return wakeMs === undefined ? undefined : { requeueAfterMs: Math.max(1, wakeMs - nowMs) };
  }

  private wouldHelp({ metadata }: Pod): boolean {
    const name = metadata.annotations?.[annotationKeys.podGroup];
    const group = name === undefined ? undefined : this.groups.get(`${metadata.namespace}/${name}`);
    const conditions = group?.status?.schedulingConditions ?? [];
    return !conditions.some(({ reasons }) => reasons?.some(({ reason }) => notOfMachines.has(reason ?? "")) === true);
  }

  private async create(object: NewObject, nowMs: number, cancel: Cancel): Promise<string | undefined> {
    const target = { ...refs.pods, namespace: scalingNamespace, name: object.metadata.name };
    const why = "a pending GPU share needs a new node";
    const intent: CreateIntent = { type: "create", target, absentAtRevision: this.pods.revision, object, why };
    const outcome = await this.controllers.writer.apply(intent, { cancel });
    if (!outcome.ok) return outcome.reason === "AlreadyExists" ? undefined : outcome.message;
    this.lastMs = nowMs;
    const made = outcome.value.object;
    if (made === undefined) return undefined;
    // Autoscalers read this condition; the scheduler of the pod would write the same one later.
    const condition = {
      type: "PodScheduled",
      status: "False",
      reason: "Unschedulable",
      message: why,
      lastTransitionTime: formatTime(nowMs),
    };
    const said = await this.controllers.writer.apply(
      {
        type: "patch",
        target,
        subresource: "status",
        expected: expectedOf(made),
        patch: { status: { conditions: [condition] } },
        why,
      },
      { cancel },
    );
    return said.ok || said.reason === "Conflict" || said.reason === "NotFound" ? undefined : said.message;
  }

  private async remove(pod: Pod, why: string, cancel: Cancel): Promise<string | undefined> {
    const object = pod;
    const intent: DeleteIntent = {
      type: "delete",
      target: { ...refs.pods, namespace: scalingNamespace, name: pod.metadata.name },
      expected: expectedOf(object),
      why,
    };
    const outcome = await this.controllers.writer.remove(
      intent,
      ({ object: fresh }) =>
        fresh?.metadata.uid === object.metadata.uid
          ? { still: { ...intent, expected: expectedOf(fresh) } }
          : { noLongerDue: "the pod was deleted and created again" },
      { atLeast: this.pods.revision, cancel },
    );
    if (!outcome.ok) return outcome.reason === "NotFound" ? undefined : outcome.message;
    this.lastMs = this.controllers.ports.clock.nowMs();
    return undefined;
  }
}

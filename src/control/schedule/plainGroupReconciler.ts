import { plainGangId } from "../../decide/schedule/cluster/plainGang.ts";
import { expectedOf } from "../../model/intent.ts";
import type { Condition, PodGroup as PlainGroup } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { ReconcileResult } from "../runtime/loop.ts";
import type { PendingReasons } from "./pendingReasons.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

const initiallyScheduled = "PodGroupInitiallyScheduled";

/**
 * Writes the condition of PodGroups of `scheduling.k8s.io`: whether enough of their pods are bound. Once True, it
 * stays.
 */
export class PlainGroupReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly groups: ObjectCache<PlainGroup>;
  private readonly book: PendingReasons;

  constructor(
    controllers: Controllers,
    caches: SchedulerCaches,
    groups: ObjectCache<PlainGroup>,
    book: PendingReasons,
  ) {
    this.controllers = controllers;
    this.caches = caches;
    this.groups = groups;
    this.book = book;
  }

  async reconcile(key: string, cancel: Cancel): Promise<ReconcileResult> {
    const object = this.groups.get(key);
    if (object === undefined) return undefined;
    const { metadata, status } = object;
    const { namespace = "", name } = metadata;
    const known = status?.conditions?.find(({ type }) => type === initiallyScheduled);
    if (known?.status === "True") return undefined;
    const wanted = this.wanted(plainGangId(namespace, name));
    if (wanted === undefined || (known?.status === wanted.status && known.message === wanted.message)) return undefined;
    const condition: Condition = {
      type: initiallyScheduled,
      ...wanted,
      lastTransitionTime:
        known?.status === wanted.status ? known.lastTransitionTime : formatTime(this.controllers.ports.clock.nowMs()),
    };
    const others = (status?.conditions ?? []).filter(({ type }) => type !== initiallyScheduled);
    const outcome = await this.controllers.writer.apply(
      {
        type: "patch",
        target: { ...refs.plainGroups, namespace, name },
        subresource: "status",
        expected: expectedOf(object as KubeObject),
        patch: { status: { conditions: [...others, condition] } },
        why: wanted.message,
      },
      { cancel },
    );
    return outcome.ok || outcome.reason === "NotFound" ? undefined : { again: outcome.message };
  }

  private wanted(id: string): { status: "True" | "False"; reason: string; message: string } | undefined {
    const [set] = this.caches.cluster.jobs.get(id)?.podSets ?? [];
    if (set === undefined) return undefined;
    const scheduled = set.countOf("bound") + set.countOf("running") + set.countOf("succeeded");
    if (scheduled >= set.min) {
      return {
        status: "True",
        reason: "Scheduled",
        message: `${scheduled} pods have a node, and ${set.min} are needed`,
      };
    }
    const reason = this.book.get(id);
    return reason === undefined ? undefined : { status: "False", reason: "Unschedulable", message: reason.sentence };
  }
}

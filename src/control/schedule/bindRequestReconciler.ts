import { type DeleteIntent, expectedOf, keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isLater, laterOf } from "../../model/revision.ts";
import {
  type BindRequest,
  commitOf,
  commitSizeOf,
  isFinallyFailed,
  podUidOf,
} from "../../model/scheduling/bindRequest.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { inParallel } from "../runtime/inParallel.ts";
import type { ReconcileResult } from "../runtime/loop.ts";
import { reconcileResultOf } from "../runtime/loop.ts";
import { holdBack } from "./holdBack.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/** How long a gang's set may be incomplete before a leader that did not write it treats it as abandoned. */
const abandonedMs = 5_000;

const deletesAtOnce = 16;

/** The longest wait after a bind failed: a node may have been in trouble that is over. */
const longestMs = 30_000;

/**
 * Takes away BindRequests that are over: failed for good, for a node that is gone, done and seen done, or part of a
 * gang's set that was never completed. Each is read again first; what is still wanted stays.
 */
export class BindRequestReconciler {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly allCaches: () => Iterable<SchedulerCaches>;
  private readonly byCommit;
  private readonly incompleteSince = new Map<string, number>();
  /**
   * Sets that lost a pod before they began. With its request goes what shows that, so the others need it remembered.
   */
  private readonly voided = new Set<string>();
  /**
   * Pod UID to the UID of the last of its requests that failed: each counts once, however often we try to take it away.
   */
  private readonly failed = new Map<string, string>();

  /** `allCaches` are those of all pools: requests are looked at by one of them, and pods wait in each. */
  constructor(controllers: Controllers, caches: SchedulerCaches, allCaches: () => Iterable<SchedulerCaches>) {
    this.controllers = controllers;
    this.caches = caches;
    this.allCaches = allCaches;
    this.byCommit = caches.requests.index((object) => {
      const id = commitOf(object);
      return id === undefined ? [] : [id];
    });
  }

  /**
   * One key for all requests of a gang's set, so that what happens to one of them is looked at once and not by each of
   * them.
   */
  setOf(object: KubeObject): string {
    const id = commitOf(object);
    return id === undefined ? `request ${keyOfObject(object)}` : `set ${id}`;
  }

  async reconcile(key: string, cancel: Cancel): Promise<ReconcileResult> {
    const doomed: Doomed[] = [];
    let againMs = Number.POSITIVE_INFINITY;
    const set = this.requestsOf(key);
    if (set.length === 0) this.voided.delete(key.slice("set ".length));
    const standing = this.standingOf(set);
    for (const object of set) {
      // A terminating request waits for the binder.
      if (object.metadata.deletionTimestamp !== undefined) continue;
      const verdict = this.whyOver(object, standing);
      if (typeof verdict === "string") doomed.push({ object, why: verdict });
      else if (verdict !== undefined) againMs = Math.min(againMs, verdict);
    }
    let failed: ReconcileResult;
    await inParallel(doomed, deletesAtOnce, async (each) => {
      failed = (await this.takeAway(each, cancel)) ?? failed;
    });
    return failed ?? (Number.isFinite(againMs) ? { requeueAfterMs: againMs } : undefined);
  }

  private requestsOf(key: string): readonly KubeObject[] {
    const at = key.indexOf(" ");
    const name = key.slice(at + 1);
    if (key.startsWith("set ")) return this.byCommit.get(name);
    const object = this.caches.requests.get(name);
    return object === undefined ? [] : [object];
  }

  private async takeAway({ object, why: verdict }: Doomed, cancel: Cancel): Promise<ReconcileResult> {
    this.holdBack(object as BindRequest);
    const { namespace = "", name } = object.metadata;
    const intent: DeleteIntent = {
      type: "delete",
      target: { ...refs.requests, namespace, name },
      expected: expectedOf(object),
      why: verdict,
    };
    const outcome = await this.controllers.writer.remove(
      intent,
      ({ object: fresh }) => {
        const why =
          fresh === undefined ? undefined : this.whyOver(fresh, this.standingOf(this.requestsOf(this.setOf(fresh))));
        if (fresh === undefined || fresh.metadata.deletionTimestamp !== undefined || typeof why !== "string")
          return { notAnyMore: "it is wanted again" };
        return { still: { ...intent, expected: expectedOf(fresh), why } };
      },
      { atLeast: laterOf(this.caches.requests.revision, this.caches.pods.revision), cancel },
    );
    if (!outcome.ok) return reconcileResultOf(outcome);
    this.controllers.ports.log.debug({ request: keyOfObject(object), why: verdict }, "took a BindRequest away");
    return undefined;
  }

  private holdBack(request: BindRequest): void {
    const uid = podUidOf(request) ?? "";
    const { tasks } = this.caches.cluster;
    if (!isFinallyFailed(request) || !tasks.has(uid) || this.failed.get(uid) === request.metadata.uid) return;
    for (const other of [...this.failed.keys()]) if (!tasks.has(other)) this.failed.delete(other);
    this.failed.set(uid, request.metadata.uid);
    const nowMs = this.controllers.ports.clock.nowMs();
    const why = `the bind to ${request.spec?.selectedNode} failed: ${request.status?.reason ?? "no reason given"}`;
    for (const { cluster } of this.allCaches()) holdBack(cluster, uid, { why, nowMs, longestMs });
  }

  private standingOf(set: readonly KubeObject[]): Standing {
    const [first] = set;
    const id = first === undefined ? undefined : commitOf(first);
    return {
      hasEnded: set.every((each) => isOver(each as BindRequest)),
      whyAbandoned: id === undefined ? undefined : this.whyAbandoned(id, set),
    };
  }

  /** Why it can go; a number when that may change with time alone; undefined when it stays. */
  private whyOver(object: KubeObject, { hasEnded, whyAbandoned }: Standing): string | number | undefined {
    const request = object as BindRequest;
    if (isFinallyFailed(request)) {
      return hasEnded || commitOf(object) === undefined ? "its bind failed for good" : undefined;
    }
    if (request.status?.phase === "Succeeded")
      return hasEnded && this.isSeenBound(request) ? "its pod is bound" : undefined;
    const node = request.spec?.selectedNode ?? "";
    if (this.caches.nodes.get(node) === undefined && this.caches.nodes.hasSynced) {
      // The node may only not have come to us yet.
      if (!isLater(object.metadata.resourceVersion, this.caches.nodes.revision)) return `node ${node} is gone`;
    }
    return whyAbandoned;
  }

  private whyAbandoned(id: string, set: readonly KubeObject[]): string | number | undefined {
    const [first] = set;
    const size = first === undefined ? 0 : commitSizeOf(first);
    const hasStarted = set.some((each) => isOver(each as BindRequest));
    const pods = set.map((each) => this.caches.cluster.tasks.get(podUidOf(each as BindRequest) ?? ""));
    const losesPod = pods.some((task) => task?.pod.metadata.deletionTimestamp !== undefined);
    if (!hasStarted && (losesPod || this.voided.has(id))) {
      this.voided.add(id);
      return "a pod of its gang is being deleted";
    }
    if (hasStarted || set.length >= size) {
      this.incompleteSince.delete(id);
      return undefined;
    }
    const nowMs = this.controllers.ports.clock.nowMs();
    const sinceMs = this.incompleteSince.get(id) ?? nowMs;
    this.incompleteSince.set(id, sinceMs);
    // Time may delay: whether the rest has come meanwhile is read again before anything goes.
    if (nowMs - sinceMs < abandonedMs) return abandonedMs - (nowMs - sinceMs);
    return `its gang's set has ${set.length} of ${size} requests`;
  }

  /**
   * A pod has its groups before it has its node, so what is seen bound is seen with them. They need not be those of the
   * request: one that an earlier leader sent may land when the pod is bound elsewhere already.
   */
  private isSeenBound(request: BindRequest): boolean {
    const pod = this.caches.cluster.tasks.get(podUidOf(request) ?? "")?.pod;
    return (pod?.spec?.nodeName ?? "") !== "";
  }
}

/** How a gang's set of requests stands, or a request that is alone. */
interface Standing {
  readonly hasEnded: boolean;
  /** A number: it may be abandoned after so many milliseconds. */
  readonly whyAbandoned: string | number | undefined;
}

interface Doomed {
  readonly object: KubeObject;
  readonly why: string;
}

function isOver(request: BindRequest): boolean {
  return request.status?.phase === "Succeeded" || isFinallyFailed(request);
}

import { type DeleteIntent, expectedOf, keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import { isLater, laterOf } from "../../model/revision.ts";
import {
  type BindRequest,
  bindRequestFinalizer,
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
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";
import { startBackOff } from "./startBackOff.ts";

/** How long a gang's set of BindRequests may be incomplete before another leader treats it as abandoned. */
const abandonedMs = 5_000;

const deletesAtOnce = 16;

/** The longest back-off after a failed bind: the problem of the node may be over. */
const longestMs = 30_000;

/**
 * Deletes BindRequests that have ended: finally failed, for a deleted node, succeeded with the pod observed as bound,
 * or of a gang's set that was never completed. Each is read again first, and kept if it is still needed.
 */
export class EndedBindRequests {
  private readonly controllers: Controllers;
  private readonly caches: SchedulerCaches;
  private readonly allCaches: () => Iterable<SchedulerCaches>;
  private readonly byCommit;
  private readonly incompleteSince = new Map<string, number>();
  /**
   * Sets of which a pod was deleted before binding began. The pod's request is deleted too, so this has to be kept for
   * the other requests of the set.
   */
  private readonly voided = new Set<string>();
  /**
   * Pod UID to the UID of its last failed request: each failure counts once, however often its deletion is tried.
   */
  private readonly failed = new Map<string, string>();

  /** `allCaches`: the caches of all node pools. One of them reconciles the requests; pods are pending in each. */
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
   * One key for all requests of a gang's set, so that a change of one of them is reconciled once.
   */
  setOf(object: KubeObject): string {
    const id = commitOf(object);
    return id === undefined ? `request ${keyOfObject(object)}` : `set ${id}`;
  }

  async reconcile(key: string, cancel: Cancel): Promise<ReconcileResult> {
    const doomed: DeletableRequest[] = [];
    let againMs = Number.POSITIVE_INFINITY;
    const set = this.requestsOf(key);
    if (set.length === 0) this.voided.delete(key.slice("set ".length));
    const standing = this.stateOfSet(set);
    for (const object of set) {
      // A terminating request waits for the binder's finalizer.
      if (object.metadata.deletionTimestamp !== undefined) continue;
      const verdict = this.whyDeletable(object, standing);
      if (typeof verdict === "string") doomed.push({ object, why: verdict });
      else if (verdict !== undefined) againMs = Math.min(againMs, verdict);
    }
    let failed: ReconcileResult;
    await inParallel(doomed, deletesAtOnce, async (each) => {
      failed = (await this.deleteRequest(each, cancel)) ?? failed;
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

  private async deleteRequest(
    { object: found, why: verdict }: DeletableRequest,
    cancel: Cancel,
  ): Promise<ReconcileResult> {
    this.startBackOff(found as BindRequest);
    const held = await this.holdForBinder(found, cancel);
    if (!held.ok) return reconcileResultOf(held);
    const object = held.value;
    const { namespace = "", name } = object.metadata;
    const { requests, pods } = this.caches;
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
          fresh === undefined
            ? undefined
            : this.whyDeletable(fresh, this.stateOfSet(this.requestsOf(this.setOf(fresh))));
        if (fresh === undefined || fresh.metadata.deletionTimestamp !== undefined || typeof why !== "string")
          return { noLongerDue: "the BindRequest is needed again" };
        return { still: { ...intent, expected: expectedOf(fresh), why } };
      },
      { atLeast: laterOf(laterOf(requests.revision, pods.revision), object.metadata.resourceVersion), cancel },
    );
    if (!outcome.ok) return reconcileResultOf(outcome);
    this.controllers.ports.log.debug({ request: keyOfObject(object), why: verdict }, "deleted a BindRequest");
    return undefined;
  }

  /**
   * The binder may be carrying out a request that has not ended, or have it in its cache although it is gone:
   *
   *   binder, its watch is late      API                            scheduler
   *                                  pod of the gang is deleted -->
   *                                  request r is deleted      <--  r has not started: withdrawn
   *                                  request s for this node   <--  the GPUs of r are free
   *   r arrives: bind its pod   -->  two pods on one GPU
   *
   * So such a request gets the binder's finalizer before it is deleted, and its GPUs count until the binder has taken
   * the finalizer off.
   */
  private async holdForBinder(object: KubeObject, cancel: Cancel): Promise<Outcome<KubeObject>> {
    const { finalizers = [], namespace = "", name } = object.metadata;
    if (isOver(object as BindRequest) || finalizers.includes(bindRequestFinalizer)) return succeeded(object);
    const outcome = await this.controllers.writer.apply(
      {
        type: "patch",
        target: { ...refs.requests, namespace, name },
        expected: expectedOf(object),
        patch: { metadata: { finalizers: [...finalizers, bindRequestFinalizer] } },
        why: "it is withdrawn, and the binder may be carrying it out",
      },
      { cancel },
    );
    return outcome.ok ? succeeded(outcome.value.object ?? object) : outcome;
  }

  private startBackOff(request: BindRequest): void {
    const uid = podUidOf(request) ?? "";
    const { tasks } = this.caches.cluster;
    if (!isFinallyFailed(request) || !tasks.has(uid) || this.failed.get(uid) === request.metadata.uid) return;
    for (const other of [...this.failed.keys()]) if (!tasks.has(other)) this.failed.delete(other);
    this.failed.set(uid, request.metadata.uid);
    const nowMs = this.controllers.ports.clock.nowMs();
    const why = `the bind to ${request.spec?.selectedNode} failed: ${request.status?.reason ?? "no reason given"}`;
    for (const { cluster } of this.allCaches()) startBackOff(cluster, uid, { why, nowMs, longestMs });
  }

  private stateOfSet(set: readonly KubeObject[]): RequestSetState {
    const [first] = set;
    const id = first === undefined ? undefined : commitOf(first);
    return {
      hasEnded: set.every((each) => isOver(each as BindRequest)),
      whyAbandoned: id === undefined ? undefined : this.whyAbandoned(id, set),
    };
  }

  /** Why the request can be deleted; a number of milliseconds after which to check again; undefined if it is kept. */
  private whyDeletable(object: KubeObject, { hasEnded, whyAbandoned }: RequestSetState): string | number | undefined {
    const request = object as BindRequest;
    if (isFinallyFailed(request)) {
      return hasEnded || commitOf(object) === undefined ? "its bind failed for good" : undefined;
    }
    if (request.status?.phase === "Succeeded")
      return hasEnded && this.isSeenBound(request) ? "its pod is bound" : undefined;
    const node = request.spec?.selectedNode ?? "";
    if (this.caches.nodes.get(node) === undefined && this.caches.nodes.hasSynced) {
      // The node may not be observed yet.
      if (!isLater(object.metadata.resourceVersion, this.caches.nodes.revision)) return `node ${node} was deleted`;
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
    // The rest of the set may exist by now: it is read again before anything is deleted.
    if (nowMs - sinceMs < abandonedMs) return abandonedMs - (nowMs - sinceMs);
    return `its gang's set has ${set.length} of ${size} requests`;
  }

  /**
   * A pod gets its GPU groups before its node, so a pod that is observed as bound has its groups. They may differ from
   * those of the request: a request of an earlier leader may land when the pod is bound elsewhere already.
   */
  private isSeenBound(request: BindRequest): boolean {
    const pod = this.caches.cluster.tasks.get(podUidOf(request) ?? "")?.pod;
    return (pod?.spec?.nodeName ?? "") !== "";
  }
}

/** The state of a gang's set of requests, or of a single request. */
interface RequestSetState {
  readonly hasEnded: boolean;
  /** A number: milliseconds after which the set may be abandoned. */
  readonly whyAbandoned: string | number | undefined;
}

interface DeletableRequest {
  readonly object: KubeObject;
  readonly why: string;
}

function isOver(request: BindRequest): boolean {
  return request.status?.phase === "Succeeded" || isFinallyFailed(request);
}

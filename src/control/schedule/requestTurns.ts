import { destroyAfterLooking } from "../../intents/lookAgain.ts";
import { type DeleteIntent, expectedOf } from "../../model/intent.ts";
import type { KubeObject } from "../../model/object.ts";
import { isLater, laterOf } from "../../model/revision.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { annotationKeys } from "../../model/scheduling/keys.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../controllers.ts";
import type { TurnResult } from "../loop.ts";
import { turnResultOf } from "../loop.ts";
import { refs, type ScheduleWorld } from "./scheduleWorld.ts";

/** How long a gang's set may be incomplete before somebody who did not write it takes it for abandoned. */
const abandonedMs = 5_000;

/** How long a pod waits after a bind of it failed for good; twice as long each time, up to the second. */
const holdBackMs = 1_000;
const holdBackMsMax = 30_000;

/**
 * Takes away BindRequests that are over: failed for good, for a node that is gone, done and seen done, or part of a gang's set that was never
 * completed. Each is read again first; what is still wanted stays.
 */
export class RequestTurns {
  private readonly controllers: Controllers;
  private readonly world: ScheduleWorld;
  private readonly byCommit;
  private readonly incompleteSince = new Map<string, number>();
  /** Pod UID to how many of its requests failed, and the UID of the last one. May be lost: it only makes us patient. */
  private readonly failed = new Map<string, { readonly times: number; readonly request: string }>();

  constructor(controllers: Controllers, world: ScheduleWorld) {
    this.controllers = controllers;
    this.world = world;
    this.byCommit = world.requests.index((object) => {
      const id = commitOf(object);
      return id === undefined ? [] : [id];
    });
  }

  async turn(key: string, cancel: Cancel): Promise<TurnResult> {
    const object = this.world.requests.get(key);
    // Who is on its way out waits for the binder.
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return undefined;
    const verdict = this.whyOver(object);
    if (verdict === undefined) return undefined;
    if (typeof verdict === "number") return { requeueAfterMs: verdict };
    this.holdBack(object as unknown as BindRequest);
    const { namespace = "", name } = object.metadata;
    const intent: DeleteIntent = {
      type: "delete",
      target: { ...refs.requests, namespace, name },
      expected: expectedOf(object),
      why: verdict,
    };
    const outcome = await destroyAfterLooking(
      this.controllers.kube,
      intent,
      ({ object: fresh }) => {
        const why = fresh === undefined ? undefined : this.whyOver(fresh);
        if (fresh === undefined || fresh.metadata.deletionTimestamp !== undefined || typeof why !== "string")
          return { notAnyMore: "it is wanted again" };
        return { still: { ...intent, expected: expectedOf(fresh), why } };
      },
      { atLeast: laterOf(this.world.requests.revision, this.world.pods.revision), cancel },
    );
    if (!outcome.ok) return turnResultOf(outcome);
    this.controllers.ports.log.debug({ request: key, why: verdict }, "took a BindRequest away");
    return undefined;
  }

  /** Who cannot be bound waits, longer each time: placed again at once it would win every cycle, and others would starve behind it. */
  private holdBack(request: BindRequest): void {
    const uid = podUidOf(request) ?? "";
    const { cluster } = this.world;
    if (!isFinallyFailed(request)) {
      this.failed.delete(uid);
      return;
    }
    const known = this.failed.get(uid);
    if (known?.request === request.metadata.uid || !cluster.tasks.has(uid)) return;
    for (const other of [...this.failed.keys()]) if (!cluster.tasks.has(other)) this.failed.delete(other);
    const times = (known?.times ?? 0) + 1;
    this.failed.set(uid, { times, request: request.metadata.uid });
    const untilMs = this.controllers.ports.clock.nowMs() + Math.min(holdBackMsMax, holdBackMs * 2 ** (times - 1));
    const why = `the bind to ${request.spec?.selectedNode} failed: ${request.status?.reason ?? "no reason given"}`;
    cluster.heldBack.set(uid, { untilMs, why, times });
    cluster.touched();
  }

  /** The requests that share a set with this one. */
  sameSet(object: KubeObject): string[] {
    const id = commitOf(object);
    const all = id === undefined ? [object] : this.byCommit.get(id);
    return all.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  }

  /** Why it can go; a number when that may change with time alone; undefined when it stays. */
  private whyOver(object: KubeObject): string | number | undefined {
    const request = object as unknown as BindRequest;
    const id = commitOf(object);
    const set = id === undefined ? [object] : this.byCommit.get(id);
    const hasEnded = set.every((each) => isOver(each as unknown as BindRequest));
    if (isFinallyFailed(request)) return hasEnded || id === undefined ? "its bind failed for good" : undefined;
    if (request.status?.phase === "Succeeded")
      return hasEnded && this.isSeenBound(request) ? "its pod is bound" : undefined;
    const node = request.spec?.selectedNode ?? "";
    if (this.world.nodes.get(node) === undefined && this.world.nodes.hasSynced) {
      // The node may only not have come to us yet.
      if (!isLater(object.metadata.resourceVersion, this.world.nodes.revision)) return `node ${node} is gone`;
    }
    return id === undefined ? undefined : this.whyAbandoned(id, set);
  }

  private whyAbandoned(id: string, set: readonly KubeObject[]): string | number | undefined {
    const [first] = set;
    const size = Number(first?.metadata.annotations?.[annotationKeys.commitSize] ?? "0");
    const hasStarted = set.some((each) => isOver(each as unknown as BindRequest));
    const pods = set.map((each) => this.world.cluster.tasks.get(podUidOf(each as unknown as BindRequest) ?? ""));
    const isVoid = !hasStarted && pods.some((task) => task?.pod.metadata.deletionTimestamp !== undefined);
    if (isVoid) return "a pod of its gang is being deleted";
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
   * A pod has its groups before it has its node, so what is seen bound is seen with them. They need not be those of the request: one that an
   * earlier leader sent may land when the pod is bound elsewhere already.
   */
  private isSeenBound(request: BindRequest): boolean {
    const pod = this.world.cluster.tasks.get(podUidOf(request) ?? "")?.pod;
    return (pod?.spec?.nodeName ?? "") !== "";
  }
}

function commitOf({ metadata }: KubeObject): string | undefined {
  const id = metadata.annotations?.[annotationKeys.commit];
  return id === undefined ? undefined : `${metadata.namespace}/${id}`;
}

function isOver(request: BindRequest): boolean {
  return request.status?.phase === "Succeeded" || isFinallyFailed(request);
}

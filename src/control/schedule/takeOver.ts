import { lookAgain, lookAgainAtAll } from "../../intents/lookAgain.ts";
import { expectedOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Refusal } from "../../model/outcome.ts";
import { firstRevision, laterOf, type Revision } from "../../model/revision.ts";
import { type BindRequest, commitOf, commitSizeOf, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { annotationKeys, defaultSchedulerName, kaiSchedulerName } from "../../model/scheduling/keys.ts";
import { uuid5 } from "../../model/values/uuid5.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import { deviceKinds } from "../devices/deviceCaches.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { inParallel } from "../runtime/inParallel.ts";
import type { Writer } from "../runtime/writer.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/** How long the caches may take to reach the revision at which the lease was acquired. */
const takeOverMs = 5_000;
/** How long a call of a former leader may still be in flight. */
const lateCallMsMax = 60_000;
/** Pods that are annotated concurrently: hundreds may be pending when a leader dies. */
const marksAtOnce = 32;
/** How often a pod may change between two attempts to annotate it. */
const markAttemptsMax = 5;

export interface TakeOver {
  readonly epoch: string;
  readonly since: Revision;
  /** Pods that could not be annotated in this epoch, by UID, with the time of the first refusal. */
  readonly unmarkedMs: Map<string, number>;
}

/**
 * Writes of an earlier leader may still land. Its binds carry the pod's revision, so annotating every pending pod with
 * the new epoch makes them conflict; its BindRequests carry the epoch that the pod had, and the binder refuses them
 * once the pod has another one. Takeover waits until the caches contain the writes that had landed before:
 *
 *   old leader                 API                           new leader
 *   bind a to n1 -----\\
 *   request b to n1 ---\\      lease is taken            <--
 *                       \\     a, b: our mark           <--  mark every pod that waits
 *                        -->  a: conflict
 *                        -->  b to n1, in another epoch:     n1 is really free
 *                             the binder refuses it
 *
 * A pod that cannot be written, because of a policy or a webhook that is down, cannot be fenced this way. The scheduler
 * waits until no call of the earlier leader can be in flight, and continues without the annotation.
 *
 * Returns why it failed, if it did.
 */
export async function takeOver(
  { kube, writer, ports }: Controllers,
  caches: SchedulerCaches,
  { epoch, since, unmarkedMs }: TakeOver,
  cancel: Cancel,
): Promise<string | undefined> {
  const { clock, log } = ports;
  const look = { atLeast: since, cancel };
  const requests = await lookAgainAtAll(kube, refs.requests, {}, look);
  if (!requests.ok) return requests.message;
  const pods = await lookAgainAtAll(kube, refs.pods, {}, look);
  if (!pods.ok) return pods.message;
  const newestOf = (items: readonly KubeObject[]): Revision =>
    items.reduce((newest, { metadata }) => laterOf(newest, metadata.resourceVersion), firstRevision);
  let newest = newestOf(pods.value.items);
  const mark = uuid5(epoch, "epoch");
  // BindRequests of an earlier leader are kept, except sets of gangs that were never completed.
  const isVoid = unfinishedSets(requests.value.items);
  const onTheirWay = new Set<string>();
  let problem: string | undefined;
  for (const request of requests.value.items) {
    if (!isVoid(request)) onTheirWay.add(podUidOf(request) ?? "");
  }
  const isOurs = (pod: KubeObject): boolean => isWaitingForUs(pod, caches.cluster.settings.placesPlainPods);
  const isMarked = ({ metadata }: KubeObject): boolean =>
    metadata.annotations?.[annotationKeys.schedulerEpoch] === mark;
  const why = "the scheduler's lease has a new holder: earlier binds must conflict";
  const patch = { metadata: { annotations: { [annotationKeys.schedulerEpoch]: mark } } };
  /** The last refusal, if the pod still waits without our mark. */
  const annotate = async (listed: KubeObject): Promise<Refusal | undefined> => {
    const { namespace = "", name, uid } = listed.metadata;
    const target = { ...refs.pods, namespace, name };
    for (let pod = listed, attempt = 1; ; attempt++) {
      const outcome = await writer.apply({ type: "patch", target, expected: expectedOf(pod), patch, why }, { cancel });
      if (outcome.ok) newest = laterOf(newest, outcome.value.revision ?? firstRevision);
      if (outcome.ok || outcome.reason === "NotFound") return undefined;
      if (outcome.reason !== "Conflict" || attempt === markAttemptsMax) return outcome;
      // The pod grouper, a user or a bind that has landed was first.
      const again = await lookAgain(kube, target, look);
      if (!again.ok) return again;
      const { object } = again.value;
      if (object === undefined) return undefined;
      newest = laterOf(newest, object.metadata.resourceVersion);
      if (object.metadata.uid !== uid || !isOurs(object) || isMarked(object)) return undefined;
      pod = object;
    }
  };
  let failed: Refusal | undefined;
  const waiting = pods.value.items.filter((pod) => isOurs(pod) && !isMarked(pod) && !onTheirWay.has(pod.metadata.uid));
  await inParallel(waiting, marksAtOnce, async (pod) => {
    if (failed !== undefined) return;
    const refusal = await annotate(pod);
    if (refusal === undefined) return;
    if (!isRefused(refusal) || cancel.cancelled) {
      failed = refusal;
      return;
    }
    const { namespace = "", name, uid } = pod.metadata;
    if (!unmarkedMs.has(uid)) {
      log.warn(
        { pod: `${namespace}/${name}`, why: refusal.message, forMs: lateCallMsMax },
        "a pending pod cannot be written: no pod is scheduled until no late bind of it can land",
      );
    }
    const sinceMs = unmarkedMs.get(uid) ?? clock.nowMs();
    unmarkedMs.set(uid, sinceMs);
    if (clock.nowMs() < sinceMs + lateCallMsMax) problem = refusal.message;
  });
  if (failed !== undefined) return failed.message;
  if (problem !== undefined) return problem;
  const wait = { cancel, timeoutMs: takeOverMs };
  if (!(await caches.pods.waitForRevision(newest, wait))) return "the cache of pods is older than the lease";
  if (!(await caches.requests.waitForRevision(newestOf(requests.value.items), wait))) {
    return "the cache of BindRequests is older than the lease";
  }
  if (caches.devices !== undefined) {
    const claims = await lookAgainAtAll(kube, deviceKinds.claims, {}, look);
    if (!claims.ok) return claims.message;
    if (!(await caches.devices.claims.waitForRevision(newestOf(claims.value.items), wait)))
      return "the cache of claims is older than the lease";
  }
  await voidSet(writer, requests.value.items.filter(isVoid), cancel);
  return undefined;
}

/**
 * Compares the cached nodes with those of the API. Returns which one was deleted; no pod may be placed until the cache
 * has caught up.
 */
export async function lookAtNodes(
  kube: KubeReads,
  { nodes }: SchedulerCaches,
  cancel: Cancel,
): Promise<string | undefined> {
  const fresh = await lookAgainAtAll(kube, refs.nodes, {}, { atLeast: nodes.revision, cancel });
  if (!fresh.ok) return fresh.message;
  const there = new Set(fresh.value.items.map(({ metadata }) => metadata.uid));
  for (const { metadata } of nodes.view().objects.values()) {
    if (!there.has(metadata.uid)) return `node ${metadata.name} was deleted, and the cache of nodes still has it`;
  }
  return undefined;
}

/**
 * Deletes the BindRequests of a gang of which one could not be created; the gang is decided again. Only requests with
 * these UIDs are deleted. Requests that are left are an incomplete set, which the EndedBindRequests deletes.
 */
export async function voidSet(writer: Writer, requests: readonly KubeObject[], cancel: Cancel): Promise<void> {
  for (const request of requests) {
    const { namespace = "", name } = request.metadata;
    const target = { ...refs.requests, namespace, name };
    const why = "another pod of its gang could not get its BindRequest";
    await writer.apply({ type: "delete", target, expected: expectedOf(request), why }, { cancel });
  }
}

/**
 * Requests of gangs' sets that are neither complete nor started: the leader that wrote them has lost the lease and will
 * not write the rest.
 */
function unfinishedSets(requests: readonly KubeObject[]): (request: KubeObject) => boolean {
  const sets = new Map<string, KubeObject[]>();
  for (const request of requests) {
    const id = commitOf(request);
    if (id !== undefined) sets.set(id, [...(sets.get(id) ?? []), request]);
  }
  return (request) => {
    const set = sets.get(commitOf(request) ?? "");
    if (set === undefined) return false;
    const hasBegun = set.some((each) => (each as BindRequest).status?.phase !== undefined);
    return !hasBegun && set.length < commitSizeOf(request);
  };
}

/** Whether the API refused this write for good, and not because the pod has changed or the lease was lost. */
function isRefused({ reason }: Refusal): boolean {
  return reason !== "Conflict" && reason !== "Fenced";
}

function isWaitingForUs(object: KubeObject, placesPlainPods: boolean): boolean {
  const { metadata, spec } = object as Pod;
  const scheduler = spec?.schedulerName;
  if (scheduler !== kaiSchedulerName && !(placesPlainPods && scheduler === defaultSchedulerName)) return false;
  return (spec?.nodeName ?? "") === "" && metadata.deletionTimestamp === undefined;
}

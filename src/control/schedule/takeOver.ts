import { lookAgainAtAll } from "../../intents/lookAgain.ts";
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
import type { Writer } from "../runtime/writer.ts";
import { refs, type SchedulerCaches } from "./schedulerCaches.ts";

/** How long our caches may take to show what was there when we took the lease. */
const takeOverMs = 5_000;
/** How long a call of a former leader may still be in flight. */
const lateCallMsMax = 60_000;

export interface TakeOver {
  readonly epoch: string;
  readonly since: Revision;
  /** Pods that could not be marked in this epoch, and since when that is known, by UID. */
  readonly unmarkedMs: Map<string, number>;
}

/**
 * What an earlier leader has sent may still land. A bind that it decided carries the pod's revision, so writing to
 * every pod that waits makes each such bind fail; a request that it decided names the mark that the pod had, and is not
 * carried out once the pod has another one. Takeover waits until the caches have what had landed before:
 *
 *   old leader                 API                           new leader
 *   bind a to n1 -----\\
 *   request b to n1 ---\\      lease is taken            <--
 *                       \\     a, b: our mark           <--  mark every pod that waits
 *                        -->  a: conflict
 *                        -->  b to n1, in another epoch:     n1 is really free
 *                             the binder refuses it
 *
 * A pod that the API does not let us write to, because of a policy or a webhook that is down, cannot be fenced so. The
 * scheduler waits until a call for it could no longer be in flight, and goes on without the mark then.
 *
 * Says why when it could not be done.
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
  // What is on its way stays on its way; a gang's set that was never completed does not.
  const isVoid = unfinishedSets(requests.value.items);
  const onTheirWay = new Set<string>();
  let problem: string | undefined;
  for (const request of requests.value.items) {
    if (!isVoid(request)) onTheirWay.add(podUidOf(request) ?? "");
  }
  for (const pod of pods.value.items) {
    if (!isWaitingForUs(pod, caches.cluster.settings.placesPlainPods) || onTheirWay.has(pod.metadata.uid)) continue;
    const { namespace = "", name } = pod.metadata;
    const patch = { metadata: { annotations: { [annotationKeys.schedulerEpoch]: mark } } };
    const target = { ...refs.pods, namespace, name };
    const why = "another leads now: what was decided before must not land";
    const outcome = await writer.apply({ type: "patch", target, expected: expectedOf(pod), patch, why }, { cancel });
    if (outcome.ok) newest = laterOf(newest, outcome.value.revision ?? firstRevision);
    else if (outcome.reason !== "NotFound") {
      if (!isRefused(outcome)) return outcome.message;
      const { uid } = pod.metadata;
      if (!unmarkedMs.has(uid)) {
        log.warn(
          { pod: `${namespace}/${name}`, why: outcome.message, forMs: lateCallMsMax },
          "a pod that waits cannot be written to: nothing is placed until no late bind of it can land",
        );
      }
      const sinceMs = unmarkedMs.get(uid) ?? clock.nowMs();
      unmarkedMs.set(uid, sinceMs);
      if (clock.nowMs() < sinceMs + lateCallMsMax) problem = outcome.message;
    }
  }
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
 * Whether our nodes are still there, as the API has them now; says why they are not all, and no pod may be placed until
 * they are.
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
    if (!there.has(metadata.uid)) return `node ${metadata.name} is gone, and the cache of nodes still has it`;
  }
  return undefined;
}

/**
 * One of a gang could not be written: the others go, and the gang is decided again. Only what we were shown is meant:
 * whatever else has the name may be another's. What is left after that is an incomplete set, and goes as one.
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
 * Requests of gangs' sets that are neither complete nor begun: their writer does not lead any more, and will not write
 * the rest.
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

/** It is about this pod, and may be so again. Where the pod has changed, or we do not lead, that is not so. */
function isRefused({ reason }: Refusal): boolean {
  return reason !== "Conflict" && reason !== "Fenced";
}

function isWaitingForUs(object: KubeObject, placesPlainPods: boolean): boolean {
  const { metadata, spec } = object as Pod;
  const scheduler = spec?.schedulerName;
  if (scheduler !== kaiSchedulerName && !(placesPlainPods && scheduler === defaultSchedulerName)) return false;
  return (spec?.nodeName ?? "") === "" && metadata.deletionTimestamp === undefined;
}

import type { Controllers } from "../../control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../control/runtime/loop.ts";
import { conditionChanged } from "../../control/runtime/predicates.ts";
import { kindSource } from "../../control/runtime/sources.ts";
import { keyOfObject } from "../../model/intent.ts";
import type { Node, Pod, PodCondition } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";

const pods = builtin.Pod;
const nodes = builtin.Node;

/** The interval in which pods on a node that does not report are checked again. */
const silenceMs = 500;

/** How long a pod takes to become ready, and how it ends; undefined: it never ends. */
export interface TinyLife {
  readonly startMs: number;
  readonly ends?: { readonly afterMs: number; readonly exitCode: number };
}

/** The life of a pod. Pure, so that a restart of the kubelet changes nothing. */
export type LifeOf = (pod: Pod) => TinyLife;

/**
 * A minimal kubelet for tests of other controllers: pods become ready, end, and are removed when they are deleted.
 */
export function tinyKubelet(
  controllers: Controllers,
  lifeOf: LifeOf = () => ({ startMs: 50 }),
  isSilent: (node: string) => boolean = () => false,
): void {
  const cache = controllers.cache(pods);
  const nodeCache = controllers.cache(nodes);
  const byNode = cache.index((object) => (isBound(object) ? [nodeNameOf(object)] : []));
  const { clock } = controllers.ports;
  controllers.add({
    name: "tiny-kubelet",
    concurrency: 16,
    backoff: { baseMs: 20, maxMs: 2_000 },
    sources: [
      kindSource(
        cache,
        ({ key }) => [key],
        ({ type, object }) => type !== "deleted" && isBound(object),
      ),
      kindSource(nodeCache, ({ key }) => byNode.get(key).map(keyOfObject), conditionChanged("Ready")),
    ],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const object = cache.get(key);
      if (object === undefined || !isBound(object)) return undefined;
      // The kubelet of a node that does not report, or is deleted, does nothing.
      if (!isReady(nodeCache.get(nodeNameOf(object)))) return undefined;
      // The cluster may not have noticed it.
      if (isSilent(nodeNameOf(object))) return { requeueAfterMs: silenceMs };
      const pod = object;
      const { namespace = "", name, uid, resourceVersion } = pod.metadata;
      const ref = { ...pods, namespace, name };
      const step = nextStep(pod, lifeOf(pod), clock.nowMs());
      if (step === undefined) return undefined;
      if ("waitMs" in step) return { requeueAfterMs: step.waitMs };
      const outcome =
        step.status === undefined
          ? await controllers.outside.delete(ref, {
              preconditions: { uid, resourceVersion },
              gracePeriodSeconds: 0,
              cancel,
            })
          : await controllers.outside.update(
              { ...ref, subresource: "status" },
              { ...object, status: { ...pod.status, ...step.status } },
              { cancel },
            );
      return outcome.ok ? { requeueAfterMs: 1 } : reconcileResultOf(outcome);
    },
  });
}

type Step = { waitMs: number } | { status: object | undefined } | undefined;

function nextStep(pod: Pod, { startMs, ends }: TinyLife, nowMs: number): Step {
  const { metadata, status } = pod;
  const phase = status?.phase ?? "Pending";
  const isOver = phase === "Succeeded" || phase === "Failed";
  const now = formatTime(nowMs);
  if (metadata.deletionTimestamp !== undefined) {
    if (!isOver) return { status: ended(pod, 137, now) };
    // A finalizer keeps the object: after a delete without grace there is nothing left to do.
    return metadata.deletionGracePeriodSeconds === 0 ? undefined : { status: undefined };
  }
  if (isOver) return undefined;
  const beganMs = timeToMs(status?.startTime);
  if (beganMs === undefined) return { status: { startTime: now } };
  if (phase === "Pending") {
    if (nowMs < beganMs + startMs) return { waitMs: beganMs + startMs - nowMs };
    return { status: running(pod, now) };
  }
  if (ends !== undefined && nowMs >= beganMs + startMs + ends.afterMs)
    return { status: ended(pod, ends.exitCode, now) };
  // The node was marked NotReady although its kubelet is running.
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status !== "True") return { status: { conditions: withReady(pod, "True", now) } };
  return ends === undefined ? undefined : { waitMs: Math.max(1, beganMs + startMs + ends.afterMs - nowMs) };
}

function running(pod: Pod, now: string): object {
  const ip = `10.${hash(pod.metadata.uid) % 256}.${hash(`${pod.metadata.uid}/`) % 256}.${(hash(pod.metadata.name) % 254) + 1}`;
  const containerStatuses = (pod.spec?.containers ?? []).map(({ name, image = "" }) => ({
    name,
    image,
    imageID: "",
    ready: true,
    started: true,
    restartCount: 0,
    state: { running: { startedAt: now } },
  }));
  const conditions = withReady(pod, "True", now);
  return { phase: "Running", conditions, containerStatuses, podIP: ip, podIPs: [{ ip }] };
}

function ended(pod: Pod, exitCode: number, now: string): object {
  const containerStatuses = (pod.spec?.containers ?? []).map(({ name, image = "" }) => ({
    name,
    image,
    imageID: "",
    ready: false,
    started: false,
    restartCount: 0,
    state: { terminated: { exitCode, finishedAt: now, startedAt: now } },
  }));
  const conditions = withReady(pod, "False", now);
  return { phase: exitCode === 0 ? "Succeeded" : "Failed", conditions, containerStatuses };
}

function withReady({ status }: Pod, value: string, now: string): PodCondition[] {
  const before = status?.conditions ?? [];
  const kept = before.filter(({ type }) => type !== "Ready" && type !== "ContainersReady");
  const said = { status: value, lastTransitionTime: now };
  return [...kept, { type: "ContainersReady", ...said }, { type: "Ready", ...said }];
}

function nodeNameOf(object: Pod): string {
  return object.spec?.nodeName ?? "";
}

function isBound(object: KubeObject): boolean {
  return nodeNameOf(object) !== "";
}

function isReady(node: Node | undefined): boolean {
  const conditions = node?.status?.conditions;
  return conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
}

function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}

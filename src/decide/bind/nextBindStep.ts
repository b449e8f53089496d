/**
 * The next step of a bind, from what is observed. No state of a bind is kept outside the cluster: the same objects give
 * the same step, so the next binder continues where one that crashed had stopped.
 *
 *   reserve -> hold -> bind reservation -> wait for device -> label -> configure -> claims, volumes -> bind -> record
 */
import { type BindIntent, expectedOf, type Intent, type NewObject } from "../../model/intent.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { isLeaving } from "../../model/objects/podFacts.ts";
import { isAtLeast, type Revision } from "../../model/revision.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { annotationKeys, epochOf, gpuGroupsOfLabels, labelKeys, nodeHeldBy } from "../../model/scheduling/keys.ts";
import { claimsOfPod } from "../../model/storage/volumes.ts";
import { attemptOf } from "./attemptMark.ts";
import { releasedAnnotation, standsFor } from "./judgeGroup.ts";
import { enforcedAnnotation, mpsLimits } from "./mpsLimits.ts";
import {
  containerProblem,
  deviceOf,
  devicesAnnotation,
  hasEnded,
  holdersOf,
  holdersPatch,
  isBound,
  newReservation,
  podsRef,
  type ReservationOptions,
} from "./reservation.ts";
import { sharedGpuConfig } from "./sharedGpuConfig.ts";

/** The input of a decision about a bind. */
export interface BindView {
  readonly request: BindRequest;
  /** The pod of that name; undefined when the binder knows none. */
  readonly pod: Pod | undefined;
  readonly node: Node | undefined;
  /** BindRequests that belong to the same gang commit, this one included. */
  readonly commitSize: number;
  /** Reservation pods with a group's label, on any node. */
  readonly reservations: (group: string) => readonly Pod[];
  /** Other pods of a group that run on a node. */
  readonly sharers: (group: string, node: string) => readonly Pod[];
  /** GPUs of the node that can still be reserved: those that no claim, whole-GPU pod or reservation holds. */
  readonly freeGpus: number;
  /** A cluster autoscaler is adding nodes for GPU shares. */
  readonly isScalingUp: boolean;
  /** Device ids that other groups of the node report. */
  readonly otherDevices: ReadonlyMap<string, string>;
  /** Steps that this reconcile has done already; repeated after a restart, and harmless then. */
  readonly done: ReadonlySet<"claimed" | "volumes">;
  /** The devices that this reconcile has written to the ConfigMaps; repeated after a restart too. */
  readonly configured: readonly string[] | undefined;
  /** Whether the pod was read from the API in this reconcile. */
  readonly hasLooked: boolean;
  /** The revision at which request and pod were last confirmed, in this reconcile. */
  readonly confirmedAt: Revision | undefined;
  /** Whether the GPUs of the node were counted by a consistent read, in this reconcile. */
  readonly hasCounted: boolean;
  /** Since when the bind waits for the node to report the device. */
  readonly waitingSinceMs: number | undefined;
  /** The revision of the pods: a missing pod did not exist at it. */
  readonly podsRevision: Revision;
  readonly nowMs: number;
}

export type BindStep =
  /** The bind is complete. */
  | { readonly type: "done" }
  /** Another component has to act first. */
  | { readonly type: "wait"; readonly why: string; readonly untilMs?: number; readonly forDevice?: boolean }
  /** The cache lacks the object, which may exist: read it from the API. */
  | { readonly type: "look"; readonly what: "pod" | "node" | "gpus" }
  /** Request and pod have to be confirmed at a revision at or beyond this one. */
  | { readonly type: "confirm"; readonly since: Revision }
  | { readonly type: "write"; readonly intent: Intent }
  /** Gives a reservation its node. */
  | { readonly type: "place"; readonly intent: BindIntent }
  | { readonly type: "configure"; readonly devices: readonly string[]; readonly maps: readonly NewObject[] }
  | { readonly type: "claim" }
  | { readonly type: "volumes" }
  | { readonly type: "succeeded"; readonly node: string }
  /** This attempt has failed. */
  | { readonly type: "failed"; readonly why: string }
  /** A BindRequest of an old form: the scheduler creates a new one. */
  | { readonly type: "discard"; readonly why: string };

export interface BindOptions {
  readonly reservation: ReservationOptions;
  readonly cdi: boolean;
}

/**
 * A BindRequest of an earlier leader may arrive late, when its node was allocated to another pod: the pod records the
 * epoch from which on requests are valid.
 */
function isOfAnotherEpoch({ metadata }: BindRequest, pod: Pod): boolean {
  const decidedIn = metadata.annotations?.[annotationKeys.decidedIn];
  return decidedIn !== undefined && decidedIn !== epochOf(pod);
}

export function nextBindStep(view: BindView, options: BindOptions): BindStep {
  const { request, pod, node } = view;
  const { spec = {}, status } = request;
  if (request.metadata.deletionTimestamp !== undefined) return { type: "done" };
  if (status?.phase === "Succeeded" || isFinallyFailed(request)) return { type: "done" };
  const wanted = Number(request.metadata.annotations?.[annotationKeys.commitSize] ?? "0");
  if (view.commitSize < wanted) {
    return { type: "wait", why: `${view.commitSize} of ${wanted} BindRequests of its gang exist` };
  }
  if (pod === undefined) return { type: "look", what: "pod" };
  const uid = podUidOf(request);
  if (uid !== undefined && pod.metadata.uid !== uid) {
    // The cache may still have the earlier pod.
    if (!view.hasLooked) return { type: "look", what: "pod" };
    return { type: "failed", why: `pod ${pod.metadata.name} was replaced: its UID is ${pod.metadata.uid}, not ${uid}` };
  }
  const placed = pod.spec?.nodeName;
  if (placed === undefined && isOfAnotherEpoch(request, pod)) {
    // The cached pod may be older than the decision.
    if (!view.hasLooked) return { type: "look", what: "pod" };
    return { type: "failed", why: "another scheduler has become leader since the decision" };
  }
  if (placed !== undefined) return { type: "succeeded", node: placed };
  if (hasEnded(pod) || isLeaving(pod))
    return { type: "failed", why: `pod ${pod.metadata.name} is terminating or has finished` };
  if (node === undefined) return { type: "look", what: "node" };
  const isShared = spec.receivedResourceType === "Fraction";
  const groups = isShared ? (spec.selectedGPUGroups ?? []) : [];
  if (isShared && groups.length === 0) {
    return { type: "discard", why: "the BindRequest is for a GPU share and names no GPU group" };
  }
  const devices: string[] = [];
  for (const group of groups) {
    const step = reserve(view, pod, group, options);
    if (typeof step !== "string") return step;
    const other = view.otherDevices.get(step);
    if (other !== undefined && !groups.includes(other)) {
      return { type: "failed", why: `GPU groups ${group} and ${other} both have device ${step}` };
    }
    devices.push(step);
  }
  const hasClaims =
    (spec.resourceClaimAllocations ?? []).length > 0 || (spec.extendedResourceClaimAllocation ?? null) !== null;
  const given = givenAnnotations(request);
  const isFencedFirst = isShared || hasClaims || hasVolumes(pod);
  const limits = isShared ? mpsLimits(pod, node, devices.length) : undefined;
  const enforced = limits === undefined ? null : "mps";
  const marks = lackingMarks(pod, groups, {
    ...(isFencedFirst && given),
    ...(isShared && { ...shareAnnotations(groups, devices), [enforcedAnnotation]: enforced }),
  });
  if (marks !== undefined) return { type: "write", intent: marks };
  if (isShared && !sameDevices(view.configured, devices)) {
    const portion = spec.receivedGPU?.portion ?? "";
    const share = { devices, portion, cdi: options.cdi, attempt: attemptOf(request), limits };
    const maps = sharedGpuConfig(pod, share);
    return { type: "configure", devices, maps };
  }
  if (hasClaims && !view.done.has("claimed")) return { type: "claim" };
  if (hasVolumes(pod) && !view.done.has("volumes")) return { type: "volumes" };
  const why = `pod ${pod.metadata.name} is placed on node ${node.metadata.name}`;
  const intent: Intent = {
    type: "bind",
    target: podTarget(pod),
    expected: expected(pod),
    node: node.metadata.name,
    annotations: given,
    why,
  };
  return { type: "write", intent };
}

/** A reservation that was deleted and created again may have another device than the one that was configured. */
function sameDevices(configured: readonly string[] | undefined, devices: readonly string[]): boolean {
  return configured?.length === devices.length && configured.every((device, at) => device === devices[at]);
}

/** The message of a bind that timed out, and the pattern by which `muster why` recognises it. */
export const deviceNotReported = {
  text: (node: string, seconds: number, group: string, problem: string | undefined): string =>
    `node ${node} did not report the device of GPU group ${group} within ${seconds} s${problem === undefined ? "" : `; its reservation does not run: ${problem}`}`,
  pattern:
    /node (\S+) did not report the device of (?:GPU )?group (\S+) within (\S+) s(?:; its reservation does not run: (.*))?/,
} as const;

/** The device of a group once its reservation can be relied on, or the step before that. */
function reserve(view: BindView, pod: Pod, group: string, { reservation: options }: BindOptions): BindStep | string {
  const node = view.request.spec?.selectedNode ?? "";
  const all = view.reservations(group);
  const elsewhere = all.find((each) => nodeHeldBy(each) !== node && !hasEnded(each) && !isLeaving(each));
  if (elsewhere !== undefined) {
    return { type: "failed", why: `GPU group ${group} is reserved on node ${nodeHeldBy(elsewhere)}, not on ${node}` };
  }
  const here = all.filter((each) => nodeHeldBy(each) === node);
  if (here.some(isLeaving)) return { type: "wait", why: `the last reservation of GPU group ${group} is terminating` };
  const over = here.find(hasEnded);
  if (over !== undefined) {
    const { phase, reason = "no reason given", message = "" } = over.status ?? {};
    return {
      type: "failed",
      why: `the node refused the reservation of GPU group ${group}: ${phase}, ${reason} ${message}`.trim(),
    };
  }
  const [found] = here;
  const sharers = view.sharers(group, node);
  if (sharers.length > 0 && (found === undefined || (!isBound(found) && !standsFor(found, sharers, group)))) {
    // The reconcile of the group creates a reservation that requests the device of these pods.
    return { type: "wait", why: `the reservation of GPU group ${group} was lost, and pods use its device` };
  }
  if (found === undefined) {
    if (view.isScalingUp) return { type: "failed", why: "the cluster is being scaled up for GPU shares" };
    if (view.freeGpus <= 0) {
      // The scheduler may have observed a deletion that this cache has not.
      if (!view.hasCounted) return { type: "look", what: "gpus" };
      return {
        type: "failed",
        why: `node ${node} has no GPU left for GPU group ${group}: all are held by pods, reservations and claims`,
      };
    }
    const object = newReservation({ node, group, users: [pod], options });
    const target = { ...podsRef, namespace: object.metadata.namespace ?? "", name: object.metadata.name };
    const why = `pod ${pod.metadata.name} shares a GPU of node ${node}`;
    return { type: "write", intent: { type: "create", target, absentAtRevision: view.podsRevision, object, why } };
  }
  const holders = holdersOf(found);
  if (!holders.has(pod.metadata.uid)) {
    const more = new Map(holders).set(pod.metadata.uid, `${pod.metadata.namespace ?? ""}/${pod.metadata.name}`);
    const why = `pod ${pod.metadata.name} is going to rely on it`;
    return {
      type: "write",
      intent: { type: "patch", target: podTarget(found), expected: expected(found), patch: holdersPatch(more), why },
    };
  }
  if (!isBound(found)) {
    const since = found.metadata.resourceVersion ?? "";
    if (view.confirmedAt === undefined || !isAtLeast(view.confirmedAt, since)) return { type: "confirm", since };
    const why = `GPU group ${group} reserves a GPU of node ${node}`;
    return { type: "place", intent: { type: "bind", target: podTarget(found), expected: expected(found), node, why } };
  }
  const device = deviceOf(found);
  if (device !== undefined) return device;
  const untilMs = (view.waitingSinceMs ?? view.nowMs) + options.allocationTimeoutMs;
  if (view.nowMs >= untilMs) {
    const seconds = options.allocationTimeoutMs / 1000;
    return { type: "failed", why: deviceNotReported.text(node, seconds, group, containerProblem(found)) };
  }
  return {
    type: "wait",
    why: `node ${node} has not reported the device of GPU group ${group} yet`,
    untilMs,
    forDevice: true,
  };
}

/**
 * The allocation that is recorded on the pod. It is written together with the bind, unless something else is written
 * before, such as devices of a claim. Then the pod is written first, so that a BindRequest that was decided on another
 * version of the pod fails there:
 *
 *   new leader                      binder, its cache is late
 *   pod: another epoch
 *   the devices go to another pod
 *                                   pod: its allocation -> conflict
 *                                   (the devices are not written to the claim)
 */
function givenAnnotations({ spec = {} }: BindRequest): Record<string, string> {
  const { receivedResourceType = "", predictedNUMAZones = [] } = spec;
  return {
    [annotationKeys.receivedResourceType]: receivedResourceType,
    ...(predictedNUMAZones.length > 0 && { [numaAnnotation]: JSON.stringify(predictedNUMAZones) }),
  };
}

function shareAnnotations(groups: readonly string[], devices: readonly string[]): Record<string, string | null> {
  const deviceOfGroup = Object.fromEntries(groups.map((group, at) => [group, devices[at] ?? ""]));
  return { [devicesAnnotation]: JSON.stringify(deviceOfGroup), [releasedAnnotation]: null };
}

/**
 * The patch that gives the pod its labels and removes labels of other groups, before anything else is written.
 * Undefined when the pod has them.
 */
function lackingMarks(
  pod: Pod,
  groups: readonly string[],
  wanted: Readonly<Record<string, string | null>>,
): Intent | undefined {
  const labels: Record<string, string | null> = {};
  const current = pod.metadata.labels ?? {};
  for (const group of gpuGroupsOfLabels(current)) {
    if (groups.includes(group)) continue;
    // A label of an earlier attempt on another GPU.
    if (current[labelKeys.gpuGroup] === group) labels[labelKeys.gpuGroup] = null;
    else labels[`${labelKeys.gpuGroupPrefix}${group}`] = null;
  }
  for (const group of groups) {
    const key = groups.length > 1 ? `${labelKeys.gpuGroupPrefix}${group}` : labelKeys.gpuGroup;
    if (current[key] !== group) labels[key] = group;
  }
  const annotations: Record<string, string | null> = {};
  for (const [key, value] of Object.entries(wanted)) {
    if ((pod.metadata.annotations?.[key] ?? null) !== value) annotations[key] = value;
  }
  if (Object.keys(labels).length === 0 && Object.keys(annotations).length === 0) return undefined;
  const why =
    groups.length === 0 ? "its allocation, without labels of an earlier attempt" : `it uses ${countedGroups(groups)}`;
  const patch = { metadata: { labels, annotations } };
  return { type: "patch", target: podTarget(pod), expected: expected(pod), patch, why };
}

function countedGroups(groups: readonly string[]): string {
  return `${groups.length === 1 ? "group" : "groups"} ${groups.join(", ")}`;
}

const numaAnnotation = "kai.scheduler/numa-placement-predicted";

/** Only PersistentVolumeClaims have to be waited for; other volumes are mounted by the kubelet. */
function hasVolumes(pod: Pod): boolean {
  return claimsOfPod(pod).length > 0;
}

function podTarget({ metadata }: Pod): typeof podsRef & { namespace: string; name: string } {
  return { ...podsRef, namespace: metadata.namespace ?? "", name: metadata.name };
}

function expected(pod: Pod): ReturnType<typeof expectedOf> {
  return expectedOf(pod);
}

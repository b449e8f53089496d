/**
 * The verdict about a group's reservation, from one read of the group. The same function judges the cache, to find out
 * whether a write may be needed, and a consistent read at one revision, before anything is deleted.
 */
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isLeaving } from "../../model/objects/podFacts.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import { gpuGroupsOfLabels } from "../../model/scheduling/keys.ts";
import { deviceAskedBy, deviceOf, devicesOf, hasEnded, holdersOf, isBound } from "./reservation.ts";

/** Everything that concerns one group on one node. */
export interface GroupView {
  readonly group: string;
  readonly node: string;
  /** Its reservation pods on this node, or for it. Normally there is one. */
  readonly reservations: readonly Pod[];
  /** The pods that carry the group's label. */
  readonly users: readonly Pod[];
  /** The BindRequests that name the group. */
  readonly requests: readonly BindRequest[];
  /** The existing pods whose UIDs the reservations name as holders. */
  readonly holders: readonly Pod[];
  /** Whether the node can give a new reservation the device of a lost one. */
  readonly canPin: boolean;
  /** The node's refusals so far, if known. */
  readonly refusal?: Refusal | undefined;
}

/**
 * A node may hold a device for a moment longer than the API knows of its pod: a pod that was deleted by force still
 * ends there.
 */
export interface Refusal {
  /** The time since the first refusal. */
  readonly forMs: number;
  /** The time since the current refusal. */
  readonly ageMs: number;
}

/** How long a node may take to release a device. After that, another pod is assumed to have it. */
export const pinTimeoutMs = 20_000;
const pinRetryMs = 1_000;

export type GroupVerdict =
  /** `request`: nothing but this BindRequest keeps the reservation. */
  | { readonly type: "keep"; readonly why: string; readonly request?: BindRequest }
  /** No BindRequest is active for these pods: remove the group from them, so that writes of an old bind conflict. */
  | { readonly type: "release"; readonly pods: readonly Pod[]; readonly why: string }
  /** These UIDs no longer rely on the reservation. */
  | { readonly type: "drop"; readonly reservation: Pod; readonly uids: readonly string[]; readonly why: string }
  | { readonly type: "delete"; readonly reservation: Pod; readonly why: string }
  /** Pods run without a reservation: their device could be allocated to another pod. */
  | { readonly type: "restore"; readonly users: readonly Pod[]; readonly device: string; readonly why: string }
  /** Pods run, and the reservation that replaces a lost one is not bound yet. */
  | { readonly type: "place"; readonly reservation: Pod; readonly why: string }
  | { readonly type: "evict"; readonly users: readonly Pod[]; readonly why: string };

const nothing: GroupVerdict = { type: "keep", why: "the group has no reservation and no pod needs one" };

/**
 * Pods may come and go for months on a GPU that always has users. A deleted holder costs a read in every reconcile, and
 * an annotation has room for some thousands; a write for each of them would conflict with new binds.
 */
const goneHoldersMax = 32;

export function judgeGroup(view: GroupView): GroupVerdict {
  const { group, node } = view;
  const live = view.users.filter((pod) => !hasEnded(pod) && isHere(pod, node));
  const standing = view.reservations.filter((pod) => !hasEnded(pod) && !isLeaving(pod));
  const strays = strayPods(view);
  if (strays.length > 0) {
    const names = strays.map(nameOf).join(", ");
    return { type: "release", pods: strays, why: `no BindRequest of ${names} names GPU group ${group} any more` };
  }
  const placed = live.filter((pod) => pod.spec?.nodeName !== undefined);
  // Finished. It only blocks its name: the next reservation can be created when this one is deleted.
  const over = view.reservations.find((pod) => hasEnded(pod) && !isLeaving(pod));
  if (over !== undefined) {
    const asked = deviceAskedBy(over);
    const { forMs, ageMs } = view.refusal ?? { forMs: pinTimeoutMs, ageMs: pinRetryMs };
    if (asked !== undefined && placed.length > 0 && ageMs < pinRetryMs) {
      return { type: "keep", why: `node ${node} does not allocate device ${asked} of a lost reservation yet` };
    }
    const robbed = asked === undefined || forMs < pinTimeoutMs ? [] : placed.filter((pod) => !isLeaving(pod));
    if (robbed.length > 0) {
      const names = robbed.map(nameOf).join(", ");
      const why = `the reservation of GPU group ${group} was lost and its device ${asked} cannot be allocated again: ${over.status?.reason ?? "no reason given"}, so ${names} is evicted`;
      return { type: "evict", users: robbed, why };
    }
    return {
      type: "delete",
      reservation: over,
      why: `it is ${over.status?.phase}: ${over.status?.reason ?? "no reason given"}`,
    };
  }
  const [reservation] = standing;
  if (reservation === undefined) {
    if (placed.length === 0 || view.reservations.some(isLeaving)) return nothing;
    return lost(view, placed);
  }
  if (placed.length > 0 && standing.every((pod) => !isBound(pod))) {
    const why = `GPU group ${group} is used by ${placed.map(nameOf).join(", ")}`;
    if (standsFor(reservation, placed, group)) return { type: "place", reservation, why };
    const verdict = lost(view, placed);
    // The reservation was created without knowledge of these pods: it is replaced by one that requests their device.
    return verdict.type === "restore"
      ? { type: "delete", reservation, why: `${why}, and its reservation requests no device` }
      : verdict;
  }
  const spare = spareReservation(standing, live, view);
  if (spare !== undefined) {
    return {
      type: "delete",
      reservation: spare,
      why: `GPU group ${group} has another reservation, whose device its pods use`,
    };
  }
  const misled =
    standing.length === 1 ? placed.filter((pod) => !isLeaving(pod) && isMisled(pod, reservation, group)) : [];
  if (misled.length > 0) {
    const names = misled.map(nameOf).join(", ");
    const why = `the reservation of GPU group ${group} was lost, and the one that came after it has another device, so ${names} is evicted`;
    return { type: "evict", users: misled, why };
  }
  for (const each of standing) {
    const gone = [...holdersOf(each).keys()].filter((uid) => isOver(uid, view)).sort();
    if (gone.length > goneHoldersMax)
      return { type: "drop", reservation: each, uids: gone, why: "its holders are gone" };
  }
  const [user] = live;
  if (user !== undefined) return { type: "keep", why: `pod ${nameOf(user)} uses it` };
  const request = view.requests.find((each) => protects(each, view));
  if (request !== undefined) return { type: "keep", why: `BindRequest ${nameOf(request)} is going to use it`, request };
  for (const each of standing) {
    const gone = [...holdersOf(each).keys()].filter((uid) => !isHeldBy(uid, view)).sort();
    if (gone.length > 0) return { type: "drop", reservation: each, uids: gone, why: "its holders are gone" };
  }
  const holder = view.holders.find((pod) => isHeldBy(pod.metadata.uid, view));
  if (holder !== undefined) return { type: "keep", why: `pod ${nameOf(holder)} holds it` };
  return { type: "delete", reservation, why: `no pod and no BindRequest needs GPU group ${group}` };
}

/**
 * Whether a reservation that is not on its node yet will get the device that pods use already. Of pods that another
 * binder placed it is not known which one that is: whatever the reservation got, it might be another.
 */
export function standsFor(reservation: Pod, placed: readonly Pod[], group: string): boolean {
  const asked = deviceAskedBy(reservation);
  return asked !== undefined && placed.every((pod) => devicesOf(pod)[group] === asked);
}

/** A reservation that asked for the device of a lost one and was refused. */
export function refusedPin({ reservations }: Pick<GroupView, "reservations">): Pod | undefined {
  return reservations.find((pod) => hasEnded(pod) && !isLeaving(pod) && deviceAskedBy(pod) !== undefined);
}

/**
 * Whether a BindRequest will still rely on the group's reservation, or has just done so and its pod does not show it
 * yet.
 */
export function protects(request: BindRequest, view: Pick<GroupView, "group" | "users" | "holders">): boolean {
  const { spec, status } = request;
  if (spec?.receivedResourceType !== "Fraction" || spec.selectedGPUGroups?.includes(view.group) !== true) return false;
  if (request.metadata.deletionTimestamp !== undefined) return false;
  if (status?.phase !== "Succeeded") return !isFinallyFailed(request);
  const uid = podUidOf(request);
  if (uid === undefined) return false;
  // Observed with the label, it protects the group by itself; without, our read of it is older than the success.
  if (view.users.some(({ metadata }) => metadata.uid === uid)) return false;
  return view.holders.some((pod) => pod.metadata.uid === uid && !hasEnded(pod));
}

/** A pod relies on it from before it is labelled until it is gone, has ended, runs elsewhere or was released. */
function isHeldBy(uid: string, { holders, node, group }: GroupView): boolean {
  const pod = holders.find(({ metadata }) => metadata.uid === uid);
  if (pod === undefined || hasEnded(pod) || !isHere(pod, node)) return false;
  // The label comes before the node: a pod that has its node and no such label runs in another group.
  return isLabelled(pod, group) || (pod.spec?.nodeName === undefined && !wasReleased(pod, group));
}

/** Never to rely on anything again, whatever else the group does. */
function isOver(uid: string, { holders }: GroupView): boolean {
  const pod = holders.find(({ metadata }) => metadata.uid === uid);
  return pod === undefined || hasEnded(pod);
}

/** Pods without a node that a bind has labelled or recorded as holders, and that no BindRequest binds any more. */
function strayPods(view: GroupView): Pod[] {
  const { group, users, holders, requests } = view;
  const bound = new Set(requests.filter((request) => mayStillBind(request, group)).map(podUidOf));
  const candidates = new Map<string, Pod>();
  for (const pod of [...users, ...holders]) candidates.set(pod.metadata.uid, pod);
  return [...candidates.values()].filter((pod) => {
    if (pod.spec?.nodeName !== undefined || hasEnded(pod) || bound.has(pod.metadata.uid)) return false;
    return isLabelled(pod, group) || !wasReleased(pod, group);
  });
}

function mayStillBind(request: BindRequest, group: string): boolean {
  if (request.spec?.selectedGPUGroups?.includes(group) !== true) return false;
  return request.metadata.deletionTimestamp === undefined && !isFinallyFailed(request);
}

/** On a pod: the groups that were removed from it, so that an old bind's writes conflict. */
export const releasedAnnotation = "muster.dev/released-groups";

export function wasReleased(pod: Pod, group: string): boolean {
  return (pod.metadata.annotations?.[releasedAnnotation] ?? "").split(",").includes(group);
}

/**
 * Of several reservations, one whose device no pod has recorded and that has no holder, while another one is in use.
 */
function spareReservation(standing: readonly Pod[], live: readonly Pod[], view: GroupView): Pod | undefined {
  if (standing.length < 2) return undefined;
  const told = new Set(live.map((pod) => devicesOf(pod)[view.group]));
  const isUsed = (reservation: Pod): boolean => told.has(deviceOf(reservation));
  if (!standing.some(isUsed)) return undefined;
  return standing.find((pod) => !isUsed(pod) && ![...holdersOf(pod).keys()].some((uid) => isHeldBy(uid, view)));
}

/** Whether a pod has recorded another device than its group's reservation holds: its own device is not reserved. */
function isMisled(pod: Pod, reservation: Pod, group: string): boolean {
  const told = devicesOf(pod)[group];
  const device = deviceOf(reservation);
  return told !== undefined && device !== undefined && told !== device;
}

function isHere(pod: Pod, node: string): boolean {
  return pod.spec?.nodeName === undefined || pod.spec.nodeName === node;
}

function lost(view: GroupView, placed: readonly Pod[]): GroupVerdict {
  const devices = new Set(placed.map((pod) => devicesOf(pod)[view.group]));
  const [device] = devices;
  const names = placed.map(nameOf).join(", ");
  if (view.canPin && devices.size === 1 && device !== undefined) {
    const why = `the reservation of GPU group ${view.group} was lost; ${names} keeps device ${device}`;
    return { type: "restore", users: placed, device, why };
  }
  const users = placed.filter((pod) => !isLeaving(pod));
  if (users.length === 0) return { type: "keep", why: `the reservation was lost, and ${names} is going` };
  const why = `the reservation of GPU group ${view.group} was lost and node ${view.node} cannot give its device again, so ${names} is evicted`;
  return { type: "evict", users, why };
}

function isLabelled(pod: Pod, group: string): boolean {
  return gpuGroupsOfLabels(pod.metadata.labels).includes(group);
}

function nameOf({ metadata }: Pod | BindRequest): string {
  return `${metadata.namespace}/${metadata.name}`;
}

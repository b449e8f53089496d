/** Invariants of placement. */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { type BindRequest, isFinallyFailed, podUidOf } from "../../model/scheduling/bindRequest.ts";
import {
  annotationKeys,
  defaultSchedulerName,
  gpuGroupsOfLabels,
  isReservationPod,
  kaiSchedulerName,
  labelKeys,
} from "../../model/scheduling/keys.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import type { Queue } from "../../model/scheduling/queue.ts";
import { GroupsWithoutReservation } from "../bind/reservationDeleter.ts";
import type { CallRecord, Commit } from "../history.ts";
import type { Checks, Invariant } from "../invariant.ts";
import type { Held, ObservedMirror } from "../invariants/general.ts";
import { sceneryActor } from "../simulation.ts";

const gpuName = "nvidia.com/gpu";
const groupsKey = "scheduling.run.ai/podgroups";
const requestsKey = "scheduling.run.ai/bindrequests";
const queuesKey = "scheduling.run.ai/queues";

/**
 * Counted from the pods themselves after every bind: whole GPUs, one for each group that is shared, and the shares of
 * each group. `isKeeper`: the processes that keep the reservation of a group that has pods.
 */
export const noGpuTwice = (isKeeper: Held = (actor) => actor !== sceneryActor): Invariant => ({
  id: "I1",
  fact: "no node allocates more GPUs than it has, and no GPU is shared beyond one",
  begin: ({ store }) => {
    const robbed = new GroupsWithoutReservation(store, isKeeper);
    return {
      commit: (commit) => {
        const { type, event } = commit;
        robbed.observe(commit);
        if (event.current.resource !== "/pods" || type === "DELETED") return undefined;
        const now = event.current.object() as Pod;
        const before = event.previous?.object() as Pod | undefined;
        const node = now.spec?.nodeName;
        if (node === undefined || (before !== undefined && hasEnded(before))) return undefined;
        if (hasEnded(now) && (now.status?.reason ?? "").match(/Admission|OutOf/) !== null) {
          const [group = ""] = isReservationPod(now) ? gpuGroupsOfLabels(now.metadata.labels) : [];
          // Without its reservation the GPU of a group is free for the node.
          if (robbed.has(group, node)) return undefined;
          return `${now.metadata.name} was refused by its node: ${now.status?.reason}`;
        }
        return before?.spec?.nodeName === node ? undefined : overfull(store, node);
      },
    };
  },
});

function overfull(store: ObjectStore, name: string): string | undefined {
  const node = store.get("/nodes", "", name)?.object() as Node | undefined;
  // A node can be deleted between a decision and its write.
  if (node === undefined) return undefined;
  const has = Number(node.status?.allocatable?.[gpuName] ?? "0");
  let whole = 0;
  const shares = new Map<string, number>();
  for (const pod of pods(store)) {
    if (pod.spec?.nodeName !== name || hasEnded(pod)) continue;
    const groups = gpuGroupsOfLabels(pod.metadata.labels);
    const share = isReservationPod(pod) ? 0 : Number(pod.metadata.annotations?.[annotationKeys.gpuFraction] ?? "0");
    for (const group of groups) shares.set(group, (shares.get(group) ?? 0) + share);
    if (groups.length === 0) whole += gpusOf(pod);
  }
  for (const [group, share] of shares) if (share > 1) return `GPU group ${group} of ${name} is shared by ${share}`;
  return whole + shares.size > has
    ? `${name} has ${has} GPUs and allocated ${whole} whole and ${shares.size} shared ones`
    : undefined;
}

/** A consistent read of several objects may be this old when the write that rests on it is sent. */
const readUsMax = 50_000;

/** A decision may be this old when its write is sent. */
const decidedUsMax = 2_000_000;

/** While its watch of nodes is broken, a process observes that a node was deleted only if it reads it. */
export function placesByWatchedNodes(held: Held): Invariant {
  return {
    id: "I5",
    fact: "no pod is placed on a node that is neither watched nor read again",
    begin: ({ nowUs }) => {
      const brokenUs = new Map<string, number>();
      const readUs = new Map<string, number>();
      return {
        started: (actor) => void brokenUs.delete(actor),
        delivered: (actor, _, { resource, object, gone }) => {
          if (resource === "/nodes" && !gone) readUs.set(`${actor} ${object.metadata.name}`, nowUs());
        },
        watched: (actor, resource, isOpen) => {
          if (resource !== "/nodes") return;
          if (isOpen) brokenUs.delete(actor);
          else if (!brokenUs.has(actor)) brokenUs.set(actor, nowUs());
        },
        commit: (commit) => {
          const { event, call } = commit;
          const node = held(call.actor) ? chosenNode(commit) : undefined;
          const sinceUs = Math.max(
            brokenUs.get(call.actor) ?? Number.POSITIVE_INFINITY,
            readUs.get(`${call.actor} ${node}`) ?? 0,
          );
          const forUs = call.requestedUs - sinceUs;
          return node !== undefined && forUs > decidedUsMax
            ? `${call.actor} placed ${event.current.name} on ${node}, and neither watched nor read it for ${Math.round(forUs / 1e6)} s`
            : undefined;
        },
      };
    },
  };
}

/**
 * A bind of unknown outcome that is sent again names the node of the first decision, and that node may be gone by then.
 * A bind that waited in its client is not judged: its author cannot take it back. The binder looks at the node of a
 * BindRequest itself.
 */
export function bindsToKnownNodes(held: Held): Invariant {
  return {
    id: "I5",
    fact: "no pod is bound to a node that its author's cache no longer has",
    begin: () => {
      const nodes = new Map<string, ObservedMirror>();
      const known = new WeakMap<CallRecord, ReadonlySet<string>>();
      return {
        started: (actor) => void nodes.delete(actor),
        observe: (actor, what, value) => {
          if (what === "mirror" && (value as ObservedMirror).kind === "/nodes")
            nodes.set(actor, value as ObservedMirror);
          return undefined;
        },
        sent: (call) => {
          const mirror = nodes.get(call.actor);
          if (call.verb !== "bind" || mirror === undefined || !held(call.actor) || call.sentUs !== call.requestedUs)
            return undefined;
          known.set(call, new Set([...mirror.objects()].map(([, { metadata }]) => metadata.name)));
          return undefined;
        },
        commit: (commit) => {
          const node = chosenNode(commit);
          const names = known.get(commit.call);
          if (node === undefined || names === undefined || names.has(node)) return undefined;
          const { call, event } = commit;
          return `${call.actor} bound ${event.current.name} to ${node}, which its cache did not have`;
        },
      };
    },
  };
}

/** The node that a bind or a new BindRequest names. */
function chosenNode({ type, event }: Commit): string | undefined {
  if (event.current.resource === requestsKey && type === "ADDED")
    return (event.current.object() as BindRequest).spec?.selectedNode;
  if (event.current.resource !== "/pods" || type !== "MODIFIED") return undefined;
  const before = (event.previous?.object() as Pod | undefined)?.spec?.nodeName;
  return before === undefined ? (event.current.object() as Pod).spec?.nodeName : undefined;
}

/**
 * A partially bound gang holds GPUs without running. Two cases are allowed: a gang that was complete and lost pods, and
 * one whose BindRequests all existed when a pod was deleted during binding. A binder is judged by the pods that it has
 * observed.
 */
export const gangsStartWhole: Invariant = {
  id: "I4",
  fact: "no pod of a gang, or of a subgroup, is bound unless places for its whole minimum have been decided",
  begin: ({ store, nowUs }) => ({
    ...whileRequestsCome(store, nowUs),
    atRest: () => {
      for (const group of all<PodGroup>(store, groupsKey)) {
        for (const { name, min } of unitsOf(group)) {
          const bound = members(store, name).filter(isBound).length;
          // A user may have deleted pods of a running gang; that is reported by a condition.
          if (bound > 0 && bound < min && !isFlagged(group))
            return `${bound} of ${min} pods of ${name} are bound, and no condition reports it`;
        }
      }
      return undefined;
    },
  }),
};

/** A pod on a node, as an actor observed it. */
interface ReportedPod {
  readonly unit: string;
  readonly boundUs: number;
  goneUs: number;
}

function whileRequestsCome(store: ObjectStore, nowUs: () => number): Pick<Checks, "commit" | "delivered"> {
  /** By actor that observed the pods. */
  const reported = new Map<string, Map<string, ReportedPod>>();
  const knownBound = ({ actor, life, requestedUs }: CallRecord, unit: string): number => {
    let count = 0;
    for (const each of reported.get(`${actor}|${life}`)?.values() ?? []) {
      if (each.unit === unit && each.boundUs <= requestedUs && each.goneUs >= requestedUs) count++;
    }
    return count;
  };
  /** UIDs of the requests that exist now, by their set; and of those whose set was whole at some moment. */
  const sets = new Map<string, Set<string>>();
  const whole = new Set<string>();
  const noteRequest = ({ metadata }: BindRequest, isGone: boolean): void => {
    const id = metadata.annotations?.[annotationKeys.commit];
    if (id === undefined) return;
    const set = sets.get(id) ?? new Set();
    sets.set(id, set);
    if (isGone) set.delete(metadata.uid);
    else set.add(metadata.uid);
    if (set.size >= Number(metadata.annotations?.[annotationKeys.commitSize])) for (const uid of set) whole.add(uid);
  };
  return {
    delivered: (actor, life, { resource, object, gone }) => {
      if (resource !== "/pods") return;
      const pod = object;
      const who = `${actor}|${life}`;
      const mine = reported.get(who) ?? new Map<string, ReportedPod>();
      reported.set(who, mine);
      const known = mine.get(pod.metadata.uid);
      const isGone = gone || hasEnded(pod);
      if (known !== undefined && isGone) known.goneUs = Math.min(known.goneUs, nowUs());
      if (known !== undefined || isGone || !isBound(pod)) return;
      mine.set(pod.metadata.uid, { unit: unitNameOf(pod), boundUs: nowUs(), goneUs: Number.POSITIVE_INFINITY });
    },
    commit: ({ type, event, call }) => {
      if (event.current.resource === requestsKey)
        noteRequest((event.previous ?? event.current).object(), type === "DELETED");
      if (event.current.resource !== "/pods" || type !== "MODIFIED") return undefined;
      const now = event.current.object();
      const before = event.previous?.object();
      const name = unitNameOf(now);
      const min = unitsOf(groupOf(store, now)).find((each) => each.name === name)?.min ?? 1;
      if (min < 2 || !isBound(now) || before === undefined || isBound(before)) return undefined;
      if (whole.has(requestOf(store, now)?.metadata.uid ?? "")) return undefined;
      const decided = members(store, name).filter((pod) => isBound(pod) || requestOf(store, pod) !== undefined).length;
      if (decided >= min || knownBound(call, name) + 1 >= min) return undefined;
      return `${now.metadata.name} was bound while ${decided} of ${min} pods of ${name} have a place`;
    },
  };
}

/** The units that start together: a gang, or each of its subgroups of pods. */
function unitsOf(group: PodGroup | undefined): { readonly name: string; readonly min: number }[] {
  if (group === undefined) return [];
  const { minMember, subGroups = [] } = group.spec ?? {};
  const { name } = group.metadata;
  if (subGroups.length === 0) return [{ name, min: minMember ?? 1 }];
  return subGroups.map((each) => ({ name: `${name}/${each.name}`, min: each.minMember ?? 1 }));
}

function unitNameOf({ metadata }: Pod): string {
  const subGroup = metadata.labels?.[labelKeys.subGroup];
  const group = metadata.annotations?.[annotationKeys.podGroup] ?? "";
  return subGroup === undefined ? group : `${group}/${subGroup}`;
}

function members(store: ObjectStore, unit: string): Pod[] {
  return pods(store).filter((pod) => unitNameOf(pod) === unit && !hasEnded(pod));
}

function requestOf(store: ObjectStore, { metadata }: Pod): BindRequest | undefined {
  const found = store.get(requestsKey, metadata.namespace ?? "", metadata.name)?.object();
  const request = found;
  return request !== undefined && podUidOf(request) === metadata.uid ? request : undefined;
}

/** The status of a queue equals the requests of its pods. */
export const queuesAddUp: Invariant = {
  id: "I10",
  fact: "at rest the allocated GPUs in the status of a queue are those of its running pods",
  begin: ({ store }) => ({
    atRest: () => {
      const byQueue = new Map<string, number>();
      for (const pod of pods(store)) {
        const group = pod.metadata.annotations?.[annotationKeys.podGroup];
        if (group === undefined || hasEnded(pod) || pod.spec?.nodeName === undefined) continue;
        if (pod.metadata.deletionTimestamp !== undefined) continue;
        const found = store.get(groupsKey, pod.metadata.namespace ?? "", group)?.object() as PodGroup | undefined;
        const queue = found?.spec?.queue ?? "";
        const share = Number(pod.metadata.annotations?.[annotationKeys.gpuFraction] ?? "0") * 1000;
        byQueue.set(queue, (byQueue.get(queue) ?? 0) + gpusOf(pod) * 1000 + share);
      }
      for (const queue of all<Queue>(store, queuesKey)) {
        if ((queue.status?.childQueues?.length ?? 0) > 0) continue;
        const reported = milli(queue.status?.allocated?.[gpuName]);
        const has = byQueue.get(queue.metadata.name) ?? 0;
        if (reported !== has)
          return `queue ${queue.metadata.name} says ${reported} thousandths of GPUs, its pods have ${has}`;
      }
      return undefined;
    },
  }),
};

/** Another pod may have the name by now. */
export const bindsTheSamePod = (held: Held): Invariant => ({
  id: "I7",
  fact: "a bind applies to the UID that its author had observed under that name",
  begin: () => ({
    commit: ({ call, event }) => {
      if (call.verb !== "bind" || !held(call.actor)) return undefined;
      const { uid } = event.current.side;
      if (call.seen?.uid === uid) return undefined;
      return `${call.actor} bound ${event.current.key}, which is not the pod that it had observed`;
    },
  }),
});

export const placementEnds: Invariant = {
  id: "I11",
  fact: "at rest every BindRequest has ended",
  begin: ({ store }) => ({
    atRest: () => {
      for (const request of all<BindRequest>(store, requestsKey)) {
        if (request.status?.phase !== "Succeeded" && !isFinallyFailed(request)) {
          return `BindRequest ${request.metadata.name} has not ended`;
        }
      }
      return undefined;
    },
  }),
};

/** A pending pod has a condition with the reason, and no other pod has one. */
export const reasonsAreCurrent: Invariant = {
  id: "I18",
  fact: "at rest every pending pod has a reason in its condition, and no other pod has",
  begin: ({ store }) => ({
    atRest: () => {
      for (const pod of pods(store)) {
        const scheduler = pod.spec?.schedulerName;
        if ((scheduler !== kaiSchedulerName && scheduler !== defaultSchedulerName) || hasEnded(pod)) continue;
        if (pod.metadata.deletionTimestamp !== undefined) continue;
        const condition = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
        const isBound = (pod.spec?.nodeName ?? "") !== "";
        if (isBound && condition?.status === "False")
          return `${pod.metadata.name} is bound and has the condition Unschedulable`;
        if (isBound || isInIncompleteGang(store, pod)) continue;
        if (condition?.status !== "False" || (condition.message ?? "") === "")
          return `${pod.metadata.name} is pending without a reason`;
      }
      return undefined;
    },
  }),
};

/** Whether its group waits for pods that do not exist; an Event on the group reports it. */
export function isInIncompleteGang(store: ObjectStore, pod: Pod): boolean {
  const name = pod.metadata.annotations?.[annotationKeys.podGroup] ?? "";
  const group = store.get(groupsKey, pod.metadata.namespace ?? "", name)?.object() as PodGroup | undefined;
  return members(store, name).length < (group?.spec?.minMember ?? 1);
}

/**
 * Every victim is evicted for a preemptor that runs now or was deleted. The preemptor is nominated before the first
 * victim is evicted, and the victim names its preemptor: a nomination by an abandoned plan does not count. The pods of
 * a gang are nominated together, and any of them may take what was freed for the gang. When one of them is deleted
 * before it is bound, the gang has no right to the place any more: the room was made for other pods than it has now.
 * The same holds for the pods of a group that is deleted, even if a group of the same name is created for them.
 */
export const evictionsServe = (held: Held): Invariant => ({
  id: "I16",
  fact: "a pod is evicted only for a nominated pod, and at rest no preemptor is pending",
  begin: ({ store, nowUs }) => {
    /** When groups that ran below their minimum were last reported as such, by `namespace/name`. */
    const flaggedUntil = new Map<string, number>();
    /** When pods last waited with a nomination, by UID. */
    const nominatedUntil = new Map<string, number>();
    /** When the last node was lost. */
    let lossUs = Number.NEGATIVE_INFINITY;
    /** UIDs of pods for which victims may have been evicted, with their groups. */
    const promised = new Map<string, string>();
    const withdraw = (group: string): void => {
      for (const [uid, other] of promised) if (other === group) promised.delete(uid);
    };
    const leaves = (pod: Pod): void => {
      const group = promised.get(pod.metadata.uid);
      if (group === undefined || !isWaiting(pod)) return;
      withdraw(group);
    };
    return {
      commit: ({ type, event, call }) => {
        // A node takes the places with it that were promised.
        if (event.current.resource === "/nodes" && type === "DELETED") {
          promised.clear();
          lossUs = nowUs();
        }
        if (event.current.resource === groupsKey && type === "DELETED") withdraw(event.current.side.uid);
        const before: PodGroup | undefined =
          event.current.resource === groupsKey ? event.previous?.object() : undefined;
        if (before !== undefined && isFlagged(before))
          flaggedUntil.set(`${before.metadata.namespace}/${before.metadata.name}`, nowUs());
        if (event.current.resource !== "/pods") return undefined;
        const pod = event.previous?.object() as Pod | undefined;
        if (pod !== undefined && isWaiting(pod) && pod.status?.nominatedNodeName !== undefined)
          nominatedUntil.set(pod.metadata.uid, nowUs());
        if (call.verb !== "delete") return undefined;
        if (!held(call.actor)) {
          leaves((event.previous ?? event.current).object());
          return undefined;
        }
        const victim = (event.previous ?? event.current).object();
        if (type !== "DELETED" && victim.metadata.deletionTimestamp !== undefined) return undefined;
        const winners = winnersOf(store, victim);
        for (const pod of call.requestedUs > lossUs ? winners : [])
          promised.set(pod.metadata.uid, groupOf(store, pod)?.metadata.uid ?? pod.metadata.uid);
        // A call waits in the queue of its client, or is sent again when its outcome is known.
        const nominatedUs = nominatedUntil.get(preemptorOf(victim).uid) ?? Number.NEGATIVE_INFINITY;
        if (nominatedUs + readUsMax >= call.requestedUs) return undefined;
        const groupId = `${victim.metadata.namespace}/${victim.metadata.annotations?.[annotationKeys.podGroup]}`;
        const flaggedUs = flaggedUntil.get(groupId) ?? Number.NEGATIVE_INFINITY;
        const wasFlagged = flaggedUs + decidedUsMax >= call.requestedUs;
        if (winners.length > 0 || isFlagged(groupOf(store, victim)) || wasFlagged) return undefined;
        return `${victim.metadata.name} was evicted, and no pod is nominated for its place`;
      },
      atRest: () => {
        for (const pod of pods(store)) {
          const { name, uid } = pod.metadata;
          if (!isWaiting(pod) || isInIncompleteGang(store, pod)) continue;
          const { nominatedNodeName: node } = pod.status ?? {};
          if (node !== undefined) return `${name} is nominated to ${node}, and it is still pending`;
          if (!promised.has(uid)) continue;
          const group = groupOf(store, pod);
          const bound = members(store, group?.metadata.name ?? "").filter(isBound).length;
          if (bound < (group?.spec?.minMember ?? 1)) return `pods were evicted for ${name}, and it is still pending`;
        }
        return undefined;
      },
    };
  },
});

/**
 * A deleted workload never runs: its pods stay pending until the garbage collector deletes them. A read of the owner
 * may be `lookMs` old when the eviction that rests on it is sent.
 */
export const noEvictionForDeletedOwners = (held: Held, lookMs = 5_000): Invariant => ({
  id: "I16",
  fact: "no pod is evicted for a pod whose owner is deleted",
  begin: ({ store, nowUs }) => {
    /** The times when owners were deleted, by UID. */
    const goneUs = new Map<string, number>();
    return {
      commit: ({ type, event, call }) => {
        if (event.current.resource === "batch/jobs" && type === "DELETED") {
          goneUs.set(event.current.side.uid, nowUs());
        }
        if (event.current.resource !== "/pods" || call.verb !== "delete" || !held(call.actor)) return undefined;
        const victim = (event.previous ?? event.current).object();
        if (type !== "DELETED" && victim.metadata.deletionTimestamp !== undefined) return undefined;
        for (const { metadata } of winnersOf(store, victim)) {
          const owner = metadata.ownerReferences?.find(({ uid }) => goneUs.has(uid));
          if (owner === undefined || call.requestedUs - (goneUs.get(owner.uid) ?? 0) < lookMs * 1000) continue;
          return `${victim.metadata.name} was evicted for ${metadata.name}, whose ${owner.kind} ${owner.name} is deleted`;
        }
        return undefined;
      },
    };
  },
});

/** The pod that a victim names as its preemptor. */
function preemptorOf({ metadata }: Pod): { readonly key: string; readonly uid: string } {
  const [, key = "", uid = ""] = (metadata.annotations?.[annotationKeys.evictedFor] ?? "").split(" ");
  return { key, uid };
}

/** The nominated pods of the job that a victim names as its preemptor. */
function winnersOf(store: ObjectStore, victim: Pod): Pod[] {
  const { key, uid } = preemptorOf(victim);
  const waiting = pods(store).filter((pod) => isWaiting(pod) && pod.status?.nominatedNodeName !== undefined);
  const holder = waiting.find((pod) => pod.metadata.uid === uid && key.endsWith(`/${pod.metadata.name}`));
  if (holder === undefined) return [];
  const group = holder.metadata.annotations?.[annotationKeys.podGroup];
  return waiting.filter((pod) => pod === holder || pod.metadata.annotations?.[annotationKeys.podGroup] === group);
}

function isWaiting(pod: Pod): boolean {
  return !isBound(pod) && pod.metadata.deletionTimestamp === undefined && !hasEnded(pod);
}

function isBound({ spec }: Pod): boolean {
  return (spec?.nodeName ?? "") !== "";
}

function groupOf(store: ObjectStore, { metadata }: Pod): PodGroup | undefined {
  const name = metadata.annotations?.[annotationKeys.podGroup] ?? "";
  return store.get(groupsKey, metadata.namespace ?? "", name)?.object();
}

/** Whether a condition reports that the group runs below its minimum. */
function isFlagged(group: PodGroup | undefined): boolean {
  const { annotations } = group?.metadata ?? {};
  return [annotationKeys.staleSince, annotationKeys.staleSubGroups].some((key) => annotations?.[key] !== undefined);
}

function gpusOf({ spec }: Pod): number {
  return Number(spec?.containers[0]?.resources?.requests?.[gpuName] ?? "0");
}

function milli(text: string | undefined): number {
  if (text === undefined) return 0;
  return text.endsWith("m") ? Number(text.slice(0, -1)) : Number(text) * 1000;
}

function hasEnded({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function pods(store: ObjectStore): Pod[] {
  return all<Pod>(store, "/pods");
}

function all<T>(store: ObjectStore, key: string): T[] {
  return [...store.collection(key).all()].map((version) => version.object() as T);
}

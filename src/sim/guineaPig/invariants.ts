import type { Version } from "../../apiserver/storage/version.ts";
import type { KubeObject } from "../../model/object.ts";
import type { Invariant } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";
import { controllerOf, hasEnded, isClaimed } from "./podSet.ts";

const pods = "/pods";
const sets = "apps/replicasets";

/** I13: whoever uses a pod has said so on it. */
export const claimedPodsStay = (held: Held): Invariant => ({
  id: "I13",
  fact: "a controller does not delete a pod that somebody uses",
  begin: () => ({
    commit: ({ type, call, event }) => {
      if (type !== "DELETED" || event.current.resource !== pods || !held(call.actor)) return undefined;
      const pod = event.previous?.object();
      if (pod === undefined || !isClaimed(pod)) return undefined;
      return `${call.actor} deleted ${event.current.key}, which is in use`;
    },
  }),
});

/** I21: pods and sets arrive by different streams, so a set that is not in the cache may well exist. */
export const absenceIsAsked = (held: Held): Invariant => ({
  id: "I21",
  fact: "not known is not gone: no pod dies as an orphan while its set is alive",
  begin: ({ store }) => {
    /** Who has ever heard of which set. */
    const heard = new Set<string>();
    return {
      learned: (actor, life, { resource, object }) => {
        if (resource === sets) heard.add(`${actor}|${life}|${object.metadata.uid}`);
      },
      commit: ({ type, call, event }) => {
        if (type !== "DELETED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const pod = event.previous?.object();
        const owner = pod === undefined ? undefined : controllerOf(pod);
        if (pod === undefined || owner === undefined || hasEnded(pod)) return undefined;
        if (store.get(sets, "default", owner.name)?.side.uid !== owner.uid) return undefined;
        // Who knows the set may have found the pod to be one too many.
        if (heard.has(`${call.actor}|${call.life}|${owner.uid}`)) return undefined;
        return `${call.actor} deleted ${event.current.key}; its set ${owner.name} (${short(owner.uid)}) is alive and was never asked for`;
      },
    };
  },
});

/** How long a decision may take from the picture to the wire, retries included. */
const decisionUs = 20_000_000;

/**
 * I19: our own writes count from the moment we were told of them. Nobody can be blamed for a pod that he could not know
 * of, so a create is judged by what its author had been told when he sent it.
 */
export const ownWritesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a set by somebody who knows of enough pods of it",
  begin: ({ store, nowUs }) => {
    const toldPods = new Map<string, number>();
    const toldReplicas = new Map<string, { atUs: number; replicas: number }[]>();
    return {
      learned: (actor, life, { resource, object, via }) => {
        const { uid } = object.metadata;
        const key = `${actor}|${life}|${uid}`;
        if (resource === pods && !toldPods.has(key)) toldPods.set(key, nowUs());
        if (resource !== sets || via !== "stream") return;
        const told = toldReplicas.get(key) ?? [];
        told.push({ atUs: nowUs(), replicas: replicasOf(object) });
        toldReplicas.set(key, told);
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const owner = controllerOf(event.current.object());
        if (owner === undefined) return undefined;
        const who = `${call.actor}|${call.life}`;
        const told = toldReplicas.get(`${who}|${owner.uid}`) ?? [];
        let wanted = 0;
        told.forEach(({ atUs, replicas }, at) => {
          if (atUs > call.sentUs) return;
          const next = told[at + 1];
          // What was superseded long before cannot have been the reason.
          if (next === undefined || next.atUs >= call.sentUs - decisionUs) wanted = Math.max(wanted, replicas);
        });
        let known = 0;
        for (const pod of livePods(store.collection(pods).all(), owner.uid)) {
          if ((toldPods.get(`${who}|${pod.side.uid}`) ?? Number.POSITIVE_INFINITY) < call.sentUs) known++;
        }
        if (known < wanted || wanted === 0) return undefined;
        return `${call.actor} created ${event.current.key} for ${owner.name}, which asks for ${wanted}, and knew of ${known} live pods`;
      },
    };
  },
});

/** I17: what the controller is for. */
export const setsAreFilled: Invariant = {
  id: "I17",
  fact: "at rest every set has exactly the pods that it asks for, and no pod lacks its set",
  begin: ({ store }) => ({
    atRest: () => {
      const known = new Map([...store.collection(sets).all()].map((set) => [set.side.uid, set]));
      for (const set of known.values()) {
        const live = [...livePods(store.collection(pods).all(), set.side.uid)].length;
        const wanted = replicasOf(set.object());
        if (live !== wanted) return `${set.key} asks for ${wanted} pods and has ${live}`;
      }
      for (const pod of store.collection(pods).all()) {
        const owner = controllerOf(pod.object());
        if (owner !== undefined && !known.has(owner.uid)) return `${pod.key} belongs to a set that is gone`;
      }
      return undefined;
    },
  }),
};

function* livePods(versions: Iterable<Version>, setUid: string): Generator<Version> {
  for (const version of versions) {
    const pod = version.object();
    if (controllerOf(pod)?.uid !== setUid) continue;
    if (pod.metadata.deletionTimestamp === undefined && !hasEnded(pod)) yield version;
  }
}

function replicasOf(set: KubeObject): number {
  return (set["spec"] as { replicas?: number }).replicas ?? 1;
}

import type { Version } from "../../apiserver/storage/version.ts";
import type { OwnerReference } from "../../model/objects/object.ts";
import type { CallRecord } from "../history.ts";
import type { Invariant, Told } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";
import { controllerOf, hasEnded, isClaimed, isGoing, replicasOf } from "./podSetObjects.ts";

const pods = "/pods";
const sets = "apps/replicasets";

/** I13: a user of a pod has recorded itself on it. */
export const claimedPodsStay = (held: Held): Invariant => ({
  id: "I13",
  fact: "a controller does not delete a pod that is in use",
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
    /** Which process has ever observed which set. */
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
        // A process that knows the set may have found the pod to be surplus.
        if (heard.has(`${call.actor}|${call.life}|${owner.uid}`)) return undefined;
        return `${call.actor} deleted ${event.current.key}; its set ${owner.name} (${short(owner.uid)}) is alive and was never asked for`;
      },
    };
  },
});

/** How long a decision may take from the picture to the wire, retries included. */
const decisionUs = 20_000_000;

/** The replicas that each process has observed in sets. */
class ToldReplicas {
  private readonly told = new Map<string, { atUs: number; replicas: number }[]>();

  learned(who: string, { resource, object, via }: Told, atUs: number): void {
    if (resource !== sets || via !== "stream") return;
    const key = `${who}|${object.metadata.uid}`;
    const told = this.told.get(key) ?? [];
    told.push({ atUs, replicas: replicasOf(object) });
    this.told.set(key, told);
  }

  /** The most that may have been the reason for a call: what was superseded long before cannot have been it. */
  wantedBy(call: CallRecord, setUid: string): number {
    const told = this.told.get(`${whoOf(call)}|${setUid}`) ?? [];
    let wanted = 0;
    told.forEach(({ atUs, replicas }, at) => {
      if (atUs > call.askedUs) return;
      const next = told[at + 1];
      if (next === undefined || next.atUs >= call.askedUs - decisionUs) wanted = Math.max(wanted, replicas);
    });
    return wanted;
  }
}

/**
 * I19: own writes count from the moment they are acknowledged. A process cannot know of a pod that it has not observed,
 * so a create is judged by what its author had observed when it sent it.
 */
export const ownWritesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a set by a controller that knows of enough pods of it",
  begin: ({ store, nowUs }) => {
    const toldPods = new Map<string, number>();
    const toldReplicas = new ToldReplicas();
    const own = new Set<string>();
    return {
      learned: (actor, life, told) => {
        const key = `${actor}|${life}|${told.object.metadata.uid}`;
        // Objects of other actors count when a watch has delivered them: a read of one object does not.
        const counts = told.resource === pods && (told.via === "stream" || own.has(key));
        if (counts && !toldPods.has(key)) toldPods.set(key, nowUs());
        toldReplicas.learned(`${actor}|${life}`, told, nowUs());
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const owner = controllerOf(event.current.object());
        if (owner === undefined) return undefined;
        own.add(`${whoOf(call)}|${event.current.side.uid}`);
        const wanted = toldReplicas.wantedBy(call, owner.uid);
        let known = 0;
        for (const pod of livePods(store.collection(pods).all(), owner.uid)) {
          if ((toldPods.get(`${whoOf(call)}|${pod.side.uid}`) ?? Number.POSITIVE_INFINITY) < call.askedUs) known++;
        }
        if (known < wanted || wanted === 0) return undefined;
        return `${call.actor} created ${event.current.key} for ${owner.name}, which asks for ${wanted}, and knew of ${known} live pods`;
      },
    };
  },
});

/** What one actor created, or may yet create, under one name. */
interface Made {
  /** Calls that may still land. */
  onTheWay: number;
  /** UIDs that came of them. */
  readonly uids: Set<string>;
  /** Whether its author has observed a pod of this name: what it then counts depends on the watch. */
  isTold: boolean;
}

/**
 * I19: own creates count from the moment they are sent, acknowledged or not. A create without an answer may have
 * landed, or may land later, and a second create in its place is one too many.
 */
export const ownCreatesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a set while enough pods that its author made live or may still come",
  begin: ({ store, nowUs }) => {
    const toldReplicas = new ToldReplicas();
    /** By author and name. */
    const made = new Map<string, Made>();
    /** Names that an author has sent for a set. */
    const names = new Map<string, Set<string>>();
    const isOrMayCome = (who: string, name: string, setUid: string): boolean => {
      const { onTheWay, uids, isTold } = made.get(`${who}|${name}`) as Made;
      if (onTheWay > 0 && !isTold) return true;
      const version = store.get(pods, "default", name);
      return version !== undefined && uids.has(version.side.uid) && isLivePodOf(version, setUid);
    };
    return {
      learned: (actor, life, told) => {
        toldReplicas.learned(`${actor}|${life}`, told, nowUs());
        if (told.resource !== pods) return;
        const mine = made.get(`${actor}|${life}|${told.object.metadata.name}`);
        if (mine !== undefined) mine.isTold = true;
      },
      sent: (call) => {
        const owner = ownerOfCreated(call, held);
        const name = call.object?.metadata.name;
        if (owner === undefined || name === undefined) return undefined;
        const who = whoOf(call);
        const set = `${who}|${owner.uid}`;
        const others = names.get(set) ?? new Set();
        let count = 0;
        for (const other of others) if (other !== name && isOrMayCome(who, other, owner.uid)) count++;
        names.set(set, others.add(name));
        const mine = made.get(`${who}|${name}`) ?? { onTheWay: 0, uids: new Set<string>(), isTold: false };
        mine.onTheWay++;
        made.set(`${who}|${name}`, mine);
        const wanted = toldReplicas.wantedBy(call, owner.uid);
        if (count < wanted || wanted === 0) return undefined;
        return `${call.actor} creates ${name} for ${owner.name}, which asks for ${wanted}, and ${count} others that it made live or may still come`;
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || ownerOfCreated(call, held) === undefined) return undefined;
        made.get(`${whoOf(call)}|${event.current.name}`)?.uids.add(event.current.side.uid);
        return undefined;
      },
      over: (call) => {
        const mine = made.get(`${whoOf(call)}|${call.object?.metadata.name}`);
        if (mine !== undefined && ownerOfCreated(call, held) !== undefined) mine.onTheWay--;
      },
    };
  },
});

function ownerOfCreated(call: CallRecord, held: Held): OwnerReference | undefined {
  if (call.object === undefined || !held(call.actor) || !call.key.startsWith(`${pods}/`)) return undefined;
  return controllerOf(call.object);
}

/** A process in one of its lives: what an earlier life did is not known to it. */
function whoOf({ actor, life }: CallRecord): string {
  return `${actor}|${life}`;
}

/** I10: usage is what there is. An intent that lost to another one no longer counts, in doubt or not. */
export const removedIsRemoved: Invariant = {
  id: "I10",
  fact: "a pod whose removal was acknowledged does not count for the process that removed it",
  begin: () => {
    /** By actor and life: the keys that are gone, until it observes another pod of that name. */
    const removed = new Map<string, Set<string>>();
    /** The UID that an actor last observed, by actor and key. */
    const shown = new Map<string, string>();
    const goneFor = (actor: string): Set<string> => {
      const gone = removed.get(actor) ?? new Set();
      removed.set(actor, gone);
      return gone;
    };
    return {
      born: (actor) => {
        removed.delete(actor);
      },
      learned: (actor, _life, { resource, object, gone }) => {
        if (resource !== pods || gone) return;
        const owner = controllerOf(object)?.uid ?? "";
        // A namesake, made by force: whether it is the same pod is for other invariants to say.
        const key = `${owner}/${object.metadata.name}`;
        goneFor(actor).delete(key);
        shown.set(`${actor} ${key}`, object.metadata.uid);
      },
      observe: (actor, what, value) => {
        if (what === "removed") {
          const { key, uid } = value as { key: string; uid: string };
          // A namesake may have been shown before the answer came.
          if ((shown.get(`${actor} ${key}`) ?? uid) === uid) goneFor(actor).add(key);
        }
        const gone = removed.get(actor);
        if (what !== "counted" || gone === undefined || gone.size === 0) return undefined;
        const counted = (value as { keys(): string[] }).keys().find((key) => gone.has(key));
        return counted === undefined ? undefined : `${actor} counts ${counted}, which it has removed`;
      },
    };
  },
};

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
  for (const version of versions) if (isLivePodOf(version, setUid)) yield version;
}

function isLivePodOf(version: Version, setUid: string): boolean {
  const pod = version.object();
  return controllerOf(pod)?.uid === setUid && !isGoing(pod) && !hasEnded(pod);
}

import type { Version } from "../../apiserver/storage/version.ts";
import type { OwnerReference } from "../../model/objects/object.ts";
import type { CallRecord } from "../history.ts";
import type { Delivery, Invariant } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";
import { controllerOf, hasEnded, isClaimed, isTerminating, replicasOf } from "./podSetObjects.ts";

const pods = "/pods";
const sets = "apps/replicasets";

/** I13: a user of a pod records itself on the pod. */
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

/** I21: pods and sets are watched by different streams, so a set that is not in the cache may exist. */
export const absenceIsAsked = (held: Held): Invariant => ({
  id: "I21",
  fact: "not cached is not deleted: no pod is deleted as an orphan while its set exists",
  begin: ({ store }) => {
    /** The sets that each process has ever observed. */
    const observed = new Set<string>();
    return {
      delivered: (actor, life, { resource, object }) => {
        if (resource === sets) observed.add(`${actor}|${life}|${object.metadata.uid}`);
      },
      commit: ({ type, call, event }) => {
        if (type !== "DELETED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const pod = event.previous?.object();
        const owner = pod === undefined ? undefined : controllerOf(pod);
        if (pod === undefined || owner === undefined || hasEnded(pod)) return undefined;
        if (store.get(sets, "default", owner.name)?.side.uid !== owner.uid) return undefined;
        // A process that has observed the set may have deleted the pod as surplus.
        if (observed.has(`${call.actor}|${call.life}|${owner.uid}`)) return undefined;
        return `${call.actor} deleted ${event.current.key}; its set ${owner.name} (${short(owner.uid)}) exists and was never read`;
      },
    };
  },
});

/** The time from a snapshot to the request that is decided from it, retries included. */
const decisionUs = 20_000_000;

/** The replicas that each process has observed in sets. */
class ObservedReplicas {
  private readonly observed = new Map<string, { atUs: number; replicas: number }[]>();

  delivered(who: string, { resource, object, via }: Delivery, atUs: number): void {
    if (resource !== sets || via !== "stream") return;
    const key = `${who}|${object.metadata.uid}`;
    const observed = this.observed.get(key) ?? [];
    observed.push({ atUs, replicas: replicasOf(object) });
    this.observed.set(key, observed);
  }

  /** The largest number of replicas that a call may rest on; states that were superseded long before are left out. */
  wantedBy(call: CallRecord, setUid: string): number {
    const observed = this.observed.get(`${whoOf(call)}|${setUid}`) ?? [];
    let wanted = 0;
    observed.forEach(({ atUs, replicas }, at) => {
      if (atUs > call.requestedUs) return;
      const next = observed[at + 1];
      if (next === undefined || next.atUs >= call.requestedUs - decisionUs) wanted = Math.max(wanted, replicas);
    });
    return wanted;
  }
}

/**
 * I19: a process counts its own writes from their acknowledgement. A create is judged by the pods that its author had
 * observed when it was sent.
 */
export const ownWritesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a set by a controller that has observed enough pods of it",
  begin: ({ store, nowUs }) => {
    const toldPods = new Map<string, number>();
    const observedReplicas = new ObservedReplicas();
    const own = new Set<string>();
    return {
      delivered: (actor, life, observed) => {
        const key = `${actor}|${life}|${observed.object.metadata.uid}`;
        // Objects of other actors count when a watch has delivered them: a read of one object does not.
        const counts = observed.resource === pods && (observed.via === "stream" || own.has(key));
        if (counts && !toldPods.has(key)) toldPods.set(key, nowUs());
        observedReplicas.delivered(`${actor}|${life}`, observed, nowUs());
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const owner = controllerOf(event.current.object());
        if (owner === undefined) return undefined;
        own.add(`${whoOf(call)}|${event.current.side.uid}`);
        const wanted = observedReplicas.wantedBy(call, owner.uid);
        let known = 0;
        for (const pod of livePods(store.collection(pods).all(), owner.uid)) {
          if ((toldPods.get(`${whoOf(call)}|${pod.side.uid}`) ?? Number.POSITIVE_INFINITY) < call.requestedUs) known++;
        }
        if (known < wanted || wanted === 0) return undefined;
        return `${call.actor} created ${event.current.key} for ${owner.name}, which wants ${wanted}, and had observed ${known} live pods`;
      },
    };
  },
});

/** The creates of one actor under one name, and their results. */
interface Made {
  /** Calls that may still take effect. */
  onTheWay: number;
  /** UIDs of the created pods. */
  readonly uids: Set<string>;
  /** Whether the author has observed a pod of this name; from then on its count depends on the watch. */
  isTold: boolean;
}

/**
 * I19: a process counts its own creates from the moment they are sent. A create without a response may have taken
 * effect, or may do so later, so another create in its place would be one too many.
 */
export const ownCreatesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a set while enough pods of the same author exist or may still be created",
  begin: ({ store, nowUs }) => {
    const observedReplicas = new ObservedReplicas();
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
      delivered: (actor, life, observed) => {
        observedReplicas.delivered(`${actor}|${life}`, observed, nowUs());
        if (observed.resource !== pods) return;
        const mine = made.get(`${actor}|${life}|${observed.object.metadata.name}`);
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
        const wanted = observedReplicas.wantedBy(call, owner.uid);
        if (count < wanted || wanted === 0) return undefined;
        return `${call.actor} creates ${name} for ${owner.name}, which wants ${wanted}, and ${count} others of the same author exist or may still be created`;
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

/** A process between two restarts: it does not know what it did before a restart. */
function whoOf({ actor, life }: CallRecord): string {
  return `${actor}|${life}`;
}

/**
 * I10: only existing pods count as usage. An intent that was superseded does not count, even if its outcome is unknown.
 */
export const removedIsRemoved: Invariant = {
  id: "I10",
  fact: "a pod whose removal was acknowledged does not count for the process that removed it",
  begin: () => {
    /** By actor and life: keys of removed pods, until the actor observes another pod of that name. */
    const removed = new Map<string, Set<string>>();
    /** The UID that an actor last observed, by actor and key. */
    const shown = new Map<string, string>();
    const goneFor = (actor: string): Set<string> => {
      const gone = removed.get(actor) ?? new Set();
      removed.set(actor, gone);
      return gone;
    };
    return {
      started: (actor) => {
        removed.delete(actor);
      },
      delivered: (actor, _life, { resource, object, gone }) => {
        if (resource !== pods || gone) return;
        const owner = controllerOf(object)?.uid ?? "";
        // Another pod of this name, created after a force-delete; other invariants check its UID.
        const key = `${owner}/${object.metadata.name}`;
        goneFor(actor).delete(key);
        shown.set(`${actor} ${key}`, object.metadata.uid);
      },
      observe: (actor, what, value) => {
        if (what === "removed") {
          const { key, uid } = value as { key: string; uid: string };
          // Another pod of this name may have been observed before the response arrived.
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

/** I17: the purpose of the controller. */
export const setsAreFilled: Invariant = {
  id: "I17",
  fact: "at rest every set has exactly the pods that it wants, and every owned pod has its set",
  begin: ({ store }) => ({
    atRest: () => {
      const known = new Map([...store.collection(sets).all()].map((set) => [set.side.uid, set]));
      for (const set of known.values()) {
        const live = [...livePods(store.collection(pods).all(), set.side.uid)].length;
        const wanted = replicasOf(set.object());
        if (live !== wanted) return `${set.key} wants ${wanted} pods and has ${live}`;
      }
      for (const pod of store.collection(pods).all()) {
        const owner = controllerOf(pod.object());
        if (owner !== undefined && !known.has(owner.uid)) return `${pod.key} belongs to a deleted set`;
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
  return controllerOf(pod)?.uid === setUid && !isTerminating(pod) && !hasEnded(pod);
}

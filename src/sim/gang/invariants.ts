import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { cliqueName, groupName, memberName } from "../../decide/gang/names.ts";
import { gangGate, labels } from "../../model/gang/keys.ts";
import {
  groupReplicaOf,
  groupReplicas,
  groupsOf,
  replicasOf,
  setReplicaOf,
  standaloneCliques,
} from "../../model/gang/setFacts.ts";
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type {
  GangTermination,
  PodClique,
  PodCliqueScalingGroup,
  PodCliqueSet,
  PodGang,
} from "../../model/gang/types.ts";
import type { CoreEvent, Node, Pod } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { isFinished, isReady } from "../../model/objects/podFacts.ts";
import { defaultSchedulerName } from "../../model/scheduling/keys.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import type { Commit } from "../history.ts";
import type { Invariant } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";
import { gangDelayMs } from "./user.ts";

const pods = "/pods";
const sets = "grove.io/podcliquesets";
const cliques = "grove.io/podcliques";
const groups = "grove.io/podcliquescalinggroups";
const gangs = "scheduler.grove.io/podgangs";
/** The time from a snapshot to the request that is decided from it, retries included. */
const decisionUs = 20_000_000;

function all<T>(store: ObjectStore, resource: string): T[] {
  return [...store.collection(resource).all()].map((version) => version.object() as T);
}

const hasGate = ({ spec }: Pod): boolean => (spec?.schedulingGates ?? []).some(({ name }) => name === gangGate);
const isTerminating = ({ metadata }: { metadata: { deletionTimestamp?: string } }): boolean =>
  metadata.deletionTimestamp !== undefined;
/** Whether the pod is on a node that runs it. Checked at rest, when all tolerations have expired. */
const isScheduled = (store: ObjectStore, pod: Pod): boolean =>
  !isFinished(pod) && !isTerminating(pod) && isNodeUp(store, pod.spec?.nodeName ?? "");

function isNodeUp(store: ObjectStore, name: string): boolean {
  const node = store.get("/nodes", "", name)?.object() as Node | undefined;
  return node?.status?.conditions?.find(({ type }) => type === "Ready")?.status === "True";
}

/** Whether the pod is terminating on a node without a running kubelet. */
const isStranded = (store: ObjectStore, pod: Pod): boolean =>
  isTerminating(pod) && (pod.spec?.nodeName ?? "") !== "" && !isNodeUp(store, pod.spec?.nodeName ?? "");

const areAllNodesDown = (store: ObjectStore): boolean =>
  [...store.collection("/nodes").all()].every(({ name }) => !isNodeUp(store, name));

const isUpdating = ({ status }: PodClique | PodCliqueScalingGroup): boolean =>
  status?.updateProgress !== undefined && status.updateProgress.updateEndedAt === undefined;
const conditionOf = (object: PodClique | PodCliqueScalingGroup, type: string) =>
  object.status?.conditions?.find((condition) => condition.type === type);

/**
 * I4: no pod is scheduled before its gang exists. Judged by what the author had observed: the gang may be deleted while
 * the write is in flight.
 */
export const gatesWaitForTheGang = (held: Held): Invariant => ({
  id: "I4",
  fact: "a scheduling gate is removed only when the gang lists the pod and, without a gang scheduler, was initialized; for scaled gangs, when the base gang has its minimum",
  begin: ({ nowUs }) => {
    const observed = new ObservedStates(nowUs);
    return {
      delivered: (actor, life, { resource, object, gone }) => {
        if (resource !== gangs && resource !== cliques) return;
        observed.add(`${actor}|${life}|${resource}|${object.metadata.name}`, gone ? undefined : object);
      },
      commit: ({ type, call, event }) => {
        if (type !== "MODIFIED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const pod = event.current.object();
        const before = event.previous?.object();
        if (before === undefined || !hasGate(before) || hasGate(pod)) return undefined;
        const known = <T>(resource: string, name: string): T[] =>
          observed.knownBy(`${call.actor}|${call.life}|${resource}|${name}`, call.requestedUs) as T[];
        const name = pod.metadata.labels?.[labels.podGang] ?? "";
        const versions = known<PodGang>(gangs, name);
        const what = `${call.actor} removed the gate of ${event.current.key}`;
        if (versions.length === 0) return `${what}, and had not observed gang ${name}`;
        if (!versions.some((gang) => names(gang, pod))) return `${what}, and its gang ${name} does not list it`;
        // A gang scheduler waits for the other pods by itself.
        const { schedulerName = defaultSchedulerName } = (pod as Pod).spec ?? {};
        const isAlone = schedulerName === defaultSchedulerName;
        if (isAlone && !versions.some((gang) => names(gang, pod) && isWhole(gang)))
          return `${what}, and its gang ${name} was never initialized`;
        const base = pod.metadata.labels?.[labels.basePodGang];
        if (base === undefined) return undefined;
        const missing = known<PodGang>(gangs, base).map((gang) =>
          gang.spec.podgroups.find(
            (group) =>
              !known<PodClique>(cliques, group.name).some(
                ({ status }) => (status?.scheduledReplicas ?? 0) >= group.minReplicas,
              ),
          ),
        );
        if (missing.some((group) => group === undefined)) return undefined;
        return `${what}, and the base gang ${base} does not have its minimum${missing[0] ? ` of ${missing[0].name}` : ""}`;
      },
    };
  },
});

/** The states of objects that processes have observed, and until when each was the newest one. */
class ObservedStates {
  readonly #nowUs: () => number;
  readonly #states = new Map<string, { readonly atUs: number; readonly object: KubeObject | undefined }[]>();

  constructor(nowUs: () => number) {
    this.#nowUs = nowUs;
  }

  add(key: string, object: KubeObject | undefined): void {
    const states = this.#states.get(key) ?? [];
    states.push({ atUs: this.#nowUs(), object });
    this.#states.set(key, states);
  }

  /** The states that a decision may rest on whose write was requested at that time. */
  knownBy(key: string, requestedUs: number): KubeObject[] {
    const states = this.#states.get(key) ?? [];
    return states.flatMap(({ atUs, object }, at) => {
      const next = states[at + 1];
      const isOld = next !== undefined && next.atUs < requestedUs - decisionUs;
      return object === undefined || atUs > requestedUs || isOld ? [] : [object];
    });
  }
}

const names = ({ spec }: PodGang, { metadata }: Pod): boolean =>
  spec.podgroups.some(({ podReferences }) =>
    podReferences.some((each) => each.name === metadata.name && each.uid === metadata.uid),
  );

const isWhole = ({ status }: PodGang): boolean =>
  status?.conditions?.find((each) => each.type === "Initialized")?.status === "True";

/** I4: a gang below its minimum is reported. */
export const regressionsAreFlagged = (policy: FullLossPolicy): Invariant => ({
  id: "I4",
  fact: "the condition of a clique matches its pods: fewer than the minimum is a breach, none at all is what the policy says",
  begin: ({ store }) => ({
    // A status must be consistent in itself even when it is stale.
    commit: ({ type, event }) => {
      if (type === "DELETED" || event.current.resource !== cliques) return undefined;
      const clique = event.current.object() as PodClique;
      const { scheduledReplicas = 0 } = clique.status ?? {};
      if (conditionOf(clique, "MinAvailableBreached") === undefined) return undefined;
      // A user may change the spec between two reconciles.
      if (clique.status?.observedGeneration !== clique.metadata.generation) return undefined;
      if (isUpdating(clique)) {
        return conditionOf(clique, "MinAvailableBreached")?.status === "Unknown"
          ? undefined
          : `${clique.metadata.name} is being updated and says ${conditionText(clique)}`;
      }
      return contradiction(clique, scheduledReplicas, policy);
    },
    atRest: () => {
      for (const clique of all<PodClique>(store, cliques)) {
        const own = all<Pod>(store, pods).filter(({ metadata }) => controllerOf(metadata)?.uid === clique.metadata.uid);
        const scheduled = own.filter((pod) => isScheduled(store, pod)).length;
        const wrong = isUpdating(clique) ? undefined : contradiction(clique, scheduled, policy);
        if (wrong !== undefined) return wrong;
        const isStarting = conditionOf(clique, "MinAvailableBreached")?.reason === "InsufficientReadyPods";
        if (isStarting) return `${clique.metadata.name} is at rest and says ${conditionText(clique)}`;
        const counted = clique.status?.scheduledReplicas ?? 0;
        if (counted !== scheduled) return `${clique.metadata.name} has ${scheduled} scheduled and says ${counted}`;
      }
      return undefined;
    },
  }),
});

function contradiction(clique: PodClique, scheduled: number, policy: FullLossPolicy): string | undefined {
  const minimum = clique.spec.minAvailable ?? clique.spec.replicas;
  const isBelow = scheduled < minimum && !(scheduled === 0 && policy === "Suppress");
  const { status, reason } = conditionOf(clique, "MinAvailableBreached") ?? { status: "none", reason: "none" };
  const isReported = status === "True" && reason === "ScheduledReplicasBelowMinAvailable";
  if (isBelow === isReported) return undefined;
  return `${clique.metadata.name} with ${scheduled} of ${minimum} scheduled says ${conditionText(clique)}`;
}

function conditionText(clique: PodClique): string {
  const { status, reason } = conditionOf(clique, "MinAvailableBreached") ?? { status: "nothing", reason: "" };
  return `${status}/${reason}`;
}

/** I19: an Event is recorded exactly once. */
export const lossesAreReportedOnce: Invariant = {
  id: "I19",
  fact: "every loss of all scheduled replicas has exactly one Event; what an update or a termination deletes may have none",
  begin: ({ store }) => {
    const losses = new Map<string, number>();
    /** Steps to none by an update or a termination. */
    const doubtful = new Map<string, number>();
    const observed = new Map<string, number>();
    const scheduled = (object: KubeObject | undefined): number =>
      ((object?.["status"] ?? {}) as { scheduledReplicas?: number }).scheduledReplicas ?? 0;
    return {
      commit: ({ type, event }) => {
        const { resource } = event.current;
        if ((resource === cliques || resource === groups) && type === "MODIFIED") {
          const { uid } = event.current.side;
          if (scheduled(event.previous?.object()) > 0 && scheduled(event.current.object()) === 0) {
            const object = event.current.object() as PodClique;
            // The write was decided on an earlier state, in which a clique may have been lost and not deleted yet.
            const isReplaced = isUpdating(object) || (resource === groups && !isCliqueLost(store, object));
            const kept = isReplaced ? doubtful : losses;
            kept.set(uid, (kept.get(uid) ?? 0) + 1);
          }
          return undefined;
        }
        if (type !== "ADDED" || !resource.endsWith("/events")) return undefined;
        const { reason, involvedObject } = event.current.object() as CoreEvent;
        if (reason !== "AllScheduledReplicasLost") return undefined;
        const { name, uid = "" } = involvedObject;
        const count = (observed.get(uid) ?? 0) + 1;
        observed.set(uid, count);
        const happened = (losses.get(uid) ?? 0) + (doubtful.get(uid) ?? 0);
        if (count <= happened) return undefined;
        return `${name} (${short(uid)}) lost all scheduled replicas ${happened} times, and ${count} Events were recorded`;
      },
      atRest: () => {
        for (const object of [...all<PodClique>(store, cliques), ...all<PodClique>(store, groups)]) {
          const { uid, name } = object.metadata;
          const [happened, announced] = [losses.get(uid) ?? 0, observed.get(uid) ?? 0];
          if (announced < happened || announced > happened + (doubtful.get(uid) ?? 0))
            return `${name} lost all scheduled replicas ${happened} times, and ${announced} Events were recorded`;
        }
        return undefined;
      },
    };
  },
};

/** I19: the same for terminations. A record is removed from the status when its termination is over. */
export const terminationsAreReportedOnce: Invariant = {
  id: "I19",
  fact: "every termination of a replica of a set or group has exactly one Event",
  begin: ({ store }) => {
    const begun = new Map<string, Set<string>>();
    const over = new Map<string, Set<string>>();
    const told = new Map<string, number>();
    const add = (to: Map<string, Set<string>>, key: string, record: string): void => {
      to.set(key, (to.get(key) ?? new Set()).add(record));
    };
    const idsOf = (object: KubeObject | undefined): string[] =>
      recordsOf(object).map(
        ({ replicaIndex, startedAt, podCliques }) =>
          `${object?.metadata.uid} ${replicaIndex} ${startedAt} ${podCliques.map(({ uid }) => uid).join()}`,
      );
    return {
      commit: ({ type, event }) => {
        const { resource } = event.current;
        const object = event.current.object();
        if (resource === sets || resource === groups) {
          const set = resource === sets ? object.metadata : controllerOf(object.metadata);
          const key = `${resource === sets ? setEnds : groupEnds} ${set?.uid}`;
          for (const record of idsOf(object)) add(begun, key, record);
          if (type !== "MODIFIED") return undefined;
          const left = new Set(recordsOf(object).map(({ replicaIndex }) => replicaIndex));
          const before = event.previous?.object();
          for (const [at, { replicaIndex }] of recordsOf(before).entries()) {
            // A record that is replaced by a later one of the same replica continues in it.
            if (!left.has(replicaIndex)) add(over, key, idsOf(before)[at] ?? "");
          }
          return undefined;
        }
        if (type === "DELETED" || !resource.endsWith("/events")) return undefined;
        const { reason = "", involvedObject, count = 1 } = object as CoreEvent;
        if (reason !== setEnds && reason !== groupEnds) return undefined;
        const key = `${reason} ${involvedObject.uid}`;
        const before = (event.previous?.object() as CoreEvent | undefined)?.count ?? 0;
        told.set(key, (told.get(key) ?? 0) + count - before);
        const [records, events] = [begun.get(key)?.size ?? 0, told.get(key) ?? 0];
        if (events <= records) return undefined;
        return `${involvedObject.name} had ${records} terminations, and ${reason} was recorded ${events} times`;
      },
      atRest: () => {
        for (const { metadata } of all<PodCliqueSet>(store, sets)) {
          for (const reason of [setEnds, groupEnds]) {
            const key = `${reason} ${metadata.uid}`;
            const [ended, events] = [over.get(key)?.size ?? 0, told.get(key) ?? 0];
            if (events < ended)
              return `${metadata.name} had ${ended} terminations, and ${reason} was recorded ${events} times`;
          }
        }
        return undefined;
      },
    };
  },
};

const setEnds = "PodCliqueSetReplicaDeleteSuccessful";
const groupEnds = "PodCliqueScalingGroupReplicaDeleteSuccessful";

/** Whether a clique of the group that stays was scheduled once and is not now. */
function isCliqueLost(store: ObjectStore, group: KubeObject): boolean {
  const records = [...recordsOf(group), ...all<PodCliqueSet>(store, sets).flatMap(recordsOf)];
  const ending = new Set(records.flatMap(({ podCliques }) => podCliques.map(({ uid }) => uid)));
  return all<PodClique>(store, cliques).some(
    (clique) =>
      controllerOf(clique.metadata)?.uid === group.metadata.uid &&
      clique.metadata.deletionTimestamp === undefined &&
      !ending.has(clique.metadata.uid) &&
      clique.status?.everScheduled === true &&
      conditionOf(clique, "PodCliqueScheduled")?.status !== "True",
  );
}

interface WithTerminations {
  readonly status?: { readonly gangTerminations?: readonly GangTermination[] };
}

const recordsOf = (object: KubeObject | undefined): readonly GangTermination[] =>
  (object as WithTerminations | undefined)?.status?.gangTerminations ?? [];

/** I13: cliques are deleted only by a recorded gang termination, or because their replica is not wanted any more. */
export const cliquesEndOnRecord = (held: Held): Invariant => ({
  id: "I13",
  fact: "a clique is deleted only by a recorded gang termination, or because its replica is not in the spec",
  begin: ({ store, nowUs }) => {
    const asked = new Map<string, { atUs: number; replicas: number }[]>();
    const wasFewAsk = (uid: string, index: number, sentUs: number): boolean => {
      const known = asked.get(uid) ?? [];
      return known.some(({ replicas }, at) => {
        const next = known[at + 1];
        return replicas <= index && (next === undefined || next.atUs >= sentUs - decisionUs);
      });
    };
    return {
      commit: ({ type, call, event }) => {
        const { resource } = event.current;
        if ((resource === sets || resource === groups) && type !== "DELETED") {
          const { uid } = event.current.side;
          const object = event.current.object();
          const replicas =
            resource === sets
              ? replicasOf(object as PodCliqueSet)
              : groupReplicas((object as PodCliqueScalingGroup).spec);
          const known = asked.get(uid) ?? [];
          if (known.at(-1)?.replicas !== replicas) asked.set(uid, [...known, { atUs: nowUs(), replicas }]);
          return undefined;
        }
        if (resource !== cliques || type !== "MODIFIED" || !held(call.actor)) return undefined;
        const clique = event.current.object();
        const before = event.previous?.object();
        if (before === undefined || isTerminating(before) || !isTerminating(clique)) return undefined;
        const { uid, namespace = "" } = clique.metadata;
        const set = store.get(sets, namespace, clique.metadata.labels?.[labels.partOf] ?? "")?.object();
        const group = store.get(groups, namespace, clique.metadata.labels?.[labels.group] ?? "")?.object();
        const isOnRecord = [...recordsOf(set), ...recordsOf(group)].some(({ podCliques }) =>
          podCliques.some((each) => each.uid === uid),
        );
        if (isOnRecord || set === undefined || isTerminating(set)) return undefined;
        // A newer set of this name owns other cliques.
        const owner = controllerOf(clique.metadata)?.uid;
        const root = owner === group?.metadata.uid && group !== undefined ? controllerOf(group.metadata)?.uid : owner;
        if (root !== set.metadata.uid) return undefined;
        if (wasFewAsk(set.metadata.uid, setReplicaOf(clique) ?? 0, call.sentUs)) return undefined;
        const index = groupReplicaOf(clique);
        if (group !== undefined && index !== undefined && wasFewAsk(group.metadata.uid, index, call.sentUs))
          return undefined;
        return `${call.actor} deletes ${event.current.key}, which is in the spec, without a recorded termination`;
      },
    };
  },
});

interface SeenBreach {
  readonly resource: string;
  readonly name: string;
  /** By the clock of the process that wrote the condition. */
  readonly sinceMs: number;
  lastUs: number;
}

/**
 * I13: a gang is terminated only after a breach that has lasted for the delay. The operator may have read a condition
 * just before it changed.
 */
export const endsHaveACause = (held: Held): Invariant => ({
  id: "I13",
  fact: "a gang termination is recorded only when the gang has been in breach for the delay, or its template has changed",
  begin: ({ store, nowUs }) => {
    /** By replica of a set, then by object and beginning. */
    const breaches = new Map<string, Map<string, SeenBreach>>();
    const breachedSince = (object: KubeObject | undefined): number | undefined => {
      if (object === undefined) return undefined;
      const { status, lastTransitionTime } = conditionOf(object as PodClique, "MinAvailableBreached") ?? {};
      return status === "True" ? timeToMs(lastTransitionTime) : undefined;
    };
    const isStillBreached = (namespace: string, { resource, name, sinceMs }: SeenBreach): boolean =>
      breachedSince(store.get(resource, namespace, name)?.object()) === sinceMs;
    const see = (resource: string, object: KubeObject): void => {
      const sinceMs = breachedSince(object);
      if (sinceMs === undefined) return;
      const replica = `${object.metadata.labels?.[labels.partOf]}#${object.metadata.labels?.[labels.setReplica]}`;
      const known = breaches.get(replica) ?? new Map<string, SeenBreach>();
      breaches.set(replica, known);
      const { name, uid } = object.metadata;
      known.set(`${uid} ${sinceMs}`, { resource, name, sinceMs, lastUs: nowUs() });
    };
    return {
      commit: ({ type, call, event }) => {
        const { resource } = event.current;
        if (resource !== sets && resource !== groups && resource !== cliques) return undefined;
        const object = event.current.object();
        const before = event.previous?.object();
        // It was true until now.
        if (before !== undefined && resource !== sets) see(resource, before);
        if (type === "DELETED") return undefined;
        if (resource !== sets) see(resource, object);
        if (resource === cliques || !held(call.actor)) return undefined;
        const { namespace = "" } = object.metadata;
        const known = new Set(recordsOf(before).map(({ replicaIndex, startedAt }) => `${replicaIndex} ${startedAt}`));
        for (const { replicaIndex, startedAt, because } of recordsOf(object)) {
          if (known.has(`${replicaIndex} ${startedAt}`) || because === "the template has changed") continue;
          const set = resource === sets ? object.metadata.name : object.metadata.labels?.[labels.partOf];
          const index = resource === sets ? String(replicaIndex) : object.metadata.labels?.[labels.setReplica];
          const isOverdue = [...(breaches.get(`${set}#${index}`)?.values() ?? [])].some(
            (breach) =>
              because === `${breach.name} has been below its minimum since ${formatTime(breach.sinceMs)}` &&
              (breach.lastUs >= call.requestedUs - decisionUs || isStillBreached(namespace, breach)) &&
              breach.sinceMs + gangDelayMs <= call.requestedOwnMs,
          );
          if (isOverdue) continue;
          return `${call.actor} terminates replica ${replicaIndex} of ${event.current.key} (${because}), and none of its cliques has been in breach for ${gangDelayMs} ms`;
        }
        return undefined;
      },
    };
  },
});

/** Whether the commit only sets deletionTimestamp: a pod has its grace period, and a clique its finalizer. */
function isDeletionBegun({ type, event }: Commit): boolean {
  if (type !== "MODIFIED") return false;
  const before = event.previous?.object();
  return (
    before?.metadata.deletionTimestamp === undefined && event.current.object().metadata.deletionTimestamp !== undefined
  );
}

/** I7 for terminations in steps. */
export const endsTheSameObject = (held: Held): Invariant => ({
  id: "I7",
  fact: "a delete marks the UID that its author had observed under that name",
  begin: () => ({
    commit: (commit) => {
      const { call, key, event } = commit;
      if (!held(call.actor) || call.key !== key || !isDeletionBegun(commit)) return undefined;
      const { uid } = event.current.side;
      if (call.seen?.uid === uid) return undefined;
      return `${call.actor} ends ${key}: UID ${short(uid)} goes, it had seen ${short(call.seen?.uid ?? "none")}`;
    },
  }),
});

/** I13 for terminations in steps. */
export const endsWhatItLookedAt = (held: Held): Invariant => ({
  id: "I13",
  fact: "a delete marks the very version that its author had observed",
  begin: () => ({
    commit: (commit) => {
      const { call, key, event } = commit;
      if (!held(call.actor) || call.key !== key || !isDeletionBegun(commit)) return undefined;
      const before = event.previous?.revision ?? 0;
      if (call.seen?.revision === before) return undefined;
      return `${call.actor} ends ${key} at revision ${before}; it had seen ${call.seen?.revision ?? "nothing"}`;
    },
  }),
});

/** I19: a process counts its own writes from their acknowledgement. */
export const ownPodsOfCliquesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a clique by an operator that has observed enough pods of it",
  begin: ({ store, nowUs }) => {
    const toldPods = new Map<string, number>();
    const observedReplicas = new Map<string, { atUs: number; replicas: number }[]>();
    const own = new Set<string>();
    return {
      delivered: (actor, life, { resource, object, via }) => {
        const key = `${actor}|${life}|${object.metadata.uid}`;
        // Pods of another process count when the watch has delivered them: a read before a delete is no part of the
        // caches that the next decision rests on.
        const counts = resource === pods && (via === "stream" || own.has(key));
        if (counts && !toldPods.has(key)) toldPods.set(key, nowUs());
        if (resource !== cliques) return;
        const observed = observedReplicas.get(key) ?? [];
        observed.push({ atUs: nowUs(), replicas: (object as PodClique).spec.replicas });
        observedReplicas.set(key, observed);
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const owner = controllerOf(event.current.object().metadata);
        if (owner?.kind !== "PodClique") return undefined;
        const who = `${call.actor}|${call.life}`;
        own.add(`${who}|${event.current.object().metadata.uid}`);
        let wanted = 0;
        const observed = observedReplicas.get(`${who}|${owner.uid}`) ?? [];
        observed.forEach(({ atUs, replicas }, at) => {
          if (atUs > call.sentUs) return;
          const next = observed[at + 1];
          if (next === undefined || next.atUs >= call.sentUs - decisionUs) wanted = Math.max(wanted, replicas);
        });
        let known = 0;
        for (const pod of all<Pod>(store, pods)) {
          if (controllerOf(pod.metadata)?.uid !== owner.uid || isTerminating(pod) || isFinished(pod)) continue;
          const toldUs = toldPods.get(`${who}|${pod.metadata.uid}`) ?? Number.POSITIVE_INFINITY;
          if (toldUs < call.sentUs && pod.metadata.name !== event.current.name) known++;
        }
        if (known < wanted || wanted === 0) return undefined;
        return `${call.actor} created ${event.current.key} for ${owner.name}, which wants ${wanted}, and had observed ${known} live pods`;
      },
    };
  },
});

/** I22: a status computed from an older generation must not be written to a newer one. */
export const statusIsOfItsObject = (held: Held): Invariant => ({
  id: "I22",
  fact: "a status is written on the very generation of a clique or group that it describes",
  begin: () => ({
    commit: ({ type, call, key, event }) => {
      const { resource } = event.current;
      if (type !== "MODIFIED" || (resource !== cliques && resource !== groups) || !held(call.actor)) return undefined;
      const { metadata, status } = event.current.object() as PodClique;
      const before = event.previous?.object() as PodClique | undefined;
      if (status === undefined || equalFields(status, before?.status)) return undefined;
      if (status.observedGeneration === metadata.generation) return undefined;
      return `${call.actor} writes to ${key}, generation ${metadata.generation}, a status of generation ${status.observedGeneration ?? "none"}`;
    },
  }),
});

/** I17: the purpose of the operator. */
export const gangsAreWhole: Invariant = {
  id: "I17",
  fact: "at rest every set has the cliques, pods and gangs of its spec, ready and up to date if a node is up, and there are no other objects",
  begin: ({ store }) => ({
    atRest: () => {
      const wanted = new Set<string>();
      for (const set of all<PodCliqueSet>(store, sets)) {
        if (isTerminating(set)) return `${set.metadata.name} is not deleted`;
        const wrong = wrongWith(store, set, wanted);
        if (wrong !== undefined) return `${set.metadata.name}: ${wrong}`;
      }
      for (const { metadata } of all<PodClique>(store, cliques))
        if (!wanted.has(metadata.name)) return `${metadata.name} is not in the spec`;
      const live = new Set(all<PodClique>(store, cliques).map(({ metadata }) => metadata.uid));
      for (const pod of all<Pod>(store, pods)) {
        const { metadata } = pod;
        if (live.has(controllerOf(metadata)?.uid ?? "") || isStranded(store, pod)) continue;
        return `pod ${metadata.name} belongs to no clique`;
      }
      return undefined;
    },
  }),
};

function wrongWith(store: ObjectStore, set: PodCliqueSet, wanted: Set<string>): string | undefined {
  const { name, namespace = "" } = set.metadata;
  for (let index = 0; index < replicasOf(set); index++) {
    const names = standaloneCliques(set).map((clique) => ({
      name: cliqueName(name, index, clique.name),
      of: clique.name,
    }));
    for (const group of groupsOf(set)) {
      const whole = groupName(name, index, group.name);
      const object = store.get(groups, namespace, whole)?.object() as PodCliqueScalingGroup | undefined;
      if (object === undefined) return `group ${whole} is missing`;
      if ((object.status?.gangTerminations ?? []).length > 0) return `${whole} has a recorded termination`;
      for (let replica = 0; replica < groupReplicas(object.spec); replica++) {
        for (const member of group.cliqueNames) names.push({ name: memberName(whole, replica, member), of: member });
      }
    }
    for (const { name: whole, of } of names) {
      wanted.add(whole);
      const wrong = wrongWithClique(store, set, whole, of);
      if (wrong !== undefined) return `${whole} ${wrong}`;
    }
  }
  const { status } = set;
  if ((status?.gangTerminations ?? []).length > 0) return "has a recorded termination";
  if (areAllNodesDown(store)) return undefined;
  if (status?.availableReplicas !== replicasOf(set)) return `says ${status?.availableReplicas} replicas are available`;
  if (status?.updateProgress !== undefined && status.updateProgress.updateEndedAt === undefined)
    return "says it is being updated";
  if (status?.updatedReplicas !== replicasOf(set)) return `says ${status?.updatedReplicas} replicas are up to date`;
  return undefined;
}

function wrongWithClique(store: ObjectStore, set: PodCliqueSet, whole: string, of: string): string | undefined {
  const clique = store.get(cliques, set.metadata.namespace ?? "", whole)?.object() as PodClique | undefined;
  if (clique === undefined) return "is missing";
  if (isTerminating(clique)) return "is not deleted";
  const own = all<Pod>(store, pods).filter(
    (pod) => controllerOf(pod.metadata)?.uid === clique.metadata.uid && !isStranded(store, pod),
  );
  if (own.length !== clique.spec.replicas) return `asks for ${clique.spec.replicas} pods and has ${own.length}`;
  const numbers = new Set(own.map(({ metadata }) => metadata.labels?.[labels.podIndex]));
  if (numbers.size !== own.length) return "has two pods with the same index";
  if (areAllNodesDown(store)) return undefined;
  const template = set.spec.template.cliques.find(({ name }) => name === of);
  const image = template?.spec.podSpec.containers[0]?.image;
  for (const pod of own) {
    if (hasGate(pod)) return `has a pod with a scheduling gate, ${pod.metadata.name}`;
    if (!isReady(pod)) return `has a pod that is not ready, ${pod.metadata.name}`;
    if (pod.spec?.containers[0]?.image !== image) return `has a pod of another template, ${pod.metadata.name}`;
    const gang = store.get(gangs, set.metadata.namespace ?? "", pod.metadata.labels?.[labels.podGang] ?? "")?.object();
    const named = (gang as PodGang | undefined)?.spec.podgroups.flatMap(({ podReferences }) =>
      podReferences.map((each) => each.uid),
    );
    if (named?.includes(pod.metadata.uid) !== true)
      return `has a pod that its gang does not name, ${pod.metadata.name}`;
  }
  if (clique.status?.readyReplicas !== own.length)
    return `says ${clique.status?.readyReplicas} of ${own.length} are ready`;
  return undefined;
}

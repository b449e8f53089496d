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
/** How long a decision may take from the picture to the wire, retries included. */
const decisionUs = 20_000_000;

function all<T>(store: ObjectStore, resource: string): T[] {
  return [...store.collection(resource).all()].map((version) => version.object() as T);
}

const hasGate = ({ spec }: Pod): boolean => (spec?.schedulingGates ?? []).some(({ name }) => name === gangGate);
const isLeaving = ({ metadata }: { metadata: { deletionTimestamp?: string } }): boolean =>
  metadata.deletionTimestamp !== undefined;
/** Has a node that runs it. Checked at rest, when every toleration is over. */
const isScheduled = (store: ObjectStore, pod: Pod): boolean =>
  !isFinished(pod) && !isLeaving(pod) && isNodeUp(store, pod.spec?.nodeName ?? "");

function isNodeUp(store: ObjectStore, name: string): boolean {
  const node = store.get("/nodes", "", name)?.object() as Node | undefined;
  return node?.status?.conditions?.find(({ type }) => type === "Ready")?.status === "True";
}

/** Terminating, without a kubelet to confirm it. */
const isStranded = (store: ObjectStore, pod: Pod): boolean =>
  isLeaving(pod) && (pod.spec?.nodeName ?? "") !== "" && !isNodeUp(store, pod.spec?.nodeName ?? "");

const areAllNodesDown = (store: ObjectStore): boolean =>
  [...store.collection("/nodes").all()].every(({ name }) => !isNodeUp(store, name));

const isUpdating = ({ status }: PodClique | PodCliqueScalingGroup): boolean =>
  status?.updateProgress !== undefined && status.updateProgress.updateEndedAt === undefined;
const said = (object: PodClique | PodCliqueScalingGroup, type: string) =>
  object.status?.conditions?.find((condition) => condition.type === type);

/**
 * I4: no pod is scheduled before its gang exists. Judged by what the author had observed: the gang may be deleted while
 * the write is in flight.
 */
export const gatesWaitForTheGang = (held: Held): Invariant => ({
  id: "I4",
  fact: "a pod may be scheduled only when its gang names it and was whole, and beyond a group's minimum when the base gang has its own",
  begin: ({ nowUs }) => {
    const told = new ToldStates(nowUs);
    return {
      learned: (actor, life, { resource, object, gone }) => {
        if (resource !== gangs && resource !== cliques) return;
        told.add(`${actor}|${life}|${resource}|${object.metadata.name}`, gone ? undefined : object);
      },
      commit: ({ type, call, event }) => {
        if (type !== "MODIFIED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const pod = event.current.object();
        const before = event.previous?.object();
        if (before === undefined || !hasGate(before) || hasGate(pod)) return undefined;
        const known = <T>(resource: string, name: string): T[] =>
          told.knownBy(`${call.actor}|${call.life}|${resource}|${name}`, call.askedUs) as T[];
        const name = pod.metadata.labels?.[labels.podGang] ?? "";
        const versions = known<PodGang>(gangs, name);
        const what = `${call.actor} lets ${event.current.key} be scheduled`;
        if (versions.length === 0) return `${what}, and knew of no gang ${name}`;
        if (!versions.some((gang) => names(gang, pod))) return `${what}, and its gang ${name} does not name it`;
        if (!versions.some((gang) => names(gang, pod) && isWhole(gang)))
          return `${what}, and its gang ${name} was never whole`;
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

/** What processes have observed of objects, and until when that was the newest they knew. */
class ToldStates {
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

  /** The states that a decision whose write was asked for then may rest on. */
  knownBy(key: string, askedUs: number): KubeObject[] {
    const states = this.#states.get(key) ?? [];
    return states.flatMap(({ atUs, object }, at) => {
      const next = states[at + 1];
      const isOld = next !== undefined && next.atUs < askedUs - decisionUs;
      return object === undefined || atUs > askedUs || isOld ? [] : [object];
    });
  }
}

const names = ({ spec }: PodGang, { metadata }: Pod): boolean =>
  spec.podgroups.some(({ podReferences }) =>
    podReferences.some((each) => each.name === metadata.name && each.uid === metadata.uid),
  );

const isWhole = ({ status }: PodGang): boolean =>
  status?.conditions?.find((each) => each.type === "Initialized")?.status === "True";

/** I4, the other half. */
export const regressionsAreFlagged = (policy: FullLossPolicy): Invariant => ({
  id: "I4",
  fact: "the condition of a clique says what its pods say: a part of the minimum is a breach, none of it is what the policy makes of it",
  begin: ({ store }) => ({
    // A status contradicts itself at no time, whatever it is behind of.
    commit: ({ type, event }) => {
      if (type === "DELETED" || event.current.resource !== cliques) return undefined;
      const clique = event.current.object() as PodClique;
      const { scheduledReplicas = 0 } = clique.status ?? {};
      if (said(clique, "MinAvailableBreached") === undefined) return undefined;
      // A person may change what is asked for between two looks of the operator.
      if (clique.status?.observedGeneration !== clique.metadata.generation) return undefined;
      if (isUpdating(clique)) {
        return said(clique, "MinAvailableBreached")?.status === "Unknown"
          ? undefined
          : `${clique.metadata.name} is being updated and says ${saidText(clique)}`;
      }
      return contradiction(clique, scheduledReplicas, policy);
    },
    atRest: () => {
      for (const clique of all<PodClique>(store, cliques)) {
        const own = all<Pod>(store, pods).filter(({ metadata }) => controllerOf(metadata)?.uid === clique.metadata.uid);
        const scheduled = own.filter((pod) => isScheduled(store, pod)).length;
        const wrong = isUpdating(clique) ? undefined : contradiction(clique, scheduled, policy);
        if (wrong !== undefined) return wrong;
        const isStarting = said(clique, "MinAvailableBreached")?.reason === "InsufficientReadyPods";
        if (isStarting) return `${clique.metadata.name} is at rest and says ${saidText(clique)}`;
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
  const { status, reason } = said(clique, "MinAvailableBreached") ?? { status: "none", reason: "none" };
  const isSaid = status === "True" && reason === "ScheduledReplicasBelowMinAvailable";
  if (isBelow === isSaid) return undefined;
  return `${clique.metadata.name} with ${scheduled} of ${minimum} scheduled says ${saidText(clique)}`;
}

function saidText(clique: PodClique): string {
  const { status, reason } = said(clique, "MinAvailableBreached") ?? { status: "nothing", reason: "" };
  return `${status}/${reason}`;
}

/** I19: an announcement is not repeated, and none is left out. */
export const lossesAreToldOnce: Invariant = {
  id: "I19",
  fact: "every loss of all scheduled replicas has exactly one Event; pods deleted by an update may have none",
  begin: ({ store }) => {
    const losses = new Map<string, number>();
    /** Those during an update. */
    const doubtful = new Map<string, number>();
    const told = new Map<string, number>();
    const scheduled = (object: KubeObject | undefined): number =>
      ((object?.["status"] ?? {}) as { scheduledReplicas?: number }).scheduledReplicas ?? 0;
    return {
      commit: ({ type, event }) => {
        const { resource } = event.current;
        if ((resource === cliques || resource === groups) && type === "MODIFIED") {
          const { uid } = event.current.side;
          if (scheduled(event.previous?.object()) > 0 && scheduled(event.current.object()) === 0) {
            const kept = isUpdating(event.current.object() as PodClique) ? doubtful : losses;
            kept.set(uid, (kept.get(uid) ?? 0) + 1);
          }
          return undefined;
        }
        if (type !== "ADDED" || !resource.endsWith("/events")) return undefined;
        const { reason, involvedObject } = event.current.object() as CoreEvent;
        if (reason !== "AllScheduledReplicasLost") return undefined;
        const { name, uid = "" } = involvedObject;
        const count = (told.get(uid) ?? 0) + 1;
        told.set(uid, count);
        const happened = (losses.get(uid) ?? 0) + (doubtful.get(uid) ?? 0);
        if (count <= happened) return undefined;
        return `${name} (${short(uid)}) lost everything ${happened} times, and that was announced ${count} times`;
      },
      atRest: () => {
        for (const object of [...all<PodClique>(store, cliques), ...all<PodClique>(store, groups)]) {
          const { uid, name } = object.metadata;
          const [happened, announced] = [losses.get(uid) ?? 0, told.get(uid) ?? 0];
          if (announced < happened || announced > happened + (doubtful.get(uid) ?? 0))
            return `${name} lost everything ${happened} times, and that was announced ${announced} times`;
        }
        return undefined;
      },
    };
  },
};

interface WithTerminations {
  readonly status?: { readonly gangTerminations?: readonly GangTermination[] };
}

const recordsOf = (object: KubeObject | undefined): readonly GangTermination[] =>
  (object as WithTerminations | undefined)?.status?.gangTerminations ?? [];

/** I13: a gang ends as a whole, by a recorded decision, or because it is no longer wanted. */
export const cliquesEndOnRecord = (held: Held): Invariant => ({
  id: "I13",
  fact: "a clique is taken away only as part of a gang whose end is on record, or because its replica is not asked for",
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
        if (before === undefined || isLeaving(before) || !isLeaving(clique)) return undefined;
        const { uid, namespace = "" } = clique.metadata;
        const set = store.get(sets, namespace, clique.metadata.labels?.[labels.partOf] ?? "")?.object();
        const group = store.get(groups, namespace, clique.metadata.labels?.[labels.group] ?? "")?.object();
        const isOnRecord = [...recordsOf(set), ...recordsOf(group)].some(({ podCliques }) =>
          podCliques.some((each) => each.uid === uid),
        );
        if (isOnRecord || set === undefined || isLeaving(set)) return undefined;
        // A set of this name that was made since asks for other cliques than this one.
        const owner = controllerOf(clique.metadata)?.uid;
        const root = owner === group?.metadata.uid && group !== undefined ? controllerOf(group.metadata)?.uid : owner;
        if (root !== set.metadata.uid) return undefined;
        if (wasFewAsk(set.metadata.uid, setReplicaOf(clique) ?? 0, call.sentUs)) return undefined;
        const index = groupReplicaOf(clique);
        if (group !== undefined && index !== undefined && wasFewAsk(group.metadata.uid, index, call.sentUs))
          return undefined;
        return `${call.actor} takes ${event.current.key} away, which is asked for and on no record`;
      },
    };
  },
});

interface SeenBreach {
  readonly name: string;
  /** By the clock of the process that wrote the condition. */
  readonly sinceMs: number;
  lastUs: number;
}

/**
 * I13: no end without a breach that has lasted. A condition that was true a moment ago may have been read before it
 * changed.
 */
export const endsHaveACause = (held: Held): Invariant => ({
  id: "I13",
  fact: "the end of a gang is put on record only while something of it has been in breach for the delay, or its template has changed",
  begin: ({ nowUs }) => {
    /** By replica of a set, then by object and beginning. */
    const breaches = new Map<string, Map<string, SeenBreach>>();
    const see = (object: KubeObject): void => {
      const { status, lastTransitionTime } = said(object as PodClique, "MinAvailableBreached") ?? {};
      const sinceMs = timeToMs(lastTransitionTime);
      if (status !== "True" || sinceMs === undefined) return;
      const replica = `${object.metadata.labels?.[labels.partOf]}#${object.metadata.labels?.[labels.setReplica]}`;
      const known = breaches.get(replica) ?? new Map<string, SeenBreach>();
      breaches.set(replica, known);
      const { name, uid } = object.metadata;
      known.set(`${uid} ${sinceMs}`, { name, sinceMs, lastUs: nowUs() });
    };
    return {
      commit: ({ type, call, event }) => {
        const { resource } = event.current;
        if (resource !== sets && resource !== groups && resource !== cliques) return undefined;
        const object = event.current.object();
        const before = event.previous?.object();
        // It was true until now.
        if (before !== undefined && resource !== sets) see(before);
        if (type === "DELETED") return undefined;
        if (resource !== sets) see(object);
        if (resource === cliques || !held(call.actor)) return undefined;
        const known = new Set(recordsOf(before).map(({ replicaIndex, startedAt }) => `${replicaIndex} ${startedAt}`));
        for (const { replicaIndex, startedAt, because } of recordsOf(object)) {
          if (known.has(`${replicaIndex} ${startedAt}`) || because === "the template has changed") continue;
          const set = resource === sets ? object.metadata.name : object.metadata.labels?.[labels.partOf];
          const index = resource === sets ? String(replicaIndex) : object.metadata.labels?.[labels.setReplica];
          const isOverdue = [...(breaches.get(`${set}#${index}`)?.values() ?? [])].some(
            ({ name, sinceMs, lastUs }) =>
              because === `${name} has had less than its minimum since ${formatTime(sinceMs)}` &&
              lastUs >= call.askedUs - decisionUs &&
              sinceMs + gangDelayMs <= call.sentOwnMs,
          );
          if (isOverdue) continue;
          return `${call.actor} ends replica ${replicaIndex} of ${event.current.key} (${because}), and nothing of it has been in breach for ${gangDelayMs} ms`;
        }
        return undefined;
      },
    };
  },
});

/** A delete that was only begun: a pod has its grace, and a clique its finalizer. */
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
  fact: "a delete begins the end of the UID that its author had seen under that name",
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
  fact: "a delete begins the end of the very version that its author had looked at",
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

/** I19: own writes count from the moment they are acknowledged. */
export const ownPodsOfCliquesCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a clique by an operator that knows of enough pods of it",
  begin: ({ store, nowUs }) => {
    const toldPods = new Map<string, number>();
    const toldReplicas = new Map<string, { atUs: number; replicas: number }[]>();
    return {
      learned: (actor, life, { resource, object }) => {
        const key = `${actor}|${life}|${object.metadata.uid}`;
        if (resource === pods && !toldPods.has(key)) toldPods.set(key, nowUs());
        if (resource !== cliques) return;
        const told = toldReplicas.get(key) ?? [];
        told.push({ atUs: nowUs(), replicas: (object as PodClique).spec.replicas });
        toldReplicas.set(key, told);
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const owner = controllerOf(event.current.object().metadata);
        if (owner?.kind !== "PodClique") return undefined;
        const who = `${call.actor}|${call.life}`;
        let wanted = 0;
        const told = toldReplicas.get(`${who}|${owner.uid}`) ?? [];
        told.forEach(({ atUs, replicas }, at) => {
          if (atUs > call.sentUs) return;
          const next = told[at + 1];
          if (next === undefined || next.atUs >= call.sentUs - decisionUs) wanted = Math.max(wanted, replicas);
        });
        let known = 0;
        for (const pod of all<Pod>(store, pods)) {
          if (controllerOf(pod.metadata)?.uid !== owner.uid || isLeaving(pod) || isFinished(pod)) continue;
          const toldUs = toldPods.get(`${who}|${pod.metadata.uid}`) ?? Number.POSITIVE_INFINITY;
          if (toldUs < call.sentUs && pod.metadata.name !== event.current.name) known++;
        }
        if (known < wanted || wanted === 0) return undefined;
        return `${call.actor} created ${event.current.key} for ${owner.name}, which asks for ${wanted}, and knew of ${known} live pods`;
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
      return `${call.actor} says of ${key}, generation ${metadata.generation}, what it saw of generation ${status.observedGeneration ?? "none"}`;
    },
  }),
});

/** I17: what the operator is for. */
export const gangsAreWhole: Invariant = {
  id: "I17",
  fact: "at rest every set has the cliques, pods and gangs that it asks for, all ready and of its template where any node is up, and nothing else is left",
  begin: ({ store }) => ({
    atRest: () => {
      const wanted = new Set<string>();
      for (const set of all<PodCliqueSet>(store, sets)) {
        if (isLeaving(set)) return `${set.metadata.name} does not go`;
        const wrong = wrongWith(store, set, wanted);
        if (wrong !== undefined) return `${set.metadata.name}: ${wrong}`;
      }
      for (const { metadata } of all<PodClique>(store, cliques))
        if (!wanted.has(metadata.name)) return `${metadata.name} is left over`;
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
      if ((object.status?.gangTerminations ?? []).length > 0) return `${whole} has an end on record`;
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
  if ((status?.gangTerminations ?? []).length > 0) return "has an end on record";
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
  if (isLeaving(clique)) return "does not go";
  const own = all<Pod>(store, pods).filter(
    (pod) => controllerOf(pod.metadata)?.uid === clique.metadata.uid && !isStranded(store, pod),
  );
  if (own.length !== clique.spec.replicas) return `asks for ${clique.spec.replicas} pods and has ${own.length}`;
  const numbers = new Set(own.map(({ metadata }) => metadata.labels?.[labels.podIndex]));
  if (numbers.size !== own.length) return "has two pods of one number";
  if (areAllNodesDown(store)) return undefined;
  const template = set.spec.template.cliques.find(({ name }) => name === of);
  const image = template?.spec.podSpec.containers[0]?.image;
  for (const pod of own) {
    if (hasGate(pod)) return `has a pod that is still held back, ${pod.metadata.name}`;
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

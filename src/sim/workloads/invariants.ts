import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import { formatIndexes, indexOf, isIndexed, parseIndexes } from "../../decide/workloads/jobs/jobIndexes.ts";
import { isTracked } from "../../decide/workloads/jobs/jobTally.ts";
import { isOver } from "../../decide/workloads/jobs/jobVerdict.ts";
import { podNameLabel } from "../../decide/workloads/sets/statefulPod.ts";
import type { DaemonSet, Deployment, Job, Pod, ReplicaSet, StatefulSet } from "../../model/kubernetes.generated.ts";
import { type LabelSelector, matchesLabels, selectorRequirements } from "../../model/objects/labelSelector.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { isActive } from "../../model/objects/podFacts.ts";
import type { Invariant } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";
import { bigNode } from "./user.ts";

const pods = "/pods";
const sets = "apps/replicasets";
const jobs = "batch/jobs";
/** The time from a snapshot to the request that is decided from it, retries included. */
const decisionUs = 20_000_000;

/**
 * I19: a process counts its own writes from their acknowledgement. A create is judged by the pods that its author had
 * observed when it was sent.
 */
export const ownPodsCount = (held: Held): Invariant => ({
  id: "I19",
  fact: "no pod is created for a ReplicaSet by a controller that knows of enough pods of it",
  begin: ({ store, nowUs }) => {
    const toldPods = new Map<string, number>();
    const observedReplicas = new Map<string, { atUs: number; replicas: number }[]>();
    return {
      delivered: (actor, life, { resource, object }) => {
        const key = `${actor}|${life}|${object.metadata.uid}`;
        if (resource === pods && !toldPods.has(key)) toldPods.set(key, nowUs());
        if (resource !== sets) return;
        const observed = observedReplicas.get(key) ?? [];
        observed.push({ atUs: nowUs(), replicas: (object as ReplicaSet).spec?.replicas ?? 1 });
        observedReplicas.set(key, observed);
      },
      commit: ({ type, call, event }) => {
        if (type !== "ADDED" || event.current.resource !== pods || !held(call.actor)) return undefined;
        const owner = controllerOf(event.current.object().metadata);
        if (owner?.kind !== "ReplicaSet") return undefined;
        const who = `${call.actor}|${call.life}`;
        const observed = observedReplicas.get(`${who}|${owner.uid}`) ?? [];
        let wanted = 0;
        observed.forEach(({ atUs, replicas }, at) => {
          if (atUs > call.sentUs) return;
          const next = observed[at + 1];
          // A state that was superseded long before cannot have been the reason.
          if (next === undefined || next.atUs >= call.sentUs - decisionUs) wanted = Math.max(wanted, replicas);
        });
        const set = store.get(sets, event.current.namespace, owner.name)?.object() as ReplicaSet | undefined;
        const selector = selectorRequirements(set?.spec?.selector);
        let known = 0;
        for (const pod of activePods(store, owner.uid)) {
          // A pod that is no longer selected is being released.
          if (!matchesLabels(selector, pod.metadata.labels)) continue;
          const toldUs = toldPods.get(`${who}|${pod.metadata.uid}`) ?? Number.POSITIVE_INFINITY;
          if (toldUs < call.sentUs && pod.metadata.name !== event.current.name) known++;
        }
        if (known < wanted || wanted === 0) return undefined;
        return `${call.actor} created ${event.current.key} for ${owner.name}, which wants ${wanted}, and had observed ${known} live pods`;
      },
    };
  },
});

/** The maximum age of the read that a delete rests on. */
const freshUs = 5_000_000;

/** I13: a pod is deleted because its set has too many, after a fresh read of the set. */
export const shrinksOnlyWhatIsTooMuch = (held: Held): Invariant => ({
  id: "I13",
  fact: "no pod is deleted for a number of replicas that its ReplicaSet has not had for seconds",
  begin: ({ store, nowUs }) => {
    const wanted = new Map<string, { atUs: number; replicas: number }[]>();
    /** When each pod was last active: a pod that has just ended may have been counted. */
    const seen = new Map<string, Map<string, number>>();
    return {
      commit: ({ type, call, event }) => {
        const { current, previous } = event;
        if (current.resource === sets && type !== "DELETED") {
          const { metadata, spec } = current.object() as ReplicaSet;
          const known = wanted.get(metadata.uid) ?? [];
          if (known.at(-1)?.replicas !== spec?.replicas) known.push({ atUs: nowUs(), replicas: spec?.replicas ?? 1 });
          wanted.set(metadata.uid, known);
        }
        if (current.resource !== pods) return undefined;
        const before = previous?.object();
        const after = current.object();
        const owner = controllerOf((before ?? after).metadata);
        if (owner?.kind !== "ReplicaSet") return undefined;
        const own = seen.get(owner.uid) ?? new Map<string, number>();
        seen.set(owner.uid, own);
        own.set(after.metadata.uid, nowUs());
        const isVictim =
          call.verb === "delete" &&
          held(call.actor) &&
          before !== undefined &&
          isActive(before) &&
          !isEvictedByTaint(before);
        if (!isVictim || store.get(sets, current.namespace, owner.name)?.side.uid !== owner.uid) return undefined;
        let live = 0;
        for (const pod of activePods(store, owner.uid)) own.set(pod.metadata.uid, nowUs());
        for (const lastUs of own.values()) if (nowUs() - lastUs <= decisionUs) live++;
        const known = wanted.get(owner.uid) ?? [];
        let least = Number.POSITIVE_INFINITY;
        known.forEach(({ replicas }, at) => {
          const next = known[at + 1];
          if (next === undefined || next.atUs >= call.sentUs - freshUs) least = Math.min(least, replicas);
        });
        if (live > least || least === Number.POSITIVE_INFINITY) return undefined;
        return `${call.actor} deleted ${current.key} of ${owner.name}, which asked for at least ${least} and had ${live}`;
      },
    };
  },
});

/** I19: the surge of a rollout, over all ReplicaSets of the Deployment. */
export const surgeIsBounded = (held: Held): Invariant => ({
  id: "I19",
  fact: "the ReplicaSets of a Deployment together never grow beyond its replicas and surge",
  begin: ({ store, nowUs }) => {
    const limits = new Map<string, { atUs: number; limit: number }[]>();
    const createdUs = new Map<string, number>();
    return {
      commit: ({ type, call, event }) => {
        if (event.current.resource === "apps/deployments" && type !== "DELETED") {
          const { metadata, spec } = event.current.object() as Deployment;
          const replicas = spec?.replicas ?? 1;
          const surge = spec?.strategy?.rollingUpdate?.maxSurge ?? 0;
          const known = limits.get(metadata.uid) ?? [];
          known.push({ atUs: nowUs(), limit: replicas + podsOf(surge, replicas) });
          limits.set(metadata.uid, known);
        }
        if (event.current.resource !== sets || type === "DELETED" || !held(call.actor)) return undefined;
        const after = event.current.object();
        const before = event.previous?.object();
        const owner = controllerOf(after.metadata);
        if (owner === undefined || sizeOf(after) <= (before === undefined ? 0 : sizeOf(before))) return undefined;
        if (type === "ADDED") createdUs.set(after.metadata.uid, nowUs());
        let total = 0;
        for (const version of store.collection(sets).all()) {
          const set = version.object();
          // A create that lands late cannot be refused for a set that was created meanwhile.
          const isNewer = type === "ADDED" && (createdUs.get(set.metadata.uid) ?? 0) > call.sentUs;
          const isOther = set.metadata.uid !== after.metadata.uid;
          if (controllerOf(set.metadata)?.uid === owner.uid && !(isOther && isNewer)) total += sizeOf(set);
        }
        const known = limits.get(owner.uid) ?? [];
        let limit = 0;
        known.forEach((each, at) => {
          const next = known[at + 1];
          if (next === undefined || next.atUs >= call.sentUs - decisionUs) limit = Math.max(limit, each.limit);
        });
        if (total <= limit) return undefined;
        return `${call.actor} grew ${event.current.key}: the sets of ${owner.name} want ${total} pods, and at most ${limit} are allowed`;
      },
    };
  },
});

/** The eviction from a node that is not Ready is announced on the pod first. */
function isEvictedByTaint({ status }: Pod): boolean {
  return status?.conditions?.some(({ reason }) => reason === "DeletionByTaintManager") === true;
}

/** An amount of pods, or a percentage of the replicas, rounded up. */
function podsOf(amount: number | string, replicas: number): number {
  return typeof amount === "number" ? amount : Math.ceil((Number.parseInt(amount, 10) * replicas) / 100);
}

/** I10: each succeeded pod is counted once. */
export const successesCountOnce: Invariant = {
  id: "I10",
  fact: "a Job counts no more successes than pods of it have succeeded, and never fewer than before",
  begin: () => {
    const succeeded = new Map<string, Set<string>>();
    const indexes = new Map<string, Set<number>>();
    const owned = new Map<string, Job>();
    return {
      commit: ({ type, event }) => {
        const { current, previous } = event;
        if (current.resource === pods && type !== "DELETED") {
          const pod = current.object() as Pod;
          const owner = controllerOf(pod.metadata);
          if (owner?.kind !== "Job" || pod.status?.phase !== "Succeeded") return undefined;
          add(succeeded, owner.uid, pod.metadata.uid);
          const job = owned.get(owner.uid);
          const index = job === undefined ? undefined : indexOf(job, pod);
          if (index !== undefined) add(indexes, owner.uid, index);
        }
        if (current.resource !== jobs || type === "DELETED") return undefined;
        const job = current.object() as Job;
        const { uid } = job.metadata;
        owned.set(uid, job);
        const count = (job.status?.succeeded ?? 0) + (job.status?.uncountedTerminatedPods?.succeeded?.length ?? 0);
        const there = isIndexed(job) ? (indexes.get(uid)?.size ?? 0) : (succeeded.get(uid)?.size ?? 0);
        if (count > there) return `${current.key} counts ${count} successes, and ${there} pods have succeeded`;
        const done = parseIndexes(job.status?.completedIndexes, job.spec?.completions ?? 0);
        for (const index of done.ranges().flatMap(({ first, last }) => numbers(first, last))) {
          if (indexes.get(uid)?.has(index) === true) continue;
          return `${current.key} has index ${index} of ${formatIndexes(done)} as done, and no pod of it has succeeded`;
        }
        const before = previous?.object() as Job | undefined;
        if (before?.metadata.uid === uid && (before.status?.succeeded ?? 0) > (job.status?.succeeded ?? 0)) {
          return `${current.key} went from ${before.status?.succeeded} successes back to ${job.status?.succeeded ?? 0}`;
        }
        return undefined;
      },
    };
  },
};

/** I3 for pods of StatefulSets: an ordinal has one pod. */
export const oneHolderPerIdentity: Invariant = {
  id: "I3",
  fact: "no two pods have the identity of one member of a StatefulSet",
  begin: ({ store }) => ({
    commit: ({ type, event }) => {
      if (type !== "ADDED" || event.current.resource !== pods) return undefined;
      const pod = event.current.object();
      const owner = controllerOf(pod.metadata);
      const identity = pod.metadata.labels?.[podNameLabel];
      if (owner?.kind !== "StatefulSet") return undefined;
      if (identity !== pod.metadata.name) return `${event.current.key} says that it is ${identity}`;
      for (const version of store.collection(pods).all()) {
        const { metadata } = version.object();
        if (metadata.uid === pod.metadata.uid || metadata.labels?.[podNameLabel] !== identity) continue;
        if (controllerOf(metadata)?.kind === "StatefulSet")
          return `${event.current.key} and ${version.key} are one member`;
      }
      return undefined;
    },
  }),
};

/** I7: before a controller adopts an orphan, it reads the owner again by a consistent read. */
export const adoptsWithAFreshLook = (held: Held): Invariant => ({
  id: "I7",
  fact: "an orphan is adopted by an owner whose selector matches, which was read again and is not being deleted",
  begin: ({ nowUs }) => {
    const looked = new Map<string, number>();
    const observed = new Map<string, KubeObject>();
    return {
      delivered: (actor, life, { resource, object, gone }) => {
        if (gone || !resource.startsWith("apps/")) return;
        observed.set(`${actor}|${life}|${object.metadata.uid}`, object);
        looked.set(`${actor}|${life}|${object.metadata.uid}`, nowUs());
      },
      commit: ({ type, call, event }) => {
        if (type !== "MODIFIED" || !held(call.actor)) return undefined;
        const after = event.current.object();
        const owner = controllerOf(after.metadata);
        const before = event.previous?.object();
        if (owner === undefined || before === undefined || controllerOf(before.metadata) !== undefined)
          return undefined;
        const key = `${call.actor}|${call.life}|${owner.uid}`;
        const known = observed.get(key);
        if (owner.kind === "Job") return undefined;
        if (known === undefined)
          return `${call.actor} gave ${event.current.key} to ${owner.name} (${short(owner.uid)}), which it had never observed`;
        const { selector } = known["spec"] as { selector?: LabelSelector };
        if (!matchesLabels(selectorRequirements(selector), before.metadata.labels)) {
          return `${call.actor} gave ${event.current.key} to ${owner.name}, whose selector does not match`;
        }
        const agoUs = call.sentUs - (looked.get(key) ?? 0);
        if (agoUs <= 5_000_000) return undefined;
        return `${call.actor} gave ${event.current.key} to ${owner.name}, which it had not read for ${agoUs / 1e6} s`;
      },
    };
  },
});

/** I17: the purpose of the controllers. */
export const workloadsAreDone: Invariant = {
  id: "I17",
  fact: "at rest every workload has the pods of its spec, and every owner exists",
  begin: ({ store }) => ({
    atRest: () => {
      for (const version of store.collection("apps/deployments").all()) {
        const wrong = unfinishedDeployment(store, version.object());
        if (wrong !== undefined) return `${version.key}: ${wrong}`;
      }
      for (const version of store.collection(sets).all()) {
        const { metadata, spec, status } = version.object() as ReplicaSet;
        const live = activePods(store, metadata.uid).length;
        const wanted = spec?.replicas ?? 1;
        if (live !== wanted) return `${version.key} wants ${wanted} pods and has ${live}`;
        if (status?.replicas !== live)
          return `${version.key} has ${live} pods, but status.replicas is ${status?.replicas}`;
      }
      for (const version of store.collection("apps/statefulsets").all()) {
        const { metadata, spec, status } = version.object() as StatefulSet;
        const live = activePods(store, metadata.uid);
        if (live.length !== spec?.replicas)
          return `${version.key} asks for ${spec?.replicas} pods and has ${live.length}`;
        if ((status?.readyReplicas ?? 0) !== live.length) return `${version.key} is not ready`;
        if (status?.currentRevision !== status?.updateRevision) return `${version.key} has not rolled`;
      }
      const nodes = [...store.collection("/nodes").all()].filter(
        (version) => version.object().metadata.labels?.["size"] === bigNode.size,
      ).length;
      for (const version of store.collection("apps/daemonsets").all()) {
        const { metadata, status } = version.object() as DaemonSet;
        const live = activePods(store, metadata.uid).length;
        if (live !== nodes) return `${version.key} has ${live} pods on ${nodes} nodes`;
        if (status?.updatedNumberScheduled !== nodes || status.numberReady !== nodes)
          return `${version.key} has not rolled`;
      }
      for (const version of store.collection(jobs).all()) {
        const job = version.object() as Job;
        if (!isOver(job) && job.spec?.suspend !== true) return `${version.key} has not ended`;
        const active = activePods(store, job.metadata.uid);
        if (active.length > 0) return `${version.key} is over or suspended, and ${active[0]?.metadata.name} runs`;
      }
      return strayPod(store);
    },
  }),
};

function unfinishedDeployment(store: ObjectStore, { metadata, spec, status }: Deployment): string | undefined {
  if (spec?.paused === true) return undefined;
  const own = [...store.collection(sets).all()]
    .map((version) => version.object() as ReplicaSet)
    .filter((set) => controllerOf(set.metadata)?.uid === metadata.uid);
  const total = own.reduce((sum, set) => sum + (set.spec?.replicas ?? 1), 0);
  if (total !== (spec?.replicas ?? 1)) return `asks for ${spec?.replicas} pods, and its sets for ${total}`;
  const { observedGeneration, updatedReplicas = 0, availableReplicas = 0 } = status ?? {};
  if (observedGeneration !== metadata.generation) return "its status is behind";
  if (updatedReplicas !== spec?.replicas) return `${updatedReplicas} of ${spec?.replicas} pods are updated`;
  return availableReplicas === spec.replicas
    ? undefined
    : `${availableReplicas} of ${spec.replicas} pods are available`;
}

function strayPod(store: ObjectStore): string | undefined {
  const owners: Readonly<Record<string, string>> = {
    ReplicaSet: sets,
    StatefulSet: "apps/statefulsets",
    DaemonSet: "apps/daemonsets",
    Job: jobs,
  };
  for (const version of store.collection(pods).all()) {
    const pod = version.object();
    const owner = controllerOf(pod.metadata);
    const there = owner === undefined ? undefined : store.get(owners[owner.kind] ?? "", version.namespace, owner.name);
    if (owner !== undefined && there?.side.uid !== owner.uid)
      return `${version.key} belongs to ${owner.kind} ${owner.name}, which is gone`;
    if (isTracked(pod) && owner === undefined) return `${version.key} waits to be counted and has no Job`;
  }
  return undefined;
}

function activePods(store: ObjectStore, uid: string): Pod[] {
  return [...store.collection(pods).all()]
    .map((version) => version.object())
    .filter((pod) => controllerOf(pod.metadata)?.uid === uid && isActive(pod));
}

function sizeOf(set: ReplicaSet): number {
  return set.spec?.replicas ?? 1;
}

function add<T>(all: Map<string, Set<T>>, key: string, value: T): void {
  const known = all.get(key);
  if (known === undefined) all.set(key, new Set([value]));
  else known.add(value);
}

function numbers(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

/** Invariants that compare the scheduler's model with the cluster. */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { SchedulerCaches } from "../../control/schedule/schedulerCaches.ts";
import { cycle } from "../../decide/schedule/cycle.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import type { Queue } from "../../model/scheduling/queue.ts";
import type { Checks, Invariant } from "../invariant.ts";
import type { Held } from "../invariants/general.ts";
import { leaderOf } from "../invariants/leadership.ts";

const groups = "scheduling.run.ai/podgroups";
const queues = "scheduling.run.ai/queues";

type Amounts = Readonly<Record<string, string>>;

/**
 * I6: numbers from two revisions do not add up. What is allocated to a group or queue is at most what it requests; its
 * non-preemptible part is at most what is allocated; a parent has the sum of its children; and the incremental counts
 * of a scheduler equal a recount.
 */
export const sumsClose = (held: Held): Invariant => ({
  id: "I6",
  fact: "a status comes from one moment, so that its numbers add up, and counts are what a recount gives",
  begin: ({ store }) => {
    const cachesByActor = new Map<string, SchedulerCaches>();
    return {
      ...following(cachesByActor),
      commit: ({ event, call, type }) => {
        const { resource, name } = event.current;
        if (type !== "MODIFIED" || !held(call.actor) || (resource !== groups && resource !== queues)) return undefined;
        const { status } = event.current.object() as PodGroup & Queue;
        const reported = (resource === groups ? status?.resourcesStatus : status) as
          | { requested?: Amounts; allocated?: Amounts; allocatedNonPreemptible?: Amounts }
          | undefined;
        if (reported === undefined) return undefined;
        const { requested = {}, allocated = {}, allocatedNonPreemptible = {} } = reported;
        const beyond = isBeyond(allocated, requested) ?? isBeyond(allocatedNonPreemptible, allocated);
        return beyond === undefined
          ? undefined
          : `${name} says that it has more ${beyond} than it can: ${text(reported)}`;
      },
      atRest: () => {
        for (const [actor, caches] of cachesByActor) {
          const wrong = miscounted(store, caches);
          if (wrong !== undefined) return `${actor}: ${wrong}`;
        }
        return openSum(store);
      },
    };
  },
});

/** Compares the scheduler's model with a recount, and with the pods in the store. */
function miscounted(store: ObjectStore, caches: SchedulerCaches): string | undefined {
  caches.model.applyAssumed();
  try {
    caches.cluster.assertCounts();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  // A follower does not look up the outcomes of what it wrote as leader; see `nothingStaysInDoubt`.
  if ([...caches.assumeCache.unknownIntents()].length > 0) return undefined;
  for (const version of store.collection("/pods").all()) {
    const { metadata, spec, status } = version.object() as Pod;
    const isOver = status?.phase === "Succeeded" || status?.phase === "Failed";
    const there = isOver ? "" : (spec?.nodeName ?? "");
    // A follower does not look up the outcome of a share whose request has ended; the leader does.
    if (caches.model.unconfirmedShares(metadata.uid).length > 0) continue;
    const places = caches.cluster.tasks.get(metadata.uid)?.holdings.map(({ node }) => node.name) ?? [];
    if (places.join() !== there)
      return `pod ${metadata.name} is on ${there || "no node"}, and counted on ${places.join() || "none"}`;
  }
  return undefined;
}

/** A queue with children whose numbers are not the sum of theirs. */
function openSum(store: ObjectStore): string | undefined {
  const all = [...store.collection(queues).all()].map((version) => version.object() as Queue);
  for (const parent of all) {
    const children = all.filter(({ spec }) => spec.parentQueue === parent.metadata.name);
    if (children.length === 0) continue;
    for (const field of ["allocated", "requested"] as const) {
      const sum = children.reduce((total, { status }) => total + milli(status?.[field]?.[gpu]), 0);
      const reported = milli(parent.status?.[field]?.[gpu]);
      if (sum !== reported)
        return `${parent.metadata.name} says ${reported} ${field}, its children ${sum} thousandths of GPUs`;
    }
  }
  return undefined;
}

/**
 * I19: at rest the leader has observed and reconciled every write, so another cycle must decide nothing. Otherwise a
 * step was left incomplete, or a requeue is missing.
 */
export const decidingAgainDecidesNothing = (lease: string): Invariant => ({
  id: "I19",
  fact: "at rest, another cycle of the leader decides nothing, twice",
  begin: ({ store, nowMsOf }) => {
    const cachesByActor = new Map<string, SchedulerCaches>();
    return {
      ...following(cachesByActor),
      atRest: () => {
        const actor = leaderOf(store, lease);
        const caches = cachesByActor.get(actor);
        if (caches === undefined) return `${actor} leads, and has no caches`;
        for (const time of ["once more", "and again"]) {
          const { jobs, evictions } = cycle(caches.cluster, nowMsOf(actor));
          const found = jobs.find(({ binds, pipelined }) => binds.length + pipelined.length > 0);
          if (found !== undefined) return `${actor} decides ${time}, and finds a node for ${found.job.id}`;
          const [victim] = evictions;
          if (victim !== undefined) return `${actor} decides ${time}, and evicts ${victim.task.key}`;
        }
        return undefined;
      },
    };
  },
});

/** I11: the leader knows the outcome of every write that it sent. */
export const nothingStaysInDoubt = (lease: string): Invariant => ({
  id: "I11",
  fact: "at rest, the leader knows the outcome of each of its intents",
  begin: ({ store }) => {
    const cachesByActor = new Map<string, SchedulerCaches>();
    return {
      ...following(cachesByActor),
      atRest: () => {
        const actor = leaderOf(store, lease);
        const [id] = cachesByActor.get(actor)?.assumeCache.unknownIntents() ?? [];
        return id === undefined ? undefined : `${actor} does not know the outcome of ${id}`;
      },
    };
  },
});

/** Keeps the caches of the running schedulers. */
function following(cachesByActor: Map<string, SchedulerCaches>): Pick<Checks, "started" | "observe"> {
  return {
    started: (actor) => {
      cachesByActor.delete(actor);
    },
    observe: (actor, what, value) => {
      if (what === "caches") cachesByActor.set(actor, value as SchedulerCaches);
      return undefined;
    },
  };
}

const gpu = "nvidia.com/gpu";

/** The first resource of which there is more in one than in the other. */
function isBeyond(part: Amounts, whole: Amounts): string | undefined {
  return Object.keys(part).find((name) => milli(part[name]) > milli(whole[name]));
}

function milli(amount: string | undefined): number {
  if (amount === undefined) return 0;
  return amount.endsWith("m") ? Number(amount.slice(0, -1)) : Number(amount) * 1000;
}

function text(value: object): string {
  return JSON.stringify(value);
}

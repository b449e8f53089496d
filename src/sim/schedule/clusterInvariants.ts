/** What must hold about the cluster as a scheduler has it in mind, compared with what there is. */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { SchedulerCaches } from "../../control/schedule/schedulerCaches.ts";
import { cycle } from "../../decide/schedule/cycle.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { PodGroup } from "../../model/scheduling/podGroup.ts";
import type { Queue } from "../../model/scheduling/queue.ts";
import type { Checks, Invariant } from "../invariant.ts";
import type { Held } from "../invariants/general.ts";

const leases = "coordination.k8s.io/leases";
const groups = "scheduling.run.ai/podgroups";
const queues = "scheduling.run.ai/queues";

type Amounts = Readonly<Record<string, string>>;

/**
 * I6: whatever was counted at two moments does not add up. What a group or queue has is part of what it asks for; what
 * may not be evicted is part of what it has; what a parent has is what its children have; and what a scheduler counted
 * as things changed is what it would count from their holders.
 */
export const sumsClose = (held: Held): Invariant => ({
  id: "I6",
  fact: "a status comes from one moment, so that its sums close, and counts are what a recount gives",
  begin: ({ store }) => {
    const worlds = new Map<string, SchedulerCaches>();
    return {
      ...following(worlds),
      commit: ({ event, call, type }) => {
        const { resource, name } = event.current;
        if (type !== "MODIFIED" || !held(call.actor) || (resource !== groups && resource !== queues)) return undefined;
        const { status } = event.current.object() as PodGroup & Queue;
        const told = (resource === groups ? status?.resourcesStatus : status) as
          | { requested?: Amounts; allocated?: Amounts; allocatedNonPreemptible?: Amounts }
          | undefined;
        if (told === undefined) return undefined;
        const { requested = {}, allocated = {}, allocatedNonPreemptible = {} } = told;
        const beyond = isBeyond(allocated, requested) ?? isBeyond(allocatedNonPreemptible, allocated);
        return beyond === undefined ? undefined : `${name} says that it has more ${beyond} than it can: ${text(told)}`;
      },
      atRest: () => {
        for (const [actor, world] of worlds) {
          const wrong = miscounted(store, world);
          if (wrong !== undefined) return `${actor}: ${wrong}`;
        }
        return openSum(store);
      },
    };
  },
});

/** What a scheduler has in mind against a recount, and against the pods as they are. */
function miscounted(store: ObjectStore, world: SchedulerCaches): string | undefined {
  world.model.settle();
  try {
    world.cluster.assertCounts();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  for (const version of store.collection("/pods").all()) {
    const { metadata, spec, status } = version.object() as Pod;
    const isOver = status?.phase === "Succeeded" || status?.phase === "Failed";
    const there = isOver ? "" : (spec?.nodeName ?? "");
    // A stand-by does not look up what became of a share whose request has ended; it does so when it leads.
    if (world.model.lingeringGroups(metadata.uid).length > 0) continue;
    const places = world.cluster.tasks.get(metadata.uid)?.holdings.map(({ node }) => node.name) ?? [];
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
      const told = milli(parent.status?.[field]?.[gpu]);
      if (sum !== told) return `${parent.metadata.name} says ${told} ${field}, its children ${sum} thousandths of GPUs`;
    }
  }
  return undefined;
}

/**
 * I19: the same step again changes nothing. At rest the leader has observed every write and reconciled it, so another
 * cycle must decide nothing; otherwise a step was left half done, or a requeue was missed.
 */
export const decidingAgainDecidesNothing = (lease: string): Invariant => ({
  id: "I19",
  fact: "at rest, who leads decides again and finds nothing to do, twice",
  begin: ({ store, nowMsOf }) => {
    const worlds = new Map<string, SchedulerCaches>();
    return {
      ...following(worlds),
      atRest: () => {
        const actor = leaderOf(store, lease);
        const world = worlds.get(actor);
        if (world === undefined) return `${actor} leads, and has no picture`;
        for (const time of ["once more", "and again"]) {
          const { jobs, evictions } = cycle(world.cluster, nowMsOf(actor));
          const found = jobs.find(({ binds, pipelined }) => binds.length + pipelined.length > 0);
          if (found !== undefined) return `${actor} decides ${time}, and has a place for ${found.job.id}`;
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
  fact: "at rest, who leads knows how each of its intents ended",
  begin: ({ store }) => {
    const worlds = new Map<string, SchedulerCaches>();
    return {
      ...following(worlds),
      atRest: () => {
        const actor = leaderOf(store, lease);
        const [id] = worlds.get(actor)?.picture.unknownIntents() ?? [];
        return id === undefined ? undefined : `${actor} does not know what became of ${id}`;
      },
    };
  },
});

/** Keeps what the living schedulers have in mind. */
function following(worlds: Map<string, SchedulerCaches>): Pick<Checks, "born" | "observe"> {
  return {
    born: (actor) => {
      worlds.delete(actor);
    },
    observe: (actor, what, value) => {
      if (what === "world") worlds.set(actor, value as SchedulerCaches);
      return undefined;
    },
  };
}

function leaderOf(store: ObjectStore, lease: string): string {
  const found = [...store.collection(leases).all()].find(({ name }) => name === lease)?.object();
  return (found?.["spec"] as { holderIdentity?: string } | undefined)?.holderIdentity ?? "";
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

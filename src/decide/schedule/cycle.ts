import type { Cluster } from "./cluster/cluster.ts";
import type { ExtendedFit, GroupClaims } from "./cluster/deviceClaims.ts";
import type { Job } from "./cluster/job.ts";
import type { Task } from "./cluster/task.ts";
import { consolidate, evictStaleGangs, preempt, reclaim } from "./eviction/evictingActions.ts";
import type { SearchCounts } from "./eviction/searchCounts.ts";
import { reasonToldTo } from "./eviction/victimRules.ts";
import { allocate } from "./placement/allocate.ts";
import { type CycleObserver, type Obstacle, Session } from "./session.ts";
import type { ActionName } from "./settings.ts";
import type { EvictionReason } from "./statement.ts";
import type { ChosenVolumes } from "./volumes/volumeChoices.ts";
import { JobFault } from "./waiting/jobFault.ts";

/** A pod is bound to a node now. */
export interface PlannedBind {
  readonly task: Task;
  readonly node: string;
  readonly groups: readonly string[];
  /** The memory of one GPU of the node, which a share is a portion of. */
  readonly gpuMemoryMiB: number;
  readonly allocations: readonly { readonly name: string; readonly allocation: unknown }[];
  /** Of the claim for extended resources that devices serve. */
  readonly extended?: ExtendedFit;
  /** Claims that are reserved for a PodGroup. */
  readonly groupClaims?: GroupClaims;
  /** Volumes of claims that waited for the node. */
  readonly volumes?: ChosenVolumes;
}

export interface PlannedEviction {
  readonly task: Task;
  readonly reason: EvictionReason;
}

/** The decision for one job; all of it is written, or nothing. */
export interface PlannedJob {
  readonly job: Job;
  readonly action: ActionName;
  readonly binds: readonly PlannedBind[];
  /** Pods that will be bound to this node when resources there are released. */
  readonly pipelined: readonly { readonly task: Task; readonly node: string }[];
}

/** The outcome of one cycle. The cluster is unchanged: a plan takes effect when it is written. */
export interface Plan {
  readonly jobs: readonly PlannedJob[];
  readonly evictions: readonly PlannedEviction[];
  /** UIDs of pods whose nomination cannot be met, and the ids of their jobs. */
  readonly broken: ReadonlyMap<string, string>;
  /** Why the other jobs stay pending. */
  readonly obstacles: ReadonlyMap<Job, Obstacle>;
  /** The counts of the victim searches. */
  readonly searches: ReadonlyMap<ActionName, SearchCounts>;
  /** When the passing of time alone may change the decision. */
  readonly wakeMs: number | undefined;
  /** Exceptions; the jobs that they are about were left out. */
  readonly faults: readonly JobFault[];
}

/** Actions by name, run in the order of the settings. */
export type Action = (session: Session) => void;

export const actions: Readonly<Record<ActionName, Action>> = {
  allocate,
  consolidation: consolidate,
  reclaim,
  preempt,
  stalegangeviction: evictStaleGangs,
};

/** How often a cycle begins again without a job that it failed on. */
const restartsMax = 8;

/**
 * Runs one cycle. `inspect` is called with all trials applied, before the rollback. A job that the cycle fails on is
 * set aside, so that one object does not end the scheduling of all others.
 */
export function cycle(
  cluster: Cluster,
  nowMs: number,
  inspect?: (session: Session) => void,
  observer?: CycleObserver,
): Plan {
  const faults: JobFault[] = [];
  for (;;) {
    try {
      return cycleWithout(faults, cluster, nowMs, inspect, observer);
    } catch (error) {
      if (!(error instanceof JobFault) || faults.length === restartsMax) throw error;
      cluster.waitingJobs.setAside(error.job, nowMs);
      faults.push(error);
    }
  }
}

/** `faults`: of jobs that were set aside by then. */
function cycleWithout(
  faults: readonly JobFault[],
  cluster: Cluster,
  nowMs: number,
  inspect: ((session: Session) => void) | undefined,
  observer: CycleObserver | undefined,
): Plan {
  const session = new Session(cluster, nowMs, observer);
  for (const fault of faults) session.noteFault(fault);
  session.observer.stageEnded("open");
  let plan: Plan;
  try {
    for (const name of cluster.settings.actions) {
      actions[name](session);
      session.observer.stageEnded(name);
    }
    plan = planOf(session);
    inspect?.(session);
  } finally {
    // Also after an exception: trials must not count in the next cycle.
    session.statement.rollback(0);
  }
  return { ...plan, wakeMs: session.close(), faults: [...session.faults.values()] };
}

function planOf({ cluster, statement, decided, obstacles, searches, wakeMs }: Session): Plan {
  const binds = new Map<Job, PlannedBind[]>();
  const pipelined = new Map<Job, { task: Task; node: string }[]>();
  const evictions: PlannedEviction[] = [];
  for (const task of statement.touchedSince(0)) {
    const reason = statement.evictionOf(task);
    if (reason !== undefined) {
      evictions.push({ task, reason: reasonToldTo(task, reason) });
      continue;
    }
    const holding = task.holdings.at(-1);
    if (holding === undefined || task.job === undefined) continue;
    const { node, groups } = holding;
    if (task.status === "allocated") {
      const { gpuMemoryMiB, name } = node;
      const { allocations = [], extended, groupClaims } = statement.devicesOf(task) ?? {};
      const volumes = task.shape.volumeClaims.length === 0 ? undefined : cluster.volumes.chosenBy(task);
      const chosen = {
        allocations,
        ...(volumes !== undefined && { volumes }),
        ...(extended !== undefined && { extended }),
        ...(groupClaims !== undefined && { groupClaims }),
      };
      append(binds, task.job, { task, node: name, groups, gpuMemoryMiB, ...chosen });
    } else if (task.status === "pipelined") {
      append(pipelined, task.job, { task, node: node.name });
    }
  }
  const jobs = [...decided].map(([job, action]) => ({
    job,
    action,
    binds: binds.get(job) ?? [],
    pipelined: pipelined.get(job) ?? [],
  }));
  return { jobs, evictions, broken: unmetNominations(cluster), obstacles, searches, wakeMs, faults: [] };
}

function unmetNominations({ nominated }: Cluster): Map<string, string> {
  const broken = new Map<string, string>();
  for (const { uid, status, job } of nominated) {
    if (status === "pending" && job !== undefined) broken.set(uid, job.id);
  }
  return broken;
}

function append<V>(map: Map<Job, V[]>, job: Job, value: V): void {
  const known = map.get(job);
  if (known === undefined) map.set(job, [value]);
  else known.push(value);
}

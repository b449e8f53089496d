/** What a change of the cluster would change: two projections, with the change and without it, are compared. */
import type { Node, ResourceSlice } from "../../../model/kubernetes.generated.ts";
import type { Queue, QueueResource } from "../../../model/scheduling/queue.ts";
import type { SchedulingShard } from "../../../model/scheduling/schedulingShard.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { gpuText } from "../explain/amountWords.ts";
import { jobRows, type QueueRow, queueRows, workloadOf } from "../explain/report.ts";
import type { ClusterObjects } from "../model/clusterOf.ts";
import { poolClusters } from "../poolClusters.ts";
import { type NewWorkload, withWorkloads } from "./newWorkloads.ts";
import { drained, type ProjectedEviction, project } from "./projection.ts";

export interface Change {
  readonly nodes?: readonly Node[];
  readonly slices?: readonly ResourceSlice[];
  readonly queue?: { readonly name: string; readonly gpu: QueueResource };
  /** The names of nodes. */
  readonly drain?: readonly string[];
  readonly workloads?: readonly NewWorkload[];
}

/** A workload that runs more or fewer pods with the change. */
export interface WorkloadChange {
  readonly namespace: string;
  readonly workload: string;
  readonly queue: string;
  /** Pods with a node, without the change and with it. */
  readonly before: number;
  readonly after: number;
  readonly gpusBefore: string;
  readonly gpusAfter: string;
  /** Why it loses pods, or why its pods wait; empty if it starts. */
  readonly why: string;
}

export interface QueueChange {
  readonly name: string;
  readonly before: QueueRow | undefined;
  readonly after: QueueRow | undefined;
}

export interface WhatIf {
  readonly starts: readonly WorkloadChange[];
  readonly stops: readonly WorkloadChange[];
  /** Workloads of the change with pods that do not start. */
  readonly waits: readonly WorkloadChange[];
  /** Pods that only the change evicts, of workloads that keep the number of their pods. */
  readonly restarts: readonly { readonly pod: string; readonly why: string }[];
  /** Queues whose row differs. */
  readonly queues: readonly QueueChange[];
  readonly isSettled: boolean;
}

export function whatIf(
  objects: ClusterObjects,
  shards: readonly SchedulingShard[],
  change: Change,
  nowMs: number,
): WhatIf {
  const changed = apply(objects, change, nowMs);
  const [without, within] = [project(objects, shards, nowMs), project(changed.objects, shards, nowMs)];
  const [clustersBefore, clusters] = [poolClusters(without.objects, shards), poolClusters(within.objects, shards)];
  const evictions = [...changed.evictions, ...within.evictions];
  const rows = new Map(clusters.flatMap((cluster) => jobRows(cluster, nowMs)).map((row) => [row.id, row.message]));
  const [before, after] = [standings(clustersBefore), standings(clusters)];
  const starts: WorkloadChange[] = [];
  const stops: WorkloadChange[] = [];
  const waits: WorkloadChange[] = [];
  for (const id of new Set([...before.keys(), ...after.keys()])) {
    const [had, has] = [before.get(id), after.get(id)];
    const { job } = (has ?? had) as Standing;
    const row = {
      namespace: job.namespace,
      workload: workloadOf(job),
      queue: job.queueName,
      before: had?.placed ?? 0,
      after: has?.placed ?? 0,
      gpusBefore: gpuText(had?.gpuMilli ?? 0),
      gpusAfter: gpuText(has?.gpuMilli ?? 0),
    };
    const waiting = rows.get(id) ?? "";
    const evicted = evictions.find((each) => each.job === id)?.why;
    if (row.after > row.before) starts.push({ ...row, why: "" });
    else if (row.after < row.before) stops.push({ ...row, why: evicted ?? waiting });
    if (had === undefined && has !== undefined && has.job.pendingCount > 0) waits.push({ ...row, why: waiting });
  }
  const stopped = new Set(stops.map(({ namespace, workload }) => `${namespace} ${workload}`));
  const isStopped = ({ job = "", pod }: ProjectedEviction): boolean => {
    const known = before.get(job)?.job;
    return known === undefined ? before.has(pod) : stopped.has(`${known.namespace} ${workloadOf(known)}`);
  };
  const anyway = new Set(without.evictions.map(({ pod }) => pod));
  return {
    starts,
    stops,
    waits,
    restarts: evictions
      .filter((each) => !anyway.has(each.pod) && !isStopped(each))
      .map(({ pod, why }) => ({ pod, why })),
    queues: queueChanges(clustersBefore, clusters, nowMs),
    isSettled: without.isSettled && within.isSettled,
  };
}

function apply(
  objects: ClusterObjects,
  { nodes = [], slices = [], queue, drain = [], workloads = [] }: Change,
  nowMs: number,
): { readonly objects: ClusterObjects; readonly evictions: readonly ProjectedEviction[] } {
  const { devices } = objects;
  let next: ClusterObjects = {
    ...objects,
    nodes: [...objects.nodes, ...nodes],
    ...(devices && { devices: { ...devices, slices: [...devices.slices, ...slices] } }),
    ...(queue && { queues: objects.queues.map((each) => withQuota(each, queue)) }),
  };
  const evictions: ProjectedEviction[] = [];
  for (const node of drain) {
    const after = drained(next, node, nowMs);
    next = after.objects;
    evictions.push(...after.evictions);
  }
  return { objects: withWorkloads(next, workloads, nowMs), evictions };
}

function withQuota(queue: Queue, { name, gpu }: { readonly name: string; readonly gpu: QueueResource }): Queue {
  if (queue.metadata.name !== name) return queue;
  const { resources } = queue.spec ?? {};
  return { ...queue, spec: { ...queue.spec, resources: { ...resources, gpu: { ...resources?.gpu, ...gpu } } } };
}

interface Standing {
  readonly job: Job;
  readonly placed: number;
  readonly gpuMilli: number;
}

/** By the id of the job; pods without a PodGroup have the id `namespace/name`. */
function standings(clusters: readonly Cluster[]): Map<string, Standing> {
  const byId = new Map<string, Standing>();
  for (const { jobs } of clusters) {
    for (const job of jobs.values()) {
      const id = job.isGroup ? job.id : `${job.namespace}/${job.name}`;
      byId.set(id, { job, placed: job.allocatedCount, gpuMilli: job.allocated[0] });
    }
  }
  return byId;
}

function queueChanges(before: readonly Cluster[], after: readonly Cluster[], nowMs: number): QueueChange[] {
  const rowsOf = (clusters: readonly Cluster[]): Map<string, QueueRow> =>
    new Map(clusters.flatMap((cluster) => queueRows(cluster, nowMs)).map((row) => [row.name, row]));
  const [had, has] = [rowsOf(before), rowsOf(after)];
  const changes: QueueChange[] = [];
  for (const name of new Set([...had.keys(), ...has.keys()])) {
    const change = { name, before: had.get(name), after: has.get(name) };
    if (JSON.stringify(change.before) !== JSON.stringify(change.after)) changes.push(change);
  }
  return changes;
}

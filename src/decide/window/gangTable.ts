import { formatTime } from "../../model/values/time.ts";
import type { GangLine, GangsPart } from "../../model/window/parts.ts";
import { type GangObjects, gangTree } from "../gang/gangTree.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import { type GroupNode, type Job, podSetsOf } from "../schedule/cluster/job.ts";

/** The trees of PodCliqueSets, then PodGroups that belong to none of them. */
export function gangsOf(clusters: readonly Cluster[], objects: GangObjects, nowMs: number): GangsPart {
  const lines = gangTree(objects, nowMs).map(
    ({ kind, namespace, name, depth, minimum, replicas, scheduled, ready, breach, ending, leftMs }): GangLine => ({
      ...{ kind, namespace, name, depth, minimum, replicas, scheduled, ready, breach, ending },
      ...{ queue: "", gpus: 0, since: "" },
      endsAt: leftMs === undefined ? "" : formatTime(Math.round((nowMs + leftMs) / 1000) * 1000),
    }),
  );
  const groups = clusters.flatMap((cluster) =>
    [...cluster.jobs.values()].filter(isGang).map((job) => lineOf(cluster, job)),
  );
  groups.sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
  return { gangs: [...lines, ...groups] };
}

function isGang(job: Job): boolean {
  return job.isGroup && job.tasks.size > 0;
}

function lineOf(cluster: Cluster, job: Job): GangLine {
  const ready = [...job.tasks].filter(({ status, pod }) => status === "running" && isReady(pod)).length;
  const graceMs = job.stalenessGraceMs ?? cluster.settings.stalenessGraceMs;
  const { staleSinceMs } = job;
  const endsAt = staleSinceMs === undefined || graceMs < 0 ? "" : formatTime(staleSinceMs + graceMs);
  return {
    kind: "PodGroup",
    namespace: job.namespace,
    name: job.name,
    depth: 0,
    queue: job.queueName,
    gpus: Math.round(job.allocated[0] + cluster.pendingVector(job)[0]),
    since: formatTime(job.createdMs),
    minimum: leastOf(job.root),
    replicas: job.tasks.size,
    scheduled: job.allocatedCount,
    ready,
    breach: staleSinceMs === undefined ? "" : "MinAvailableBreached",
    ending: "",
    endsAt,
  };
}

function isReady({
  status,
}: {
  readonly status?: { readonly conditions?: readonly { type: string; status: string }[] };
}): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

function leastOf(root: GroupNode): number {
  return podSetsOf(root).reduce((sum, { min }) => sum + min, 0);
}

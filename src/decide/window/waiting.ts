import { formatTime } from "../../model/values/time.ts";
import type { JobRow, JobsPart } from "../../model/window/parts.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import type { GroupNode, Job } from "../schedule/cluster/job.ts";
import { headline } from "./headline.ts";
import { nameOfJob } from "./wall.ts";

/** Why a job waits, as the scheduler reported it last. */
export interface ReportedReason {
  readonly reason: string;
  readonly message: string;
  readonly cure: string;
}

export type ReasonOf = (jobId: string) => ReportedReason | undefined;

const gated: ReportedReason = { reason: "SchedulingGated", message: "", cure: "" };
const none: ReportedReason = { reason: "", message: "", cure: "" };

/** Every job that has pods to place, in the order in which each queue serves them. */
export function waitingJobs(cluster: Cluster, reasonOf: ReasonOf): JobRow[] {
  const rows: JobRow[] = [];
  const lines = new Map<string, number>();
  for (const job of [...cluster.jobs.values()].filter(waits).sort(byLine)) {
    const line = (lines.get(job.queueName) ?? 0) + 1;
    lines.set(job.queueName, line);
    rows.push({
      id: nameOfJob(job),
      queue: job.queueName,
      priority: job.priority,
      gpus: cluster.pendingVector(job)[0],
      placed: job.allocatedCount,
      minimum: leastPods(job.root),
      pods: job.tasks.size,
      ...wordsOf(reasonOf(job.id), stateOf(job)),
      since: formatTime(job.createdMs),
      line,
    });
  }
  for (const [id, tasks] of cluster.withoutGroup) {
    const waiting = [...tasks].filter(({ status }) => status === "pending");
    if (waiting.length === 0) continue;
    const { leastMiB } = cluster.gpuMemoryRange();
    rows.push({
      id,
      queue: "",
      priority: 0,
      gpus: waiting.reduce((sum, task) => sum + cluster.vectorOf(task, leastMiB)[0], 0),
      placed: 0,
      minimum: 1,
      pods: waiting.length,
      ...wordsOf(reasonOf(id), "Pending"),
      since: formatTime(Math.min(...waiting.map(({ createdMs }) => createdMs))),
      line: 1,
    });
  }
  return rows;
}

type Words = Pick<JobRow, "state" | "reason" | "message" | "cure" | "head" | "short">;

function wordsOf(given: ReportedReason | undefined, state: JobRow["state"]): Words {
  const { reason, message, cure } = given ?? none;
  const isGated = state === "Gated" && reason === "";
  return {
    state,
    reason,
    message,
    cure,
    ...headline(isGated ? gated : { reason, message, cure }, state === "Nominated"),
  };
}

export function jobsOf(pools: readonly { readonly cluster: Cluster; readonly reasonOf: ReasonOf }[]): JobsPart {
  const rows = pools.flatMap(({ cluster, reasonOf }) => waitingJobs(cluster, reasonOf));
  // A name that is in two pools is one row of the list: ids are keys.
  const byId = [...new Map(rows.map((row) => [row.id, row])).values()];
  const isGated = ({ state }: JobRow): boolean => state === "Gated";
  return { jobs: [...byId.filter((row) => !isGated(row)), ...byId.filter(isGated)] };
}

function waits(job: Job): boolean {
  if (job.pendingCount > 0 || job.waitingStray !== undefined) return true;
  return job.podSets.some((set) => set.countOf("gated") > 0);
}

function stateOf(job: Job): JobRow["state"] {
  if (job.pendingCount === 0 && job.waitingStray === undefined) return "Gated";
  for (const { status, pod } of job.tasks) {
    if (status === "pending" && pod.status?.nominatedNodeName !== undefined) return "Nominated";
  }
  return "Pending";
}

/** With how many pods it starts: of subgroups that need not all be there, the smallest. */
function leastPods({ podSet, children, minChildren }: GroupNode): number {
  if (podSet !== undefined) return podSet.min;
  const least = children.map(leastPods).sort((a, b) => a - b);
  return least.slice(0, minChildren).reduce((sum, count) => sum + count, 0);
}

function byLine(a: Job, b: Job): number {
  return (
    (a.queueName < b.queueName ? -1 : a.queueName > b.queueName ? 1 : 0) ||
    b.priority - a.priority ||
    a.createdMs - b.createdMs ||
    (a.id < b.id ? -1 : 1)
  );
}

/** Why a job waits, found by the scheduler on a scratch cluster: nothing of it is carried out. */
import { formatTime } from "../../model/values/time.ts";
import type { WhyClass, WhyCure, WhyFindings, WhyHolder } from "../../model/window/why.ts";
import type { Cluster } from "../schedule/cluster/cluster.ts";
import type { Job } from "../schedule/cluster/job.ts";
import type { Task } from "../schedule/cluster/task.ts";
import { cycle } from "../schedule/cycle.ts";
import { cureOf } from "../schedule/explain/cure.ts";
import { cureText } from "../schedule/explain/cureText.ts";
import { nodeReasons, type RefusedNodes } from "../schedule/explain/explain.ts";
import { nextSteps, type Step } from "../schedule/placement/gangSteps.ts";
import { inPlacingOrder } from "../schedule/placement/placeStep.ts";
import { placeTask } from "../schedule/placement/placeTask.ts";
import { reclaimRules } from "../schedule/queues/reclaimRules.ts";
import type { Session } from "../schedule/session.ts";
import { nameOfJob } from "./wall.ts";

const holdersMax = 8;

/** Undefined when no job of that name has pods to place. */
export function whyOf(cluster: Cluster, id: string, nowMs: number): WhyFindings | undefined {
  const job = [...cluster.jobs.values()].find((each) => nameOfJob(each) === id && each.pendingCount > 0);
  if (job === undefined) return undefined;
  let findings: WhyFindings | undefined;
  cycle(cluster, nowMs, (session) => {
    const [step] = nextSteps(job);
    if (step !== undefined) findings = findingsOf(session, job, step);
  });
  return findings;
}

function findingsOf(session: Session, job: Job, step: Step): WhyFindings {
  const { cluster, statement } = session;
  const start = statement.checkpoint();
  const found: string[] = [];
  let failed: Task | undefined;
  for (const task of inPlacingOrder(job, step)) {
    if (!placeTask(cluster, statement, task)) {
      failed = task;
      break;
    }
    found.push(task.holdings.at(-1)?.node.name ?? "");
  }
  const reasons = failed === undefined ? new Map<string, RefusedNodes>() : nodeReasons(session, failed).reasons;
  statement.rollback(start);
  const taken = new Set(found);
  const evidence = [...reasons]
    .map(
      ([text, { names }]): WhyClass => ({
        class: classOf(text),
        text,
        nodes: names.filter((name) => !taken.has(name)),
      }),
    )
    .filter(({ nodes }) => nodes.length > 0)
    .sort((a, b) => b.nodes.length - a.nodes.length || (a.text < b.text ? -1 : 1));
  const refused = new Set(evidence.filter((each) => each.class === "selector").flatMap(({ nodes }) => nodes));
  return {
    of: nameOfJob(job),
    places: { needed: step.tasks.length, found },
    total: cluster.table.nodes.filter(({ node }) => node !== undefined).length,
    evidence,
    cures: failed === undefined ? [] : curesOf(session, job, step, found),
    holders: holdersOf(session, job, step, refused),
  };
}

function classOf(text: string): WhyClass["class"] {
  if (text.startsWith("do not have enough") || text.startsWith("have no GPU") || text.includes("failed GPU"))
    return "amounts";
  if (text.includes("not ready or cordoned")) return "unhealthy";
  if (text.includes("taint")) return "taint";
  if (text.includes("node selector")) return "selector";
  if (text.startsWith("are ruled out by pod")) return "pods";
  if (text.startsWith("are ruled out by")) return "volumes";
  if (text.includes("nominated")) return "nominated";
  return text.includes("topology domain") ? "domain" : "other";
}

function curesOf(session: Session, job: Job, step: Step, found: readonly string[]): WhyCure[] {
  const cure = cureOf(session, job, step);
  const text = cureText(session, job, step);
  const cures: WhyCure[] = [];
  if (cure.type === "cure") {
    const nodes = [
      ...new Set([...cure.grants.map(({ node }) => node.name), ...cure.repaired.map(({ name }) => name)]),
    ].sort();
    const gone = [...new Set(cure.deleted.map(({ key }) => key))].sort();
    const effect = [
      nodes.length > 0 ? `It would use ${listed(nodes)}.` : "",
      gone.length > 0 ? `${listed(gone)} would have to end.` : "",
    ];
    cures.push({ id: "free", text, verdict: "starts", effect: effect.filter((each) => each !== "").join(" "), nodes });
  } else cures.push({ id: "free", text, verdict: cure.type === "none" ? "waits" : "untried", effect: "", nodes: [] });
  const isWholeGang = job.isGroup && job.root.podSet !== undefined && job.allocatedCount === 0;
  if (isWholeGang && found.length > 0 && found.length < step.tasks.length) {
    cures.push({
      id: `min=${found.length}`,
      text: `minMember ${found.length} instead of ${step.tasks.length}`,
      verdict: "starts",
      effect: `It starts at once on ${listed([...new Set(found)])}; the other pods follow as places become free.`,
      nodes: [],
    });
  }
  return cures;
}

function listed(names: readonly string[]): string {
  return names.length <= 5 ? names.join(", ") : `${names.slice(0, 5).join(", ")} and ${names.length - 5} more`;
}

/** Workloads on nodes that the job accepts, with most GPUs first, and whether they may be evicted for it. */
function holdersOf(session: Session, job: Job, step: Step, refused: ReadonlySet<string>): WhyHolder[] {
  const held = new Map<Job, number>();
  for (const { name, node, holdings } of session.cluster.table.nodes) {
    if (node === undefined || refused.has(name)) continue;
    for (const { holder } of holdings) {
      const task = holder as Task;
      const milli = task.counted?.[0] ?? session.cluster.vectorOf(task, session.cluster.gpuMemoryRange().leastMiB)[0];
      if (task.job === undefined || task.job === job || task.isReservation || milli <= 0) continue;
      held.set(task.job, (held.get(task.job) ?? 0) + milli);
    }
  }
  const rules = reclaimRules(session, job, step);
  return [...held]
    .sort(([a, x], [b, y]) => y - x || (a.id < b.id ? -1 : 1))
    .slice(0, holdersMax)
    .map(([holder, gpus]) => ({
      of: nameOfJob(holder),
      queue: holder.queueName,
      gpus: Math.round(gpus),
      since: formatTime(holder.lastStartMs ?? holder.createdMs),
      ...mayBeEvicted(job, holder, rules),
    }));
}

function mayBeEvicted(
  job: Job,
  holder: Job,
  rules: ReturnType<typeof reclaimRules>,
): Pick<WhyHolder, "evictable" | "why"> {
  const no = (why: string): Pick<WhyHolder, "evictable" | "why"> => ({ evictable: false, why });
  if (!holder.isGroup || holder.queue === undefined) return no("it is in no queue");
  if (!holder.isPreemptible) return no("it cannot be evicted");
  if (holder.queueName === job.queueName) {
    if (holder.priority >= job.priority)
      return no(`own queue, ${holder.priority > job.priority ? "higher" : "same"} priority (${holder.priority})`);
    return job.mayPreempt
      ? { evictable: true, why: `own queue, lower priority (${holder.priority})` }
      : no("its priority class never preempts");
  }
  if (rules === undefined) return no("this job's queue would go beyond its fair share");
  if (!rules.isVictim(holder)) {
    const { allocated, deserved } = holder.queue;
    const isWithinQuota = deserved[0] < 0 || allocated[0] <= deserved[0];
    return no(`queue ${holder.queueName} is within its ${isWithinQuota ? "quota" : "fair share"}`);
  }
  if (!rules.mayLoseCore(holder)) return no("within its minimum runtime");
  return { evictable: true, why: `queue ${holder.queueName} is beyond its fair share` };
}

import { labelKeys } from "../../../model/scheduling/keys.ts";
import { poolName, type QueueDetails } from "../../../model/scheduling/podGroup.ts";
import { unlimited } from "../../../model/scheduling/queue.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { addTo, queueResources, type Vector, zeroVector } from "../cluster/resources.ts";
import { nextSteps, type Step } from "../placement/gangSteps.ts";
import { placeStep } from "../placement/placeStep.ts";
import { type GateRefusal, gateRefusal } from "../queues/gates.ts";
import type { QueueState } from "../queues/queueTree.ts";
import type { Session } from "../session.ts";
import { amountsOf, fieldText } from "./amountWords.ts";
import { cureText } from "./cureText.ts";
import { largerThanAnyNode } from "./largestNode.ts";
import { trialBudgetOf } from "./trialBudget.ts";
import type { Verdict } from "./verdict.ts";

export function explainQueue(cluster: Cluster, job: Job, why: "missing" | "orphan" | "inner"): Verdict {
  const { queueName } = job;
  if (queueName === "") {
    const message = `PodGroup ${job.id} names no queue`;
    return { reason: "QueueDoesNotExist", message, cure: `set spec.queue of PodGroup ${job.id}` };
  }
  switch (why) {
    case "missing":
      return explainMissing(cluster, job);
    case "orphan": {
      const { problem, cure } = explainOrphan(cluster, queueName);
      return {
        reason: "QueueTakesNoPods",
        message: `queue ${queueName} is not in the tree of queues: ${problem}`,
        cure,
      };
    }
    case "inner":
      return {
        reason: "QueueTakesNoPods",
        message: `queue ${queueName} has child queues; only queues without children take workloads`,
        cure: `name one of the child queues of ${queueName}`,
      };
  }
}

function explainMissing({ queuesOfOtherPools, settings }: Cluster, { queueName, id }: Job): Verdict {
  const pool = queuesOfOtherPools.get(queueName);
  if (pool === undefined) {
    return {
      reason: "QueueDoesNotExist",
      message: `queue ${queueName} does not exist`,
      cure: `create queue ${queueName}, or name another`,
    };
  }
  const move =
    pool === "" ? `remove the label ${labelKeys.nodePool} from` : `set the label ${labelKeys.nodePool} to ${pool} on`;
  return {
    reason: "QueueTakesNoPods",
    message: `queue ${queueName} is of node pool ${poolName(pool)}, and PodGroup ${id} is of node pool ${poolName(settings.nodePool)}`,
    cure: `name a queue of node pool ${poolName(settings.nodePool)}, or ${move} PodGroup ${id}`,
  };
}

/** Why an existing queue is not in the tree of queues. */
export function orphanText(cluster: Cluster, queueName: string): string {
  return `not in the tree of queues: ${explainOrphan(cluster, queueName).problem}`;
}

function explainOrphan({ queues, queuesOfOtherPools }: Cluster, queueName: string): Orphaned {
  const orphan = queues.orphans.get(queueName);
  if (orphan?.circle === undefined) {
    const { child = queueName, parent = "" } = orphan ?? {};
    const pool = queuesOfOtherPools.get(parent);
    return {
      problem: `queue ${child} names the parent ${parent}, which ${pool === undefined ? "does not exist" : `is of node pool ${poolName(pool)}`}`,
      cure: `${pool === undefined ? `create queue ${parent}, or ` : ""}set parentQueue of queue ${child} to an existing queue`,
    };
  }
  const { circle } = orphan;
  if (circle.length === 1) {
    return {
      problem: `queue ${circle[0]} is its own parent`,
      cure: `remove parentQueue of queue ${circle[0]}, or name another`,
    };
  }
  // Cut above the queue itself: it must not become the parent of those that were above it.
  const at = circle.indexOf(queueName);
  const cut = circle[(at + 1) % circle.length];
  return {
    problem: `the parents of queue ${circle[0]} form a cycle (${[...circle, circle[0]].join(", ")})`,
    cure: `remove parentQueue of queue ${cut}, or name another`,
  };
}

interface Orphaned {
  readonly problem: string;
  readonly cure: string;
}

/** A limit or quota that is exceeded, and the value that would be enough. */
interface Excess {
  readonly queue: QueueState;
  readonly resource: number;
  readonly bound: "limit" | "quota";
  readonly wanted: number;
  /** The bound would be kept if the queue were empty. */
  readonly mayWait: boolean;
}

export function explainGate(session: Session, job: Job, refusal: GateRefusal): Verdict {
  const [step] = nextSteps(job);
  for (const task of step?.tasks ?? []) {
    const tooLarge = largerThanAnyNode(session, task);
    if (tooLarge === undefined) continue;
    return { reason: "PodSchedulingErrors", message: `pod ${task.key} ${tooLarge.text}`, cure: tooLarge.cure };
  }
  const { reason, queue, resource } = refusal;
  const requested = requestedOf(session.cluster, step, refusal);
  const name = queueResources[resource] ?? "gpu";
  const show = (vector: Readonly<Vector>): string => fieldText(resource, vector[resource] ?? 0);
  const excesses = excessesOf(job, requested);
  const raises = excesses.map(
    (each) =>
      `raise the ${queueResources[each.resource]} ${each.bound} of queue ${each.queue.name} to ${fieldText(each.resource, each.wanted)}`,
  );
  const ways = [raises.join(" and ")];
  const mayWait = excesses.every((each) => each.mayWait);
  const about = { reason, queueDetails: queueDetails(queue, job, requested) };
  if (reason === "OverLimit") {
    if (mayWait) ways.push("wait until its workloads end");
    return {
      ...about,
      message: `queue ${queue.name} has reached its limit of ${name}: the limit is ${show(queue.limit)}, ${show(queue.allocated)} are in use, ${show(requested)} more are requested`,
      cure: `${ways.join(", or ")}${roomText(session, job, step)}`,
    };
  }
  const leaf = job.queue ?? queue;
  if (gateRefusal(leaf, true, requested) === undefined) {
    ways.unshift(`use a preemptible workload (label ${labelKeys.preemptibility}: preemptible)`);
  }
  if (mayWait) ways.push("wait until non-preemptible workloads of the queue end");
  return {
    ...about,
    message: `${job.name} is non-preemptible and would exceed the ${name} quota of queue ${queue.name}: the quota is ${show(queue.deserved)}, non-preemptible workloads use ${show(queue.allocatedNonPreemptible)}, ${show(requested)} more are requested`,
    cure: `${ways.join(", or ")}${roomText(session, job, step)}`,
  };
}

/**
 * A request for GPU memory may exceed the bound only after placement: the same memory is a larger portion of a smaller
 * GPU.
 */
function requestedOf(cluster: Cluster, step: Step | undefined, { requested, resource }: GateRefusal): Readonly<Vector> {
  if ((requested[resource] ?? 0) > 0 || step === undefined) return requested;
  const vector = zeroVector();
  for (const task of step.tasks) addTo(vector, cluster.vectorOf(task, cluster.gpuMemoryRange().leastMiB));
  return vector;
}

/** Every bound that would have to be raised. */
function excessesOf({ queue: leaf, isPreemptible }: Job, requested: Readonly<Vector>): Excess[] {
  const excesses: Excess[] = [];
  for (const queue of leaf?.path() ?? []) {
    const look = (bound: "limit" | "quota", has: Readonly<Vector>, may: Readonly<Vector>): void => {
      for (let resource = 0; resource < 3; resource++) {
        const [asked, wanted] = [requested[resource] ?? 0, (has[resource] ?? 0) + (requested[resource] ?? 0)];
        const most = may[resource] ?? unlimited;
        if (asked <= 0 || most === unlimited || wanted <= most) continue;
        excesses.push({ queue, resource, bound, wanted, mayWait: asked <= most });
      }
    };
    look("limit", queue.allocated, queue.limit);
    if (!isPreemptible) look("quota", queue.allocatedNonPreemptible, queue.deserved);
  }
  return excesses;
}

/** Whether nodes have enough free resources as well, tried as if there were no bound. */
function roomText(session: Session, job: Job, step: Step | undefined): string {
  const { cluster, statement } = session;
  // Bounds of GPU types and of GPU memory are checked again at placement.
  if (step === undefined || cluster.queues.hasTypes || step.tasks.some(({ shape }) => shape.gpu.type === "memory")) {
    return "";
  }
  if (!trialBudgetOf(session).spend(step.tasks.length)) return "";
  const start = statement.checkpoint();
  const { ok } = placeStep(cluster, statement, job, step);
  statement.rollback(start);
  return ok ? "" : `; no node has enough free resources either: ${cureText(session, job, step)}`;
}

function queueDetails(queue: QueueState, job: Job, requested: Readonly<Vector>): QueueDetails {
  return {
    name: queue.name,
    queueRequestedResources: amountsOf(queue.request),
    queueDeservedResources: amountsOf(queue.deserved),
    queueAllocatedResources: amountsOf(queue.allocated),
    queueAllocatedNonPreemptibleResources: amountsOf(queue.allocatedNonPreemptible),
    queueResourceLimits: amountsOf(queue.limit),
    podGroupRequestedResources: amountsOf(requested),
    ...(!job.isPreemptible && { podGroupRequestedNonPreemptibleResources: amountsOf(requested) }),
  };
}

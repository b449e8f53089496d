import { labelKeys } from "../../../model/scheduling/keys.ts";
import { poolName, type QueueDetails } from "../../../model/scheduling/podGroup.ts";
import { unlimited } from "../../../model/scheduling/queue.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Job } from "../cluster/job.ts";
import { addTo, queueResources, type Vector, zeroVector } from "../cluster/resources.ts";
import { nextSteps, type Step } from "../placement/gang.ts";
import { placeStep } from "../placement/placeGang.ts";
import { type GateRefusal, gateRefusal } from "../queues/gates.ts";
import type { QueueState } from "../queues/queueTree.ts";
import type { Session } from "../session.ts";
import { amountsOf, fieldText } from "./amountWords.ts";
import { cureText } from "./cureText.ts";
import { largerThanAnyNode } from "./largestNode.ts";
import { trialBudgetOf } from "./trialBudget.ts";
import type { Verdict } from "./verdict.ts";

/** Why a queue keeps a job waiting: it is not there for it, or it may have no more. */

export function explainQueue(cluster: Cluster, job: Job, why: "missing" | "orphan" | "inner"): Verdict {
  const { queueName } = job;
  const reason = "QueueDoesNotExist";
  if (queueName === "") {
    return { reason, message: `PodGroup ${job.id} names no queue`, cure: `set spec.queue of PodGroup ${job.id}` };
  }
  switch (why) {
    case "missing":
      return { reason, ...explainMissing(cluster, job) };
    case "orphan":
      return { reason, ...explainOrphan(cluster, queueName) };
    case "inner":
      return {
        reason,
        message: `queue ${queueName} has queues below it; only queues without children take workloads`,
        cure: `name one of the queues below ${queueName}`,
      };
  }
}

type Words = Pick<Verdict, "message" | "cure">;

function explainMissing({ queuesElsewhere, settings }: Cluster, { queueName, id }: Job): Words {
  const pool = queuesElsewhere.get(queueName);
  if (pool === undefined) {
    return { message: `queue ${queueName} does not exist`, cure: `create queue ${queueName}, or name another` };
  }
  const move =
    pool === "" ? `take the label ${labelKeys.nodePool} off` : `set the label ${labelKeys.nodePool} to ${pool} on`;
  return {
    message: `queue ${queueName} is of node pool ${poolName(pool)}, and PodGroup ${id} is of node pool ${poolName(settings.nodePool)}`,
    cure: `name a queue of node pool ${poolName(settings.nodePool)}, or ${move} PodGroup ${id}`,
  };
}

/** What keeps a queue that is there from having a place in the tree. */
export function orphanText(cluster: Cluster, queueName: string): string {
  return explainOrphan(cluster, queueName).message.replace(`queue ${queueName} is `, "");
}

function explainOrphan({ queues, queuesElsewhere }: Cluster, queueName: string): Words {
  const orphan = queues.orphans.get(queueName);
  const left = `queue ${queueName} is left out`;
  if (orphan?.circle === undefined) {
    const { child = queueName, parent = "" } = orphan ?? {};
    const pool = queuesElsewhere.get(parent);
    return {
      message: `${left}: queue ${child} names the parent ${parent}, which ${pool === undefined ? "does not exist" : `is of node pool ${poolName(pool)}`}`,
      cure: `${pool === undefined ? `create queue ${parent}, or ` : ""}set parentQueue of queue ${child} to a queue that is there`,
    };
  }
  const { circle } = orphan;
  if (circle.length === 1) {
    return {
      message: `${left}: queue ${circle[0]} is its own parent`,
      cure: `remove parentQueue of queue ${circle[0]}, or name another`,
    };
  }
  // Cut above the queue itself: it must not become the parent of those that were above it.
  const at = circle.indexOf(queueName);
  const cut = circle[(at + 1) % circle.length];
  return {
    message: `${left}: the parents of queue ${circle[0]} lead back to it (${[...circle, circle[0]].join(", ")})`,
    cure: `remove parentQueue of queue ${cut}, or name another`,
  };
}

/** A bound that stands in the way, and what it would have to be. */
interface Excess {
  readonly queue: QueueState;
  readonly resource: number;
  readonly bound: "limit" | "quota";
  readonly wanted: number;
  /** It would be kept if the queue were empty. */
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
      message: `queue ${queue.name} has reached its limit of ${name}: the limit is ${show(queue.limit)}, ${show(queue.allocated)} are in use, ${show(requested)} more are asked for`,
      cure: `${ways.join(", or ")}${roomText(session, job, step)}`,
    };
  }
  const leaf = job.queue ?? queue;
  if (gateRefusal(leaf, true, requested) === undefined) {
    ways.unshift(`use a preemptible workload (label ${labelKeys.preemptibility}: preemptible)`);
  }
  if (mayWait) ways.push("wait until such work of it ends");
  return {
    ...about,
    message: `${job.name} cannot be evicted and goes beyond the ${name} quota of queue ${queue.name}: the quota is ${show(queue.deserved)}, work that cannot be evicted uses ${show(queue.allocatedNonPreemptible)}, ${show(requested)} more are asked for`,
    cure: `${ways.join(", or ")}${roomText(session, job, step)}`,
  };
}

/** Memory of GPUs was found to be too much only where it was placed: there it is the more, the smaller the GPU. */
function requestedOf(cluster: Cluster, step: Step | undefined, { requested, resource }: GateRefusal): Readonly<Vector> {
  if ((requested[resource] ?? 0) > 0 || step === undefined) return requested;
  const vector = zeroVector();
  for (const task of step.tasks) addTo(vector, cluster.vectorOf(task, cluster.gpuMemoryRange().leastMiB));
  return vector;
}

/** Everything that would have to be raised: one bound alone may not be enough. */
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

/** Where a higher bound alone would not do: whether there is room as well, tried as if there were no bound. */
function roomText(session: Session, job: Job, step: Step | undefined): string {
  const { cluster, statement } = session;
  // What a type or a share by memory may have is looked at again where it is placed.
  if (step === undefined || cluster.queues.hasTypes || step.tasks.some(({ shape }) => shape.gpu.type === "memory")) {
    return "";
  }
  if (!trialBudgetOf(session).spend(step.tasks.length)) return "";
  const start = statement.checkpoint();
  const { ok } = placeStep(cluster, statement, job, step);
  statement.rollback(start);
  return ok ? "" : `; besides it finds no free place: ${cureText(session, job, step)}`;
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

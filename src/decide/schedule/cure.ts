import type { Taint } from "../../model/kubernetes.generated.ts";
import { isTolerated } from "../../model/taints.ts";
import { asIfUntainted, asIfWell } from "./betterNodes.ts";
import type { Step } from "./gang.ts";
import { isShared } from "./gpuRequest.ts";
import type { GroupNode, Job } from "./job.ts";
import type { NodeState } from "./nodeState.ts";
import { inPlacingOrder, placeStep } from "./placeGang.ts";
import { placeTask } from "./placeTask.ts";
import type { Session } from "./session.ts";
import type { Task } from "./task.ts";
import { type TrialBudget, trialBudgetOf } from "./trialBudget.ts";
import { whoWouldHaveToGo } from "./wouldHaveToGo.ts";

/** More of a resource on a node, as if somebody had freed it. */
export interface Grant {
  readonly node: NodeState;
  readonly place: number;
  readonly amount: number;
}

/** What would make a step run. Everything in it is needed together. */
export interface Cure {
  readonly grants: readonly Grant[];
  /** Pods that would have to go. */
  readonly gone: readonly Task[];
  /** Nodes that would have to be well again. */
  readonly well: readonly NodeState[];
  /** Taints that would have to be tolerated or removed. */
  readonly taints: readonly Taint[];
}

/** `untried`: it would cost too much to find out. */
export type CureVerdict = ({ readonly type: "cure" } & Cure) | { readonly type: "none" } | { readonly type: "untried" };

/**
 * What would have to be different for a step to run, found by trying it on the cluster as it stands: first with more free on the nodes that
 * it accepts or without pods that stand in its way, then with nodes that are not well, then with nodes whose taints it does not tolerate.
 * Everything is taken back.
 */
export function cureOf(session: Session, job: Job, step: Step): CureVerdict {
  const { cluster } = session;
  const budget = trialBudgetOf(session);
  const nodes = cluster.table.nodes.filter(
    ({ node }) => node !== undefined && node.metadata.deletionTimestamp === undefined,
  );
  const ill = nodes.filter(({ isHealthy }) => !isHealthy);
  const shunned = nodes.filter((node) => barredBy(node, step).length > 0);
  const rounds = [{ well: [], clean: [] }, ...(ill.length > 0 ? [{ well: ill, clean: [] }] : [])] as {
    well: NodeState[];
    clean: NodeState[];
  }[];
  if (shunned.length > 0) rounds.push({ well: ill, clean: shunned });
  for (const { well, clean } of rounds) {
    if (budget.isSpent) return { type: "untried" };
    const taints = new Map(clean.map((node) => [node, barredBy(node, step)]));
    const undo = [asIfWell(cluster, well), asIfUntainted(cluster, clean)];
    const found = attempt(session, job, step, budget);
    for (const each of undo.reverse()) each();
    if (found === undefined) continue;
    const { used, ...cure } = found;
    return {
      type: "cure",
      ...cure,
      well: well.filter((node) => used.has(node)),
      taints: distinct(clean.filter((node) => used.has(node)).flatMap((node) => taints.get(node) ?? [])),
    };
  }
  return { type: budget.isSpent ? "untried" : "none" };
}

interface Found extends Pick<Cure, "grants" | "gone"> {
  readonly used: ReadonlySet<NodeState>;
}

/** Pod after pod is placed; where none fits, the node that lacks least is given what it lacks, or those who stand in the way are taken off. */
function attempt(session: Session, job: Job, step: Step, budget: TrialBudget): Found | undefined {
  const { cluster, statement } = session;
  const start = statement.checkpoint();
  const grants: Grant[] = [];
  const gone: Task[] = [];
  // Amounts that are given by hand do not outlive a count of shared GPUs.
  const mayGive = !step.tasks.some(({ shape }) => isShared(shape.gpu) || shape.hasDeviceClaims);
  let isCured = inPlacingOrder(job, step).every((task) => {
    if (placeTask(cluster, statement, task)) return true;
    const lacking = mayGive ? leastLacking(session, task, step, budget) : undefined;
    if (lacking !== undefined) {
      for (const grant of lacking) give(session, grant);
      grants.push(...lacking);
      if (placeTask(cluster, statement, task)) return true;
      for (const grant of lacking) give(session, grant, -1);
      grants.splice(-lacking.length);
    }
    const freed = new Set(grants.map((grant) => grant.node));
    const goers = whoWouldHaveToGo(session, task, { step, freed }, budget);
    if (goers === undefined) return false;
    for (const each of goers) statement.lift(each);
    gone.push(...goers);
    return placeTask(cluster, statement, task);
  });
  const used = new Set(step.tasks.flatMap(({ holdings }) => holdings.map(({ node }) => node)));
  statement.rollback(start);
  if (isCured && isBound(job.root)) {
    for (const each of gone) statement.lift(each);
    isCured = placeStep(cluster, statement, job, step).ok;
    statement.rollback(start);
  }
  // Counted again from who holds them: exact, whatever was counted in between.
  for (const node of new Set(grants.map((grant) => grant.node))) cluster.table.recount(node);
  return isCured ? { grants, gone, used } : undefined;
}

/** Whether it may not go everywhere: what a single pod accepts is not enough then. */
export function isBound({ topology, children }: GroupNode): boolean {
  return topology !== undefined || children.some(isBound);
}

/** The node that accepts the pod and lacks the smallest part of what it asks for. */
function leastLacking({ cluster }: Session, task: Task, step: Step, budget: TrialBudget): Grant[] | undefined {
  const { places, amounts } = task.shape;
  let best: { node: NodeState; part: number } | undefined;
  if (!budget.spend(cluster.table.nodes.length)) return undefined;
  for (const node of cluster.table.nodes) {
    if (node.node === undefined || !cluster.fit.accepts(task.shape, node.index)) continue;
    let part = 0;
    let isLargeEnough = true;
    for (const [k, place] of places.entries()) {
      const wants = amounts[k] ?? 0;
      // What the node does not have cannot become free on it; what the others of the step were given is theirs.
      if ((node.capacity[place] ?? 0) - givenOn(node, place, step) < wants) isLargeEnough = false;
      part += Math.max(0, wants - (cluster.table.idle[place]?.[node.index] ?? 0)) / wants;
    }
    if (isLargeEnough && part > 0 && (best === undefined || part < best.part)) best = { node, part };
  }
  if (best === undefined) return undefined;
  const { node } = best;
  const grants: Grant[] = [];
  for (const [k, place] of places.entries()) {
    const amount = (amounts[k] ?? 0) - (cluster.table.idle[place]?.[node.index] ?? 0);
    if (amount > 0) grants.push({ node, place, amount });
  }
  return grants;
}

function givenOn(node: NodeState, place: number, step: Step): number {
  let sum = 0;
  for (const { holdings, shape } of step.tasks) {
    if (holdings[0]?.node !== node) continue;
    const at = shape.places.indexOf(place);
    if (at >= 0) sum += shape.amounts[at] ?? 0;
  }
  return sum;
}

function give({ cluster }: Session, { node, place, amount }: Grant, times = 1): void {
  const at = node.index;
  for (const amounts of [cluster.table.idle[place], cluster.table.later[place]]) {
    if (amounts !== undefined) amounts[at] = (amounts[at] ?? 0) + amount * times;
  }
  cluster.table.log.push(at);
}

/** Taints of a node that some pod of the step does not tolerate. */
function barredBy({ taints }: NodeState, { tasks }: Step): Taint[] {
  if (taints.length === 0) return [];
  return taints.filter(
    (taint) =>
      taint.effect !== "PreferNoSchedule" && tasks.some(({ pod }) => !isTolerated(taint, pod.spec?.tolerations)),
  );
}

function distinct(taints: readonly Taint[]): Taint[] {
  return [...new Map(taints.map((taint) => [`${taint.key}=${taint.value ?? ""}:${taint.effect}`, taint])).values()];
}

import type { Taint } from "../../../model/kubernetes.generated.ts";
import { isTolerated } from "../../../model/objects/taints.ts";
import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import type { GroupNode, Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Task } from "../cluster/task.ts";
import type { Step } from "../placement/gangSteps.ts";
import { inPlacingOrder, placeStep } from "../placement/placeStep.ts";
import { anywhere, type Candidates, placeTask } from "../placement/placeTask.ts";
import { asIfHealthy, asIfUntainted } from "../placement/repairedNodes.ts";
import { requiredDomains, widerLevels } from "../placement/topologyDomains.ts";
import type { Session } from "../session.ts";
import { type Grant, LackingNodes, OwnHoldings } from "./lackingNodes.ts";
import { minimalVictims } from "./minimalVictims.ts";
import { removalCost, type TrialBudget, trialBudgetOf } from "./trialBudget.ts";

/** Changes of the cluster that would let a step run; all of them together are needed. */
export interface Cure {
  readonly grants: readonly Grant[];
  /** Pods that would have to be deleted. */
  readonly deleted: readonly Task[];
  /** Nodes that would have to be healthy and schedulable. */
  readonly repaired: readonly NodeState[];
  /** Taints that would have to be tolerated or removed. */
  readonly taints: readonly Taint[];
}

/** `untried`: the trial would cost too much. */
export type CureVerdict = ({ readonly type: "cure" } & Cure) | { readonly type: "none" } | { readonly type: "untried" };

/**
 * Finds changes that would let a step run by trying them on the cluster: first with more free resources on the nodes
 * that it accepts or without pods that its anti-affinity rules out, then with unhealthy nodes repaired, then with nodes
 * whose taints it does not tolerate. Everything is rolled back.
 */
export function cureOf(session: Session, job: Job, step: Step): CureVerdict {
  const { cluster } = session;
  const budget = trialBudgetOf(session);
  const nodes = cluster.table.nodes.filter(
    ({ node }) => node !== undefined && node.metadata.deletionTimestamp === undefined,
  );
  const unhealthy = nodes.filter(({ isHealthy }) => !isHealthy);
  const tainted = nodes.filter((node) => barredBy(node, step).length > 0);
  const rounds = [
    { repaired: [], untainted: [] },
    ...(unhealthy.length > 0 ? [{ repaired: unhealthy, untainted: [] }] : []),
  ] as {
    repaired: NodeState[];
    untainted: NodeState[];
  }[];
  if (tainted.length > 0) rounds.push({ repaired: unhealthy, untainted: tainted });
  for (const { repaired, untainted } of rounds) {
    if (budget.isSpent) return { type: "untried" };
    const taints = new Map(untainted.map((node) => [node, barredBy(node, step)]));
    const undo = [asIfHealthy(cluster, repaired), asIfUntainted(cluster, untainted)];
    const found = attemptWithin(session, job, step, budget);
    for (const each of undo.reverse()) each();
    if (found === undefined) continue;
    const { used, ...cure } = found;
    return {
      type: "cure",
      ...cure,
      repaired: repaired.filter((node) => used.has(node)),
      taints: distinct(untainted.filter((node) => used.has(node)).flatMap((node) => taints.get(node) ?? [])),
    };
  }
  const undo = [asIfHealthy(cluster, unhealthy), asIfUntainted(cluster, tainted)];
  const isHopeless = !fitsEmpty(session, job, step, budget);
  for (const each of undo.reverse()) each();
  return { type: isHopeless && !budget.isSpent ? "none" : "untried" };
}

interface Found extends Pick<Cure, "grants" | "deleted"> {
  readonly used: ReadonlySet<NodeState>;
}

/** Whether it would run if the nodes that it accepts were empty; true if that would cost too much to try. */
function fitsEmpty({ cluster, statement }: Session, job: Job, step: Step, budget: TrialBudget): boolean {
  const shapes = new Set(step.tasks.map(({ shape }) => shape));
  const others = new Set<Task>();
  if (!budget.spend(shapes.size * cluster.table.nodes.length)) return true;
  for (const node of cluster.table.nodes) {
    if (node.node === undefined || ![...shapes].some((shape) => cluster.fit.accepts(shape, node.index))) continue;
    for (const { holder } of node.holdings) {
      const task = holder as Task;
      const isOwn = task.job !== undefined && task.job === job;
      if (!isOwn && task.holdings.every((each) => each.node.node !== undefined)) others.add(task);
    }
  }
  if (!budget.spend(removalCost * others.size)) return true;
  const start = statement.checkpoint();
  for (const each of others) statement.removeForTrial(each);
  const { ok } = placeStep(cluster, statement, job, step);
  statement.rollback(start);
  return ok;
}

/** The number of domains of a required level that are tried. */
const domainsMax = 16;

/** Where a domain is required, tries one domain after the other and returns the one with the fewest changes. */
function attemptWithin(session: Session, job: Job, step: Step, budget: TrialBudget): Found | undefined {
  const domains = requiredDomains(session.cluster, job.root.topology);
  if (domains === undefined) return attempt(session, job, step, anywhere, budget);
  let best: Found | undefined;
  for (const nodes of domains.slice(0, domainsMax)) {
    const found = attempt(session, job, step, { nodes }, budget);
    if (found !== undefined && (best === undefined || costOf(found) < costOf(best))) best = found;
  }
  return best;
}

/** An eviction costs more than waiting for something to become free. */
function costOf({ grants, deleted }: Found): number {
  return grants.length + 4 * deleted.length;
}

/** The number of attempts with the changes found so far: with them the first pods may be placed on other nodes. */
const roundsMax = 4;

/**
 * Places pod after pod. Where one fits no node, the node that lacks least is granted what it lacks, or conflicting pods
 * are removed. That is repeated with all changes made from the start, until no further change is needed.
 */
function attempt(session: Session, job: Job, step: Step, within: Candidates, budget: TrialBudget): Found | undefined {
  const { cluster, statement } = session;
  const start = statement.checkpoint();
  const grants: Grant[] = [];
  const deleted: Task[] = [];
  let found: Found | undefined;
  for (let round = 0, known = -1; round < roundsMax && grants.length + deleted.length > known; round++) {
    known = grants.length + deleted.length;
    for (const each of deleted) statement.removeForTrial(each);
    const isPlaced = placeAll(session, job, step, within, { grants, deleted }, budget);
    const isEnough = isPlaced && grants.length + deleted.length === known;
    if (isEnough)
      found = {
        grants,
        deleted,
        used: new Set(step.tasks.flatMap(({ holdings }) => holdings.map(({ node }) => node))),
      };
    statement.rollback(start);
  }
  if (found !== undefined && isInTopology(job.root)) {
    for (const each of deleted) statement.removeForTrial(each);
    if (!placeStep(cluster, statement, job, step).ok) found = undefined;
    statement.rollback(start);
  }
  // Recounted from the holders, which is exact.
  for (const node of new Set(grants.map((grant) => grant.node))) cluster.table.recountAndMark(node);
  return found;
}

/** Places all pods, and adds grants where the existing ones are not enough. */
function placeAll(
  session: Session,
  job: Job,
  step: Step,
  within: Candidates,
  { grants, deleted }: { grants: Grant[]; deleted: Task[] },
  budget: TrialBudget,
): boolean {
  const { cluster, statement } = session;
  // A recount of shared GPUs discards grants.
  const mayGive = !step.tasks.some(({ shape }) => isShared(shape.gpu) || shape.hasDeviceClaims);
  const own = new OwnHoldings();
  for (const task of job.tasks) own.add(task);
  const place = (task: Task): boolean => {
    if (!placeTask(cluster, statement, task, within)) return false;
    own.add(task);
    return true;
  };
  const byShape = new Map<number, LackingNodes>();
  const lackingFor = ({ shape }: Task): LackingNodes | undefined => {
    const known = byShape.get(shape.id);
    if (known !== undefined) return known;
    if (!budget.spend((within.nodes ?? cluster.table.nodes).length)) return undefined;
    const nodes = new LackingNodes(cluster, shape, within, own);
    byShape.set(shape.id, nodes);
    return nodes;
  };
  return inPlacingOrder(job, step).every((task) => {
    if (place(task)) return true;
    const lacking = mayGive ? lackingFor(task)?.first() : undefined;
    if (lacking !== undefined) {
      for (const grant of lacking) give(session, grant);
      grants.push(...lacking);
      if (place(task)) return true;
      for (const grant of lacking) give(session, grant, -1);
      grants.splice(-lacking.length);
    }
    const freed = new Set(grants.map((grant) => grant.node));
    const victims = minimalVictims(session, task, { freed, within }, budget);
    if (victims === undefined) return false;
    for (const each of victims) statement.removeForTrial(each);
    deleted.push(...victims);
    // Their nodes have more free resources than were counted.
    byShape.clear();
    return place(task);
  });
}

/** The nearest wider topology level with which it would run now, or undefined. */
export function widerLevel(session: Session, job: Job, step: Step): string | undefined {
  const { cluster, statement } = session;
  const { root } = job;
  const { topology } = root;
  if (topology === undefined) return undefined;
  const levels = widerLevels(cluster, topology);
  const fits = levels.find((level) => {
    const start = statement.checkpoint();
    const { preferredTopologyLevel: _, ...rest } = topology;
    job.root = { ...root, topology: { ...rest, requiredTopologyLevel: level } };
    const { ok } = placeStep(cluster, statement, job, step);
    job.root = root;
    statement.rollback(start);
    return ok;
  });
  return fits;
}

/** Whether a topology constrains its nodes beyond what each pod accepts. */
export function isInTopology(node: GroupNode | undefined): boolean {
  return node !== undefined && (node.topology !== undefined || node.children.some(isInTopology));
}

/**
 * Adds a grant to the free amounts. `times` -1 removes it, as long as no pod with a GPU share was placed on the node.
 */
export function give({ cluster }: Session, { node, place, amount }: Grant, times = 1): void {
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

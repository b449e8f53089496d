import type { Taint } from "../../../model/kubernetes.generated.ts";
import { isTolerated } from "../../../model/objects/taints.ts";
import { isShared } from "../../../model/scheduling/gpuRequest.ts";
import type { GroupNode, Job } from "../cluster/job.ts";
import type { NodeState } from "../cluster/nodeState.ts";
import type { Task } from "../cluster/task.ts";
import { asIfUntainted, asIfWell } from "../placement/betterNodes.ts";
import type { Step } from "../placement/gang.ts";
import { inPlacingOrder, placeStep } from "../placement/placeGang.ts";
import { anywhere, type Candidates, placeTask } from "../placement/placeTask.ts";
import { requiredDomains, widerLevels } from "../placement/topologyDomains.ts";
import type { Session } from "../session.ts";
import { type Grant, LackingNodes, OwnHoldings } from "./lackingNodes.ts";
import { liftCost, type TrialBudget, trialBudgetOf } from "./trialBudget.ts";
import { whoWouldHaveToGo } from "./wouldHaveToGo.ts";

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
 * What would have to be different for a step to run, found by trying it on the cluster as it stands: first with more
 * free on the nodes that it accepts or without pods that stand in its way, then with nodes that are not well, then with
 * nodes whose taints it does not tolerate. Everything is taken back.
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
    const found = attemptWithin(session, job, step, budget);
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
  const undo = [asIfWell(cluster, ill), asIfUntainted(cluster, shunned)];
  const isHopeless = !fitsEmpty(session, job, step, budget);
  for (const each of undo.reverse()) each();
  return { type: isHopeless && !budget.isSpent ? "none" : "untried" };
}

interface Found extends Pick<Cure, "grants" | "gone"> {
  readonly used: ReadonlySet<NodeState>;
}

/** Whether it would run if the nodes that it accepts were empty; true when that would cost too much to try. */
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
  if (!budget.spend(liftCost * others.size)) return true;
  const start = statement.checkpoint();
  for (const each of others) statement.lift(each);
  const { ok } = placeStep(cluster, statement, job, step);
  statement.rollback(start);
  return ok;
}

/** So many domains of a required level are tried. */
const domainsMax = 16;

/** Where everything has to be in one domain, tries one domain after the other; the one that needs least is reported. */
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
function costOf({ grants, gone }: Found): number {
  return grants.length + 4 * gone.length;
}

/** What was given is tried again from the beginning so often: with more room the first pods may go elsewhere. */
const roundsMax = 4;

/**
 * Pod after pod is placed; where none fits, the node that lacks least is given what it lacks, or the pods that stand in
 * the way are taken off. That is repeated with all of it given from the start, until nothing more is needed.
 */
function attempt(session: Session, job: Job, step: Step, within: Candidates, budget: TrialBudget): Found | undefined {
  const { cluster, statement } = session;
  const start = statement.checkpoint();
  const grants: Grant[] = [];
  const gone: Task[] = [];
  let found: Found | undefined;
  for (let round = 0, known = -1; round < roundsMax && grants.length + gone.length > known; round++) {
    known = grants.length + gone.length;
    for (const each of gone) statement.lift(each);
    const isPlaced = placeAll(session, job, step, within, { grants, gone }, budget);
    const isEnough = isPlaced && grants.length + gone.length === known;
    if (isEnough)
      found = { grants, gone, used: new Set(step.tasks.flatMap(({ holdings }) => holdings.map(({ node }) => node))) };
    statement.rollback(start);
  }
  if (found !== undefined && isBound(job.root)) {
    for (const each of gone) statement.lift(each);
    if (!placeStep(cluster, statement, job, step).ok) found = undefined;
    statement.rollback(start);
  }
  // Recounted from the holders: exact, whatever was counted in between.
  for (const node of new Set(grants.map((grant) => grant.node))) cluster.table.recount(node);
  return found;
}

/** Adds to what is given where that is not enough. */
function placeAll(
  session: Session,
  job: Job,
  step: Step,
  within: Candidates,
  { grants, gone }: { grants: Grant[]; gone: Task[] },
  budget: TrialBudget,
): boolean {
  const { cluster, statement } = session;
  // Amounts that are given by hand do not outlive a count of shared GPUs.
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
    const goers = whoWouldHaveToGo(session, task, { freed, within }, budget);
    if (goers === undefined) return false;
    for (const each of goers) statement.lift(each);
    gone.push(...goers);
    // Where they were, more is free than was counted.
    byShape.clear();
    return place(task);
  });
}

/** The nearest wider level with which it would run as things are, or undefined. */
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

/** Whether it may not go everywhere: what a single pod accepts is not enough then. */
export function isBound(node: GroupNode | undefined): boolean {
  return node !== undefined && (node.topology !== undefined || node.children.some(isBound));
}

/**
 * As if so much more were free. The same with -1 takes it back, as long as no pod with a GPU share was placed on the
 * node.
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

import type { Step } from "./gang.ts";
import { isShared } from "./gpuRequest.ts";
import type { NodeState } from "./nodeState.ts";
import { findSpot, placeTask } from "./placeTask.ts";
import type { Session } from "./session.ts";
import type { Task } from "./task.ts";

/** More of a resource on a node, as if somebody had freed it. */
export interface Grant {
  readonly node: NodeState;
  readonly place: number;
  readonly amount: number;
}

/** More pods than this are not worth a plan: then the cluster is too small, and that is what is said. */
const grantsMax = 64;

/**
 * What would have to be free for a step to run, found by trying: pod after pod is placed, and where none fits, the node that lacks least
 * is given what it lacks. Undefined when not even the whole of every node would do; nothing for shares of GPUs and claims, which amounts do not cure.
 * Everything is taken back.
 */
export function cureOf(session: Session, step: Step): readonly Grant[] | undefined {
  const { cluster, statement } = session;
  if (step.tasks.some(({ shape }) => isShared(shape.gpu) || shape.hasDeviceClaims)) return [];
  const start = statement.checkpoint();
  const grants: Grant[] = [];
  const isCured = step.tasks.every((task) => {
    if (placeTask(cluster, statement, task)) return true;
    if (grants.length >= grantsMax) return false;
    const lacking = leastLacking(session, task, step);
    if (lacking === undefined) return false;
    for (const grant of lacking) give(session, grant, 1);
    grants.push(...lacking);
    const spot = findSpot(cluster, task);
    if (spot === undefined) return false;
    statement.place(task, spot.node, spot.groups, !spot.isNow);
    return true;
  });
  statement.rollback(start);
  for (const grant of grants) give(session, grant, -1);
  return isCured ? grants : undefined;
}

/** The node that accepts the pod and lacks the smallest part of what it asks for. */
function leastLacking({ cluster }: Session, task: Task, step: Step): Grant[] | undefined {
  const { places, amounts } = task.shape;
  let best: { node: NodeState; part: number } | undefined;
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

function give({ cluster }: Session, { node, place, amount }: Grant, times: number): void {
  const at = node.index;
  for (const amounts of [cluster.table.idle[place], cluster.table.later[place]]) {
    if (amounts !== undefined) amounts[at] = (amounts[at] ?? 0) + amount * times;
  }
  cluster.table.log.push(at);
}

import type { DeviceClass, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { isLeaving } from "../../../model/objects/podFacts.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import { timeToMs } from "../../../model/values/time.ts";
import type { Evidence } from "../../verify/check.ts";
import { allocatableOf } from "../../verify/checks/nodesNotOvercommitted.ts";
import { misfit, templateOf } from "../../verify/checks/podsMatchNodes.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { type Gang, type GangNeed, isMet } from "../../verify/gangs.ts";
import { isBound, isFinished, podName } from "../../verify/placement.ts";
import { allGangs, gangKinds } from "../allGangs.ts";
import { type AuditCheck, settle, stuck } from "../auditCheck.ts";

const cause =
  "it requests more than the largest node that its selector, affinity and tolerations allow, or no node matches them";

export const neverFitChecks: readonly AuditCheck[] = [
  {
    name: "pod-never-fits",
    meaning: "a pod has waited for 15 minutes and would fit on no node even if all nodes were empty",
    cause,
    cure: "lower its requests, correct its selector, affinity or tolerations, or add nodes that match it",
    settleMs: settle.chain,
    needs: ["pods", "nodes", "deviceclasses"],
    find: (snapshot) => {
      const room = roomIn(snapshot);
      if (room === undefined) return [];
      return objectsOf<Pod>(snapshot, "pods").flatMap((pod) => {
        if (!hasWaited(pod, snapshot.takenAtMs) || isGated(pod) || room.copies(pod) > 0) return [];
        return [{ object: podName(pod), problem: room.why(pod) }];
      });
    },
  },
  {
    name: "gang-never-fits",
    meaning: "a gang has waited for 15 minutes and its minimum would not fit even if all nodes were empty",
    cause: `${cause}; or the minimum is larger than the cluster`,
    cure: "lower the minimum or the requests, or add nodes that match the pods",
    settleMs: settle.chain,
    needs: ["pods", "nodes", "deviceclasses", ...gangKinds],
    find: (snapshot) => {
      const room = roomIn(snapshot);
      return room === undefined
        ? []
        : allGangs(snapshot).flatMap((gang) => gangNeverFits(gang, room, snapshot.takenAtMs));
    },
  },
];

/** Without a node, and old enough that schedulers and autoscalers have tried it. */
function hasWaited(pod: Pod, nowMs: number): boolean {
  if (isBound(pod) || isFinished(pod) || isLeaving(pod)) return false;
  return nowMs - (timeToMs(pod.metadata.creationTimestamp) ?? nowMs) >= stuck.unscheduledMs;
}

function isGated({ spec }: Pod): boolean {
  return (spec?.schedulingGates ?? []).length > 0;
}

function gangNeverFits({ name, members, need }: Gang, room: Room, nowMs: number): Evidence[] {
  if (members.some(isLeaving) || !members.some((pod) => hasWaited(pod, nowMs))) return [];
  if (isMet(need, (pod) => isBound(pod) && !isFinished(pod))) return [];
  return tooLarge(need, room).map((problem) => ({ object: name, problem }));
}

/** Groups of pods that are required and of which the minimum does not fit. */
function tooLarge(need: GangNeed, room: Room): string[] {
  if (need.type === "groups") {
    if (need.min < need.groups.length) return [];
    return need.groups.flatMap((group) => tooLarge(group, room));
  }
  const templates = new Map<string, { readonly pod: Pod; count: number }>();
  for (const pod of need.pods) {
    if (isFinished(pod)) return [];
    const key = templateOf(pod);
    const known = templates.get(key);
    if (known === undefined) templates.set(key, { pod, count: 1 });
    else known.count++;
  }
  // Members that do not exist yet are like those that do, as far as it is known.
  const missing = Math.max(0, need.min - need.pods.length);
  const [only] = templates.values();
  if (only === undefined || (missing > 0 && templates.size > 1)) return [];
  let fit = 0;
  for (const { pod, count } of templates.values()) fit += Math.min(count + missing, room.copies(pod));
  if (fit >= need.min) return [];
  return [`${need.name} needs ${need.min} pods at once, and ${fit} fit on empty nodes`];
}

const rooms = new WeakMap<ClusterSnapshot, Room>();

/** Undefined without nodes: then an autoscaler has to add the first, and nothing can be said. */
function roomIn(snapshot: ClusterSnapshot): Room | undefined {
  const nodes = objectsOf<Node>(snapshot, "nodes");
  if (nodes.length === 0) return undefined;
  let room = rooms.get(snapshot);
  if (room === undefined) {
    room = new Room(nodes, objectsOf<DeviceClass>(snapshot, "deviceclasses"));
    rooms.set(snapshot, room);
  }
  return room;
}

/** All nodes as if they were empty. */
class Room {
  private readonly nodes: readonly Node[];
  /** Extended resources that devices of a class provide: nodes do not list them. */
  private readonly byClass: ReadonlySet<string>;
  private readonly known = new Map<string, number>();
  private readonly reasons = new Map<string, string>();

  constructor(nodes: readonly Node[], classes: readonly DeviceClass[]) {
    this.nodes = nodes;
    this.byClass = new Set(classes.flatMap(({ spec }) => spec?.extendedResourceName ?? []));
  }

  /** How many pods like this one fit at most. Volumes, claims and affinity between pods are left out: never too few. */
  copies(pod: Pod): number {
    const key = templateOf(pod);
    let count = this.known.get(key);
    if (count === undefined) {
      count = this.nodes.reduce(
        (sum, node) => sum + (misfit(pod, node) === undefined ? this.copiesOn(pod, node) : 0),
        0,
      );
      this.known.set(key, count);
    }
    return count;
  }

  /** The condition that excludes all nodes, or the resource that too few of them have. */
  why(pod: Pod): string {
    const key = templateOf(pod);
    const reason = this.reasons.get(key) ?? this.reasonOf(pod);
    this.reasons.set(key, reason);
    return reason;
  }

  private reasonOf(pod: Pod): string {
    const matching = this.nodes.filter((node) => misfit(pod, node) === undefined);
    const [first] = this.nodes;
    if (matching.length === 0 && first !== undefined) {
      return `none of ${this.nodes.length} nodes matches it: for example, ${misfit(pod, first)}`;
    }
    const short = [...this.requests(pod)].find(([resource, nano]) =>
      matching.every((node) => allocatableOf(node, resource) < nano),
    );
    const what = short === undefined ? "its requests together" : `its request of ${short[0]}`;
    return `${what} is more than any of the ${matching.length} nodes that match it has, even empty`;
  }

  private copiesOn(pod: Pod, node: Node): number {
    let copies = Number(allocatableOf(node, "pods") / 1_000_000_000n);
    for (const [resource, nano] of this.requests(pod)) {
      copies = Math.min(copies, Number(allocatableOf(node, resource) / nano));
    }
    return copies;
  }

  private *requests(pod: Pod): Iterable<readonly [string, bigint]> {
    for (const [resource, nano] of podRequests(pod)) {
      if (nano === 0n || this.byClass.has(resource)) continue;
      if (!resource.startsWith("deviceclass.resource.kubernetes.io/")) yield [resource, nano];
    }
  }
}

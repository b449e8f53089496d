import type { Pod } from "../../../model/kubernetes.generated.ts";
import { nanoOf, podRequests } from "../../../model/objects/podRequests.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { record, text } from "../gangs.ts";
import { isFinished } from "../placement.ts";

/** The usage of a queue in the units of its limits: GPUs, millicores, megabytes. */
interface Use {
  gpu: number;
  cpu: number;
  memory: number;
}

const resources = ["gpu", "cpu", "memory"] as const;

export const queuesWithinLimits: Check = {
  id: "S9",
  title: "no queue is over its limit, and a parent's allocation is the sum of its children's",
  byDefault: false,
  settles: true,
  needs: ["pods", "podgroups", "queues"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "queues")) return notApplicable("Queues are not served");
    const { length } = objectsOf(snapshot, "queues");
    return passOrFail([...queuesOverLimit(snapshot), ...wrongParentSums(snapshot)], `${length} queues`);
  },
};

/** Each queue and the name of its parent, empty for a queue without one. */
export function parentsOf(snapshot: ClusterSnapshot): ReadonlyMap<string, string> {
  return new Map(
    objectsOf(snapshot, "queues").map(({ metadata, spec }) => [metadata.name, text(record(spec)["parentQueue"])]),
  );
}

/** Queues whose pods request more than the queue's limit. */
export function queuesOverLimit(snapshot: ClusterSnapshot): Evidence[] {
  const queues = objectsOf(snapshot, "queues");
  const parents = parentsOf(snapshot);
  const uses = new Map<string, Use>();
  for (const [queue, use] of usesOfLeaves(snapshot)) {
    let at = queue;
    // A chain of parents is at most as long as there are queues; a cycle would be longer.
    for (let step = 0; at !== "" && step <= parents.size; step++) {
      const sum = uses.get(at) ?? { gpu: 0, cpu: 0, memory: 0 };
      for (const name of resources) sum[name] += use[name];
      uses.set(at, sum);
      at = parents.get(at) ?? "";
    }
  }
  const evidence: Evidence[] = [];
  for (const queue of queues) {
    const { name } = queue.metadata;
    const limits = record(record(queue["spec"])["resources"]);
    for (const resource of resources) {
      const limit = record(limits[resource])["limit"];
      const used = uses.get(name)?.[resource] ?? 0;
      if (typeof limit !== "number" || limit < 0 || used <= limit + rounding) continue;
      evidence.push({
        object: `queues/${name}`,
        problem: `uses ${round(used)} ${resource}, but its limit is ${limit}`,
      });
    }
  }
  return evidence;
}

/** The tolerance for sums of decimal fractions. */
const rounding = 1e-6;

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

function usesOfLeaves(snapshot: ClusterSnapshot): Map<string, Use> {
  const groupQueue = new Map(
    objectsOf(snapshot, "podgroups").map(({ metadata, spec }) => [
      `${metadata.namespace ?? ""}/${metadata.name}`,
      text(record(spec)["queue"]),
    ]),
  );
  const uses = new Map<string, Use>();
  for (const pod of objectsOf<Pod>(snapshot, "pods")) {
    if ((pod.spec?.nodeName ?? "") === "" || isFinished(pod)) continue;
    const { namespace = "", annotations, labels } = pod.metadata;
    const group = annotations?.["pod-group-name"];
    const queue =
      (group === undefined ? undefined : groupQueue.get(`${namespace}/${group}`)) || labels?.["kai.scheduler/queue"];
    if (queue === undefined || queue === "") continue;
    const use = uses.get(queue) ?? { gpu: 0, cpu: 0, memory: 0 };
    const requests = podRequests(pod);
    use.gpu += gpusOf(pod, requests);
    use.cpu += Number(requests.get("cpu") ?? 0n) / 1e6;
    use.memory += Number((requests.get("memory") ?? 0n) / 1_000_000_000n) / 1e6;
    uses.set(queue, use);
  }
  return uses;
}

function gpusOf(pod: Pod, requests: ReadonlyMap<string, bigint>): number {
  let gpus = Number(requests.get("nvidia.com/gpu") ?? 0n) / 1e9;
  for (const [resource, amount] of requests) {
    const slices = /^nvidia\.com\/mig-([0-9]+)g\./.exec(resource)?.[1];
    if (slices !== undefined) gpus += (Number(slices) * Number(amount)) / 1e9;
  }
  const fraction = Number(pod.metadata.annotations?.["gpu-fraction"] ?? 0);
  const devices = Number(pod.metadata.annotations?.["gpu-fraction-num-devices"] ?? 1);
  return gpus + (Number.isFinite(fraction) && Number.isFinite(devices) ? fraction * devices : 0);
}

/** Compares `status.allocated` of each parent queue with the sum of its children. */
export function wrongParentSums(snapshot: ClusterSnapshot): Evidence[] {
  const parents = parentsOf(snapshot);
  const allocatedByQueue = new Map<string, Record<string, bigint>>();
  for (const queue of objectsOf(snapshot, "queues")) {
    const allocated = record(record(queue["status"])["allocated"]);
    const amounts: Record<string, bigint> = {};
    for (const [name, value] of Object.entries(allocated)) {
      if (typeof value === "string" || typeof value === "number") amounts[name] = quantityOrZero(String(value));
    }
    allocatedByQueue.set(queue.metadata.name, amounts);
  }
  const evidence: Evidence[] = [];
  for (const [parent, own] of allocatedByQueue) {
    const children = [...parents].filter(([, of]) => of === parent).map(([name]) => name);
    if (children.length === 0) continue;
    const names = new Set([
      ...Object.keys(own),
      ...children.flatMap((child) => Object.keys(allocatedByQueue.get(child) ?? {})),
    ]);
    for (const name of names) {
      const sum = children.reduce((total, child) => total + (allocatedByQueue.get(child)?.[name] ?? 0n), 0n);
      if (sum === (own[name] ?? 0n)) continue;
      evidence.push({
        object: `queues/${parent}`,
        problem: `status.allocated ${name} is not the sum of its ${children.length} children`,
      });
    }
  }
  return evidence;
}

function quantityOrZero(text: string): bigint {
  try {
    return nanoOf(text);
  } catch {
    return 0n;
  }
}

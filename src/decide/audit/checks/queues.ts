import type { KubeObject } from "../../../model/objects/object.ts";
import type { Evidence } from "../../verify/check.ts";
import { parentsOf, queuesOverLimit, wrongParentSums } from "../../verify/checks/queuesWithinLimits.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { record } from "../../verify/gangs.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

export const queueChecks: readonly AuditCheck[] = [
  {
    name: "queue-quota",
    meaning: "the quotas of queues do not add up, so that a queue cannot get the quota that it shows",
    cause: "a quota was raised without that of the parent, a parent was deleted, or queues are each other's parent",
    cure: "raise the quota of the parent or lower those of its children; correct spec.parentQueue",
    settleMs: settle.controller,
    needs: ["queues"],
    find: (snapshot) => {
      const parents = parentsOf(snapshot);
      return objectsOf(snapshot, "queues").flatMap((queue) => [
        ...parentProblems(queue, parents),
        ...quotaProblems(queue, snapshot, parents),
      ]);
    },
  },
  {
    name: "queue-usage",
    meaning: "a queue uses more than its limit, or the usage in its status is not that of its children",
    cause:
      "the limit was lowered below the usage, pods were bound by another scheduler, or the queue controller is off",
    cure: "delete pods of the queue or raise its limit; start the queue controller",
    settleMs: settle.chain,
    needs: ["pods", "podgroups", "queues"],
    find: (snapshot) => [...queuesOverLimit(snapshot), ...wrongParentSums(snapshot)],
  },
];

const resources = ["gpu", "cpu", "memory"] as const;

/** A number of a queue's spec; undefined where it has none, or -1 for no bound. */
function boundOf(
  queue: KubeObject,
  resource: (typeof resources)[number],
  field: "quota" | "limit",
): number | undefined {
  const value = record(record(record(queue["spec"])["resources"])[resource])[field];
  return typeof value === "number" && value >= 0 ? value : undefined;
}

function parentProblems({ metadata: { name } }: KubeObject, parents: ReadonlyMap<string, string>): Evidence[] {
  const parent = parents.get(name) ?? "";
  if (parent === "") return [];
  const object = `queues/${name}`;
  if (!parents.has(parent)) return [{ object, problem: `its parent ${parent} does not exist` }];
  let above = parent;
  for (let step = 0; above !== "" && step < parents.size; step++) {
    if (above === name) return [{ object, problem: `it is below itself, by its parent ${parent}` }];
    above = parents.get(above) ?? "";
  }
  return [];
}

function quotaProblems(queue: KubeObject, snapshot: ClusterSnapshot, parents: ReadonlyMap<string, string>): Evidence[] {
  const { name } = queue.metadata;
  const object = `queues/${name}`;
  const children = objectsOf(snapshot, "queues").filter(({ metadata }) => parents.get(metadata.name) === name);
  return resources.flatMap((resource) => {
    const [quota, limit] = [boundOf(queue, resource, "quota"), boundOf(queue, resource, "limit")];
    if (quota === undefined) return [];
    const problems: Evidence[] = [];
    if (limit !== undefined && quota > limit)
      problems.push({ object, problem: `its ${resource} quota ${quota} is more than its limit ${limit}` });
    const sum = children.reduce((total, child) => total + (boundOf(child, resource, "quota") ?? 0), 0);
    // Sums of decimal fractions differ in the last digits.
    if (sum > quota + 1e-6)
      problems.push({
        object,
        problem: `the ${resource} quotas of its ${children.length} children sum to ${round(sum)}, and its own is ${quota}`,
      });
    return problems;
  });
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

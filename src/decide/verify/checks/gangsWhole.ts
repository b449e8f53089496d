import type { Pod } from "../../../model/kubernetes.generated.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { type Check, type Evidence, judged, notApplicable } from "../check.ts";
import { isServed } from "../clusterSnapshot.ts";
import { type Gang, gangsOf, isMet, shortfall } from "../gangs.ts";
import { type Placement, placementOf } from "../placement.ts";

export const gangsWhole: Check = {
  id: "S5",
  title: "of every gang none or at least the minimum is bound, in one domain where that is required",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes", "podgroups", "podgangs", "topologies"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "podgroups") && !isServed(snapshot, "podgangs")) {
      return notApplicable("neither PodGroups nor PodGangs are served");
    }
    const gangs = gangsOf(snapshot);
    const placement = placementOf(snapshot);
    const evidence = gangs.flatMap((gang) => [...halfPlaced(gang), ...tornApart(gang, placement)]);
    const spread = widestSpreadMs(gangs);
    const told = spread === undefined ? "" : `, members of one gang scheduled within ${spread} ms`;
    return judged(evidence, `${gangs.length} gangs${told}`);
  },
};

/** Finished members had a node; a member that failed does not count for its gang any more. */
function holdsPlace({ spec, status }: Pod): boolean {
  return (spec?.nodeName ?? "") !== "" && status?.phase !== "Failed";
}

function halfPlaced({ name, members, need }: Gang): Evidence[] {
  const bound = members.filter(holdsPlace).length;
  if (bound === 0 || isMet(need, holdsPlace)) return [];
  return [{ object: name, problem: `half placed, ${bound} members bound: ${shortfall(need, holdsPlace)}` }];
}

function tornApart({ name, domains }: Gang, { nodes }: Placement): Evidence[] {
  return domains.flatMap(({ label, members }) => {
    const values = new Map<string, string>();
    for (const pod of members) {
      if (!holdsPlace(pod) || pod.status?.phase === "Succeeded") continue;
      const node = pod.spec?.nodeName ?? "";
      const value = nodes.get(node)?.metadata.labels?.[label];
      if (value === undefined) return [{ object: name, problem: `node ${node} of a member has no label ${label}` }];
      values.set(value, pod.metadata.name);
    }
    if (values.size <= 1) return [];
    const where = [...values].map(([value, pod]) => `${pod} in ${value}`).join(", ");
    return [{ object: name, problem: `members are in ${values.size} domains of ${label}: ${where}` }];
  });
}

/** Reported and not judged: pods that were bound one after the other within a second prove nothing. */
function widestSpreadMs(gangs: readonly Gang[]): number | undefined {
  let widest: number | undefined;
  for (const { members } of gangs) {
    const times = members.flatMap(({ status }) => {
      const scheduled = status?.conditions?.find(
        ({ type, status: holds }) => type === "PodScheduled" && holds === "True",
      );
      return timeToMs(scheduled?.lastTransitionTime) ?? [];
    });
    if (times.length < 2) continue;
    const spread = Math.max(...times) - Math.min(...times);
    widest = Math.max(widest ?? 0, spread);
  }
  return widest;
}

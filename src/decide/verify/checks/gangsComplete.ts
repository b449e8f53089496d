import type { Pod } from "../../../model/kubernetes.generated.ts";
import { timeToMs } from "../../../model/values/time.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { isServed } from "../clusterSnapshot.ts";
import { type Gang, gangsOf, isMet, shortfall } from "../gangs.ts";
import { type Placement, placementOf } from "../placement.ts";

export const gangsComplete: Check = {
  id: "S5",
  title: "every gang has no bound pod or at least its minimum, in one topology domain where that is required",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes", "podgroups", "podgangs", "topologies"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "podgroups") && !isServed(snapshot, "podgangs")) {
      return notApplicable("neither PodGroups nor PodGangs are served");
    }
    const gangs = gangsOf(snapshot);
    const placement = placementOf(snapshot);
    const evidence = gangs.flatMap((gang) => [...partiallyBound(gang), ...splitAcrossDomains(gang, placement)]);
    const spread = widestSpreadMs(gangs);
    const spreadText = spread === undefined ? "" : `, members of one gang scheduled within ${spread} ms`;
    return passOrFail(evidence, `${gangs.length} gangs${spreadText}`);
  },
};

/** A succeeded member counts as bound; a failed one does not. */
function isBoundMember({ spec, status }: Pod): boolean {
  return (spec?.nodeName ?? "") !== "" && status?.phase !== "Failed";
}

/** A gang with bound members of which its minimum is not bound. */
export function partiallyBound({ name, members, need }: Gang): Evidence[] {
  const bound = members.filter(isBoundMember).length;
  if (bound === 0 || isMet(need, isBoundMember)) return [];
  return [{ object: name, problem: `partially bound, ${bound} members bound: ${shortfall(need, isBoundMember)}` }];
}

/** A gang whose bound members are in several domains of a level that it requires. */
export function splitAcrossDomains({ name, domains }: Gang, { nodes }: Placement): Evidence[] {
  return domains.flatMap(({ label, members }) => {
    const values = new Map<string, string>();
    for (const pod of members) {
      if (!isBoundMember(pod) || pod.status?.phase === "Succeeded") continue;
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

/** Only reported: timestamps have a resolution of a second, so the spread proves nothing. */
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

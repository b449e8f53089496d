/** Whether the topology levels that a set names exist. */
import type { GangSettings } from "../../../model/gang/settings.ts";
import type { ClusterTopologyBinding, PodCliqueSet } from "../../../model/gang/types.ts";
import { constraintsOf, requiredDomain } from "../../../model/gang/validateSetUpdate.ts";
import { topologyNameOf } from "../../../model/gang/validateTopology.ts";
import type { ConditionContent } from "./gangConditions.ts";

const type = "TopologyLevelsUnavailable";

export function topologyCondition(
  set: PodCliqueSet,
  { topologyAware }: GangSettings,
  bindingNamed: (name: string) => ClusterTopologyBinding | undefined,
): ConditionContent | undefined {
  const domains = new Set(
    constraintsOf(set).flatMap(({ constraint }) => [requiredDomain(constraint), constraint.pack?.preferred]),
  );
  domains.delete(undefined);
  if (!topologyAware) {
    if (domains.size === 0) return undefined;
    const message = "topology-aware scheduling is disabled: constraints have no effect";
    return { type, status: "Unknown", reason: "TopologyAwareSchedulingDisabled", message };
  }
  const fine: ConditionContent = {
    type,
    status: "False",
    reason: "AllClusterTopologyLevelsAvailable",
    message: "all requested levels exist",
  };
  if (domains.size === 0) return { ...fine, message: "no topology constraints are defined" };
  const name = topologyNameOf(set);
  if (name === undefined) {
    return { type, status: "Unknown", reason: "TopologyNameMissing", message: "no constraint names a topology" };
  }
  const binding = bindingNamed(name);
  if (binding === undefined) {
    const message = `topology binding ${name} does not exist`;
    return { type, status: "Unknown", reason: "ClusterTopologyNotFound", message };
  }
  const levels = new Set(binding.spec.levels.map(({ domain }) => domain));
  const missing = [...domains].filter((domain) => domain !== undefined && !levels.has(domain));
  if (missing.length === 0) return fine;
  const message = `topology binding ${name} has no ${missing.sort().join(", ")}`;
  return { type, status: "True", reason: "ClusterTopologyLevelsUnavailable", message };
}

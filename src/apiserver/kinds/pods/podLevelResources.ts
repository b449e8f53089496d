import type { PodSpec } from "../../../model/kubernetes.generated.ts";
import { aggregate, isPodLevelResource } from "./podResources.ts";

/**
 * Completes a partial `spec.resources`: huge page limits from the containers, then requests from the sum of the
 * containers, and where no container has a request, from the pod's own limit.
 */
export function setPodLevelRequests(spec: PodSpec): void {
  const resources = spec.resources;
  if (resources === undefined) return;
  const hasAny = hasKeys(resources.limits) || hasKeys(resources.requests);
  if (!hasAny) return;

  const containerLimits = aggregate(spec, (container) => container.resources?.limits);
  for (const name in containerLimits) {
    const amount = containerLimits[name];
    if (!name.startsWith("hugepages-") || amount === undefined) continue;
    if (resources.requests?.[name] !== undefined || resources.limits?.[name] !== undefined) continue;
    resources.limits ??= {};
    resources.limits[name] = amount;
  }

  const limits = resources.limits;
  if (limits === undefined || !hasKeys(limits)) return;
  const requests = resources.requests ?? {};
  const containerRequests = aggregate(spec, (container) => container.resources?.requests);
  for (const name of ["cpu", "memory"]) {
    const amount = containerRequests[name];
    if (amount !== undefined) requests[name] ??= amount;
  }
  for (const name in limits) {
    const amount = limits[name];
    if (amount !== undefined && isPodLevelResource(name)) requests[name] ??= amount;
  }
  if (hasKeys(requests)) resources.requests = requests;
}

function hasKeys(map: Record<string, unknown> | undefined): boolean {
  for (const _ in map) return true;
  return false;
}

import type { Container, PodSpec, ResourceRequirements } from "../../../model/kubernetes.generated.ts";
import { compareAmounts, isZeroAmount } from "../checks/amounts.ts";

export type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

/**
 * The QoS class. Guaranteed: every container has cpu and memory limits, and equal requests. BestEffort: no container
 * has requests or limits. Only cpu and memory count.
 */
export function podQosOf(spec: PodSpec): QosClass {
  const podLevel = spec.resources;
  if (podLevel !== undefined && (hasCompute(podLevel) || isNamed(podLevel))) {
    return isGuaranteed(podLevel) ? "Guaranteed" : "Burstable";
  }
  let guaranteed = true;
  let any = false;
  const look = (container: Container): void => {
    const resources = container.resources;
    if (resources === undefined) {
      guaranteed = false;
      return;
    }
    any ||= hasCompute(resources);
    guaranteed &&= isGuaranteed(resources);
  };
  for (const container of spec.containers) look(container);
  if (spec.initContainers !== undefined) for (const container of spec.initContainers) look(container);
  if (!any) return "BestEffort";
  return guaranteed ? "Guaranteed" : "Burstable";
}

function isNamed(resources: ResourceRequirements): boolean {
  return resources.requests !== undefined || resources.limits !== undefined;
}

function hasCompute({ requests, limits }: ResourceRequirements): boolean {
  return (
    isRequested(requests?.["cpu"]) ||
    isRequested(requests?.["memory"]) ||
    isRequested(limits?.["cpu"]) ||
    isRequested(limits?.["memory"])
  );
}

function isGuaranteed({ requests, limits }: ResourceRequirements): boolean {
  return isMet(requests?.["cpu"], limits?.["cpu"]) && isMet(requests?.["memory"], limits?.["memory"]);
}

function isMet(request: string | undefined, limit: string | undefined): boolean {
  if (request === undefined || limit === undefined || isZeroAmount(limit)) return false;
  return request === limit || compareAmounts(request, limit) === 0;
}

function isRequested(amount: string | undefined): boolean {
  return amount !== undefined && !isZeroAmount(amount);
}

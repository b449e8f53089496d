/** The requests of a pod: the sum of its containers, or its largest init container if that is more. */
import type { Container, PodSpec } from "../../../model/kubernetes.generated.ts";
import { addAmounts, compareAmounts } from "../checks/amounts.ts";

export type ResourceList = Record<string, string>;

export function podRequests(spec: PodSpec): ResourceList {
  const total = aggregate(spec, (container) => container.resources?.requests);
  overlay(total, spec.resources?.requests);
  if (spec.overhead !== undefined) addTo(total, spec.overhead);
  return total;
}

export function podLimits(spec: PodSpec): ResourceList {
  const total = aggregate(spec, (container) => container.resources?.limits);
  overlay(total, spec.resources?.limits);
  // Overhead only raises existing limits: an absent limit means unlimited.
  for (const [name, amount] of Object.entries(spec.overhead ?? {})) {
    const limit = total[name];
    if (limit !== undefined && compareAmounts(limit, "0") > 0) total[name] = addAmounts(limit, amount);
  }
  return total;
}

/**
 * Sidecars (init containers that restart always) run beside everything that starts after them, so an ordinary init
 * container needs its own amount plus those of the sidecars before it.
 */
export function aggregate(spec: PodSpec, amountsOf: (container: Container) => ResourceList | undefined): ResourceList {
  const total: ResourceList = {};
  for (const container of spec.containers) addTo(total, amountsOf(container));
  const sidecars: ResourceList = {};
  const initPeak: ResourceList = {};
  for (const container of spec.initContainers ?? []) {
    if (container.restartPolicy === "Always") {
      addTo(total, amountsOf(container));
      addTo(sidecars, amountsOf(container));
      raiseTo(initPeak, sidecars);
    } else {
      const here: ResourceList = {};
      addTo(here, sidecars);
      addTo(here, amountsOf(container));
      raiseTo(initPeak, here);
    }
  }
  raiseTo(total, initPeak);
  return total;
}

function overlay(total: ResourceList, podLevel: ResourceList | undefined): void {
  for (const [name, amount] of Object.entries(podLevel ?? {})) if (isPodLevelResource(name)) total[name] = amount;
}

function addTo(total: ResourceList, more: ResourceList | undefined): void {
  if (more === undefined) return;
  for (const name in more) {
    const amount = more[name];
    const before = total[name];
    if (amount !== undefined) total[name] = before === undefined ? amount : addAmounts(before, amount);
  }
}

function raiseTo(total: ResourceList, floor: ResourceList): void {
  for (const name in floor) {
    const amount = floor[name];
    const before = total[name];
    if (amount !== undefined && (before === undefined || compareAmounts(amount, before) > 0)) total[name] = amount;
  }
}

/** The resources that `spec.resources` may have. */
export function isPodLevelResource(name: string): boolean {
  return name === "cpu" || name === "memory" || name.startsWith("hugepages-");
}

import type { LabelSelector, Pod, PodAffinityTerm } from "../../../model/kubernetes.generated.ts";

/**
 * `matchLabelKeys` and `mismatchLabelKeys` refer to the label values of this pod. They are merged into the selectors at
 * create, so that all readers of the selector see the same values even if the labels change.
 */
export function expandLabelKeys(pod: Pod): void {
  const affinity = pod.spec?.affinity;
  const labels = pod.metadata?.labels;
  if (labels === undefined) return;
  if (affinity !== undefined) {
    for (const kind of [affinity.podAffinity, affinity.podAntiAffinity]) {
      for (const term of kind?.requiredDuringSchedulingIgnoredDuringExecution ?? []) expandTerm(term, labels);
      for (const weighted of kind?.preferredDuringSchedulingIgnoredDuringExecution ?? []) {
        if (weighted.podAffinityTerm !== undefined) expandTerm(weighted.podAffinityTerm, labels);
      }
    }
  }
  for (const constraint of pod.spec?.topologySpreadConstraints ?? []) {
    if (constraint.labelSelector !== undefined) {
      addKeys(constraint.labelSelector, constraint.matchLabelKeys, "In", labels);
    }
  }
}

function expandTerm(term: PodAffinityTerm, labels: Record<string, string>): void {
  if (term.labelSelector === undefined) return;
  addKeys(term.labelSelector, term.matchLabelKeys, "In", labels);
  addKeys(term.labelSelector, term.mismatchLabelKeys, "NotIn", labels);
}

function addKeys(
  selector: LabelSelector,
  keys: readonly string[] | undefined,
  operator: "In" | "NotIn",
  labels: Record<string, string>,
): void {
  if (keys === undefined) return;
  for (const key of keys) {
    const value = labels[key];
    if (value === undefined) continue;
    selector.matchExpressions ??= [];
    selector.matchExpressions.push({ key, operator, values: [value] });
  }
}

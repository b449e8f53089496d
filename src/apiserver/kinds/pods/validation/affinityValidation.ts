import type {
  Affinity,
  LabelSelector,
  NodeSelector,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  PodAffinityTerm,
} from "../../../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required } from "../../../../model/objects/fieldError.ts";
import { checkLabelSelector } from "../../checks/labelChecks.ts";
import { checkDnsLabel, checkDnsSubdomain, checkLabelValue, checkQualifiedName } from "../../checks/nameChecks.ts";

export function checkAffinity(affinity: Affinity, path: string, errors: FieldError[]): void {
  const { nodeAffinity, podAffinity, podAntiAffinity } = affinity;
  if (nodeAffinity !== undefined) {
    const required = nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution;
    if (required !== undefined) {
      checkNodeSelector(required, `${path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`, errors);
    }
    const preferred = nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution ?? [];
    for (const [i, term] of preferred.entries()) {
      const at = `${path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[${i}]`;
      checkWeight(term.weight, `${at}.weight`, errors);
      // Invalid label values are accepted in preferred terms, as upstream: they only affect scores.
      checkNodeSelectorTerm(term.preference, `${at}.preference`, errors, { anyValue: true });
    }
  }
  for (const [field, value] of [
    ["podAffinity", podAffinity],
    ["podAntiAffinity", podAntiAffinity],
  ] as const) {
    if (value === undefined) continue;
    for (const [i, term] of (value.requiredDuringSchedulingIgnoredDuringExecution ?? []).entries()) {
      checkPodAffinityTerm(term, `${path}.${field}.requiredDuringSchedulingIgnoredDuringExecution[${i}]`, errors);
    }
    for (const [i, term] of (value.preferredDuringSchedulingIgnoredDuringExecution ?? []).entries()) {
      const at = `${path}.${field}.preferredDuringSchedulingIgnoredDuringExecution[${i}]`;
      checkWeight(term.weight, `${at}.weight`, errors);
      checkPodAffinityTerm(term.podAffinityTerm, `${at}.podAffinityTerm`, errors);
    }
  }
}

export function checkNodeSelector(selector: NodeSelector, path: string, errors: FieldError[]): void {
  const terms = selector.nodeSelectorTerms ?? [];
  if (terms.length === 0) {
    errors.push(required(`${path}.nodeSelectorTerms`, "must have at least one node selector term"));
  }
  for (const [i, term] of terms.entries()) {
    checkNodeSelectorTerm(term, `${path}.nodeSelectorTerms[${i}]`, errors, { anyValue: false });
  }
}

function checkNodeSelectorTerm(
  term: NodeSelectorTerm | undefined,
  path: string,
  errors: FieldError[],
  { anyValue }: { anyValue: boolean },
): void {
  for (const [i, requirement] of (term?.matchExpressions ?? []).entries()) {
    const at = `${path}.matchExpressions[${i}]`;
    checkOperator(requirement, at, errors);
    checkQualifiedName(requirement.key, `${at}.key`, errors);
    if (anyValue) continue;
    for (const [j, value] of (requirement.values ?? []).entries()) checkLabelValue(value, `${at}.values[${j}]`, errors);
  }
  for (const [i, requirement] of (term?.matchFields ?? []).entries()) {
    const at = `${path}.matchFields[${i}]`;
    if (requirement.operator !== "In" && requirement.operator !== "NotIn") {
      errors.push(invalid(`${at}.operator`, requirement.operator ?? "", "not a valid selector operator"));
    } else if ((requirement.values ?? []).length !== 1) {
      const detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
      errors.push(required(`${at}.values`, detail));
    }
    if (requirement.key !== "metadata.name") {
      errors.push(invalid(`${at}.key`, requirement.key, "not a valid field selector key"));
    } else {
      for (const [j, value] of (requirement.values ?? []).entries()) {
        checkDnsSubdomain(value, `${at}.values[${j}]`, errors);
      }
    }
  }
}

function checkOperator(requirement: NodeSelectorRequirement, path: string, errors: FieldError[]): void {
  const count = requirement.values?.length ?? 0;
  switch (requirement.operator) {
    case "In":
    case "NotIn":
      if (count === 0) {
        errors.push(required(`${path}.values`, "must be specified when `operator` is 'In' or 'NotIn'"));
      }
      break;
    case "Exists":
    case "DoesNotExist":
      if (count > 0) {
        const detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        errors.push(forbidden(`${path}.values`, detail));
      }
      break;
    case "Gt":
    case "Lt":
      if (count !== 1) {
        errors.push(required(`${path}.values`, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
      }
      break;
    default:
      errors.push(invalid(`${path}.operator`, requirement.operator ?? "", "not a valid selector operator"));
  }
}

function checkWeight(weight: number, path: string, errors: FieldError[]): void {
  if (weight <= 0 || weight > 100) errors.push(invalid(path, weight, "must be in the range 1-100"));
}

function checkPodAffinityTerm(term: PodAffinityTerm, path: string, errors: FieldError[]): void {
  checkLabelSelector(term.labelSelector, `${path}.labelSelector`, errors);
  checkLabelSelector(term.namespaceSelector, `${path}.namespaceSelector`, errors);
  for (const namespace of term.namespaces ?? []) checkDnsLabel(namespace, `${path}.namespace`, errors);
  checkLabelKeys(term, path, errors);
  if (!term.topologyKey) errors.push(required(`${path}.topologyKey`, "can not be empty"));
  else checkQualifiedName(term.topologyKey, `${path}.topologyKey`, errors);
}

interface KeyedSelector {
  readonly matchLabelKeys?: string[];
  readonly mismatchLabelKeys?: string[];
  readonly labelSelector?: LabelSelector;
}

/**
 * Runs after the keys have been merged into the selector, so a key is "also in the selector" only when the selector has
 * it a second time.
 */
export function checkLabelKeys(term: KeyedSelector, path: string, errors: FieldError[]): void {
  const { matchLabelKeys, mismatchLabelKeys, labelSelector } = term;
  if (matchLabelKeys === undefined && mismatchLabelKeys === undefined) return;
  for (const [field, keys] of [
    ["matchLabelKeys", matchLabelKeys],
    ["mismatchLabelKeys", mismatchLabelKeys],
  ] as const) {
    if (keys === undefined || keys.length === 0) continue;
    if (labelSelector === undefined) {
      errors.push(forbidden(`${path}.${field}`, "must not be specified when labelSelector is not set"));
      continue;
    }
    for (const [i, key] of keys.entries()) checkQualifiedName(key, `${path}.${field}[${i}]`, errors);
  }
  const seen = new Set(Object.keys(labelSelector?.matchLabels ?? {}));
  for (const { key } of labelSelector?.matchExpressions ?? []) {
    const i = matchLabelKeys?.indexOf(key) ?? -1;
    if (i >= 0 && seen.has(key)) {
      errors.push(invalid(`${path}[${i}]`, key, "exists in both matchLabelKeys and labelSelector"));
    }
    seen.add(key);
  }
  for (const [i, key] of (matchLabelKeys ?? []).entries()) {
    if (mismatchLabelKeys?.includes(key)) {
      const detail = "exists in both matchLabelKeys and mismatchLabelKeys";
      errors.push(invalid(`${path}.matchLabelKeys[${i}]`, key, detail));
    }
  }
}

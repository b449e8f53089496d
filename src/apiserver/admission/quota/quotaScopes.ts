import type { ResourceQuotaSpec } from "../../../model/kubernetes.generated.ts";
import type { ScopeFacts } from "./quotaShare.ts";

interface Requirement {
  readonly scopeName: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/**
 * Whether a quota counts an object. Scopes select among pods and volume claims; a quota with scopes counts no other
 * kind.
 */
export function quotaCounts(spec: ResourceQuotaSpec, facts: ScopeFacts | undefined): boolean {
  const requirements: Requirement[] = [
    ...(spec.scopes ?? []).map((scopeName) => ({ scopeName, operator: "Exists" })),
    ...(spec.scopeSelector?.matchExpressions ?? []),
  ];
  if (requirements.length === 0) return true;
  return facts !== undefined && requirements.every((requirement) => meets(requirement, facts));
}

function meets({ scopeName, operator, values = [] }: Requirement, facts: ScopeFacts): boolean {
  if ("volumeClasses" in facts) {
    return scopeName === "VolumeAttributesClass" && meetsClasses(operator, values, facts.volumeClasses);
  }
  switch (scopeName) {
    case "Terminating":
      return facts.isTerminating;
    case "NotTerminating":
      return !facts.isTerminating;
    case "BestEffort":
      return facts.isBestEffort;
    case "NotBestEffort":
      return !facts.isBestEffort;
    case "CrossNamespacePodAffinity":
      return facts.crossesNamespaces;
    case "PriorityClass":
      return meetsPriority(operator, values, facts.priorityClass);
    default:
      return false;
  }
}

function meetsClasses(operator: string, values: readonly string[], names: readonly string[]): boolean {
  switch (operator) {
    case "In":
      return names.some((name) => values.includes(name));
    case "NotIn":
      return !names.some((name) => values.includes(name));
    case "Exists":
      return names.length > 0;
    case "DoesNotExist":
      return names.length === 0;
    default:
      return false;
  }
}

function meetsPriority(operator: string, values: readonly string[], name: string): boolean {
  switch (operator) {
    case "In":
      return values.includes(name);
    case "NotIn":
      return !values.includes(name);
    case "Exists":
      return name !== "";
    case "DoesNotExist":
      return name === "";
    default:
      return false;
  }
}

/** Whether a pod accepts a node: its node selector, required node affinity and tolerations. */
import type {
  Node,
  NodeSelector,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  PodSpec,
} from "../kubernetes.generated.ts";

export function matchesNode(spec: PodSpec | undefined, node: Node): boolean {
  for (const [key, value] of Object.entries(spec?.nodeSelector ?? {})) {
    if (node.metadata.labels?.[key] !== value) return false;
  }
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || matchesNodeSelector(required, node);
}

/** Terms are alternatives. */
export function matchesNodeSelector(selector: NodeSelector, node: Node): boolean {
  return selector.nodeSelectorTerms.some((term) => matchesTerm(term, node));
}

/** An empty term matches no node. */
export function matchesTerm({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm, node: Node): boolean {
  if (matchExpressions.length === 0 && matchFields.length === 0) return false;
  return (
    matchExpressions.every((each) => holds(each, node.metadata.labels?.[each.key])) &&
    matchFields.every((each) => each.key === "metadata.name" && holds(each, node.metadata.name))
  );
}

function holds({ operator, values = [] }: NodeSelectorRequirement, value: string | undefined): boolean {
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    case "Gt":
    case "Lt": {
      const bound = values[0];
      if (value === undefined || bound === undefined || !integer.test(value) || !integer.test(bound)) return false;
      return operator === "Gt" ? BigInt(value) > BigInt(bound) : BigInt(value) < BigInt(bound);
    }
    default:
      return false;
  }
}

const integer = /^-?[0-9]+$/;

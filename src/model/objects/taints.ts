/** Taints and what tolerates them. */
import type { Taint, Toleration } from "../kubernetes.generated.ts";

export const notReadyTaint = "node.kubernetes.io/not-ready";
export const unreachableTaint = "node.kubernetes.io/unreachable";

export function tolerates(toleration: Toleration, taint: Taint): boolean {
  const { effect, key, operator = "Equal", value = "" } = toleration;
  if (effect !== undefined && effect !== "" && effect !== taint.effect) return false;
  if (key !== undefined && key !== "" && key !== taint.key) return false;
  if (operator === "Exists") return true;
  if (operator === "Equal") return value === (taint.value ?? "") && key !== undefined && key !== "";
  if (operator === "Gt" || operator === "Lt") return comparesNumbers(operator, taint.value ?? "", value);
  return false;
}

function comparesNumbers(operator: "Gt" | "Lt", given: string, bound: string): boolean {
  if (!/^-?[0-9]+$/.test(given) || !/^-?[0-9]+$/.test(bound)) return false;
  return operator === "Gt" ? BigInt(given) > BigInt(bound) : BigInt(given) < BigInt(bound);
}

export function isTolerated(taint: Taint, tolerations: readonly Toleration[] | undefined): boolean {
  return tolerations?.some((toleration) => tolerates(toleration, taint)) === true;
}

export function sameTaint(a: Taint, b: Taint): boolean {
  return a.key === b.key && a.effect === b.effect;
}

import type { LabelSelector } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid } from "../../../model/objects/fieldError.ts";
import { validateLabelSelector } from "../../../model/objects/labelSelector.ts";
import { checkQualifiedName, labelValueProblem } from "./nameChecks.ts";

/** Checks keys and values of a map of labels, such as a node selector. */
export function checkLabels(labels: Record<string, string> | undefined, path: string, errors: FieldError[]): void {
  if (labels === undefined) return;
  for (const key in labels) {
    const value = labels[key] ?? "";
    checkQualifiedName(key, path, errors);
    const problem = labelValueProblem(value);
    if (problem !== undefined) errors.push(invalid(path, value, problem));
  }
}

export function checkLabelSelector(selector: LabelSelector | undefined, path: string, errors: FieldError[]): void {
  if (selector === undefined) return;
  for (const error of validateLabelSelector(selector, path)) errors.push(error);
}

export function isEmptySelector(selector: LabelSelector): boolean {
  return Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
}

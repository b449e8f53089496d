import type { LabelSelector, PodTemplateSpec } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, required } from "../../../model/objects/fieldError.ts";
import { checkNonNegative } from "../checks/fieldChecks.ts";
import { checkLabelSelector, isEmptySelector } from "../checks/labelChecks.ts";
import { checkPodTemplate, checkTemplateMatchesSelector, checkTemplateRunsForever } from "../pods/podTemplate.ts";

/** Validation that controllers of pods share: a selector, and a template that it must match. */
export function checkSelectorAndTemplate(
  selector: LabelSelector | undefined,
  template: PodTemplateSpec | undefined,
  kind: string,
  errors: FieldError[],
): void {
  const before = errors.length;
  if (selector === undefined) errors.push(required("spec.selector"));
  else {
    checkLabelSelector(selector, "spec.selector", errors);
    if (isEmptySelector(selector)) {
      const detail = `empty selector is invalid for ${kind.toLowerCase()}`;
      errors.push(invalid("spec.selector", selector, detail));
    }
  }
  if (template === undefined) {
    errors.push(required("spec.template"));
    return;
  }
  // An invalid selector matches nothing, and is reported itself.
  if (selector !== undefined && !isEmptySelector(selector) && errors.length === before) {
    checkTemplateMatchesSelector(template, selector, "spec.template", errors);
  }
  checkPodTemplate(template, "spec.template", errors);
  checkTemplateRunsForever(template, kind, "spec.template", errors);
}

/** Counters of a status are never negative. */
export function checkCounters(status: object | undefined, fields: readonly string[], errors: FieldError[]): void {
  for (const field of fields) {
    const value = (status as Record<string, unknown> | undefined)?.[field];
    if (typeof value === "number") checkNonNegative(value, `status.${field}`, errors);
  }
}

/** Counters that cannot exceed another counter. */
export function checkNotMoreThan(
  status: object | undefined,
  fields: readonly string[],
  whole: string,
  errors: FieldError[],
  text = `status.${whole}`,
): void {
  const values = (status ?? {}) as Record<string, unknown>;
  const bound = typeof values[whole] === "number" ? values[whole] : 0;
  for (const field of fields) {
    const value = values[field];
    if (typeof value === "number" && value > bound) {
      errors.push(invalid(`status.${field}`, value, `cannot be greater than ${text}`));
    }
  }
}

import type { ResourceQuota } from "../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, notSupported } from "../../../model/objects/fieldError.ts";
import { equalJson } from "../../../model/objects/json.ts";
import { isNegativeAmount, isWholeAmount } from "../checks/amounts.ts";
import { checkImmutable } from "../checks/fieldChecks.ts";
import { checkQualifiedName } from "../checks/nameChecks.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import { isIntegerResource, isStandardResource } from "../pods/validation/resourceValidation.ts";

const scopes = [
  "BestEffort",
  "CrossNamespacePodAffinity",
  "NotBestEffort",
  "NotTerminating",
  "PriorityClass",
  "Terminating",
  "VolumeAttributesClass",
];
const operators = ["DoesNotExist", "Exists", "In", "NotIn"];

export const resourceQuotaStrategy = strategyOfKind<ResourceQuota>({
  generation: "none",
  returnsDeleted: true,
  setDefaults({ spec }) {
    // A selector without expressions selects nothing, and is the same as none.
    if ((spec?.scopeSelector?.matchExpressions ?? []).length === 0) delete spec?.scopeSelector;
  },
  validate: (quota) => quotaErrors(quota),
  validateUpdate(next, old) {
    const errors = quotaErrors(next);
    const sorted = (list: readonly string[] | undefined): string[] => [...(list ?? [])].sort();
    if (!equalJson(sorted(next.spec?.scopes), sorted(old.spec?.scopes))) {
      errors.push(invalid("spec.scopes", next.spec?.scopes ?? null, "field is immutable"));
    }
    checkImmutable(next.spec?.scopeSelector, old.spec?.scopeSelector, "spec.scopeSelector", errors);
    return errors;
  },
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    for (const field of ["hard", "used"] as const) checkAmounts(next.status?.[field], `status.${field}`, errors);
    return errors;
  },
});

function quotaErrors(quota: ResourceQuota): FieldError[] {
  const errors: FieldError[] = [];
  const spec = quota.spec ?? {};
  checkAmounts(spec.hard, "spec.hard", errors);
  for (const scope of spec.scopes ?? []) {
    if (!scopes.includes(scope)) {
      errors.push(invalid("spec.scopes", spec.scopes, "unsupported scope"));
    }
  }
  const has = (scope: string): boolean => spec.scopes?.includes(scope) === true;
  if ((has("BestEffort") && has("NotBestEffort")) || (has("Terminating") && has("NotTerminating"))) {
    errors.push(invalid("spec.scopes", spec.scopes, "conflicting scopes"));
  }
  for (const [i, requirement] of (spec.scopeSelector?.matchExpressions ?? []).entries()) {
    const path = `spec.scopeSelector.matchExpressions[${i}]`;
    if (!scopes.includes(requirement.scopeName)) {
      errors.push(invalid(`${path}.scopeName`, requirement.scopeName, "unsupported scope"));
    }
    const count = requirement.values?.length ?? 0;
    if (!operators.includes(requirement.operator)) {
      errors.push(notSupported(`${path}.operator`, requirement.operator, operators));
    } else if ((requirement.operator === "In" || requirement.operator === "NotIn") && count === 0) {
      const detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
      errors.push({ type: "Required", field: `${path}.values`, body: `Required value: ${detail}` });
    } else if ((requirement.operator === "Exists" || requirement.operator === "DoesNotExist") && count > 0) {
      const detail = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector";
      errors.push(invalid(`${path}.values`, requirement.values, detail));
    }
  }
  return errors;
}

function checkAmounts(list: Record<string, string> | undefined, path: string, errors: FieldError[]): void {
  for (const [name, amount] of Object.entries(list ?? {})) {
    const at = `${path}[${name}]`;
    if (checkQualifiedName(name, at, errors) && !name.includes("/") && !isStandardResource(name)) {
      errors.push(invalid(at, name, "must be a standard resource for quota"));
    }
    if (isNegativeAmount(amount)) errors.push(invalid(at, amount, "must be greater than or equal to 0"));
    const counts = name.startsWith("count/") || isIntegerResource(name.replace(/^requests\./, ""));
    if (counts && !isWholeAmount(amount)) errors.push(invalid(at, amount, "must be an integer"));
  }
}

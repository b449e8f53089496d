import type { TopologySpreadConstraint } from "../../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, invalid, notSupported, required } from "../../../../model/objects/fieldError.ts";
import { checkOneOf, checkPositive } from "../../checks/fieldChecks.ts";
import { checkLabelSelector } from "../../checks/labelChecks.ts";
import { checkLabelKeys } from "./affinityValidation.ts";

const actions = ["DoNotSchedule", "ScheduleAnyway"];
const nodePolicies = ["Honor", "Ignore"];

export function checkTopologySpread(
  constraints: readonly TopologySpreadConstraint[],
  path: string,
  errors: FieldError[],
): void {
  const keyOf = ({ topologyKey, whenUnsatisfiable }: TopologySpreadConstraint): string =>
    JSON.stringify([topologyKey, whenUnsatisfiable]);
  const lastOf = new Map(constraints.map((constraint, i) => [keyOf(constraint), i]));
  for (const [i, constraint] of constraints.entries()) {
    const at = `${path}[${i}]`;
    const { topologyKey, whenUnsatisfiable, minDomains } = constraint;
    checkPositive(constraint.maxSkew ?? 0, `${at}.maxSkew`, errors);
    if (!topologyKey) errors.push(required(`${at}.topologyKey`, "can not be empty"));
    if (!actions.includes(whenUnsatisfiable ?? "")) {
      errors.push(notSupported(`${at}.whenUnsatisfiable`, whenUnsatisfiable ?? "", actions));
    }
    if (lastOf.get(keyOf(constraint)) !== i) {
      errors.push(duplicate(`${at}.{topologyKey, whenUnsatisfiable}`, `{${topologyKey}, ${whenUnsatisfiable}}`));
    }
    if (minDomains !== undefined) {
      checkPositive(minDomains, `${at}.minDomains`, errors);
      if (whenUnsatisfiable !== "DoNotSchedule") {
        const detail = `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${whenUnsatisfiable}`;
        errors.push(invalid(`${at}.minDomains`, minDomains, detail));
      }
    }
    checkOneOf(constraint.nodeAffinityPolicy, nodePolicies, `${at}.nodeAffinityPolicy`, errors);
    checkOneOf(constraint.nodeTaintsPolicy, nodePolicies, `${at}.nodeTaintsPolicy`, errors);
    checkLabelKeys(constraint, at, errors);
    checkLabelSelector(constraint.labelSelector, `${at}.labelSelector`, errors);
  }
}

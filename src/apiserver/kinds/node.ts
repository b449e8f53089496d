import type { Node, Taint } from "../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, forbidden, invalid } from "../../model/objects/fieldError.ts";
import { equalJson } from "../../model/objects/json.ts";
import { checkCidr } from "./checks/addressChecks.ts";
import { isNegativeAmount, isWholeAmount } from "./checks/amounts.ts";
import { checkQualifiedName, labelValueProblem } from "./checks/nameChecks.ts";
import { repeats } from "./checks/repeats.ts";
import { strategyOfKind } from "./kindStrategy.ts";
import { isIntegerResource } from "./pods/validation/resourceValidation.ts";
import { checkTaintEffect } from "./pods/validation/tolerationValidation.ts";

export const nodeStrategy = strategyOfKind<Node>({
  generation: "none",
  statusOnCreate: true,
  setDefaults(node) {
    const { status, spec } = node;
    if (status?.capacity !== undefined) status.allocatable ??= { ...status.capacity };
    // podCIDR is the older field and equals the first of podCIDRs.
    if (spec?.podCIDR && spec.podCIDRs?.[0] !== spec.podCIDR) spec.podCIDRs = [spec.podCIDR];
    else if (spec?.podCIDRs?.[0] !== undefined && !spec.podCIDR) spec.podCIDR = spec.podCIDRs[0];
  },
  validate(node) {
    const errors: FieldError[] = [];
    checkNode(node, errors);
    return errors;
  },
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    checkNode(next, errors);
    if ((old.spec?.podCIDRs ?? []).length > 0 && !equalJson(next.spec?.podCIDRs, old.spec?.podCIDRs)) {
      const detail = 'node updates may not change podCIDR except from "" to valid';
      errors.push(forbidden("spec.podCIDRs", detail));
    }
    if (next.spec?.externalID !== old.spec?.externalID) {
      errors.push(forbidden("spec.externalID", "may not be updated"));
    }
    if (old.spec?.providerID) {
      if (!next.spec?.providerID) errors.push(invalid("spec.providerID", null, "field cannot be cleared once set"));
      else if (next.spec.providerID !== old.spec.providerID) {
        errors.push(invalid("spec.providerID", null, "field cannot be modified once set"));
      }
    }
    return errors;
  },
  validateStatusUpdate(next) {
    const errors: FieldError[] = [];
    checkNodeStatus(next, errors);
    return errors;
  },
  selectFields: (node) => [node.spec?.unschedulable === true ? "true" : "false"],
});

function checkNode(node: Node, errors: FieldError[]): void {
  // Upstream reports taints under metadata; the path is kept because scripts match on it.
  if (node.spec?.taints !== undefined) checkTaints(node.spec.taints, "metadata.taints", errors);
  const ranges = node.spec?.podCIDRs ?? [];
  for (const [i, range] of ranges.entries()) checkCidr(range, `spec.podCIDRs[${i}]`, errors);
  const families = new Set(ranges.map((range) => range.includes(":")));
  if (ranges.length > 1 && (ranges.length > 2 || families.size !== 2)) {
    errors.push(invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family"));
  }
  checkNodeStatus(node, errors);
}

function checkNodeStatus(node: Node, errors: FieldError[]): void {
  for (const field of ["capacity", "allocatable"] as const) {
    const list = node.status?.[field];
    for (const name in list) {
      const amount = list[name] ?? "0";
      if (isNegativeAmount(amount)) {
        errors.push(invalid(`status.${field}.${name}`, amount, "must be greater than or equal to 0"));
      }
      if (isIntegerResource(name) && !isWholeAmount(amount)) {
        errors.push(invalid(`status.${field}.${name}`, amount, "must be an integer"));
      }
    }
  }
  const addresses = node.status?.addresses ?? [];
  const isRepeated = repeats();
  for (const [i, address] of addresses.entries()) {
    if (isRepeated(address.type, address.address)) {
      errors.push(duplicate(`status.addresses[${i}]`, address));
    }
  }
}

export function checkTaints(taints: readonly Taint[], path: string, errors: FieldError[]): void {
  const isRepeated = repeats();
  for (const [i, taint] of taints.entries()) {
    checkQualifiedName(taint.key, `${path}[${i}].key`, errors);
    const problem = labelValueProblem(taint.value ?? "");
    if (problem !== undefined) errors.push(invalid(`${path}[${i}].value`, taint.value, problem));
    checkTaintEffect(taint.effect, `${path}[${i}].effect`, errors);
    if (isRepeated(taint.key, taint.effect)) {
      const error = duplicate(`${path}[${i}]`, taint);
      errors.push({ ...error, body: `${error.body}: taints must be unique by key and effect pair` });
    }
  }
}

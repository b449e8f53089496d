/** Workload and PodGroup of scheduling.k8s.io/v1alpha2: pods that are scheduled together. */

import type {
  PodGroup,
  PodGroupResourceClaim,
  PodGroupSchedulingPolicy,
  PodGroupTemplate,
  Workload,
} from "../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, invalid, required, tooMany } from "../../model/objects/fieldError.ts";
import { checkImmutable, checkOneOf, checkPositive } from "./checks/fieldChecks.ts";
import { checkDnsLabel, checkDnsSubdomain, checkQualifiedName } from "./checks/nameChecks.ts";
import { repeats } from "./checks/repeats.ts";
import { strategyOfKind } from "./kindStrategy.ts";

const templatesMax = 8;
const claimsMax = 4;

export const workloadStrategy = strategyOfKind<Workload>({
  generation: "none",
  validate: (workload) => workloadErrors(workload),
  validateUpdate(next, old) {
    const errors = workloadErrors(next);
    checkImmutable(next.spec?.podGroupTemplates, old.spec?.podGroupTemplates, "spec.podGroupTemplates", errors);
    if (old.spec?.controllerRef !== undefined) {
      checkImmutable(next.spec?.controllerRef, old.spec.controllerRef, "spec.controllerRef", errors);
    }
    return errors;
  },
});

function workloadErrors(workload: Workload): FieldError[] {
  const errors: FieldError[] = [];
  const templates = workload.spec?.podGroupTemplates ?? [];
  const path = "spec.podGroupTemplates";
  if (templates.length === 0) errors.push(required(path, "must have at least one item"));
  if (templates.length > templatesMax) errors.push(tooMany(path, templates.length, templatesMax));
  const isRepeated = repeats();
  for (const [i, template] of templates.entries()) {
    if (!template.name) errors.push(required(`${path}[${i}].name`));
    else checkDnsLabel(template.name, `${path}[${i}].name`, errors);
    if (isRepeated(template.name)) {
      errors.push(duplicate(`${path}[${i}].name`, template.name));
    }
    checkGroup(template, `${path}[${i}]`, errors);
  }
  const controller = workload.spec?.controllerRef;
  if (controller !== undefined) {
    if (!controller.kind) errors.push(required("spec.controllerRef.kind"));
    if (!controller.name) errors.push(required("spec.controllerRef.name"));
    if (controller.apiGroup) checkDnsSubdomain(controller.apiGroup, "spec.controllerRef.apiGroup", errors);
  }
  return errors;
}

export const podGroupStrategy = strategyOfKind<PodGroup>({
  generation: "none",
  statusKeeps: "metadata",
  setDefaults(group) {
    if (group.spec !== undefined) group.spec.disruptionMode ??= "Pod";
  },
  validate: (group) => groupErrors(group),
  validateUpdate(next, old) {
    const errors = groupErrors(next);
    checkImmutable(next.spec, old.spec, "spec", errors);
    return errors;
  },
});

function groupErrors(group: PodGroup): FieldError[] {
  const errors: FieldError[] = [];
  const reference = group.spec?.podGroupTemplateRef;
  if (reference !== undefined) {
    const path = "spec.podGroupTemplateRef.workload";
    if (reference.workload === undefined) errors.push(required(path));
    else {
      const { workloadName, podGroupTemplateName } = reference.workload;
      if (!workloadName) errors.push(required(`${path}.workloadName`));
      else checkDnsSubdomain(workloadName, `${path}.workloadName`, errors);
      if (!podGroupTemplateName) errors.push(required(`${path}.podGroupTemplateName`));
      else checkDnsLabel(podGroupTemplateName, `${path}.podGroupTemplateName`, errors);
    }
  }
  if (group.spec === undefined) errors.push(required("spec.schedulingPolicy"));
  else checkGroup(group.spec, "spec", errors);
  return errors;
}

type Group = Pick<
  PodGroupTemplate,
  "disruptionMode" | "priorityClassName" | "resourceClaims" | "schedulingConstraints" | "schedulingPolicy"
>;

function checkGroup(group: Group, path: string, errors: FieldError[]): void {
  checkPolicy(group.schedulingPolicy, `${path}.schedulingPolicy`, errors);
  checkOneOf(group.disruptionMode, ["Pod", "PodGroup"], `${path}.disruptionMode`, errors);
  if (group.priorityClassName) checkDnsSubdomain(group.priorityClassName, `${path}.priorityClassName`, errors);
  const topology = group.schedulingConstraints?.topology ?? [];
  if (topology.length > 1) errors.push(tooMany(`${path}.schedulingConstraints.topology`, topology.length, 1));
  for (const [i, constraint] of topology.entries()) {
    checkQualifiedName(constraint.key, `${path}.schedulingConstraints.topology[${i}].key`, errors);
  }
  const claims = group.resourceClaims ?? [];
  if (claims.length > claimsMax) errors.push(tooMany(`${path}.resourceClaims`, claims.length, claimsMax));
  checkClaims(claims, `${path}.resourceClaims`, errors);
}

function checkPolicy(policy: PodGroupSchedulingPolicy | undefined, path: string, errors: FieldError[]): void {
  const { basic, gang } = policy ?? {};
  if (basic === undefined && gang === undefined) {
    errors.push(invalid(path, "", "must specify one of: `basic`, `gang`"));
  } else if (basic !== undefined && gang !== undefined) {
    errors.push(invalid(path, "{basic, gang}", "must specify exactly one of: `basic`, `gang`"));
  }
  if (gang !== undefined) checkPositive(gang.minCount ?? 0, `${path}.gang.minCount`, errors);
}

function checkClaims(claims: readonly PodGroupResourceClaim[], path: string, errors: FieldError[]): void {
  const isRepeated = repeats();
  for (const [i, claim] of claims.entries()) {
    if (!claim.name) errors.push(required(`${path}[${i}].name`));
    else checkDnsLabel(claim.name, `${path}[${i}].name`, errors);
    if (isRepeated(claim.name)) {
      errors.push(duplicate(`${path}[${i}].name`, claim.name));
    }
    const count = Number(claim.resourceClaimName !== undefined) + Number(claim.resourceClaimTemplateName !== undefined);
    if (count !== 1) {
      const detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
      errors.push(invalid(`${path}[${i}]`, claim, detail));
    }
  }
}

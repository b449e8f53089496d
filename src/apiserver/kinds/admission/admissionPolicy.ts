import type {
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  ParamRef,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  notSupported,
  required,
  tooMany,
} from "../../../model/objects/fieldError.ts";
import { checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkDnsSubdomain, checkQualifiedName } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { strategyOfKind } from "../kindStrategy.ts";
import {
  checkMatchConditions,
  checkMatchResources,
  checkParamKind,
  checkVariableNames,
  setMatchResourcesDefaults,
} from "./admissionRules.ts";
import { ExpressionScope, results } from "./policyExpressions.ts";

const annotationsMax = 20;
const reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const notSpecified = "expression is not specified";

export const validatingPolicyStrategy = strategyOfKind<ValidatingAdmissionPolicy>({
  generation: "spec",
  statusKeeps: "metadata",
  requiresRevision: true,
  setDefaults(policy) {
    if (policy.spec === undefined) return;
    policy.spec.failurePolicy ??= "Fail";
    setMatchResourcesDefaults(policy.spec.matchConstraints);
  },
  validate: (policy) => validatingPolicyErrors(policy),
  validateUpdate: (next) => validatingPolicyErrors(next),
});

function validatingPolicyErrors(policy: ValidatingAdmissionPolicy): FieldError[] {
  const errors: FieldError[] = [];
  const spec = policy.spec ?? {};
  const scope = checkCommon(spec, errors);
  const { validations = [], auditAnnotations = [] } = spec;
  if (validations.length === 0 && auditAnnotations.length === 0) {
    const detail = "validations or auditAnnotations must contain at least one item";
    errors.push(required("spec.validations", detail), required("spec.auditAnnotations", detail));
  }
  for (const [i, validation] of validations.entries()) {
    const path = `spec.validations[${i}]`;
    scope.check(validation.expression, `${path}.expression`, errors, results.bool, notSpecified);
    if (validation.messageExpression?.trim()) {
      const quiet = scope.without("authorizer");
      quiet.check(validation.messageExpression, `${path}.messageExpression`, errors, results.string);
    }
    if (validation.message?.includes("\n")) {
      errors.push(invalid(`${path}.message`, validation.message, "message must not contain line breaks"));
    }
    checkOneOf(validation.reason, reasons, `${path}.reason`, errors);
  }
  if (auditAnnotations.length > annotationsMax) {
    errors.push(tooMany("spec.auditAnnotations", auditAnnotations.length, annotationsMax));
  }
  const isRepeated = repeats();
  for (const [i, annotation] of auditAnnotations.entries()) {
    const path = `spec.auditAnnotations[${i}]`;
    if (!annotation.key) errors.push(required(`${path}.key`));
    else checkQualifiedName(`${policy.metadata.name}/${annotation.key}`, `${path}.key`, errors);
    if (isRepeated(annotation.key)) {
      errors.push(duplicate(`${path}.key`, annotation.key));
    }
    scope.check(annotation.valueExpression, `${path}.valueExpression`, errors, results.annotation, notSpecified);
  }
  return errors;
}

type CommonSpec = Pick<
  NonNullable<ValidatingAdmissionPolicy["spec"]>,
  "failurePolicy" | "matchConditions" | "matchConstraints" | "paramKind" | "variables"
>;

/** Returns the scope for the expressions of validations and mutations. */
function checkCommon(spec: CommonSpec, errors: FieldError[], isMutating = false): ExpressionScope {
  checkOneOf(spec.failurePolicy, ["Fail", "Ignore"], "spec.failurePolicy", errors, true);
  checkParamKind(spec.paramKind, "spec.paramKind", errors);
  if (spec.matchConstraints === undefined) errors.push(required("spec.matchConstraints"));
  else {
    checkMatchResources(spec.matchConstraints, "spec.matchConstraints", errors);
    if ((spec.matchConstraints.resourceRules ?? []).length === 0) {
      errors.push(required("spec.matchConstraints.resourceRules"));
    }
  }
  const scope = ExpressionScope.ofPolicy(spec.paramKind !== undefined, isMutating);
  checkMatchConditions(spec.matchConditions, scope, "spec.matchConditions", errors);
  checkVariableNames(spec.variables, "spec.variables", errors);
  return scope.withVariables(spec.variables, "spec.variables", errors);
}

export const mutatingPolicyStrategy = strategyOfKind<MutatingAdmissionPolicy>({
  generation: "spec",
  requiresRevision: true,
  setDefaults(policy) {
    if (policy.spec === undefined) return;
    policy.spec.failurePolicy ??= "Fail";
    setMatchResourcesDefaults(policy.spec.matchConstraints);
  },
  prepareForCreate: (_policy, context) => context.warn(notRun),
  validate: (policy) => mutatingPolicyErrors(policy),
  validateUpdate: (next) => mutatingPolicyErrors(next),
});

/** Without this warning users would rely on a policy that has no effect. */
const notRun = "MutatingAdmissionPolicies are stored by this server and not run: use a mutating webhook";

function mutatingPolicyErrors(policy: MutatingAdmissionPolicy): FieldError[] {
  const errors: FieldError[] = [];
  const spec = policy.spec ?? {};
  const scope = checkCommon(spec, errors, true);
  checkMutatedOperations(spec, errors);
  checkOneOf(spec.reinvocationPolicy, ["IfNeeded", "Never"], "spec.reinvocationPolicy", errors, true);
  const { mutations = [] } = spec;
  if (mutations.length === 0) errors.push(required("spec.mutations", "mutations must contain at least one item"));
  for (const [i, mutation] of mutations.entries()) {
    const path = `spec.mutations[${i}]`;
    checkOneOf(mutation.patchType, ["ApplyConfiguration", "JSONPatch"], `${path}.patchType`, errors, true);
    const [wanted, other] =
      mutation.patchType === "JSONPatch"
        ? (["jsonPatch", "applyConfiguration"] as const)
        : (["applyConfiguration", "jsonPatch"] as const);
    const detail = `must be specified when patchType is ${mutation.patchType}`;
    if (mutation[wanted] === undefined) errors.push(required(`${path}.${wanted}`, detail));
    else {
      const result = wanted === "jsonPatch" ? results.patch : results.applied;
      scope.check(mutation[wanted].expression, `${path}.${wanted}.expression`, errors, result, notSpecified);
    }
    if (mutation[other] !== undefined) {
      errors.push(
        invalid(`${path}.${other}`, mutation[other], `must not be specified when patchType is ${mutation.patchType}`),
      );
    }
  }
  return errors;
}

/** A deletion cannot be mutated. */
function checkMutatedOperations({ matchConstraints }: CommonSpec, errors: FieldError[]): void {
  for (const { operations = [] } of matchConstraints?.resourceRules ?? []) {
    const path = "spec.matchConstraints.resourceRules.operations";
    for (const operation of operations) {
      if (operation === "DELETE") errors.push(notSupported(path, operation, ["*", "CONNECT", "CREATE", "UPDATE"]));
    }
  }
}

export const validatingPolicyBindingStrategy = strategyOfKind<ValidatingAdmissionPolicyBinding>({
  generation: "spec",
  requiresRevision: true,
  setDefaults: (binding) => setMatchResourcesDefaults(binding.spec?.matchResources),
  validate: (binding) => validatingBindingErrors(binding),
  validateUpdate: (next) => validatingBindingErrors(next),
});

function validatingBindingErrors(binding: ValidatingAdmissionPolicyBinding): FieldError[] {
  const errors: FieldError[] = [];
  checkBinding(binding.spec, errors);
  const actions = binding.spec?.validationActions ?? [];
  const path = "spec.validationActions";
  if (actions.length === 0) errors.push(required(path, "at least one validation action is required"));
  for (const [i, action] of actions.entries()) {
    checkOneOf(action, ["Audit", "Deny", "Warn"], `${path}[${i}]`, errors);
    if (actions.slice(0, i).includes(action)) errors.push(duplicate(`${path}[${i}]`, action));
  }
  if (actions.includes("Deny") && actions.includes("Warn")) {
    const detail =
      "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
    errors.push(invalid(path, actions, detail));
  }
  return errors;
}

export const mutatingPolicyBindingStrategy = strategyOfKind<MutatingAdmissionPolicyBinding>({
  generation: "spec",
  requiresRevision: true,
  setDefaults: (binding) => setMatchResourcesDefaults(binding.spec?.matchResources),
  validate: (binding) => mutatingBindingErrors(binding),
  validateUpdate: (next) => mutatingBindingErrors(next),
});

function mutatingBindingErrors(binding: MutatingAdmissionPolicyBinding): FieldError[] {
  const errors: FieldError[] = [];
  checkBinding(binding.spec, errors);
  return errors;
}

function checkBinding(
  spec: MutatingAdmissionPolicyBinding["spec"] | ValidatingAdmissionPolicyBinding["spec"],
  errors: FieldError[],
): void {
  if (!spec?.policyName) errors.push(required("spec.policyName"));
  else checkDnsSubdomain(spec.policyName, "spec.policyName", errors);
  checkMatchResources(spec?.matchResources, "spec.matchResources", errors);
  checkParamRef(spec?.paramRef, "spec.paramRef", errors);
}

function checkParamRef(reference: ParamRef | undefined, path: string, errors: FieldError[]): void {
  if (reference === undefined) return;
  const { name, selector } = reference;
  if (name && selector !== undefined) {
    const detail = "name and selector are mutually exclusive";
    errors.push(forbidden(`${path}.name`, detail), forbidden(`${path}.selector`, detail));
  } else if (!name && selector === undefined) {
    errors.push(required(path, "one of name or selector must be specified"));
  }
  if (name) checkDnsSubdomain(name, `${path}.name`, errors);
  checkLabelSelector(selector, `${path}.selector`, errors);
  checkOneOf(reference.parameterNotFoundAction, ["Allow", "Deny"], `${path}.parameterNotFoundAction`, errors, true);
}

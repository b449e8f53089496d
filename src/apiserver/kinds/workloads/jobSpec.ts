import type { JobSpec, PodFailurePolicyRule } from "../../../model/kubernetes.generated.ts";
import {
  duplicate,
  type FieldError,
  invalid,
  notSupported,
  required,
  tooMany,
} from "../../../model/objects/fieldError.ts";
import { checkNonNegative, checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkQualifiedName } from "../checks/nameChecks.ts";
import { checkPodTemplate, checkTemplateMatchesSelector } from "../pods/podTemplate.ts";

const indexedParallelismMax = 100_000;
/**
 * With more indexes than this, each with its own retries, the status would be too large unless maxFailedIndexes is set.
 */
const indexesSoftMax = 100_000;
const failedIndexesMaxForMany = 10_000;

/** `needsSelector` is false for the template of a CronJob: the selector is generated later. */
export function checkJobSpec(spec: JobSpec, path: string, errors: FieldError[], needsSelector = true): void {
  if (needsSelector) {
    if (spec.selector === undefined) errors.push(required(`${path}.selector`));
    else {
      const before = errors.length;
      checkLabelSelector(spec.selector, `${path}.selector`, errors);
      if (spec.template !== undefined) {
        // An invalid selector matches nothing, and is reported itself.
        if (errors.length === before)
          checkTemplateMatchesSelector(spec.template, spec.selector, `${path}.template`, errors);
      }
    }
  }
  for (const field of [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
  ] as const) {
    checkNonNegative(spec[field], `${path}.${field}`, errors);
  }
  if (spec.maxFailedIndexes !== undefined && spec.backoffLimitPerIndex === undefined) {
    errors.push(required(`${path}.backoffLimitPerIndex`, "when maxFailedIndexes is specified"));
  }
  if (spec.managedBy !== undefined) {
    const at = `${path}.managedBy`;
    if (checkQualifiedName(spec.managedBy, at, errors) && !spec.managedBy.includes("/")) {
      errors.push(invalid(at, spec.managedBy, 'must be a domain-prefixed path (such as "acme.io/foo")'));
    }
  }
  checkCompletionMode(spec, path, errors);
  checkPodFailurePolicy(spec, path, errors);
  checkSuccessPolicy(spec, path, errors);
  const replacements = spec.podFailurePolicy === undefined ? ["Failed", "TerminatingOrFailed"] : ["Failed"];
  checkOneOf(spec.podReplacementPolicy, replacements, `${path}.podReplacementPolicy`, errors);
  if (spec.template === undefined) {
    errors.push(required(`${path}.template`));
    return;
  }
  checkPodTemplate(spec.template, `${path}.template`, errors);
  const policy = spec.template.spec?.restartPolicy ?? "";
  const policyPath = `${path}.template.spec.restartPolicy`;
  if (policy === "" || policy === "Always") errors.push(required(policyPath, 'valid values: "OnFailure", "Never"'));
  else if (policy !== "OnFailure" && policy !== "Never") {
    errors.push(notSupported(policyPath, policy, ["OnFailure", "Never"]));
  } else if (spec.podFailurePolicy !== undefined && policy !== "Never") {
    errors.push(invalid(policyPath, policy, 'only "Never" is supported when podFailurePolicy is specified'));
  }
}

function checkCompletionMode(spec: JobSpec, path: string, errors: FieldError[]): void {
  const { completionMode, completions, parallelism = 0, maxFailedIndexes } = spec;
  checkOneOf(completionMode, ["NonIndexed", "Indexed"], `${path}.completionMode`, errors);
  if (completionMode === "Indexed") {
    if (completions === undefined) errors.push(required(`${path}.completions`, "when completion mode is Indexed"));
    if (parallelism > indexedParallelismMax) {
      const detail = `must be less than or equal to ${indexedParallelismMax} when completion mode is Indexed`;
      errors.push(invalid(`${path}.parallelism`, parallelism, detail));
    }
    if (completions !== undefined && maxFailedIndexes !== undefined && maxFailedIndexes > completions) {
      const detail = "must be less than or equal to completions";
      errors.push(invalid(`${path}.maxFailedIndexes`, maxFailedIndexes, detail));
    }
    if (completions !== undefined && completions > indexesSoftMax && spec.backoffLimitPerIndex !== undefined) {
      if (maxFailedIndexes === undefined) {
        const detail = `must be specified when completions is above ${indexesSoftMax}`;
        errors.push(required(`${path}.maxFailedIndexes`, detail));
      } else if (maxFailedIndexes > failedIndexesMaxForMany) {
        const detail = `must be less than or equal to ${failedIndexesMaxForMany} when completions are above ${indexesSoftMax} and used with backoff limit per index`;
        errors.push(invalid(`${path}.maxFailedIndexes`, maxFailedIndexes, detail));
      }
    }
    return;
  }
  const detail = "requires indexed completion mode";
  for (const field of ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] as const) {
    if (spec[field] !== undefined) errors.push(invalid(`${path}.${field}`, spec[field], detail));
  }
}

function checkPodFailurePolicy(spec: JobSpec, path: string, errors: FieldError[]): void {
  const rules = spec.podFailurePolicy?.rules ?? [];
  const at = `${path}.podFailurePolicy.rules`;
  if (rules.length > 20) errors.push(tooMany(at, rules.length, 20));
  for (const [i, rule] of rules.entries()) checkFailureRule(rule, spec, `${at}[${i}]`, errors);
}

function checkFailureRule(rule: PodFailurePolicyRule, spec: JobSpec, path: string, errors: FieldError[]): void {
  const actions = ["Count", "FailIndex", "FailJob", "Ignore"];
  if (!rule.action) {
    errors.push(required(`${path}.action`, `valid values: ${JSON.stringify(actions).replaceAll(",", " ")}`));
  } else checkOneOf(rule.action, actions, `${path}.action`, errors);
  if (rule.action === "FailIndex" && spec.backoffLimitPerIndex === undefined) {
    errors.push(invalid(`${path}.action`, rule.action, "requires the backoffLimitPerIndex to be set"));
  }
  const conditions = rule.onPodConditions ?? [];
  if (rule.onExitCodes !== undefined && conditions.length > 0) {
    const detail = "specifying both OnExitCodes and OnPodConditions is not supported";
    errors.push(invalid(path, rule, detail));
  }
  if (rule.onExitCodes === undefined && conditions.length === 0) {
    const detail = "specifying one of OnExitCodes and OnPodConditions is required";
    errors.push(invalid(path, rule, detail));
  }
  if (conditions.length > 20) errors.push(tooMany(`${path}.onPodConditions`, conditions.length, 20));
  for (const [i, pattern] of conditions.entries()) {
    checkQualifiedName(pattern.type, `${path}.onPodConditions[${i}].type`, errors);
    checkOneOf(pattern.status, ["False", "True", "Unknown"], `${path}.onPodConditions[${i}].status`, errors, true);
  }
  if (rule.onExitCodes === undefined) return;
  const { operator, containerName, values = [] } = rule.onExitCodes;
  const at = `${path}.onExitCodes`;
  checkOneOf(operator, ["In", "NotIn"], `${at}.operator`, errors, true);
  const { containers = [], initContainers = [] } = spec.template?.spec ?? {};
  if (containerName !== undefined && ![...containers, ...initContainers].some(({ name }) => name === containerName)) {
    const detail = "must be one of the container or initContainer names in the pod template";
    errors.push(invalid(`${at}.containerName`, containerName, detail));
  }
  if (values.length === 0) errors.push(invalid(`${at}.values`, values, "at least one value is required"));
  if (values.length > 255) errors.push(tooMany(`${at}.values`, values.length, 255));
  for (const [i, value] of values.entries()) {
    if (operator === "In" && value === 0) {
      errors.push(invalid(`${at}.values[${i}]`, value, "must not be 0 for the In operator"));
    }
    if (values.slice(0, i).includes(value)) errors.push(duplicate(`${at}.values[${i}]`, value));
  }
  if (values.some((value, i) => i > 0 && value < (values[i - 1] ?? value))) {
    errors.push(invalid(`${at}.values`, values, "must be ordered"));
  }
}

function checkSuccessPolicy(spec: JobSpec, path: string, errors: FieldError[]): void {
  if (spec.successPolicy === undefined) return;
  const at = `${path}.successPolicy.rules`;
  const rules = spec.successPolicy.rules ?? [];
  if (rules.length === 0) {
    errors.push(required(at, "at least one rules must be specified when the successPolicy is specified"));
  }
  if (rules.length > 20) errors.push(tooMany(at, rules.length, 20));
  for (const [i, rule] of rules.entries()) {
    const { succeededCount, succeededIndexes } = rule;
    if (succeededCount === undefined && succeededIndexes === undefined) {
      const detail = "at least one of succeededCount or succeededIndexes must be specified";
      errors.push(required(`${at}[${i}]`, detail));
    }
    let count = spec.completions ?? 0;
    if (succeededIndexes !== undefined) {
      const parsed = countIndexes(succeededIndexes, spec.completions ?? 0);
      if (typeof parsed === "string") {
        const detail = `error parsing succeededIndexes: ${parsed}`;
        errors.push(invalid(`${at}[${i}].succeededIndexes`, succeededIndexes, detail));
      } else count = parsed;
    }
    if (succeededCount !== undefined) {
      checkNonNegative(succeededCount, `${at}[${i}].succeededCount`, errors);
      if (succeededCount > count) {
        const what = succeededIndexes === undefined ? "completions" : "indexes in the specified succeededIndexes field";
        const detail = `must be less than or equal to ${count} (the number of specified ${what})`;
        errors.push(invalid(`${at}[${i}].succeededCount`, succeededCount, detail));
      }
    }
  }
}

/** The number of indexes in a text such as `0,2-4`, or an error message. */
export function countIndexes(text: string, completions: number): number | string {
  let count = 0;
  let last = -1;
  for (const part of text.split(",")) {
    const match = /^([0-9]+)(?:-([0-9]+))?$/.exec(part);
    if (match === null) return `cannot convert string to integer for index: ${JSON.stringify(part)}`;
    const first = Number(match[1]);
    const end = match[2] === undefined ? first : Number(match[2]);
    if (first >= completions || end >= completions) return `too large index: ${JSON.stringify(part)}`;
    if (first <= last || end < first) return `non-increasing order, previous: ${last}, current: ${first}`;
    count += end - first + 1;
    last = end;
  }
  return count;
}

/** Match rules, which admission webhooks and admission policies share. */

import type {
  MatchCondition,
  MatchResources,
  NamedRuleWithOperations,
  ParamKind,
  Variable,
} from "../../../model/kubernetes.generated.ts";
import { duplicate, type FieldError, invalid, required, tooMany } from "../../../model/objects/fieldError.ts";
import { cIdentifierErrors } from "../../../model/objects/names.ts";
import { checkOneOf } from "../checks/fieldChecks.ts";
import { checkLabelSelector } from "../checks/labelChecks.ts";
import { checkQualifiedName } from "../checks/nameChecks.ts";
import { repeats } from "../checks/repeats.ts";
import { type ExpressionScope, results } from "./policyExpressions.ts";

const operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const conditionsMax = 64;

export function setRuleDefaults(rule: { scope?: string }): void {
  rule.scope ??= "*";
}

export function setMatchResourcesDefaults(match: MatchResources | undefined): void {
  if (match === undefined) return;
  match.matchPolicy ??= "Equivalent";
  match.namespaceSelector ??= {};
  match.objectSelector ??= {};
  for (const rule of [...(match.resourceRules ?? []), ...(match.excludeResourceRules ?? [])]) setRuleDefaults(rule);
}

export function checkRule(rule: NamedRuleWithOperations, path: string, errors: FieldError[]): void {
  const groups = rule.apiGroups ?? [];
  const versions = rule.apiVersions ?? [];
  const resources = rule.resources ?? [];
  const verbs = rule.operations ?? [];
  for (const [field, list] of [
    ["apiGroups", groups],
    ["apiVersions", versions],
    ["resources", resources],
    ["operations", verbs],
  ] as const) {
    if (list.length === 0) errors.push(required(`${path}.${field}`));
    if (list.length > 1 && list.includes("*") && field !== "resources") {
      errors.push(invalid(`${path}.${field}`, list, "if '*' is present, must not specify other values"));
    }
  }
  for (const [i, version] of versions.entries()) if (version === "") errors.push(required(`${path}.apiVersions[${i}]`));
  for (const [i, resource] of resources.entries()) {
    if (resource === "") errors.push(required(`${path}.resources[${i}]`));
    if (resource === "*/*" && resources.length > 1) {
      const detail = "if '*/*' is present, must not specify other resources";
      errors.push(invalid(`${path}.resources`, resources, detail));
    }
    if (resource === "*" && resources.some((other) => other !== "*" && !other.includes("/"))) {
      const detail = "if '*' is present, must not specify other resources without subresources";
      errors.push(invalid(`${path}.resources`, resources, detail));
    }
  }
  for (const [i, verb] of verbs.entries()) checkOneOf(verb, operations, `${path}.operations[${i}]`, errors);
  const isRepeatedName = repeats();
  for (const [i, name] of (rule.resourceNames ?? []).entries()) {
    if (isRepeatedName(name)) errors.push(duplicate(`${path}.resourceNames[${i}]`, name));
  }
  checkOneOf(rule.scope, ["*", "Cluster", "Namespaced"], `${path}.scope`, errors);
}

export function checkMatchConditions(
  conditions: readonly MatchCondition[] | undefined,
  scope: ExpressionScope,
  path: string,
  errors: FieldError[],
): void {
  const list = conditions ?? [];
  if (list.length > conditionsMax) errors.push(tooMany(path, list.length, conditionsMax));
  const isRepeated = repeats();
  for (const [i, condition] of list.entries()) {
    if (!condition.name) errors.push(required(`${path}[${i}].name`));
    else checkQualifiedName(condition.name, `${path}[${i}].name`, errors);
    if (isRepeated(condition.name)) {
      errors.push(duplicate(`${path}[${i}].name`, condition.name));
    }
    scope.check(condition.expression, `${path}[${i}].expression`, errors, results.bool);
  }
}

export function checkMatchResources(match: MatchResources | undefined, path: string, errors: FieldError[]): void {
  if (match === undefined) return;
  checkOneOf(match.matchPolicy, ["Equivalent", "Exact"], `${path}.matchPolicy`, errors);
  checkLabelSelector(match.namespaceSelector, `${path}.namespaceSelector`, errors);
  checkLabelSelector(match.objectSelector, `${path}.objectSelector`, errors);
  for (const field of ["resourceRules", "excludeResourceRules"] as const) {
    for (const [i, rule] of (match[field] ?? []).entries()) checkRule(rule, `${path}.${field}[${i}]`, errors);
  }
}

export function checkParamKind(kind: ParamKind | undefined, path: string, errors: FieldError[]): void {
  if (kind === undefined) return;
  if (!kind.apiVersion) errors.push(required(`${path}.apiVersion`));
  if (!kind.kind) errors.push(required(`${path}.kind`));
}

/** Checks the names of variables; the expressions are compiled with the scope of the policy. */
export function checkVariableNames(
  variables: readonly Variable[] | undefined,
  path: string,
  errors: FieldError[],
): void {
  for (const [i, variable] of (variables ?? []).entries()) {
    if (!variable.name) errors.push(required(`${path}[${i}].name`, "name is not specified"));
    else if (cIdentifierErrors(variable.name).length > 0) {
      errors.push(invalid(`${path}[${i}].name`, variable.name, "name is not a valid CEL identifier"));
    }
  }
}

import { type FieldError, invalid, notSupported, required } from "../../model/objects/fieldError.ts";
import { equalJson, isObject } from "../../model/objects/json.ts";
import { validateLabelSelector } from "../../model/objects/labelSelector.ts";
import { dnsSubdomainErrors, pathSegmentErrors } from "../../model/objects/names.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { append } from "../../model/values/append.ts";
import type { Strategy } from "../strategy.ts";
import { rbacGroup } from "./access.ts";
import { checkBindingWrite, checkRoleWrite } from "./escalation.ts";
import { strings } from "./policyRule.ts";
import type { RbacAuthorizer } from "./rbac.ts";

/**
 * Strategies of roles and bindings. They contain the escalation check, because create, replace, patch and apply all
 * pass through here.
 */
export function rbacStrategies(rbac: RbacAuthorizer): Record<RbacKind, Strategy> {
  const role = (isNamespaced: boolean): Strategy => ({
    ...general,
    prepareForCreate: (object, { user }) => checkRoleWrite(rbac, user, object),
    prepareForUpdate: (next, old, { user }) => checkRoleWrite(rbac, user, next, old),
    validate: (object) => validateRole(object, isNamespaced),
    validateUpdate: (next) => validateRole(next, isNamespaced),
  });
  const binding = (isNamespaced: boolean): Strategy => ({
    ...general,
    setDefaults: setBindingDefaults,
    prepareForCreate: (object, context) => checkBindingWrite(rbac, context, object),
    prepareForUpdate: (next, old, context) => checkBindingWrite(rbac, context, next, old),
    validate: (object) => validateBinding(object, isNamespaced),
    validateUpdate: (next, old) => {
      const errors = validateBinding(next, isNamespaced);
      if (!equalJson(next["roleRef"], old["roleRef"])) {
        errors.push(invalid("roleRef", next["roleRef"], "cannot change roleRef"));
      }
      return errors;
    },
  });
  return {
    Role: role(true),
    ClusterRole: role(false),
    RoleBinding: binding(true),
    ClusterRoleBinding: binding(false),
  };
}

export type RbacKind = "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding";

const general = { name: "pathSegment", generation: "none", createOnUpdate: true } as const;

function setBindingDefaults(object: KubeObject): void {
  const roleRef = object["roleRef"];
  if (isObject(roleRef)) fillGroup(roleRef);
  const subjects = object["subjects"];
  for (const subject of Array.isArray(subjects) ? subjects : []) {
    if (isObject(subject) && (subject["kind"] === "User" || subject["kind"] === "Group")) fillGroup(subject);
  }
}

function fillGroup(reference: Record<string, unknown>): void {
  if ((reference["apiGroup"] ?? "") === "") reference["apiGroup"] = rbacGroup;
}

function validateRole(object: KubeObject, isNamespaced: boolean): FieldError[] {
  const errors: FieldError[] = [];
  const rules = object["rules"];
  for (const [index, rule] of (Array.isArray(rules) ? rules : []).entries()) {
    if (isObject(rule)) validateRule(rule, `rules[${index}]`, isNamespaced, errors);
  }
  const aggregation = object["aggregationRule"];
  if (!isNamespaced && isObject(aggregation)) validateAggregation(aggregation, errors);
  return errors;
}

function validateRule(rule: Record<string, unknown>, path: string, isNamespaced: boolean, errors: FieldError[]): void {
  const has = (field: string): boolean => strings(rule[field]).length > 0;
  if (!has("verbs")) errors.push(required(`${path}.verbs`, "verbs must contain at least one value"));
  if (has("nonResourceURLs")) {
    const field = `${path}.nonResourceURLs`;
    const urls = rule["nonResourceURLs"];
    if (isNamespaced) errors.push(invalid(field, urls, "namespaced rules cannot apply to non-resource URLs"));
    if (has("apiGroups") || has("resources") || has("resourceNames")) {
      errors.push(invalid(field, urls, "rules cannot apply to both regular resources and non-resource URLs"));
    }
    return;
  }
  if (!has("apiGroups")) {
    errors.push(required(`${path}.apiGroups`, "resource rules must supply at least one api group"));
  }
  if (!has("resources")) {
    errors.push(required(`${path}.resources`, "resource rules must supply at least one resource"));
  }
}

function validateAggregation(aggregation: Record<string, unknown>, errors: FieldError[]): void {
  const path = "aggregationRule.clusterRoleSelectors";
  const selectors = Array.isArray(aggregation["clusterRoleSelectors"]) ? aggregation["clusterRoleSelectors"] : [];
  if (selectors.length === 0) {
    errors.push(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"));
  }
  for (const [index, selector] of selectors.entries()) {
    append(errors, validateLabelSelector(selector, `${path}[${index}]`));
  }
}

function validateBinding(object: KubeObject, isNamespaced: boolean): FieldError[] {
  const errors: FieldError[] = [];
  const roleRef = isObject(object["roleRef"]) ? object["roleRef"] : {};
  if (roleRef["apiGroup"] !== rbacGroup) {
    errors.push(notSupported("roleRef.apiGroup", roleRef["apiGroup"] ?? "", [rbacGroup]));
  }
  const kinds = isNamespaced ? ["Role", "ClusterRole"] : ["ClusterRole"];
  const kind = String(roleRef["kind"] ?? "");
  if (!kinds.includes(kind)) errors.push(notSupported("roleRef.kind", kind, kinds));
  const name = String(roleRef["name"] ?? "");
  if (name === "") errors.push(required("roleRef.name"));
  else for (const message of pathSegmentErrors(name)) errors.push(invalid("roleRef.name", name, message));
  const subjects = object["subjects"];
  for (const [index, subject] of (Array.isArray(subjects) ? subjects : []).entries()) {
    if (isObject(subject)) validateSubject(subject, `subjects[${index}]`, isNamespaced, errors);
  }
  return errors;
}

function validateSubject(
  subject: Record<string, unknown>,
  path: string,
  isNamespaced: boolean,
  errors: FieldError[],
): void {
  const name = String(subject["name"] ?? "");
  const group = subject["apiGroup"] ?? "";
  if (name === "") errors.push(required(`${path}.name`));
  switch (subject["kind"]) {
    case "ServiceAccount":
      if (name !== "") {
        for (const message of dnsSubdomainErrors(name)) errors.push(invalid(`${path}.name`, name, message));
      }
      if (group !== "") errors.push(notSupported(`${path}.apiGroup`, group, [""]));
      if (!isNamespaced && (subject["namespace"] ?? "") === "") errors.push(required(`${path}.namespace`));
      return;
    case "User":
    case "Group":
      if (group !== rbacGroup) errors.push(notSupported(`${path}.apiGroup`, group, [rbacGroup]));
      return;
    default:
      errors.push(notSupported(`${path}.kind`, subject["kind"] ?? "", ["ServiceAccount", "User", "Group"]));
  }
}

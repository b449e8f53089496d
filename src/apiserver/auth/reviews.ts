import { type FieldError, invalid } from "../../model/objects/fieldError.ts";
import { parseFieldSelector } from "../../model/objects/fieldSelector.ts";
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, invalidObject } from "../../model/objects/status.ts";
import type { UserInfo } from "../strategy.ts";
import { type Access, type Authorizer, resourceAccess } from "./access.ts";
import { authenticateToken, type TokenSources } from "./authenticate.ts";
import { strings } from "./policyRule.ts";
import type { RbacAuthorizer } from "./rbac.ts";

/**
 * Reviews: the identity of the caller, the access of a subject, the validity of a token. A review is answered at
 * creation and never stored. The response is the review with a status.
 */
export interface ReviewContext {
  readonly user: UserInfo;
  /** Namespace of the URL; empty for cluster-scoped kinds. */
  readonly namespace: string;
  readonly nowMs: number;
  readonly rbac: RbacAuthorizer;
  readonly authorizer: Authorizer;
  readonly sources: TokenSources;
}

export type Review = (question: KubeObject, context: ReviewContext) => KubeObject;

/** By kind: the groups are authentication.k8s.io and authorization.k8s.io. */
export const reviews: Readonly<Record<ReviewKind, Review>> = {
  TokenReview: reviewToken,
  SelfSubjectReview: (question, { user }) => ({ ...question, status: { userInfo: userInfoOf(user) } }),
  SubjectAccessReview: reviewAccess,
  SelfSubjectAccessReview: reviewOwnAccess,
  LocalSubjectAccessReview: reviewLocalAccess,
  SelfSubjectRulesReview: reviewOwnRules,
};

export type ReviewKind =
  | "TokenReview"
  | "SelfSubjectReview"
  | "SubjectAccessReview"
  | "SelfSubjectAccessReview"
  | "LocalSubjectAccessReview"
  | "SelfSubjectRulesReview";

const authorizationGroup = "authorization.k8s.io";

function reviewToken(question: KubeObject, { sources, nowMs }: ReviewContext): KubeObject {
  const spec = specOf(question);
  const token = spec["token"];
  if (typeof token !== "string" || token === "")
    throw badRequest("token is required for TokenReview in authentication");
  const asked = strings(spec["audiences"]);
  const found = authenticateToken(token, asked.length === 0 ? [sources.tokens.issuer] : asked, sources, nowMs);
  const status =
    "problem" in found
      ? { authenticated: false, user: {}, error: found.problem }
      : { authenticated: true, user: userInfoOf(found.user), audiences: found.audiences };
  return { ...question, status };
}

function reviewAccess(question: KubeObject, { authorizer }: ReviewContext): KubeObject {
  const spec = specOf(question);
  const errors = [...attributeErrors(spec), ...subjectErrors(spec), ...metadataErrors(question, false)];
  refuse("SubjectAccessReview", errors);
  return answerAccess(question, authorizer, subjectOf(spec), accessOf(spec));
}

function reviewOwnAccess(question: KubeObject, { authorizer, user }: ReviewContext): KubeObject {
  const spec = specOf(question);
  refuse("SelfSubjectAccessReview", [...attributeErrors(spec), ...metadataErrors(question, false)]);
  return answerAccess(question, authorizer, user, accessOf(spec));
}

function reviewLocalAccess(question: KubeObject, { authorizer, namespace }: ReviewContext): KubeObject {
  const spec = specOf(question);
  const said = question.metadata?.namespace ?? "";
  if (said !== "" && said !== namespace) {
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
  const errors = [...attributeErrors(spec), ...subjectErrors(spec), ...metadataErrors(question, true)];
  const attributes = spec["resourceAttributes"];
  if (isObject(attributes) && attributes["namespace"] !== namespace) {
    const detail = "must match metadata.namespace";
    errors.push(invalid("spec.resourceAttributes.namespace", attributes["namespace"] ?? "", detail));
  }
  if (isObject(spec["nonResourceAttributes"])) {
    const detail = "disallowed on this kind of request";
    errors.push(invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], detail));
  }
  refuse("LocalSubjectAccessReview", errors);
  return answerAccess(question, authorizer, subjectOf(spec), accessOf(spec));
}

function reviewOwnRules(question: KubeObject, { rbac, user }: ReviewContext): KubeObject {
  const namespace = specOf(question)["namespace"];
  if (typeof namespace !== "string" || namespace === "") throw badRequest("no namespace on request");
  const { rules, problems } = rbac.rulesFor(user, namespace);
  const resourceRules = rules
    .filter((rule) => rule.resources.length > 0)
    .map(({ verbs, apiGroups, resources, resourceNames }) => ({
      verbs,
      apiGroups,
      resources,
      ...(resourceNames.length === 0 ? {} : { resourceNames }),
    }));
  const nonResourceRules = rules
    .filter((rule) => rule.nonResourceURLs.length > 0)
    .map(({ verbs, nonResourceURLs }) => ({ verbs, nonResourceURLs }));
  // Rules of missing roles are not in the list, so it is marked as incomplete.
  const incomplete = problems.length > 0;
  const status = {
    resourceRules,
    nonResourceRules,
    incomplete,
    ...(incomplete ? { evaluationError: problems.join(", ") } : {}),
  };
  return { ...question, status };
}

function answerAccess(question: KubeObject, authorizer: Authorizer, user: UserInfo, access: Access): KubeObject {
  const { allowed, reason } = authorizer.authorize(user, access);
  return { ...question, status: { allowed, ...(reason === "" ? {} : { reason }) } };
}

function accessOf(spec: Record<string, unknown>): Access {
  const path = spec["nonResourceAttributes"];
  if (isObject(path)) return { verb: text(path["verb"]), path: text(path["path"]) };
  const asked = isObject(spec["resourceAttributes"]) ? spec["resourceAttributes"] : {};
  return resourceAccess({
    verb: text(asked["verb"]),
    group: text(asked["group"]),
    resource: text(asked["resource"]),
    subresource: text(asked["subresource"]),
    namespace: text(asked["namespace"]),
    name: text(asked["name"]),
    fields: requiredFields(asked["fieldSelector"]),
  });
}

/** Fields that the selector requires to have one value. */
function requiredFields(selector: unknown): Record<string, string> | undefined {
  if (!isObject(selector)) return undefined;
  const fields: Record<string, string> = {};
  const raw = text(selector["rawSelector"]);
  for (const { field, operator, value } of raw === "" ? [] : parseFieldSelector(raw)) {
    if (operator === "=") fields[field] ??= value;
  }
  const listed = selector["requirements"];
  for (const requirement of Array.isArray(listed) ? listed.filter(isObject) : []) {
    const [value, ...others] = strings(requirement["values"]);
    if (requirement["operator"] !== "In" || value === undefined || others.length > 0) continue;
    fields[text(requirement["key"])] ??= value;
  }
  return fields;
}

/** The subject as given: groups that authentication would add are not added here. */
function subjectOf(spec: Record<string, unknown>): UserInfo {
  return { username: text(spec["user"]), groups: strings(spec["groups"]) };
}

function attributeErrors(spec: Record<string, unknown>): FieldError[] {
  const hasResource = isObject(spec["resourceAttributes"]);
  const hasPath = isObject(spec["nonResourceAttributes"]);
  if (hasResource && hasPath) {
    const detail = "cannot be specified in combination with resourceAttributes";
    return [invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], detail)];
  }
  if (hasResource || hasPath) return [];
  const detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
  return [invalid("spec.resourceAttributes", null, detail)];
}

function subjectErrors(spec: Record<string, unknown>): FieldError[] {
  if (text(spec["user"]) !== "" || strings(spec["groups"]).length > 0) return [];
  return [invalid("spec.user", text(spec["user"]), "at least one of user or group must be specified")];
}

/** A review is never stored; only the namespaced kind has a namespace. */
function metadataErrors(question: KubeObject, isNamespaced: boolean): FieldError[] {
  const metadata = question.metadata ?? {};
  for (const [key, value] of Object.entries(metadata)) {
    if (key === "managedFields" || (key === "namespace" && isNamespaced)) continue;
    const isEmpty = value === null || value === undefined || value === "";
    if (!isEmpty) {
      const detail = isNamespaced ? "must be empty except for namespace" : "must be empty";
      return [invalid("metadata", metadata, detail)];
    }
  }
  return [];
}

function refuse(kind: ReviewKind, errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidObject({ group: authorizationGroup, kind }, "", errors);
}

function userInfoOf(user: UserInfo): Record<string, unknown> {
  return {
    username: user.username,
    ...(user.uid === undefined ? {} : { uid: user.uid }),
    groups: user.groups,
    ...(user.extra === undefined ? {} : { extra: user.extra }),
  };
}

function specOf(question: KubeObject): Record<string, unknown> {
  return isObject(question["spec"]) ? question["spec"] : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

import { forbiddenError, type StatusError } from "../../model/objects/status.ts";
import type { UserInfo } from "../strategy.ts";

/** An access to a resource. Empty namespace: the cluster, or all namespaces. */
export interface ResourceAccess {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  /** Empty for collections, unless a field selector requires one `metadata.name`. */
  readonly name: string;
  /** Field values that a field selector requires; only for list, watch and deletecollection. */
  readonly fields?: Readonly<Record<string, string>> | undefined;
  readonly path?: undefined;
}

/** An access to a non-resource path: `get` of `/version`. */
export interface PathAccess {
  /** The HTTP method in lower case. */
  readonly verb: string;
  readonly path: string;
}

export type Access = ResourceAccess | PathAccess;

export interface Verdict {
  readonly allowed: boolean;
  /** The binding that allows the access, or the roles that were not found. Often empty for a denial. */
  readonly reason: string;
}

export interface Authorizer {
  authorize(user: UserInfo, access: Access): Verdict;
}

export const mastersGroup = "system:masters";
export const rbacGroup = "rbac.authorization.k8s.io";

/** An access to a resource, with empty strings for what is left out. */
export function resourceAccess(access: Partial<Omit<ResourceAccess, "path">> & { verb: string }): ResourceAccess {
  return { group: "", resource: "", subresource: "", namespace: "", name: "", ...access };
}

/** The Forbidden error: user, verb, resource and namespace, in upstream's words. */
export function forbiddenAccess(user: UserInfo, access: Access, reason: string): StatusError {
  const why = `User ${JSON.stringify(user.username)} cannot ${describe(access)}${reason === "" ? "" : `: ${reason}`}`;
  return access.path === undefined
    ? forbiddenError({ group: access.group, resource: access.resource }, access.name, why)
    : forbiddenError({ group: "", resource: "" }, "", why);
}

/** Throws Forbidden unless the access is allowed. */
export function demandAccess(authorizer: Authorizer, user: UserInfo, access: Access): void {
  const verdict = authorizer.authorize(user, access);
  if (!verdict.allowed) throw forbiddenAccess(user, access, verdict.reason);
}

function describe(access: Access): string {
  if (access.path !== undefined) return `${access.verb} path ${JSON.stringify(access.path)}`;
  const resource = access.subresource === "" ? access.resource : `${access.resource}/${access.subresource}`;
  const where =
    access.namespace === "" ? "at the cluster scope" : `in the namespace ${JSON.stringify(access.namespace)}`;
  return `${access.verb} resource ${JSON.stringify(resource)} in API group ${JSON.stringify(access.group)} ${where}`;
}

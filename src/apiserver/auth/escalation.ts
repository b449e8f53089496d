import { equalJson, isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { failure, forbiddenError, type GroupResource } from "../../model/objects/status.ts";
import type { UserInfo, WriteContext } from "../strategy.ts";
import { mastersGroup, rbacGroup, resourceAccess } from "./access.ts";
import { compactRules, describeRule, missingRules, type PolicyRule, quotedList, readRules } from "./policyRule.ts";
import { fullAuthority, joinProblems, missingRole, type RbacAuthorizer } from "./rbac.ts";

/**
 * Prevents privilege escalation: no user grants rights that it does not hold. Writing a role requires its rules, or the
 * verb `escalate`; writing a binding requires the rules of its role, or the verb `bind`. `system:masters` may do both.
 */
export function checkRoleWrite(rbac: RbacAuthorizer, user: UserInfo, next: KubeObject, old?: KubeObject): void {
  if (user.groups.includes(mastersGroup)) return;
  const isClusterRole = next.kind === "ClusterRole";
  const namespace = isClusterRole ? "" : (next.metadata.namespace ?? "");
  const name = next.metadata.name ?? "";
  const resource: GroupResource = { group: rbacGroup, resource: isClusterRole ? "clusterroles" : "roles" };
  if (old !== undefined && isOnlyForCollection(next, old)) return;

  const verdict = rbac.authorize(user, resourceAccess({ verb: "escalate", ...resource, namespace, name }));
  if (verdict.allowed) return;

  const problem = missingRights(rbac, user, namespace, readRules(next["rules"]));
  if (problem !== undefined) throw forbiddenError(resource, name, problem);

  // An aggregating role gets the rules of roles that are labelled for it later: writing it requires full rights.
  const aggregates = isObject(next["aggregationRule"]) || isObject(old?.["aggregationRule"]);
  if (aggregates && missingRights(rbac, user, namespace, fullAuthority) !== undefined) {
    throw forbiddenError(resource, name, "must have cluster-admin privileges to use the aggregationRule");
  }
}

/**
 * The role's rules are read from the store at the time of the write: the authorizer's rules may be older by one sync of
 * the disk.
 */
export function checkBindingWrite(
  rbac: RbacAuthorizer,
  context: Pick<WriteContext, "user" | "get">,
  next: KubeObject,
  old?: KubeObject,
): void {
  const { user } = context;
  if (user.groups.includes(mastersGroup)) return;
  const isCluster = next.kind === "ClusterRoleBinding";
  const namespace = isCluster ? "" : (next.metadata.namespace ?? "");
  const name = next.metadata.name ?? "";
  const resource: GroupResource = { group: rbacGroup, resource: isCluster ? "clusterrolebindings" : "rolebindings" };
  if (old !== undefined && isOnlyForCollection(next, old)) return;
  const roleRef = isObject(next["roleRef"]) ? next["roleRef"] : {};
  const roleKind = String(roleRef["kind"] ?? "");
  const roleName = String(roleRef["name"] ?? "");
  const bound = roleKind === "ClusterRole" ? "clusterroles" : roleKind === "Role" ? "roles" : undefined;
  // An invalid reference grants nothing; validation reports it.
  if (bound === undefined || roleName === "") return;

  const mayBind = rbac.authorize(
    user,
    resourceAccess({ verb: "bind", group: rbacGroup, resource: bound, namespace, name: roleName }),
  );
  if (mayBind.allowed) return;

  const role = context.get(`${rbacGroup}/${bound}`, bound === "roles" ? namespace : "", roleName);
  if (role === undefined) {
    throw failure(404, "NotFound", missingRole(roleKind, roleName), {
      name: roleName,
      group: rbacGroup,
      kind: roleKind.toLowerCase(),
    });
  }
  const problem = missingRights(rbac, user, namespace, readRules(role["rules"]));
  if (problem !== undefined) throw forbiddenError(resource, name, problem);
}

function missingRights(
  rbac: RbacAuthorizer,
  user: UserInfo,
  namespace: string,
  wanted: readonly PolicyRule[],
): string | undefined {
  const held = rbac.rulesFor(user, namespace);
  const missing = missingRules(held.rules, wanted);
  if (missing.length === 0) return undefined;
  const lines = [...new Set(compactRules(missing).map(describeRule))].sort();
  const who = `user ${JSON.stringify(user.username)} (groups=${quotedList(user.groups)})`;
  const text = `${who} is attempting to grant RBAC permissions not currently held:\n${lines.join("\n")}`;
  return held.problems.length === 0 ? text : `${text}; resolution errors: ${joinProblems(held.problems)}`;
}

/** An absent list and an empty one say the same. */

/**
 * Whether nothing changes but fields of garbage collection. Every other change is checked again, even where the rules
 * are unchanged: a label can make another role aggregate them.
 */
function isOnlyForCollection(next: KubeObject, old: KubeObject): boolean {
  return equalJson(withoutCollectionFields(next), withoutCollectionFields(old));
}

function withoutCollectionFields(object: KubeObject): unknown {
  const {
    ownerReferences: _,
    finalizers: __,
    managedFields: ___,
    resourceVersion: ____,
    ...metadata
  } = object.metadata;
  return { ...object, metadata };
}

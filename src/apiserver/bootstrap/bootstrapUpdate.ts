import { equalJson, isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { missingRules, readRules } from "../auth/policyRule.ts";
import { autoUpdateAnnotation } from "./bootstrapObjects.ts";

/**
 * What a start must change about a bootstrap object that is already there: a newer server's roles gain the rules they
 * lack, bindings their subjects, and the published authority follows a renewal. Nothing is taken away, since an
 * operator may have added it, except the right of every node to what is any node's. Undefined when there is nothing to
 * do, or the operator has forbidden it by annotation.
 */
export function bootstrapUpdate(found: KubeObject, wanted: KubeObject): KubeObject | undefined {
  if (found.metadata.annotations?.[autoUpdateAnnotation] === "false") return undefined;
  switch (wanted.kind) {
    case "Role":
    case "ClusterRole": {
      // An aggregating role's rules are put together from others; only its selector is ours.
      if (wanted["aggregationRule"] !== undefined) {
        if (equalJson(found["aggregationRule"], wanted["aggregationRule"])) return undefined;
        return { ...found, aggregationRule: wanted["aggregationRule"] };
      }
      const held = listOf(found["rules"]);
      const lacking = listOf(wanted["rules"]).filter(
        (rule) => missingRules(readRules(held), readRules([rule])).length > 0,
      );
      return lacking.length === 0 ? undefined : { ...found, rules: [...held, ...lacking] };
    }
    case "RoleBinding":
    case "ClusterRoleBinding": {
      // Another role under this name is the operator's choice, and a binding cannot change its role.
      if (!equalJson(found["roleRef"], wanted["roleRef"])) return undefined;
      const before = listOf(found["subjects"]);
      const held = wanted.metadata.name === "system:node" ? before.filter((one) => !isAllNodes(one)) : before;
      const lacking = listOf(wanted["subjects"]).filter((subject) => !held.some((one) => equalJson(one, subject)));
      if (lacking.length === 0 && held.length === before.length) return undefined;
      return { ...found, subjects: [...held, ...lacking] };
    }
    case "ConfigMap":
      return equalJson(found["data"], wanted["data"]) ? undefined : { ...found, data: wanted["data"] };
    default:
      return undefined;
  }
}

/** Servers without a node authorizer bound the role to all nodes. */
function isAllNodes(subject: unknown): boolean {
  return isObject(subject) && subject["kind"] === "Group" && subject["name"] === "system:nodes";
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

import { equalJson, isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { missingRules, readRules } from "../auth/policyRule.ts";
import { autoUpdateAnnotation } from "./bootstrapObjects.ts";

/**
 * The update of a bootstrap object that exists already: roles get missing rules, bindings missing subjects, and the
 * published CA certificate follows a renewal. The Service `kubernetes` and its endpoints get the address of this start.
 * Nothing is removed, since an operator may have added it, except the
 * binding of `system:node` to all nodes. Undefined when the object is up to date, or the operator has opted out by
 * annotation.
 */
export function bootstrapUpdate(found: KubeObject, wanted: KubeObject): KubeObject | undefined {
  if (found.metadata.annotations?.[autoUpdateAnnotation] === "false") return undefined;
  switch (wanted.kind) {
    case "Role":
    case "ClusterRole": {
      // The rules of an aggregating role come from other roles; only its selector is set here.
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
      // A binding with another role is the operator's choice, and a binding cannot change its role.
      if (!equalJson(found["roleRef"], wanted["roleRef"])) return undefined;
      const before = listOf(found["subjects"]);
      const held = wanted.metadata.name === "system:node" ? before.filter((one) => !isAllNodes(one)) : before;
      const lacking = listOf(wanted["subjects"]).filter((subject) => !held.some((one) => equalJson(one, subject)));
      if (lacking.length === 0 && held.length === before.length) return undefined;
      return { ...found, subjects: [...held, ...lacking] };
    }
    case "ConfigMap":
      return equalJson(found["data"], wanted["data"]) ? undefined : { ...found, data: wanted["data"] };
    case "Endpoints":
      return equalJson(found["subsets"], wanted["subsets"]) ? undefined : { ...found, subsets: wanted["subsets"] };
    case "EndpointSlice": {
      const { addressType, endpoints, ports } = wanted;
      const isSame = equalJson(found["endpoints"], endpoints) && equalJson(found["ports"], ports);
      return isSame ? undefined : { ...found, addressType, endpoints, ports };
    }
    case "Service":
      return withTargetPorts(found, wanted);
    default:
      return undefined;
  }
}

/** The server may listen on another port than at its last start. */
function withTargetPorts(found: KubeObject, wanted: KubeObject): KubeObject | undefined {
  const [port] = portsOf(wanted);
  const [before, ...rest] = portsOf(found);
  if (before === undefined || port === undefined || before["targetPort"] === port["targetPort"]) return undefined;
  const ports = [{ ...before, targetPort: port["targetPort"] }, ...rest];
  return { ...found, spec: { ...(found["spec"] as object), ports } };
}

function portsOf(service: KubeObject): Record<string, unknown>[] {
  return isObject(service["spec"]) ? (listOf(service["spec"]["ports"]) as Record<string, unknown>[]) : [];
}

/** Servers before the node authorizer bound the role to all nodes. */
function isAllNodes(subject: unknown): boolean {
  return isObject(subject) && subject["kind"] === "Group" && subject["name"] === "system:nodes";
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

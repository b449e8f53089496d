import { equalJson, isObject } from "../../model/json.ts";
import type { KubeObject } from "../../model/object.ts";
import { strings } from "./policyRule.ts";

/**
 * The rules that an aggregating ClusterRole should have: those of every other ClusterRole that its selectors pick, in
 * order of name, each once. Undefined when it aggregates nothing or has them already.
 */
export function aggregateRules(role: KubeObject, all: Iterable<KubeObject>): unknown[] | undefined {
  const aggregation = role["aggregationRule"];
  if (!isObject(aggregation)) return undefined;
  const listed = aggregation["clusterRoleSelectors"];
  const selectors = Array.isArray(listed) ? listed.filter(isObject) : [];
  const picked = [...all].filter(
    (other) =>
      other.metadata.name !== role.metadata.name &&
      selectors.some((selector) => selects(selector, other.metadata.labels ?? {})),
  );
  picked.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const rules: unknown[] = [];
  for (const other of picked) {
    for (const rule of Array.isArray(other["rules"]) ? other["rules"] : []) {
      if (!rules.some((known) => equalJson(known, rule))) rules.push(rule);
    }
  }
  return equalJson(role["rules"] ?? [], rules) ? undefined : rules;
}

/**
 * The new rules of every aggregating ClusterRole that lacks some, by name. One may gather another that gathers too, so
 * it takes as many rounds as the longest chain; roles that gather each other in a ring could turn forever, and are cut off.
 */
export function aggregateAll(all: readonly KubeObject[]): Map<string, unknown[]> {
  const roles = all.map((role) => ({ ...role }));
  const gathering = roles.filter((role) => isObject(role["aggregationRule"]));
  const changed = new Map<string, unknown[]>();
  for (let round = 0; round <= gathering.length; round++) {
    let isSettled = true;
    for (const role of gathering) {
      const rules = aggregateRules(role, roles);
      if (rules === undefined) continue;
      role["rules"] = rules;
      changed.set(role.metadata.name, rules);
      isSettled = false;
    }
    if (isSettled) break;
  }
  return changed;
}

/** A label selector; an empty one picks everything. */
function selects(selector: Record<string, unknown>, labels: Record<string, string>): boolean {
  const wanted = isObject(selector["matchLabels"]) ? selector["matchLabels"] : {};
  for (const key of Object.keys(wanted)) if (!Object.hasOwn(labels, key) || labels[key] !== wanted[key]) return false;
  const listed = selector["matchExpressions"];
  const expressions = Array.isArray(listed) ? listed.filter(isObject) : [];
  return expressions.every((expression) => {
    const key = String(expression["key"] ?? "");
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    const values = strings(expression["values"]);
    switch (expression["operator"]) {
      case "In":
        return value !== undefined && values.includes(value);
      case "NotIn":
        return value === undefined || !values.includes(value);
      case "Exists":
        return value !== undefined;
      case "DoesNotExist":
        return value === undefined;
      default:
        return false;
    }
  });
}

import { equalJson, isObject } from "../../model/objects/json.ts";
import { type LabelSelector, matchesLabels, selectorRequirements } from "../../model/objects/labelSelector.ts";
import type { KubeObject } from "../../model/objects/object.ts";

/**
 * The rules that an aggregating ClusterRole should have: those of every other ClusterRole that its selectors match, in
 * order of name, each once. Undefined when it aggregates nothing or has these rules already.
 */
export function aggregateRules(role: KubeObject, all: Iterable<KubeObject>): unknown[] | undefined {
  const aggregation = role["aggregationRule"];
  if (!isObject(aggregation)) return undefined;
  const listed = aggregation["clusterRoleSelectors"];
  const selectors = (Array.isArray(listed) ? listed.filter(isObject) : []).map((selector) =>
    selectorRequirements(selector as LabelSelector),
  );
  const picked = [...all].filter(
    (other) =>
      other.metadata.name !== role.metadata.name &&
      selectors.some((selector) => matchesLabels(selector, other.metadata.labels)),
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
 * The new rules of every aggregating ClusterRole whose rules are out of date, by name. An aggregating role may select
 * another one, so this takes as many rounds as the longest chain; a cycle of roles ends after a fixed number of rounds.
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

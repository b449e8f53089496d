import type { NamedRuleWithOperations, RuleWithOperations } from "../../model/kubernetes.generated.ts";
import type { ResourceType } from "../builtinResources.ts";
import type { Registry } from "../registry.ts";
import type { Resource } from "../resource.ts";
import type { AdmissionAttributes } from "./admission.ts";

type Rule = RuleWithOperations & Pick<NamedRuleWithOperations, "resourceNames">;

/** What rules are compared with: one endpoint and one operation. */
export interface RequestShape {
  readonly type: ResourceType;
  readonly subresource: string;
  readonly operation: AdmissionAttributes["operation"];
}

export function ruleMatches(rule: Rule, shape: RequestShape): boolean {
  const { type, subresource, operation } = shape;
  return (
    includes(rule.operations, operation) &&
    includes(rule.apiGroups, type.group) &&
    includes(rule.apiVersions, type.version) &&
    resourceMatches(rule.resources ?? [], type.plural, subresource) &&
    scopeMatches(rule.scope ?? "*", type)
  );
}

/**
 * The version of the resource that the rules match: the version of the request if they name it; else, with matchPolicy
 * Equivalent, the first other version of the same resource that they name.
 */
export function matchedVersion(
  rules: readonly Rule[],
  matchPolicy: string,
  shape: RequestShape,
  registry: Registry,
): Resource | undefined {
  const { type } = shape;
  const own = registry.find(type.group, type.version, type.plural);
  if (own === undefined) return undefined;
  if (rules.some((rule) => ruleMatches(rule, shape))) return own;
  if (matchPolicy === "Exact") return undefined;
  return registry
    .all()
    .find(
      (other) =>
        other.type.storageKey === type.storageKey &&
        other.type !== type &&
        rules.some((rule) => ruleMatches(rule, { ...shape, type: other.type })),
    );
}

function includes(listed: readonly string[] | undefined, word: string): boolean {
  return listed !== undefined && (listed.includes("*") || listed.includes(word));
}

// `pods`, `pods/status`, `pods/*`, `*` (everything but subresources), `*/scale`, `*/*`.
function resourceMatches(listed: readonly string[], plural: string, subresource: string): boolean {
  return listed.some((text) => {
    const slash = text.indexOf("/");
    const resource = slash < 0 ? text : text.slice(0, slash);
    const sub = slash < 0 ? "" : text.slice(slash + 1);
    if (resource !== "*" && resource !== plural) return false;
    return sub === "*" || sub === subresource;
  });
}

function scopeMatches(scope: string, type: ResourceType): boolean {
  if (scope === "Namespaced") return type.namespaced;
  return scope !== "Cluster" || !type.namespaced;
}

import type { NamedRuleWithOperations } from "../../model/kubernetes.generated.ts";
import type { ResourceType } from "../builtinResources.ts";
import type { Registry } from "../registry.ts";
import type { Resource } from "../resource.ts";
import type { AdmissionAttributes } from "./admission.ts";
import { matchedVersion, ruleMatches } from "./matchRules.ts";

/** What webhooks and policies have in common: rules that match requests. */
export interface Matcher {
  readonly rules: readonly NamedRuleWithOperations[];
  /** Rules for requests that are excluded again. */
  readonly excludes: readonly NamedRuleWithOperations[];
  readonly matchPolicy: string;
}

export interface Matched<Entry> {
  readonly entry: Entry;
  /** The version in which the webhook or policy gets the object. */
  readonly resource: Resource;
}

const none: readonly never[] = [];

/**
 * The webhooks and policies that match a request. Rules are compared once for each endpoint and operation; after that a
 * write finds its list by two look-ups, and an empty list costs nothing more.
 */
export class MatchIndex<Entry extends Matcher> {
  private readonly registry: Registry;
  private entries: readonly Entry[] = none;
  private found = new Map<ResourceType, Map<string, readonly Matched<Entry>[]>>();
  private registryRevision = -1;

  constructor(registry: Registry) {
    this.registry = registry;
  }

  set(entries: readonly Entry[]): void {
    this.entries = entries;
    this.found.clear();
  }

  get isEmpty(): boolean {
    return this.entries.length === 0;
  }

  find(attributes: AdmissionAttributes): readonly Matched<Entry>[] {
    if (this.entries.length === 0) return none;
    const { type, subresource, operation } = attributes;
    // Admission configuration is never matched, so that a broken configuration can be repaired.
    if (type.group === "admissionregistration.k8s.io") return none;
    if (this.registryRevision !== this.registry.revision) {
      this.found.clear();
      this.registryRevision = this.registry.revision;
    }
    let ofType = this.found.get(type);
    if (ofType === undefined) {
      ofType = new Map();
      this.found.set(type, ofType);
    }
    const key = subresource === "" ? operation : `${operation} ${subresource}`;
    let matched = ofType.get(key);
    if (matched === undefined) {
      matched = this.compute({ type, subresource, operation });
      ofType.set(key, matched);
    }
    return matched;
  }

  private compute(shape: Parameters<typeof matchedVersion>[2]): Matched<Entry>[] {
    const matched: Matched<Entry>[] = [];
    for (const entry of this.entries) {
      const resource = matchedVersion(entry.rules, entry.matchPolicy, shape, this.registry);
      if (resource === undefined) continue;
      const excluded = entry.excludes.some((rule) => rule.resourceNames === undefined && ruleMatches(rule, shape));
      if (!excluded) matched.push({ entry, resource });
    }
    return matched;
  }
}

/** Rules may name single objects, which the index by endpoint does not have. */
export function namesMatch(matcher: Matcher, attributes: AdmissionAttributes): boolean {
  const matches = (rule: NamedRuleWithOperations): boolean =>
    ruleMatches(rule, attributes) && (rule.resourceNames ?? [attributes.name]).includes(attributes.name);
  const named = (rules: readonly NamedRuleWithOperations[]): boolean =>
    rules.some((rule) => (rule.resourceNames?.length ?? 0) > 0);
  if (named(matcher.rules) && !matcher.rules.some(matches)) return false;
  return !(named(matcher.excludes) && matcher.excludes.some(matches));
}

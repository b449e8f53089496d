import type { NamedRuleWithOperations } from "../../model/kubernetes.generated.ts";
import type { AdmissionAttributes } from "../admission.ts";
import type { Registry } from "../registry.ts";
import type { Resource } from "../resource.ts";
import type { ResourceType } from "../resources.ts";
import { matchedVersion, ruleMatches } from "./matchRules.ts";

/** What a webhook and a policy have in common: the requests that they want to see. */
export interface Matcher {
  readonly rules: readonly NamedRuleWithOperations[];
  /** Requests that are left out again. */
  readonly excludes: readonly NamedRuleWithOperations[];
  readonly matchPolicy: string;
}

export interface Matched<Entry> {
  readonly entry: Entry;
  /** The version in which the entry wants to see the object. */
  readonly resource: Resource;
}

const none: readonly never[] = [];

/**
 * The webhooks and policies that want to see a request. Rules are compared once for each endpoint and operation; after
 * that a write finds its list by two look-ups, and an empty one costs nothing more.
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
    // A broken admission configuration must stay repairable.
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

/** Rules may name single objects; those cannot be indexed by endpoint. */
export function namesMatch(matcher: Matcher, attributes: AdmissionAttributes): boolean {
  const matches = (rule: NamedRuleWithOperations): boolean =>
    ruleMatches(rule, attributes) && (rule.resourceNames ?? [attributes.name]).includes(attributes.name);
  const named = (rules: readonly NamedRuleWithOperations[]): boolean =>
    rules.some((rule) => (rule.resourceNames?.length ?? 0) > 0);
  if (named(matcher.rules) && !matcher.rules.some(matches)) return false;
  return !(named(matcher.excludes) && matcher.excludes.some(matches));
}

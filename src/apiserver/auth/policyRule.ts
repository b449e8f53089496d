import { isObject } from "../../model/objects/json.ts";
import type { PathAccess, ResourceAccess } from "./access.ts";

/** One rule of a role: verbs on resources, or verbs on paths, never both. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  /** `pods`, `pods/log`, `*`, or a subresource of anything: the star, a slash, and its name. */
  readonly resources: readonly string[];
  /** Empty: every name. */
  readonly resourceNames: readonly string[];
  /** Full paths, or a prefix followed by `*`. */
  readonly nonResourceURLs: readonly string[];
}

const none: readonly string[] = [];

/** The rules of a role, with every absent list empty. */
export function readRules(rules: unknown): PolicyRule[] {
  return Array.isArray(rules) ? rules.filter(isObject).map(readRule) : [];
}

function readRule(rule: Record<string, unknown>): PolicyRule {
  return {
    verbs: strings(rule["verbs"]),
    apiGroups: strings(rule["apiGroups"]),
    resources: strings(rule["resources"]),
    resourceNames: strings(rule["resourceNames"]),
    nonResourceURLs: strings(rule["nonResourceURLs"]),
  };
}

export function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : none;
}

export function allowsResource(rule: PolicyRule, access: ResourceAccess, combined: string): boolean {
  return (
    hasOrAll(rule.verbs, access.verb) &&
    hasOrAll(rule.apiGroups, access.group) &&
    namesResource(rule.resources, combined, access.subresource) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(access.name))
  );
}

export function allowsPath(rule: PolicyRule, access: PathAccess): boolean {
  return hasOrAll(rule.verbs, access.verb) && rule.nonResourceURLs.some((url) => coversPath(url, access.path));
}

/** The wanted rules that are not held. Every combination of verb, group, resource and name is compared separately. */
export function missingRules(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  return wanted.flatMap(breakDown).filter((single) => !held.some((rule) => covers(rule, single)));
}

/** Joins the verbs of rules for one resource, so that a message stays readable. */
export function compactRules(rules: readonly PolicyRule[]): PolicyRule[] {
  const joined = new Map<string, PolicyRule>();
  for (const rule of rules) {
    const key = JSON.stringify([rule.apiGroups, rule.resources, rule.resourceNames, rule.nonResourceURLs]);
    const before = joined.get(key);
    const verbs = before === undefined ? rule.verbs : [...new Set([...before.verbs, ...rule.verbs])];
    joined.set(key, { ...rule, verbs });
  }
  return [...joined.values()];
}

/** `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}` */
export function describeRule(rule: PolicyRule): string {
  const parts = [
    part("APIGroups", rule.apiGroups),
    part("Resources", rule.resources),
    part("NonResourceURLs", rule.nonResourceURLs),
    part("ResourceNames", rule.resourceNames),
    part("Verbs", rule.verbs),
  ];
  return `{${parts.filter((text) => text !== "").join(", ")}}`;
}

/** A list as Go prints it: quoted words in brackets, separated by spaces. */
export function quotedList(words: readonly string[]): string {
  return `[${words.map((word) => JSON.stringify(word)).join(" ")}]`;
}

function part(name: string, words: readonly string[]): string {
  return words.length === 0 ? "" : `${name}:${quotedList(words)}`;
}

function breakDown(rule: PolicyRule): PolicyRule[] {
  const single: PolicyRule[] = [];
  const names = rule.resourceNames.length === 0 ? [none] : rule.resourceNames.map((name) => [name]);
  for (const group of rule.apiGroups) {
    for (const resource of rule.resources) {
      for (const verb of rule.verbs) {
        for (const resourceNames of names) {
          single.push({
            apiGroups: [group],
            resources: [resource],
            verbs: [verb],
            resourceNames,
            nonResourceURLs: none,
          });
        }
      }
    }
  }
  for (const url of rule.nonResourceURLs) {
    for (const verb of rule.verbs) {
      single.push({ apiGroups: none, resources: none, resourceNames: none, nonResourceURLs: [url], verbs: [verb] });
    }
  }
  return single;
}

/** Whether a held rule covers a single combination. A star is only covered by a star. */
function covers(held: PolicyRule, single: PolicyRule): boolean {
  if (!single.verbs.every((verb) => hasOrAll(held.verbs, verb))) return false;
  const [url] = single.nonResourceURLs;
  if (url !== undefined) return held.nonResourceURLs.some((own) => coversPath(own, url));
  return (
    single.apiGroups.every((group) => hasOrAll(held.apiGroups, group)) &&
    single.resources.every((resource) => namesResource(held.resources, resource, subresourceOf(resource))) &&
    (held.resourceNames.length === 0 ||
      (single.resourceNames.length > 0 && single.resourceNames.every((name) => held.resourceNames.includes(name))))
  );
}

function subresourceOf(resource: string): string {
  const slash = resource.indexOf("/");
  return slash < 0 ? "" : resource.slice(slash + 1);
}

function hasOrAll(words: readonly string[], word: string): boolean {
  return words.includes(word) || words.includes("*");
}

/** `combined` is the resource with its subresource behind a slash, if there is one. */
function namesResource(resources: readonly string[], combined: string, subresource: string): boolean {
  for (const resource of resources) {
    if (resource === combined || resource === "*") return true;
    if (subresource !== "" && resource.length === subresource.length + 2 && resource.startsWith("*/")) {
      if (resource.endsWith(subresource)) return true;
    }
  }
  return false;
}

function coversPath(own: string, path: string): boolean {
  if (own === path || own === "*") return true;
  return own.endsWith("*") && path.startsWith(own.slice(0, -1));
}

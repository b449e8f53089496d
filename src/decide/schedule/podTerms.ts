import type { PodAffinityTerm, TopologySpreadConstraint } from "../../model/kubernetes.generated.ts";
import { type LabelRequirements, matchesLabels, selectorRequirements } from "../../model/labelSelector.ts";
import type { NodeState } from "./nodeState.ts";
import type { Task } from "./task.ts";

/**
 * Terms that speak of other pods: affinity, anti-affinity, spread. Each term that anybody uses counts the placed pods that it matches,
 * node by node, as they come and go; a decision then reads counts instead of walking over all pods.
 */
export interface PodTerm {
  readonly key: string;
  readonly selector: LabelRequirements;
  /** Undefined: every namespace. */
  readonly namespaces: ReadonlySet<string> | undefined;
  readonly namespaceSelector: LabelRequirements | undefined;
  /** Placed pods that it matches, by node. */
  readonly matched: Map<NodeState, number>;
  /** Placed pods that have it as an anti-affinity of theirs, by how near they mean (a topology key) and by node. */
  readonly holders: Map<string, Map<NodeState, number>>;
}

/** Pods in a domain of a topology, by domain. */
export interface DomainCounts {
  readonly topologyKey: string;
  readonly domains: ReadonlyMap<string, number>;
}

interface AntiTerm {
  readonly term: PodTerm;
  readonly topologyKey: string;
}

export class PodTerms {
  private readonly terms = new Map<string, PodTerm>();
  private readonly matches = new WeakMap<Task, { version: number; terms: readonly PodTerm[] }>();
  private readonly held = new WeakMap<
    Task,
    { node: NodeState; terms: readonly PodTerm[]; antiTerms: readonly AntiTerm[] }[]
  >();
  private version = 0;
  /** Labels of namespaces, for terms that select by them. */
  private readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;

  private readonly allTasks: () => Iterable<Task>;

  constructor(
    namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined,
    allTasks: () => Iterable<Task>,
  ) {
    this.namespaceLabels = namespaceLabels;
    this.allTasks = allTasks;
  }

  get isEmpty(): boolean {
    return this.terms.size === 0;
  }

  /** The term that an affinity of a pod in a namespace means. */
  ofAffinity(term: PodAffinityTerm, task: Task): PodTerm {
    const selector = withMatchKeys(selectorRequirements(term.labelSelector), term, task);
    const named = term.namespaces ?? [];
    const bySelector = term.namespaceSelector === undefined ? undefined : selectorRequirements(term.namespaceSelector);
    const names = named.length === 0 && bySelector === undefined ? [task.namespace] : named;
    return this.intern(selector, names, bySelector);
  }

  ofSpread(constraint: TopologySpreadConstraint, task: Task): PodTerm {
    const selector = [...selectorRequirements(constraint.labelSelector)];
    for (const key of constraint.matchLabelKeys ?? []) {
      const value = task.pod.metadata.labels?.[key];
      if (value !== undefined) selector.push({ key, operator: "in", values: [value] });
    }
    return this.intern(selector, [task.namespace], undefined);
  }

  isMatch(term: PodTerm, task: Task): boolean {
    if (!matchesLabels(term.selector, task.pod.metadata.labels)) return false;
    if (term.namespaces?.has(task.namespace) === true) return true;
    return (
      term.namespaceSelector !== undefined &&
      matchesLabels(term.namespaceSelector, this.namespaceLabels(task.namespace) ?? {})
    );
  }

  /** The terms that somebody uses and that match a pod. */
  matchesOf(task: Task): readonly PodTerm[] {
    const known = this.matches.get(task);
    if (known?.version === this.version) return known.terms;
    const terms = [...this.terms.values()].filter((term) => this.isMatch(term, task));
    this.matches.set(task, { version: this.version, terms });
    return terms;
  }

  /** Every pod that counts is told here when it takes or leaves a node. */
  took(task: Task, node: NodeState): void {
    if (this.terms.size === 0 && !hasOwnTerms(task)) return;
    this.count(task, node);
  }

  left(task: Task, node: NodeState): void {
    if (this.terms.size === 0) return;
    const counted = this.held.get(task);
    const at = counted?.findIndex((each) => each.node === node) ?? -1;
    if (counted === undefined || at < 0) return;
    const [entry] = counted.splice(at, 1);
    for (const term of entry?.terms ?? []) shift(term.matched, node, -1);
    for (const each of entry?.antiTerms ?? []) shiftHolder(each, node, -1);
  }

  /** A pod has other labels now: it counts for other terms, wherever it is. */
  relabelled(task: Task): void {
    this.matches.delete(task);
    const nodes = (this.held.get(task) ?? []).map(({ node }) => node);
    for (const node of nodes) this.left(task, node);
    for (const { node } of task.holdings) this.count(task, node);
  }

  /** Whether anybody's anti-affinity keeps this pod away from some node. */
  isShunned(task: Task): boolean {
    if (this.terms.size === 0) return false;
    return this.matchesOf(task).some((term) => term.holders.size > 0);
  }

  /** Where pods are that do not want this one near them. */
  shunning(task: Task): DomainCounts[] {
    const byKey = new Map<string, Map<string, number>>();
    const add = (topologyKey: string, node: NodeState, by: number): void => {
      const domain = node.labels[topologyKey];
      if (domain === undefined) return;
      let domains = byKey.get(topologyKey);
      if (domains === undefined) {
        domains = new Map();
        byKey.set(topologyKey, domains);
      }
      domains.set(domain, (domains.get(domain) ?? 0) + by);
    };
    const matched = this.matchesOf(task);
    for (const { holders } of matched) {
      for (const [topologyKey, nodes] of holders) for (const [node, count] of nodes) add(topologyKey, node, count);
    }
    // It does not keep itself away.
    for (const { node, antiTerms } of this.held.get(task) ?? []) {
      for (const { term, topologyKey } of antiTerms) if (matched.includes(term)) add(topologyKey, node, -1);
    }
    return [...byKey].map(([topologyKey, domains]) => ({ topologyKey, domains }));
  }

  private count(task: Task, node: NodeState): void {
    const antiTerms = task.shape.antiAffinity.map(
      (each): AntiTerm => ({ term: this.ofAffinity(each, task), topologyKey: each.topologyKey }),
    );
    const terms = this.matchesOf(task);
    for (const term of terms) shift(term.matched, node, 1);
    for (const each of antiTerms) shiftHolder(each, node, 1);
    const counted = this.held.get(task);
    const entry = { node, terms, antiTerms };
    if (counted === undefined) this.held.set(task, [entry]);
    else counted.push(entry);
  }

  private intern(
    selector: LabelRequirements,
    names: readonly string[],
    namespaceSelector: LabelRequirements | undefined,
  ): PodTerm {
    const key = JSON.stringify([selector, [...names].sort(), namespaceSelector ?? 0]);
    const known = this.terms.get(key);
    if (known !== undefined) return known;
    const term: PodTerm = {
      key,
      selector,
      namespaces: new Set(names),
      namespaceSelector,
      matched: new Map(),
      holders: new Map(),
    };
    this.terms.set(key, term);
    this.version++;
    // Whoever was placed before the term was known counts from now on.
    for (const task of this.allTasks()) {
      if (task.holdings.length === 0 || !this.isMatch(term, task)) continue;
      for (const { node } of task.holdings) {
        shift(term.matched, node, 1);
        const entry = this.held.get(task)?.find((each) => each.node === node);
        if (entry === undefined) {
          this.held.set(task, [...(this.held.get(task) ?? []), { node, terms: [term], antiTerms: [] }]);
        } else {
          (entry.terms as PodTerm[]) = [...entry.terms, term];
        }
      }
    }
    return term;
  }
}

function hasOwnTerms({ shape }: Task): boolean {
  return shape.antiAffinity.length > 0;
}

function shiftHolder({ term, topologyKey }: AntiTerm, node: NodeState, by: number): void {
  const nodes = term.holders.get(topologyKey) ?? new Map<NodeState, number>();
  shift(nodes, node, by);
  if (nodes.size === 0) term.holders.delete(topologyKey);
  else term.holders.set(topologyKey, nodes);
}

function shift(counts: Map<NodeState, number>, node: NodeState, by: number): void {
  const count = (counts.get(node) ?? 0) + by;
  if (count === 0) counts.delete(node);
  else counts.set(node, count);
}

/** Keys whose value the pods must share with this one, or must not. */
function withMatchKeys(selector: LabelRequirements, term: PodAffinityTerm, { pod }: Task): LabelRequirements {
  const requirements = [...selector];
  for (const key of term.matchLabelKeys ?? []) {
    const value = pod.metadata.labels?.[key];
    if (value !== undefined) requirements.push({ key, operator: "in", values: [value] });
  }
  for (const key of term.mismatchLabelKeys ?? []) {
    const value = pod.metadata.labels?.[key];
    if (value !== undefined) requirements.push({ key, operator: "notin", values: [value] });
  }
  return requirements;
}

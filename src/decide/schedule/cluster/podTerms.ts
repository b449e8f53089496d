import type { PodAffinityTerm, TopologySpreadConstraint } from "../../../model/kubernetes.generated.ts";
import { type LabelRequirements, matchesLabels, selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { DomainCounter, type DomainCounts, type NodeFilter } from "./domainCounter.ts";
import type { LabelDomains } from "./labelDomains.ts";
import type { NodeState } from "./nodeState.ts";
import type { PodShape } from "./podShape.ts";
import type { Task } from "./task.ts";

/**
 * Terms about other pods: affinity, anti-affinity, topology spread. Each term in use counts the placed pods that it
 * matches, node by node, as they come and go; a decision then reads counts instead of walking over all pods.
 */
export interface PodTerm {
  readonly key: string;
  readonly selector: LabelRequirements;
  /** Undefined: every namespace. */
  readonly namespaces: ReadonlySet<string> | undefined;
  readonly namespaceSelector: LabelRequirements | undefined;
  /** Placed pods that it matches, by node. */
  readonly matched: Map<NodeState, number>;
  /** The same by domain, for every way in which a rule counts them. */
  readonly counters: Map<string, DomainCounter>;
  /** Placed pods that have it as an anti-affinity of theirs, by how near they mean (a topology key). */
  readonly holders: Map<string, Holders>;
}

interface Holders {
  readonly nodes: Map<NodeState, number>;
  readonly counter: DomainCounter;
}

/** A term and how near it means. */
export interface NearTerm {
  readonly term: PodTerm;
  readonly topologyKey: string;
}

/** What a pod says about others. */
export interface OwnTerms {
  readonly wanted: readonly NearTerm[];
  readonly unwanted: readonly NearTerm[];
  readonly preferred: readonly (NearTerm & { readonly weight: number })[];
  readonly spread: readonly (NearTerm & { readonly constraint: TopologySpreadConstraint })[];
}

/** More ways of counting than these are not kept at once. */
const countersMax = 512;

const nothing: readonly never[] = [];

export class PodTerms {
  private readonly terms = new Map<string, PodTerm>();
  private readonly matches = new WeakMap<Task, { version: number; terms: readonly PodTerm[] }>();
  private readonly held = new WeakMap<
    Task,
    { node: NodeState; terms: readonly PodTerm[]; antiTerms: readonly NearTerm[] }[]
  >();
  private readonly byShape = new WeakMap<PodShape, OwnTerms>();
  private readonly labels: LabelDomains;
  private counterCount = 0;
  private version = 0;
  /** Labels of namespaces, for terms that select by them. */
  private readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;

  private readonly allTasks: () => Iterable<Task>;

  constructor(
    namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined,
    allTasks: () => Iterable<Task>,
    labels: LabelDomains,
  ) {
    this.labels = labels;
    this.namespaceLabels = namespaceLabels;
    this.allTasks = allTasks;
  }

  get isEmpty(): boolean {
    return this.terms.size === 0;
  }

  /** What a pod says about others. Pods of one shape have the same labels and namespace if they say anything. */
  ownOf(task: Task): OwnTerms {
    const { shape } = task;
    const known = this.byShape.get(shape);
    if (known !== undefined) return known;
    const near = (each: PodAffinityTerm): NearTerm => ({
      term: this.ofAffinity(each, task),
      topologyKey: each.topologyKey,
    });
    const own: OwnTerms = {
      wanted: shape.affinity.map(near),
      unwanted: shape.antiAffinity.map(near),
      preferred: [
        ...shape.preferredAffinity.map(({ weight, podAffinityTerm }) => ({ weight, ...near(podAffinityTerm) })),
        ...shape.preferredAntiAffinity.map(({ weight, podAffinityTerm }) => ({
          weight: -weight,
          ...near(podAffinityTerm),
        })),
      ],
      spread: shape.spread.map((constraint) => ({
        term: this.ofSpread(constraint, task),
        topologyKey: constraint.topologyKey,
        constraint,
      })),
    };
    this.byShape.set(shape, own);
    return own;
  }

  /** How many pods that a term matches are in each domain; with a filter, on the nodes that it accepts. */
  countsOf({ term, topologyKey }: NearTerm, filter?: NodeFilter & { readonly key: string }): DomainCounter {
    const key = filter === undefined ? topologyKey : `${topologyKey} ${filter.key}`;
    let counter = term.counters.get(key);
    if (counter === undefined) {
      if (this.counterCount >= countersMax) {
        for (const { counters } of this.terms.values()) counters.clear();
        this.counterCount = 0;
      }
      counter = new DomainCounter(this.labels, topologyKey, term.matched, filter);
      term.counters.set(key, counter);
      this.counterCount++;
    }
    return counter.current();
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

  /** The terms in use that match a pod. */
  matchesOf(task: Task): readonly PodTerm[] {
    const known = this.matches.get(task);
    if (known?.version === this.version) return known.terms;
    const terms = [...this.terms.values()].filter((term) => this.isMatch(term, task));
    this.matches.set(task, { version: this.version, terms });
    return terms;
  }

  /** Called for every pod that counts when it takes or leaves a node. */
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
    for (const term of entry?.terms ?? []) shiftMatched(term, node, -1);
    for (const each of entry?.antiTerms ?? []) this.shiftHolder(each, node, -1);
  }

  /** A pod has other labels now: it counts for other terms, wherever it is. */
  relabelled(task: Task): void {
    this.matches.delete(task);
    const nodes = (this.held.get(task) ?? []).map(({ node }) => node);
    for (const node of nodes) this.left(task, node);
    for (const { node } of task.holdings) this.count(task, node);
  }

  /** A namespace has other labels now: terms that select namespaces may mean its pods, or not any more. */
  namespaceChanged(namespace: string): void {
    if (![...this.terms.values()].some(({ namespaceSelector }) => namespaceSelector !== undefined)) return;
    this.version++;
    for (const task of this.allTasks()) if (task.namespace === namespace) this.relabelled(task);
  }

  /** Whether the anti-affinity of any placed pod keeps this pod away from some node. */
  matchesOthersAntiAffinity(task: Task): boolean {
    if (this.terms.size === 0) return false;
    return this.matchesOf(task).some((term) => term.holders.size > 0);
  }

  /** Where pods are that do not want this one near them. */
  shunning(task: Task): DomainCounts[] {
    const held = this.held.get(task) ?? nothing;
    const found: DomainCounts[] = [];
    for (const term of this.matchesOf(task)) {
      for (const [topologyKey, { counter }] of term.holders) {
        const { ofNode, counts } = counter.current();
        // It does not keep itself away.
        const own = held.filter(({ antiTerms }) =>
          antiTerms.some((each) => each.term === term && each.topologyKey === topologyKey),
        );
        found.push({ ofNode, counts: own.length === 0 ? counts : without(own, term, topologyKey, { ofNode, counts }) });
      }
    }
    return found;
  }

  private count(task: Task, node: NodeState): void {
    const antiTerms = hasOwnTerms(task) ? this.ownOf(task).unwanted : nothing;
    const terms = this.matchesOf(task);
    for (const term of terms) shiftMatched(term, node, 1);
    for (const each of antiTerms) this.shiftHolder(each, node, 1);
    const counted = this.held.get(task);
    const entry = { node, terms, antiTerms };
    if (counted === undefined) this.held.set(task, [entry]);
    else counted.push(entry);
  }

  private shiftHolder({ term, topologyKey }: NearTerm, node: NodeState, by: number): void {
    let holders = term.holders.get(topologyKey);
    if (holders === undefined) {
      const nodes = new Map<NodeState, number>();
      holders = { nodes, counter: new DomainCounter(this.labels, topologyKey, nodes) };
      term.holders.set(topologyKey, holders);
    }
    shift(holders.nodes, node, by);
    if (holders.nodes.size === 0) term.holders.delete(topologyKey);
    else holders.counter.shift(node, by);
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
      counters: new Map(),
      holders: new Map(),
    };
    this.terms.set(key, term);
    this.version++;
    // Pods that were placed before the term was known count from now on.
    for (const task of this.allTasks()) {
      if (task.holdings.length === 0 || !this.isMatch(term, task)) continue;
      for (const { node } of task.holdings) {
        shiftMatched(term, node, 1);
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

/** Counts without what a pod adds to them itself. */
function without(
  own: readonly { readonly node: NodeState; readonly antiTerms: readonly NearTerm[] }[],
  term: PodTerm,
  topologyKey: string,
  { ofNode, counts }: DomainCounts,
): Int32Array {
  const others = counts.slice();
  for (const { node, antiTerms } of own) {
    const domain = ofNode[node.index] ?? -1;
    if (domain < 0) continue;
    for (const each of antiTerms) {
      if (each.term === term && each.topologyKey === topologyKey) others[domain] = (others[domain] as number) - 1;
    }
  }
  return others;
}

function shiftMatched({ matched, counters }: PodTerm, node: NodeState, by: number): void {
  shift(matched, node, by);
  for (const counter of counters.values()) counter.shift(node, by);
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

import { assert } from "../../../model/assert.ts";
import type { PodAffinityTerm, TopologySpreadConstraint } from "../../../model/kubernetes.generated.ts";
import { type LabelRequirements, matchesLabels, selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { TermsByLabel } from "../waiting/termsByLabel.ts";
import { DomainCounter, type DomainCounts, type NodeFilter } from "./domainCounter.ts";
import type { LabelDomains } from "./labelDomains.ts";
import type { NodeState } from "./nodeState.ts";
import type { PodShape } from "./podShape.ts";
import type { Task } from "./task.ts";

/**
 * A term about other pods: of affinity, anti-affinity or topology spread. Each term in use counts the placed pods that
 * it matches by node, incrementally; a decision reads counts instead of iterating over all pods.
 */
export interface PodTerm {
  readonly key: string;
  /** The number of uses by shapes; a term without uses is dropped. */
  users: number;
  readonly selector: LabelRequirements;
  /** Undefined: every namespace. */
  readonly namespaces: ReadonlySet<string> | undefined;
  readonly namespaceSelector: LabelRequirements | undefined;
  /** Placed pods that it matches, by node. */
  readonly matched: Map<NodeState, number>;
  /** The same by domain, for every way in which a rule counts them. */
  readonly counters: Map<string, DomainCounter>;
  /** Placed pods with this term in their anti-affinity, by topology key. */
  readonly holders: Map<string, Holders>;
}

interface Holders {
  readonly nodes: Map<NodeState, number>;
  readonly counter: DomainCounter;
}

/** A term with its topology key. */
export interface TopologyTerm {
  readonly term: PodTerm;
  readonly topologyKey: string;
}

/** The terms of a pod. */
export interface OwnTerms {
  readonly affinity: readonly TopologyTerm[];
  readonly antiAffinity: readonly TopologyTerm[];
  readonly preferred: readonly (TopologyTerm & { readonly weight: number })[];
  readonly spread: readonly (TopologyTerm & { readonly constraint: TopologySpreadConstraint })[];
}

/** The number of domain counters that are kept at once. */
const countersMax = 512;

const nothing: readonly never[] = [];

export class PodTerms {
  /** Terms that match other placed pods, or are held by others, than at the end of the last cycle. */
  readonly changed = new Set<PodTerm>();
  private readonly terms = new Map<string, PodTerm>();
  private readonly byLabel = new TermsByLabel();
  private readonly matches = new WeakMap<Task, { version: number; terms: readonly PodTerm[] }>();
  private readonly held = new WeakMap<
    Task,
    { node: NodeState; terms: readonly PodTerm[]; antiTerms: readonly TopologyTerm[] }[]
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

  /** The terms of a pod. Pods of one shape with terms have equal labels and the same namespace. */
  ownOf(task: Task): OwnTerms {
    const { shape } = task;
    const known = this.byShape.get(shape);
    if (known !== undefined) return known;
    const near = (each: PodAffinityTerm): TopologyTerm => ({
      term: this.ofAffinity(each, task),
      topologyKey: each.topologyKey,
    });
    const own: OwnTerms = {
      affinity: shape.affinity.map(near),
      antiAffinity: shape.antiAffinity.map(near),
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

  /** No pod has the shape any more: terms that no other shape has are dropped. */
  forget(shape: PodShape): void {
    const own = this.byShape.get(shape);
    if (own === undefined) return;
    this.byShape.delete(shape);
    for (const { term } of [...own.affinity, ...own.antiAffinity, ...own.preferred, ...own.spread]) {
      term.users--;
      if (term.users === 0) this.drop(term);
    }
  }

  private drop(term: PodTerm): void {
    assert(term.holders.size === 0, () => `the anti-affinity ${term.key} of a placed pod is dropped`);
    this.terms.delete(term.key);
    this.byLabel.delete(term);
    this.changed.delete(term);
    this.counterCount -= term.counters.size;
    this.version++;
    for (const node of term.matched.keys()) {
      for (const { holder } of node.holdings) {
        const counted = this.held.get(holder as Task);
        if (counted === undefined) continue;
        const left = counted
          .map((entry) => ({ ...entry, terms: entry.terms.filter((each) => each !== term) }))
          .filter(({ terms, antiTerms }) => terms.length > 0 || antiTerms.length > 0);
        if (left.length === 0) this.held.delete(holder as Task);
        else this.held.set(holder as Task, left);
      }
    }
  }

  /** Whether one of the shape's own terms counts other pods than at the end of the last cycle. */
  hasChanged(shape: PodShape): boolean {
    const own = this.byShape.get(shape);
    if (own === undefined) return false;
    return [own.affinity, own.antiAffinity, own.preferred, own.spread].some((terms) =>
      terms.some(({ term }) => this.changed.has(term)),
    );
  }

  /** The terms of all pods with their counts by node, for comparisons. */
  describe(): readonly (readonly [key: string, counts: object])[] {
    for (const task of this.allTasks()) this.ownOf(task);
    const byNode = (counts: ReadonlyMap<NodeState, number>): object =>
      Object.fromEntries([...counts].map(([{ name }, count]) => [name, count] as const).sort(byFirst));
    return [...this.terms.values()].map(({ key, users, matched, holders }) => {
      const antiAffinity = [...holders].map(([topologyKey, { nodes }]) => [topologyKey, byNode(nodes)] as const);
      return [
        key,
        { users, matched: byNode(matched), antiAffinity: Object.fromEntries(antiAffinity.sort(byFirst)) },
      ] as const;
    });
  }

  /** How many pods that a term matches are in each domain; with a filter, on the nodes that it accepts. */
  countsOf({ term, topologyKey }: TopologyTerm, filter?: NodeFilter & { readonly key: string }): DomainCounter {
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

  /** The term of a pod's affinity. */
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
    const terms = this.byLabel.candidates(task.pod.metadata.labels).filter((term) => this.isMatch(term, task));
    this.matches.set(task, { version: this.version, terms });
    return terms;
  }

  /** Called for every counted pod that is placed on a node, and by `left` that is removed from it. */
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
    for (const term of entry?.terms ?? []) this.shiftMatched(term, node, -1);
    for (const each of entry?.antiTerms ?? []) this.shiftHolder(each, node, -1);
  }

  /** The labels of a pod have changed: other terms match it. */
  relabelled(task: Task): void {
    this.matches.delete(task);
    const nodes = (this.held.get(task) ?? []).map(({ node }) => node);
    for (const node of nodes) this.left(task, node);
    for (const { node } of task.holdings) this.count(task, node);
  }

  /** The labels of a namespace have changed: terms that select namespaces may match its pods, or no longer. */
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

  /** The domains with pods whose anti-affinity matches this pod. */
  antiAffinityDomains(task: Task): DomainCounts[] {
    const held = this.held.get(task) ?? nothing;
    const found: DomainCounts[] = [];
    for (const term of this.matchesOf(task)) {
      for (const [topologyKey, { counter }] of term.holders) {
        const { ofNode, counts } = counter.current();
        // A pod's own anti-affinity does not keep itself away.
        const own = held.filter(({ antiTerms }) =>
          antiTerms.some((each) => each.term === term && each.topologyKey === topologyKey),
        );
        found.push({ ofNode, counts: own.length === 0 ? counts : without(own, term, topologyKey, { ofNode, counts }) });
      }
    }
    return found;
  }

  private count(task: Task, node: NodeState): void {
    const antiTerms = hasOwnTerms(task) ? this.ownOf(task).antiAffinity : nothing;
    const terms = this.matchesOf(task);
    if (terms.length === 0 && antiTerms.length === 0) return;
    for (const term of terms) this.shiftMatched(term, node, 1);
    for (const each of antiTerms) this.shiftHolder(each, node, 1);
    const counted = this.held.get(task);
    const entry = { node, terms, antiTerms };
    if (counted === undefined) this.held.set(task, [entry]);
    else counted.push(entry);
  }

  private shiftMatched(term: PodTerm, node: NodeState, by: number): void {
    this.changed.add(term);
    shift(term.matched, node, by);
    for (const counter of term.counters.values()) counter.shift(node, by);
  }

  private shiftHolder({ term, topologyKey }: TopologyTerm, node: NodeState, by: number): void {
    let holders = term.holders.get(topologyKey);
    if (holders === undefined) {
      const nodes = new Map<NodeState, number>();
      holders = { nodes, counter: new DomainCounter(this.labels, topologyKey, nodes) };
      term.holders.set(topologyKey, holders);
    }
    this.changed.add(term);
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
    if (known !== undefined) {
      known.users++;
      return known;
    }
    const term: PodTerm = {
      key,
      users: 1,
      selector,
      namespaces: new Set(names),
      namespaceSelector,
      matched: new Map(),
      counters: new Map(),
      holders: new Map(),
    };
    this.terms.set(key, term);
    this.byLabel.add(term);
    this.version++;
    // Pods that were placed before the term was in use count from now on.
    for (const task of this.allTasks()) {
      if (task.holdings.length === 0 || !this.isMatch(term, task)) continue;
      for (const { node } of task.holdings) {
        this.shiftMatched(term, node, 1);
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

function byFirst(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : 1;
}

function hasOwnTerms({ shape }: Task): boolean {
  return shape.antiAffinity.length > 0;
}

/** The counts without the pod itself. */
function without(
  own: readonly { readonly node: NodeState; readonly antiTerms: readonly TopologyTerm[] }[],
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

function shift(counts: Map<NodeState, number>, node: NodeState, by: number): void {
  const count = (counts.get(node) ?? 0) + by;
  if (count === 0) counts.delete(node);
  else counts.set(node, count);
}

/** Adds `matchLabelKeys` and `mismatchLabelKeys`. */
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

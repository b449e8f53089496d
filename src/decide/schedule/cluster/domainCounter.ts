import type { LabelDomains } from "./labelDomains.ts";
import type { NodeState } from "./nodeState.ts";

/** Which nodes are counted at all. */
export interface NodeFilter {
  /** Increases when the filter may accept other nodes. */
  readonly version: number;
  accepts(at: number): boolean;
}

/** How many pods there are in each domain of a topology. */
export interface DomainCounts {
  /** By node: the number of its domain, or -1. */
  readonly ofNode: Int32Array;
  /** By domain. */
  readonly counts: Int32Array;
}

/**
 * Counts pods by domain incrementally, so that no decision iterates over all nodes or pods. The counts are rebuilt from
 * `source` when the domains or the accepted nodes have changed.
 */
export class DomainCounter implements DomainCounts {
  ofNode: Int32Array = new Int32Array(0);
  counts: Int32Array = new Int32Array(0);
  /** Domains with accepted nodes. */
  domainCount = 0;
  /** Pods in all domains. */
  private sum = 0;
  private readonly labels: LabelDomains;
  private readonly topologyKey: string;
  private readonly source: ReadonlyMap<NodeState, number>;
  private readonly filter: NodeFilter | undefined;
  private labelsVersion = -1;
  private filterVersion = -1;
  /** By node: 1 if the filter accepts it. Empty if it accepts all. */
  private isCounted = new Uint8Array(0);
  /** By domain: 1 if the filter accepts a node of it. */
  private hasNodes = new Uint8Array(0);

  constructor(
    labels: LabelDomains,
    topologyKey: string,
    source: ReadonlyMap<NodeState, number>,
    filter?: NodeFilter | undefined,
  ) {
    this.labels = labels;
    this.topologyKey = topologyKey;
    this.source = source;
    this.filter = filter;
  }

  /** Rebuilds the counts if necessary; afterwards `shift` keeps them current. */
  current(): this {
    if (!this.isCurrent()) this.recount();
    return this;
  }

  get isEmpty(): boolean {
    return this.sum === 0;
  }

  /** The fewest pods in a domain. */
  get least(): number {
    const { counts, hasNodes } = this;
    let least = Number.POSITIVE_INFINITY;
    for (let domain = 0; domain < counts.length; domain++) {
      if (hasNodes[domain] === 1 && (counts[domain] as number) < least) least = counts[domain] as number;
    }
    return this.domainCount === 0 ? 0 : least;
  }

  /** Adds a number of pods on a node; `source` has them already. */
  shift(node: NodeState, by: number): void {
    if (!this.isCurrent()) {
      this.labelsVersion = -1;
      return;
    }
    this.add(node.index, by);
  }

  private isCurrent(): boolean {
    return this.labelsVersion === this.labels.version && this.filterVersion === (this.filter?.version ?? 0);
  }

  private add(at: number, by: number): void {
    const domain = this.ofNode[at] ?? -1;
    if (domain < 0 || (this.filter !== undefined && this.isCounted[at] === 0)) return;
    this.counts[domain] = (this.counts[domain] as number) + by;
    this.sum += by;
  }

  private recount(): void {
    const { labels, filter } = this;
    this.labelsVersion = labels.version;
    this.filterVersion = filter?.version ?? 0;
    const { ofNode, names } = labels.by(this.topologyKey);
    this.ofNode = ofNode;
    this.counts = new Int32Array(names.length);
    this.sum = 0;
    this.hasNodes = new Uint8Array(names.length);
    if (filter !== undefined) this.isCounted = new Uint8Array(ofNode.length);
    for (let at = 0; at < ofNode.length; at++) {
      const domain = ofNode[at] as number;
      if (domain < 0 || filter?.accepts(at) === false) continue;
      if (filter !== undefined) this.isCounted[at] = 1;
      this.hasNodes[domain] = 1;
    }
    this.domainCount = this.hasNodes.reduce((sum, each) => sum + each, 0);
    for (const [node, count] of this.source) this.add(node.index, count);
  }
}

import type { NodeState } from "./nodeState.ts";
import type { NodeTable } from "./nodeTable.ts";

/** Nodes by the value of one label: nodes with the same value are a domain, and each domain has a number. */
export interface Domains {
  /** By node: the number of its domain; -1 where the node has no such label. */
  readonly ofNode: Int32Array;
  /** By number: the value of the label. */
  readonly names: readonly string[];
}

/** Numbers the domains of every label that a counter uses, so that counting needs no strings. */
export class LabelDomains {
  private readonly table: NodeTable;
  private readonly byKey = new Map<string, Domains>();
  private epoch = -1;
  private generation = 0;

  constructor(table: NodeTable) {
    this.table = table;
  }

  /** Increases when domains are numbered again: counts by the old numbers are invalid. */
  get version(): number {
    if (this.epoch !== this.table.epoch) {
      this.epoch = this.table.epoch;
      this.drop();
    }
    return this.generation;
  }

  by(topologyKey: string): Domains {
    // Before the lookup: a refresh may drop the entry.
    const { version: _ } = this;
    let known = this.byKey.get(topologyKey);
    if (known === undefined) {
      known = domainsBy(topologyKey, this.table.nodes);
      this.byKey.set(topologyKey, known);
    }
    return known;
  }

  /** Something about a node has changed, perhaps its labels. */
  factsChanged({ index, labels }: NodeState): void {
    for (const [key, { ofNode, names }] of this.byKey) {
      if (names[ofNode[index] ?? -1] === labels[key]) continue;
      this.drop();
      return;
    }
  }

  private drop(): void {
    this.generation++;
    this.byKey.clear();
  }
}

function domainsBy(topologyKey: string, nodes: readonly NodeState[]): Domains {
  const ofNode = new Int32Array(nodes.length).fill(-1);
  const names: string[] = [];
  const numbers = new Map<string, number>();
  for (const [at, { labels }] of nodes.entries()) {
    const name = labels[topologyKey];
    if (name === undefined) continue;
    let number = numbers.get(name);
    if (number === undefined) {
      number = names.push(name) - 1;
      numbers.set(name, number);
    }
    ofNode[at] = number;
  }
  return { ofNode, names };
}

import { assemble, type FieldSet, leaf } from "./fieldSet.ts";
import { comparePathElements, orderOfElements } from "./pathElement.ts";

/**
 * Builds nodes of field sets so that equal nodes are the same object. Ten thousand pods of one template have the same
 * fields; without this each pod would build and hold its own few kilobytes of them.
 *
 * A trail is the sequence of children of one container so far, and an edge leads to the trail with one more child. Keys
 * come in the order of the object; a new trail is sorted once, at its end.
 */
export class Trail<Below> {
  readonly edges = new Map<string, Edge<Below>>();
  readonly #root: Trail<Below> | undefined;
  readonly #parent: Trail<Below> | undefined;
  readonly #via: Edge<Below> | undefined;
  readonly #child: FieldSet | undefined;
  readonly #includesSelf: boolean;
  #node: FieldSet | undefined;
  #isDone = false;

  constructor(includesSelf: boolean, parent?: Trail<Below>, via?: Edge<Below>, child?: FieldSet) {
    this.#includesSelf = includesSelf;
    this.#parent = parent;
    this.#root = parent === undefined ? undefined : (parent.#root ?? parent);
    this.#via = via;
    this.#child = child;
    trailCount++;
  }

  /** The trail after this one and a child. */
  with(edge: Edge<Below>, child: FieldSet): Trail<Below> {
    if (child === leaf) {
      edge.afterLeaf ??= new Trail(this.#includesSelf, this, edge, leaf);
      return edge.afterLeaf;
    }
    let next = edge.afterOther?.get(child);
    if (next === undefined) {
      next = new Trail(this.#includesSelf, this, edge, child);
      edge.afterOther ??= new Map();
      edge.afterOther.set(child, next);
    }
    return next;
  }

  /** The node with all children of this trail; undefined for none. */
  finish(): FieldSet | undefined {
    if (this.#isDone) return this.#node;
    const edges: Edge<Below>[] = [];
    const children: FieldSet[] = [];
    let isSorted = true;
    for (let trail: Trail<Below> = this; trail.#parent !== undefined; trail = trail.#parent) {
      const edge = trail.#via as Edge<Below>;
      const after = edges.at(-1);
      isSorted &&= after === undefined || comparePathElements(edge.element, after.element) < 0;
      edges.push(edge);
      children.push(trail.#child as FieldSet);
    }
    edges.reverse();
    children.reverse();
    this.#node = isSorted
      ? assemble(
          this.#includesSelf,
          edges.map((edge) => edge.element),
          children,
        )
      : this.#sorted(edges, children).finish();
    this.#isDone = true;
    return this.#node;
  }

  /** The same children in stored order, so that objects written in another order share the node. */
  #sorted(edges: readonly Edge<Below>[], children: readonly FieldSet[]): Trail<Below> {
    let trail = this.#root ?? this;
    for (const index of orderOfElements(edges.map((edge) => edge.element))) {
      const like = edges[index] as Edge<Below>;
      trail = trail.with(trail.edge(like), children[index] as FieldSet);
    }
    return trail;
  }

  /** This trail's edge for a key that another trail already has. */
  edge(like: Edge<Below>): Edge<Below> {
    let edge = this.edges.get(like.key);
    if (edge === undefined) {
      edge = new Edge(like.key, like.element, like.below);
      this.edges.set(like.key, edge);
    }
    return edge;
  }
}

/** One key of a container, and the trail that a child under it leads to. */
export class Edge<Below> {
  readonly key: string;
  readonly element: string;
  /** How the value under this key is tracked. */
  readonly below: Below;
  afterLeaf: Trail<Below> | undefined = undefined;
  afterOther: Map<FieldSet, Trail<Below>> | undefined = undefined;

  constructor(key: string, element: string, below: Below) {
    this.key = key;
    this.element = element;
    this.below = below;
  }
}

/**
 * Keys that never repeat (addresses, UIDs) would create trails without end, so all trails are dropped at this count.
 * Nodes in use stay alive in the objects; they are no longer shared with new ones.
 */
const trailsMax = 20_000;
let trailCount = 0;
let epoch = 0;

/** Changes when all trails are dropped. */
export function trailEpoch(): number {
  if (trailCount > trailsMax) {
    trailCount = 0;
    epoch++;
  }
  return epoch;
}

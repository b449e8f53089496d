/**
 * Nodes on which nothing is free, so that a cluster that is nearly full costs no more to search than an empty one. What
 * is known of a node is forgotten when one of its devices changes hands.
 */
import type { Node } from "../../../model/kubernetes.generated.ts";
import type { AllocatedState } from "./allocatedState.ts";
import type { ClaimPlan } from "./claimPlan.ts";
import type { SliceBook } from "./pools.ts";

export class FullNodes {
  private readonly book: SliceBook;
  private readonly state: AllocatedState;
  private readonly known = new Map<string, boolean>();
  private readonly nodesOf = new Map<string, string[]>();

  /** For one book: made anew with it. */
  constructor(book: SliceBook, state: AllocatedState) {
    this.book = book;
    this.state = state;
  }

  /** Only for plans that `isSkippable` allows. */
  isFull(node: Node): boolean {
    const { name } = node.metadata;
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const { pools, devices } = this.book.poolsOf(node);
    let isFull = pools.every(({ state }) => state === "complete");
    for (const { it } of devices) {
      const nodes = this.nodesOf.get(it.key);
      if (nodes === undefined) this.nodesOf.set(it.key, [name]);
      else if (!nodes.includes(name)) nodes.push(name);
      if (it.isShareable || !this.state.isTaken(it.key)) isFull = false;
    }
    this.known.set(name, isFull);
    return isFull;
  }

  changed(device: string): void {
    for (const node of this.nodesOf.get(device) ?? []) this.known.delete(node);
  }
}

/**
 * Whether a full node may be passed over without a search: it looks at no device that is in use, so it would find
 * neither an answer nor a mistake. Mode All asks about every device first, and admin access may use devices that are in
 * use.
 */
export function isSkippable({ options, claims }: ClaimPlan): boolean {
  return claims.length > 0 && options.length > 0 && options.every(({ isAll, isAdmin }) => !isAll && !isAdmin);
}

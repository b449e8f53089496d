/**
 * Nodes without free devices, so that searching a nearly full cluster costs no more than searching an empty one. The
 * entry of a node is dropped when one of its devices is allocated or released.
 */
import type { Node } from "../../../model/kubernetes.generated.ts";
import type { AllocatedState } from "./allocatedState.ts";
import type { ClaimPlan } from "./claimPlan.ts";
import type { SliceIndex } from "./pools.ts";

export class FullNodes {
  private readonly sliceIndex: SliceIndex;
  private readonly state: AllocatedState;
  private readonly known = new Map<string, boolean>();
  private readonly nodesOf = new Map<string, string[]>();

  /** Valid for one slice index, and created again with it. */
  constructor(sliceIndex: SliceIndex, state: AllocatedState) {
    this.sliceIndex = sliceIndex;
    this.state = state;
  }

  /** Only for plans that `isSkippable` allows. */
  isFull(node: Node): boolean {
    const { name } = node.metadata;
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const { pools, devices } = this.sliceIndex.poolsOf(node);
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
 * Whether a full node may be skipped: the search would check no allocated device, so it would find neither an
 * allocation nor an error. Mode All checks every device first, and admin access may use allocated devices.
 */
export function isSkippable({ options, claims }: ClaimPlan): boolean {
  return claims.length > 0 && options.length > 0 && options.every(({ isAll, isAdmin }) => !isAll && !isAdmin);
}

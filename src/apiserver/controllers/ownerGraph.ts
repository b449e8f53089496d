import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import type { Place } from "./controller.ts";

/** An object with owner references. */
export interface Dependent extends Place {
  owners: readonly string[];
}

const none: ReadonlySet<Dependent> = new Set();

/**
 * Owners and their dependents, by UID. Only objects with owner references are in it: whether an owner exists is read
 * from the store, which is never stale here, so objects without owners cost nothing.
 */
export class OwnerGraph {
  private readonly dependents = new Map<string, Dependent>();
  private readonly byOwner = new Map<string, Set<Dependent>>();
  /**
   * Owners whose deletion was observed while dependents still refer to them. Their kind may be removed next, and can
   * then not be looked up.
   */
  private readonly departed = new Set<string>();

  dependent(uid: string): Dependent | undefined {
    return this.dependents.get(uid);
  }

  dependentsOf(ownerUid: string): ReadonlySet<Dependent> {
    return this.byOwner.get(ownerUid) ?? none;
  }

  all(): Iterable<Dependent> {
    return this.dependents.values();
  }

  hasDeparted(ownerUid: string): boolean {
    return this.departed.has(ownerUid);
  }

  apply({ current }: StoreEvent): void {
    if (current.deleted) this.remove(current.side.uid);
    else this.put(current);
  }

  put(version: Version): void {
    const { uid, owners } = version.side;
    const known = this.dependents.get(uid);
    if (owners === null || owners.length === 0) {
      if (known !== undefined) this.forget(known);
      return;
    }
    if (known === undefined) {
      const { resource, namespace, name } = version;
      const dependent: Dependent = { resource, namespace, name, uid, owners };
      this.dependents.set(uid, dependent);
      for (const owner of owners) this.link(owner, dependent);
      return;
    }
    if (sameOwners(known.owners, owners)) return;
    for (const owner of known.owners) if (!owners.includes(owner)) this.unlink(owner, known);
    for (const owner of owners) this.link(owner, known);
    known.owners = owners;
  }

  private remove(uid: string): void {
    const known = this.dependents.get(uid);
    if (known !== undefined) this.forget(known);
    if (this.byOwner.has(uid)) this.departed.add(uid);
  }

  private forget(dependent: Dependent): void {
    this.dependents.delete(dependent.uid);
    for (const owner of dependent.owners) this.unlink(owner, dependent);
  }

  private link(owner: string, dependent: Dependent): void {
    const set = this.byOwner.get(owner);
    if (set === undefined) this.byOwner.set(owner, new Set([dependent]));
    else set.add(dependent);
  }

  private unlink(owner: string, dependent: Dependent): void {
    const set = this.byOwner.get(owner);
    set?.delete(dependent);
    if (set?.size !== 0) return;
    this.byOwner.delete(owner);
    this.departed.delete(owner);
  }
}

export function sameOwners(a: readonly string[] | null, b: readonly string[] | null): boolean {
  if (a === b) return true;
  if (a === null || b === null || a.length !== b.length) return false;
  return a.every((uid, at) => uid === b[at]);
}

/**
 * A cluster at one revision, with every kind that was read. A kind that the cluster does not serve is recorded as not
 * served, not as empty; a kind that was read at another revision makes the snapshot incoherent.
 */
import type { KubeObject } from "../../model/objects/object.ts";
import type { KindName } from "./readKinds.ts";

export interface ClusterSnapshot {
  /** The revision of the list of pods; all other kinds were requested at it. */
  readonly revision: string;
  readonly takenAtMs: number;
  /** False when a kind could not be read at `revision`; `incoherent` says which and why. */
  readonly coherent: boolean;
  readonly incoherent: readonly string[];
  readonly kinds: ReadonlyMap<KindName, SnapshotKind>;
}

export interface SnapshotKind {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly revision: string;
  /** False when the cluster has no such kind. */
  readonly served: boolean;
  /** Why the kind could not be listed: it may have objects that the snapshot lacks. Undefined when it was read. */
  readonly refused?: string;
  readonly objects: readonly KubeObject[];
}

/** The objects of a kind; none when it is not served or was not read. */
export function objectsOf<T = KubeObject>(snapshot: ClusterSnapshot, kind: KindName): readonly T[] {
  return (snapshot.kinds.get(kind)?.objects ?? []) as readonly T[];
}

export function isServed(snapshot: ClusterSnapshot, kind: KindName): boolean {
  return snapshot.kinds.get(kind)?.served === true;
}

/** Builds a snapshot and records which kinds are at another revision. */
export function clusterSnapshot(
  revision: string,
  takenAtMs: number,
  kinds: ReadonlyMap<KindName, SnapshotKind>,
  why: ReadonlyMap<KindName, string> = new Map(),
): ClusterSnapshot {
  const incoherent: string[] = [];
  for (const [name, kind] of kinds) {
    if (!kind.served || kind.revision === revision) continue;
    const cause = why.get(name);
    incoherent.push(`${name} at ${kind.revision}${cause === undefined ? "" : `: ${cause}`}`);
  }
  return { revision, takenAtMs, coherent: incoherent.length === 0, incoherent, kinds };
}

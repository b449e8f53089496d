import { assert } from "../model/assert.ts";
import type { KubeObject } from "../model/objects/object.ts";
import { firstRevision, isLater, type Revision } from "../model/revision.ts";
import { type OrderedView, walkBoth } from "./chunkedMap.ts";
import type { KindView } from "./kindTable.ts";
import type { Overlay } from "./ledger.ts";

/**
 * The cluster as this process knows it, immutable, and complete up to a revision. A decision reads a snapshot and
 * nothing else.
 */
export interface Snapshot<V = never> {
  /**
   * Every change of every kind up to this revision is in the snapshot. Each kind has a watch of its own, and this is
   * the lowest of their revisions: of the other kinds, later changes are in it too.
   */
  readonly revision: Revision;
  /** Whether the first list of every kind is complete. Nothing is decided before. */
  readonly isComplete: boolean;
  kind<T extends KubeObject = KubeObject>(name: string): KindView<T>;
  /**
   * The values that a key has, or may have because of an in-flight intent; usually one. Two values are alternatives (a
   * bind that may or may not have happened), never a sum: an allocator counts all of them as in use.
   */
  values(key: string): readonly V[];
  /** Every key that counts, with its values, in order of key. */
  counted(): Iterable<readonly [string, readonly V[]]>;
}

/** A value that an object holds. */
export interface Held<V> {
  readonly holder: string;
  readonly value: V;
}

export interface SnapshotParts<V> {
  readonly kinds: ReadonlyMap<string, KindView>;
  readonly held: OrderedView<readonly Held<V>[]>;
  readonly overlay: OrderedView<readonly Overlay<V>[]>;
  readonly isSame: (a: V, b: V) => boolean;
}

export function createSnapshot<V>({ kinds, held, overlay, isSame }: SnapshotParts<V>): Snapshot<V> {
  let revision: Revision | undefined;
  let isComplete = true;
  for (const view of kinds.values()) {
    isComplete &&= view.isComplete;
    if (revision === undefined || isLater(revision, view.revision)) revision = view.revision;
  }
  return {
    revision: isComplete ? (revision ?? firstRevision) : firstRevision,
    isComplete,
    kind<T extends KubeObject>(name: string): KindView<T> {
      const view = kinds.get(name);
      assert(view !== undefined, () => `${name} is not in this snapshot`);
      return view as KindView<T>;
    },
    values: (key) => countedValues(held.get(key), overlay.get(key), isSame),
    *counted() {
      for (const [key, holders, intents] of walkBoth(held, overlay))
        yield [key, countedValues(holders, intents, isSame)];
    },
  };
}

/**
 * Merges the observed values of a key with those of the ledger. An acknowledged intent replaces the observed value of
 * the same object; an intent of unknown outcome is added to it.
 */
export function countedValues<V>(
  held: readonly Held<V>[] | undefined,
  overlay: readonly Overlay<V>[] | undefined,
  isSame: (a: V, b: V) => boolean,
): readonly V[] {
  const values: V[] = [];
  const add = (value: V): void => {
    if (!values.some((other) => isSame(other, value))) values.push(value);
  };
  for (const { holder, value } of held ?? []) {
    if (overlay?.some((each) => each.isCertain && each.holder === holder) !== true) add(value);
  }
  for (const { value } of overlay ?? []) add(value);
  return values;
}

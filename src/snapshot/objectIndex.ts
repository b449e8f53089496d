import type { KubeObject } from "../model/objects/object.ts";
import type { KindChange } from "./kindTable.ts";

/** The values under which an object is found. Pure: called again when the object is deleted. */
export type IndexKeys<T extends KubeObject> = (object: T) => readonly string[];

/**
 * The type of a callback that a cache calls with its own objects only. It is written as a method, whose parameters are
 * bivariant: a cache of pods is then assignable to a cache of objects.
 */
export type Kept<G, R = void> = { call(given: G): R }["call"];

interface Bucket<T> {
  readonly objects: Map<string, T>;
  /** In order of key; sorted at the first read and kept until the bucket changes. */
  sorted: readonly T[] | undefined;
}

const nothing: readonly never[] = [];

/** Finds the objects of a cache by a value that is computed from each: pods by node, dependents by owner. */
export class ObjectIndex<T extends KubeObject = KubeObject> {
  private readonly keysOf: Kept<T, readonly string[]>;
  private readonly buckets = new Map<string, Bucket<T>>();

  constructor(keysOf: IndexKeys<T>) {
    this.keysOf = keysOf;
  }

  /** In order of key. */
  get(value: string): readonly T[] {
    const bucket = this.buckets.get(value);
    if (bucket === undefined) return nothing;
    bucket.sorted ??= [...bucket.objects].sort(byKey).map(([, object]) => object);
    return bucket.sorted;
  }

  /** For a value that at most one object has; the first by key if there are more. */
  first(value: string): T | undefined {
    return this.get(value)[0];
  }

  /** How many there are, without putting them in order. */
  count(value: string): number {
    return this.buckets.get(value)?.objects.size ?? 0;
  }

  /** Every value that any object has, in order. */
  values(): string[] {
    return [...this.buckets.keys()].sort();
  }

  apply(change: KindChange<T>): void {
    const before = change.type === "added" ? nothing : this.keysOf(change.before);
    const after = change.type === "deleted" ? nothing : this.keysOf(change.object);
    for (const value of before) if (!after.includes(value)) this.drop(value, change.key);
    for (const value of after) this.put(value, change.key, change.object);
  }

  private put(value: string, key: string, object: T): void {
    let bucket = this.buckets.get(value);
    if (bucket === undefined) {
      bucket = { objects: new Map(), sorted: undefined };
      this.buckets.set(value, bucket);
    }
    bucket.objects.set(key, object);
    bucket.sorted = undefined;
  }

  private drop(value: string, key: string): void {
    const bucket = this.buckets.get(value);
    if (bucket === undefined) return;
    bucket.objects.delete(key);
    bucket.sorted = undefined;
    if (bucket.objects.size === 0) this.buckets.delete(value);
  }
}

function byKey(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
}

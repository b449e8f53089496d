/**
 * The inputs of decisions are kept in collections that count changes, so that a scheduling cycle runs only when a fact
 * has changed.
 */

/** Counts the changes of facts. */
export class Changes {
  private noted = 0;

  /** While the count is the same, only the passing of time can change a decision. */
  get count(): number {
    return this.noted;
  }

  note(): void {
    this.noted++;
  }
}

export class FactMap<K, V> extends Map<K, V> {
  private readonly changes: Changes;
  private readonly isSame: (a: V, b: V) => boolean;

  /** `isSame`: whether two values lead to the same decisions. */
  constructor(changes: Changes, isSame: (a: V, b: V) => boolean = Object.is) {
    super();
    this.changes = changes;
    this.isSame = isSame;
  }

  /** Keeps the newest value. True if that changes a decision. */
  replace(key: K, value: V): boolean {
    const before = this.get(key);
    super.set(key, value);
    if (before !== undefined && this.isSame(before, value)) return false;
    this.changes.note();
    return true;
  }

  override set(key: K, value: V): this {
    this.replace(key, value);
    return this;
  }

  override delete(key: K): boolean {
    const had = super.delete(key);
    if (had) this.changes.note();
    return had;
  }

  override clear(): void {
    if (this.size > 0) this.changes.note();
    super.clear();
  }
}

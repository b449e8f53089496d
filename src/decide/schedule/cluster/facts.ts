/**
 * What decisions read is kept in collections that notice when a fact becomes another one. So whether a scheduling cycle
 * has to run follows from what changed.
 */

/** Counts the changes of facts that decide. */
export class Changes {
  private noted = 0;

  /** While it is the same, a decision differs from the last one by what time alone changes. */
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

  /** `isSame`: whether two values are the same to a decision. */
  constructor(changes: Changes, isSame: (a: V, b: V) => boolean = Object.is) {
    super();
    this.changes = changes;
    this.isSame = isSame;
  }

  /** The newest value is kept. True when it is another fact. */
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

/** The same for facts that are there or not. */
export class FactSet<K> extends Set<K> {
  private readonly changes: Changes;

  constructor(changes: Changes) {
    super();
    this.changes = changes;
  }

  override add(key: K): this {
    if (!this.has(key)) this.changes.note();
    return super.add(key);
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

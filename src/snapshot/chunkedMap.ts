/**
 * A copy-on-write map in order of key. Entries are in sorted chunks of at most 128; taking a view shares the chunks,
 * and the first write to a chunk after that copies this chunk alone. So a view of 50,000 pods is a reference, a change
 * costs about a microsecond, and iteration has the same order on every run.
 */
export interface OrderedView<V> extends Iterable<readonly [string, V]> {
  readonly size: number;
  get(key: string): V | undefined;
  has(key: string): boolean;
  keys(): Iterable<string>;
  values(): Iterable<V>;
  /** Entries whose key begins with the prefix: the objects of a namespace. */
  withPrefix(prefix: string): Iterable<readonly [string, V]>;
}

interface Chunk<V> {
  keys: string[];
  values: V[];
  /** The map may write to the chunk only in the epoch in which it created it. */
  epoch: number;
}

const chunkSizeMax = 128;

class View<V> implements OrderedView<V> {
  private readonly chunks: readonly Chunk<V>[];
  readonly size: number;

  constructor(chunks: readonly Chunk<V>[], size: number) {
    this.chunks = chunks;
    this.size = size;
  }

  get(key: string): V | undefined {
    const chunk = this.chunks[chunkFor(this.chunks, key)];
    if (chunk === undefined) return undefined;
    const at = lowerBound(chunk.keys, key);
    return chunk.keys[at] === key ? chunk.values[at] : undefined;
  }

  has(key: string): boolean {
    const chunk = this.chunks[chunkFor(this.chunks, key)];
    return chunk !== undefined && chunk.keys[lowerBound(chunk.keys, key)] === key;
  }

  *keys(): Iterable<string> {
    for (const chunk of this.chunks) yield* chunk.keys;
  }

  *values(): Iterable<V> {
    for (const chunk of this.chunks) yield* chunk.values;
  }

  *[Symbol.iterator](): Iterator<readonly [string, V]> {
    for (const { keys, values } of this.chunks) {
      for (let at = 0; at < keys.length; at++) yield [keys[at] as string, values[at] as V];
    }
  }

  *withPrefix(prefix: string): Iterable<readonly [string, V]> {
    for (let index = chunkFor(this.chunks, prefix); index < this.chunks.length; index++) {
      const { keys, values } = this.chunks[index] as Chunk<V>;
      for (let at = lowerBound(keys, prefix); at < keys.length; at++) {
        const key = keys[at] as string;
        if (!key.startsWith(prefix)) return;
        yield [key, values[at] as V];
      }
    }
  }
}

/** An empty view. */
export function emptyView<V>(): OrderedView<V> {
  return new View<V>([], 0);
}

/** The keys of both, each once and in order, with what either has for it. */
export function* walkBoth<A, B>(
  left: OrderedView<A>,
  right: OrderedView<B>,
): Iterable<readonly [string, A | undefined, B | undefined]> {
  const lefts = left[Symbol.iterator]();
  const rights = right[Symbol.iterator]();
  let a = lefts.next();
  let b = rights.next();
  while (!a.done || !b.done) {
    if (b.done || (!a.done && a.value[0] < b.value[0])) {
      if (a.done) return;
      yield [a.value[0], a.value[1], undefined];
      a = lefts.next();
    } else if (a.done || b.value[0] < a.value[0]) {
      yield [b.value[0], undefined, b.value[1]];
      b = rights.next();
    } else {
      yield [a.value[0], a.value[1], b.value[1]];
      a = lefts.next();
      b = rights.next();
    }
  }
}

export class ChunkedMap<V> {
  private chunks: Chunk<V>[] = [];
  /** Whether the list of chunks itself is shared with a view. */
  private isShared = false;
  private epoch = 0;
  private current: View<V> | undefined;
  private count = 0;
  /** The chunk of the last key that was looked up; reset when keys are added or removed. */
  private foundKey: string | undefined;
  private foundIn = 0;
  private foundAt = 0;

  get size(): number {
    return this.count;
  }

  get(key: string): V | undefined {
    const chunk = this.find(key);
    return chunk !== undefined && chunk.keys[this.foundAt] === key ? chunk.values[this.foundAt] : undefined;
  }

  /** Returns what was there. */
  set(key: string, value: V): V | undefined {
    if (this.chunks.length === 0) {
      this.ownList();
      this.chunks.push({ keys: [key], values: [value], epoch: this.epoch });
      this.count = 1;
      this.foundKey = undefined;
      return undefined;
    }
    this.find(key);
    const index = this.foundIn;
    const at = this.foundAt;
    const chunk = this.own(index);
    if (chunk.keys[at] === key) {
      const before = chunk.values[at];
      chunk.values[at] = value;
      return before;
    }
    insertAt(chunk.keys, at, key);
    insertAt(chunk.values, at, value);
    this.count++;
    this.foundKey = undefined;
    if (chunk.keys.length > chunkSizeMax) this.split(index, chunk, at === chunk.keys.length - 1);
    return undefined;
  }

  /** Returns what was there. */
  delete(key: string): V | undefined {
    const found = this.find(key);
    const index = this.foundIn;
    const at = this.foundAt;
    if (found === undefined || found.keys[at] !== key) return undefined;
    this.foundKey = undefined;
    const chunk = this.own(index);
    const before = chunk.values[at];
    chunk.keys.splice(at, 1);
    chunk.values.splice(at, 1);
    this.count--;
    this.mergeIfSmall(index, chunk);
    return before;
  }

  clear(): void {
    this.chunks = [];
    this.isShared = false;
    this.current = undefined;
    this.count = 0;
    this.foundKey = undefined;
  }

  /** An immutable view of the current entries. */
  view(): OrderedView<V> {
    if (this.current === undefined) {
      this.current = new View(this.chunks, this.count);
      this.isShared = true;
      this.epoch++;
    }
    return this.current;
  }

  /** Remembers the chunk of the last key: a read is usually followed by a write of the same key. */
  private find(key: string): Chunk<V> | undefined {
    if (this.foundKey === key) return this.chunks[this.foundIn];
    const index = chunkFor(this.chunks, key);
    const chunk = this.chunks[index];
    if (chunk === undefined) return undefined;
    this.foundKey = key;
    this.foundIn = index;
    this.foundAt = lowerBound(chunk.keys, key);
    return chunk;
  }

  private ownList(): void {
    this.current = undefined;
    if (!this.isShared) return;
    this.chunks = this.chunks.slice();
    this.isShared = false;
  }

  private own(index: number): Chunk<V> {
    this.ownList();
    const chunk = this.chunks[index] as Chunk<V>;
    if (chunk.epoch === this.epoch) return chunk;
    const copy = { keys: chunk.keys.slice(), values: chunk.values.slice(), epoch: this.epoch };
    this.chunks[index] = copy;
    return copy;
  }

  /** Keys that only grow (a first list in order) leave full chunks behind instead of half-empty ones. */
  private split(index: number, chunk: Chunk<V>, isGrowingAtEnd: boolean): void {
    const at = isGrowingAtEnd ? chunk.keys.length - 1 : chunk.keys.length >> 1;
    const right = { keys: chunk.keys.splice(at), values: chunk.values.splice(at), epoch: this.epoch };
    this.chunks.splice(index + 1, 0, right);
  }

  private mergeIfSmall(index: number, chunk: Chunk<V>): void {
    if (chunk.keys.length === 0) {
      this.chunks.splice(index, 1);
      return;
    }
    const next = this.chunks[index + 1];
    if (next === undefined || chunk.keys.length + next.keys.length > chunkSizeMax / 2) return;
    chunk.keys.push(...next.keys);
    chunk.values.push(...next.values);
    this.chunks.splice(index + 1, 1);
  }
}

/** The chunk in which the key is or would be: the last one that does not begin behind it. */
function chunkFor<V>(chunks: readonly Chunk<V>[], key: string): number {
  let low = 0;
  let high = chunks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (((chunks[middle] as Chunk<V>).keys[0] as string) <= key) low = middle;
    else high = middle - 1;
  }
  return low;
}

function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

function insertAt<T>(list: T[], at: number, value: T): void {
  if (at === list.length) list.push(value);
  else list.splice(at, 0, value);
}

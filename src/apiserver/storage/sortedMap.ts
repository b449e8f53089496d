/**
 * A map in key order with cheap insertion. Keys are in chunks of bounded length, so one insertion moves a few hundred
 * references and not fifty thousand; a range read finds its first chunk by binary search.
 */
const chunkLengthMax = 512;

interface Chunk<V> {
  keys: string[];
  values: V[];
}

export class SortedMap<V> {
  private readonly chunks: Chunk<V>[] = [];
  private readonly byKey = new Map<string, V>();

  get size(): number {
    return this.byKey.size;
  }

  get(key: string): V | undefined {
    return this.byKey.get(key);
  }

  set(key: string, value: V): void {
    const known = this.byKey.has(key);
    this.byKey.set(key, value);
    if (this.chunks.length === 0) {
      this.chunks.push({ keys: [key], values: [value] });
      return;
    }
    const at = this.chunkOf(key);
    const chunk = this.chunks[at] as Chunk<V>;
    const index = lowerBound(chunk.keys, key);
    if (known) {
      chunk.values[index] = value;
      return;
    }
    chunk.keys.splice(index, 0, key);
    chunk.values.splice(index, 0, value);
    if (chunk.keys.length > chunkLengthMax) this.split(at);
  }

  delete(key: string): boolean {
    if (!this.byKey.delete(key)) return false;
    const at = this.chunkOf(key);
    const chunk = this.chunks[at] as Chunk<V>;
    const index = lowerBound(chunk.keys, key);
    chunk.keys.splice(index, 1);
    chunk.values.splice(index, 1);
    if (chunk.keys.length === 0) this.chunks.splice(at, 1);
    return true;
  }

  /** Values whose key is at least `from` and below `to`, in order. The map must not change during the iteration. */
  *range(from: string, to: string | undefined): Generator<V> {
    if (this.chunks.length === 0) return;
    for (let at = this.chunkOf(from); at < this.chunks.length; at++) {
      const { keys, values } = this.chunks[at] as Chunk<V>;
      const first = keys[0] as string;
      const start = first >= from ? 0 : lowerBound(keys, from);
      const lastKey = keys[keys.length - 1] as string;
      const end = to === undefined || lastKey < to ? keys.length : lowerBound(keys, to);
      for (let index = start; index < end; index++) yield values[index] as V;
      if (end < keys.length) return;
    }
  }

  /** How many keys are at least `from` and below `to`. Costs a step per chunk. */
  countRange(from: string, to: string | undefined): number {
    let count = 0;
    if (this.chunks.length === 0) return count;
    for (let at = this.chunkOf(from); at < this.chunks.length; at++) {
      const { keys } = this.chunks[at] as Chunk<V>;
      const start = (keys[0] as string) >= from ? 0 : lowerBound(keys, from);
      const end = to === undefined || (keys[keys.length - 1] as string) < to ? keys.length : lowerBound(keys, to);
      count += Math.max(0, end - start);
      if (end < keys.length) break;
    }
    return count;
  }

  values(): Generator<V> {
    return this.range("", undefined);
  }

  /** The chunk of the key, existing or new. */
  private chunkOf(key: string): number {
    let low = 0;
    let high = this.chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (((this.chunks[middle] as Chunk<V>).keys[0] as string) <= key) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private split(at: number): void {
    const chunk = this.chunks[at] as Chunk<V>;
    // Names often arrive in ascending order; splitting near the end then leaves full chunks behind instead of half-full
    // ones.
    const cut = at === this.chunks.length - 1 ? chunkLengthMax - 16 : chunk.keys.length >>> 1;
    const tail: Chunk<V> = { keys: chunk.keys.splice(cut), values: chunk.values.splice(cut) };
    this.chunks.splice(at + 1, 0, tail);
  }
}

/** Index of the first key that is not below the wanted one. */
function lowerBound(keys: readonly string[], wanted: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

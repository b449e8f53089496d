/** Completion indexes of an Indexed Job, and the text form in which a status keeps many of them: `0-4,7,9`. */
import type { Job, Pod } from "../../../model/kubernetes.generated.ts";

export const indexKey = "batch.kubernetes.io/job-completion-index";
export const failureCountKey = "batch.kubernetes.io/job-index-failure-count";

export function isIndexed({ spec }: Job): boolean {
  return spec?.completionMode === "Indexed";
}

/** The completion index of the pod; undefined without a valid one. */
export function indexOf(job: Job, { metadata }: Pod): number | undefined {
  const text = metadata.annotations?.[indexKey];
  if (text === undefined || !/^[0-9]+$/.test(text)) return undefined;
  const index = Number(text);
  return index < (job.spec?.completions ?? 0) ? index : undefined;
}

interface Range {
  readonly first: number;
  readonly last: number;
}

/** A set of integers, stored as ranges: `0-2147483646` is one range, not two billion numbers. */
export class IndexSet {
  /** Sorted, with a gap between neighbours. */
  readonly #ranges: readonly Range[];
  readonly #more: Set<number>;

  constructor(ranges: readonly Range[] = [], more: Iterable<number> = []) {
    this.#ranges = joined(ranges);
    this.#more = new Set();
    for (const index of more) this.add(index);
  }

  get size(): number {
    let size = this.#more.size;
    for (const { first, last } of this.#ranges) size += last - first + 1;
    return size;
  }

  has(index: number): boolean {
    return this.#more.has(index) || this.#rangeOf(index) !== undefined;
  }

  add(index: number): void {
    if (!this.has(index)) this.#more.add(index);
  }

  copy(): IndexSet {
    return new IndexSet(this.#ranges, this.#more);
  }

  /** The first number from here on that is not in the set. */
  gapFrom(index: number): number {
    let at = index;
    for (;;) {
      const range = this.#rangeOf(at);
      if (range !== undefined) at = range.last + 1;
      else if (this.#more.has(at)) at++;
      else return at;
    }
  }

  /** All of it as ranges, in order. */
  ranges(): readonly Range[] {
    return joined([...this.#ranges, ...[...this.#more].map((index) => ({ first: index, last: index }))]);
  }

  /** How many numbers both sets have. */
  countIn(other: IndexSet): number {
    const [ours, theirs] = [this.ranges(), other.ranges()];
    let count = 0;
    for (let a = 0, b = 0; a < ours.length && b < theirs.length; ) {
      const [x, y] = [ours[a] as Range, theirs[b] as Range];
      count += Math.max(0, Math.min(x.last, y.last) - Math.max(x.first, y.first) + 1);
      if (x.last < y.last) a++;
      else b++;
    }
    return count;
  }

  #rangeOf(index: number): Range | undefined {
    let low = 0;
    let high = this.#ranges.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const range = this.#ranges[middle] as Range;
      if (range.last < index) low = middle + 1;
      else high = middle;
    }
    const found = this.#ranges[low];
    return found !== undefined && found.first <= index ? found : undefined;
  }
}

function joined(ranges: readonly Range[]): Range[] {
  const out: Range[] = [];
  for (const range of [...ranges].sort((a, b) => a.first - b.first)) {
    const before = out.at(-1);
    if (before === undefined || before.last + 1 < range.first) out.push(range);
    else if (range.last > before.last) out[out.length - 1] = { first: before.first, last: range.last };
  }
  return out;
}

/** Parses the text; indexes at or beyond `end` are left out, as after the completions were reduced. */
export function parseIndexes(text: string | undefined, end: number): IndexSet {
  const ranges: Range[] = [];
  for (const part of text === undefined || text === "" ? [] : text.split(",")) {
    const [first = "", last = first] = part.split("-");
    if (!/^[0-9]+$/.test(first) || !/^[0-9]+$/.test(last)) continue;
    const range = { first: Number(first), last: Math.min(Number(last), end - 1) };
    if (range.first <= range.last) ranges.push(range);
  }
  return new IndexSet(ranges);
}

/** Sorted, with neighbours as ranges: `1,3-4,6-9`. */
export function formatIndexes(indexes: IndexSet): string {
  return indexes
    .ranges()
    .map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`))
    .join(",");
}

export function countOf({ metadata }: Pod, key: string): number {
  const text = metadata.annotations?.[key];
  return text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : 0;
}

/**
 * The event queue of a run, on a virtual clock of whole microseconds. Events are ordered by time, then by key, then by
 * insertion.
 */
export class Schedule {
  nowUs = 0;
  private readonly heap: Entry[] = [];
  private added = 0;

  get size(): number {
    return this.heap.length;
  }

  /** The time of the next event, which may still be cancelled; undefined when the queue is empty. */
  get nextUs(): number | undefined {
    return this.heap[0]?.timeUs;
  }

  /** Adds an event; the returned function cancels it. */
  at(timeUs: number, tie: number, run: () => void): () => void {
    const entry: Entry = { timeUs: Math.max(timeUs, this.nowUs), tie, order: this.added++, run };
    this.heap.push(entry);
    this.up(this.heap.length - 1);
    return () => {
      entry.run = undefined;
    };
  }

  /** Advances the clock to the next event and returns it; undefined when the queue is empty. */
  next(): (() => void) | undefined {
    for (;;) {
      const entry = this.pop();
      if (entry === undefined) return undefined;
      // A cancelled event does not advance the clock.
      if (entry.run === undefined) continue;
      this.nowUs = entry.timeUs;
      return entry.run;
    }
  }

  private pop(): Entry | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) return undefined;
    if (heap.length > 0) {
      heap[0] = last;
      this.down(0);
    }
    return first;
  }

  private up(from: number): void {
    const { heap } = this;
    let at = from;
    const entry = heap[at] as Entry;
    while (at > 0) {
      const parent = (at - 1) >>> 1;
      if (!before(entry, heap[parent] as Entry)) break;
      heap[at] = heap[parent] as Entry;
      at = parent;
    }
    heap[at] = entry;
  }

  private down(from: number): void {
    const { heap } = this;
    let at = from;
    const entry = heap[at] as Entry;
    for (;;) {
      let child = at * 2 + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Entry, heap[child] as Entry)) child++;
      if (!before(heap[child] as Entry, entry)) break;
      heap[at] = heap[child] as Entry;
      at = child;
    }
    heap[at] = entry;
  }
}

interface Entry {
  readonly timeUs: number;
  readonly tie: number;
  readonly order: number;
  run: (() => void) | undefined;
}

function before(a: Entry, b: Entry): boolean {
  if (a.timeUs !== b.timeUs) return a.timeUs < b.timeUs;
  return a.tie !== b.tie ? a.tie < b.tie : a.order < b.order;
}

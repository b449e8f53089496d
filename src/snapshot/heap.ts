/** A binary heap: `pop` returns the least item by the comparison. The comparison must never return 0. */
export class Heap<T> {
  private readonly items: T[] = [];
  private readonly compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.compare = compare;
  }

  get size(): number {
    return this.items.length;
  }

  get first(): T | undefined {
    return this.items[0];
  }

  push(item: T): void {
    const { items } = this;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent] as T;
      if (this.compare(above, item) <= 0) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }

  pop(): T | undefined {
    const { items } = this;
    const top = items[0];
    const last = items.pop();
    if (items.length === 0 || last === undefined) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && this.compare(items[child + 1] as T, items[child] as T) < 0) child++;
      const below = items[child] as T;
      if (this.compare(last, below) <= 0) break;
      items[at] = below;
      at = child;
    }
    items[at] = last;
    return top;
  }
}

/**
 * Returns a function that reports, item by item, whether an earlier item had the same key. Searching the list from its
 * start for each item would be quadratic, and a body of 3 MiB has room for tens of thousands of items.
 */
export function repeats(): (...key: readonly unknown[]) => boolean {
  let count = 0;
  let first: unknown;
  // Most lists have one item.
  let seen: Set<unknown> | undefined;
  return (...key) => {
    const known = key.length === 1 ? key[0] : JSON.stringify(key);
    if (count++ === 0) {
      first = known;
      return false;
    }
    seen ??= new Set([first]);
    if (seen.has(known)) return true;
    seen.add(known);
    return false;
  };
}

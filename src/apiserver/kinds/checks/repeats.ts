/**
 * Says of items, one after the other, whether one before had the same key. A list that is searched from its start for
 * each of its items costs the square of its length, and a body of 3 MiB has room for tens of thousands of items.
 */
export function repeats(): (...key: readonly unknown[]) => boolean {
  const seen = new Set<unknown>();
  return (...key) => {
    const known = key.length === 1 ? key[0] : JSON.stringify(key);
    if (seen.has(known)) return true;
    seen.add(known);
    return false;
  };
}

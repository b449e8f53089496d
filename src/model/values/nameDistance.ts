/** The number of characters to insert, delete or replace; none if `other` begins with `one`. */
export function nameDistance(one: string, other: string): number {
  if (other.startsWith(one)) return 0;
  let before = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (before[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (before[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    before = row;
  }
  return before[other.length] ?? 0;
}

/** The known names with the most similar one first. */
export function byDistance(given: string, known: readonly string[]): string[] {
  return [...known]
    .map((name) => ({ name, distance: nameDistance(given, name) }))
    .sort((one, other) => one.distance - other.distance || (one.name < other.name ? -1 : 1))
    .map(({ name }) => name);
}

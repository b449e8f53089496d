/** Adds all items to a list. `push(...items)` puts them on the stack, which overflows with 100,000 of them. */
export function append<T>(target: T[], items: Iterable<T>): void {
  for (const item of items) target.push(item);
}

/** Cliques that wait for each other in a cycle: the strongly connected components of the start order (Tarjan). */
import type { CliqueTemplate } from "./types.ts";

export function startupCycles(cliques: readonly CliqueTemplate[]): string[][] {
  const waitsFor = new Map(cliques.map(({ name, spec }) => [name, spec.startsAfter ?? []]));
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (name: string): void => {
    order.set(name, order.size);
    low.set(name, order.get(name) ?? 0);
    stack.push(name);
    for (const next of waitsFor.get(name) ?? []) {
      if (!waitsFor.has(next)) continue;
      if (!order.has(next)) {
        visit(next);
        low.set(name, Math.min(low.get(name) ?? 0, low.get(next) ?? 0));
      } else if (stack.includes(next)) low.set(name, Math.min(low.get(name) ?? 0, order.get(next) ?? 0));
    }
    if (low.get(name) !== order.get(name)) return;
    const part = stack.splice(stack.indexOf(name));
    if (part.length > 1) cycles.push(part);
  };
  for (const name of waitsFor.keys()) if (!order.has(name)) visit(name);
  return cycles;
}

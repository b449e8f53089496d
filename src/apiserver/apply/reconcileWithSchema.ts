import { type FieldSet, holdsSelf, leaf } from "./fieldSet.ts";
import type { Shape } from "./shape.ts";

/**
 * A CustomResourceDefinition may change a granular type to an atomic one while objects exist. A manager that owned a
 * field inside then owns the atomic value. The opposite change needs nothing, as upstream: the owner of the atomic
 * value owns the path.
 */
export function reconcileWithSchema(shape: Shape, set: FieldSet | undefined): FieldSet | undefined {
  if (set === undefined) return undefined;
  let changed: Record<string, FieldSet> | undefined;
  for (const element in set) {
    const child = set[element] as FieldSet;
    const below = element.startsWith("f:")
      ? (shape.field(element.slice(2))?.shape ?? shape.undeclared)
      : shape.kind === "list"
        ? shape.items
        : undefined;
    if (element === "." || below === undefined) continue;
    const reconciled = below.kind === "leaf" ? leaf : reconcileWithSchema(below, child);
    if (reconciled === child || reconciled === undefined) continue;
    if (reconciled === leaf && isBare(child)) continue;
    changed ??= { ...set };
    changed[element] = reconciled;
  }
  return changed ?? set;
}

function isBare(node: FieldSet): boolean {
  return holdsSelf(node) && node["."] === undefined;
}

import { assemble, type FieldSet, holdsSelf, withSelf } from "./fieldSet.ts";
import { type Fields, formOf, put, type Shape } from "./shape.ts";

/**
 * The value without the fields and items that the set names; a path inside an atomic value removes all of it. Undefined
 * if nothing is left. Shares unchanged subtrees with the value. A container that is emptied but not itself in the set
 * stays as an empty map or list; upstream leaves a null there, which the schema of a custom resource would then reject.
 */
export function removeItems(shape: Shape, value: unknown, set: FieldSet | undefined): unknown {
  if (set === undefined) return value;
  switch (formOf(shape, value)) {
    case "leaf":
      return typeof value === "object" && value !== null ? undefined : value;
    case "fields": {
      if (value === null) return undefined;
      const kept: Record<string, unknown> = {};
      let count = 0;
      for (const name in value as Fields) {
        let below = (value as Fields)[name];
        if (below === undefined) continue;
        const field = shape.field(name);
        const named = set[field === undefined ? `f:${name}` : field.element];
        if (named !== undefined) {
          if (holdsSelf(named)) continue;
          const shapeBelow = field === undefined ? shape.undeclared : field.shape;
          if (shapeBelow !== undefined) below = removeItems(shapeBelow, below, named) ?? emptyOf(below);
        }
        put(kept, name, below);
        count++;
      }
      return count === 0 ? undefined : kept;
    }
    case "list": {
      if (value === null) return undefined;
      const kept: unknown[] = [];
      for (const item of value as unknown[]) {
        const named = set[shape.nameItem(item)];
        if (named === undefined) kept.push(item);
        else if (!holdsSelf(named)) kept.push(removeItems(shape.items, item, named) ?? emptyOf(item));
      }
      return kept.length === 0 ? undefined : kept;
    }
  }
}

/** Only the fields and items that the set names, down to where its paths end. */
export function extractItems(shape: Shape, value: unknown, set: FieldSet | undefined): unknown {
  if (set === undefined) return undefined;
  const form = formOf(shape, value);
  if (form === "leaf" || value === null) return value;
  if (form === "fields") {
    const kept: Record<string, unknown> = {};
    let count = 0;
    for (const name in value as Fields) {
      const below = (value as Fields)[name];
      const field = shape.field(name);
      const named = set[field === undefined ? `f:${name}` : field.element];
      const shapeBelow = field === undefined ? shape.undeclared : field.shape;
      if (below === undefined || named === undefined || shapeBelow === undefined) continue;
      const extracted = extractItems(shapeBelow, below, named);
      put(kept, name, extracted ?? emptyOf(below));
      count++;
    }
    return count === 0 ? undefined : kept;
  }
  const kept: unknown[] = [];
  for (const item of value as unknown[]) {
    const named = set[shape.nameItem(item)];
    if (named !== undefined) kept.push(extractItems(shape.items, item, named) ?? emptyOf(item));
  }
  return kept.length === 0 ? undefined : kept;
}

/** The empty form of a container that is owned while nothing in it is. */
function emptyOf(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return typeof value === "object" && value !== null ? {} : value;
}

/**
 * Adds every declared field on the way to an owned path. Applying `spec.replicas` does not make a manager own `spec`,
 * but when all applied fields below a field are removed, the field has to be removed too.
 */
export function withDeclaredFields(shape: Shape | undefined, set: FieldSet | undefined): FieldSet | undefined {
  if (set === undefined || shape === undefined) return set;
  const elements: string[] = [];
  const children: FieldSet[] = [];
  for (const element in set) {
    if (element === ".") continue;
    const child = set[element] as FieldSet;
    const field = element.startsWith("f:") && shape.kind === "fields" ? shape.field(element.slice(2)) : undefined;
    const below = element.startsWith("f:") ? (field?.shape ?? shape.undeclared) : itemsOf(shape);
    const deeper = withDeclaredFields(below, child) ?? child;
    elements.push(element);
    children.push(field === undefined ? deeper : withSelf(deeper));
  }
  return assemble(holdsSelf(set), elements, children);
}

function itemsOf(shape: Shape): Shape | undefined {
  return shape.kind === "list" ? shape.items : undefined;
}

import { assemble, type FieldSet, holdsSelf, leaf } from "./fieldSet.ts";
import { type Field, type Fields, formOf, isEmptyFields, type Shape } from "./shape.ts";

/**
 * The paths that come into being with a value: every leaf, and every container that was not there before. Comparing
 * with nothing and comparing two objects must agree on this, so both use it.
 *
 * `overEmpty` says that a typed server's empty value stands in this place already: a new pod does not bring its `spec`
 * into being, for an empty pod has one, but it does bring its labels. `skip` are paths that are never tracked.
 */
export function createdFields(
  shape: Shape,
  value: unknown,
  overEmpty: boolean,
  skip: FieldSet | undefined,
): FieldSet | undefined {
  switch (shape.kind === "leaf" ? "leaf" : formOf(shape, value)) {
    case "leaf":
      return overEmpty && isZero(value) ? undefined : leaf;
    case "fields":
      if (value === null || isEmptyFields(value as Fields)) return overEmpty ? undefined : leaf;
      return createdBelow(shape, value as Fields, overEmpty, skip);
    case "list":
      if (value === null || (value as unknown[]).length === 0) return overEmpty && value === null ? undefined : leaf;
      return createdItems(shape, value as unknown[], !overEmpty);
  }
}

function createdBelow(
  shape: Shape,
  value: Fields,
  overEmpty: boolean,
  skip: FieldSet | undefined,
): FieldSet | undefined {
  const ranked: Field[] = [];
  const children: FieldSet[] = [];
  let elements: string[] | undefined;
  let others: FieldSet[] | undefined;
  for (const name in value) {
    const below = value[name];
    if (below === undefined) continue;
    const field = shape.field(name);
    if (field === undefined) {
      const undeclared = shape.undeclared;
      if (undeclared === undefined) continue;
      const child = createdFields(undeclared, below, false, undefined);
      if (child === undefined) continue;
      elements ??= [];
      others ??= [];
      elements.push(`f:${name}`);
      others.push(child);
      continue;
    }
    const skipBelow = skip?.[field.element];
    if (skipBelow !== undefined && holdsSelf(skipBelow)) continue;
    // A container of which only parts are skipped is metadata, which itself is not tracked.
    const isThere = skipBelow !== undefined || (overEmpty && field.isInEmpty);
    const child =
      field.shape.kind === "leaf" && !isThere ? leaf : createdFields(field.shape, below, isThere, skipBelow);
    if (child === undefined) continue;
    // Insertion by rank: objects mostly arrive in the order of their schema or of the alphabet, so this hardly moves.
    let place = ranked.length;
    while (place > 0 && (ranked[place - 1] as Field).rank > field.rank) {
      ranked[place] = ranked[place - 1] as Field;
      children[place] = children[place - 1] as FieldSet;
      place--;
    }
    ranked[place] = field;
    children[place] = child;
  }
  if (elements !== undefined && others !== undefined) {
    for (const field of ranked) elements.push(field.element);
    others.push(...children);
    return assemble(!overEmpty, elements, others);
  }
  if (ranked.length === 0) return overEmpty ? undefined : leaf;
  const node: Record<string, FieldSet> = {};
  if (!overEmpty) node["."] = leaf;
  for (let i = 0; i < ranked.length; i++) node[(ranked[i] as Field).element] = children[i] as FieldSet;
  return node;
}

function createdItems(shape: Shape, items: readonly unknown[], includesSelf: boolean): FieldSet | undefined {
  const elements: string[] = [];
  const children: FieldSet[] = [];
  const below = shape.items;
  for (const item of items) {
    const element = shape.nameItem(item);
    // Items that share a name cannot be told apart, so the name alone is tracked.
    const twin = elements.indexOf(element);
    if (twin >= 0) {
      children[twin] = leaf;
      continue;
    }
    elements.push(element);
    children.push(createdFields(below, item, false, undefined) as FieldSet);
  }
  return assemble(includesSelf, elements, children);
}

/**
 * The paths that somebody who applies this value asks for. Unlike what is created, a struct or a list is not asked for
 * by its content: two appliers may both fill it, and neither removes it. Keyed items, the keys of a map, and what is
 * given as empty are asked for themselves.
 */
export function appliedFields(shape: Shape, value: unknown): FieldSet | undefined {
  switch (formOf(shape, value)) {
    case "leaf":
      return leaf;
    case "fields":
      return value === null ? undefined : appliedBelow(shape, value as Fields);
    case "list":
      return value === null ? undefined : appliedItems(shape, value as unknown[]);
  }
}

function appliedBelow(shape: Shape, value: Fields): FieldSet | undefined {
  const elements: string[] = [];
  const children: FieldSet[] = [];
  for (const name in value) {
    const below = value[name];
    if (below === undefined) continue;
    const field = shape.field(name);
    const shapeBelow = field === undefined ? shape.undeclared : field.shape;
    if (shapeBelow === undefined) continue;
    let child = appliedFields(shapeBelow, below);
    const isEmpty =
      below === null || (typeof below === "object" && !Array.isArray(below) && isEmptyFields(below as Fields));
    if (isEmpty || field === undefined) child = child === undefined ? leaf : asMember(child);
    if (child === undefined) continue;
    elements.push(field === undefined ? `f:${name}` : field.element);
    children.push(child);
  }
  return assemble(false, elements, children);
}

function appliedItems(shape: Shape, items: readonly unknown[]): FieldSet | undefined {
  const elements: string[] = [];
  const children: FieldSet[] = [];
  for (const item of items) {
    const element = shape.nameItem(item);
    const twin = elements.indexOf(element);
    if (twin >= 0) {
      children[twin] = leaf;
      continue;
    }
    elements.push(element);
    const child = appliedFields(shape.items, item);
    children.push(child === undefined ? leaf : asMember(child));
  }
  return assemble(false, elements, children);
}

function asMember(node: FieldSet): FieldSet {
  return holdsSelf(node) ? node : { ".": leaf, ...node };
}

/** What Go would have in an empty struct for a scalar. */
function isZero(value: unknown): boolean {
  return value === "" || value === 0 || value === false || value === null;
}

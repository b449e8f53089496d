import { equalJson } from "../../model/objects/json.ts";
import { assemble, type FieldSet, holdsSelf, leaf } from "./fieldSet.ts";
import { type Fields, formOf, get, isEmptyFields, type Shape } from "./shape.ts";
import { createdFields } from "./trackedFields.ts";

/** The differences between two objects: paths that are new or have a new value, and paths that are gone. */
export interface Comparison {
  readonly changed: FieldSet | undefined;
  readonly removed: FieldSet | undefined;
}

/**
 * Compares two objects by their schema; undefined when nothing that is tracked differs. Equal subtrees are skipped
 * without a look at the schema, since most writes change a handful of leaves. Throws UnnamedItemError.
 */
export function compareObjects(
  shape: Shape,
  before: unknown,
  after: unknown,
  skip: FieldSet | undefined,
): Comparison | undefined {
  if (before === after) return undefined;
  if (before === undefined) return comparison(createdFields(shape, after, false, skip), undefined);
  if (after === undefined) return comparison(undefined, createdFields(shape, before, false, skip));
  if (shape.kind === "leaf") return equalJson(before, after) ? undefined : changedLeaf;
  const formBefore = formOf(shape, before);
  const formAfter = formOf(shape, after);
  if (formBefore !== formAfter && before !== null && after !== null) {
    // The path itself changed, and so did everything below it on the side that has children.
    const gone = formBefore === "leaf" ? undefined : createdFields(shape, before, true, skip);
    const come = formAfter === "leaf" ? undefined : createdFields(shape, after, true, skip);
    return comparison(come === undefined ? leaf : { ".": leaf, ...come }, gone);
  }
  switch (before === null ? formAfter : formBefore) {
    case "leaf":
      return equalJson(before, after) ? undefined : changedLeaf;
    case "fields": {
      const left = (before ?? empty) as Fields;
      const right = (after ?? empty) as Fields;
      if (isEmptyFields(left) && isEmptyFields(right))
        return (before === null) === (after === null) ? undefined : changedLeaf;
      return compareFields(shape, left, right, skip);
    }
    case "list": {
      const left = (before ?? []) as unknown[];
      const right = (after ?? []) as unknown[];
      if (left.length === 0 && right.length === 0) return before === null || after === null ? changedLeaf : undefined;
      return compareLists(shape, left, right);
    }
  }
}

const empty: Fields = Object.freeze({});
const changedLeaf: Comparison = { changed: leaf, removed: undefined };

function comparison(changed: FieldSet | undefined, removed: FieldSet | undefined): Comparison | undefined {
  return changed === undefined && removed === undefined ? undefined : { changed, removed };
}

/** Collects the differences below one path, without allocating until there is one. */
class Gathered {
  #changedElements: string[] | undefined;
  #changed: FieldSet[] | undefined;
  #removedElements: string[] | undefined;
  #removed: FieldSet[] | undefined;

  add(element: string, found: Comparison): void {
    if (found.changed !== undefined) {
      this.#changedElements ??= [];
      this.#changed ??= [];
      this.#changedElements.push(element);
      this.#changed.push(found.changed);
    }
    if (found.removed !== undefined) {
      this.#removedElements ??= [];
      this.#removed ??= [];
      this.#removedElements.push(element);
      this.#removed.push(found.removed);
    }
  }

  finish(): Comparison | undefined {
    return comparison(
      this.#changed && assemble(false, this.#changedElements ?? [], this.#changed),
      this.#removed && assemble(false, this.#removedElements ?? [], this.#removed),
    );
  }
}

function compareFields(
  shape: Shape,
  before: Fields,
  after: Fields,
  skip: FieldSet | undefined,
): Comparison | undefined {
  let gathered: Gathered | undefined;
  for (const name in after) {
    const right = after[name];
    const left = get(before, name);
    if (left === right || right === undefined) continue;
    const found = compareField(shape, name, left, right, skip);
    if (found === undefined) continue;
    gathered ??= new Gathered();
    gathered.add(found.element, found);
  }
  for (const name in before) {
    if (before[name] === undefined || get(after, name) !== undefined) continue;
    const found = compareField(shape, name, before[name], undefined, skip);
    if (found === undefined) continue;
    gathered ??= new Gathered();
    gathered.add(found.element, found);
  }
  return gathered?.finish();
}

function compareField(
  shape: Shape,
  name: string,
  left: unknown,
  right: unknown,
  skip: FieldSet | undefined,
): (Comparison & { element: string }) | undefined {
  const field = shape.field(name);
  const below = field === undefined ? shape.undeclared : field.shape;
  if (below === undefined) return undefined;
  const element = field === undefined ? `f:${name}` : field.element;
  const skipBelow = skip?.[element];
  if (skipBelow !== undefined && holdsSelf(skipBelow)) return undefined;
  // A Go struct always has this field, so it is neither added nor removed; only its content changes.
  const isAlwaysThere = field?.isInEmpty === true;
  const found =
    left === undefined && isAlwaysThere
      ? comparison(createdFields(below, right, true, skipBelow), undefined)
      : right === undefined && isAlwaysThere
        ? comparison(undefined, createdFields(below, left, true, skipBelow))
        : compareObjects(below, left, right, skipBelow);
  return found && { element, changed: found.changed, removed: found.removed };
}

function compareLists(shape: Shape, before: readonly unknown[], after: readonly unknown[]): Comparison | undefined {
  return pairsUp(shape, before, after) ? comparePairs(shape, before, after) : compareByName(shape, before, after);
}

/** Whether both lists have the same items in the same order and no key twice, which is the common case. */
function pairsUp(shape: Shape, before: readonly unknown[], after: readonly unknown[]): boolean {
  const count = before.length;
  if (count !== after.length || count > 16) return false;
  for (let i = 0; i < count; i++) {
    if (!shape.isSameItem(before[i], after[i])) return false;
    for (let j = 0; j < i; j++) if (shape.isSameItem(before[i], before[j])) return false;
  }
  return true;
}

function comparePairs(shape: Shape, before: readonly unknown[], after: readonly unknown[]): Comparison | undefined {
  const below = shape.items;
  let gathered: Gathered | undefined;
  for (let i = 0; i < before.length; i++) {
    const found = compareObjects(below, before[i], after[i], undefined);
    if (found === undefined) continue;
    gathered ??= new Gathered();
    gathered.add(shape.nameItem(after[i]), found);
  }
  return gathered?.finish();
}

/**
 * Matches items by key, in any order. A key that occurs twice stands for all its items together: nothing below it is
 * tracked until it is unique again.
 */
function compareByName(shape: Shape, before: readonly unknown[], after: readonly unknown[]): Comparison | undefined {
  const below = shape.items;
  const left = byName(shape, before);
  const right = byName(shape, after);
  const gathered = new Gathered();
  for (const [element, items] of right) {
    const found = compareItems(below, left.get(element) ?? none, items);
    if (found !== undefined) gathered.add(element, found);
  }
  for (const [element, items] of left) {
    if (right.has(element)) continue;
    const found = compareItems(below, items, none);
    if (found !== undefined) gathered.add(element, found);
  }
  return gathered.finish();
}

const none: readonly unknown[] = [];

function compareItems(below: Shape, before: readonly unknown[], after: readonly unknown[]): Comparison | undefined {
  if (before.length <= 1 && after.length <= 1) return compareObjects(below, before[0], after[0], undefined);
  if (before.length >= 2 && after.length >= 2) return equalJson(before, after) ? undefined : changedLeaf;
  if (before.length >= 2) {
    const come = after.length === 0 ? undefined : compareObjects(below, undefined, after[0], undefined);
    return comparison(come?.changed, leaf);
  }
  const gone = before.length === 0 ? undefined : compareObjects(below, before[0], undefined, undefined);
  return comparison(leaf, gone?.removed);
}

function byName(shape: Shape, items: readonly unknown[]): Map<string, unknown[]> {
  const named = new Map<string, unknown[]>();
  for (const item of items) {
    const element = shape.nameItem(item);
    const twins = named.get(element);
    if (twins === undefined) named.set(element, [item]);
    else twins.push(item);
  }
  return named;
}

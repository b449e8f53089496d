import { assemble, type FieldSet, holdsSelf, leaf } from "./fieldSet.ts";
import { Edge, Trail, trailEpoch } from "./fieldTrail.ts";
import { type Fields, formOf, isEmptyFields, type Shape } from "./shape.ts";

/**
 * The paths that are created with a value: every leaf, and every container that was not there before. Comparing with
 * nothing and comparing two objects must agree on this, so both use it.
 *
 * `overEmpty`: a Go zero value is already there. A new pod does not create its `spec`, because an empty pod has one,
 * but it does create its labels. `skip` are paths that are never tracked.
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
      return creationOf(shape, overEmpty, skip).fields(value as Fields);
    case "list":
      if (value === null || (value as unknown[]).length === 0) return overEmpty && value === null ? undefined : leaf;
      return creationOf(shape, overEmpty, undefined).items(value as unknown[]);
  }
}

/**
 * How the fields of a new container are collected, one instance for each combination of shape, `overEmpty` and `skip`.
 */
class Creation {
  readonly #shape: Shape;
  readonly #overEmpty: boolean;
  readonly #skip: FieldSet | undefined;
  #start: Trail<Creating>;
  #epoch = trailEpoch();

  constructor(shape: Shape, overEmpty: boolean, skip: FieldSet | undefined) {
    this.#shape = shape;
    this.#overEmpty = overEmpty;
    this.#skip = skip;
    this.#start = new Trail(!overEmpty);
  }

  fields(value: Fields): FieldSet | undefined {
    let trail = this.#begin();
    for (const name in value) {
      const below = value[name];
      if (below === undefined) continue;
      let edge = trail.edges.get(name);
      if (edge === undefined) {
        edge = this.#edge(name);
        trail.edges.set(name, edge);
      }
      const { shape, isThere, skip } = edge.below;
      if (shape === undefined) continue;
      const child = shape.kind === "leaf" && !isThere ? leaf : createdFields(shape, below, isThere, skip);
      if (child !== undefined) trail = trail.with(edge, child);
    }
    return trail.finish();
  }

  items(items: readonly unknown[]): FieldSet | undefined {
    let trail = this.#begin();
    const shape = this.#shape;
    const count = items.length;
    // The index of the only item with a key; -1 for a key that several items share.
    const places = new Map<string, number>();
    for (let i = 0; i < count; i++) {
      const element = shape.nameItem(items[i]);
      places.set(element, places.has(element) ? -1 : i);
    }
    // In the order in which keys are first seen.
    for (const [element, place] of places) {
      // Items with the same key are ambiguous, so only the key is tracked.
      const hasTwin = place < 0;
      let edge = trail.edges.get(element);
      if (edge === undefined) {
        edge = new Edge(element, element, { shape: shape.items, isThere: false, skip: undefined });
        trail.edges.set(element, edge);
      }
      trail = trail.with(
        edge,
        hasTwin ? leaf : (createdFields(shape.items, items[place], false, undefined) as FieldSet),
      );
    }
    return trail.finish();
  }

  #begin(): Trail<Creating> {
    const epoch = trailEpoch();
    if (epoch !== this.#epoch) {
      this.#epoch = epoch;
      this.#start = new Trail(!this.#overEmpty);
    }
    return this.#start;
  }

  #edge(name: string): Edge<Creating> {
    const field = this.#shape.field(name);
    const element = field === undefined ? `f:${name}` : field.element;
    const skip = field === undefined ? undefined : this.#skip?.[element];
    const isSkipped = skip !== undefined && holdsSelf(skip);
    return new Edge(name, element, {
      shape: isSkipped ? undefined : field === undefined ? this.#shape.undeclared : field.shape,
      // Only metadata is skipped in part, and metadata itself is not tracked.
      isThere: skip !== undefined || (this.#overEmpty && field?.isInEmpty === true),
      skip,
    });
  }
}

interface Creating {
  /** Undefined where nothing is tracked. */
  readonly shape: Shape | undefined;
  readonly isThere: boolean;
  readonly skip: FieldSet | undefined;
}

const overNothing = new WeakMap<Shape, Creation>();
const overEmpties = new WeakMap<Shape, WeakMap<FieldSet, Creation>>();
const skipNothing: FieldSet = {};

function creationOf(shape: Shape, overEmpty: boolean, skip: FieldSet | undefined): Creation {
  if (!overEmpty && skip === undefined) {
    let creation = overNothing.get(shape);
    if (creation === undefined) {
      creation = new Creation(shape, false, undefined);
      overNothing.set(shape, creation);
    }
    return creation;
  }
  // A skipped field is never a whole container here, so its parent exists already.
  let bySkip = overEmpties.get(shape);
  if (bySkip === undefined) {
    bySkip = new WeakMap();
    overEmpties.set(shape, bySkip);
  }
  let creation = bySkip.get(skip ?? skipNothing);
  if (creation === undefined) {
    creation = new Creation(shape, true, skip);
    bySkip.set(skip ?? skipNothing, creation);
  }
  return creation;
}

/**
 * The paths that an applied configuration owns. Unlike with created fields, a struct or a list is not owned through its
 * content: two appliers may both fill it, and neither removes it. Keyed items, the keys of a map, and values given as
 * empty are owned themselves.
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
  const places = new Map<string, number>();
  for (const item of items) {
    const element = shape.nameItem(item);
    const twin = places.get(element);
    if (twin !== undefined) {
      children[twin] = leaf;
      continue;
    }
    places.set(element, elements.length);
    elements.push(element);
    const child = appliedFields(shape.items, item);
    children.push(child === undefined ? leaf : asMember(child));
  }
  return assemble(false, elements, children);
}

function asMember(node: FieldSet): FieldSet {
  return holdsSelf(node) ? node : { ".": leaf, ...node };
}

/** Whether this is Go's zero value of a scalar. */
function isZero(value: unknown): boolean {
  return value === "" || value === 0 || value === false || value === null;
}

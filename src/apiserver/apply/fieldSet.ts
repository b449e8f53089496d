import { canonicalPathElement, comparePathElements, describePathElement, orderOfElements } from "./pathElement.ts";

/**
 * A set of paths in the form in which it is stored and sent: fieldsV1. A node without keys is a path in the set; a node
 * with keys is itself in the set only if one of them is `.`. Keys are in upstream's order. Nodes are immutable, so sets
 * share common subtrees, "nothing changed" is `===`, and nothing has to be encoded or decoded for the store. The empty
 * set is `undefined`.
 */
export type FieldSet = { readonly [pathElement: string]: FieldSet };

/** A path that is in the set and has nothing below it. */
export const leaf: FieldSet = Object.freeze({});

export type Path = readonly string[];

const self = ".";

function isLeaf(node: FieldSet): boolean {
  for (const _ in node) return false;
  return true;
}

/** Whether the path of this node is itself in the set. */
export function holdsSelf(node: FieldSet): boolean {
  return node[self] !== undefined || isLeaf(node);
}

/** The set of a stored entry: an entry without fields is the empty set, not a leaf. */
export function fromFieldsV1(fields: object | undefined): FieldSet | undefined {
  return fields === undefined || isLeaf(fields as FieldSet) ? undefined : (fields as FieldSet);
}

export function has(set: FieldSet | undefined, path: Path): boolean {
  let node = set;
  for (const element of path) node = node?.[element];
  return node !== undefined && path.length > 0 && holdsSelf(node);
}

export function withSelf(node: FieldSet): FieldSet {
  return holdsSelf(node) ? node : { [self]: leaf, ...node };
}

/**
 * A node from its children, in any order. Undefined without children and without self, so that no path without an end
 * is left.
 */
export function assemble(
  includesSelf: boolean,
  elements: readonly string[],
  children: readonly FieldSet[],
): FieldSet | undefined {
  const count = elements.length;
  if (count === 0) return includesSelf ? leaf : undefined;
  const node: Record<string, FieldSet> = {};
  if (includesSelf) node[self] = leaf;
  for (let i = 1; i < count; i++) {
    if (comparePathElements(elements[i - 1] as string, elements[i] as string) > 0) {
      for (const index of orderOfElements(elements)) node[elements[index] as string] = children[index] as FieldSet;
      return node;
    }
  }
  for (let i = 0; i < count; i++) node[elements[i] as string] = children[i] as FieldSet;
  return node;
}

export function union(a: FieldSet | undefined, b: FieldSet | undefined): FieldSet | undefined {
  if (a === undefined) return b;
  if (b === undefined || a === b) return a;
  if (isLeaf(b)) return withSelf(a);
  if (isLeaf(a)) return withSelf(b);
  let changed: Record<string, FieldSet> | undefined;
  let isNewKey = false;
  for (const element in b) {
    const left = a[element];
    const both = union(left, b[element]);
    if (both === left) continue;
    changed ??= { ...a };
    changed[element] = both as FieldSet;
    isNewKey ||= left === undefined;
  }
  if (changed === undefined) return a;
  return isNewKey ? sorted(changed) : changed;
}

/** The union of all sets, merged in pairs, so that thousands of sets do not each copy all the sets before them. */
export function unionAll(sets: readonly (FieldSet | undefined)[]): FieldSet | undefined {
  let level = sets;
  while (level.length > 1) {
    const next: (FieldSet | undefined)[] = [];
    for (let i = 0; i < level.length; i += 2) next.push(union(level[i], level[i + 1]));
    level = next;
  }
  return level[0];
}

/** Cached key counts of nodes: changed fields are compared with every owner. */
const keyCounts = new WeakMap<FieldSet, number>();
const fewKeys = 16;

function keyCount(node: FieldSet): number {
  const known = keyCounts.get(node);
  if (known !== undefined) return known;
  let count = 0;
  for (const _ in node) count++;
  if (count > fewKeys) keyCounts.set(node, count);
  return count;
}

/** The paths of a that are not in b. A path above or below one in b is another path. */
export function difference(a: FieldSet | undefined, b: FieldSet | undefined): FieldSet | undefined {
  if (a === undefined || b === undefined) return a;
  if (a === b) return undefined;
  if (isLeaf(a)) return holdsSelf(b) ? undefined : a;
  if (isLeaf(b)) return a[self] === undefined ? a : without(a, self);
  let changed: Record<string, FieldSet | undefined> | undefined;
  // Only common keys matter, so the loop runs over the smaller node.
  for (const element in keyCount(b) > fewKeys && keyCount(a) < keyCount(b) ? a : b) {
    const left = a[element];
    const right = b[element];
    if (left === undefined || right === undefined) continue;
    const rest = difference(left, right);
    if (rest === left) continue;
    changed ??= { ...a };
    changed[element] = rest;
  }
  return changed === undefined ? a : compact(changed);
}

/** The paths of a that are neither in b nor below a path in b. */
export function recursiveDifference(a: FieldSet | undefined, b: FieldSet | undefined): FieldSet | undefined {
  if (a === undefined || b === undefined) return a;
  if (holdsSelf(b)) return undefined;
  let changed: Record<string, FieldSet | undefined> | undefined;
  for (const element in b) {
    const left = a[element];
    if (left === undefined) continue;
    const rest = recursiveDifference(left, b[element]);
    if (rest === left) continue;
    changed ??= { ...a };
    changed[element] = rest;
  }
  return changed === undefined ? a : compact(changed);
}

export function intersection(a: FieldSet | undefined, b: FieldSet | undefined): FieldSet | undefined {
  if (a === undefined || b === undefined) return undefined;
  if (a === b) return a;
  if (isLeaf(a)) return holdsSelf(b) ? leaf : undefined;
  if (isLeaf(b)) return a[self] === undefined ? undefined : leaf;
  const elements: string[] = [];
  const children: FieldSet[] = [];
  for (const element in a) {
    if (element === self) continue;
    const both = intersection(a[element], b[element]);
    if (both === undefined) continue;
    elements.push(element);
    children.push(both);
  }
  return assemble(a[self] !== undefined && b[self] !== undefined, elements, children);
}

/** Only the paths with nothing below them. */
export function leaves(set: FieldSet | undefined): FieldSet | undefined {
  if (set === undefined || isLeaf(set)) return set;
  const node: Record<string, FieldSet> = {};
  for (const element in set) {
    if (element !== self) node[element] = leaves(set[element]) as FieldSet;
  }
  return node;
}

export function equalSets(a: FieldSet | undefined, b: FieldSet | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  let count = 0;
  for (const element in a) {
    if (b[element] === undefined || !equalSets(a[element], b[element])) return false;
    count++;
  }
  for (const _ in b) count--;
  return count === 0;
}

/** Every path, level by level: paths that end at a level before deeper ones, as upstream lists conflicts. */
export function pathsOf(set: FieldSet | undefined, prefix: Path = [], into: Path[] = []): Path[] {
  if (set === undefined) return into;
  for (const element in set) {
    if (element !== self && holdsSelf(set[element] as FieldSet)) into.push([...prefix, element]);
  }
  for (const element in set) {
    if (element !== self) pathsOf(set[element], [...prefix, element], into);
  }
  return into;
}

export function fromPaths(paths: Iterable<Path>): FieldSet | undefined {
  const sets: FieldSet[] = [];
  for (const path of paths) {
    let node = leaf;
    for (let i = path.length - 1; i >= 0; i--) node = { [path[i] as string]: node };
    sets.push(node);
  }
  return unionAll(sets);
}

/** `.spec.template.spec.containers[name="c"].image` */
export function describePath(path: Path): string {
  return path.map(describePathElement).join("");
}

/**
 * A client's fieldsV1 in canonical spelling and order. Unknown kinds of elements are left out, because a later version
 * may have written them; throws if the rest cannot be read.
 */
export function decodeFieldSet(fields: unknown): FieldSet | undefined {
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    throw new Error("fieldsV1 is not an object");
  return fromFieldsV1(decodeNode(fields));
}

function decodeNode(fields: object): FieldSet {
  const elements: string[] = [];
  const children: FieldSet[] = [];
  let includesSelf = true;
  let hasDot = false;
  for (const [key, below] of Object.entries(fields)) {
    if (typeof below !== "object" || below === null || Array.isArray(below)) throw new Error(`${key} is no object`);
    if (key === self) {
      hasDot = true;
      continue;
    }
    const element = canonicalPathElement(key);
    if (element === undefined) continue;
    includesSelf = false;
    elements.push(element);
    children.push(decodeNode(below));
  }
  return assemble(includesSelf || hasDot, elements, children) ?? leaf;
}

function without(node: FieldSet, element: string): FieldSet | undefined {
  return compact({ ...node, [element]: undefined });
}

/** Drops undefined children, and writes a node that has only itself left as a leaf. */
function compact(node: Record<string, FieldSet | undefined>): FieldSet | undefined {
  const rest: Record<string, FieldSet> = {};
  let count = 0;
  for (const element in node) {
    const child = node[element];
    if (child === undefined) continue;
    rest[element] = child;
    count++;
  }
  if (count === 0) return undefined;
  return count === 1 && rest[self] !== undefined ? leaf : rest;
}

function sorted(node: FieldSet): FieldSet {
  const rest: Record<string, FieldSet> = {};
  const elements = Object.keys(node);
  for (const index of orderOfElements(elements)) {
    const element = elements[index] as string;
    rest[element] = node[element] as FieldSet;
  }
  return rest;
}

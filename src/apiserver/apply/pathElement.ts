/**
 * One step of a path through an object, as fieldsV1 writes it: `f:name` a field, `k:{"name":"c"}` an item of a keyed
 * list, `v:"x"` an item of a set, `i:0` an index in a list. Kept as strings, because they are the keys that are stored
 * and sent.
 */

/** A list item that has no path element, such as a keyed item without any of its keys. */
export class UnnamedItemError extends Error {}

/** The path element of an item of a keyed list. `keys` are sorted, as in the stored text. */
export function keyedItem(
  keys: readonly string[],
  defaults: Readonly<Record<string, unknown>> | undefined,
  item: unknown,
): string {
  if (typeof item !== "object" || item === null || Array.isArray(item)) {
    const what = item === null ? "a null element" : "non-map elements";
    throw new UnnamedItemError(`associative list with keys may not have ${what}`);
  }
  const fields = item as Record<string, unknown>;
  let text = "";
  for (const key of keys) {
    // A key that is absent and has no default is left out: an item that has the key is another item.
    const value = fields[key] ?? defaults?.[key];
    if (value === undefined) continue;
    text += `${text === "" ? "k:{" : ","}${JSON.stringify(key)}:${JSON.stringify(value)}`;
  }
  if (text === "") {
    const names = keys.map((key) => JSON.stringify(key)).join(" ");
    throw new UnnamedItemError(
      `associative list with keys has an element that omits all key fields [${names}] (and doesn't have default values for any key fields)`,
    );
  }
  return `${text}}`;
}

/** The path element of an item of a set. */
export function setItem(item: unknown): string {
  if (typeof item === "object") {
    const what =
      item === null
        ? "associative list without keys has an element that's an explicit null"
        : Array.isArray(item)
          ? "not supported: associative list with lists as elements"
          : "associative list without keys has an element that's a map type";
    throw new UnnamedItemError(what);
  }
  return `v:${JSON.stringify(item)}`;
}

/** The order in which upstream writes siblings: fields by name, then keyed items, set items, indexes. */
export function comparePathElements(a: string, b: string): number {
  if (a === b) return 0;
  const kind = a.charCodeAt(0);
  if (kind !== b.charCodeAt(0)) return kindRank(a) - kindRank(b);
  if (kind === codeOfField) return a < b ? -1 : 1;
  return compareValues(parsed(a), parsed(b));
}

/** The indexes of the elements in sorted order. Each element is parsed once. */
export function orderOfElements(elements: readonly string[]): number[] {
  const keys = elements.map((element) => {
    const kind = element.charCodeAt(0);
    const isText = kind === codeOfField || (kind !== codeOfKey && kind !== codeOfValue && kind !== codeOfPlace);
    return { rank: kindRank(element), value: isText ? element : read(element) };
  });
  return elements
    .map((_, index) => index)
    .sort((a, b) => {
      const [left, right] = [keys[a], keys[b]];
      if (left === undefined || right === undefined) return 0;
      return left.rank - right.rank || compareValues(left.value, right.value);
    });
}

/** `.spec`, `[name="c"]`, `[="x"]`: the form of a path element in messages. */
export function describePathElement(element: string): string {
  const rest = element.slice(2);
  switch (element.charCodeAt(0)) {
    case codeOfField:
      return `.${rest}`;
    case codeOfKey: {
      const key = parsed(element) as KeyValue[];
      return `[${key.map(([name, value]) => `${name}=${describeValue(value)}`).join(",")}]`;
    }
    case codeOfValue:
      return `[=${describeValue(parsed(element))}]`;
    default:
      return `[${rest}]`;
  }
}

/**
 * The stored spelling of an element that a client sent; undefined for an unknown kind of element; throws if it is
 * malformed.
 */
export function canonicalPathElement(element: string): string | undefined {
  if (element.length < 2 || element[1] !== ":") throw new Error(`no path element: ${JSON.stringify(element)}`);
  const rest = element.slice(2);
  switch (element[0]) {
    case "f":
      return element;
    case "v": {
      const value: unknown = JSON.parse(rest);
      return `v:${JSON.stringify(value)}`;
    }
    case "i":
      if (!/^-?\d+$/.test(rest)) throw new Error(`no index: ${JSON.stringify(rest)}`);
      return `i:${Number(rest)}`;
    case "k": {
      const key: unknown = JSON.parse(rest);
      if (typeof key !== "object" || key === null || Array.isArray(key)) throw new Error(`no key: ${rest}`);
      const fields = Object.entries(key).sort(([a], [b]) => (a < b ? -1 : 1));
      return `k:{${fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`;
    }
    default:
      return undefined;
  }
}

type KeyValue = readonly [name: string, value: unknown];

const codeOfField = "f".charCodeAt(0);
const codeOfKey = "k".charCodeAt(0);
const codeOfValue = "v".charCodeAt(0);
const codeOfPlace = "i".charCodeAt(0);

const kindRanks: Record<string, number> = { ".": 0, f: 1, k: 2, v: 3, i: 4 };

function kindRank(element: string): number {
  return kindRanks[element.charAt(0)] ?? 5;
}

/** Names of containers, ports and conditions repeat from object to object, so their parsed form is cached. */
const parsedElements = new Map<string, unknown>();
const parsedElementsMax = 4096;

function parsed(element: string): unknown {
  const known = parsedElements.get(element);
  if (known !== undefined) return known;
  const result = read(element);
  if (parsedElements.size >= parsedElementsMax) parsedElements.clear();
  parsedElements.set(element, result);
  return result;
}

function read(element: string): unknown {
  const value: unknown = JSON.parse(element.slice(2));
  return element.charCodeAt(0) === codeOfKey ? Object.entries(value as object) : value;
}

/** Numbers before strings before booleans before lists before maps before null; each type in its own order. */
function compareValues(a: unknown, b: unknown): number {
  const rank = valueRank(a) - valueRank(b);
  if (rank !== 0) return rank;
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let i = 0; i < a.length && i < b.length; i++) {
      const order = compareValues(a[i], b[i]);
      if (order !== 0) return order;
    }
    return a.length - b.length;
  }
  if (typeof a === "object" && typeof b === "object" && a !== null && b !== null) {
    return compareValues(Object.entries(a), Object.entries(b));
  }
  if (a === b) return 0;
  return (a as string | number | boolean) < (b as string | number | boolean) ? -1 : 1;
}

function valueRank(value: unknown): number {
  switch (typeof value) {
    case "number":
      return 0;
    case "string":
      return 1;
    case "boolean":
      return 2;
    default:
      return value === null ? 5 : Array.isArray(value) ? 3 : 4;
  }
}

function describeValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(describeValue).join(",")}]`;
  return JSON.stringify(value);
}

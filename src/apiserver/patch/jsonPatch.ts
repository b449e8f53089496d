/**
 * RFC 6902: a list of operations, all or none. As in upstream's library, which clients rely on, negative indexes count
 * from the end, and a `test` for null passes where the path does not exist.
 */
import { equalJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { badRequest, failure, tooLarge } from "../../model/objects/status.ts";

const operationsMax = 10_000;
/** The most that `copy` may add in one patch: repeated copies could otherwise exhaust the memory. */
const copiedBytesMax = 3 * 1024 * 1024;
/** Deeper results are rejected, because later code walks objects recursively. */
const depthMax = 1000;

type Container = Json[] | JsonObject;

/** The patch does not apply to the object. */
class PatchMismatch extends Error {}

/**
 * Applies a patch to an object without changing it; refuses with 400 (malformed), 413 (too large), 422 (does not
 * apply).
 */
export function jsonPatch(target: JsonObject, patch: Json): JsonObject {
  if (!Array.isArray(patch)) throw badRequest("error decoding patch: a JSON patch must be an array of operations");
  if (patch.length > operationsMax) {
    throw tooLarge(`The allowed maximum operations in a JSON patch is ${operationsMax}, got ${patch.length}`);
  }
  for (const operation of patch) {
    if (!isObject(operation)) throw badRequest("error decoding patch: every operation must be an object");
    for (const field of ["op", "path", "from"]) {
      const text = Object.hasOwn(operation, field) ? operation[field] : undefined;
      if (text !== undefined && typeof text !== "string") {
        throw badRequest(`error decoding patch: ${field} must be a string`);
      }
    }
  }
  try {
    const draft = new Draft(target);
    for (const operation of patch) draft.apply(operation as JsonObject);
    return draft.finish();
  } catch (error) {
    if (error instanceof PatchMismatch) throw doesNotApply();
    throw error;
  }
}

/** Upstream has one message for all reasons. */
function doesNotApply() {
  return failure(422, "Invalid", "the server rejected our request due to an error in our request", {});
}

/**
 * The object while operations are applied. Containers are copied on first write and recorded as owned, so that
 * thousands of operations on one list copy it once, and the input never changes.
 */
class Draft {
  #root: Json;
  readonly #ours = new Set<Container>();
  #copiedBytes = 0;

  constructor(root: Json) {
    this.#root = root;
  }

  apply(operation: JsonObject): void {
    const path = pointerOf(operation, "path");
    switch (operation["op"]) {
      case "add":
        this.#add(path, givenValue(operation));
        return;
      case "remove":
        this.#remove(path);
        return;
      case "replace":
        this.#replace(path, givenValue(operation));
        return;
      case "test":
        this.#test(path, Object.hasOwn(operation, "value") ? (operation["value"] ?? null) : null);
        return;
      case "copy": {
        const value = this.#read(pointerOf(operation, "from"));
        if (value === undefined) throw new PatchMismatch("nothing to copy");
        this.#add(path, this.#copy(value));
        return;
      }
      case "move": {
        const from = pointerOf(operation, "from");
        if (path.length > from.length && from.every((segment, i) => segment === path[i])) {
          throw new PatchMismatch("a value cannot move into itself");
        }
        this.#add(path, this.#remove(from));
        return;
      }
      default:
        throw new PatchMismatch("unknown operation");
    }
  }

  finish(): JsonObject {
    refuseDepth(this.#root, 0);
    if (!isObject(this.#root)) throw new PatchMismatch("the result is not an object");
    return this.#root;
  }

  #read(path: readonly string[]): Json | undefined {
    let value: Json | undefined = this.#root;
    for (const segment of path) value = childOf(value, segment);
    return value;
  }

  /** The container of the last segment, writable. */
  #parent(path: readonly string[]): Container {
    let container = this.#own(this.#root);
    this.#root = container;
    for (const segment of path.slice(0, -1)) {
      const child = childOf(container, segment);
      if (child === undefined) throw new PatchMismatch("the parent does not exist");
      const owned = this.#own(child);
      if (owned !== child) {
        if (Array.isArray(container)) container[indexOf(segment, container.length)] = owned;
        else container[segment] = owned;
      }
      container = owned;
    }
    return container;
  }

  #own(value: Json): Container {
    if (typeof value !== "object" || value === null) throw new PatchMismatch("the parent holds nothing");
    if (this.#ours.has(value)) return value;
    const copy: Container = Array.isArray(value) ? value.slice() : { ...value };
    this.#ours.add(copy);
    return copy;
  }

  #add(path: readonly string[], value: Json): void {
    const last = path.at(-1);
    if (last === undefined) {
      this.#root = value;
      return;
    }
    const parent = this.#parent(path);
    if (!Array.isArray(parent)) parent[last] = value;
    else if (last === "-") parent.push(value);
    // An insertion has one more index than there are items: -1 is the end here.
    else parent.splice(indexOf(last, parent.length + 1), 0, value);
  }

  #remove(path: readonly string[]): Json {
    const last = path.at(-1);
    if (last === undefined) throw new PatchMismatch("the whole document cannot be removed");
    const parent = this.#parent(path);
    const old = childOf(parent, last);
    if (old === undefined) throw new PatchMismatch("nothing to remove");
    if (Array.isArray(parent)) parent.splice(indexOf(last, parent.length), 1);
    else delete parent[last];
    return old;
  }

  #replace(path: readonly string[], value: Json): void {
    const last = path.at(-1);
    if (last === undefined) {
      this.#root = value;
      return;
    }
    const parent = this.#parent(path);
    if (!Array.isArray(parent)) {
      // `replace` of a missing member sets it, against the RFC: so does upstream's library, and `kubectl rollout undo`
      // relies on it for annotations.
      parent[last] = value;
      return;
    }
    if (childOf(parent, last) === undefined) throw new PatchMismatch("nothing to replace");
    parent[indexOf(last, parent.length)] = value;
  }

  #test(path: readonly string[], expected: Json): void {
    // A missing path equals null, but only its last segment may be missing.
    if (path.length > 0 && this.#read(path.slice(0, -1)) === undefined)
      throw new PatchMismatch("the parent does not exist");
    if (!equalJson(this.#read(path) ?? null, expected)) throw new PatchMismatch("test failed");
  }

  /** A deep copy: a shared value would change twice when a later operation writes to one of them. */
  #copy(value: Json, depth = 0): Json {
    if (depth > depthMax) throw new PatchMismatch("nested too deep");
    this.#copiedBytes += typeof value === "string" ? value.length + 2 : 4;
    if (this.#copiedBytes > copiedBytesMax) {
      throw tooLarge(
        `Unable to complete the copy, the accumulated size increase of copy exceeds the limit ${copiedBytesMax}`,
      );
    }
    if (Array.isArray(value)) return value.map((item) => this.#copy(item, depth + 1));
    if (!isObject(value)) return value;
    const copy: JsonObject = {};
    for (const key of Object.keys(value)) {
      this.#copiedBytes += key.length + 3;
      copy[key] = this.#copy(value[key] ?? null, depth + 1);
    }
    return copy;
  }
}

function pointerOf(operation: JsonObject, field: "path" | "from"): string[] {
  const text = Object.hasOwn(operation, field) ? operation[field] : undefined;
  if (typeof text !== "string") throw new PatchMismatch(`${field} is missing`);
  if (text === "") return [];
  if (!text.startsWith("/")) throw new PatchMismatch(`${field} must start with a slash`);
  const segments = text.slice(1).split("/");
  if (segments.length > depthMax) throw new PatchMismatch("nested too deep");
  return segments.map((segment) => {
    const key = segment.includes("~") ? segment.replaceAll("~1", "/").replaceAll("~0", "~") : segment;
    if (key === "__proto__") throw new PatchMismatch("no object has such a key");
    return key;
  });
}

function givenValue(operation: JsonObject): Json {
  const value = Object.hasOwn(operation, "value") ? operation["value"] : undefined;
  if (value === undefined) throw new PatchMismatch("value is missing");
  return value;
}

function childOf(container: Json | undefined, segment: string): Json | undefined {
  if (Array.isArray(container)) return container[indexOf(segment, container.length)];
  if (!isObject(container)) return undefined;
  return Object.hasOwn(container, segment) ? container[segment] : undefined;
}

const indexShape = /^[+-]?[0-9]{1,9}$/;

/** An index below `count`; negative ones count from the end. */
function indexOf(segment: string, count: number): number {
  if (!indexShape.test(segment)) throw new PatchMismatch("not an index");
  const index = Number(segment);
  if (index >= count || index < -count) throw new PatchMismatch("index out of range");
  return index < 0 ? index + count : index;
}

function refuseDepth(value: Json, depth: number): void {
  if (typeof value !== "object" || value === null) return;
  if (depth > depthMax) throw new PatchMismatch("nested too deep");
  if (Array.isArray(value)) for (const item of value) refuseDepth(item, depth + 1);
  else for (const key of Object.keys(value)) refuseDepth(value[key] ?? null, depth + 1);
}

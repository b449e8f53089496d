import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyJson, equalJson, type Json, type JsonObject } from "../../model/objects/json.ts";
import { jsonPatch } from "./jsonPatch.ts";

const status = (code: number) => expect.objectContaining({ status: expect.objectContaining({ code }) });

describe("operations", () => {
  test.each<[string, JsonObject, Json, JsonObject]>([
    ["add a field", { a: 1 }, [{ op: "add", path: "/b", value: 2 }], { a: 1, b: 2 }],
    ["add over a field", { a: 1 }, [{ op: "add", path: "/a", value: null }], { a: null }],
    ["insert into a list", { l: [1, 3] }, [{ op: "add", path: "/l/1", value: 2 }], { l: [1, 2, 3] }],
    ["insert at the end by number", { l: [1] }, [{ op: "add", path: "/l/1", value: 2 }], { l: [1, 2] }],
    ["append", { l: [1] }, [{ op: "add", path: "/l/-", value: 2 }], { l: [1, 2] }],
    ["insert at -1, which is the end", { l: [1, 2] }, [{ op: "add", path: "/l/-1", value: 3 }], { l: [1, 2, 3] }],
    ["insert at -3, which is the start", { l: [1, 2] }, [{ op: "add", path: "/l/-3", value: 0 }], { l: [0, 1, 2] }],
    ["remove a field", { a: 1, b: 2 }, [{ op: "remove", path: "/a" }], { b: 2 }],
    ["remove the last item by -1", { l: [1, 2] }, [{ op: "remove", path: "/l/-1" }], { l: [1] }],
    ["replace the last item by -1", { l: [1, 2] }, [{ op: "replace", path: "/l/-1", value: 9 }], { l: [1, 9] }],
    ["replace a member that is not there", {}, [{ op: "replace", path: "/a", value: 1 }], { a: 1 }],
    ["replace a null", { a: null }, [{ op: "replace", path: "/a", value: 1 }], { a: 1 }],
    ["replace the whole", { a: 1 }, [{ op: "replace", path: "", value: { b: 1 } }], { b: 1 }],
    [
      "keys with slashes and tildes",
      { "a/b": { "~x": 1 } },
      [{ op: "replace", path: "/a~1b/~0x", value: 2 }],
      { "a/b": { "~x": 2 } },
    ],
    ["a tilde escape is decoded once", { "~1": 1 }, [{ op: "remove", path: "/~01" }], {}],
    ["an empty key", { "": 1 }, [{ op: "replace", path: "/", value: 2 }], { "": 2 }],
    ["move", { a: { x: 1 } }, [{ op: "move", from: "/a/x", path: "/b" }], { a: {}, b: 1 }],
    ["move within a list", { l: [1, 2, 3] }, [{ op: "move", from: "/l/0", path: "/l/2" }], { l: [2, 3, 1] }],
    ["move to itself", { a: 1 }, [{ op: "move", from: "/a", path: "/a" }], { a: 1 }],
    ["copy", { a: { x: 1 } }, [{ op: "copy", from: "/a", path: "/b" }], { a: { x: 1 }, b: { x: 1 } }],
    [
      "a copy is not the original",
      { a: { x: 1 } },
      [
        { op: "copy", from: "/a", path: "/b" },
        { op: "add", path: "/b/x", value: 2 },
        { op: "add", path: "/a/y", value: 3 },
      ],
      { a: { x: 1, y: 3 }, b: { x: 2 } },
    ],
    [
      "test of equal maps",
      { a: { x: 1, y: [2] } },
      [{ op: "test", path: "/a", value: { y: [2], x: 1 } }],
      { a: { x: 1, y: [2] } },
    ],
    ["test of null where nothing is", {}, [{ op: "test", path: "/a", value: null }], {}],
    ["numeric keys of maps", { m: { "0": "a" } }, [{ op: "replace", path: "/m/0", value: "b" }], { m: { "0": "b" } }],
    ["no operation at all", { a: 1 }, [], { a: 1 }],
    ["constructor is a key like others", {}, [{ op: "add", path: "/constructor", value: 1 }], { constructor: 1 }],
    [
      "kubectl taking a finalizer off",
      { metadata: { finalizers: ["a", "b"] } },
      [
        { op: "test", path: "/metadata/finalizers/0", value: "a" },
        { op: "remove", path: "/metadata/finalizers/0" },
      ],
      { metadata: { finalizers: ["b"] } },
    ],
  ])("%s", (_name, target, patch, expected) => {
    const before = copyJson(target);
    expect(jsonPatch(target, patch)).toEqual(expected);
    expect(target, "the input stays").toEqual(before);
  });

  test.each<[string, JsonObject, Json]>([
    ["a failed test", { a: 1 }, [{ op: "test", path: "/a", value: 2 }]],
    ["a test below nothing", {}, [{ op: "test", path: "/a/b", value: null }]],
    ["a test for null at a place that a list does not have", { l: [] }, [{ op: "test", path: "/l/0", value: null }]],
    ["a missing parent", {}, [{ op: "add", path: "/a/b", value: 1 }]],
    ["a scalar parent", { a: 1 }, [{ op: "add", path: "/a/b", value: 1 }]],
    ["a null parent", { a: null }, [{ op: "add", path: "/a/b", value: 1 }]],
    ["remove of nothing", {}, [{ op: "remove", path: "/a" }]],
    ["replace of an item that is not there", { l: [1] }, [{ op: "replace", path: "/l/1", value: 1 }]],
    ["replace below nothing", {}, [{ op: "replace", path: "/a/b", value: 1 }]],
    ["an index past the end", { l: [1] }, [{ op: "add", path: "/l/2", value: 1 }]],
    ["a negative index past the start", { l: [1] }, [{ op: "remove", path: "/l/-2" }]],
    ["an index that is a word", { l: [1] }, [{ op: "add", path: "/l/x", value: 1 }]],
    ["an index with a fraction", { l: [1] }, [{ op: "remove", path: "/l/0.0" }]],
    ["replace at -", { l: [1] }, [{ op: "replace", path: "/l/-", value: 1 }]],
    ["copy from nothing", {}, [{ op: "copy", from: "/a", path: "/b" }]],
    ["move into itself", { a: {} }, [{ op: "move", from: "/a", path: "/a/b" }]],
    ["an unknown operation", {}, [{ op: "frob", path: "/a" }]],
    ["no path", {}, [{ op: "add", value: 1 }]],
    ["no value", {}, [{ op: "add", path: "/a" }]],
    ["a path without a slash", {}, [{ op: "add", path: "a", value: 1 }]],
    ["removing the whole", {}, [{ op: "remove", path: "" }]],
    ["a result that is no object", {}, [{ op: "replace", path: "", value: [] }]],
    ["an inherited field", {}, [{ op: "copy", from: "/constructor", path: "/a" }]],
    [
      "the second of two",
      { a: 1 },
      [
        { op: "remove", path: "/a" },
        { op: "remove", path: "/a" },
      ],
    ],
  ])("%s is refused with 422", (_name, target, patch) => {
    const before = copyJson(target);
    expect(() => jsonPatch(target, patch)).toThrow(status(422));
    expect(() => jsonPatch(target, patch)).toThrow("the server rejected our request due to an error in our request");
    expect(target).toEqual(before);
  });

  test.each<[string, Json]>([
    ["a map", { op: "add" }],
    ["a number", 1],
    ["a list of numbers", [1]],
    ["an operation that is null", [null]],
    ["a path that is a number", [{ op: "add", path: 1, value: 1 }]],
  ])("%s is malformed: 400", (_name, patch) => {
    expect(() => jsonPatch({}, patch)).toThrow(status(400));
  });
});

describe("hostile patches", () => {
  test("ten thousand operations pass, one more is too large", () => {
    const one = { op: "add", path: "/l/-", value: 1 };
    expect(jsonPatch({ l: [] }, new Array(10_000).fill(one))["l"]).toHaveLength(10_000);
    expect(() => jsonPatch({ l: [] }, new Array(10_001).fill(one))).toThrow(status(413));
  });
  test.each(["/__proto__/polluted", "/a/__proto__", "/__proto__"])("%s pollutes nothing", (path) => {
    expect(() => jsonPatch({ a: {} }, [{ op: "add", path, value: true }])).toThrow(status(422));
    expect(() => jsonPatch({ a: 1 }, [{ op: "move", from: "/a", path }])).toThrow(status(422));
    expect(() => jsonPatch({ a: 1 }, [{ op: "copy", from: path, path: "/b" }])).toThrow(status(422));
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
  test("writing through constructor.prototype changes no class", () => {
    expect(() => jsonPatch({}, [{ op: "add", path: "/constructor/prototype/polluted", value: 1 }])).toThrow(
      status(422),
    );
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
  test("copies of copies stop at three megabytes", () => {
    const patch = Array.from({ length: 100 }, (_, i) => ({ op: "copy", from: "", path: `/k${i}` }));
    expect(() => jsonPatch({ a: "x".repeat(1000) }, patch)).toThrow(status(413));
  });
  test("depth made by copies into depth is refused, not overflowed", () => {
    const patch: Json[] = [];
    let path = "/a";
    for (let i = 0; i < 18; i++) {
      patch.push({ op: "copy", from: "/a", path: `${path}/a` });
      path = `${path}/a${path.slice(2)}`.slice(0, 4000);
    }
    for (let i = 0; i < 9000; i++)
      patch.push(
        { op: "move", from: "/a", path: "/b" },
        { op: "add", path: "/a", value: {} },
        { op: "move", from: "/b", path: "/a/a" },
      );
    expect(() => jsonPatch({ a: {} }, patch.slice(0, 9999))).toThrow(expect.objectContaining({ name: "StatusError" }));
  });
  test("wrapping an object ten thousand times is refused", () => {
    const patch: Json[] = [];
    for (let i = 0; i < 3300; i++)
      patch.push(
        { op: "move", from: "/a", path: "/b" },
        { op: "add", path: "/a", value: {} },
        { op: "move", from: "/b", path: "/a/a" },
      );
    expect(() => jsonPatch({ a: {} }, patch)).toThrow(status(422));
  });
});

describe("against a naive model", () => {
  /** Applies to a private copy, without sharing or tricks; undefined when it does not apply. */
  function naive(target: Json, patch: readonly JsonObject[]): Json | undefined {
    let root = copyJson(target);
    const steps = (text: string) => text.split("/").slice(1);
    const at = (container: Json, key: string, extra = 0): string | number | undefined => {
      if (!Array.isArray(container)) return key;
      const count = container.length + extra;
      const n = Number(key) < 0 ? Number(key) + count : Number(key);
      return n >= 0 && n < count ? n : undefined;
    };
    const get = (path: string[]): Json | undefined => {
      let value: Json | undefined = root;
      for (const key of path) {
        if (typeof value !== "object" || value === null) return undefined;
        const k = at(value, key);
        value = k === undefined ? undefined : (value as Record<string, Json>)[k];
      }
      return value;
    };
    const put = (path: string[], value: Json): boolean => {
      const parent = get(path.slice(0, -1));
      const key = path.at(-1)!;
      if (typeof parent !== "object" || parent === null) return false;
      if (!Array.isArray(parent)) parent[key] = value;
      else {
        const k = at(parent, key, 1);
        if (k === undefined) return false;
        parent.splice(k as number, 0, value);
      }
      return true;
    };
    const take = (path: string[]): Json | undefined => {
      const value = get(path);
      if (value === undefined) return undefined;
      const parent = get(path.slice(0, -1)) as Json[] | JsonObject;
      const key = path.at(-1)!;
      if (Array.isArray(parent)) parent.splice(at(parent, key) as number, 1);
      else delete parent[key];
      return value;
    };
    for (const { op, path, from, value } of patch as { op: string; path: string; from: string; value: Json }[]) {
      const to = steps(path);
      root = copyJson(root);
      if (op === "add") {
        if (!put(to, copyJson(value))) return undefined;
      } else if (op === "remove") {
        if (take(to) === undefined) return undefined;
      } else if (op === "replace") {
        const parent = get(to.slice(0, -1)) as Record<string, Json> | undefined;
        if (parent === null || typeof parent !== "object") return undefined;
        if (Array.isArray(parent) && get(to) === undefined) return undefined;
        parent[at(parent, to.at(-1)!) as string] = copyJson(value);
      } else if (op === "test") {
        const parent = get(to.slice(0, -1));
        // Only a missing key equals null; a place that a list does not have is a mistake.
        if (parent === undefined || (Array.isArray(parent) && get(to) === undefined)) return undefined;
        if (!equalJson(get(to) ?? null, value)) return undefined;
      } else {
        const source = op === "move" ? take(steps(from)) : get(steps(from));
        if (source === undefined || (op === "move" && path.startsWith(`${from}/`)) || !put(to, copyJson(source)))
          return undefined;
      }
    }
    return root;
  }

  const keys = fc.constantFrom("a", "b", "0", "1", "-1");
  const paths = fc.array(keys, { minLength: 1, maxLength: 3 }).map((segments) => `/${segments.join("/")}`);
  const values = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 2 },
      fc.integer({ min: 0, max: 3 }),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(keys, tie("value"), { maxKeys: 3, noNullPrototype: true }),
    ),
  })).value;
  const operations = fc.record({
    op: fc.constantFrom("add", "remove", "replace", "test", "move", "copy"),
    path: paths,
    from: paths,
    value: values,
  });

  test("both agree on every result and on what does not apply", () => {
    let applied = 0;
    fc.assert(
      fc.property(
        fc.dictionary(keys, values, { maxKeys: 4, noNullPrototype: true }),
        fc.array(operations, { maxLength: 6 }),
        (target, patch) => {
          const before = copyJson(target);
          const expected = naive(target as Json, patch);
          if (expected === undefined) expect(() => jsonPatch(target as JsonObject, patch as Json)).toThrow(status(422));
          else {
            applied++;
            expect(jsonPatch(target as JsonObject, patch as Json)).toEqual(expected);
          }
          expect(target).toEqual(before);
        },
      ),
      { numRuns: 5000 },
    );
    expect(applied).toBeGreaterThan(100);
  });
});

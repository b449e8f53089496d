import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyJson, type JsonObject } from "../../model/objects/json.ts";
import { prune } from "./prune.ts";
import { schemaNodeOf } from "./schemaNodeOf.ts";
import { setDefaults } from "./setDefaults.ts";
import { compileStructural } from "./structural.ts";

const text = { type: "string" };

describe("pruning", () => {
  test.each<{ name: string; schema: JsonObject; value: string; left: string; removed: string[] }>([
    {
      name: "removes fields that the schema does not name",
      schema: { type: "object", properties: { spec: { type: "object", properties: { a: text } } } },
      value: '{"spec":{"a":"x","b":1},"other":true}',
      left: '{"spec":{"a":"x"}}',
      removed: ["spec.b", "other"],
    },
    {
      name: "keeps apiVersion, kind and metadata at the root",
      schema: { type: "object" },
      value: '{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{}}',
      left: '{"apiVersion":"v1","kind":"X","metadata":{"name":"a"}}',
      removed: ["spec"],
    },
    {
      name: "keeps unknown fields where they are preserved, and still prunes what is described below",
      schema: {
        type: "object",
        "x-kubernetes-preserve-unknown-fields": true,
        properties: { known: { type: "object", properties: { a: text } } },
      },
      value: '{"free":{"x":1},"known":{"a":"x","b":1}}',
      left: '{"free":{"x":1},"known":{"a":"x"}}',
      removed: ["known.b"],
    },
    {
      name: "walks through maps and lists",
      schema: {
        type: "object",
        properties: {
          m: { type: "object", additionalProperties: { type: "object", properties: { a: text } } },
          l: { type: "array", items: { type: "object", properties: { a: text } } },
        },
      },
      value: '{"m":{"k":{"a":"x","b":1}},"l":[{"b":1},{"a":"x"}]}',
      left: '{"m":{"k":{"a":"x"}},"l":[{},{"a":"x"}]}',
      removed: ["m.k.b", "l[0].b"],
    },
    {
      name: "keeps apiVersion, kind and metadata of embedded resources",
      schema: {
        type: "object",
        properties: {
          e: { type: "object", "x-kubernetes-embedded-resource": true, properties: { spec: { type: "object" } } },
        },
      },
      value: '{"e":{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{"x":1},"y":1}}',
      left: '{"e":{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{}}}',
      removed: ["e.spec.x", "e.y"],
    },
    {
      name: "treats __proto__ as any other name",
      schema: JSON.parse(
        '{"type":"object","properties":{"__proto__":{"type":"object","properties":{"a":{"type":"string"}}}}}',
      ),
      value: '{"__proto__":{"a":"x","b":1},"constructor":1}',
      left: '{"__proto__":{"a":"x"}}',
      removed: ["__proto__.b", "constructor"],
    },
  ])("$name", ({ schema, value, left, removed }) => {
    const object = JSON.parse(value) as JsonObject;
    expect(prune(object, compileStructural(schema))).toEqual(removed);
    expect(JSON.stringify(object)).toBe(left);
  });
});

describe("defaulting", () => {
  const nested = { type: "object", default: {}, properties: { a: { type: "string", default: "x" } } };
  test.each<{ name: string; schema: JsonObject; value: string; result: string }>([
    {
      name: "fills what is absent, and what the default itself leaves out",
      schema: { type: "object", properties: { o: nested, n: { type: "integer", default: 0 } } },
      value: "{}",
      result: '{"o":{"a":"x"},"n":0}',
    },
    {
      name: "does not create objects that have no default",
      schema: {
        type: "object",
        properties: { o: { type: "object", properties: { a: { type: "string", default: "x" } } } },
      },
      value: "{}",
      result: "{}",
    },
    {
      name: "treats a null that is not allowed as absent",
      schema: { type: "object", properties: { a: { type: "string", default: "x" }, b: text } },
      value: '{"a":null,"b":null}',
      result: '{"a":"x"}',
    },
    {
      name: "keeps a null that is allowed",
      schema: { type: "object", properties: { a: { type: "string", default: "x", nullable: true } } },
      value: '{"a":null}',
      result: '{"a":null}',
    },
    {
      name: "reaches into lists and maps",
      schema: {
        type: "object",
        properties: { l: { type: "array", items: nested }, m: { type: "object", additionalProperties: nested } },
      },
      value: '{"l":[{},null,{"a":"y"}],"m":{"k":{},"n":null}}',
      result: '{"l":[{"a":"x"},{"a":"x"},{"a":"y"}],"m":{"k":{"a":"x"},"n":{"a":"x"}}}',
    },
    {
      name: "keeps nulls in content that nobody described",
      schema: { type: "object", properties: { free: { "x-kubernetes-preserve-unknown-fields": true } } },
      value: '{"free":null}',
      result: '{"free":null}',
    },
  ])("$name", ({ schema, value, result }) => {
    const object = JSON.parse(value) as JsonObject;
    const structural = compileStructural(schema);
    setDefaults(object, structural);
    expect(JSON.stringify(object)).toBe(result);
    setDefaults(object, structural);
    expect(JSON.stringify(object)).toBe(result);
  });

  test("never hands out the schema's own default object", () => {
    const structural = compileStructural({ type: "object", properties: { o: nested } });
    const first: JsonObject = {};
    setDefaults(first, structural);
    (first["o"] as JsonObject)["a"] = "changed";
    const second: JsonObject = {};
    setDefaults(second, structural);
    expect(second).toEqual({ o: { a: "x" } });
  });
});

test("pruning twice removes nothing more", () => {
  const leaf = fc.constantFrom<JsonObject>(
    { type: "string" },
    { type: "object" },
    { "x-kubernetes-preserve-unknown-fields": true },
  );
  const schema = fc.letrec<{ node: JsonObject }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 3 },
      leaf,
      fc.dictionary(fc.constantFrom("a", "b", "c"), tie("node")).map((properties) => ({ type: "object", properties })),
      tie("node").map((items) => ({ type: "array", items })),
    ),
  })).node;
  const value = fc.dictionary(fc.constantFrom("a", "b", "c", "d"), fc.jsonValue({ maxDepth: 3 }));
  fc.assert(
    fc.property(schema, value, (definition, object) => {
      const structural = compileStructural(definition);
      const copy = copyJson(object) as JsonObject;
      prune(copy, structural);
      expect(prune(copy, structural)).toEqual([]);
    }),
  );
});

test("schema nodes have list and map types, and unknown fields", () => {
  const node = schemaNodeOf(
    compileStructural({
      type: "object",
      properties: {
        set: { type: "array", "x-kubernetes-list-type": "set", items: text },
        map: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["k"],
          items: { type: "object", properties: { k: text } },
        },
        plain: { type: "array", items: text },
        labels: { type: "object", additionalProperties: text, "x-kubernetes-map-type": "atomic" },
        free: { "x-kubernetes-preserve-unknown-fields": true },
        amount: { "x-kubernetes-int-or-string": true },
        count: { type: "integer" },
      },
    }),
  );
  if (node.kind !== "struct") throw new Error("not a struct");
  const of = (name: string) => node.fields.get(name)?.schema;
  expect(of("set")).toMatchObject({ kind: "list", listType: "set" });
  expect(of("map")).toMatchObject({ kind: "list", listType: "map", listKeys: ["k"] });
  expect(of("plain")).toMatchObject({ kind: "list", listType: "atomic" });
  expect(of("labels")).toMatchObject({ kind: "map", atomic: true });
  expect(of("free")).toEqual({ kind: "any", atomic: false });
  expect(of("amount")).toEqual({ kind: "scalar", type: "intOrString" });
  expect(of("count")).toEqual({ kind: "scalar", type: "int64" });
});

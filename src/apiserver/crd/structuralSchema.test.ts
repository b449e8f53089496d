import { describe, expect, test } from "vitest";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { structuralErrors } from "./structuralSchema.ts";

/** Errors of a schema that stands at properties[x] of the root, without that prefix. */
function errorsAt(schema: JsonObject): string[] {
  const root: JsonObject = { type: "object", properties: { x: schema } };
  return structuralErrors(root, "s").map((error) => describeFieldError(error).replaceAll("s.properties[x]", "x"));
}

const text = { type: "string" };

describe("a schema is refused", () => {
  test.each<[string, JsonObject, RegExp]>([
    ["without a type", {}, /^x.type: Required value: must not be empty for specified object fields$/],
    [
      "with items without a type",
      { type: "array", items: {} },
      /^x.items.type: Required value: must not be empty for specified array items$/,
    ],
    ["with an unknown type", { type: "text" }, /^x.type: Unsupported value: "text"/],
    ["of type null", { type: "null" }, /^x.type: Forbidden: type cannot be set to null/],
    ["with $ref", { type: "object", $ref: "#/x" }, /^x.\$ref: Forbidden: \$ref is not supported$/],
    ["with uniqueItems", { type: "array", uniqueItems: true, items: text }, /^x.uniqueItems: Forbidden/],
    [
      "with properties and additionalProperties",
      { type: "object", properties: { a: text }, additionalProperties: text },
      /mutual exclusive/,
    ],
    ["with a list of item schemas", { type: "array", items: [text] }, /^x.items: Forbidden/],
    [
      "with a bad pattern",
      { type: "string", pattern: "(" },
      /^x.pattern: Invalid value: "\(": must be a valid regular expression/,
    ],
    ["with a pattern that RE2 lacks", { type: "string", pattern: "(?=a)" }, /^x.pattern: Invalid value/],
    [
      "with preserve-unknown-fields: false",
      { type: "object", "x-kubernetes-preserve-unknown-fields": false },
      /must be true or undefined/,
    ],
    [
      "embedded without content",
      { type: "object", "x-kubernetes-embedded-resource": true },
      /^x.properties: Required value/,
    ],
    [
      "with a type inside anyOf",
      { type: "string", anyOf: [{ type: "string" }] },
      /^x.anyOf\[0\].type: Forbidden: must be empty to be structural$/,
    ],
    [
      "with a default inside allOf",
      { type: "string", allOf: [{ default: "a" }] },
      /^x.allOf\[0\].default: Forbidden: must be undefined to be structural$/,
    ],
    [
      "with a property only inside oneOf",
      { type: "object", oneOf: [{ properties: { a: { enum: ["b"] } } }] },
      /^x.properties\[a\]: Required value: because it is defined in x.oneOf\[0\].properties\[a\]$/,
    ],
    [
      "with a list type on an object",
      { type: "object", "x-kubernetes-list-type": "set" },
      /^x.type: Invalid value: "object": must be array/,
    ],
    [
      "with an unknown list type",
      { type: "array", "x-kubernetes-list-type": "bag", items: text },
      /^x.x-kubernetes-list-type: Unsupported value/,
    ],
    [
      "with a map list without keys",
      { type: "array", "x-kubernetes-list-type": "map", items: { type: "object" } },
      /^x.x-kubernetes-list-map-keys: Required value/,
    ],
    [
      "with a key that no item has",
      {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        items: { type: "object" },
      },
      /entries must all be names of item properties/,
    ],
    [
      "with a key that may be missing",
      {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        items: { type: "object", properties: { k: text } },
      },
      /^x.items.properties\[k\].default: Required value/,
    ],
    [
      "with a set of granular objects",
      { type: "array", "x-kubernetes-list-type": "set", items: { type: "object" } },
      /must be atomic/,
    ],
    ["with a default of the wrong type", { type: "integer", default: "a" }, /^x.default: Invalid value: "string"/],
    [
      "with a default that would be pruned",
      { type: "object", default: { a: 1 } },
      /^x.default: Invalid value: {"a":1}: must not have unknown fields$/,
    ],
    [
      "with an empty rule",
      { type: "object", "x-kubernetes-validations": [{ rule: " " }] },
      /\[0\].rule: Required value: rule is not specified$/,
    ],
    [
      "with a rule that does not compile",
      { type: "integer", "x-kubernetes-validations": [{ rule: "self.x" }] },
      /rule: Invalid value: "self.x": compilation failed: ERROR: <input>:1:5:/,
    ],
    [
      "with a rule that is no condition",
      { type: "integer", "x-kubernetes-validations": [{ rule: "self + 1" }] },
      /compilation failed: must evaluate to a bool$/,
    ],
    [
      "with a message that is not a string",
      { type: "integer", "x-kubernetes-validations": [{ rule: "self > 1", messageExpression: "1" }] },
      /messageExpression: .*must evaluate to a string$/,
    ],
    [
      "with an unknown reason",
      { type: "integer", "x-kubernetes-validations": [{ rule: "self > 1", reason: "Why" }] },
      /reason: Unsupported value/,
    ],
    [
      "with a field path into nothing",
      { type: "object", "x-kubernetes-validations": [{ rule: "true", fieldPath: ".a" }] },
      /fieldPath: .*must be a valid path$/,
    ],
    [
      "with a transition rule in a plain list",
      {
        type: "array",
        maxItems: 5,
        items: { type: "integer", "x-kubernetes-validations": [{ rule: "self >= oldSelf" }] },
      },
      /oldSelf cannot be used on the uncorrelatable portion of the schema within x$/,
    ],
    [
      "with a transition rule inside an atomic object",
      {
        type: "object",
        "x-kubernetes-map-type": "atomic",
        properties: { n: { type: "integer", "x-kubernetes-validations": [{ rule: "self >= oldSelf" }] } },
      },
      /uncorrelatable portion of the schema within x$/,
    ],
    [
      "with rules inside allOf",
      { type: "integer", allOf: [{ "x-kubernetes-validations": [{ rule: "self > 0" }] }] },
      /^x.allOf\[0\].x-kubernetes-validations: Forbidden: must be empty to be structural$/,
    ],
    ["with a list that does not say of what", { type: "array" }, /^x.items: Required value: must be specified$/],
    [
      "with metadata inside a junctor",
      { type: "object", properties: { metadata: text }, not: { properties: { metadata: { enum: ["a"] } } } },
      /^x.not.properties\[metadata\]: Forbidden: must not be specified in a nested context$/,
    ],
    [
      "with a rule that could cost too much",
      {
        type: "array",
        items: {
          type: "array",
          items: { type: "string", "x-kubernetes-validations": [{ rule: "self.contains('x')" }] },
        },
      },
      /rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x/,
    ],
    [
      "with a search in texts that a rule computes, whose length has no bound",
      {
        type: "array",
        maxItems: 3,
        items: { type: "string", maxLength: 5 },
        "x-kubernetes-validations": [{ rule: "self.map(x, x).indexOf('a') < 0" }],
      },
      /rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x/,
    ],
    [
      "with a search in long texts",
      {
        type: "array",
        maxItems: 100,
        items: { type: "string", maxLength: 1_500_000 },
        "x-kubernetes-validations": [{ rule: "self.indexOf('a') < 0" }],
      },
      /rule: Forbidden: estimated rule cost exceeds budget by factor of 6.0/,
    ],
  ])("%s", (_, schema, expected) => {
    expect(errorsAt(schema)).toEqual(expect.arrayContaining([expect.stringMatching(expected)]));
  });
});

describe("a schema is accepted", () => {
  test.each<[string, JsonObject]>([
    ["int-or-string with a type", { type: "string", "x-kubernetes-int-or-string": true }],
    [
      "int-or-string with the usual anyOf",
      { "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }] },
    ],
    [
      "additionalProperties: true beside properties",
      { type: "object", properties: { a: text }, additionalProperties: true },
    ],
    [
      "a search in short texts",
      {
        type: "array",
        maxItems: 100,
        items: { type: "string", maxLength: 100 },
        "x-kubernetes-validations": [{ rule: "self.indexOf('a') < 0 && self.map(x, size(x)).max() < 50" }],
      },
    ],
    ["free content", { "x-kubernetes-preserve-unknown-fields": true }],
    ["free lists", { type: "array", items: { type: "object", "x-kubernetes-preserve-unknown-fields": true } }],
    [
      "a transition rule in a map list",
      {
        type: "array",
        maxItems: 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        items: {
          type: "object",
          required: ["k"],
          properties: { k: { type: "string", maxLength: 9 } },
          "x-kubernetes-validations": [{ rule: "self.k == oldSelf.k" }],
        },
      },
    ],
    [
      "a bounded loop in a loop",
      {
        type: "array",
        maxItems: 30,
        items: { type: "string", maxLength: 30 },
        "x-kubernetes-validations": [{ rule: "self.all(a, self.exists_one(b, a == b))" }],
      },
    ],
    [
      "escaped names in rules",
      {
        type: "object",
        properties: { "a-b": { type: "integer" }, namespace: { type: "string", maxLength: 63 } },
        "x-kubernetes-validations": [{ rule: "self.a__dash__b > 0 && self.__namespace__ != ''" }],
      },
    ],
    ["an enum of ten thousand", { type: "string", enum: Array.from({ length: 10_000 }, (_, i) => `v${i}`) }],
    ["a property called __proto__", JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}')],
  ])("%s", (_, schema) => {
    expect(errorsAt(schema)).toEqual([]);
  });
});

describe("at the root", () => {
  test.each<[string, JsonObject, RegExp]>([
    ["the type must be object", { type: "string" }, /^s.type: Invalid value: "string": must be object at the root$/],
    ["the type must be said", {}, /^s.type: Required value: must not be empty at the root$/],
    [
      "a map is no resource",
      { type: "object", additionalProperties: text },
      /^s.additionalProperties: Forbidden: must not be used at the root$/,
    ],
    [
      "metadata belongs to the server",
      { type: "object", properties: { metadata: { type: "object", properties: { labels: { type: "object" } } } } },
      /^s.properties\[metadata\]: Forbidden: must not specify anything other than name and generateName/,
    ],
    [
      "kind has no default",
      { type: "object", properties: { kind: { type: "string", default: "X" } } },
      /^s.properties\[kind\].default: Forbidden: must not be set in top-level kind$/,
    ],
    [
      "kind is a text",
      { type: "object", properties: { kind: { type: "integer" } } },
      /^s.properties\[kind\].type: Invalid value/,
    ],
  ])("%s", (_, schema, expected) => {
    expect(structuralErrors(schema, "s").map(describeFieldError)).toEqual([expect.stringMatching(expected)]);
  });

  test("a rule may use the name of the object", () => {
    const schema = {
      type: "object",
      "x-kubernetes-validations": [{ rule: "self.metadata.name.size() < 20 && self.kind == 'X'" }],
    };
    expect(structuralErrors(schema, "s")).toEqual([]);
  });
});

test("a schema nested ten thousand levels deep is refused, not followed", () => {
  let schema: JsonObject = { type: "string" };
  for (let i = 0; i < 10_000; i++) schema = { type: "object", properties: { a: schema } };
  const errors = structuralErrors(schema, "s");
  expect(errors).toHaveLength(1);
  expect(errors[0]?.body).toContain("must not be nested deeper");
});

test("a large schema with rules at every depth is judged in reasonable time", () => {
  const wide = (depth: number): JsonObject => {
    const properties: JsonObject = {};
    for (let i = 0; i < 5; i++) properties[`p${i}`] = depth === 0 ? { type: "string", maxLength: 10 } : wide(depth - 1);
    return { type: "object", properties, "x-kubernetes-validations": [{ rule: "has(self.p0) || has(self.p1)" }] };
  };
  expect(structuralErrors(wide(4), "s")).toEqual([]);
});

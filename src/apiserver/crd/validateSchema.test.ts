import { describe, expect, test } from "vitest";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import type { Json, JsonObject } from "../../model/objects/json.ts";
import { duplicateItems } from "./listUniqueness.ts";
import { compileStructural } from "./structural.ts";
import { validateSchema } from "./validateSchema.ts";

/** Errors of a value at spec.x. */
function errorsOf(schema: JsonObject, value: Json, old?: Json): string[] {
  const root = compileStructural({
    type: "object",
    properties: { spec: { type: "object", properties: { x: schema } } },
  });
  const object = (inner: Json): JsonObject => ({ spec: { x: inner } });
  return validateSchema(object(value), root, old === undefined ? undefined : object(old)).map(describeFieldError);
}

const body = "spec.x in body";

describe("a value is refused", () => {
  test.each<[string, JsonObject, Json, string[]]>([
    [
      "of the wrong type",
      { type: "integer" },
      "a",
      [`spec.x: Invalid value: "string": ${body} must be of type integer: "string"`],
    ],
    [
      "fraction for integer",
      { type: "integer" },
      1.5,
      [`spec.x: Invalid value: "number": ${body} must be of type integer: "number"`],
    ],
    ["null", { type: "string" }, null, [`spec.x: Invalid value: "null": ${body} must be of type string: "null"`]],
    [
      "list for object",
      { type: "object" },
      [],
      [`spec.x: Invalid value: "array": ${body} must be of type object: "array"`],
    ],
    [
      "int32 too large",
      { type: "integer", format: "int32" },
      2 ** 31,
      [`spec.x: Invalid value: "int64": ${body} must be of type int32: "int64"`],
    ],
    [
      "bool for int-or-string",
      { "x-kubernetes-int-or-string": true },
      true,
      [`spec.x: Invalid value: "boolean": ${body} must be of type integer,string: "boolean"`],
    ],
    [
      "below minimum",
      { type: "integer", minimum: 1 },
      0,
      [`spec.x: Invalid value: 0: ${body} should be greater than or equal to 1`],
    ],
    [
      "at exclusive minimum",
      { type: "number", minimum: 1, exclusiveMinimum: true },
      1,
      [`spec.x: Invalid value: 1: ${body} should be greater than 1`],
    ],
    [
      "above maximum",
      { type: "integer", maximum: 1 },
      2,
      [`spec.x: Invalid value: 2: ${body} should be less than or equal to 1`],
    ],
    [
      "at exclusive maximum",
      { type: "number", maximum: 1, exclusiveMaximum: true },
      1,
      [`spec.x: Invalid value: 1: ${body} should be less than 1`],
    ],
    [
      "not a multiple",
      { type: "integer", multipleOf: 5 },
      7,
      [`spec.x: Invalid value: 7: ${body} should be a multiple of 5`],
    ],
    [
      "too short",
      { type: "string", minLength: 2 },
      "a",
      [`spec.x: Invalid value: "a": ${body} should be at least 2 chars long`],
    ],
    ["too long", { type: "string", maxLength: 2 }, "abc", ["spec.x: Too long: may not be more than 2 bytes"]],
    ["pattern", { type: "string", pattern: "^a+$" }, "b", [`spec.x: Invalid value: "b": ${body} should match '^a+$'`]],
    ["enum", { type: "string", enum: ["b", "c"] }, "a", ['spec.x: Unsupported value: "a": supported values: "b", "c"']],
    [
      "enum of numbers",
      { type: "integer", enum: [1, 2] },
      3,
      ['spec.x: Unsupported value: 3: supported values: "1", "2"'],
    ],
    [
      "too few items",
      { type: "array", minItems: 1, items: { type: "string" } },
      [],
      [`spec.x: Invalid value: []: ${body} should have at least 1 items`],
    ],
    [
      "too many items",
      { type: "array", maxItems: 1, items: { type: "string" } },
      ["a", "b"],
      ["spec.x: Too many: 2: must have at most 1 items"],
    ],
    [
      "too few properties",
      { type: "object", minProperties: 1 },
      {},
      [`spec.x: Invalid value: {}: ${body} should have at least 1 properties`],
    ],
    [
      "too many properties",
      { type: "object", maxProperties: 0 },
      { a: 1 },
      ["spec.x: Too many: 1: must have at most 0 items"],
    ],
    [
      "required",
      { type: "object", required: ["a"], properties: { a: { type: "string" } } },
      {},
      ["spec.x.a: Required value"],
    ],
    [
      "item",
      { type: "array", items: { type: "string" } },
      ["a", 1],
      [`spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type string: "integer"`],
    ],
    [
      "map value",
      { type: "object", additionalProperties: { type: "string" } },
      { k: 1 },
      [`spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer"`],
    ],
    [
      "date-time",
      { type: "string", format: "date-time" },
      "now",
      [`spec.x: Invalid value: "now": ${body} must be of type date-time: "now"`],
    ],
    [
      "not",
      { type: "string", not: { enum: ["a"] } },
      "a",
      [`spec.x: Invalid value: "a": ${body} must not validate the schema (not)`],
    ],
    [
      "oneOf none",
      { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
      {},
      [
        `spec.x: Invalid value: {}: ${body} must validate one and only one schema (oneOf). Found none valid`,
        "spec.x.a: Required value",
      ],
    ],
    [
      "oneOf both",
      { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
      { a: 1, b: 1 },
      [
        `spec.x: Invalid value: {"a":1,"b":1}: ${body} must validate one and only one schema (oneOf). Found 2 valid alternatives`,
      ],
    ],
    [
      "anyOf",
      { type: "integer", anyOf: [{ maximum: 1 }, { minimum: 5 }] },
      3,
      [
        `spec.x: Invalid value: 3: ${body} must validate at least one schema (anyOf)`,
        `spec.x: Invalid value: 3: ${body} should be less than or equal to 1`,
      ],
    ],
    [
      "allOf",
      { type: "integer", allOf: [{ maximum: 1 }] },
      3,
      [
        `spec.x: Invalid value: 3: ${body} should be less than or equal to 1`,
        `spec.x: Invalid value: 3: ${body} must validate all the schemas (allOf)`,
      ],
    ],
  ])("%s", (_, schema, value, errors) => {
    expect(errorsOf(schema, value)).toEqual(errors);
  });
});

describe("a value is accepted", () => {
  test.each<[string, JsonObject, Json]>([
    ["null where nullable", { type: "string", nullable: true }, null],
    ["an integer for a number", { type: "number" }, 3],
    [
      "a number and a text for int-or-string",
      { type: "array", items: { "x-kubernetes-int-or-string": true } },
      [1, "50%"],
    ],
    ["an unknown format", { type: "string", format: "colour-of-the-day" }, "x"],
    ["length counted in characters", { type: "string", maxLength: 2 }, "😀😀"],
    ["RE2 syntax", { type: "string", pattern: "(?i)^abc$" }, "ABC"],
    ["anyOf with one branch", { type: "integer", anyOf: [{ maximum: 1 }, { minimum: 5 }] }, 6],
    [
      "a property called __proto__",
      JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}'),
      JSON.parse('{"__proto__":"x"}'),
    ],
  ])("%s", (_, schema, value) => {
    expect(errorsOf(schema, value)).toEqual([]);
  });
});

describe("formats", () => {
  test.each<[string, string[], string[]]>([
    ["byte", ["aGk=", ""], ["a", "%%%%"]],
    ["date", ["2024-02-29"], ["2023-02-29", "2024-2-9"]],
    ["date-time", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5+01:00"], ["2024-01-01", "2024-13-01T00:00:00Z"]],
    ["duration", ["1h30m", "5s", "3 days"], ["x", "5"]],
    ["uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123"]],
    ["ipv4", ["1.2.3.4"], ["1.2.3", "::1"]],
    ["ipv6", ["::1"], ["1.2.3.4", "g::"]],
    ["cidr", ["10.0.0.0/8"], ["10.0.0.0", "10.0.0.0/40"]],
    ["email", ["a@b.co"], ["a", "@b"]],
    ["hostname", ["a.example.com"], ["-a", "a..b"]],
    ["uri", ["https://a/b", "/a"], ["a b", ""]],
    ["mac", ["01:23:45:67:89:ab"], ["01:23"]],
    ["bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]],
    ["isbn", ["978-3-16-148410-0", "0-306-40615-2"], ["123"]],
    ["creditcard", ["4111111111111111"], ["4111111111111112"]],
    ["ssn", ["123-45-6789"], ["12-345"]],
    ["hexcolor", ["#fff", "#FFAA00"], ["#ff"]],
    ["rgbcolor", ["rgb(1,2,255)"], ["rgb(1,2,256)"]],
    ["password", ["anything"], []],
  ])("%s", (format, good, bad) => {
    const valid = (value: string) => errorsOf({ type: "string", format }, value).length === 0;
    expect(good.filter((value) => !valid(value))).toEqual([]);
    expect(bad.filter(valid)).toEqual([]);
  });
});

describe("on update", () => {
  const short: JsonObject = { type: "string", maxLength: 1 };
  const byName: JsonObject = {
    type: "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    items: { type: "object", properties: { name: { type: "string" }, v: short } },
  };
  test.each<[string, JsonObject, Json, Json, number]>([
    ["what was invalid and did not change is tolerated", short, "long", "long", 0],
    ["what is invalid and changed is refused", short, "longer", "long", 1],
    [
      "a missing field that was missing is tolerated while its object is unchanged",
      { type: "object", required: ["a"] },
      { b: 1 },
      { b: 1 },
      0,
    ],
    ["a missing field is refused once its object changes", { type: "object", required: ["a"] }, { b: 2 }, { b: 1 }, 1],
    [
      "siblings are tolerated one by one",
      { type: "object", additionalProperties: short },
      { a: "long", b: "n" },
      { a: "long", b: "o" },
      0,
    ],
    [
      "items of a map list are found by key",
      byName,
      [
        { name: "b", v: "long" },
        { name: "a", v: "x" },
      ],
      [{ name: "b", v: "long" }],
      0,
    ],
    ["items of a plain list are not", { type: "array", items: short }, ["long", "x"], ["long"], 1],
  ])("%s", (_, schema, value, old, count) => {
    expect(errorsOf(schema, value, old)).toHaveLength(count);
  });
});

describe("lists with identity", () => {
  const set = compileStructural({
    type: "object",
    properties: { s: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } } },
  });
  const map = compileStructural({
    type: "object",
    properties: {
      m: {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        items: {
          type: "object",
          properties: { port: { type: "integer" }, protocol: { type: "string", default: "TCP" } },
        },
      },
    },
  });
  test("a set holds a value once; three copies are reported once", () => {
    expect(duplicateItems({ s: ["a", "b", "a", "a"] }, set).map(describeFieldError)).toEqual([
      's[2]: Duplicate value: "a"',
    ]);
  });
  test("a map list holds its keys once, and a missing key counts as its default", () => {
    const value = { m: [{ port: 80 }, { port: 80, protocol: "UDP" }, { port: 80, protocol: "TCP" }] };
    expect(duplicateItems(value, map).map(describeFieldError)).toEqual([
      'm[2]: Duplicate value: {"port":80,"protocol":"TCP"}',
    ]);
  });
});

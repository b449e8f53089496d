import { describe, expect, test } from "vitest";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { checkRules, compileRules } from "./celRules.ts";
import { escapeFieldName } from "./celTypes.ts";
import { compileStructural } from "./structural.ts";

function check(spec: JsonObject, value: JsonObject, old?: JsonObject): string[] {
  const rules = compileRules(compileStructural({ type: "object", properties: { spec } }), true);
  if (rules === undefined) throw new Error("no rules");
  const errors = checkRules(rules, { spec: value }, old === undefined ? undefined : { spec: old });
  return errors.map(describeFieldError);
}

const numbers: JsonObject = { a: { type: "integer" }, b: { type: "integer" }, s: { type: "string" } };

function ruled(...rules: (string | JsonObject)[]): JsonObject {
  const list = rules.map((rule) => (typeof rule === "string" ? { rule } : rule));
  return { type: "object", properties: numbers, "x-kubernetes-validations": list };
}

describe("a violation is reported", () => {
  test.each<[string, JsonObject, JsonObject, string[]]>([
    [
      "with the rule if there is no message",
      ruled("self.a <= self.b"),
      { a: 2, b: 1 },
      ['spec: Invalid value: "object": failed rule: self.a <= self.b'],
    ],
    [
      "with the message",
      ruled({ rule: "self.a <= self.b", message: "a before b" }),
      { a: 2, b: 1 },
      ['spec: Invalid value: "object": a before b'],
    ],
    [
      "with the message expression",
      ruled({ rule: "self.a <= self.b", message: "m", messageExpression: "'a is ' + string(self.a)" }),
      { a: 2, b: 1 },
      ['spec: Invalid value: "object": a is 2'],
    ],
    [
      "with the message if the expression fails",
      ruled({ rule: "self.a <= self.b", message: "m", messageExpression: "self.s" }),
      { a: 2, b: 1 },
      ['spec: Invalid value: "object": m'],
    ],
    [
      "as forbidden",
      ruled({ rule: "false", message: "no", reason: "FieldValueForbidden" }),
      {},
      ["spec: Forbidden: no"],
    ],
    [
      "as required, at a field",
      ruled({ rule: "has(self.s)", message: "say s", reason: "FieldValueRequired", fieldPath: ".s" }),
      {},
      ["spec.s: Required value: say s"],
    ],
    ["as duplicate", ruled({ rule: "false", reason: "FieldValueDuplicate" }), {}, ['spec: Duplicate value: "object"']],
    [
      "as an error of evaluation",
      ruled("self.a > 0"),
      {},
      ['spec: Invalid value: "object": no such key: a evaluating rule: self.a > 0'],
    ],
    [
      "for each rule",
      ruled("self.a > 5", "self.b > 5"),
      { a: 1, b: 1 },
      [expect.stringContaining("self.a"), expect.stringContaining("self.b")] as string[],
    ],
  ])("%s", (_, schema, value, errors) => {
    expect(check(schema, value)).toEqual(errors);
  });
});

describe("values in rules", () => {
  const holds = (properties: JsonObject, rule: string, value: JsonObject) =>
    check({ type: "object", properties, "x-kubernetes-validations": [{ rule }] }, value);
  test.each<[string, JsonObject, string, JsonObject]>([
    ["numbers are doubles even if whole", { n: { type: "number" } }, "self.n / 2.0 == 1.5", { n: 3 }],
    [
      "date-times are timestamps",
      { t: { type: "string", format: "date-time" } },
      "self.t < timestamp('2030-01-01T00:00:00Z')",
      { t: "2024-01-01T00:00:00Z" },
    ],
    [
      "durations are durations",
      { d: { type: "string", format: "duration" } },
      "self.d >= duration('1m')",
      { d: "90s" },
    ],
    ["bytes are bytes", { b: { type: "string", format: "byte" } }, "self.b == b'hi'", { b: "aGk=" }],
    [
      "int-or-string is either",
      { i: { "x-kubernetes-int-or-string": true } },
      "type(self.i) == int ? self.i > 1 : self.i == '50%'",
      { i: "50%" },
    ],
    [
      "names are escaped",
      { "a-b": { type: "integer" }, if: { type: "integer" } },
      "self.a__dash__b + self.__if__ == 3",
      { "a-b": 1, if: 2 },
    ],
    ["doubles inside lists", { l: { type: "array", items: { type: "number" } } }, "self.l.sum() == 3.0", { l: [1, 2] }],
    [
      "maps are maps",
      { m: { type: "object", additionalProperties: { type: "integer" } } },
      "self.m.all(k, self.m[k] > 0) && 'x' in self.m",
      { m: { x: 1 } },
    ],
    ["null is null", { n: { type: "object", nullable: true } }, "self.n == null", { n: null }],
  ])("%s", (_, properties, rule, value) => {
    expect(holds(properties, rule, value)).toEqual([]);
  });
});

describe("on update", () => {
  const immutable = ruled({ rule: "self.a == oldSelf.a", message: "a is immutable" });
  test("a transition rule waits for an old value", () => {
    expect(check(immutable, { a: 1 })).toEqual([]);
    expect(check(immutable, { a: 1 }, { a: 1 })).toEqual([]);
    expect(check(immutable, { a: 2 }, { a: 1 })).toEqual(['spec: Invalid value: "object": a is immutable']);
  });

  test("a rule with optionalOldSelf is evaluated on create as well", () => {
    const rule = { rule: "oldSelf.hasValue() || self.a == 1", message: "starts at 1", optionalOldSelf: true };
    expect(check(ruled(rule), { a: 2 })).toEqual(['spec: Invalid value: "object": starts at 1']);
    expect(check(ruled(rule), { a: 2 }, { a: 1 })).toEqual([]);
  });

  test("what broke a rule before and did not change is tolerated", () => {
    expect(check(ruled("self.a > 5"), { a: 1 }, { a: 1 })).toEqual([]);
    expect(check(ruled("self.a > 5"), { a: 2 }, { a: 1 })).toHaveLength(1);
  });

  const list: JsonObject = {
    type: "object",
    properties: {
      l: {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        items: {
          type: "object",
          properties: { k: { type: "string" }, v: { type: "integer" } },
          "x-kubernetes-validations": [{ rule: "self.v >= oldSelf.v", message: "v grows" }],
        },
      },
    },
  };
  test("items of a map list meet their old selves by key, not by place", () => {
    const old = {
      l: [
        { k: "a", v: 1 },
        { k: "b", v: 5 },
      ],
    };
    expect(
      check(
        list,
        {
          l: [
            { k: "b", v: 5 },
            { k: "a", v: 2 },
            { k: "new", v: 0 },
          ],
        },
        old,
      ),
    ).toEqual([]);
    expect(check(list, { l: [{ k: "b", v: 4 }] }, old)).toEqual(['spec.l[0]: Invalid value: "object": v grows']);
  });
});

test("a rule on a value of a map names the key in brackets", () => {
  const schema: JsonObject = {
    type: "object",
    properties: {
      m: {
        type: "object",
        additionalProperties: { type: "integer", "x-kubernetes-validations": [{ rule: "self > 0" }] },
      },
    },
  };
  expect(check(schema, { m: { "a.b": 0 } })).toEqual(['spec.m[a.b]: Invalid value: "integer": failed rule: self > 0']);
});

test("an operator on the wrong type is reported", () => {
  const schema: JsonObject = {
    type: "object",
    properties: { i: { "x-kubernetes-int-or-string": true } },
    "x-kubernetes-validations": [{ rule: "self.i > 0" }],
  };
  expect(check(schema, { i: "x" })[0]).toContain("'no such overload': call arguments did not match");
});

test("a rule that costs too much ends the evaluation of all", () => {
  const schema: JsonObject = {
    type: "object",
    properties: { l: { type: "array", items: { type: "integer" } } },
    "x-kubernetes-validations": [{ rule: "self.l.all(a, self.l.all(b, a + b >= 0))" }, { rule: "false" }],
  };
  const errors = check(schema, { l: Array.from({ length: 1000 }, (_, i) => i) });
  expect(errors).toHaveLength(1);
  expect(errors[0]).toContain("call cost exceeds limit");
});

test("all rules of one object share a budget", () => {
  const schema: JsonObject = {
    type: "object",
    properties: {
      l: {
        type: "array",
        items: {
          type: "array",
          items: { type: "integer" },
          "x-kubernetes-validations": [{ rule: "self.all(a, self.all(b, a + b >= 0))" }],
        },
      },
    },
  };
  const inner = Array.from({ length: 300 }, (_, i) => i);
  const errors = check(schema, { l: Array.from({ length: 40 }, () => inner) });
  expect(errors).toHaveLength(1);
  expect(errors[0]).toContain("running out of cost budget");
});

test.each([
  ["plain", "plain"],
  ["a-b", "a__dash__b"],
  ["a.b/c", "a__dot__b__slash__c"],
  ["a__b", "a__underscores__b"],
  ["namespace", "__namespace__"],
  ["sp ace", undefined],
  ["1st", undefined],
])("property %s is %s in rules", (key, name) => {
  expect(escapeFieldName(key)).toBe(name);
});

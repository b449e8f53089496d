/** Estimates of kube-apiserver 1.36 for the same rules, as factors of the budget of ten million. */
import { expect, test } from "vitest";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import type { JsonObject } from "../../model/objects/json.ts";
import { structuralErrors } from "./structuralSchema.ts";

const short = { type: "string", maxLength: 10 };
const many = 10_000_000;
const properties: JsonObject = {
  l: { type: "array", maxItems: many, items: short },
  long: { type: "array", maxItems: many, items: { type: "string", maxLength: 100 } },
  i: { type: "array", maxItems: many, items: { type: "integer" } },
  m: { type: "object", maxProperties: many, additionalProperties: short },
  o: { type: "object", properties: { n: short } },
  a: { type: "integer" },
  s: { type: "string" },
};

function factorOf(rule: string, messageExpression?: string): string {
  const rules = [{ rule, ...(messageExpression !== undefined && { messageExpression }) }];
  const spec: JsonObject = { type: "object", properties, "x-kubernetes-validations": rules };
  const errors = structuralErrors({ type: "object", properties: { spec } }, "s").map(describeFieldError);
  const factor = errors.map(
    (text) => /estimated (rule|messageExpression) cost exceeds budget by factor of (more|\S+)/.exec(text)?.[2],
  );
  return factor.find((found) => found !== undefined) ?? errors.join("; ");
}

test.each([
  ["self.l.all(x, true)", "3.0x"],
  ["self.l.all(x, x == 'abc')", "5.0x"],
  ["self.l.all(x, x == x)", "9.0x"],
  ["self.long.all(x, x == x)", "45.0x"],
  ["self.l.exists_one(x, x == 'a')", "4.0x"],
  ["self.l.all(x, [1,2,3].exists_one(y, y == 1))", "24.0x"],
  ["self.l.all(x, [1,2,3].all(y, y > 1))", "29.0x"],
  ["self.m.all(k, k == 'a')", "4.0x"],
  ["self.m.all(k, k + 'a' == 'b')", "6.0x"],
  ["self.l.all(x, x.startsWith('abc'))", "5.0x"],
  ["self.l.all(x, has(self.o.n))", "5.0x"],
  ["self.l.all(x, x + x == 'abc')", "14.0x"],
  ["self.l.all(x, x.replace('a', 'b') == 'a')", "13.0x"],
  ["self.l.all(x, quantity(x).isGreaterThan(quantity('1')))", "10.0x"],
  ["self.l.join(',') == 'abcd'", "4.1x"],
  ["!format.dns1123Label().validate(self.s).hasValue()", "1.006634x"],
  ["self.i.all(x, string(x) + 'a' == 'abc')", "more"],
  ["self.s == 'x'", ""],
])("%s", (rule, factor) => {
  expect(factorOf(rule)).toBe(factor);
});

test("a message costs too, and the text of a number has no known limit", () => {
  expect(factorOf("self.a > 1", "'a is ' + string(self.a)")).toBe("more");
  expect(factorOf("self.a > 1", "'a is too small'")).toBe("");
});

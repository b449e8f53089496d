import { describe, expect, test } from "vitest";
import {
  matchesLabels,
  matchNothing,
  parseLabelSelector,
  selectorRequirements,
  validateLabelSelector,
  validateLabels,
} from "./labelSelector.ts";

const web = { app: "web", tier: "2", empty: "" };
const matches = (text: string) => matchesLabels(parseLabelSelector(text), web);

describe("a selector in a URL", () => {
  test.each([
    ["", true],
    ["app=web", true],
    ["app==web", true],
    [" app = web , tier=2 ", true],
    ["app=db", false],
    ["app!=db", true],
    ["absent!=db", true],
    ["app", true],
    ["absent", false],
    ["!absent", true],
    ["! app", false],
    ["app in (web,db)", true],
    ["app in (db)", false],
    ["app notin (db)", true],
    ["absent notin (db)", true],
    ["absent in (db)", false],
    ["empty=", true],
    ["empty=,app=web", true],
    ["app in (,web)", true],
    ["empty in (,)", true],
    ["tier>1", true],
    ["tier>2", false],
    ["tier<10", true],
    ["app>1", false],
    ["absent>1", false],
    ["in in (in)", false],
    ["notin", false],
    ["app in (web),tier notin (3),!x", true],
    ["constructor", false],
    ["__proto__", false],
    ["toString!=x", true],
  ])("%j matches the web pod: %s", (text, expected) => {
    if (text.includes("__proto__")) return expect(() => parseLabelSelector(text)).toThrow(/name part must consist/);
    return expect(matches(text)).toBe(expected);
  });

  test.each([
    [",", "found ',', expected: !, identifier, or 'end of string'"],
    ["a,", "found '', expected: identifier after ','"],
    ["a,,b", "found ',', expected: identifier after ','"],
    ["=b", "found '=', expected: !, identifier, or 'end of string'"],
    ["!", "unable to parse requirement: found '', expected: identifier"],
    ["a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"],
    ["a in b", "unable to parse requirement: found 'b' expected: '('"],
    ["a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"],
    ["a in (b", "unable to parse requirement: found '', expected: ',' or ')'"],
    [
      "a in ()",
      "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
    ],
    ["a=(b)", "unable to parse requirement: found '(', expected: identifier"],
    ["a=b c", "found 'c', expected: ',' or 'end of string'"],
    ["!a=b", "found '=', expected: ',' or 'end of string'"],
    [
      "a>x",
      "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ],
    ["a>99999999999999999999", /must be an integer/],
    ["a/b/c", /^unable to parse requirement: <nil>: Invalid value: "a\/b\/c": a valid label key/],
    ["a=-b", /^unable to parse requirement: values\[0\]\[a\]: Invalid value: "-b": a valid label must be/],
  ])("%j is refused with 400", (text, message) => {
    try {
      parseLabelSelector(text);
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ status: { code: 400, reason: "BadRequest" } });
      const { message: said } = error as Error;
      if (typeof message === "string") expect(said).toBe(message);
      else expect(said).toMatch(message);
    }
  });

  test("a selector of a megabyte is read in linear time", () => {
    const text = Array.from({ length: 50_000 }, (_, i) => `k${i}!=v`).join(",");
    expect(matchesLabels(parseLabelSelector(text), web)).toBe(true);
  });
});

describe("a selector in a spec", () => {
  test("absent chooses nothing, empty everything", () => {
    expect(matchesLabels(selectorRequirements(undefined), web)).toBe(false);
    expect(matchesLabels(matchNothing, {})).toBe(false);
    expect(matchesLabels(selectorRequirements({}), undefined)).toBe(true);
  });
  test("labels and expressions must all hold", () => {
    const requirements = selectorRequirements({
      matchLabels: { app: "web" },
      matchExpressions: [
        { key: "tier", operator: "In", values: ["1", "2"] },
        { key: "x", operator: "DoesNotExist" },
        { key: "app", operator: "Exists" },
        { key: "tier", operator: "NotIn", values: ["3"] },
      ],
    });
    expect(matchesLabels(requirements, web)).toBe(true);
    expect(matchesLabels(requirements, { ...web, x: "" })).toBe(false);
    expect(matchesLabels(requirements, { app: "web" })).toBe(false);
  });
  test("an unknown operator is an error", () => {
    expect(() => selectorRequirements({ matchExpressions: [{ key: "a", operator: "Gt" }] })).toThrow(
      '"Gt" is not a valid label selector operator',
    );
  });
  test("mistakes are named by field", () => {
    const errors = validateLabelSelector(
      {
        matchLabels: { "a b": "c", ok: "-" },
        matchExpressions: [
          { key: "a", operator: "In" },
          { key: "a", operator: "Exists", values: ["x"] },
          { key: "a", operator: "Near", values: ["y!"] },
          { key: "", operator: "Exists" },
        ],
      },
      "spec.selector",
    );
    expect(errors.map((e) => [e.type, e.field])).toEqual([
      ["Invalid", "spec.selector.matchLabels"],
      ["Invalid", "spec.selector.matchLabels"],
      ["Required", "spec.selector.matchExpressions[0].values"],
      ["Forbidden", "spec.selector.matchExpressions[1].values"],
      ["Invalid", "spec.selector.matchExpressions[2].operator"],
      ["Invalid", "spec.selector.matchExpressions[2].values[0]"],
      ["Invalid", "spec.selector.matchExpressions[3].key"],
      ["Invalid", "spec.selector.matchExpressions[3].key"],
    ]);
    expect(validateLabelSelector(undefined, "spec.selector")).toEqual([]);
    expect(validateLabels({ app: "web" }, "metadata.labels")).toEqual([]);
  });
});

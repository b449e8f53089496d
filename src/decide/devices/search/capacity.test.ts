import { describe, expect, test } from "vitest";
import { formatQuantity, parseQuantity } from "../../../model/values/quantity.ts";
import { amountOf, isMilliSafe, usesMilli, violatesPolicy } from "./capacity.ts";

const range = { default: "2", validRange: { min: "2", step: "2", max: "4" } };
const fractional = { default: "0.2", validRange: { min: "0.2", step: "0.1", max: "1" } };
const set = { default: "1", validValues: ["1", "2", "4"] };
const max = "9223372036854775807";

describe("the consumption of a request", () => {
  test.each([
    { name: "nothing asked, no policy: all of it", value: "8", policy: undefined, asked: undefined, gets: "8" },
    { name: "nothing asked: the default", value: "8", policy: range, asked: undefined, gets: "2" },
    { name: "no policy: what was asked", value: "8", policy: undefined, asked: "3", gets: "3" },
    { name: "below the minimum: the minimum", value: "8", policy: range, asked: "1", gets: "2" },
    { name: "between two steps: the next", value: "8", policy: range, asked: "3", gets: "4" },
    { name: "on a step: itself", value: "8", policy: range, asked: "4", gets: "4" },
    { name: "a fraction between two steps: the next", value: "1", policy: fractional, asked: "0.25", gets: "300m" },
    { name: "a fraction on a step: itself", value: "1", policy: fractional, asked: "0.3", gets: "300m" },
    { name: "one of the values", value: "8", policy: set, asked: "2", gets: "2" },
    { name: "between two values: the larger", value: "8", policy: set, asked: "3", gets: "4" },
    { name: "above all values: what was asked", value: "8", policy: set, asked: "5", gets: "5" },
    {
      name: "the largest number there is",
      value: max,
      policy: { default: "1", validRange: { min: "1", step: "1", max } },
      asked: max,
      gets: max,
    },
  ])("$name", ({ value, policy, asked, gets }) => {
    const capacity = { value, ...(policy !== undefined && { requestPolicy: policy }) };
    const amount = amountOf(
      capacity,
      parseQuantity(value),
      asked === undefined ? undefined : parseQuantity(asked),
      true,
    );
    expect(typeof amount === "string" ? amount : formatQuantity(amount)).toBe(gets);
  });

  test.each([
    { name: "more than can be counted", policy: range, asked: "9223372036854775808" },
    { name: "finer than a thousandth", policy: fractional, asked: "0.0005" },
    {
      name: "rounded beyond what can be counted",
      policy: { default: "2", validRange: { min: "2", step: "1k" } },
      asked: max,
    },
  ])("$name is an error", ({ policy, asked }) => {
    const larger = parseQuantity(asked).nano < parseQuantity("0.2").nano ? "0.2005" : asked;
    expect(
      typeof amountOf({ value: "8", requestPolicy: policy }, parseQuantity("8"), parseQuantity(larger), true),
    ).toBe("string");
  });
});

describe("what violates a policy", () => {
  test.each([
    { name: "nothing without a policy", policy: undefined, amount: "7", isForbidden: false },
    { name: "nothing up to the maximum", policy: range, amount: "4", isForbidden: false },
    { name: "more than the maximum", policy: range, amount: "6", isForbidden: true },
    {
      name: "what is off the steps",
      policy: { default: "2", validRange: { min: "2", step: "2" } },
      amount: "5",
      isForbidden: true,
    },
    { name: "no fraction on a step", policy: fractional, amount: "0.4", isForbidden: false },
    { name: "a fraction off the steps", policy: fractional, amount: "0.45", isForbidden: true },
    { name: "no value of the set", policy: set, amount: "4", isForbidden: false },
    { name: "what is not in the set", policy: set, amount: "3", isForbidden: true },
    { name: "never the default", policy: { default: "7", validValues: ["1"] }, amount: "7", isForbidden: false },
  ])("$name", ({ policy, amount, isForbidden }) => {
    const capacity = { value: "8", ...(policy !== undefined && { requestPolicy: policy }) };
    expect(violatesPolicy(capacity, parseQuantity(amount), true)).toBe(isForbidden);
  });
});

describe("thousandths", () => {
  test.each([
    { text: "2", isSafe: true },
    { text: "0.2", isSafe: true },
    { text: "100u", isSafe: false },
    { text: "9223372036854775807", isSafe: false },
  ])("$text can be represented in them: $isSafe", ({ text, isSafe }) => {
    expect(isMilliSafe(parseQuantity(text))).toBe(isSafe);
  });

  test.each([
    { name: "never when they are disabled", policy: fractional.validRange, isOn: false, uses: false },
    { name: "for fractions", policy: fractional.validRange, isOn: true, uses: true },
    { name: "for whole numbers too", policy: range.validRange, isOn: true, uses: true },
    { name: "not when the minimum is too large", policy: { min: max }, isOn: true, uses: false },
    { name: "not when a step is finer", policy: { min: "1", step: "100u" }, isOn: true, uses: false },
  ])("$name", ({ policy, isOn, uses }) => {
    expect(usesMilli(policy, isOn)).toBe(uses);
  });
});

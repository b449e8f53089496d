import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareRevisions, isAtLeast, isLater, isRevision, laterOf } from "./revision.ts";

describe("revisions", () => {
  test.each([
    { a: "9", b: "10", order: -1 },
    { a: "10", b: "10", order: 0 },
    { a: "100", b: "99", order: 1 },
    { a: "9007199254740993", b: "9007199254740992", order: 1 },
  ])("$a against $b is $order", ({ a, b, order }) => {
    expect(Math.sign(compareRevisions(a, b))).toBe(order);
  });

  test.each(["", "01", "-1", "1.5", "abc", "1 ", 7, undefined])("%j is not a revision", (text) => {
    expect(isRevision(text)).toBe(false);
  });

  test("the order is that of the numbers, however long they are", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.bigInt({ min: 0n, max: 10n ** 30n }), (a, b) => {
        const [left, right] = [String(a), String(b)];
        expect(Math.sign(compareRevisions(left, right))).toBe(a < b ? -1 : a > b ? 1 : 0);
        expect(isAtLeast(left, right)).toBe(a >= b);
        expect(isLater(left, right)).toBe(a > b);
        expect(laterOf(left, right)).toBe(String(a > b ? a : b));
      }),
    );
  });
});

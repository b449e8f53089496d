import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ChunkedMap, emptyView } from "./chunkedMap.ts";

const key = fc.integer({ min: 0, max: 600 }).map((n) => `${n % 3 === 0 ? "a" : "b"}/${n}`);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("set" as const), key, value: fc.nat() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("delete" as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("view" as const) }) },
);

describe("a map in chunks", () => {
  test("holds what a Map holds, in order, and a view never changes", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 1500, size: "max" }), (steps) => {
        const map = new ChunkedMap<number>();
        const model = new Map<string, number>();
        const taken: { view: Iterable<readonly [string, number]>; was: (readonly [string, number])[] }[] = [];
        const inOrder = () => [...model].sort(([a], [b]) => (a < b ? -1 : 1));
        for (const each of steps) {
          if (each.do === "set") {
            expect(map.set(each.key, each.value)).toBe(model.get(each.key));
            model.set(each.key, each.value);
          } else if (each.do === "delete") {
            expect(map.delete(each.key)).toBe(model.get(each.key));
            model.delete(each.key);
          } else taken.push({ view: map.view(), was: inOrder() });
        }
        const now = map.view();
        expect([...now]).toEqual(inOrder());
        expect(now.size).toBe(model.size);
        expect([...now.withPrefix("b/")]).toEqual(inOrder().filter(([each]) => each.startsWith("b/")));
        for (let n = 0; n < 600; n += 7) expect(now.get(`b/${n}`)).toBe(model.get(`b/${n}`));
        for (const { view, was } of taken) expect([...view]).toEqual(was);
      }),
      { numRuns: 20 },
    );
  });

  test("two views without a write between them are one object", () => {
    const map = new ChunkedMap<number>();
    map.set("a", 1);
    const view = map.view();
    expect(map.view()).toBe(view);
    map.set("b", 2);
    expect(map.view()).not.toBe(view);
  });

  test("an empty view has nothing", () => {
    expect([...emptyView<number>()]).toEqual([]);
    expect(emptyView<number>().get("a")).toBeUndefined();
    expect([...emptyView<number>().withPrefix("a")]).toEqual([]);
  });
});

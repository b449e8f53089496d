import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apply, type Delta, diff, isEmpty, keepSame, ofParts } from "./delta.ts";
import type { GpuCell, JobRow, ReadModel } from "./parts.ts";
import { sumsOf } from "./sums.ts";

const cell: fc.Arbitrary<GpuCell> = fc.oneof(
  fc.constant<GpuCell>(["f"]),
  fc.constant<GpuCell>(["?"]),
  fc
    .tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 9 }))
    .map(([id, pod]): GpuCell => ["u", [[id, pod, 1000, 0]]]),
  fc.integer({ min: 1, max: 4 }).map((id): GpuCell => ["l", [[id, 1, 1000, 1]], id]),
  fc.constant<GpuCell>(["x", [], 0, "xid"]),
);
const job = fc.record({ id: fc.constantFrom("a/1", "a/2", "b/3", "b/4", "c/5"), gpus: fc.integer({ min: 0, max: 9 }) });

const model: fc.Arbitrary<ReadModel> = fc
  .record({
    rev: fc.integer({ min: 1, max: 99 }),
    nodes: fc.array(fc.record({ gpus: fc.integer({ min: 1, max: 3 }), isReady: fc.boolean() }), {
      minLength: 1,
      maxLength: 3,
    }),
    cells: fc.array(cell, { minLength: 9, maxLength: 9 }),
    occupants: fc.uniqueArray(fc.integer({ min: 1, max: 5 })),
    jobs: fc.uniqueArray(job, { selector: ({ id }) => id }),
    total: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ rev, nodes, cells, occupants, jobs, total }) => {
    const gpus = cells.slice(
      0,
      nodes.reduce((sum, each) => sum + each.gpus, 0),
    );
    return {
      rev,
      at: `2026-01-01T00:00:${String(rev).padStart(2, "0")}.000Z`,
      wall: {
        racks: ["r"],
        types: ["t"],
        nodes: nodes.map(
          ({ gpus: many, isReady }, at) => [`n${at}`, 0, 0, isReady ? "ready" : "unknown", many, ""] as const,
        ),
        occupants: [...occupants].sort((a, b) => a - b).map((id) => [id, `g${id}`, "q", "", rev, 1000] as const),
        gpus,
        sums: sumsOf(gpus),
      },
      // Only what the difference looks at: identity, and whether two rows say the same.
      jobs: { jobs: jobs as readonly Partial<JobRow>[] as readonly JobRow[] },
      queues: { queues: [], total },
      gangs: { gangs: [] },
    };
  });

describe("a difference", () => {
  test("applied to the model before is the model after, also when it has travelled as text", () => {
    fc.assert(
      fc.property(model, model, (before, after) => {
        const sent = JSON.parse(JSON.stringify(diff(before, after))) as Delta;
        expect(apply(before, sent)).toEqual(after);
      }),
    );
  });

  test("is nothing between a model and itself, and keeps the objects of what did not change", () => {
    fc.assert(
      fc.property(model, model, (before, after) => {
        expect(isEmpty(diff(before, before))).toBe(true);
        const kept = keepSame(before, after);
        expect(kept).toEqual(after);
        expect(diff(before, kept)).toEqual(diff(before, after));
        const copy = JSON.parse(JSON.stringify(before)) as ReadModel;
        expect(keepSame(before, copy).wall).toBe(before.wall);
      }),
    );
  });

  test("names as many GPUs as changed", () => {
    fc.assert(
      fc.property(model, fc.nat(8), (before, at) => {
        const place = at % before.wall.gpus.length;
        const gpus = before.wall.gpus.map((each, n): GpuCell => (n === place ? ["c"] : each));
        const after = { ...before, wall: { ...before.wall, gpus, sums: sumsOf(gpus) } };
        expect(diff(before, after).ops.wall?.gpus).toEqual([[place, ["c"]]]);
      }),
    );
  });

  test("has only the parts that were asked for", () => {
    fc.assert(
      fc.property(model, model, (before, after) => {
        const { ops } = ofParts(diff(before, after), new Set(["queues"]));
        expect(Object.keys(ops)).toEqual(["queues"]);
      }),
    );
  });
});

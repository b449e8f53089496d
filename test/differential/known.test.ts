import { expect, test } from "vitest";
import { tally, unknown } from "./known.ts";
import type { Case } from "./probe.ts";

function answered(name: string, real: number, ours: number, paths: string[] = []): Case {
  const differences = paths.map((path) => ({ path, real: "a", ours: "b", wording: path === ".message" }));
  return { name, request: "", body: "", status: { real, ours }, messages: { real: "", ours: "" }, differences };
}

test("a case whose status differs is a line of its own, fields are counted by kind and path", () => {
  const found = tally([
    answered("pods: a=1", 422, 201, ["STATUS", ".kind"]),
    answered("pods: b=1", 201, 201, [".spec.x[0].y", ".spec.x[1].y", ".message"]),
    answered("pods: b=2", 201, 201, [".spec.x[7].y"]),
    answered("pods: c=1", 422, 422, [".message"]),
  ]);
  expect([...found]).toEqual([
    ["cases", 3],
    ["status 422 201\tpods: a=1", 1],
    ["answer\tpods: .spec.x[].y", 2],
  ]);
});

test("more cases, and another status, are not known", () => {
  const known = new Map([
    ["cases", 5],
    ["status 422 201\tpods: a", 1],
    ["answer\tpods: .spec", 4],
  ]);
  const mended = new Map([
    ["cases", 5],
    ["answer\tpods: .spec", 5],
  ]);
  expect([...unknown(mended, known)]).toEqual([]);
  const other = new Map([
    ["cases", 4],
    ["status 422 201\tpods: b", 1],
  ]);
  expect([...unknown(other, known)]).toEqual([["status 422 201\tpods: b", 1]]);
  const more = new Map([
    ["cases", 6],
    ["answer\tpods: .spec", 5],
    ["answer\tpods: .status", 1],
  ]);
  expect([...unknown(more, known)].map(([line]) => line)).toEqual([
    "cases",
    "answer\tpods: .spec",
    "answer\tpods: .status",
  ]);
});

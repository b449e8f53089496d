import { expect, test } from "vitest";
import { shrunk, tally, unknown } from "./known.ts";
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
    ["status 422 201\tpods: a=1", 1],
    ["answer\tpods: .spec.x[].y", 2],
  ]);
});

test("the list of known differences takes nothing in and forgets what is gone", () => {
  const known = new Map([
    ["gone", 3],
    ["fewer", 5],
    ["as before", 1],
  ]);
  const found = new Map([
    ["fewer", 2],
    ["as before", 1],
    ["new", 1],
  ]);
  expect([...shrunk(known, found)]).toEqual([
    ["fewer", 2],
    ["as before", 1],
  ]);
  expect([...unknown(found, known)]).toEqual([["new", 1]]);
});

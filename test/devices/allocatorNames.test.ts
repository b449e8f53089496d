import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { upstreamAlphaCases, upstreamCases } from "./upstreamCases.ts";

const folder = new URL("./", import.meta.url);
const tables = readdirSync(folder)
  .filter((name) => /^allocator(?!Names).*\.test\.ts$/.test(name))
  .map((name) => readFileSync(new URL(name, folder), "utf8"))
  .join("\n");

/** Whether a table has a row of this name; four rows are made by a loop over the kinds of values. */
function hasRow(name: string): boolean {
  const looped = name.replace(/-(int|string|bool|version)-attribute$/, `-\${kind}-attribute`);
  return tables.includes(`"${name}"`) || tables.includes(`\`${looped}\``);
}

test("all of Kubernetes' own allocator cases are here by their names, except those of alpha features", () => {
  expect([upstreamCases.length, upstreamAlphaCases.length]).toEqual([231, 42]);
  expect(upstreamCases.filter((name) => !hasRow(name))).toEqual([]);
  const alpha =
    /^(compatibility-groups|optional-node-operations|derived-attributes|list-attributes|numanode-matchattribute)/;
  expect(upstreamAlphaCases.filter((name) => !alpha.test(name) || hasRow(name))).toEqual([]);
});

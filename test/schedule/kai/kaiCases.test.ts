import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { casesFile, type KaiCase, readCases } from "./kaiCase.ts";
import { knownDifferences } from "./knownDifferences.ts";
import { playKaiCase } from "./playKaiCase.ts";

const cases = readCases() ?? [];
const reason = cases.length === 0 ? ` (the cases are not in ${casesFile})` : "";
const known = new Set(Object.values(knownDifferences).flatMap((byCase) => Object.keys(byCase)));
const files = new Map<string, KaiCase[]>();
for (const each of cases) files.set(each.file, [...(files.get(each.file) ?? []), each]);

test("docs/scheduler.md names every known difference", () => {
  const rows = readFileSync(join(import.meta.dirname, "../../../docs/scheduler.md"), "utf8").split("\n");
  const unnamed = [...known].filter((id) => {
    const [, name = "", number = ""] = /(Test\w+)__(\d+)$/.exec(id) ?? [];
    return !rows.some((row) => row.includes(`| \`${name}\` |`) && new RegExp(`\\b${Number(number)}\\b`).test(row));
  });
  expect(unnamed).toEqual([]);
});

describe.skipIf(cases.length === 0)(`KAI's own decision tests${reason}`, () => {
  test.each([...files.keys()])("%s: decided as KAI decides, but for the known differences", (file) => {
    const different: Record<string, readonly string[]> = {};
    for (const kaiCase of files.get(file) ?? []) {
      const found = playKaiCase(kaiCase);
      if (found.length > 0 && !known.has(kaiCase.id)) different[`${kaiCase.id} (${kaiCase.name})`] = found;
    }
    expect(different).toEqual({});
  });

  test("every known difference is one", () => {
    const differ = cases.filter((each) => known.has(each.id) && playKaiCase(each).length > 0).map(({ id }) => id);
    expect([...known].sort()).toEqual(differ.sort());
  });
});

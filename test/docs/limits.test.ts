import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const page = readFileSync(join(root, "docs/security.md"), "utf8");

interface Row {
  readonly number: number;
  readonly constant: string;
  readonly file: string;
}

/** Rows of the table of limits: what, number, [`constant`](file), reason. */
function rows(): Row[] {
  const pattern = /^\| [^|]+ \| ([\d.,]+) \| \[`(\w+)`\]\(\.\.\/([^)]+)\) \| [^|]+ \|$/gm;
  return [...page.matchAll(pattern)].map(([, number = "", constant = "", file = ""]) => ({
    number: Number(number.replaceAll(",", "")),
    constant,
    file,
  }));
}

/** A constant of the source that is a product of numbers. */
function numberOf({ constant, file }: Row): number {
  const source = readFileSync(join(root, file), "utf8");
  const text = new RegExp(`const ${constant} = ([\\d_. *]+);`).exec(source)?.[1] ?? "";
  return text.split("*").reduce((product, factor) => product * Number(factor.replaceAll("_", "").trim()), 1);
}

test("the table of limits in docs/security.md has the numbers of the source", () => {
  expect(rows().length).toBeGreaterThan(10);
  const table = page.split("\n## Limits")[1]?.split("\n## ")[0] ?? "";
  expect(rows().length).toBe([...table.matchAll(/^\| /gm)].length - 2);
  for (const row of rows()) expect(numberOf(row), row.constant).toBe(row.number);
});

test("every limit of bodies and objects is in the table", () => {
  const listed = new Set(rows().map(({ constant }) => constant));
  const files = ["src/apiserver/http/body.ts", "src/apiserver/wire/json.ts", "src/apiserver/wire/yaml.ts"];
  const declared = [...files, "src/apiserver/verbs/objectSize.ts"].flatMap((file) =>
    [...readFileSync(join(root, file), "utf8").matchAll(/^export const (\w+Max) = /gm)].map(([, name = ""]) => name),
  );
  expect(declared.length).toBeGreaterThan(4);
  expect(declared.filter((name) => !listed.has(name))).toEqual([]);
});

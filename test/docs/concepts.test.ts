/** The glossary names types, functions and files of the tree. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/concepts.md"), "utf8");

/** The rows of the tables: word, code, meaning. */
const rows = page
  .split("\n")
  .filter((line) => line.startsWith("| **"))
  .map((line) => line.slice(2, -2).split(" | "));

/** The words in code font of the second column. */
const named = rows.flatMap(([, code = ""]) => [...code.matchAll(/`([^`]+)`/g)].map((match) => match[1] as string));

const declaration =
  /^export (?:default )?(?:abstract )?(?:async )?(?:class|interface|type|function\*?|const|enum) (\w+)/gm;

const declared = new Set(
  ["src", "races"].flatMap((room) =>
    readdirSync(join(root, room), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
      .flatMap((path) =>
        [...readFileSync(join(root, room, path), "utf8").matchAll(declaration)].map(([, name]) => name),
      ),
  ),
);

test("each row of the glossary has a word, its place in the code, and a meaning", () => {
  expect(rows.length).toBeGreaterThan(70);
  expect(rows.filter(([word, code, meaning]) => !word || !code?.includes("`") || !meaning)).toEqual([]);
});

test("each name in the glossary's code column is a declaration or a path of the tree", () => {
  const exists = (name: string): boolean => (name.includes("/") ? existsSync(join(root, name)) : declared.has(name));
  expect(named.filter((name) => !exists(name))).toEqual([]);
});

test("each word of the glossary is defined once", () => {
  const words = rows.flatMap(([word = ""]) => word.split(", ").filter((each) => each.startsWith("**")));
  expect(words.filter((word, at) => words.indexOf(word) !== at)).toEqual([]);
});

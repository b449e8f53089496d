import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { exhibits } from "../../races/museum.ts";
import { testTitles } from "./testTitles.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/coverage.md"), "utf8");
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** Paths in backquotes, as the page cites them. */
const cited = [...page.matchAll(/`((?:src|test|deploy|docs|examples|bench|races)\/[^`\s]*)`/g)].map(
  (match) => match[1] as string,
);

/** What the authors of the documents would look for. */
const sought = [
  "verify_pods",
  "validate-scheduling.sh",
  "reservation sync",
  "MinAvailableBreached",
  "gatherAllocatedState",
  "availability-updater",
  "#1103",
  "#1090",
  "#561",
  "#136269",
];

describe("docs/coverage.md", () => {
  test("has a table for each of the five founding documents, and one of what differs on purpose", () => {
    const sections = page.split(/^## /m).slice(1);
    expect(sections).toHaveLength(5);
    for (const section of sections) {
      expect(section).toMatch(/^\| Asked for \| Here \| Shown by \|$/m);
      expect(section).toMatch(/^\| Differs on purpose \| Why \|$/m);
    }
  });

  test("cites files that exist", () => {
    expect(cited.length).toBeGreaterThan(60);
    expect(cited.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  test("shows every row by a test, an exhibit or a page, and quotes test names that are there", () => {
    const missing: string[] = [];
    for (const [row, shown] of rowsShown()) {
      const tests = [...shown.matchAll(/`((?:src|test)\/[^`]+\.test\.ts)`((?:,? "[^"]+")*)/g)];
      if (tests.length === 0 && !/muster races run|\]\([a-z-]+\.md\)/.test(shown)) missing.push(row);
      for (const [, path = "", names = ""] of tests) {
        const source = read(path);
        for (const [, name = ""] of names.matchAll(/"([^"]+)"/g)) {
          if (!testTitles(source).some((known) => known.includes(name))) missing.push(`${path}: ${name}`);
        }
      }
    }
    expect(missing).toEqual([]);
  });

  test("takes a text of a test file for the name of a test only where it is one", () => {
    const attempts = read("test/bind/attempts.test.ts");
    expect(attempts).toContain('"not today"');
    expect(testTitles(attempts)).not.toContain("not today");
    expect(testTitles(attempts)).toContain(
      "is retried up to the limit, with a growing back-off, and every retry is recorded",
    );
    const source = `
      // test("a comment", () => {});
      const other = { name: "another table" };
      describe("a group", () => {
        test("a test", () => expect(look("a text")).toBe('test("a text in a text")'));
        test.each<[string, () => void]>([["a row", () => {}]])("a table of %s", () => {});
        test.each([
          { name: "a case", why: "a field" },
          { name: \`another case\` },
        ])("$name", () => {});
        test.skipIf(isWindows)("a conditional test", () => {});
        test.skip("a skipped test", () => {});
        it.todo("a test of tomorrow");
        cluster.test("a method");
        it.run("another method");
      });`;
    expect(testTitles(source)).toEqual([
      "a group",
      "a test",
      "a table of %s",
      "$name",
      "a case",
      "another case",
      "a conditional test",
    ]);
  });

  test("names exhibits that are in the museum", () => {
    const known = new Set(exhibits.flatMap(({ slug, number }) => [slug, String(number)]));
    const named = [...page.matchAll(/muster races run ([a-z0-9-]+)/g)].map((match) => match[1] as string);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  test("is found from the README and from the pages of its parts", () => {
    const pages = ["binder", "verify", "gangs", "devices", "inventory"].map((part) => `docs/${part}.md`);
    expect(["README.md", ...pages].filter((from) => !read(from).includes("coverage.md"))).toEqual([]);
  });

  test.each(sought)("leads an author who looks for %s to its part", (name) => {
    expect(page.slice(0, page.indexOf("\n## "))).toContain(name);
  });

  test.each(sought)("is found from the README by an author who looks for %s", (name) => {
    const paragraph = read("README.md")
      .split(/\n\n/)
      .find((text) => text.includes("docs/coverage.md)") && text.includes("row by row"));
    expect(paragraph).toContain(name);
  });
});

function rowsShown(): [row: string, shown: string][] {
  const rows: [string, string][] = [];
  for (const table of page.split(/^\| Asked for \| Here \| Shown by \|$/m).slice(1)) {
    for (const line of table.trimStart().split("\n").slice(1)) {
      if (!line.startsWith("|")) break;
      const cells = line.split(" | ");
      rows.push([line, cells[cells.length - 1] ?? ""]);
    }
  }
  return rows;
}

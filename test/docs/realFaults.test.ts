import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const page = read("test/real/faults.md");
const suites = readdirSync(join(root, "test/real/suites"))
  .map((name) => read(join("test/real/suites", name)))
  .join("\n");

describe("test/real/faults.md", () => {
  test("cites files that exist, and tests that are in them", () => {
    const wrong: string[] = [];
    for (const [, path = "", title] of page.matchAll(/`((?:src|test)\/[^`]+)`(?:: "([^"]+)")?/g)) {
      if (!existsSync(join(root, path))) wrong.push(path);
      else if (title !== undefined && !read(path).includes(title)) wrong.push(`${path}: ${title}`);
    }
    expect(wrong).toEqual([]);
  });

  test("cites tests of the real cluster that exist", () => {
    const titles = [...page.matchAll(/real, [^:;|]+: "([^"]+)"/g)].map(([, title = ""]) => title);
    expect(titles.length).toBeGreaterThan(10);
    expect(titles.filter((title) => !suites.includes(title))).toEqual([]);
  });
});

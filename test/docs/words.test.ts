/**
 * The subject of a sentence is a thing with a name in the code or in Kubernetes. Counts what has a pronoun instead. The
 * numbers may only fall: lower them here when they do.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { scanSource } from "./scanSource.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const rooms = ["src", "races", "bench", "testing"];
const pronoun = /\b(?:whoever|nobody|somebody|anybody|everybody|someone|anyone|everyone|who goes|the dead)\b/i;

/** Only ever lower. */
const most = { commentLines: 615, docLines: 36, testNames: 151 };

function files(folder: string, keep: (path: string) => boolean): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => keep(path) && !path.endsWith(".generated.ts"));
}
const isTest = (path: string): boolean => path.endsWith(".test.ts");
const isSource = (path: string): boolean => path.endsWith(".ts") && !isTest(path);
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const withPronoun = (lines: readonly string[]): string[] => lines.filter((line) => pronoun.test(line));

describe("a pronoun where the field has a noun", () => {
  test("is in no string that a user may read", () => {
    const found = rooms
      .flatMap((room) => files(room, isSource))
      .flatMap((path) => withPronoun(scanSource(read(path)).strings).map((text) => `${path}: ${text}`));
    expect(found).toEqual([]);
  });

  test("is in ever fewer lines of comments", () => {
    const found = rooms
      .flatMap((room) => files(room, isSource))
      .flatMap((path) => withPronoun(scanSource(read(path)).comments.flatMap((comment) => comment.split("\n"))));
    expect(found.length).toBeLessThanOrEqual(most.commentLines);
  });

  test("is in ever fewer lines of the pages", () => {
    const pages = ["README.md", ...files("docs", (path) => path.endsWith(".md") && !path.includes("/adr/"))];
    expect(pages.flatMap((path) => withPronoun(read(path).split("\n"))).length).toBeLessThanOrEqual(most.docLines);
  });

  test("is in ever fewer names of tests", () => {
    const names = [...rooms, "test"]
      .flatMap((room) => files(room, isTest))
      .flatMap((path) =>
        [...read(path).matchAll(/^\s*(?:test|describe)\b[^"`\n]*["`]([^"`\n]+)/gm)].map((match) => match[1] as string),
      );
    expect(names.length).toBeGreaterThan(1_000);
    expect(withPronoun(names).length).toBeLessThanOrEqual(most.testNames);
  });
});

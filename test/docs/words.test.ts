/**
 * The subject of a sentence is a thing with a name in the code or in Kubernetes. Finds comments, pages and test names
 * that have a pronoun or a retired word instead, and rule numbers of documents that are not in the repository. There are
 * none.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { scanSource } from "./scanSource.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const rooms = ["src", "races", "bench", "testing"];

const pronouns = "whoever|nobody|somebody|anybody|everybody|someone|anyone|everyone|whom|who goes|the dead";
const pronoun = new RegExp(`\\b(?:${pronouns})\\b`, "i");
/** Replaced by controller runtime, inter-pod affinity, in-flight writes, reported, zero. */
const retired = new RegExp(
  `\\b(?:${pronouns}|crank|company|shunned|desk|unheard|nought|(?:is|was|are|were) told)\\b`,
  "i",
);
/** Rules, cases and sections of documents that are not here. Invariants (I1) and checks of verify (S1) are. */
const ruleNumber = /\b(?:R-[A-Z]+-\d+|Q\d{1,2}|(?:TC|GS|GT|TAS|RU|OD|SO|RS)-?\d+|[DN]-\d+|sections? \d+\.\d+)\b/;

function files(folder: string, keep: (path: string) => boolean): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => keep(path) && !path.endsWith(".generated.ts"));
}
const isTest = (path: string): boolean => path.endsWith(".test.ts");
const isSource = (path: string): boolean => path.endsWith(".ts") && !isTest(path);
const read = (path: string): string => readFileSync(join(root, path), "utf8");

const sources = rooms.flatMap((room) => files(room, isSource));
const tests = [...rooms, "test"].flatMap((room) => files(room, isTest));
const commentLines = (path: string): string[] =>
  scanSource(read(path)).comments.flatMap((comment) => comment.split("\n"));
const testNames = (path: string): string[] =>
  [...read(path).matchAll(/^\s*(?:test|describe)\b[^"`\n]*["`]([^"`\n]+)/gm)].map((match) => match[1] as string);

/** Each text that `find` returns, with the file that it is in. */
const foundIn = (paths: readonly string[], find: (path: string) => readonly string[]): string[] =>
  paths.flatMap((path) => find(path).map((text) => `${path}: ${text}`));

describe("a pronoun or a retired word where the field has a noun", () => {
  test("is in no string that a user may read", () => {
    expect(foundIn(sources, (path) => scanSource(read(path)).strings.filter((text) => pronoun.test(text)))).toEqual([]);
  });

  test("is in no comment", () => {
    expect(foundIn(sources, (path) => commentLines(path).filter((line) => retired.test(line)))).toEqual([]);
  });

  test("is in no page", () => {
    const pages = ["README.md", ...files("docs", (path) => path.endsWith(".md") && !path.includes("/adr/"))];
    expect(
      foundIn(pages, (path) =>
        read(path)
          .split("\n")
          .filter((line) => retired.test(line)),
      ),
    ).toEqual([]);
  });

  test("is in no test name", () => {
    expect(tests.flatMap(testNames).length).toBeGreaterThan(1_000);
    expect(foundIn(tests, (path) => testNames(path).filter((name) => retired.test(name)))).toEqual([]);
  });
});

describe("comments", () => {
  test("and test names cite no rule by a number that the repository does not explain", () => {
    const cited = (path: string): string[] =>
      [...commentLines(path), ...testNames(path)].filter((line) => ruleNumber.test(line));
    expect(foundIn([...sources, ...tests], cited)).toEqual([]);
  });

  test("fit into 120 columns", () => {
    const wide = (path: string): string[] =>
      read(path)
        .split("\n")
        .filter((line) => line.length > 120 && /^\s*(?:\*|\/\/|\/\*)/.test(line));
    expect(foundIn(sources, wide)).toEqual([]);
  });
});

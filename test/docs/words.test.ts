/**
 * The subject of a sentence is a thing with a name in the code or in Kubernetes. Counts comments, pages and test names
 * that have a pronoun or a retired word instead, and rule numbers of documents that are not in the repository. A room
 * that is not listed has none. The numbers may only fall: lower them here when they do.
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

/** Only ever lower. By the first folder that matches. */
const most: readonly (readonly [folder: string, lines: number])[] = [["src/apiserver", 90]];
const mostTestNames: readonly (readonly [folder: string, names: number])[] = [["src/apiserver", 31]];

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

/** What is found beyond the limits, with where it is. Files under no listed folder may have none. */
function beyond(
  paths: readonly string[],
  limits: readonly (readonly [folder: string, most: number])[],
  find: (path: string) => readonly string[],
): string[] {
  const byFolder = new Map<string, string[]>();
  for (const path of paths) {
    const folder = limits.find(([each]) => path.startsWith(`${each}/`))?.[0] ?? "";
    const found = byFolder.get(folder) ?? [];
    for (const text of find(path)) found.push(`${path}: ${text}`);
    byFolder.set(folder, found);
  }
  return [...byFolder].flatMap(([folder, found]) => {
    const limit = limits.find(([each]) => each === folder)?.[1] ?? 0;
    return found.length > limit ? [`${folder}: ${found.length} where ${limit} are allowed`, ...found] : [];
  });
}

describe("a pronoun or a retired word where the field has a noun", () => {
  test("is in no string that a user may read", () => {
    expect(beyond(sources, [], (path) => scanSource(read(path)).strings.filter((text) => pronoun.test(text)))).toEqual(
      [],
    );
  });

  test("is in no comment, but for rooms that are still to be done", () => {
    expect(beyond(sources, most, (path) => commentLines(path).filter((line) => retired.test(line)))).toEqual([]);
  });

  test("is in no page", () => {
    const pages = ["README.md", ...files("docs", (path) => path.endsWith(".md") && !path.includes("/adr/"))];
    expect(
      beyond(pages, [], (path) =>
        read(path)
          .split("\n")
          .filter((line) => retired.test(line)),
      ),
    ).toEqual([]);
  });

  test("is in no test name, but for rooms that are still to be done", () => {
    expect(tests.flatMap(testNames).length).toBeGreaterThan(1_000);
    expect(beyond(tests, mostTestNames, (path) => testNames(path).filter((name) => retired.test(name)))).toEqual([]);
  });
});

describe("comments", () => {
  test("and test names cite no rule by a number that the repository does not explain", () => {
    const cited = (path: string): string[] =>
      [...commentLines(path), ...testNames(path)].filter((line) => ruleNumber.test(line));
    expect(beyond([...sources, ...tests], [], cited)).toEqual([]);
  });

  test("fit into 120 columns, but for rooms that are still to be done", () => {
    const wide = (path: string): string[] =>
      read(path)
        .split("\n")
        .filter((line) => line.length > 120 && /^\s*(?:\*|\/\/|\/\*)/.test(line));
    const done = sources.filter((path) => !most.some(([folder]) => path.startsWith(`${folder}/`)));
    expect(beyond(done, [], wide)).toEqual([]);
  });
});

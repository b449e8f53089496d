/**
 * Differences that are known. One file for each suite: how many cases differ, then a line for each case whose status
 * differs, and for each field that differs in so many cases. The lists only shrink: a run fails when more cases differ,
 * or another status does. A case whose status was mended may still differ in fields, so these lines may change.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Case } from "./probe.ts";

const casesLine = "cases";

/** Count of cases by line. */
export type Tally = Map<string, number>;

/** A suite's differences as lines of its file. Wording is not kept: it is counted only. */
export function tally(cases: readonly Case[]): Tally {
  const lines: Tally = new Map();
  const isDifferent = ({ differences }: Case) => differences.some(({ wording }) => !wording);
  lines.set(casesLine, cases.filter(isDifferent).length);
  for (const { name, status, differences } of cases) {
    if (status.real !== status.ours) {
      add(lines, `status ${status.real} ${status.ours}\t${name}`);
      continue;
    }
    const paths = differences.filter(({ wording }) => !wording).map(({ path }) => general(path));
    for (const path of new Set(paths)) add(lines, `answer\t${subjectOf(name)}${path}`);
  }
  return lines;
}

function add(lines: Tally, line: string): void {
  lines.set(line, (lines.get(line) ?? 0) + 1);
}

/** `pods: spec.x=1` is about pods. */
function subjectOf(name: string): string {
  const at = name.indexOf(": ");
  return at < 0 ? "" : name.slice(0, at + 2);
}

/** Indices, owners of fields and the names of types and their fields say nothing about the cause. */
function general(path: string): string {
  return path
    .replaceAll(/\[\d+\]/g, "[]")
    .replace(/(\.managedFields\[\]\.fieldsV1).*/, "$1")
    .replace(/^\.io\.k8s\.[\w.-]*?(\.properties\.|\.x-|\.default|\.type|\.description|$)/, ".TYPE$1")
    .replace(/^\.TYPE\.properties\.[\w$-]+/, ".TYPE.properties.FIELD");
}

export function readKnown(suite: string): Tally | undefined {
  const file = fileOf(suite);
  if (!existsSync(file)) return undefined;
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  return new Map(
    lines.map((line) => {
      const at = line.indexOf("\t");
      return [line.slice(at + 1), Number(line.slice(0, at))];
    }),
  );
}

export function writeKnown(suite: string, known: Tally): void {
  const lines = [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([line, count]) => `${count}\t${line}\n`);
  writeFileSync(fileOf(suite), lines.join(""));
}

/** What was found beyond the list. */
export function unknown(found: Tally, known: Tally): Tally {
  const isMore = (found.get(casesLine) ?? 0) > (known.get(casesLine) ?? 0);
  const isFresh = ([line, count]: [string, number]) => count > (known.get(line) ?? 0);
  return new Map([...found].filter((entry) => isFresh(entry) && (isMore || entry[0].startsWith("status"))));
}

function fileOf(suite: string): string {
  return fileURLToPath(new URL(`./known/${suite}.tsv`, import.meta.url));
}

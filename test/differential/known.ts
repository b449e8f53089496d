/**
 * Differences that are known. One file for each suite; a line is a case whose status differs, or a field that differs in
 * so many cases. The lists only shrink: a run fails on what is not listed, and `--shrink` takes out what is gone.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Case } from "./probe.ts";

/** Count of cases by line. */
export type Tally = Map<string, number>;

/** A suite's differences as lines of its file. Wording is not kept: it is counted only. */
export function tally(cases: readonly Case[]): Tally {
  const lines: Tally = new Map();
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
  return new Map([...found].filter(([line, count]) => count > (known.get(line) ?? 0)));
}

/** The list without what is gone; never longer, never higher. */
export function shrunk(known: Tally, found: Tally): Tally {
  const kept = [...known].map(([line, count]): [string, number] => [line, Math.min(count, found.get(line) ?? 0)]);
  return new Map(kept.filter(([, count]) => count > 0));
}

function fileOf(suite: string): string {
  return fileURLToPath(new URL(`./known/${suite}.tsv`, import.meta.url));
}

/**
 * `npm run test:differential -- [suite ...] [--shrink] [--list] [--show TEXT]`: the same requests to a real
 * kube-apiserver and to `muster up`, and a comparison of the answers.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readKnown, tally, unknown, writeKnown } from "./known.ts";
import { findPeers, startPeers } from "./peers.ts";
import { type Case, Probe } from "./probe.ts";
import { suites } from "./suites/suites.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    shrink: { type: "boolean" },
    list: { type: "boolean" },
    show: { type: "string" },
    out: { type: "string" },
  },
});

process.exitCode = await main();

async function main(): Promise<number> {
  if (values.list) {
    process.stdout.write(`${Object.keys(suites).join("\n")}\n`);
    return 0;
  }
  const wanted = positionals.length > 0 ? positionals : Object.keys(suites);
  const wrong = wanted.filter((name) => !(name in suites));
  if (wrong.length > 0) {
    process.stderr.write(`no suite ${wrong.join(", ")}; there are: ${Object.keys(suites).join(", ")}\n`);
    return 2;
  }
  const found = findPeers();
  if ("missing" in found) {
    process.stdout.write(`skipped: ${found.missing}\n`);
    return 0;
  }
  const peers = await startPeers(found.folder);
  process.once("SIGINT", () => void peers.stop().then(() => process.exit(130)));
  const all: Case[] = [];
  let fresh = 0;
  try {
    for (const name of wanted) {
      const startedMs = Date.now();
      const probe = new Probe(peers);
      await suites[name]?.(probe);
      fresh += judge(name, probe.cases);
      report(name, probe.cases, `, ${Math.round((Date.now() - startedMs) / 1000)} s`);
      all.push(...probe.cases);
    }
  } finally {
    await peers.stop();
  }
  if (wanted.length > 1) report("all", all, "");
  if (fresh > 0) process.stdout.write(`${fresh} differences are not in test/differential/known\n`);
  return fresh > 0 ? 1 : 0;
}

function report(name: string, cases: readonly Case[], time: string): void {
  const count = (holds: (one: Case) => boolean) => {
    const number = cases.filter(holds).length;
    return `${number} (${((100 * number) / Math.max(1, cases.length)).toFixed(1)} %)`;
  };
  const status = count((one) => one.status.real === one.status.ours);
  const answer = count((one) => one.differences.every(({ wording }) => wording));
  const equal = count((one) => one.differences.length === 0);
  process.stdout.write(
    `${name}: ${cases.length} compared, same status ${status}, same answer without wording ${answer}, equal ${equal}${time}\n`,
  );
}

/** Prints what is new or asked for, keeps the list, and returns how many lines are new. */
function judge(suite: string, cases: readonly Case[]): number {
  if (values.out !== undefined) {
    mkdirSync(values.out, { recursive: true });
    writeFileSync(join(values.out, `${suite}.jsonl`), cases.map((one) => `${JSON.stringify(one)}\n`).join(""));
  }
  if (values.show !== undefined)
    cases
      .filter((one) => one.differences.length > 0 && `${one.name}${one.request}`.includes(values.show ?? ""))
      .forEach(print);
  const found = tally(cases);
  const known = readKnown(suite);
  if (known === undefined) {
    // The first run of a new suite starts its list.
    if (existsSync(new URL("./known/", import.meta.url))) writeKnown(suite, found);
    return 0;
  }
  const fresh = unknown(found, known);
  for (const [line, count] of fresh) {
    process.stdout.write(`new in ${suite}: ${count} instead of ${known.get(line) ?? 0}: ${line}\n`);
    const example = cases.find((one) => tally([one]).has(line));
    if (example !== undefined) print(example);
  }
  const before = known.get("cases") ?? 0;
  const now = found.get("cases") ?? 0;
  if (values.shrink && fresh.size === 0) writeKnown(suite, found);
  else if (now < before)
    process.stdout.write(`${suite}: ${before - now} cases no longer differ; --shrink keeps it so\n`);
  return fresh.size;
}

function print({ name, request, body, status, messages, differences }: Case): void {
  process.stdout.write(
    `  ${name}: ${request} ${body}\n    ${status.real} ${messages.real}\n    ${status.ours} ${messages.ours}\n`,
  );
  for (const { path, real, ours } of differences.slice(0, 8)) {
    if (path !== "STATUS" && path !== ".message")
      process.stdout.write(`    ${path}\n      real ${real}\n      ours ${ours}\n`);
  }
}

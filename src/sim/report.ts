import type { Entry } from "./history.ts";
import type { SeedResult } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";
import type { Shrunk } from "./shrink.ts";

/** The report of a violation: the seed, the shortest history that was found, and the command that replays it. */
export function violationReport(scenario: Scenario, found: SeedResult, shrunk: Shrunk): string {
  const { violation } = found;
  if (violation === undefined) return `seed ${found.seed}: no invariant was violated`;
  const shown = shrunk.result.violation ?? violation;
  const lines = timeline(scenario, shrunk.result);
  const faults = shrunk.result.decisions.map(({ key, value }) => `    ${key} = ${value}`);
  return [
    `seed ${found.seed} of ${scenario.name}`,
    `faults: ${found.swarm}`,
    `${shown.invariant} was violated at revision ${shown.revision}: ${shown.fact}`,
    `  ${shown.detail}`,
    `shortest history found: ${lines.length} steps (${shrunk.from} decisions became ${faults.length}, in ${shrunk.runs} runs)`,
    ...lines.map((line) => `  ${line}`),
    ...(faults.length === 0 ? ["  no fault is needed"] : ["  decisions that lead to it:", ...faults]),
    `replay: muster sim replay --scenario ${scenario.name} --seed ${found.seed}`,
  ].join("\n");
}

/** The writes with actor and revision, one line each. */
export function timeline(scenario: Scenario, { history, violation }: SeedResult): string[] {
  const ignoredForQuiescence = new Set(scenario.ignoredForQuiescence ?? []);
  const lines = history.entries.filter((entry) => isShown(entry, ignoredForQuiescence)).map(lineOf);
  if (violation !== undefined) lines.push(`${timeOf(violation.atUs)}  ${violation.invariant}: ${violation.detail}`);
  return lines;
}

function isShown(entry: Entry, ignoredForQuiescence: ReadonlySet<string>): boolean {
  if (entry.what !== "commit") return true;
  const { event, call, type } = entry.commit;
  if (call.actor === "scenery") return false;
  // Renewals of a lease are left out; a change of its holder is shown.
  if (!ignoredForQuiescence.has(event.current.resource) || type !== "MODIFIED") return true;
  return holderOf(event.current.object()) !== holderOf(event.previous?.object());
}

function holderOf(object: { [field: string]: unknown } | undefined): unknown {
  return (object?.["spec"] as { holderIdentity?: string } | undefined)?.holderIdentity;
}

function lineOf(entry: Entry): string {
  if (entry.what !== "commit") return `${timeOf(entry.atUs)}  ${entry.actor.padEnd(10)} ${entry.text}`;
  const { call, event, key, type } = entry.commit;
  const asked = call.sentUs - call.requestedUs > 5_000 ? `, decided at ${timeOf(call.requestedUs).trim()}` : "";
  const sent = entry.atUs - call.sentUs > 5_000 ? `, sent at ${timeOf(call.sentUs).trim()}` : "";
  const seen = call.seen === undefined ? "" : `, had seen revision ${call.seen.revision}`;
  const effect = type === "DELETED" ? "gone" : type === "ADDED" ? "new" : "changed";
  return `${timeOf(entry.atUs)}  ${call.actor.padEnd(10)} ${call.verb} ${key}: ${effect} at revision ${event.revision}${seen}${asked}${sent}`;
}

function timeOf(us: number): string {
  return `${(us / 1000).toFixed(1)} ms`.padStart(12);
}

import { UsageError } from "../../model/userError.ts";
import { violationReport } from "../../sim/report.ts";
import { runSeed, type SeedResult, withTripwires } from "../../sim/runSeed.ts";
import type { Scenario } from "../../sim/scenario.ts";
import { type Shrunk, shrink } from "../../sim/shrink.ts";
import { choicesText } from "./choicesText.ts";
import { findScenario, scenarios } from "./scenarios.ts";
import { coresHere, type PlayedSeeds, seedsOnCores } from "./seedsOnCores.ts";

export interface SimRunOptions {
  readonly scenario: string;
  readonly seeds: string;
  readonly from: string;
  readonly cores?: string;
  readonly output: "text" | "json";
}

/** Reports are long: the first violations are shrunk and printed, the others counted. */
const toldMax = 3;

/** Runs seeds of a scenario. Exit code 1 when an invariant is violated. */
export async function runSim(options: SimRunOptions): Promise<void> {
  const scenario = scenarioNamed(options.scenario);
  const from = wholeNumber("--from", options.from);
  const count = seedCount(options.seeds);
  const cores = options.cores === undefined ? coresHere() : coreCount(options.cores);
  const say = options.output === "json" ? process.stderr : process.stdout;
  say.write(`seeds ${from} to ${from + count - 1} of ${scenario.name}\n`);
  const startedMs = Date.now();
  const result = await seedsOnCores(scenario, { from, count }, cores);
  const wallSeconds = Math.max(0.001, (Date.now() - startedMs) / 1000);
  for (const { seed } of result.broken.slice(0, toldMax)) {
    const broken = await withTripwires(() => runSeed(scenario, seed));
    say.write(`\n${await reportOf(scenario, broken)}\n`);
  }
  if (result.broken.length > 0) process.exitCode = 1;
  if (options.output === "json") {
    process.stdout.write(`${JSON.stringify({ scenario: scenario.name, from, ...figures(result, wallSeconds) })}\n`);
  } else say.write(`${figuresLine(result, wallSeconds)}\n`);
}

export interface SimReplayOptions {
  readonly scenario: string;
  readonly seed: string;
  readonly output: "text" | "json";
}

/** Runs one seed and prints its history. Exit code 1 when an invariant is violated. */
export async function replaySim(options: SimReplayOptions): Promise<void> {
  const scenario = scenarioNamed(options.scenario);
  const seed = wholeNumber("--seed", options.seed);
  const startedMs = Date.now();
  const result = await withTripwires(() => runSeed(scenario, seed));
  const wallSeconds = Math.max(0.001, (Date.now() - startedMs) / 1000);
  const { violation } = result;
  if (violation !== undefined) process.exitCode = 1;
  if (options.output === "json") {
    const one = {
      seeds: 1,
      broken: violation === undefined ? [] : [result],
      events: result.events,
      simulatedHours: result.simulatedUs / 3_600_000_000,
      hash: result.hash,
    };
    const shown = { scenario: scenario.name, from: seed, faults: result.swarm, ...figures(one, wallSeconds) };
    process.stdout.write(`${JSON.stringify(shown)}\n`);
    return;
  }
  if (violation !== undefined) process.stdout.write(`${await reportOf(scenario, result)}\n`);
  else {
    process.stdout.write(`seed ${seed} of ${scenario.name}\nfaults: ${result.swarm}\nno invariant was violated\n`);
  }
  process.stdout.write(
    `hash ${result.hash}, ${result.events} events, ${(result.simulatedUs / 1e6).toFixed(1)} s simulated\n`,
  );
}

/** Shrinks a violation and returns its report. */
export async function reportOf(scenario: Scenario, broken: SeedResult): Promise<string> {
  const { violation, seed } = broken;
  process.stderr.write(
    `seed ${seed} of ${scenario.name} violates ${violation?.invariant}: ${violation?.detail}\nshrinking its history, which can take minutes ...\n`,
  );
  const shrunk: Shrunk = await withTripwires(() => shrink(scenario, broken));
  return violationReport(scenario, broken, shrunk);
}

/** The figures for `-o json`. */
export function figures(result: PlayedSeeds, wallSeconds: number): object {
  return {
    seeds: result.seeds,
    violations: result.broken.map(({ seed, violation }) => ({
      seed,
      invariant: violation?.invariant,
      fact: violation?.fact,
      detail: violation?.detail,
      revision: violation?.revision,
    })),
    simulatedHours: result.simulatedHours,
    wallSeconds,
    hash: result.hash,
    events: result.events,
    seedsPerSecond: result.seeds / wallSeconds,
    eventsPerSecond: result.events / wallSeconds,
    simulatedOverReal: (result.simulatedHours * 3600) / wallSeconds,
  };
}

export function figuresLine(result: PlayedSeeds, wallSeconds: number): string {
  const perSecond = (value: number): string => Math.round(value / wallSeconds).toLocaleString("en-US");
  return [
    `${result.seeds} seeds, ${result.broken.length} violations, ${result.simulatedHours.toFixed(2)} simulated hours in ${wallSeconds.toFixed(1)} s`,
    `${perSecond(result.seeds)} seeds/s, ${perSecond(result.events)} events/s, ${perSecond(result.simulatedHours * 3600)} times real time`,
    `hash ${result.hash}`,
  ].join("\n");
}

/** The number of seeds, at least 1: a run without seeds would look like a success. */
export function seedCount(text: string): number {
  const count = wholeNumber("--seeds", text);
  if (count > 0) return count;
  throw new UsageError(
    "bad-number",
    "--seeds must be at least 1, got 0",
    "pass a positive integer, such as --seeds 1000",
  );
}

function coreCount(text: string): number {
  const count = wholeNumber("--cores", text);
  if (count > 0) return count;
  throw new UsageError("bad-number", "--cores must be at least 1, got 0", "pass a positive integer, such as --cores 2");
}

export function wholeNumber(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0 && text.trim() !== "") return value;
  throw new UsageError(
    "bad-number",
    `${flag} ${JSON.stringify(text)} is not an integer`,
    `pass an integer, such as ${flag} 1000`,
  );
}

function scenarioNamed(name: string): Scenario {
  const found = findScenario(name);
  if (found !== undefined) return found;
  const known = scenarios().map((scenario) => scenario.name);
  throw new UsageError("scenario-unknown", `there is no scenario ${JSON.stringify(name)}`, choicesText(name, known));
}

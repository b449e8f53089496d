import { availableParallelism } from "node:os";
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Violation } from "../../sim/invariant.ts";
import type { SeedResult } from "../../sim/runSeed.ts";
import { combineHashes, runSeeds } from "../../sim/runSeeds.ts";
import type { Scenario } from "../../sim/scenario.ts";

/** The seeds that a thread has to run. */
export interface SeedOrder {
  readonly scenario: string;
  readonly from: number;
  readonly count: number;
}

/** The result of a seed, without its history: that stays in the thread, and the seed replays it. */
export type PlayedSeed = Pick<SeedResult, "seed" | "hash" | "events" | "simulatedUs" | "violation">;

/** The result of many seeds. */
export interface PlayedSeeds {
  readonly seeds: number;
  readonly broken: readonly { readonly seed: number; readonly violation: Violation | undefined }[];
  readonly events: number;
  readonly simulatedHours: number;
  readonly hash: string;
}

/** Seeds per order: enough that an order costs little, few enough that all threads end at about the same time. */
const portion = 20;

/** A seed leaves much garbage: with a large young generation little of it is ever copied. */
const maxYoungGenerationSizeMb = 64;

export function coresHere(): number {
  return availableParallelism();
}

/**
 * Runs seeds on several cores. Seeds share no state, so the result does not depend on the worker: the hash is the same
 * on one core and on many.
 */
export async function seedsOnCores(
  scenario: Scenario,
  { from, count }: { readonly from: number; readonly count: number },
  cores: number,
): Promise<PlayedSeeds> {
  const threads = Math.min(cores, Math.ceil(count / portion));
  // A few seeds are faster than the start of a thread.
  if (threads === 1 || count <= 2 * portion) return runSeeds(scenario, { from, count });
  const played: PlayedSeed[] = [];
  let next = from;
  const end = from + count;
  const order = (): SeedOrder | undefined => {
    if (next >= end) return undefined;
    const given = { scenario: scenario.name, from: next, count: Math.min(portion, end - next) };
    next += given.count;
    return given;
  };
  await Promise.all(Array.from({ length: threads }, () => thread(order, (seeds) => played.push(...seeds))));
  played.sort((a, b) => a.seed - b.seed);
  return {
    seeds: played.length,
    broken: played.filter(({ violation }) => violation !== undefined),
    events: played.reduce((sum, { events }) => sum + events, 0),
    simulatedHours: played.reduce((sum, { simulatedUs }) => sum + simulatedUs, 0) / 3_600_000_000,
    hash: combineHashes(new Map(played.map(({ seed, hash }) => [seed, hash]))),
  };
}

/** Runs one thread until no order is left. */
function thread(order: () => SeedOrder | undefined, tell: (seeds: readonly PlayedSeed[]) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    // The worker is beside this file with the same extension, in the sources and in the bundle.
    const program = new URL(`./seedWorker${extname(import.meta.url)}`, import.meta.url);
    const worker = new Worker(program, { resourceLimits: { maxYoungGenerationSizeMb } });
    let isDone = false;
    const ask = (): void => {
      const given = order();
      isDone = given === undefined;
      if (given === undefined) void worker.terminate();
      else worker.postMessage(given);
    };
    worker.on("message", (seeds: readonly PlayedSeed[]) => {
      tell(seeds);
      ask();
    });
    worker.on("error", reject);
    worker.on("exit", (code) =>
      isDone ? resolve() : reject(new Error(`a simulator thread exited with code ${code}`)),
    );
    ask();
  });
}

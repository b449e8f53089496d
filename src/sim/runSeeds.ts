import { hashText } from "./chance.ts";
import { runSeed, type SeedResult, withTripwires } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";

export interface SeedRange {
  readonly from: number;
  readonly count: number;
  /** Ends at the first seed that breaks an invariant, or this one. */
  readonly untilBroken?: boolean | string;
  /** Runs the seeds in reverse order: state that leaks from one seed into the next changes the hash. */
  readonly backwards?: boolean;
  readonly each?: (result: SeedResult) => void;
}

/** The result of many seeds. */
export interface SeedsResult {
  readonly seeds: number;
  readonly broken: readonly SeedResult[];
  readonly events: number;
  readonly simulatedHours: number;
  /** The hash of all histories, in the order of their seeds. */
  readonly hash: string;
}

/** Seeds between two yields to the event loop. */
const batch = 20;

/** Runs seeds one after another. */
export async function runSeeds(scenario: Scenario, range: SeedRange): Promise<SeedsResult> {
  const hashes = new Map<number, string>();
  const broken: SeedResult[] = [];
  let events = 0;
  let simulatedUs = 0;
  let played = 0;
  const { untilBroken } = range;
  const isFound = (): boolean =>
    untilBroken === true
      ? broken.length > 0
      : typeof untilBroken === "string" && broken.some(({ violation }) => violation?.invariant === untilBroken);
  const isDone = (): boolean => played >= range.count || isFound();
  while (!isDone()) {
    await withTripwires(async () => {
      for (let inBatch = 0; inBatch < batch && !isDone(); inBatch++) {
        const seed = range.backwards === true ? range.from + range.count - 1 - played : range.from + played;
        const result = await runSeed(scenario, seed);
        played++;
        events += result.events;
        simulatedUs += result.simulatedUs;
        hashes.set(seed, result.hash);
        if (result.violation !== undefined) broken.push(result);
        range.each?.(result);
      }
    });
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return { seeds: played, broken, events, simulatedHours: simulatedUs / 3_600_000_000, hash: combineHashes(hashes) };
}

/** The hash of many seeds, independent of their order and of the workers that ran them. */
export function combineHashes(hashes: ReadonlyMap<number, string>): string {
  const text = [...hashes]
    .sort(([a], [b]) => a - b)
    .map(([seed, hash]) => `${seed}:${hash}`)
    .join(" ");
  return hashText(1, text).toString(16).padStart(8, "0") + hashText(2, text).toString(16).padStart(8, "0");
}

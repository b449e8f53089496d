import type { Decision } from "./chance.ts";
import { runSeed, type SeedResult } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";

/** A violation with everything taken away that it does not need. */
export interface Shrunk {
  readonly result: SeedResult;
  /** How many runs it took. */
  readonly runs: number;
  /** How many decisions the violation had at first. */
  readonly from: number;
}

/**
 * Finds a short history that breaks the same invariant. Draws are keyed, so taking one decision out leaves the others
 * as they are; what is left out means that nothing unusual happens there. Whole kinds of decision go first, then
 * halves, quarters and so on (delta debugging), until no single one can go.
 */
export async function shrink(scenario: Scenario, failing: SeedResult, runsMax = 3_000): Promise<Shrunk> {
  const { violation, seed } = failing;
  if (violation === undefined) throw new Error(`seed ${seed} of ${scenario.name} broke no invariant`);
  let runs = 0;
  let best = failing;
  const stillFails = async (decisions: readonly Decision[]): Promise<boolean> => {
    if (runs >= runsMax) return false;
    runs++;
    const result = await runSeed(scenario, seed, decisions);
    if (result.violation?.invariant !== violation.invariant) return false;
    best = result;
    return true;
  };
  // The list alone must do it: if not, the run does not depend on its decisions only.
  if (!(await stillFails(failing.decisions))) {
    throw new Error(`seed ${seed} of ${scenario.name} does not fail again when its own decisions are played`);
  }
  await strikeElsewhere(scenario, best, stillFails);
  for (;;) {
    const before = best.decisions.length;
    for (const kind of [...new Set(best.decisions.map(kindOf))].sort()) {
      const rest = best.decisions.filter((decision) => kindOf(decision) !== kind);
      if (rest.length < best.decisions.length) await stillFails(rest);
    }
    for (let size = Math.ceil(best.decisions.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      let at = 0;
      while (at < best.decisions.length) {
        const rest = [...best.decisions.slice(0, at), ...best.decisions.slice(at + size)];
        if (!(await stillFails(rest))) at += size;
      }
    }
    if (best.decisions.length === before || runs >= runsMax) break;
  }
  return { result: best, runs, from: failing.decisions.length };
}

/** Objects that a list of decisions names may exist only after a long story. One of its faults, at the first chance, may do. */
const elsewhereMax = 25;

async function strikeElsewhere(
  scenario: Scenario,
  failing: SeedResult,
  stillFails: (decisions: readonly Decision[]) => Promise<boolean>,
): Promise<void> {
  const calm = await runSeed(scenario, failing.seed, []);
  if (calm.violation !== undefined) return;
  const values = new Map(failing.decisions.map((decision) => [kindOf(decision), decision.value]));
  const tried = new Map<string, number>();
  for (const key of calm.unsaid) {
    const kind = kindOf({ key, value: 0 });
    const value = values.get(kind);
    const tries = tried.get(kind) ?? 0;
    if (value === undefined || tries >= elsewhereMax) continue;
    tried.set(kind, tries + 1);
    if (await stillFails([{ key, value }])) return;
  }
}

function kindOf({ key }: Decision): string {
  const parts = key.split("|");
  return (parts.at(-1) ?? "").replace(/#\d+$/, "");
}

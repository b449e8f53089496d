import type { Decision } from "./chance.ts";
import { timeline } from "./report.ts";
import { runSeed, type SeedResult } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";

/** A violation with as few decisions as possible. */
export interface Shrunk {
  readonly result: SeedResult;
  /** How many runs it took. */
  readonly runs: number;
  /** How many decisions the violation had at first. */
  readonly from: number;
}

/**
 * Finds a short history that violates the same invariant. Draws are keyed, so removing one decision leaves the others
 * as they are, and a removed decision means that no fault occurs there. The steps of the history and the decisions are
 * minimised.
 *
 * First each fault is tried alone. Then whole kinds of decisions are removed, then halves, quarters and so on (delta
 * debugging), until no single decision can be removed. Then the remaining faults are tried at earlier times, where the
 * history before them is shorter.
 */
export async function shrink(scenario: Scenario, failing: SeedResult, runsMax = 1_500): Promise<Shrunk> {
  const { violation, seed } = failing;
  if (violation === undefined) throw new Error(`seed ${seed} of ${scenario.name} violated no invariant`);
  let runs = 0;
  let best = failing;
  let bestCost = Number.POSITIVE_INFINITY;
  /** Runs a list of decisions; undefined unless it violates the same invariant. The cheapest such run is kept. */
  const play: Play = async (decisions) => {
    if (runs >= runsMax) return undefined;
    runs++;
    const result = await runSeed(scenario, seed, decisions);
    if (result.violation?.invariant !== violation.invariant || result.violation.fact !== violation.fact) {
      return undefined;
    }
    const cost = timeline(scenario, result).length + result.decisions.length;
    if (cost < bestCost) {
      best = result;
      bestCost = cost;
    }
    return { decisions: result.decisions, cost, moments: momentsOf(result) };
  };
  // The list alone must reproduce the violation; otherwise the run depends on more than its decisions.
  const whole = await play(failing.decisions);
  if (whole === undefined) {
    throw new Error(`seed ${seed} of ${scenario.name} does not fail again when its own decisions are replayed`);
  }
  await strikeAlone(scenario, seed, whole.decisions, play);
  await leaveOut(whole.decisions, play);
  for (;;) {
    const before = bestCost;
    await leaveOut(best.decisions, play);
    await moveForward({ decisions: best.decisions, cost: bestCost, moments: momentsOf(best) }, play);
    if (bestCost === before || runs >= runsMax) break;
  }
  return { result: best, runs, from: failing.decisions.length };
}

interface Played {
  readonly decisions: readonly Decision[];
  readonly cost: number;
  /** Times of events, in whole milliseconds from the start. */
  readonly moments: readonly number[];
}

type Play = (decisions: readonly Decision[]) => Promise<Played | undefined>;

/**
 * Objects in the keys of decisions may exist only after a long history. One of the faults, at its first opportunity,
 * may be enough.
 */
const aloneMax = 25;

async function strikeAlone(
  scenario: Scenario,
  seed: number,
  decisions: readonly Decision[],
  play: Play,
): Promise<void> {
  const calm = await runSeed(scenario, seed, []);
  if (calm.violation !== undefined) {
    await play([]);
    return;
  }
  const values = new Map(decisions.map((decision) => [kindOf(decision), decision.value]));
  const tried = new Map<string, number>();
  for (const key of calm.unsaid) {
    const kind = kindOf({ key, value: 0 });
    const value = values.get(kind);
    const tries = tried.get(kind) ?? 0;
    if (value === undefined || tries >= aloneMax) continue;
    tried.set(kind, tries + 1);
    if ((await play([{ key, value }])) !== undefined) return;
  }
}

/** Removes decisions as long as the run still fails, even if the history gets longer meanwhile. */
async function leaveOut(from: readonly Decision[], play: Play): Promise<void> {
  let decisions = from;
  const tryRest = async (rest: readonly Decision[]): Promise<boolean> => {
    const played = await play(rest);
    if (played !== undefined) ({ decisions } = played);
    return played !== undefined;
  };
  for (const kind of [...new Set(decisions.map(kindOf))].sort()) {
    const rest = decisions.filter((decision) => kindOf(decision) !== kind);
    if (rest.length < decisions.length) await tryRest(rest);
  }
  for (let size = Math.ceil(decisions.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    let at = 0;
    while (at < decisions.length) {
      const rest = [...decisions.slice(0, at), ...decisions.slice(at + size)];
      if (!(await tryRest(rest))) at += size;
    }
  }
}

/** Tries the fault of the n-th call at an earlier call, and the fault of a process at an earlier time. */
async function moveForward(from: Played, play: Play): Promise<void> {
  let { decisions, cost, moments } = from;
  for (let at = 0; at < decisions.length; at++) {
    const { key, value } = decisions[at] as Decision;
    for (const decision of earlier(key, value, moments)) {
      const others = decisions.filter((other, index) => index !== at && other.key !== decision.key);
      const played = await play([...others, decision]);
      if (played === undefined || played.cost >= cost) continue;
      ({ decisions, cost, moments } = played);
      break;
    }
  }
}

const earlierMax = 4;
const momentsMax = 12;

function* earlier(key: string, value: number, moments: readonly number[]): Generator<Decision> {
  const counted = /#(\d+)/.exec(key);
  const nth = Number(counted?.[1] ?? "1");
  for (let other = 1; other < nth && other <= earlierMax; other++) {
    yield { key: key.replace(/#\d+/, `#${other}`), value };
  }
  if (counted !== null) return;
  // A key without a count has a time as its value; times just before other events are tried.
  for (const moment of moments) if (moment < value) yield { key, value: moment };
}

function momentsOf({ history }: SeedResult): number[] {
  const moments = new Set(history.entries.map(({ atUs }) => Math.floor(atUs / 1000)).filter((ms) => ms > 0));
  return [...moments].slice(0, momentsMax);
}

function kindOf({ key }: Decision): string {
  const components = key.split("|");
  return (components.at(-1) ?? "").replace(/#\d+$/, "");
}

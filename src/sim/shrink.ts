import type { Decision } from "./chance.ts";
import { timeline } from "./report.ts";
import { runSeed, type SeedResult } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";

/** A violation without everything that it does not need. */
export interface Shrunk {
  readonly result: SeedResult;
  /** How many runs it took. */
  readonly runs: number;
  /** How many decisions the violation had at first. */
  readonly from: number;
}

/**
 * Finds a short history that breaks the same fact. Draws are keyed, so taking one decision out leaves the others as
 * they are; what is left out means that nothing unusual happens there. What is made small is what a person reads: the
 * steps of the history, and what chance has to decide for it.
 *
 * First one fault alone is tried in an otherwise calm run. Then whole kinds of decision go, then halves, quarters and
 * so on (delta debugging), until no single one can go; then what is left is tried earlier, where less has happened
 * before it.
 */
export async function shrink(scenario: Scenario, failing: SeedResult, runsMax = 1_500): Promise<Shrunk> {
  const { violation, seed } = failing;
  if (violation === undefined) throw new Error(`seed ${seed} of ${scenario.name} broke no invariant`);
  let runs = 0;
  let best = failing;
  let bestCost = Number.POSITIVE_INFINITY;
  /** Plays a list; undefined unless it breaks the same fact. The cheapest that ever did is kept. */
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
  // The list alone must do it: if not, the run does not depend on its decisions only.
  const whole = await play(failing.decisions);
  if (whole === undefined) {
    throw new Error(`seed ${seed} of ${scenario.name} does not fail again when its own decisions are played`);
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
  /** When something happened, in whole milliseconds from the beginning. */
  readonly moments: readonly number[];
}

type Play = (decisions: readonly Decision[]) => Promise<Played | undefined>;

/**
 * Objects that a list of decisions names may exist only after a long history. One of its faults, at the first chance,
 * may do.
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

/** Takes decisions out as long as it still fails, even if the history grows for the moment. */
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

/** The n-th call of a kind, and the moment of a process's misfortune, may do as well when they come first. */
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
  // Without a count it is a moment, and it matters just before something else happens.
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

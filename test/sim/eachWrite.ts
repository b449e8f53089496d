/**
 * One misfortune at a time: a calm story is played again and again, and each time something else happens to one of its
 * writes.
 */
import type { Decision } from "../../src/sim/chance.ts";
import { runSeed, withTripwires } from "../../src/sim/runSeed.ts";
import type { Scenario } from "../../src/sim/scenario.ts";

/** The codes of `src/sim/callFate.ts`; a write that times out lands so many milliseconds after it was sent. */
const misfortunes: Readonly<Record<string, readonly number[]>> = {
  "crash-before": [60],
  "crash-after": [70],
  "timeout-after": [30],
  "timeout-before": [20, 1_500, 4_000, 8_900],
};

export interface EachWrite {
  /** Whose choices make the story, and of which seed. */
  readonly storyteller: string;
  /** What it calls a choice. */
  readonly choice?: string;
  readonly seed: number;
  /** Whose writes are meant. */
  readonly authors: readonly string[];
  /** Only each so-manieth is played. */
  readonly every: number;
}

export async function playEachWrite(scenario: Scenario, about: EachWrite) {
  const { seed, authors, every, choice = "turn" } = about;
  const drawn = await withTripwires(() => runSeed(scenario, seed));
  const story = drawn.decisions.filter(({ key }) => key.startsWith(`${about.storyteller}|${choice}#`));
  const calm = await withTripwires(() => runSeed(scenario, seed, story));
  const strokes = [...new Set(calm.unsaid)].flatMap((key) => strokesAt(key, authors));
  const broken: { stroke: Decision; violation: unknown }[] = [];
  let played = 0;
  for (const [at, stroke] of strokes.entries()) {
    if (at % every !== 0) continue;
    played++;
    const { violation } = await withTripwires(() => runSeed(scenario, seed, [...story, stroke]));
    if (violation !== undefined) broken.push({ stroke, violation });
  }
  return { calm: calm.violation, strokes: strokes.length, played, broken };
}

/** `ann|patch|/pods/default/p0#2|crash-before`: writes only, and none of those that everybody makes all the time. */
function strokesAt(key: string, authors: readonly string[]): Decision[] {
  const [author = "", verb = "", target = ""] = key.split("|");
  const kind = key.slice(key.lastIndexOf("|") + 1);
  if (!authors.includes(author) || ["get", "list", "watch", "timer"].includes(verb)) return [];
  if (target.startsWith("coordination.k8s.io/leases/") || target.startsWith("/events/")) return [];
  return (misfortunes[kind] ?? []).map((value) => ({ key, value }));
}

import type { Random } from "../ports/random.ts";

/**
 * All chance of a run. A draw is keyed by the seed and by what it is for (actor, verb, object, n-th call), never by how
 * many draws came before: an extra await, or a decision taken out, leaves every other draw as it was.
 *
 * What a draw decides is a whole number, and 0 always means that nothing unusual happens. So a run is described by
 * its decisions that are not 0, and a run can be played again from such a list with all the rest calm.
 */
export class Chance {
  readonly seed: number;
  /** What was decided, other than 0, in order. */
  readonly decisions: Decision[] = [];
  /** Decisions that the script does not contain: other places where a fault could occur. */
  readonly unsaid: string[] = [];
  /** Once true, no more faults are decided. */
  calm = false;
  private readonly script: ReadonlyMap<string, number> | undefined;
  private readonly calls = new Map<string, number>();

  constructor(seed: number, script?: readonly Decision[]) {
    this.seed = seed;
    this.script = script === undefined ? undefined : new Map(script.map(({ key, value }) => [key, value]));
  }

  /** The key with the number of its uses so far, starting at 1. */
  nth(key: string): string {
    const n = (this.calls.get(key) ?? 0) + 1;
    this.calls.set(key, n);
    return `${key}#${n}`;
  }

  /** Decides something: by the script if there is one, else by a draw. */
  decide(key: string, draw: (dice: Dice) => number): number {
    if (this.calm) return 0;
    const value = this.script === undefined ? draw(new Dice(hashText(this.seed, key))) : this.read(this.script, key);
    if (value !== 0) this.decisions.push({ key, value });
    return value;
  }

  private read(script: ReadonlyMap<string, number>, key: string): number {
    const value = script.get(key);
    if (value === undefined) this.unsaid.push(key);
    return value ?? 0;
  }

  /** Randomness that is not a decision: identities, names, jitter of the program under test. */
  stream(key: string): Random {
    return new Dice(hashText(this.seed, key));
  }

  /** True when decisions come from a list and not from the seed. */
  get scripted(): boolean {
    return this.script !== undefined;
  }
}

/** A decision: its key and its value. */
export interface Decision {
  readonly key: string;
  readonly value: number;
}

/**
 * A short stream of integers from one key (splitmix32).
 */
export class Dice implements Random {
  private state: number;

  constructor(state: number) {
    this.state = state >>> 0;
  }

  uint32(): number {
    this.state = (this.state + 0x9e3779b9) >>> 0;
    return mix(this.state);
  }

  /** From 0 to bound - 1. */
  below(bound: number): number {
    return this.uint32() % bound;
  }

  /** From low to high, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** True with a probability of `perMille` in 1,000. */
  perMille(cases: number): boolean {
    return this.below(1000) < cases;
  }
}

/** FNV-1a over the text, started from the seed: all 53 bits of it, so that no two seeds are the same run. */
export function hashText(seed: number, text: string): number {
  let hash = (0x811c9dc5 ^ mix(seed >>> 0)) >>> 0;
  if (seed > 0xffffffff) hash = mix(hash ^ Math.floor(seed / 0x100000000));
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return mix(hash >>> 0);
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

import { type Chance, Dice, hashText } from "./chance.ts";

/**
 * The kinds of faults. The seed decides which of them a run has, and how often they occur (swarm testing): a run with
 * all faults can hide a bug that a run with one fault shows. Components with other ports register their own kinds.
 */
export interface FaultKind {
  readonly name: string;
  readonly about: string;
  /** What it affects: the API, a process, its clock, leadership; nodes, devices, the cloud, queues. */
  readonly concerns: string;
}

const kinds: FaultKind[] = [];

/** Adds a kind; the order of registration is the order in which swarms are printed. */
export function registerFault(kind: FaultKind): void {
  if (kinds.some(({ name }) => name === kind.name)) throw new Error(`fault ${kind.name} is registered twice`);
  kinds.push(kind);
}

export function faultKinds(): readonly FaultKind[] {
  return kinds;
}

const known: readonly [concerns: string, name: string, about: string][] = [
  ["api", "watch-delay", "events reach a watcher late; each watcher, kind and type of event has its own lateness"],
  ["api", "watch-reorder", "events of one kind overtake events of another by seconds"],
  ["api", "dropped-event", "events are lost and the stream ends: the client must list again"],
  ["api", "stream-cut", "a stream ends without loss; the client resumes where it was"],
  ["api", "duplicate-event", "an event is delivered twice"],
  ["api", "compaction-gap", "the past is forgotten: a resumed watch gets 410"],
  ["api", "bookmark-stall", "bookmarks do not arrive"],
  ["api", "stale-read", "reads that allow it are answered by a replica that lags"],
  ["api", "lagging-replica", "consistent reads are served by a lagging replica, at its own revision"],
  ["api", "no-streaming", "the server cannot begin a watch with what exists: lists come in pages"],
  ["api", "client-queue", "a write waits in its client, for a connection or for credentials, before it leaves"],
  ["api", "slow-call", "a request or its answer takes up to seconds"],
  ["api", "conflict", "a write is refused with 409 though no other write came first"],
  ["api", "timeout-before", "a write times out before it takes effect, and perhaps takes effect much later"],
  ["api", "timeout-after", "a write takes effect and its answer is lost"],
  ["api", "busy", "429, 500 or 503 instead of an answer"],
  ["api", "partial-page", "a list comes in smaller pages, and a page may be refused as too old"],
  ["process", "crash-before", "a process dies before a write leaves it"],
  ["process", "crash-after", "a process dies after its write took effect and before it learns of it"],
  ["process", "restart", "a process dies at any moment and starts again with nothing in its memory"],
  ["process", "pause", "a process stands still for a moment"],
  ["process", "slow-timer", "a timer fires late"],
  ["leadership", "two-leaders", "a leader stands still for longer than its lease and then goes on"],
  ["clock", "clock-step", "a process's clock jumps, forwards or backwards"],
];
for (const [concerns, name, about] of known) registerFault({ concerns, name, about });

/** 0 is off, 3 is strong. */
export type Strength = 0 | 1 | 2 | 3;

/** Which faults a run has. */
export class Swarm {
  private readonly strengths = new Map<string, Strength>();

  /** Draws from the seed; `only` keeps the kinds that a scenario is about. */
  static draw(chance: Chance, only?: readonly string[]): Swarm {
    const swarm = new Swarm();
    for (const { name } of kinds) {
      const dice = new Dice(hashText(chance.seed, `swarm|${name}`));
      if (only !== undefined && !only.includes(name)) continue;
      if (dice.perMille(550)) swarm.strengths.set(name, dice.between(1, 3) as Strength);
    }
    return swarm;
  }

  of(kind: string): Strength {
    return this.strengths.get(kind) ?? 0;
  }

  /** One line for people: `conflict 2, pause 1`. */
  toString(): string {
    const on = [...this.strengths].map(([name, strength]) => `${name} ${strength}`);
    return on.length === 0 ? "no faults" : on.join(", ");
  }
}

import { type Refusal, refused } from "../model/outcome.ts";
import { registerFault } from "./faults.ts";
import type { Simulation } from "./simulation.ts";

registerFault({
  concerns: "api",
  name: "outage",
  about:
    "the API server is away for up to half a minute: calls are refused, streams are cut, what was under way is lost",
});

/** The API server goes away this many times in a run at most. */
const timesMax = 2;
/** One outage in four lasts longer than the short ones. */
const shortMsMax = 4_000;
const longMsMax = 30_000;
/** A server that has just started answers 429 for custom resources until it has their storage. */
const storageUs = 700_000;

/**
 * The times at which the API server is away. A call that leaves meanwhile is refused and has no effect; a call that is
 * under way when the server goes is lost, and its client does not know whether it took effect.
 */
export class Outages {
  private readonly simulation: Simulation;
  private readonly streams = new Set<() => void>();
  private readonly returns = new Set<() => void>();
  private awayUntilUs = 0;

  constructor(simulation: Simulation) {
    this.simulation = simulation;
  }

  /** The start and the length of each outage are two decisions, so that shrinking can remove each. */
  plan(): void {
    const { simulation } = this;
    for (let time = 1; time <= timesMax; time++) {
      const atMs = simulation.decide("outage", `api|${time}`, (dice, strength) =>
        dice.perMille(250 * strength) ? dice.between(1, simulation.scenario.faultPhaseMs) : 0,
      );
      if (atMs === 0) continue;
      const lengthMs = simulation.decide("outage", `api|${time}|length`, (dice) =>
        dice.between(1, dice.below(4) === 0 ? longMsMax : shortMsMax),
      );
      simulation.later(atMs * 1000, time, () => {
        if (!simulation.chance.calm) this.begin(lengthMs);
      });
    }
  }

  get isAway(): boolean {
    return !this.simulation.chance.calm && this.simulation.nowUs < this.awayUntilUs;
  }

  /** The answer to a call or a watch of a resource that leaves its client now; undefined: the server gets it. */
  refusal(resource: string): Refusal | undefined {
    if (this.isAway) return refused("Unavailable", "connect ECONNREFUSED");
    const { chance, nowUs, core } = this.simulation;
    const isStarting = !chance.calm && this.awayUntilUs > 0 && nowUs < this.awayUntilUs + storageUs;
    if (!isStarting || core.registry.stored(resource)?.custom === undefined) return undefined;
    return refused("TooManyRequests", "storage is (re)initializing", { retryAfterMs: 1_000 });
  }

  /** Calls `cut` when the server goes away; returns a function that stops that. */
  follow(cut: () => void): () => void {
    this.streams.add(cut);
    return () => this.streams.delete(cut);
  }

  /** Calls `run` in the moment at which the server is back, if faults are on then. */
  onReturn(run: () => void): void {
    this.returns.add(run);
  }

  private begin(lengthMs: number): void {
    const { simulation } = this;
    this.awayUntilUs = Math.max(this.awayUntilUs, simulation.nowUs + lengthMs * 1000);
    simulation.fault("server", `is away for ${lengthMs} ms`);
    for (const cut of [...this.streams]) cut();
    simulation.later(lengthMs * 1000, 0, () => {
      if (simulation.chance.calm || this.isAway) return;
      for (const run of this.returns) run();
    });
  }
}

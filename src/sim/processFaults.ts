import type { Actor } from "./actor.ts";
import type { Simulation } from "./simulation.ts";

/** A process may crash, pause, or find its clock moved, this many times in a run at most. */
const timesMax = 3;

/** Schedules the faults of processes. The time of each is one decision. */
export function planProcessFaults(simulation: Simulation): void {
  for (const actor of simulation.actors) {
    if (actor.spec.isExemptFromFaults === true) continue;
    for (let time = 1; time <= timesMax; time++) {
      plan(simulation, actor, "restart", time, () => simulation.kill(actor, "at a random moment"));
      plan(simulation, actor, "pause", time, (lengthMs) => pauseTimers(simulation, actor, 1 + (lengthMs % 1_500)));
      plan(simulation, actor, "two-leaders", time, (lengthMs) => pauseTimers(simulation, actor, 3_000 + lengthMs));
      plan(simulation, actor, "clock-step", time, (lengthMs) => {
        const byMs = lengthMs % 2 === 0 ? lengthMs : -lengthMs;
        actor.clockOffsetMs += byMs;
        simulation.fault(actor.name, `clock jumps by ${byMs} ms`);
      });
    }
  }
}

/** Time (in milliseconds from the start) and length are two decisions, so that shrinking can remove each. */
function plan(
  simulation: Simulation,
  actor: Actor,
  kind: string,
  time: number,
  strike: (lengthMs: number) => void,
): void {
  const atMs = simulation.decide(kind, `${actor.name}|${time}`, (dice, strength) =>
    dice.perMille(250 * strength) ? dice.between(1, simulation.scenario.faultPhaseMs) : 0,
  );
  if (atMs === 0) return;
  const lengthMs = simulation.decide(kind, `${actor.name}|${time}|length`, (dice) => dice.between(1, 9_000));
  simulation.later(atMs * 1000, time, () => {
    if (!simulation.chance.calm) strike(lengthMs);
  });
}

function pauseTimers(simulation: Simulation, actor: Actor, lengthMs: number): void {
  simulation.pause(actor);
  simulation.later(lengthMs * 1000, 0, () => simulation.resume(actor));
}

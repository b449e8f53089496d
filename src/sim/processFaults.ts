import type { Actor } from "./actor.ts";
import type { World } from "./world.ts";

/** A process may crash, pause, or find its clock moved, this many times in a run at most. */
const timesMax = 3;

/** Puts the misfortunes of processes on the schedule: each is decided once, by the moment at which it strikes. */
export function planProcessFaults(world: World): void {
  for (const actor of world.actors) {
    if (actor.spec.isExemptFromFaults === true) continue;
    for (let time = 1; time <= timesMax; time++) {
      plan(world, actor, "restart", time, () => world.kill(actor, "at a random moment"));
      plan(world, actor, "pause", time, (lengthMs) => standStill(world, actor, 1 + (lengthMs % 1_500)));
      plan(world, actor, "two-leaders", time, (lengthMs) => standStill(world, actor, 3_000 + lengthMs));
      plan(world, actor, "clock-step", time, (lengthMs) => {
        const byMs = lengthMs % 2 === 0 ? lengthMs : -lengthMs;
        actor.clockOffsetMs += byMs;
        world.fault(actor.name, `clock jumps by ${byMs} ms`);
      });
    }
  }
}

/** When (in milliseconds from the beginning) and how hard are two decisions, so that each can be taken out. */
function plan(world: World, actor: Actor, kind: string, time: number, strike: (lengthMs: number) => void): void {
  const atMs = world.decide(kind, `${actor.name}|${time}`, (dice, strength) =>
    dice.perMille(250 * strength) ? dice.between(1, world.scenario.faultPhaseMs) : 0,
  );
  if (atMs === 0) return;
  const lengthMs = world.decide(kind, `${actor.name}|${time}|length`, (dice) => dice.between(1, 9_000));
  world.later(atMs * 1000, time, () => {
    if (!world.chance.calm) strike(lengthMs);
  });
}

function standStill(world: World, actor: Actor, lengthMs: number): void {
  world.pause(actor);
  world.later(lengthMs * 1000, 0, () => world.resume(actor));
}

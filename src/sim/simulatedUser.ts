import type { ActorPorts, ActorSpec } from "./actor.ts";
import { lateMsMax } from "./callFate.ts";
import { Dice } from "./chance.ts";

/** One action of a simulated user. Its choices come from the dice, so that leaving it out changes nothing else. */
export type Act = (ports: ActorPorts, dice: Dice) => Promise<void>;

export interface SimulatedUserOptions {
  readonly name: string;
  /** The number of actions, and the time in which they happen. */
  readonly acts: number;
  readonly spanMs: number;
  readonly actions: readonly Act[];
  /** Cleans up at the end, when no write that timed out can take effect any more. */
  readonly atTheEnd?: (ports: ActorPorts) => Promise<void>;
}

/** A simulated user: one action after the other, each chosen by the seed. */
export function simulatedUser({ name, acts, spanMs, actions, atTheEnd }: SimulatedUserOptions): ActorSpec {
  return {
    name,
    finite: true,
    isExemptFromFaults: true,
    run: async (ports) => {
      for (let act = 0; act < acts; act++) {
        await ports.sleep(Math.floor(spanMs / acts) + (ports.random.uint32() % 100));
        const chosen = ports.choose("act", (dice) => dice.between(1, actions.length));
        if (chosen > 0) await actions[chosen - 1]?.(ports, new Dice(ports.random.uint32()));
      }
      if (atTheEnd === undefined) return;
      await ports.sleep(lateMsMax + 1_000);
      await atTheEnd(ports);
    },
  };
}

import type { ActorPorts, ActorSpec } from "./actor.ts";
import { lateMsMax } from "./callFate.ts";
import { Dice } from "./chance.ts";

/** One action of a simulated user. Its choices come from the dice, so that leaving it out changes nothing else. */
export type Act = (ports: ActorPorts, dice: Dice) => Promise<void>;

export interface BusyPersonOptions {
  readonly name: string;
  /** How many things are done, and within which time. */
  readonly acts: number;
  readonly spanMs: number;
  readonly actions: readonly Act[];
  /** What is put in order before going home, when nothing that timed out can land any more. */
  readonly atTheEnd?: (ports: ActorPorts) => Promise<void>;
}

/** A simulated user: one action after the other, each chosen by the seed. */
export function busyPerson({ name, acts, spanMs, actions, atTheEnd }: BusyPersonOptions): ActorSpec {
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

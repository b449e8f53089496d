import { performance } from "node:perf_hooks";
import { coresHere, seedsOnCores } from "../src/cli/simulator/seedsOnCores.ts";
import { podSetScenario } from "../src/sim/podSets/scenario.ts";
import { Schedule } from "../src/sim/schedule.ts";
import type { Figure } from "./figure.ts";

/** How fast seeds are played: the sample controller with all faults, on the real verbs. */
export async function* benchSimulator(say: (text: string) => void): AsyncGenerator<Figure> {
  const scenario = podSetScenario();
  const cores = coresHere();
  say(`2,000 seeds of the sample controller on ${cores} cores, the start of the threads included`);
  const startedMs = performance.now();
  const { seeds, events, simulatedHours } = await seedsOnCores(scenario, { from: 1, count: 2_000 }, cores);
  const seconds = (performance.now() - startedMs) / 1000;
  const floor = await emptySteps(200_000);
  yield {
    name: "seeds of the sample controller, all faults",
    value: seeds / seconds,
    unit: "seeds/s",
    target: { at: "least", value: 100 },
  };
  yield {
    name: "events: calls, answers, deliveries, timers",
    value: events / seconds,
    unit: "events/s",
    target: { at: "least", value: 100_000 },
    beside: { name: "steps that do nothing", value: floor },
  };
  yield { name: "simulated over real time", value: (simulatedHours * 3600) / seconds, unit: "times" };
}

/** What the schedule itself costs: steps with nothing in them, each run to its end. */
async function emptySteps(count: number): Promise<number> {
  const schedule = new Schedule();
  for (let at = 0; at < count; at++) schedule.at(at, at & 7, () => {});
  const startedMs = performance.now();
  await new Promise<void>((resolve) => {
    const step = (): void => {
      const run = schedule.next();
      if (run === undefined) resolve();
      else {
        run();
        void Promise.resolve().then(() => process.nextTick(step));
      }
    };
    step();
  });
  return count / ((performance.now() - startedMs) / 1000);
}

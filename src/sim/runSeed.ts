import { canonicalJson } from "./canonicalJson.ts";
import type { Decision } from "./chance.ts";
import type { History } from "./history.ts";
import type { Violation } from "./invariant.ts";
import { planProcessFaults } from "./processFaults.ts";
import type { Scenario } from "./scenario.ts";
import { Simulation } from "./simulation.ts";
import { Tripwires } from "./tripwires.ts";

/** The result of a run. */
export interface SeedResult {
  readonly scenario: string;
  readonly seed: number;
  /** The faults of the run. */
  readonly swarm: string;
  readonly violation: Violation | undefined;
  /** Hash of the order, time and author of all events: the same seed has the same hash. */
  readonly hash: string;
  readonly events: number;
  readonly simulatedUs: number;
  readonly history: History;
  /** All decisions other than 0, up to the end or the violation. */
  readonly decisions: readonly Decision[];
  /** In a run from a list: decisions that the list does not contain. */
  readonly unsaid: readonly string[];
}

/** How long a crashed process stays down. */
const restartUs = 800_000;
const restCheckUs = 500_000;
const stopUs = 60_000_000;

/**
 * Runs one seed: first with faults, then without, until the cluster is quiescent. A script replaces random decisions.
 */
export async function runSeed(scenario: Scenario, seed: number, script?: readonly Decision[]): Promise<SeedResult> {
  const simulation = await Simulation.create(scenario, seed, script);
  tripwires.report((what) =>
    simulation.fail("I20", "same seed, same history", `${what} was called while the seed ran`),
  );
  for (const actor of simulation.actors) simulation.later(0, 0, () => simulation.start(actor));
  planProcessFaults(simulation);
  simulation.outages.plan();
  scenario.planFaults?.(simulation);
  simulation.later(restartUs, 0, () => restartCrashed(simulation));
  simulation.later(scenario.faultPhaseMs * 1000, 0, () => calmDown(simulation));
  await simulation.play();
  if (simulation.violation === undefined) finish(simulation);
  tripwires.report(undefined);
  foldFinalState(simulation);
  return {
    scenario: scenario.name,
    seed,
    swarm: script === undefined ? simulation.swarm.toString() : `${script.length} decisions from a list`,
    violation: simulation.violation,
    hash: simulation.history.hash,
    events: simulation.steps,
    simulatedUs: simulation.nowUs,
    history: simulation.history,
    decisions: simulation.chance.decisions,
    unsaid: simulation.chance.unsaid,
  };
}

const tripwires = new Tripwires();
let armed = 0;

/** Runs seeds with the tripwires armed. Yields to the event loop between two batches. */
export async function withTripwires<T>(run: () => Promise<T>): Promise<T> {
  armed++;
  try {
    if (armed === 1) tripwires.arm();
    return await run();
  } finally {
    if (--armed === 0) tripwires.disarm();
  }
}

function restartCrashed(simulation: Simulation): void {
  for (const actor of simulation.actors) if (!actor.alive && !actor.finished) simulation.start(actor);
  simulation.later(restartUs, 0, () => restartCrashed(simulation));
}

/** Stops the faults. Calls and events in flight are still delivered. */
function calmDown(simulation: Simulation): void {
  simulation.chance.calm = true;
  for (const actor of simulation.actors) while (actor.paused > 0) simulation.resume(actor);
  simulation.lastChangeUs = simulation.nowUs;
  const deadlineUs = simulation.nowUs + simulation.scenario.settleMs * 1000;
  const look = (): void => {
    const unfinished = simulation.actors.filter(({ spec, finished }) => spec.finite === true && !finished);
    const silentUs = simulation.nowUs - simulation.lastChangeUs;
    if (unfinished.length === 0 && silentUs >= simulation.scenario.quietMs * 1000) {
      simulation.checkRest();
      stop(simulation);
    } else if (simulation.nowUs >= deadlineUs) {
      const what = unfinished.length > 0 ? `${unfinished[0]?.name} has not finished` : "objects still change";
      simulation.fail("I17", "after faults stop everything settles, and is then silent", what);
    } else simulation.later(restCheckUs, 0, look);
  };
  simulation.later(restCheckUs, 0, look);
}

/** Stops every process, and checks that it ends. */
function stop(simulation: Simulation): void {
  simulation.later(0, 0, () => {
    for (const actor of simulation.actors) if (actor.alive) actor.stop();
  });
  const deadlineUs = simulation.nowUs + stopUs;
  const look = (): void => {
    if (simulation.actors.every(({ finished }) => finished)) simulation.end();
    else if (simulation.nowUs >= deadlineUs) finish(simulation);
    else simulation.later(10_000, 0, look);
  };
  simulation.later(1_000, 0, look);
}

/** An empty schedule while an actor still waits is a deadlock, or a wait for an event outside the simulation. */
function finish(simulation: Simulation): void {
  if (simulation.isOver) return;
  simulation.end();
  const stuck = simulation.actors.filter(({ finished }) => !finished).map(({ name }) => name);
  if (stuck.length > 0)
    simulation.fail("I17", "every process ends when it is asked to", `${stuck.join(", ")} did not end`);
}

function foldFinalState(simulation: Simulation): void {
  const { store } = simulation.core;
  for (const resource of store.resources()) {
    for (const version of store.collection(resource).all()) {
      simulation.history.count(simulation.nowUs, version.key, canonicalJson(version.object()));
    }
  }
}

import { canonicalJson } from "./canonicalJson.ts";
import type { Decision } from "./chance.ts";
import type { History } from "./history.ts";
import type { Violation } from "./invariant.ts";
import { planProcessFaults } from "./processFaults.ts";
import type { Scenario } from "./scenario.ts";
import { Tripwires } from "./tripwires.ts";
import { World } from "./world.ts";

/** What a run came to. */
export interface SeedResult {
  readonly scenario: string;
  readonly seed: number;
  /** Which faults were on. */
  readonly swarm: string;
  readonly violation: Violation | undefined;
  /** Same seed, same hash: the order, the moment and the author of everything that happened. */
  readonly hash: string;
  readonly events: number;
  readonly simulatedUs: number;
  readonly history: History;
  /** Everything unusual that chance decided, up to the end or the violation. */
  readonly decisions: readonly Decision[];
  /** In a run from a list: what the list was asked for and did not name. */
  readonly unsaid: readonly string[];
}

/** How long a crashed process stays down. */
const restartUs = 800_000;
const restCheckUs = 500_000;
const stopUs = 60_000_000;

/** Plays one seed: faults first, then none, then rest, then silence. A script replaces what chance would decide. */
export async function runSeed(scenario: Scenario, seed: number, script?: readonly Decision[]): Promise<SeedResult> {
  const world = await World.create(scenario, seed, script);
  tripwires.report((what) => world.fail("I20", "same seed, same history", `${what} was called while the seed ran`));
  for (const actor of world.actors) world.later(0, 0, () => world.start(actor));
  planProcessFaults(world);
  scenario.planFaults?.(world);
  world.later(restartUs, 0, () => restartCrashed(world));
  world.later(scenario.faultPhaseMs * 1000, 0, () => calmDown(world));
  await world.play();
  if (world.violation === undefined) finish(world);
  tripwires.report(undefined);
  foldFinalState(world);
  return {
    scenario: scenario.name,
    seed,
    swarm: script === undefined ? world.swarm.toString() : `${script.length} decisions from a list`,
    violation: world.violation,
    hash: world.history.hash,
    events: world.steps,
    simulatedUs: world.nowUs,
    history: world.history,
    decisions: world.chance.decisions,
    unsaid: world.chance.unsaid,
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

function restartCrashed(world: World): void {
  for (const actor of world.actors) if (!actor.alive && !actor.finished) world.start(actor);
  world.later(restartUs, 0, () => restartCrashed(world));
}

/** The faults stop. Whatever is in flight still arrives. */
function calmDown(world: World): void {
  world.chance.calm = true;
  for (const actor of world.actors) while (actor.paused > 0) world.resume(actor);
  world.lastChangeUs = world.nowUs;
  const deadlineUs = world.nowUs + world.scenario.settleMs * 1000;
  const look = (): void => {
    const unfinished = world.actors.filter(({ spec, finished }) => spec.finite === true && !finished);
    const silentUs = world.nowUs - world.lastChangeUs;
    if (unfinished.length === 0 && silentUs >= world.scenario.quietMs * 1000) {
      world.checkRest();
      stop(world);
    } else if (world.nowUs >= deadlineUs) {
      const what = unfinished.length > 0 ? `${unfinished[0]?.name} has not finished` : "objects still change";
      world.fail("I17", "after faults stop everything settles, and is then silent", what);
    } else world.later(restCheckUs, 0, look);
  };
  world.later(restCheckUs, 0, look);
}

/** Asks every process to end, and checks that it does. */
function stop(world: World): void {
  world.later(0, 0, () => {
    for (const actor of world.actors) if (actor.alive) actor.stop();
  });
  const deadlineUs = world.nowUs + stopUs;
  const look = (): void => {
    if (world.actors.every(({ finished }) => finished)) world.end();
    else if (world.nowUs >= deadlineUs) finish(world);
    else world.later(10_000, 0, look);
  };
  world.later(1_000, 0, look);
}

/** An empty schedule while an actor still waits is a deadlock, or a wait for something outside the simulation. */
function finish(world: World): void {
  if (world.isOver) return;
  world.end();
  const stuck = world.actors.filter(({ finished }) => !finished).map(({ name }) => name);
  if (stuck.length > 0) world.fail("I17", "every process ends when it is asked to", `${stuck.join(", ")} did not end`);
}

function foldFinalState(world: World): void {
  const { store } = world.core;
  for (const resource of store.resources()) {
    for (const version of store.collection(resource).all()) {
      world.history.count(world.nowUs, version.key, canonicalJson(version.object()));
    }
  }
}

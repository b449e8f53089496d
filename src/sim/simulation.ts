import { noAdmission } from "../apiserver/admission/admission.ts";
import { createAdmission } from "../apiserver/admission/createAdmission.ts";
import { startControllers } from "../apiserver/controllers/controllers.ts";
import { createApi } from "../apiserver/createApi.ts";
import { inProcessKube } from "../apiserver/inProcessKube.ts";
import type { Registry } from "../apiserver/registry.ts";
import { indexedFields } from "../apiserver/storage/indexedFields.ts";
import { ObjectStore } from "../apiserver/storage/objectStore.ts";
import type { StoreEvent } from "../apiserver/storage/storeEvent.ts";
import { WatchHub } from "../apiserver/storage/watchHub.ts";
import type { Core } from "../apiserver/verbs/core.ts";
import type { NewObject } from "../model/intent.ts";
import type { CustomResourceDefinition } from "../model/kubernetes.generated.ts";
import { builtin } from "../model/resources.generated.ts";
import type { Clock } from "../ports/clock.ts";
import type { KubeApi } from "../ports/kubeApi.ts";
import type { Log } from "../ports/log.ts";
import type { Random } from "../ports/random.ts";
import { Actor, type ActorPorts } from "./actor.ts";
import { canonicalJson } from "./canonicalJson.ts";
import { Chance, type Decision, type Dice, hashText } from "./chance.ts";
import { type Strength, Swarm } from "./faults.ts";
import { type CallRecord, History, objectKey } from "./history.ts";
import type { Checks, Delivery, Invariant, Violation } from "./invariant.ts";
import { Outages } from "./outages.ts";
import type { Scenario } from "./scenario.ts";
import { Schedule } from "./schedule.ts";
import { SimKube } from "./simKube.ts";

/** The start time of every run: 1 January 2026. */
export const epochMs = 1_767_225_600_000;

/** Simulations with the same CRDs share the registry of kinds, which does not change afterwards, and nothing else. */
const registries = new Map<string, Promise<Registry>>();

function registryWith(definitions: readonly NewObject<CustomResourceDefinition>[]): Promise<Registry> {
  const key = definitions.length === 0 ? "" : canonicalJson(definitions);
  let registry = registries.get(key);
  if (registry === undefined) {
    registry = buildRegistry(definitions);
    registries.set(key, registry);
  }
  return registry;
}

/** The shared registry without listeners: a listener would outlive its simulation. */
function withoutListeners(registry: Registry): Registry {
  return Object.assign(Object.create(registry) as Registry, { onChange: () => {} });
}

async function buildRegistry(definitions: readonly NewObject<CustomResourceDefinition>[]): Promise<Registry> {
  const idle: Clock = { nowMs: () => epochMs, monotonicMs: () => 0, after: () => () => {} };
  const random = new Chance(0).stream("registry");
  const { core } = await createApi({ clock: idle, random, controllers: "none" });
  const kube = inProcessKube(core, simulatedCaller);
  for (const definition of definitions) {
    const outcome = await kube.create(definitionKind, definition);
    if (!outcome.ok) throw new Error(`definition ${definition.metadata.name} is refused: ${outcome.message}`);
  }
  return core.registry;
}

const simulatedCaller = {
  user: { username: "simulated", groups: ["system:masters"] },
  fieldManager: "simulated",
} as const;
const definitionKind = builtin.CustomResourceDefinition;

const askedMax = 100_000;
/** More steps without simulated time are a loop: timers of no length that set each other. */
const stepsAtOnceMax = 200_000;

/** The author of writes that are not from an actor. */
export const sceneryActor = "scenery";
const scenery: CallRecord = {
  actor: sceneryActor,
  life: 0,
  verb: "set-up",
  key: "",
  requestedUs: 0,
  requestedOwnMs: 0,
  sentUs: 0,
  seen: undefined,
  preconditions: {},
  object: undefined,
  named: true,
  fault: "",
};

/**
 * A simulated environment: the real verbs and store in memory, processes that crash and pause, one virtual clock, one
 * source of randomness. JavaScript does not interleave between two awaits, so the code that resolves the promises
 * determines the schedule.
 */
export class Simulation {
  readonly scenario: Scenario;
  readonly chance: Chance;
  readonly history = new History();
  readonly swarm: Swarm;
  readonly core: Core;
  /** The server without delays and faults, for the set-up of scenarios. */
  readonly kube: KubeApi;
  readonly actors: Actor[] = [];
  readonly outages = new Outages(this);
  violation: Violation | undefined;
  /** The time of the last change of a resource that counts for quiescence. */
  lastChangeUs = 0;
  /** The number of events: a call arrives, a response or a watch event is delivered, a timer fires. */
  steps = 0;
  private readonly schedule = new Schedule();
  private readonly checks: { readonly invariant: Invariant; readonly checks: Checks }[] = [];
  private acting: CallRecord = scenery;
  private serverRandom: Random;
  private hasEnded = false;
  private lastStepUs = 0;
  private stepsAtOnce = 0;
  /** The number of port calls of processes in this step. */
  private asked = 0;
  /** Time and revision of each commit, for reads of the past. */
  private readonly commitUs: number[] = [];
  private readonly commitRevision: number[] = [];
  private readonly ignoredForQuiescence: ReadonlySet<string>;

  private constructor(scenario: Scenario, chance: Chance, registry: Registry) {
    this.scenario = scenario;
    this.chance = chance;
    this.ignoredForQuiescence = new Set(scenario.ignoredForQuiescence ?? []);
    this.swarm = Swarm.draw(chance, scenario.faults);
    this.serverRandom = chance.stream("server");
    const clock: Clock = {
      nowMs: () => this.nowMs,
      monotonicMs: () => this.schedule.nowUs / 1000,
      after: (delayMs, run) => this.later(delayMs * 1000, 0, run),
    };
    const store = new ObjectStore({ clock, indexedFields, freeze: scenario.freeze ?? false });
    // A commit is checked before any watch delivers it.
    store.onEvent((event) => this.committed(event));
    const hub = new WatchHub(store, clock, indexedFields);
    const random = { uint32: () => this.serverRandom.uint32() };
    const hooks = (scenario.components ?? []).flatMap((part) => part.hooks ?? []);
    const admission = hooks.length === 0 ? noAdmission : createAdmission({ hooks })(() => this.core);
    this.core = { store, hub, registry, clock, random, admission };
    this.kube = inProcessKube(this.core, simulatedCaller);
    if (scenario.serverLoops === true)
      startControllers(this.core, {
        log: (what, error) => this.loopFailed(what, error),
        collectAfterMs: ({ resource, name }, isNew) =>
          scenario.collectMsMax === undefined || (resource !== "/pods" && !isNew)
            ? 0
            : Math.floor(hashText(chance.seed, `collect|${name}`) % scenario.collectMsMax),
      });
    const observed = { store, nowUs: () => this.nowUs, nowMsOf: (name: string) => this.ownMs(this.actor(name)) };
    for (const invariant of scenario.invariants) this.checks.push({ invariant, checks: invariant.begin(observed) });
  }

  static async create(scenario: Scenario, seed: number, script?: readonly Decision[]): Promise<Simulation> {
    const components = scenario.components ?? [];
    const all = [...components.flatMap((part) => part.definitions ?? []), ...(scenario.definitions ?? [])];
    // Two components may have the same CRD: scheduler and binder both define BindRequests.
    const definitions = [...new Map(all.map((definition) => [definition.metadata.name, definition])).values()];
    const simulation = new Simulation(
      scenario,
      new Chance(seed, script),
      withoutListeners(await registryWith(definitions)),
    );
    await scenario.setUp?.(simulation.kube);
    for (const object of components.flatMap(({ startObjects }) => startObjects ?? []))
      await simulation.createStartObject(object);
    for (const spec of scenario.actors()) simulation.actors.push(new Actor(spec));
    return simulation;
  }

  private async createStartObject(object: NewObject): Promise<void> {
    const { apiVersion, kind, metadata } = object;
    const resource = this.core.registry.kind(apiVersion, kind)?.type;
    if (resource === undefined) throw new Error(`start object ${metadata.name} is of unknown kind ${kind}`);
    const outcome = await this.kube.create(resource, object);
    if (outcome.ok || outcome.reason === "AlreadyExists") return;
    throw new Error(`start object ${metadata.name} is refused: ${outcome.message}`);
  }

  get nowUs(): number {
    return this.schedule.nowUs;
  }

  get nowMs(): number {
    return epochMs + Math.floor(this.schedule.nowUs / 1000);
  }

  ownMs(actor: Actor): number {
    return this.nowMs + actor.clockOffsetMs;
  }

  actor(name: string): Actor {
    const found = this.actors.find((actor) => actor.name === name);
    if (found === undefined) throw new Error(`there is no actor ${name}`);
    return found;
  }

  // --- the schedule

  later(delayUs: number, tie: number, run: () => void): () => void {
    return this.schedule.at(this.schedule.nowUs + delayUs, tie, run);
  }

  /** Delivers something to a process, unless it crashed in between; a paused process receives it later, in order. */
  post(to: { actor: Actor; life: number }, delayUs: number, tie: number, run: () => void): () => void {
    const { actor, life } = to;
    return this.later(delayUs, tie, () => {
      if (actor.life !== life) return;
      if (actor.paused > 0 || actor.mailbox.length > 0) actor.mailbox.push({ life, run });
      else run();
    });
  }

  /** Runs until the scenario ends. After each step, every promise that can settle has settled. */
  play(): Promise<void> {
    return new Promise<void>((resolve) => {
      const step = (): void => {
        if (this.hasEnded || this.violation !== undefined || !this.runNext()) resolve();
        // All queued microtasks, and those that they queue, run before the next tick.
        else void Promise.resolve().then(afterMicrotasks);
      };
      const afterMicrotasks = (): void => process.nextTick(step);
      step();
    });
  }

  get nextUs(): number | undefined {
    return this.schedule.nextUs;
  }

  /** Runs one step to its end; false when the schedule is empty. */
  async step(): Promise<boolean> {
    const ran = this.runNext();
    await new Promise<void>((resolve) => {
      void Promise.resolve().then(() => process.nextTick(resolve));
    });
    return ran;
  }

  private runNext(): boolean {
    const run = this.schedule.next();
    if (run === undefined) return false;
    this.acting = scenery;
    this.steps++;
    this.asked = 0;
    this.countSteps();
    run();
    return true;
  }

  private countSteps(): void {
    this.stepsAtOnce = this.nowUs === this.lastStepUs ? this.stepsAtOnce + 1 : 0;
    this.lastStepUs = this.nowUs;
    if (this.stepsAtOnce < stepsAtOnceMax) return;
    this.fail(
      "I17",
      "time passes",
      `${stepsAtOnceMax} events at one moment: a timer of no length is set again and again`,
    );
  }

  end(): void {
    this.hasEnded = true;
  }

  get isOver(): boolean {
    return this.hasEnded;
  }

  /**
   * A process that calls its ports endlessly within one step stops simulated time. The number of calls distinguishes it
   * from a slow process.
   */
  private count(actor: Actor): void {
    if (++this.asked < askedMax) return;
    this.fail("I17", "time passes", `${actor.name} asked its ports ${askedMax} times in one step`);
    throw new Error(`${actor.name} calls its ports endlessly`);
  }

  // --- chance

  /** Decides about a fault: 0 without a draw if the fault is off, unless a script decides. */
  decide(kind: string, key: string, draw: (dice: Dice, strength: Strength) => number): number {
    const strength = this.swarm.of(kind);
    if (strength === 0 && !this.chance.scripted) return 0;
    return this.chance.decide(`${key}|${kind}`, (dice) => draw(dice, strength));
  }

  // --- processes

  start(actor: Actor): void {
    const life = actor.begin();
    for (const { checks } of this.checks) checks.started?.(actor.name, life);
    const run = actor.spec.run(this.ports(actor, life));
    run.then(
      () => {
        if (actor.life === life) actor.finished = true;
      },
      (error: unknown) => {
        if (actor.life === life) this.fail("bug", `no process throws`, `${actor.name}: ${describe(error)}`);
      },
    );
  }

  kill(actor: Actor, why: string): void {
    if (!actor.alive) return;
    actor.crash();
    this.history.count(this.nowUs, actor.name, "dies");
    this.fault(actor.name, `dies ${why}`);
  }

  pause(actor: Actor): void {
    actor.paused++;
    this.fault(actor.name, "stands still");
  }

  resume(actor: Actor): void {
    if (actor.paused === 0) return;
    actor.paused--;
    if (actor.paused > 0) return;
    this.fault(actor.name, "goes on");
    const next = (): void => {
      if (actor.paused > 0) return;
      const letter = actor.mailbox[0];
      if (letter === undefined) return;
      // Deliveries that arrive meanwhile are queued behind the waiting ones.
      if (letter.life === actor.life) letter.run();
      actor.mailbox.shift();
      if (actor.mailbox.length > 0) this.later(0, 0, next);
    };
    this.later(0, 0, next);
  }

  private ports(actor: Actor, life: number): ActorPorts {
    const { name } = actor;
    const kube = new SimKube(this, actor, this.kube);
    const clock: Clock = {
      nowMs: () => {
        this.count(actor);
        return this.ownMs(actor);
      },
      monotonicMs: () => {
        this.count(actor);
        return this.schedule.nowUs / 1000;
      },
      after: (delayMs, run) => {
        this.count(actor);
        if (actor.life !== life) return () => {};
        const key = this.chance.nth(`${name}|timer`);
        const slackMs = this.decide("slow-timer", key, (dice, strength) =>
          dice.perMille(20 * strength) ? dice.between(1, 200) : 0,
        );
        let cancelled = false;
        const cancel = this.post(
          { actor, life },
          (Math.max(0, delayMs) + slackMs) * 1000,
          hashText(this.chance.seed, key),
          () => {
            if (!cancelled) run();
          },
        );
        return () => {
          cancelled = true;
          cancel();
        };
      },
    };
    return {
      name,
      kube,
      clock,
      random: this.chance.stream(`${name}|random|${life}`),
      log: this.log(actor),
      cancel: actor.cancel,
      sleep: (ms) => new Promise((resolve) => clock.after(ms, resolve)),
      choose: (what, draw) => this.chance.decide(this.chance.nth(`${name}|${what}`), draw),
      observe: (what, value) => {
        this.count(actor);
        for (const { invariant, checks } of this.checks) {
          const wrong = checks.observe?.(name, what, value);
          if (wrong !== undefined) this.fail(invariant.id, invariant.fact, wrong);
        }
      },
      note: (text) => this.history.add({ what: "note", atUs: this.nowUs, actor: name, text }),
    };
  }

  private log(actor: Actor): Log {
    const silent = (): void => {};
    const error: Log["error"] = (fields, message) => {
      const why = fields["error"] === undefined ? "" : `: ${describe(fields["error"])}`;
      const { plantedErrors } = this.scenario;
      if (plantedErrors !== undefined && why.includes(plantedErrors)) return;
      this.fail("bug", "no process makes a mistake", `${actor.name}: ${message}${why}`);
    };
    return { debug: silent, info: silent, warn: silent, error };
  }

  // --- the store

  /** Runs a call against the server on behalf of its author. */
  act<T>(call: CallRecord, key: string, run: (kube: KubeApi) => T): T {
    this.acting = call;
    this.serverRandom = this.chance.stream(`server|${key}`);
    return run(this.kube);
  }

  private committed(event: StoreEvent): void {
    const { current, previous, revision } = event;
    const key = objectKey(current.resource, current.namespace, current.name);
    const type = current.deleted ? "DELETED" : previous === undefined ? "ADDED" : "MODIFIED";
    const commit = { atUs: this.nowUs, event, type, key, call: this.acting } as const;
    this.commitUs.push(this.nowUs);
    this.commitRevision.push(revision);
    if (!this.ignoredForQuiescence.has(current.resource)) this.lastChangeUs = this.nowUs;
    this.history.add({ what: "commit", atUs: this.nowUs, commit });
    this.history.count(this.nowUs, `${revision}${type}${key}`, `${this.acting.actor}${current.side.uid}`);
    for (const { invariant, checks } of this.checks) {
      const wrong = checks.commit?.(commit);
      if (wrong !== undefined) this.fail(invariant.id, invariant.fact, wrong);
    }
  }

  /** The server's controllers retry by themselves; only an exception is a bug. */
  private loopFailed(what: string, error: unknown): void {
    this.history.add({ what: "note", atUs: this.nowUs, actor: "server", text: `${what}: ${describe(error)}` });
  }

  /** The newest revision of a replica that lags by this time. */
  revisionBefore(lagUs: number): number {
    const until = this.nowUs - lagUs;
    let low = 0;
    let high = this.commitUs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.commitUs[middle] as number) <= until) low = middle + 1;
      else high = middle;
    }
    return Math.max(this.commitRevision[low - 1] ?? 0, this.core.store.compactedRevision, 1);
  }

  // --- the input of the invariants

  sent(call: CallRecord): void {
    for (const { invariant, checks } of this.checks) {
      const wrong = checks.sent?.(call);
      if (wrong !== undefined) this.fail(invariant.id, invariant.fact, wrong);
    }
  }

  /** An update or patch was accepted; `before` is the revision of the store before it. */
  accepted(call: CallRecord, before: number, revision: number): void {
    if (this.core.store.revision !== before) return;
    for (const { invariant, checks } of this.checks) {
      const wrong = checks.unchanged?.(call, revision);
      if (wrong !== undefined) this.fail(invariant.id, invariant.fact, wrong);
    }
  }

  over(call: CallRecord): void {
    for (const { checks } of this.checks) checks.over?.(call);
  }

  delivered(actor: Actor, delivery: Delivery): void {
    actor.recordObserved(delivery.resource, delivery.object, delivery.gone);
    for (const { checks } of this.checks) checks.delivered?.(actor.name, actor.life, delivery);
  }

  watched(actor: Actor, resource: string, isOpen: boolean): void {
    for (const { checks } of this.checks) checks.watched?.(actor.name, resource, isOpen);
  }

  checkRest(): void {
    for (const { invariant, checks } of this.checks) {
      const wrong = checks.atRest?.();
      if (wrong !== undefined) this.fail(invariant.id, invariant.fact, wrong);
    }
  }

  fault(actor: string, text: string): void {
    this.history.add({ what: "fault", atUs: this.nowUs, actor, text });
  }

  /** The first violation is the one that is reported. */
  fail(invariant: string, fact: string, detail: string): void {
    this.violation ??= { invariant, fact, detail, atUs: this.nowUs, revision: this.core.store.revision };
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

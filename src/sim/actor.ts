import type { KubeObject } from "../model/objects/object.ts";
import type { Cancel } from "../ports/cancel.ts";
import type { Clock } from "../ports/clock.ts";
import type { KubeApi } from "../ports/kubeApi.ts";
import type { Log } from "../ports/log.ts";
import type { Random } from "../ports/random.ts";
import type { Dice } from "./chance.ts";
import { objectKey, type Seen } from "./history.ts";

/** A process of the simulation, as its author writes it. */
export interface ActorSpec {
  readonly name: string;
  run(ports: ActorPorts): Promise<void>;
  /** It ends by itself, and a run in which it cannot end has failed. Others run until they are stopped. */
  readonly finite?: boolean;
  /** The faults of processes do not touch it: a person at a keyboard, or a part of the scenery. */
  readonly isExemptFromFaults?: boolean;
}

/** The outside of a process. Everything that it can learn comes through here. */
export interface ActorPorts {
  readonly name: string;
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  /** What is logged as an error is a mistake of the program, and fails the seed. */
  readonly log: Log;
  /** Asks the process to end. */
  readonly cancel: Cancel;
  sleep(ms: number): Promise<void>;
  /** A choice of the workload: 0 is "nothing", and shrinking tries that first. */
  choose(what: string, draw: (dice: Dice) => number): number;
  /** Reports to the invariants what this process believes. */
  observe(what: string, value: unknown): void;
  /** A line in the timeline. */
  note(text: string): void;
}

/** A process that runs, crashes and pauses. */
export class Actor {
  readonly spec: ActorSpec;
  /** Counts restarts. Whatever was meant for an earlier life is never delivered. */
  life = 0;
  alive = false;
  paused = 0;
  finished = false;
  clockOffsetMs = 0;
  readonly knowledge = new Map<string, Seen>();
  /** What arrived while it stood still. */
  readonly mailbox: { life: number; run: () => void }[] = [];
  private cancelled = false;
  private onCancels: (() => void)[] = [];

  constructor(spec: ActorSpec) {
    this.spec = spec;
  }

  get name(): string {
    return this.spec.name;
  }

  readonly cancel: Cancel = ((actor: Actor): Cancel => ({
    get cancelled() {
      return actor.cancelled;
    },
    onCancel: (run) => {
      if (actor.cancelled) {
        run();
        return () => {};
      }
      actor.onCancels.push(run);
      return () => {
        actor.onCancels = actor.onCancels.filter((other) => other !== run);
      };
    },
  }))(this);

  begin(): number {
    this.alive = true;
    this.onCancels = [];
    this.knowledge.clear();
    return ++this.life;
  }

  die(): void {
    this.alive = false;
    this.life++;
    this.onCancels = [];
    this.knowledge.clear();
  }

  stop(): void {
    this.cancelled = true;
    for (const run of this.onCancels.splice(0)) run();
  }

  /** The actor observes this state of an object. An older state does not replace a newer one. */
  learn(resource: string, object: KubeObject, gone: boolean): void {
    const { namespace = "", name, uid, resourceVersion } = object.metadata;
    const key = objectKey(resource, namespace, name);
    const revision = Number(resourceVersion);
    const before = this.knowledge.get(key);
    if (before !== undefined && before.revision > revision) return;
    this.knowledge.set(key, { uid, revision, gone });
  }
}

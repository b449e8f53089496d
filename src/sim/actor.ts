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
  /**
   * The process ends by itself, and a run in which it does not has failed. Other processes run until they are stopped.
   */
  readonly finite?: boolean;
  /** The process does not crash or pause: a simulated user, or fixed infrastructure of the scenario. */
  readonly isExemptFromFaults?: boolean;
}

/** The ports of a process. It observes the cluster through nothing else. */
export interface ActorPorts {
  readonly name: string;
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  /** An error in the log is a bug of the program, and fails the seed. */
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
  /** Counts restarts. Deliveries that were addressed to an earlier life are dropped. */
  life = 0;
  alive = false;
  paused = 0;
  finished = false;
  clockOffsetMs = 0;
  readonly knowledge = new Map<string, Seen>();
  /** Deliveries that arrived while the process was paused. */
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

  crash(): void {
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
  recordObserved(resource: string, object: KubeObject, gone: boolean): void {
    const { namespace = "", name, uid, resourceVersion } = object.metadata;
    const key = objectKey(resource, namespace, name);
    const revision = Number(resourceVersion);
    const before = this.knowledge.get(key);
    if (before !== undefined && before.revision > revision) return;
    this.knowledge.set(key, { uid, revision, gone });
  }
}

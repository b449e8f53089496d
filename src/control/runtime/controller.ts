import type { KubeObject } from "../../model/objects/object.ts";
import type { Backoff } from "../../ports/backoff.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import { type Fault, Loop, type Reconcile } from "./loop.ts";
import type { Source } from "./sources.ts";
import { type RetryBudget, WorkQueue } from "./workQueue.ts";

export interface ControllerOptions {
  readonly name: string;
  readonly sources: readonly Source[];
  readonly reconcile: Reconcile;
  readonly concurrency?: number;
  readonly deadlineMs?: number;
  readonly backoff?: Backoff;
  readonly retries?: RetryBudget;
}

/** Sources, a queue and a loop: events in, reconciles out. */
export class Controller {
  readonly name: string;
  readonly queue: WorkQueue;
  private readonly loop: Loop;
  private readonly sources: readonly Source[];
  private stopSources: (() => void)[] = [];

  constructor(
    ports: { clock: Clock; log: Log; metrics: Metrics },
    options: ControllerOptions,
    report?: (object: KubeObject, fault: Fault) => void,
  ) {
    const { name, backoff, retries, sources, ...rest } = options;
    this.name = name;
    this.sources = sources;
    this.queue = new WorkQueue({ name, ...ports, ...(backoff && { backoff }), ...(retries && { retries }) });
    const keyed = sources.find((source) => source.keyed !== undefined)?.keyed;
    const objectOf = (key: string): KubeObject | undefined => keyed?.get(key);
    this.loop = new Loop({ ...rest, ...ports, name, queue: this.queue, objectOf, ...(report && { report }) });
  }

  /** The caches that must have synced before the first reconcile. */
  get caches(): readonly ObjectCache[] {
    return this.sources.flatMap(({ cache }) => (cache === undefined ? [] : [cache]));
  }

  /** From here on events enqueue keys, also in a process that does not lead. */
  startSources(): void {
    this.stopSources = this.sources.map((source) => source.start(this.queue));
  }

  resume(): void {
    this.loop.resume();
  }

  pause(graceMs?: number): Promise<void> {
    return this.loop.pause(graceMs);
  }

  /** Stops the controller. It cannot be started again. */
  async stop(graceMs?: number): Promise<void> {
    for (const stop of this.stopSources) stop();
    this.stopSources = [];
    await this.loop.stop(graceMs);
    this.queue.close();
  }

  /** Whether no key is queued or being reconciled. */
  get isIdle(): boolean {
    return this.queue.isIdle && !this.loop.isBusy;
  }
}

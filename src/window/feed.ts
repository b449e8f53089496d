/**
 * The one read model of the server, rebuilt at most four times a second and only when the cluster has changed; its
 * history; and the streams that wait for the next one.
 */
import { type Delta, diff } from "../model/window/delta.ts";
import type { ReadModel } from "../model/window/parts.ts";
import type { Clock } from "../ports/clock.ts";
import { History, type HistoryLimits } from "./history.ts";
import { Ribbon } from "./ribbon.ts";

/** The source of read models. */
export interface ModelSource {
  /** Undefined before the caches have synced; the same object as before while nothing has changed. */
  read(before: ReadModel | undefined): ReadModel | undefined;
  /** Whether the model may be stale. */
  readonly isBehind: boolean;
}

export const rebuildMs = 250;
/** Rebuilding takes at most a twentieth of the CPU time, because the scheduler runs in the same process. */
const restsPerRebuild = 19;

export interface FeedOptions {
  readonly source: ModelSource;
  readonly clock: Clock;
  /** Different at each start, so that a page notices a server that was restored from an older backup. */
  readonly epoch: string;
  readonly limits?: HistoryLimits;
}

export class Feed {
  readonly epoch: string;
  readonly history: History;
  readonly ribbon = new Ribbon();
  /** How long the last model took, and how many were made. */
  readonly rebuilds = { count: 0, lastMs: 0, mostMs: 0 };
  private readonly source: ModelSource;
  private readonly clock: Clock;
  private current: ReadModel | undefined;
  private behindSinceMs: number | undefined;
  private readonly readers = new Set<() => void>();
  private cancel: (() => void) | undefined;
  private isOn = false;
  /** How long the last look took. */
  private lookedMs = 0;

  constructor({ source, clock, epoch, limits }: FeedOptions) {
    this.source = source;
    this.clock = clock;
    this.epoch = epoch;
    this.history = new History(limits);
  }

  start(): void {
    this.isOn = true;
    const turn = (): void => {
      this.look();
      const restMs = Math.max(rebuildMs, this.lookedMs * restsPerRebuild);
      if (this.isOn) this.cancel = this.clock.after(restMs, turn);
    };
    turn();
  }

  stop(): void {
    this.isOn = false;
    this.cancel?.();
  }

  get model(): ReadModel | undefined {
    return this.current;
  }

  /** The id of the newest model, for clients that reconnect. */
  get eventId(): string {
    return `${this.epoch}.${this.current?.rev ?? 0}.${this.history.newest}`;
  }

  get behindMs(): number {
    return this.behindSinceMs === undefined ? 0 : this.clock.nowMs() - this.behindSinceMs;
  }

  onChange(hear: () => void): () => void {
    this.readers.add(hear);
    return () => this.readers.delete(hear);
  }

  /** Rebuilds the model if the cluster has changed. */
  look(): void {
    const nowMs = this.clock.nowMs();
    this.behindSinceMs = this.source.isBehind ? (this.behindSinceMs ?? nowMs) : undefined;
    const before = this.current;
    const startedMs = this.clock.monotonicMs();
    const model = this.source.read(before);
    this.lookedMs = this.clock.monotonicMs() - startedMs;
    if (model === undefined || model === before) return;
    const delta = before === undefined ? undefined : diff(before, model);
    this.rebuilds.lastMs = this.clock.monotonicMs() - startedMs;
    this.rebuilds.mostMs = Math.max(this.rebuilds.mostMs, this.rebuilds.lastMs);
    this.rebuilds.count++;
    this.current = model;
    this.history.add(model, delta, nowMs, delta === undefined ? 0 : weightOf(delta));
    if (before !== undefined && delta !== undefined) this.ribbon.add(before, model, delta, nowMs);
    for (const hear of this.readers) hear();
  }
}

/** The approximate size of the difference as JSON, without encoding it. */
function weightOf({ ops: { wall, jobs, queues, gangs } }: Delta): number {
  const gpus = wall?.whole?.gpus.length ?? wall?.gpus?.length ?? 0;
  const rows = (jobs?.set?.length ?? 0) * 400 + (queues?.queues.length ?? 0) * 300 + (gangs?.gangs.length ?? 0) * 250;
  return 200 + gpus * 40 + (wall?.occupants?.set?.length ?? 0) * 80 + rows;
}

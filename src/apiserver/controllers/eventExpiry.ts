import { timeToMs } from "../../model/values/time.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import type { Version } from "../storage/version.ts";
import type { Core } from "../verbs/core.ts";
import type { Controller } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const eventsKey = "/events";
const lifeMs = 60 * 60 * 1000;

/** One write of an event, and when the event expires. */
interface Expiry {
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  readonly atMs: number;
}

/**
 * Events expire an hour after their last write. Every write has the same lifetime, so events expire in the order in
 * which they were written: a list and one timer are enough.
 */
export class EventExpiry implements Controller {
  private readonly core: Core;
  private readonly queue: WorkQueue<Expiry>;
  private expiries: Expiry[] = [];
  private done = 0;
  private cancel: (() => void) | undefined;

  constructor(core: Core, turns: Turns, failed: (what: string, error: unknown) => void) {
    this.core = core;
    this.queue = turns.queue<Expiry>({
      work: (expiry) => this.expire(expiry),
      failed: ({ namespace, name }, error) => failed(`expiry of event ${namespace}/${name}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection(eventsKey).all()) {
      const { namespace, name, revision } = version;
      this.expiries.push({ namespace, name, revision, atMs: lastWriteMs(version) + lifeMs });
    }
    this.expiries.sort((a, b) => a.atMs - b.atMs);
    this.schedule();
  }

  stop(): void {
    this.cancel?.();
  }

  observe({ current, atMs }: StoreEvent): void {
    if (current.resource !== eventsKey || current.deleted) return;
    const { namespace, name, revision } = current;
    this.expiries.push({ namespace, name, revision, atMs: atMs + lifeMs });
    if (this.cancel === undefined) this.schedule();
  }

  private schedule(): void {
    const first = this.expiries[this.done];
    if (first === undefined) return;
    this.cancel = this.core.clock.after(Math.max(0, first.atMs - this.core.clock.nowMs()), () => this.due());
  }

  private due(): void {
    this.cancel = undefined;
    const nowMs = this.core.clock.nowMs();
    for (; this.done < this.expiries.length; this.done++) {
      const expiry = this.expiries[this.done] as Expiry;
      if (expiry.atMs > nowMs) break;
      this.queue.add(expiry);
    }
    if (this.done > 1024 && this.done * 2 > this.expiries.length) {
      this.expiries = this.expiries.slice(this.done);
      this.done = 0;
    }
    this.schedule();
  }

  /** Deleted directly in the store: expiry is no request, and no webhook is called. */
  private expire({ namespace, name, revision }: Expiry): undefined {
    const version = this.core.store.get(eventsKey, namespace, name);
    if (version?.revision === revision) this.core.store.remove(version);
    return undefined;
  }
}

/** After a restart the time of the last write is only known from the object. */
function lastWriteMs(version: Version): number {
  const event = version.object();
  const series = event["series"] as { lastObservedTime?: string } | undefined;
  const times = [
    event.metadata.creationTimestamp,
    event["lastTimestamp"] as string | undefined,
    event["eventTime"] as string | undefined,
    series?.lastObservedTime,
  ];
  return Math.max(...times.map((time) => timeToMs(time) ?? 0));
}

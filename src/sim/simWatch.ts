import type { Resource } from "../model/objects/resource.ts";
import { type Outcome, refused } from "../model/outcome.ts";
import type { KubeApi, Watch, WatchEvent, WatchOptions, WatchSink } from "../ports/kubeApi.ts";
import type { Actor } from "./actor.ts";
import { wayUs } from "./callFate.ts";
import { hashText } from "./chance.ts";
import type { Delivery } from "./invariant.ts";
import type { Simulation } from "./simulation.ts";

export interface SimWatchOptions {
  readonly simulation: Simulation;
  readonly actor: Actor;
  readonly server: KubeApi;
  readonly kind: Resource;
  readonly resource: string;
  readonly options: WatchOptions;
  readonly sink: WatchSink;
  /** Whether the server supports watches with initial events. */
  readonly canStream: boolean;
}

/**
 * A stream of events to one process. Order within the stream is kept, as by TCP: a late event delays the following
 * ones. Streams are independent, so events of one kind may overtake those of another.
 */
export class SimWatch implements Watch {
  private readonly about: SimWatchOptions;
  private readonly key: string;
  private readonly tie: number;
  private readonly life: number;
  private inner: Watch | undefined;
  /** The time of the last delivery: later events are not delivered before it. */
  private lastUs = 0;
  private open = true;
  /** The events so far of an initial list that is not complete. */
  private initialSet: Delivery[] | undefined;
  /** Events from here on are lost; the end of the stream is in flight. */
  private deaf = false;
  /** The end is in flight, and the server sends nothing more. */
  private isEnding = false;
  private readonly unfollow: () => void;

  constructor(about: SimWatchOptions) {
    const { simulation, actor, resource } = about;
    this.about = about;
    this.life = actor.life;
    this.initialSet = about.options.sendInitialEvents === true ? [] : undefined;
    this.key = simulation.chance.nth(`${actor.name}|watch|${resource}`);
    this.tie = hashText(simulation.chance.seed, this.key);
    const refusedWith = simulation.decide("busy", this.key, (dice, strength) => (dice.perMille(30 * strength) ? 1 : 0));
    this.unfollow = simulation.outages.follow(() => {
      if (this.wanted()) this.end(refused("Unknown", "connection reset"), 0);
      else this.stop();
    });
    simulation.later(wayUs + (this.tie % wayUs), this.tie, () => {
      if (!this.wanted() || this.isEnding) return;
      const outage = simulation.outages.refusal(resource);
      if (outage !== undefined) this.end(outage, 0);
      else if (refusedWith === 0) this.begin();
      else this.end(refused("TooManyRequests", "too many watches", { retryAfterMs: 200 }), 0);
    });
  }

  stop(): void {
    this.open = false;
    this.unfollow();
    this.inner?.stop();
  }

  private wanted(): boolean {
    return this.open && this.about.actor.life === this.life;
  }

  private begin(): void {
    const { simulation, options, canStream } = this.about;
    if (options.sendInitialEvents !== true) {
      this.connect(options);
      return;
    }
    if (!canStream) {
      this.end(refused("Invalid", "sendInitialEvents is not known here"), 0);
      return;
    }
    const lagMs = simulation.decide("lagging-replica", this.key, (dice, strength) =>
      dice.perMille(40 * strength) ? dice.between(1, 5_000) : 0,
    );
    if (lagMs === 0) this.connect(options);
    else void this.beginBehind(String(simulation.revisionBefore(lagMs * 1000)));
  }

  /** A lagging replica sends what it has, with its revision. */
  private async beginBehind(resourceVersion: string): Promise<void> {
    const { server, kind, options } = this.about;
    const { sendInitialEvents: _, ...rest } = options;
    const { allowBookmarks: _bookmarks, timeoutSeconds: _timeout, ...selection } = rest;
    const list = await server.list(kind, { ...selection, resourceVersion, resourceVersionMatch: "Exact" });
    if (!this.wanted()) return;
    if (!list.ok) {
      this.end(list, 0);
      return;
    }
    for (const object of list.value.items) this.arrived({ type: "ADDED", object });
    this.arrived({ type: "BOOKMARK", revision: list.value.revision, initialEventsEnd: true });
    if (this.wanted() && !this.deaf && !this.isEnding) this.connect({ ...rest, resourceVersion: list.value.revision });
  }

  private connect(options: WatchOptions): void {
    const { server, kind, simulation, actor, resource } = this.about;
    simulation.watched(actor, resource, true);
    this.inner = server.watch(kind, options, {
      event: (event) => this.arrived(event),
      ended: (why) => this.end(why, 0),
    });
  }

  /** The server has sent an event. */
  private arrived(event: WatchEvent): void {
    if (!this.wanted()) {
      this.inner?.stop();
      return;
    }
    if (this.deaf || this.isEnding) return;
    const { simulation, resource } = this.about;
    if (event.type === "BOOKMARK") {
      const stalled = simulation.decide(
        "bookmark-stall",
        simulation.chance.nth(`${this.key}|bookmark`),
        (dice, strength) => (dice.perMille(300 * strength) ? 1 : 0),
      );
      // The bookmark at the end of the initial events is never stalled: without it the client would wait for ever.
      if (stalled === 0 || event.initialEventsEnd) this.deliver(event, 0, 1);
      return;
    }
    const key = simulation.chance.nth(`${this.key}|${event.type}|${event.object.metadata.name}`);
    const broken = this.breaks(key);
    if (broken === "lost") return;
    const copies =
      1 + simulation.decide("duplicate-event", key, (dice, strength) => (dice.perMille(40 * strength) ? 1 : 0));
    this.deliver(event, this.lagUs(key, event.type, resource), copies);
    if (broken === "cut") this.end(undefined, 0);
  }

  /** Whether the stream breaks at this event, with or without it. */
  private breaks(key: string): "lost" | "cut" | undefined {
    const { simulation, actor } = this.about;
    const lostMs = simulation.decide("dropped-event", key, (dice, strength) =>
      dice.perMille(8 * strength) ? dice.between(1, 2_000) : 0,
    );
    if (lostMs > 0) {
      simulation.fault(actor.name, `loses events of ${this.about.resource} for ${lostMs} ms`);
      this.deaf = true;
      this.end(refused("Expired", "events were lost: list again"), lostMs * 1000);
      return "lost";
    }
    const gap = simulation.decide("compaction-gap", key, (dice, strength) => (dice.perMille(8 * strength) ? 1 : 0));
    if (gap > 0) {
      simulation.fault(actor.name, `the past is forgotten, and the watch of ${this.about.resource} ends`);
      simulation.core.store.compact(simulation.core.store.revision);
      return "cut";
    }
    const cut = simulation.decide("stream-cut", key, (dice, strength) => (dice.perMille(15 * strength) ? 1 : 0));
    return cut > 0 ? "cut" : undefined;
  }

  /** Each watcher, kind and type of event has its own maximum delay, and each event a part of it. */
  private lagUs(key: string, type: string, resource: string): number {
    const { simulation, actor } = this.about;
    const { seed } = simulation.chance;
    const delayed = simulation.decide("watch-delay", key, (dice, strength) => {
      const scale = hashText(seed, `lag|${actor.name}|${resource}|${type}`) % 4;
      const most = scale === 0 ? 2_000 : scale === 1 ? 20_000 : scale === 2 ? 200_000 : 1_000_000;
      return dice.perMille(250 * strength) ? dice.between(1, most) : 0;
    });
    const overtaken = simulation.decide("watch-reorder", `${key}|late`, (dice, strength) => {
      // For each watcher, half of the kinds are slow.
      if (hashText(seed, `slow|${actor.name}|${resource}`) % 2 === 0) return 0;
      return dice.perMille(60 * strength) ? dice.between(10_000, 3_000_000) : 0;
    });
    return delayed + overtaken;
  }

  private deliver(event: WatchEvent, lagUs: number, copies: number): void {
    const { simulation, actor, sink, resource } = this.about;
    const atUs = Math.max(this.lastUs, simulation.nowUs + wayUs + lagUs);
    this.lastUs = atUs;
    for (let copy = 0; copy < copies; copy++) {
      simulation.post({ actor, life: this.life }, atUs - simulation.nowUs, this.tie, () => {
        if (!this.open) return;
        if (event.type === "BOOKMARK") {
          simulation.history.count(simulation.nowUs, this.key, event.revision);
          if (event.initialEventsEnd) this.initialSetIsWhole();
        } else {
          simulation.history.count(simulation.nowUs, this.key, `${event.type}${event.object.metadata.resourceVersion}`);
          this.recordObserved({ resource, object: event.object, gone: event.type === "DELETED", via: "stream" });
        }
        sink.event(event);
      });
    }
  }

  /** Objects of an initial list count as observed when the list is complete. */
  private recordObserved(delivery: Delivery): void {
    const { simulation, actor } = this.about;
    if (this.initialSet === undefined) simulation.delivered(actor, delivery);
    else this.initialSet.push(delivery);
  }

  private initialSetIsWhole(): void {
    const { simulation, actor } = this.about;
    for (const delivery of this.initialSet ?? []) simulation.delivered(actor, delivery);
    this.initialSet = undefined;
  }

  private end(why: Outcome<never> | undefined, delayUs: number): void {
    const { simulation, actor, sink, resource } = this.about;
    this.isEnding = true;
    this.unfollow();
    this.inner?.stop();
    const atUs = Math.max(this.lastUs, simulation.nowUs + wayUs + delayUs);
    this.lastUs = atUs;
    simulation.post({ actor, life: this.life }, atUs - simulation.nowUs, this.tie, () => {
      if (!this.open) return;
      this.open = false;
      simulation.history.count(simulation.nowUs, this.key, "ended");
      simulation.watched(actor, resource, false);
      sink.ended(why);
    });
  }
}

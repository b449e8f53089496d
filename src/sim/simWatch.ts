import type { Resource } from "../model/objects/resource.ts";
import { type Outcome, refused } from "../model/outcome.ts";
import type { KubeApi, Watch, WatchEvent, WatchOptions, WatchSink } from "../ports/kubeApi.ts";
import type { Actor } from "./actor.ts";
import { wayUs } from "./callFate.ts";
import { hashText } from "./chance.ts";
import type { Told } from "./invariant.ts";
import type { World } from "./world.ts";

export interface SimWatchOptions {
  readonly world: World;
  readonly actor: Actor;
  readonly server: KubeApi;
  readonly kind: Resource;
  readonly resource: string;
  readonly options: WatchOptions;
  readonly sink: WatchSink;
  /** Whether the server can begin a watch with what exists. */
  readonly canStream: boolean;
}

/**
 * A stream of events to one process. Within the stream order is kept, as TCP keeps it: a late event delays those behind
 * it. Two streams are independent, so kinds overtake each other freely.
 */
export class SimWatch implements Watch {
  private readonly about: SimWatchOptions;
  private readonly key: string;
  private readonly tie: number;
  private readonly life: number;
  private inner: Watch | undefined;
  /** Nothing is delivered before what was sent before it. */
  private lastUs = 0;
  private open = true;
  /** What was delivered of an initial set that is not whole yet. */
  private initialSet: Told[] | undefined;
  /** Events from here on are lost; the end of the stream is in flight. */
  private deaf = false;
  /** The end is in flight, and the server sends nothing more. */
  private isEnding = false;

  constructor(about: SimWatchOptions) {
    const { world, actor, resource } = about;
    this.about = about;
    this.life = actor.life;
    this.initialSet = about.options.sendInitialEvents === true ? [] : undefined;
    this.key = world.chance.nth(`${actor.name}|watch|${resource}`);
    this.tie = hashText(world.chance.seed, this.key);
    const refusedWith = world.decide("busy", this.key, (dice, strength) => (dice.perMille(30 * strength) ? 1 : 0));
    world.later(wayUs + (this.tie % wayUs), this.tie, () => {
      if (!this.wanted()) return;
      if (refusedWith === 0) this.begin();
      else this.end(refused("TooManyRequests", "too many watches", { retryAfterMs: 200 }), 0);
    });
  }

  stop(): void {
    this.open = false;
    this.inner?.stop();
  }

  private wanted(): boolean {
    return this.open && this.about.actor.life === this.life;
  }

  private begin(): void {
    const { world, options, canStream } = this.about;
    if (options.sendInitialEvents !== true) {
      this.connect(options);
      return;
    }
    if (!canStream) {
      this.end(refused("Invalid", "sendInitialEvents is not known here"), 0);
      return;
    }
    const lagMs = world.decide("lagging-replica", this.key, (dice, strength) =>
      dice.perMille(40 * strength) ? dice.between(1, 5_000) : 0,
    );
    if (lagMs === 0) this.connect(options);
    else void this.beginBehind(String(world.revisionBefore(lagMs * 1000)));
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
    const { server, kind } = this.about;
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
    const { world, resource } = this.about;
    if (event.type === "BOOKMARK") {
      const stalled = world.decide("bookmark-stall", world.chance.nth(`${this.key}|bookmark`), (dice, strength) =>
        dice.perMille(300 * strength) ? 1 : 0,
      );
      // The end of the initial set is no mere bookmark: without it the client would wait for ever.
      if (stalled === 0 || event.initialEventsEnd) this.deliver(event, 0, 1);
      return;
    }
    const key = world.chance.nth(`${this.key}|${event.type}|${event.object.metadata.name}`);
    const broken = this.breaks(key);
    if (broken === "lost") return;
    const copies = 1 + world.decide("duplicate-event", key, (dice, strength) => (dice.perMille(40 * strength) ? 1 : 0));
    this.deliver(event, this.lagUs(key, event.type, resource), copies);
    if (broken === "cut") this.end(undefined, 0);
  }

  /** Whether the stream breaks at this event, with or without it. */
  private breaks(key: string): "lost" | "cut" | undefined {
    const { world, actor } = this.about;
    const lostMs = world.decide("dropped-event", key, (dice, strength) =>
      dice.perMille(8 * strength) ? dice.between(1, 2_000) : 0,
    );
    if (lostMs > 0) {
      world.fault(actor.name, `loses events of ${this.about.resource} for ${lostMs} ms`);
      this.deaf = true;
      this.end(refused("Expired", "events were lost: list again"), lostMs * 1000);
      return "lost";
    }
    const gap = world.decide("compaction-gap", key, (dice, strength) => (dice.perMille(8 * strength) ? 1 : 0));
    if (gap > 0) {
      world.fault(actor.name, `the past is forgotten, and the watch of ${this.about.resource} ends`);
      world.core.store.compact(world.core.store.revision);
      return "cut";
    }
    const cut = world.decide("stream-cut", key, (dice, strength) => (dice.perMille(15 * strength) ? 1 : 0));
    return cut > 0 ? "cut" : undefined;
  }

  /** Each watcher, kind and type of event has a lateness of its own, and each event a part of it. */
  private lagUs(key: string, type: string, resource: string): number {
    const { world, actor } = this.about;
    const { seed } = world.chance;
    const delayed = world.decide("watch-delay", key, (dice, strength) => {
      const scale = hashText(seed, `lag|${actor.name}|${resource}|${type}`) % 4;
      const most = scale === 0 ? 2_000 : scale === 1 ? 20_000 : scale === 2 ? 200_000 : 1_000_000;
      return dice.perMille(250 * strength) ? dice.between(1, most) : 0;
    });
    const overtaken = world.decide("watch-reorder", `${key}|late`, (dice, strength) => {
      // One kind in two is slow as a whole, for this watcher.
      if (hashText(seed, `slow|${actor.name}|${resource}`) % 2 === 0) return 0;
      return dice.perMille(60 * strength) ? dice.between(10_000, 3_000_000) : 0;
    });
    return delayed + overtaken;
  }

  private deliver(event: WatchEvent, lagUs: number, copies: number): void {
    const { world, actor, sink, resource } = this.about;
    const atUs = Math.max(this.lastUs, world.nowUs + wayUs + lagUs);
    this.lastUs = atUs;
    for (let copy = 0; copy < copies; copy++) {
      world.post({ actor, life: this.life }, atUs - world.nowUs, this.tie, () => {
        if (!this.open) return;
        if (event.type === "BOOKMARK") {
          world.history.count(world.nowUs, this.key, event.revision);
          if (event.initialEventsEnd) this.initialSetIsWhole();
        } else {
          world.history.count(world.nowUs, this.key, `${event.type}${event.object.metadata.resourceVersion}`);
          this.learn({ resource, object: event.object, gone: event.type === "DELETED", via: "stream" });
        }
        sink.event(event);
      });
    }
  }

  /** Nothing of an initial list is observed until it is complete. */
  private learn(told: Told): void {
    const { world, actor } = this.about;
    if (this.initialSet === undefined) world.learned(actor, told);
    else this.initialSet.push(told);
  }

  private initialSetIsWhole(): void {
    const { world, actor } = this.about;
    for (const told of this.initialSet ?? []) world.learned(actor, told);
    this.initialSet = undefined;
  }

  private end(why: Outcome<never> | undefined, delayUs: number): void {
    const { world, actor, sink } = this.about;
    this.isEnding = true;
    this.inner?.stop();
    const atUs = Math.max(this.lastUs, world.nowUs + wayUs + delayUs);
    this.lastUs = atUs;
    world.post({ actor, life: this.life }, atUs - world.nowUs, this.tie, () => {
      if (!this.open) return;
      this.open = false;
      world.history.count(world.nowUs, this.key, "ended");
      sink.ended(why);
    });
  }
}

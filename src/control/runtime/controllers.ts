import { resourceKey } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, KubeReads } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import type { Random } from "../../ports/random.ts";
import { ObjectCache, type ObjectCacheOptions } from "../cache/objectCache.ts";
import { Reachability } from "../cache/reachability.ts";
import type { Selection } from "../cache/reflector.ts";
import { Controller, type ControllerOptions } from "./controller.ts";
import { EventRecorder } from "./eventRecorder.ts";
import { fencedKube } from "./fencedKube.ts";
import { Health } from "./health.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import type { Fault } from "./loop.ts";
import { Writer } from "./writer.ts";

/** The ports of the controllers: API, clock, randomness, log, metrics. */
export interface ControlPorts {
  readonly kube: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** The ports that a component may use. It changes the cluster only through the writer. */
export interface ComponentPorts extends Omit<ControlPorts, "kube"> {
  readonly kube: KubeReads;
  readonly writer: Writer;
}

export interface ControllersOptions {
  /** The field manager of the writes. */
  readonly fieldManager: string;
  /** Elects one leader among the processes; without it this process always leads. */
  readonly lease?: Pick<LeaseOptions, "namespace" | "name" | "identity" | "times"> & {
    /** A separate connection: renewals must not queue behind the writes that depend on them. */
    readonly kube?: KubeApi;
  };
  /** How long running reconciles may take to end at a stop. */
  readonly graceMs?: number;
  /** For tests: a write to a shared object throws. */
  readonly freeze?: boolean;
  /** Transforms by resource key, unless the caller of `cache` gives another. */
  readonly transforms?: Readonly<Record<string, (object: KubeObject) => KubeObject>>;
}

export type CacheOptions<T extends KubeObject> = Pick<ObjectCacheOptions<T>, "transform" | "resyncMs">;

const defaultGraceMs = 30_000;
/** A kind whose first list takes longer than this is logged. */
const slowSyncMs = 120_000;
/** A watch that is being opened again for longer than this makes the process unready. */
const brokenWatchMs = 60_000;
/**
 * A shorter silence of the server leaves the back-offs of keys as they are: a busy server refuses one request and
 * answers the next, and the keys that it refused would be retried at once.
 */
const shortOutageMs = 1_000;

/**
 * The controllers of one process and what they share. They start in order (caches, the wait until all have synced, the
 * lease, reconciles) and stop in the reverse one. Followers keep their caches warm, so that a new leader begins at
 * once.
 */
export class Controllers {
  /** Reads, for decisions. */
  readonly kube: KubeReads;
  /** Carries decisions out: every write is refused unless this process leads. */
  readonly writer: Writer;
  readonly lease: Lease | undefined;
  /** Whether the process should be restarted. */
  readonly health = new Health();
  /** Whether the caches have synced. */
  readonly readiness = new Health();
  /** The ports of the controllers. Their API refuses writes unless this process leads. */
  readonly ports: ComponentPorts;
  /** The fenced API with every verb, for simulated kubelets and the buggy variants of races. No controller uses it. */
  readonly outside: KubeApi;
  private readonly options: ControllersOptions;
  private readonly reachability: Reachability;
  private readonly caches = new Map<string, ObjectCache>();
  private readonly shared = new Map<object, unknown>();
  private readonly controllers: Controller[] = [];
  private phase: "new" | "syncing" | "synced" | "stopping" | "stopped" = "new";
  /** Resolves when the reconciles that the last pause cancelled have ended. */
  private pausing: Promise<void> = Promise.resolve();
  private isLeading = false;
  /** Reports objects on which a reconcile fails, by the name of the controller. */
  private readonly faultRecorders = new Map<string, EventRecorder>();
  private readonly measuring = new Set<(isLeading: boolean) => void>();

  constructor(ports: ControlPorts, options: ControllersOptions) {
    this.options = options;
    this.reachability = new Reachability(ports.clock, (how, outageMs) => this.retrySoon(how, outageMs));
    const kube = this.reachability.overhear(ports.kube);
    const { lease } = options;
    const leaseKube = lease?.kube === undefined ? kube : this.reachability.overhear(lease.kube);
    this.lease = lease === undefined ? undefined : new Lease({ ...ports, ...lease, kube: leaseKube });
    this.outside = this.lease === undefined ? kube : fencedKube(kube, this.lease, options.fieldManager);
    this.kube = this.outside;
    this.writer = new Writer(this.outside);
    this.ports = { ...ports, kube: this.kube, writer: this.writer };
    this.health.add("ping", () => undefined);
    this.health.add("caches", () => this.serverRollback());
    this.readiness.add("caches", () => {
      const missing = this.unsynced();
      return missing.length === 0 ? undefined : `no list yet of ${missing.join(", ")}`;
    });
    this.readiness.add("watches", () => this.brokenWatches());
  }

  /**
   * Adds a callback that runs when metrics are read and gets whether this process leads; returns a function that
   * removes it.
   */
  onMeasure(run: (isLeading: boolean) => void): () => void {
    this.measuring.add(run);
    return () => this.measuring.delete(run);
  }

  /** Sets the gauges that grow with time; called when metrics are read. */
  measure(): void {
    for (const run of this.measuring) run(this.isLeading);
    for (const { name: check, problem } of this.readiness.report().checks) {
      this.ports.metrics.gauge("muster_ready", { check }, problem === undefined ? 1 : 0);
    }
    const oldestMs = new Map<string, number>();
    for (const { kind, silentForMs = 0 } of this.caches.values()) {
      oldestMs.set(kind, Math.max(oldestMs.get(kind) ?? 0, silentForMs));
    }
    for (const [kind, ms] of oldestMs) this.ports.metrics.gauge("muster_watch_age_seconds", { kind }, ms / 1000);
  }

  /**
   * The cache of a selection of a kind; one for all callers with the same selection. The options of the first caller
   * count.
   */
  cache<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection = {},
    options: CacheOptions<T> = {},
  ): ObjectCache<T> {
    const { namespace = "", labelSelector = "", fieldSelector = "" } = selection;
    const key = JSON.stringify([
      resource.group,
      resource.version,
      resource.plural,
      namespace,
      labelSelector,
      fieldSelector,
    ]);
    let cache = this.caches.get(key);
    if (cache === undefined) {
      const freeze = this.options.freeze === undefined ? {} : { freeze: this.options.freeze };
      const transform = this.options.transforms?.[resourceKey(resource)] as ((object: KubeObject) => T) | undefined;
      cache = new ObjectCache<T>({
        ...this.ports,
        ...(transform !== undefined && { transform }),
        onConsistency: () => this.reconcileOrPause(),
        resource,
        selection,
        ...options,
        ...freeze,
      });
      this.caches.set(key, cache);
      if (this.phase !== "new") cache.start();
    }
    // The key names the resource, and the handle of a resource names the type of its objects.
    return cache as ObjectCache<T>;
  }

  /** An object that the components of this process share, by its class. The first caller creates it. */
  share<T>(by: new (...given: never[]) => T, make: () => T): T {
    const known = this.known(by) ?? make();
    this.shared.set(by, known);
    return known;
  }

  /** The shared object of this class, if a component has created it. */
  known<T>(by: new (...given: never[]) => T): T | undefined {
    // The map holds under each class an instance of that class.
    return this.shared.get(by) as T | undefined;
  }

  /** Every cache that a controller uses, in the order of their keys. */
  allCaches(): readonly ObjectCache[] {
    return this.sortedCaches();
  }

  /** A controller that is added after the start is started at once; the caches that it needs must exist already. */
  add(options: ControllerOptions): Controller {
    const report = (object: KubeObject, fault: Fault): void => this.reportFault(options.name, object, fault);
    const controller = new Controller(this.ports, options, report);
    this.controllers.push(controller);
    if (this.phase === "syncing" || this.phase === "synced") controller.startSources();
    if (this.mayReconcile()) controller.resume();
    return controller;
  }

  /** Stops one controller for good; the others keep running. */
  async remove(controller: Controller): Promise<void> {
    const at = this.controllers.indexOf(controller);
    if (at >= 0) this.controllers.splice(at, 1);
    await controller.stop(0);
  }

  /**
   * Resolves true when the caches have synced and reconciles may begin (or the lease is waited for), false if it was
   * stopped before. `prepare` runs between the two: the objects that it creates exist before the first reconcile.
   */
  async start(prepare: () => Promise<void> = async () => {}): Promise<boolean> {
    this.phase = "syncing";
    const caches = this.sortedCaches();
    for (const controller of this.controllers) controller.startSources();
    for (const cache of caches) cache.start();
    // Not Promise.all: the order in which they finish must not decide what runs first.
    const stopTimer = this.ports.clock.after(slowSyncMs, () => {
      this.ports.log.warn({ kinds: this.unsynced() }, "caches have not synced yet");
    });
    for (const cache of caches) {
      if (await cache.waitForSync()) continue;
      stopTimer();
      return false;
    }
    stopTimer();
    if (this.phase !== "syncing") return false;
    this.phase = "synced";
    this.ports.log.info({ kinds: caches.map(({ kind }) => kind) }, "caches have synced");
    await prepare();
    if (this.phase !== "synced") return false;
    if (this.lease === undefined) this.lead();
    else this.lease.start({ acquired: () => this.lead(), lost: () => this.unlead() });
    return true;
  }

  /** Reconciles end, then the lease is released, then the watches close. */
  async stop(): Promise<void> {
    if (this.phase === "stopping" || this.phase === "stopped") return;
    this.phase = "stopping";
    this.isLeading = false;
    const graceMs = this.options.graceMs ?? defaultGraceMs;
    const stopping = [...this.controllers].reverse().map((controller) => controller.stop(graceMs));
    for (const each of stopping) await each;
    for (const recorder of this.faultRecorders.values()) recorder.stop();
    await this.lease?.stop();
    for (const cache of this.sortedCaches().reverse()) cache.stop();
    this.reachability.stop();
    this.phase = "stopped";
  }

  /** Whether no controller has anything left to do. */
  get isIdle(): boolean {
    return this.controllers.every(({ isIdle }) => isIdle);
  }

  private reportFault(controller: string, object: KubeObject, { reason, note }: Fault): void {
    let recorder = this.faultRecorders.get(controller);
    if (recorder === undefined) {
      recorder = new EventRecorder({ ...this.ports, controller: `muster.dev/${controller}`, instance: controller });
      this.faultRecorders.set(controller, recorder);
    }
    recorder.record(object, { type: "Warning", reason, action: "Reconciling", note });
  }

  private lead(): void {
    this.isLeading = true;
    this.reconcileOrPause();
  }

  private unlead(): void {
    this.isLeading = false;
    this.reconcileOrPause();
  }

  /** Only a leader whose caches are current reconciles. */
  private reconcileOrPause(): void {
    if (this.mayReconcile()) {
      // Reconciles of an earlier epoch end first: they were cancelled, and their writes are refused.
      void this.pausing.then(() => {
        if (this.mayReconcile()) for (const controller of this.controllers) controller.resume();
      });
      return;
    }
    const pauses = this.controllers.map((controller) => controller.pause());
    this.pausing = (async () => {
      for (const pause of pauses) await pause;
    })();
  }

  private mayReconcile(): boolean {
    return this.isLeading && this.phase === "synced" && this.serverRollback() === undefined;
  }

  private serverRollback(): string | undefined {
    for (const cache of this.sortedCaches()) if (cache.serverRollback !== undefined) return cache.serverRollback;
    return undefined;
  }

  /** Ends the back-offs of caches that wait for a server that did not answer; after an outage those of keys as well. */
  private retrySoon(how: "all" | "one", outageMs: number): void {
    const waiting = this.sortedCaches().filter(({ isFollowed }) => !isFollowed);
    if (how === "one") waiting.some((cache) => cache.probe());
    else for (const cache of waiting) cache.retrySoon();
    if (how === "all" && outageMs >= shortOutageMs) for (const { queue } of this.controllers) queue.endBackOffs();
  }

  private brokenWatches(): string | undefined {
    const broken = this.sortedCaches().flatMap(({ kind, hasSynced, outage }) => {
      if (!hasSynced || outage === undefined || outage.forMs < brokenWatchMs) return [];
      return [`${kind} for ${Math.floor(outage.forMs / 1000)} s (${outage.why})`];
    });
    const [first, ...others] = broken;
    if (first === undefined) return undefined;
    return `not watched: ${first}${others.length === 0 ? "" : `, and ${others.length} more ${others.length === 1 ? "kind" : "kinds"}`}`;
  }

  private unsynced(): string[] {
    return this.sortedCaches().flatMap(({ hasSynced, kind }) => (hasSynced ? [] : [kind]));
  }

  private sortedCaches(): ObjectCache[] {
    return [...this.caches].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, cache]) => cache);
  }
}

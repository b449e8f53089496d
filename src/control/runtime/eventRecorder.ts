import type { Written } from "../../intents/applyIntent.ts";
import { expectedOf, type NewObject } from "../../model/intent.ts";
import type { CoreEvent, EventSource } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { firstRevision } from "../../model/revision.ts";
import { formatTime } from "../../model/values/time.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { coreEvent } from "./coreEvent.ts";
import type { Writer } from "./writer.ts";

/** An Event about an object, as `kubectl describe` shows it. */
export interface EventNote {
  readonly type: "Normal" | "Warning";
  /** Why, in CamelCase: the Event's `reason`. */
  readonly reason: string;
  /** What was done, in CamelCase: the Event's `action`. */
  readonly action: string;
  /** The message for people. */
  readonly note: string;
  readonly related?: KubeObject;
  /** Annotations, for programs that read events. */
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface EventRecorderOptions {
  readonly writer: Writer;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** `muster.dev/scheduler`. */
  readonly controller: string;
  /** The process that reports. */
  readonly instance: string;
  /** The Event's `source`, by which `kubectl describe` and other programs tell components apart. */
  readonly sourceOf?: (regarding: KubeObject) => EventSource;
}

const events = builtin.CoreEvent;
const noteBytesMax = 1024;
/** A series ends when nothing was added to it for this long. */
const seriesMs = 6 * 60_000;
/** The second occurrence is written at once; after that a series is written this often. */
const refreshMs = 60_000;
/** An object may have this many events at once, and one more after each interval. */
const burst = 25;
const refillMs = 300_000;
const seriesMax = 4096;
/** Events must not delay the writes that they report. */
const writesAtOnce = 16;
/** Where the API is slower than the events, the oldest are dropped. */
const waitingMax = 4096;

interface Series {
  readonly regarding: KubeObject;
  readonly note: EventNote;
  readonly firstMs: number;
  /** The Event in the API; undefined until it has been created. */
  written: CoreEvent | undefined;
  count: number;
  writtenCount: number;
  lastMs: number;
  writtenMs: number;
  isWriting: boolean;
  stopTimer: () => void;
}

interface Allowance {
  tokens: number;
  sinceMs: number;
}

/**
 * Writes Events. The same event on the same object again becomes one Event with a count, and an object with too many
 * Events gets no more for a while. Best effort: no reconcile waits for an Event, and a lost one is not retried.
 */
export class EventRecorder {
  private readonly options: EventRecorderOptions;
  private readonly series = new Map<string, Series>();
  private readonly allowances = new Map<string, Allowance>();
  /** Series that wait for a free slot, in the order of their arrival. */
  private readonly waiting = new Map<Series, string>();
  private writes = 0;
  private isStopped = false;

  constructor(options: EventRecorderOptions) {
    this.options = options;
  }

  record(regarding: KubeObject, note: EventNote): void {
    if (this.isStopped) return;
    const nowMs = this.options.clock.nowMs();
    const key = JSON.stringify([
      regarding.metadata.uid,
      note.type,
      note.reason,
      note.action,
      note.note,
      note.related?.metadata.uid ?? "",
    ]);
    const known = this.series.get(key);
    if (known !== undefined && nowMs - known.lastMs < seriesMs) {
      known.count++;
      known.lastMs = nowMs;
      this.writeSoon(key, known);
      return;
    }
    if (!this.isAllowed(regarding.metadata.uid, nowMs)) {
      this.options.metrics.count("muster_events_dropped_total", { reason: note.reason });
      return;
    }
    known?.stopTimer();
    const series: Series = {
      regarding,
      note,
      firstMs: nowMs,
      written: undefined,
      count: 1,
      writtenCount: 0,
      lastMs: nowMs,
      writtenMs: nowMs,
      isWriting: false,
      stopTimer: () => {},
    };
    this.makeRoom();
    this.series.set(key, series);
    this.expireLater(key, series);
    this.enqueueWrite(key, series);
  }

  stop(): void {
    this.isStopped = true;
    for (const { stopTimer } of this.series.values()) stopTimer();
    this.series.clear();
    this.waiting.clear();
  }

  private isAllowed(uid: string, nowMs: number): boolean {
    this.forgetRested(nowMs);
    const before = this.allowances.get(uid) ?? { tokens: burst, sinceMs: nowMs };
    const refilled = Math.max(0, Math.floor((nowMs - before.sinceMs) / refillMs));
    const tokens = Math.min(burst, before.tokens + refilled);
    const sinceMs = before.sinceMs + refilled * refillMs;
    // Inserted again, so that the map is ordered by the last use.
    this.allowances.delete(uid);
    this.allowances.set(uid, { tokens: Math.max(0, tokens - 1), sinceMs });
    if (this.allowances.size > seriesMax) this.forgetLeastRecentlyUsed();
    return tokens > 0;
  }

  /**
   * An object whose budget is full again is dropped from the map, so that the map does not grow with every object that
   * ever had an Event.
   */
  private forgetRested(nowMs: number): void {
    for (const [uid, { tokens, sinceMs }] of this.allowances) {
      if (tokens + Math.floor((nowMs - sinceMs) / refillMs) < burst) return;
      this.allowances.delete(uid);
    }
  }

  /**
   * Only the least recently used entry is dropped: a dropped object gets a full budget, and dropping all would lift the
   * limit for every object.
   */
  private forgetLeastRecentlyUsed(): void {
    const [uid] = this.allowances.keys();
    if (uid !== undefined) this.allowances.delete(uid);
  }

  private makeRoom(): void {
    if (this.series.size < seriesMax) return;
    // The first in the map is the one that began first.
    const [oldest] = this.series;
    if (oldest === undefined) return;
    oldest[1].stopTimer();
    this.series.delete(oldest[0]);
  }

  private writeSoon(key: string, series: Series): void {
    if (series.isWriting) return;
    const isDue = series.writtenCount < 2 || this.options.clock.nowMs() - series.writtenMs >= refreshMs;
    if (isDue) this.enqueueWrite(key, series);
  }

  private enqueueWrite(key: string, series: Series): void {
    series.isWriting = true;
    if (this.writes < writesAtOnce) {
      void this.write(key, series);
      return;
    }
    this.waiting.set(series, key);
    if (this.waiting.size <= waitingMax) return;
    const [oldest] = this.waiting.keys();
    if (oldest === undefined) return;
    this.waiting.delete(oldest);
    oldest.isWriting = false;
    this.options.metrics.count("muster_events_dropped_total", { reason: oldest.note.reason });
  }

  /** A series without new events writes its last count and is dropped. */
  private expireLater(key: string, series: Series, delayMs = seriesMs): void {
    series.stopTimer = this.options.clock.after(delayMs, () => {
      if (this.series.get(key) !== series) return;
      const quietMs = this.options.clock.nowMs() - series.lastMs;
      // A wall clock that stepped back must not keep a series for ever.
      if (quietMs < seriesMs && quietMs >= 0) {
        this.expireLater(key, series, seriesMs - quietMs);
        return;
      }
      this.series.delete(key);
      if (series.count > series.writtenCount && !series.isWriting) this.enqueueWrite(key, series);
    });
  }

  /** Never rejects. */
  private async write(key: string, series: Series): Promise<void> {
    const { log, metrics } = this.options;
    this.writes++;
    const { count } = series;
    try {
      const { written } = series;
      let outcome = written === undefined ? await this.create(series) : await this.refresh(series, written);
      // The Event was deleted meanwhile: the series continues in a new one.
      if (!outcome.ok && outcome.reason === "NotFound" && written !== undefined) outcome = await this.create(series);
      series.writtenCount = count;
      series.writtenMs = this.options.clock.nowMs();
      if (outcome.ok) series.written = outcome.value.object;
      else {
        metrics.count("muster_events_failed_total", { reason: outcome.reason });
        log.debug({ reason: outcome.reason, why: outcome.message, event: series.note.reason }, "event not written");
      }
    } catch (error) {
      log.error({ error, event: series.note.reason }, "writing an Event threw an exception");
    }
    this.writes--;
    series.isWriting = false;
    if (series.count > count && this.series.get(key) === series) this.writeSoon(key, series);
    const [next] = this.waiting;
    if (next === undefined) return;
    this.waiting.delete(next[0]);
    void this.write(next[1], next[0]);
  }

  private create(series: Series): Promise<Outcome<Written<CoreEvent>>> {
    const object = this.eventOf(series);
    const { namespace = "", name } = object.metadata;
    const target = { ...events, namespace, name };
    return this.options.writer.apply({
      type: "create",
      target,
      absentAtRevision: firstRevision,
      object,
      why: series.note.reason,
    });
  }

  /**
   * Only this process writes to its Events, so a conflict means that another client has changed or replaced the Event.
   */
  private refresh(series: Series, written: CoreEvent): Promise<Outcome<Written<CoreEvent>>> {
    const patch = { count: series.count, lastTimestamp: formatTime(series.lastMs) };
    const expected = expectedOf(written);
    return this.options.writer.apply({
      type: "patch",
      target: refOf(written),
      expected,
      patch,
      why: series.note.reason,
    });
  }

  private eventOf(series: Series): NewObject<CoreEvent> {
    const { controller, instance, sourceOf } = this.options;
    const { regarding, note, firstMs, count, lastMs } = series;
    const { annotations } = note;
    return coreEvent({
      name: eventName(series),
      regarding,
      note: { ...note, note: shortened(note.note) },
      times: { firstMs, lastMs, count },
      source: sourceOf?.(regarding) ?? { component: controller },
      reporter: { controller, instance },
      ...(annotations !== undefined && { annotations }),
    });
  }
}

/** The name is derived from the content, so that an Event that is sent twice is created once. */
function eventName({ regarding, note, firstMs }: Series): string {
  const { name, uid } = regarding.metadata;
  const digest = digestOf(`${uid} ${note.type} ${note.reason} ${note.action} ${note.note} ${firstMs}`);
  // 253 characters at most in all.
  return `${name.slice(0, 230)}.${digest}`;
}

/** FNV-1a, twice with different seeds: 64 bits are enough to distinguish the Events of one object. */
function digestOf(text: string): string {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code, 0x85ebca6b);
  }
  return [high, low].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}

/** The API limits bytes. A character has up to four, and none may be cut in half. */
function shortened(note: string): string {
  if (note.length * 4 <= noteBytesMax) return note;
  let bytes = 0;
  let end = 0;
  for (const character of note) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > noteBytesMax) return note.slice(0, end);
    end += character.length;
  }
  return note;
}

function refOf({ metadata }: CoreEvent): ObjectRef<CoreEvent> {
  return { ...events, namespace: metadata.namespace ?? "", name: metadata.name };
}

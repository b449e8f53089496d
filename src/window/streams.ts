/**
 * Server-sent events. A connection keeps the last model that was sent to it, not a queue: when it can accept more, it
 * gets the difference to the newest model.
 */
import { type Delta, diff, ofParts } from "../model/window/delta.ts";
import type { PartName, ReadModel } from "../model/window/parts.ts";
import type { Clock } from "../ports/clock.ts";
import type { Feed } from "./feed.ts";

export interface StreamLimits {
  readonly connectionsMax: number;
  readonly perTokenMax: number;
  /** The maximum of buffered bytes; nothing more is written until they are sent. */
  readonly unsentBytesMax: number;
  /** A connection whose buffer stays full for this long is closed. */
  readonly stuckMs: number;
  readonly beatMs: number;
  readonly checkTokenMs: number;
}

export const streamLimits: StreamLimits = {
  connectionsMax: 64,
  perTokenMax: 4,
  unsentBytesMax: 256 * 1024,
  stuckMs: 30_000,
  beatMs: 2_000,
  checkTokenMs: 60_000,
};

export interface StreamRequest {
  readonly token: string;
  readonly parts: ReadonlySet<PartName>;
  /** The id of the last event that the client received. */
  readonly lastEventId: string | undefined;
  /** Closes the underlying connection, even if its client reads nothing. */
  readonly cut?: () => void;
}

interface Connection extends Pick<StreamRequest, "token" | "parts" | "cut"> {
  readonly sink: ReadableStreamDefaultController<Uint8Array>;
  sent: ReadModel | undefined;
  lastBeatMs: number;
  checkedMs: number;
  fullSinceMs: number | undefined;
}

const encoder = new TextEncoder();

export class Streams {
  private readonly feed: Feed;
  private readonly clock: Clock;
  private readonly isToken: (token: string) => boolean;
  private readonly limits: StreamLimits;
  private readonly connections = new Set<Connection>();
  /** Encoded events of the newest model by their base revision: connections at one revision share them. */
  private readonly encoded = new Map<string, Uint8Array>();
  private cancelBeat: (() => void) | undefined;
  private readonly unsubscribe: () => void;

  constructor(
    feed: Feed,
    {
      clock,
      isToken,
      limits = streamLimits,
    }: { clock: Clock; isToken: (token: string) => boolean; limits?: StreamLimits },
  ) {
    this.feed = feed;
    this.clock = clock;
    this.isToken = isToken;
    this.limits = limits;
    this.unsubscribe = feed.onChange(() => {
      this.encoded.clear();
      for (const connection of this.connections) this.flush(connection);
    });
  }

  get size(): number {
    return this.connections.size;
  }

  /** Undefined when there are too many connections. */
  open({ token, parts, lastEventId, cut }: StreamRequest): ReadableStream<Uint8Array> | undefined {
    const own = [...this.connections].filter((each) => each.token === token).length;
    if (this.connections.size >= this.limits.connectionsMax || own >= this.limits.perTokenMax) return undefined;
    let opened: Connection | undefined;
    return new ReadableStream<Uint8Array>(
      {
        start: (sink) => {
          const nowMs = this.clock.nowMs();
          const base = { lastBeatMs: nowMs, checkedMs: nowMs, fullSinceMs: undefined };
          const connection: Connection = { token, parts, sink, sent: undefined, ...base, ...(cut && { cut }) };
          opened = connection;
          this.connections.add(connection);
          this.resume(connection, lastEventId);
          this.flush(connection);
          this.beatLater();
        },
        pull: () => {
          if (opened !== undefined) this.flush(opened);
        },
        cancel: () => {
          if (opened !== undefined) this.connections.delete(opened);
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: this.limits.unsentBytesMax }),
    );
  }

  close(): void {
    this.unsubscribe();
    this.cancelBeat?.();
    for (const connection of [...this.connections]) this.end(connection);
  }

  /**
   * A client that reconnects resumes at its last event, if that is of this epoch and still in the history; otherwise it
   * starts again.
   */
  private resume(connection: Connection, lastEventId: string | undefined): void {
    if (lastEventId === undefined || lastEventId === "") return;
    const [epoch = "", , seq = ""] = lastEventId.split(".");
    const known =
      epoch === this.feed.epoch && /^[0-9]{1,15}$/.test(seq) ? this.feed.history.bySeq(Number(seq)) : undefined;
    if (known !== undefined) {
      connection.sent = known;
      return;
    }
    this.write(
      connection,
      event("reset", this.feed.eventId, { why: epoch === this.feed.epoch ? "forgotten" : "epoch" }),
    );
  }

  private flush(connection: Connection): void {
    const { model } = this.feed;
    if (model === undefined || connection.sent === model) return;
    if ((connection.sink.desiredSize ?? 0) <= 0) {
      connection.fullSinceMs ??= this.clock.nowMs();
      return;
    }
    connection.fullSinceMs = undefined;
    const { sent, parts } = connection;
    connection.sent = model;
    connection.lastBeatMs = this.clock.nowMs();
    if (sent === undefined) for (const part of parts) this.write(connection, this.snapshot(part, model));
    else this.write(connection, this.delta(sent, model, parts));
  }

  private snapshot(part: PartName, model: ReadModel): Uint8Array {
    return this.shared(`snapshot ${part}`, () => {
      const { epoch, eventId } = this.feed;
      return event("snapshot", eventId, { part, epoch, rev: model.rev, at: model.at, ...model[part] });
    });
  }

  private delta(from: ReadModel, to: ReadModel, parts: ReadonlySet<PartName>): Uint8Array {
    // Two models may be of one revision; their times tell them apart.
    return this.shared(`${from.rev} ${from.at} ${[...parts].join()}`, () => {
      const delta: Delta = ofParts(diff(from, to), parts);
      return event("delta", this.feed.eventId, delta);
    });
  }

  private shared(key: string, make: () => Uint8Array): Uint8Array {
    let text = this.encoded.get(key);
    if (text === undefined) {
      text = make();
      this.encoded.set(key, text);
    }
    return text;
  }

  private beatLater(): void {
    this.cancelBeat?.();
    this.cancelBeat = this.clock.after(this.limits.beatMs, () => {
      this.beat();
      if (this.connections.size > 0) this.beatLater();
    });
  }

  private beat(): void {
    const nowMs = this.clock.nowMs();
    for (const connection of [...this.connections]) {
      const { sink, token } = connection;
      if (nowMs - connection.checkedMs >= this.limits.checkTokenMs) {
        connection.checkedMs = nowMs;
        if (!this.isToken(token)) {
          this.end(connection);
          continue;
        }
      }
      if ((sink.desiredSize ?? 0) <= 0) {
        connection.fullSinceMs ??= nowMs;
        if (nowMs - connection.fullSinceMs >= this.limits.stuckMs) this.end(connection);
        continue;
      }
      this.flush(connection);
      if (connection.sent === undefined || nowMs - connection.lastBeatMs < this.limits.beatMs) continue;
      connection.lastBeatMs = nowMs;
      const at = new Date(nowMs).toISOString();
      const { rev } = connection.sent;
      this.write(connection, event("at", this.feed.eventId, { rev, at, behindMs: this.feed.behindMs }));
    }
  }

  private write({ sink }: Connection, bytes: Uint8Array): void {
    sink.enqueue(bytes);
  }

  private end(connection: Connection): void {
    if (!this.connections.delete(connection)) return;
    connection.sink.close();
    connection.cut?.();
  }
}

function event(name: string, id: string, data: object): Uint8Array {
  return encoder.encode(`event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
}

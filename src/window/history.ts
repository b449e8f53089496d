/**
 * The history of the window: a full read model every minute, and the differences after each. The oldest are dropped
 * when they are too old or too many.
 */
import { apply, type Delta } from "../model/window/delta.ts";
import type { ReadModel } from "../model/window/parts.ts";

export interface HistoryLimits {
  readonly keepMs: number;
  readonly keepBytes: number;
  /** How often a full model is kept. */
  readonly wholeMs: number;
}

export const historyLimits: HistoryLimits = { keepMs: 15 * 60_000, keepBytes: 64 * 1024 * 1024, wholeMs: 60_000 };

/** A full model and the differences after it. */
interface Chapter {
  readonly first: ReadModel;
  readonly firstSeq: number;
  readonly startMs: number;
  readonly deltas: Delta[];
  bytes: number;
}

export class History {
  private readonly limits: HistoryLimits;
  private readonly chapters: Chapter[] = [];
  private seq = 0;

  constructor(limits: HistoryLimits = historyLimits) {
    this.limits = limits;
  }

  /** The number of the newest model. */
  get newest(): number {
    return this.seq;
  }

  get oldestRev(): number | undefined {
    return this.chapters[0]?.first.rev;
  }

  /** `bytes` is the size of the difference as JSON. */
  add(model: ReadModel, delta: Delta | undefined, nowMs: number, bytes: number): void {
    this.seq++;
    const last = this.chapters.at(-1);
    const isNew = delta === undefined || last === undefined || nowMs - last.startMs >= this.limits.wholeMs;
    if (isNew) this.chapters.push({ first: model, firstSeq: this.seq, startMs: nowMs, deltas: [], bytes: 0 });
    else {
      last.deltas.push(delta);
      last.bytes += bytes;
    }
    this.forget(nowMs);
  }

  /** The model of this number, or undefined when it was dropped. */
  bySeq(seq: number): ReadModel | undefined {
    const chapter = this.chapters.findLast(({ firstSeq }) => firstSeq <= seq);
    if (chapter === undefined || seq > this.seq) return undefined;
    return chapter.deltas.slice(0, seq - chapter.firstSeq).reduce(apply, chapter.first);
  }

  /** The newest model that is not beyond the revision, or undefined when it was dropped. */
  byRev(rev: number): ReadModel | undefined {
    const chapter = this.chapters.findLast(({ first }) => first.rev <= rev);
    if (chapter === undefined) return undefined;
    return chapter.deltas.filter((delta) => delta.rev <= rev).reduce(apply, chapter.first);
  }

  private forget(nowMs: number): void {
    let bytes = this.chapters.reduce((sum, chapter) => sum + chapter.bytes, 0);
    while (this.chapters.length > 1) {
      const [oldest, next] = this.chapters as [Chapter, Chapter];
      if (nowMs - next.startMs < this.limits.keepMs && bytes <= this.limits.keepBytes) return;
      bytes -= oldest.bytes;
      this.chapters.shift();
    }
  }
}

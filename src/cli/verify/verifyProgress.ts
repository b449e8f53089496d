import { performance } from "node:perf_hooks";
import type { AttemptLine } from "../../decide/verify/verifyResult.ts";
import { countsText } from "../../reports/text.ts";

/** As much of a terminal as a line needs. */
export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** A terminal without a size reports 0. */
const columnsUnknown = 80;

/** On a terminal: one line that says what is still missing and how much time is left. Elsewhere it says nothing. */
export class Progress {
  readonly isLive: boolean;
  private readonly stream: Terminal;
  private readonly settleMs: number;
  private readonly startMs = performance.now();
  private timer: NodeJS.Timeout | undefined;
  private line: AttemptLine | undefined;

  constructor(stream: Terminal, settleMs: number, wanted: boolean) {
    this.stream = stream;
    this.settleMs = settleMs;
    this.isLive = wanted && stream.isTTY === true;
  }

  attempt(line: AttemptLine): void {
    if (!this.isLive) return;
    this.line = line;
    this.timer ??= setInterval(() => this.draw(), 1000).unref();
    this.draw();
  }

  end(): void {
    clearInterval(this.timer);
    if (this.isLive && this.line !== undefined) this.stream.write("\r\u001b[K");
  }

  private draw(): void {
    if (this.line === undefined) return;
    const { counts, why, pods = [] } = this.line;
    const leftS = Math.max(0, Math.ceil((this.settleMs - (performance.now() - this.startMs)) / 1000));
    const what = counts === undefined ? why : `${countsText(counts)}; ${pods.join(" ") || why}`;
    const text = `${leftS}s left: ${what}`.slice(0, Math.max(20, (this.stream.columns || columnsUnknown) - 1));
    this.stream.write(`\r\u001b[K${text}`);
  }
}

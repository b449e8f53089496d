import { Buffer } from "node:buffer";

/**
 * Splits a stream of bytes into lines. Bytes are decoded when a line is complete, so a character across two chunks is
 * kept; a line longer than the bound is rejected before it fills the memory.
 */
export class LineSplitter {
  private readonly bytesMax: number;
  private rest: Buffer[] = [];
  private restBytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Complete lines, without their ends and without empty ones. False once a line is too long. */
  push(chunk: Buffer, line: (text: string) => void): boolean {
    let from = 0;
    for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, from)) {
      if (this.restBytes + at - from > this.bytesMax) return false;
      const text = this.take(chunk, from, at);
      from = at + 1;
      if (text !== "" && text !== "\r") line(text);
    }
    if (from < chunk.length) {
      this.rest.push(chunk.subarray(from));
      this.restBytes += chunk.length - from;
    }
    return this.restBytes <= this.bytesMax;
  }

  /** The bytes after the last line end. */
  get isWhole(): boolean {
    return this.restBytes === 0;
  }

  private take(chunk: Buffer, from: number, to: number): string {
    if (this.restBytes === 0) return chunk.toString("utf8", from, to);
    const whole = Buffer.concat([...this.rest, chunk.subarray(from, to)]);
    this.rest = [];
    this.restBytes = 0;
    return whole.toString("utf8");
  }
}

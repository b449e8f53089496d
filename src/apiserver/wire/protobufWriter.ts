import { Buffer } from "node:buffer";

/**
 * Writes protobuf from the end to the beginning, as Go's generated code does: the length of a nested message is known
 * when it is written before its content. So fields, items and the parts of each are written in reverse order.
 */
export class ProtobufWriter {
  private buffer = Buffer.allocUnsafe(1024);
  private start = 1024;

  /** The number of bytes so far. */
  get length(): number {
    return this.buffer.length - this.start;
  }

  bytes(bytes: Uint8Array): void {
    this.reserve(bytes.length);
    this.start -= bytes.length;
    this.buffer.set(bytes, this.start);
  }

  /** Writes the text as UTF-8; returns its length in bytes. */
  text(text: string): number {
    const length = Buffer.byteLength(text);
    this.reserve(length);
    this.start -= length;
    this.buffer.write(text, this.start, length, "utf8");
    return length;
  }

  tag(number: number, wireType: number): void {
    this.varint(number * 8 + wireType);
  }

  /** An integer; a negative one is written as 64 bits in two's complement. */
  varint(value: number): void {
    if (value >= 0 && value < 0x80) {
      this.reserve(1);
      this.buffer[--this.start] = value;
      return;
    }
    const bytes: number[] = [];
    if (value >= 0 && value <= 0x7fff_ffff) {
      let rest = value;
      for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
      bytes.push(rest);
    } else {
      let rest = BigInt.asUintN(64, BigInt(value));
      for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
      bytes.push(Number(rest));
    }
    this.bytes(Uint8Array.from(bytes));
  }

  finish(): Buffer {
    return this.buffer.subarray(this.start);
  }

  private reserve(count: number): void {
    if (this.start >= count) return;
    const used = this.length;
    const larger = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, used + count));
    this.buffer.copy(larger, larger.length - used, this.start);
    this.buffer = larger;
    this.start = larger.length - used;
  }
}

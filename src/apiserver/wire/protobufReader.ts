/** Reads the proto2 wire format from untrusted bytes: every length is checked before it is used. */
import { isUtf8 } from "node:buffer";

/** The bytes are malformed. */
export class ProtobufError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ProtobufError";
  }
}

export class ProtobufReader {
  readonly #bytes: Buffer;
  #at: number;
  readonly #end: number;
  /** Wire type of the last field. */
  wireType = 0;

  constructor(bytes: Buffer, start = 0, end = bytes.length) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** The number of the next field, or 0 at the end; sets `wireType`. */
  nextField(): number {
    if (this.#at >= this.#end) return 0;
    const tag = this.#varint();
    this.wireType = tag & 7;
    const number = Math.floor(tag / 8);
    if (number === 0 || tag > 0xffffffff) throw new ProtobufError(`illegal tag ${tag}`);
    return number;
  }

  skip(): void {
    switch (this.wireType) {
      case 0:
        this.#skipVarint();
        return;
      case 1:
        this.#take(8);
        return;
      case 2:
        this.#take(this.#length());
        return;
      case 5:
        this.#take(4);
        return;
      default:
        throw new ProtobufError(`illegal wireType ${this.wireType}`);
    }
  }

  readString(): string {
    const start = this.#delimited();
    const text = this.#bytes.toString("utf8", start, this.#at);
    // Decoding replaces invalid bytes with U+FFFD; only then are the bytes checked.
    if (text.includes("\ufffd") && !isUtf8(this.#bytes.subarray(start, this.#at))) {
      throw new ProtobufError("string field contains invalid UTF-8");
    }
    return text;
  }

  readBytes(): Buffer {
    const start = this.#delimited();
    return this.#bytes.subarray(start, this.#at);
  }

  /** The nested message. */
  readMessage(): ProtobufReader {
    const start = this.#delimited();
    return new ProtobufReader(this.#bytes, start, this.#at);
  }

  readBool(): boolean {
    this.#expect(0);
    return this.#int64() !== 0;
  }

  readInt32(): number {
    this.#expect(0);
    return this.#signed().low | 0;
  }

  /** An integer; one that a double cannot hold is rejected rather than rounded. */
  readInt64(): number {
    this.#expect(0);
    return this.#int64();
  }

  readDouble(): number {
    this.#expect(1);
    const start = this.#at;
    this.#take(8);
    return this.#bytes.readDoubleLE(start);
  }

  /** Whether a repeated number is packed: one field with many values. */
  get isPacked(): boolean {
    return this.wireType === 2;
  }

  /** Calls back for each value of a packed field. */
  packed(wireType: 0 | 1): { reader: ProtobufReader; more: () => boolean } {
    const reader = this.readMessage();
    reader.wireType = wireType;
    return { reader, more: () => reader.#at < reader.#end };
  }

  #expect(wireType: number): void {
    if (this.wireType !== wireType) throw new ProtobufError(`wrong wireType ${this.wireType}`);
  }

  #delimited(): number {
    this.#expect(2);
    const length = this.#length();
    const start = this.#at;
    this.#take(length);
    return start;
  }

  #length(): number {
    const length = this.#varint();
    if (length > this.#end - this.#at) throw new ProtobufError("unexpected EOF");
    return length;
  }

  #take(count: number): void {
    if (count > this.#end - this.#at) throw new ProtobufError("unexpected EOF");
    this.#at += count;
  }

  /** A small unsigned number: a tag or a length. */
  #varint(): number {
    let result = 0;
    for (let scale = 1, i = 0; i < 10; i++, scale *= 128) {
      if (this.#at >= this.#end) throw new ProtobufError("unexpected EOF");
      const byte = this.#bytes[this.#at++] ?? 0;
      result += (byte & 0x7f) * scale;
      if (byte < 0x80) return result;
    }
    throw new ProtobufError("integer overflow");
  }

  #skipVarint(): void {
    this.#signed();
  }

  #int64(): number {
    const { high, low } = this.#signed();
    const number = (high | 0) * 0x1_0000_0000 + (low >>> 0);
    if (!Number.isSafeInteger(number)) throw new ProtobufError("number cannot be kept exactly");
    return number;
  }

  /** 64 bits in two halves. */
  #signed(): { high: number; low: number } {
    let low = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      if (this.#at >= this.#end) throw new ProtobufError("unexpected EOF");
      const byte = this.#bytes[this.#at++] ?? 0;
      const bits = byte & 0x7f;
      if (i < 4) low |= bits << (i * 7);
      else if (i === 4) {
        low |= bits << 28;
        high |= bits >> 4;
      } else high |= bits << (i * 7 - 32);
      if (byte < 0x80) return { high, low };
    }
    throw new ProtobufError("integer overflow");
  }
}

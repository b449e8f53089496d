/**
 * The subset of SPDY/3.1 that remote commands need, towards older clients and towards kubelets: streams opened by the
 * client, no push, no flow control.
 */
import { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import { constants, createDeflate, createInflate, type Deflate, type Inflate } from "node:zlib";
import { spdyDictionary } from "./spdyDictionary.ts";

const types = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
} as const;
const finFlag = 1;
const frameBytesMax = 4 << 20;
const dataBytesMax = 1 << 20;

export interface SpdyHandlers {
  /** The peer has opened a stream, and may have closed its side already. */
  opened(stream: SpdyStream): void;
  data(stream: SpdyStream, bytes: Buffer): void;
  /** The peer has closed its side of the stream. */
  finished(stream: SpdyStream): void;
  closed(): void;
}

export interface SpdyStream {
  readonly id: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** All header blocks of a direction share one zlib context, so they are compressed and decompressed in order. */
export class SpdySession {
  private readonly socket: Duplex;
  private readonly handlers: SpdyHandlers;
  private readonly unpacker = new HeaderPipe(createInflate({ dictionary: spdyDictionary }));
  private readonly packer = new HeaderPipe(
    createDeflate({ dictionary: spdyDictionary, flush: constants.Z_SYNC_FLUSH }),
  );
  private readonly streams = new Map<number, SpdyStream>();
  private pending: Buffer = Buffer.alloc(0);
  private order: Promise<void> = Promise.resolve();
  private isClosed = false;
  /** Streams that a client opens have odd numbers. */
  private nextId = 1;

  constructor(socket: Duplex, head: Buffer, handlers: SpdyHandlers) {
    this.socket = socket;
    this.handlers = handlers;
    socket.on("data", (bytes: Buffer) => this.receive(bytes));
    // Frames that have arrived are handled first: a peer sends its last ones just before it closes.
    const endInOrder = (): void => {
      this.order = this.order.then(() => this.end());
    };
    socket.on("error", endInOrder);
    socket.on("close", endInOrder);
    socket.on("end", endInOrder);
    if (head.length > 0) this.receive(head);
  }

  /** As the client: opens a stream. Call it again only when it has resolved, because headers share a context. */
  async open(headers: Readonly<Record<string, string>>): Promise<SpdyStream> {
    const id = this.nextId;
    this.nextId += 2;
    const block = headerBlock(headers);
    const stream: SpdyStream = { id, headers: parseHeaders(block) };
    this.streams.set(id, stream);
    const packed = await this.packer.run(block);
    const start = Buffer.alloc(10);
    start.writeUInt32BE(id, 0);
    this.writeControl(types.synStream, 0, Buffer.concat([start, packed]));
    return stream;
  }

  /** False while the peer does not keep up: the caller should wait until the socket drains. */
  write(stream: SpdyStream, bytes: Buffer): boolean {
    let isTaken = true;
    for (let at = 0; at < bytes.length; at += dataBytesMax) {
      isTaken = this.writeData(stream.id, 0, bytes.subarray(at, at + dataBytesMax));
    }
    return isTaken;
  }

  /** Closes this side of a stream. */
  finish(stream: SpdyStream): void {
    this.writeData(stream.id, finFlag, Buffer.alloc(0));
  }

  /** Closes the session after the pending writes. */
  close(): void {
    if (this.isClosed) return;
    const body = Buffer.alloc(8);
    body.writeUInt32BE(Math.max(0, ...this.streams.keys()), 0);
    this.writeControl(types.goAway, 0, body);
    this.socket.end();
    this.end();
  }

  private end(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.unpacker.close();
    this.packer.close();
    this.handlers.closed();
  }

  private receive(bytes: Buffer): void {
    this.pending = this.pending.length === 0 ? bytes : Buffer.concat([this.pending, bytes]);
    while (!this.isClosed && this.pending.length >= 8) {
      const length = this.pending.readUInt32BE(4) & 0xffffff;
      if (length > frameBytesMax) {
        this.close();
        return;
      }
      if (this.pending.length < 8 + length) return;
      const frame = this.pending.subarray(0, 8 + length);
      this.pending = this.pending.subarray(8 + length);
      // Decompression is asynchronous, and frames must stay in order.
      this.order = this.order.then(() => (this.isClosed ? undefined : this.take(frame))).catch(() => this.close());
    }
  }

  private async take(frame: Buffer): Promise<void> {
    const first = frame.readUInt32BE(0);
    const flags = frame[4] as number;
    const body = frame.subarray(8);
    if ((first & 0x80000000) === 0) {
      const stream = this.streams.get(first);
      if (stream === undefined) return;
      if (body.length > 0) this.handlers.data(stream, body);
      if ((flags & finFlag) !== 0) this.handlers.finished(stream);
      return;
    }
    switch (first & 0xffff) {
      case types.synStream:
        return this.accept(body, flags);
      case types.synReply:
        await this.unpacker.run(body.subarray(4));
        return;
      case types.ping:
        this.writeControl(types.ping, 0, body);
        return;
      case types.headers:
        await this.unpacker.run(body.subarray(4));
        return;
      case types.rstStream: {
        const stream = this.streams.get(body.readUInt32BE(0) & 0x7fffffff);
        if (stream !== undefined) this.handlers.finished(stream);
        return;
      }
      case types.goAway:
        return;
      default:
        return;
    }
  }

  private async accept(body: Buffer, flags: number): Promise<void> {
    const id = body.readUInt32BE(0) & 0x7fffffff;
    const headers = parseHeaders(await this.unpacker.run(body.subarray(10)));
    const stream: SpdyStream = { id, headers };
    this.streams.set(id, stream);
    const block = await this.packer.run(Buffer.alloc(4));
    const reply = Buffer.alloc(4);
    reply.writeUInt32BE(id, 0);
    this.writeControl(types.synReply, 0, Buffer.concat([reply, block]));
    this.handlers.opened(stream);
    if ((flags & finFlag) !== 0) this.handlers.finished(stream);
  }

  private writeData(id: number, flags: number, bytes: Buffer): boolean {
    if (this.isClosed) return true;
    const head = Buffer.alloc(8);
    head.writeUInt32BE(id, 0);
    head.writeUInt32BE(((flags << 24) | bytes.length) >>> 0, 4);
    return this.socket.write(Buffer.concat([head, bytes]));
  }

  private writeControl(type: number, flags: number, body: Buffer): void {
    if (this.isClosed) return;
    const head = Buffer.alloc(8);
    head.writeUInt32BE(((0x8003 << 16) | type) >>> 0, 0);
    head.writeUInt32BE(((flags << 24) | body.length) >>> 0, 4);
    this.socket.write(Buffer.concat([head, body]));
  }
}

/** A zlib stream used block by block. */
class HeaderPipe {
  private readonly pipe: Inflate | Deflate;
  private parts: Buffer[] = [];

  constructor(pipe: Inflate | Deflate) {
    this.pipe = pipe;
    pipe.on("data", (bytes: Buffer) => this.parts.push(bytes));
  }

  run(bytes: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => reject(error);
      this.pipe.once("error", fail);
      this.pipe.write(bytes, () => {
        // The output arrives in the same turn of the event loop, after this call.
        setImmediate(() => {
          this.pipe.off("error", fail);
          const whole = Buffer.concat(this.parts);
          this.parts = [];
          resolve(whole);
        });
      });
    });
  }

  close(): void {
    this.pipe.on("error", () => {});
    this.pipe.close();
  }
}

/** Names and values, each with its length before it. */
export function parseHeaders(bytes: Buffer): Record<string, string> {
  const headers: Record<string, string> = {};
  let at = 0;
  const number = (): number => {
    const value = bytes.readUInt32BE(at);
    at += 4;
    return value;
  };
  const text = (): string => {
    const length = number();
    const value = bytes.toString("utf8", at, at + length);
    at += length;
    return value;
  };
  const count = number();
  for (let i = 0; i < count; i++) {
    const name = text().toLowerCase();
    headers[name] = text();
  }
  return headers;
}

export function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  const number = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value, 0);
    return bytes;
  };
  const text = (value: string): Buffer[] => [number(Buffer.byteLength(value)), Buffer.from(value)];
  const entries = Object.entries(headers);
  return Buffer.concat([
    number(entries.length),
    ...entries.flatMap(([name, value]) => [...text(name.toLowerCase()), ...text(value)]),
  ]);
}

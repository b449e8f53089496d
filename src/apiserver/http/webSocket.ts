/** The subset of RFC 6455 that remote commands need: handshake, frames in both directions, ping and close. */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { Duplex } from "node:stream";

const acceptGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** A client that sends a longer frame is disconnected. */
const payloadBytesMax = 4 << 20;

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

export interface WebSocketHandlers {
  /** A complete message. */
  message(payload: Buffer): void;
  /** The client has closed the connection, or it failed. */
  closed(): void;
}

/** The response with which a server accepts the upgrade. */
export function webSocketAnswer(key: string, protocol: string): string {
  const accept = createHash("sha1").update(`${key}${acceptGuid}`).digest("base64");
  const lines = [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${accept}`,
    ...(protocol === "" ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
  ];
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** The server side of an upgraded connection. */
export class WebSocket {
  private readonly socket: Duplex;
  private readonly handlers: WebSocketHandlers;
  private pending: Buffer = Buffer.alloc(0);
  private fragments: Buffer[] = [];
  private isClosed = false;

  constructor(socket: Duplex, head: Buffer, handlers: WebSocketHandlers) {
    this.socket = socket;
    this.handlers = handlers;
    socket.on("data", (bytes: Buffer) => this.receive(bytes));
    socket.on("error", () => this.end());
    socket.on("close", () => this.end());
    socket.on("end", () => this.end());
    if (head.length > 0) this.receive(head);
  }

  /** False while the client does not keep up: the caller should wait until the socket drains. */
  send(payload: Buffer): boolean {
    return this.isClosed || this.socket.write(frame(opcodes.binary, payload));
  }

  /** Sends a close frame and closes the connection. */
  close(code = 1000, reason = ""): void {
    if (this.isClosed) return;
    const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
    payload.writeUInt16BE(code, 0);
    payload.write(reason, 2);
    this.socket.end(frame(opcodes.close, payload));
    this.end();
  }

  private end(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.handlers.closed();
  }

  private receive(bytes: Buffer): void {
    this.pending = this.pending.length === 0 ? bytes : Buffer.concat([this.pending, bytes]);
    while (!this.isClosed) {
      const parsed = parseFrame(this.pending);
      if (parsed === undefined) return;
      if (parsed === "bad") {
        this.close(1002, "invalid frame");
        return;
      }
      this.pending = this.pending.subarray(parsed.length);
      this.take(parsed);
    }
  }

  private take({ opcode, payload, isFinal }: Frame): void {
    switch (opcode) {
      case opcodes.close:
        this.close();
        return;
      case opcodes.ping:
        this.socket.write(frame(opcodes.pong, payload));
        return;
      case opcodes.pong:
        return;
      default:
        this.fragments.push(payload);
        if (!isFinal) return;
        this.handlers.message(this.fragments.length === 1 ? payload : Buffer.concat(this.fragments));
        this.fragments = [];
    }
  }
}

interface Frame {
  readonly opcode: number;
  readonly payload: Buffer;
  readonly isFinal: boolean;
  /** Length of the frame with its header. */
  readonly length: number;
}

/** Undefined while the frame is incomplete. Frames of clients are always masked. */
export function parseFrame(bytes: Buffer): Frame | "bad" | undefined {
  if (bytes.length < 2) return undefined;
  const first = bytes[0] as number;
  const second = bytes[1] as number;
  if ((second & 0x80) === 0) return "bad";
  let size = second & 0x7f;
  let at = 2;
  if (size === 126) {
    if (bytes.length < 4) return undefined;
    size = bytes.readUInt16BE(2);
    at = 4;
  } else if (size === 127) {
    if (bytes.length < 10) return undefined;
    const wide = bytes.readBigUInt64BE(2);
    if (wide > BigInt(payloadBytesMax)) return "bad";
    size = Number(wide);
    at = 10;
  }
  if (size > payloadBytesMax) return "bad";
  if (bytes.length < at + 4 + size) return undefined;
  const mask = bytes.subarray(at, at + 4);
  const payload = Buffer.from(bytes.subarray(at + 4, at + 4 + size));
  for (let i = 0; i < payload.length; i++) payload[i] = (payload[i] as number) ^ (mask[i & 3] as number);
  return { opcode: first & 15, payload, isFinal: (first & 0x80) !== 0, length: at + 4 + size };
}

function frame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = length < 126 ? Buffer.alloc(2) : length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10);
  head[0] = 0x80 | opcode;
  if (length < 126) head[1] = length;
  else if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}

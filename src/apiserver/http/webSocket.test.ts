import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { deflateSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { parseHeaders } from "./spdy.ts";
import { spdyDictionary } from "./spdyDictionary.ts";
import { parseFrame, WebSocket, webSocketAnswer } from "./webSocket.ts";

/** As a client sends it: masked. */
function masked(opcode: number, payload: Buffer, isFinal = true): Buffer {
  const mask = Buffer.from([1, 2, 3, 4]);
  const head =
    payload.length < 126
      ? Buffer.from([0, 0x80 | payload.length])
      : Buffer.from([0, 0x80 | 126, payload.length >> 8, payload.length & 255]);
  head[0] = (isFinal ? 0x80 : 0) | opcode;
  return Buffer.concat([head, mask, payload.map((byte, at) => byte ^ (mask[at & 3] as number))]);
}

class Wire extends Duplex {
  readonly sent: Buffer[] = [];
  override _read(): void {}
  override _write(bytes: Buffer, _: string, done: () => void): void {
    this.sent.push(bytes);
    done();
  }
}

function socket(head: Buffer = Buffer.alloc(0)) {
  const wire = new Wire();
  const messages: string[] = [];
  let closed = 0;
  const own = new WebSocket(wire, head, {
    message: (payload) => messages.push(payload.toString()),
    closed: () => {
      closed++;
    },
  });
  return { wire, messages, own, isClosed: () => closed };
}

describe("a WebSocket", () => {
  test("agrees with the key of the standard's own example", () => {
    expect(webSocketAnswer("dGhlIHNhbXBsZSBub25jZQ==", "v5.channel.k8s.io")).toContain(
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    );
  });

  test("reads frames byte by byte, in fragments, and together with the handshake", () => {
    const { wire, messages } = socket(masked(2, Buffer.from("first")));
    const bytes = Buffer.concat([
      masked(2, Buffer.from("sec"), false),
      masked(0, Buffer.from("ond")),
      masked(2, Buffer.alloc(300, "x")),
    ]);
    for (const byte of bytes) wire.emit("data", Buffer.from([byte]));
    expect(messages).toEqual(["first", "second", "x".repeat(300)]);
  });

  test("answers a ping and a close, once", () => {
    const { wire, isClosed } = socket();
    wire.emit("data", masked(9, Buffer.from("hi")));
    expect(wire.sent[0]).toEqual(Buffer.from([0x8a, 2, 0x68, 0x69]));
    wire.emit("data", masked(8, Buffer.alloc(0)));
    wire.emit("close");
    expect(isClosed()).toBe(1);
  });

  test.each([
    ["without a mask", Buffer.from([0x82, 1, 65])],
    ["that are too long", Buffer.from([0x82, 0x80 | 127, 0, 0, 0, 1, 0, 0, 0, 0])],
  ])("refuses frames %s", (_, bytes) => {
    expect(parseFrame(bytes)).toBe("bad");
    const { wire, isClosed } = socket();
    wire.emit("data", bytes);
    expect(isClosed()).toBe(1);
  });
});

describe("SPDY", () => {
  test("has the dictionary of the third draft, by its checksum", () => {
    const packed = deflateSync(Buffer.from("x"), { dictionary: spdyDictionary });
    expect([spdyDictionary.length, packed.subarray(2, 6).toString("hex")]).toEqual([1423, "e3c6a7c2"]);
  });

  test("reads names and values with their lengths", () => {
    const text = (value: string) => {
      const bytes = Buffer.alloc(4 + value.length);
      bytes.writeUInt32BE(value.length, 0);
      bytes.write(value, 4);
      return bytes;
    };
    const block = Buffer.concat([Buffer.from([0, 0, 0, 1]), text("StreamType"), text("stdin")]);
    expect(parseHeaders(block)).toEqual({ streamtype: "stdin" });
  });
});

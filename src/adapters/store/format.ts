/**
 * The format of log segments and snapshots: a file header, then frames. One frame is one commit (or one slice of a
 * snapshot) and is valid completely or not at all. All numbers are little-endian.
 *
 *   file header (40):   magic 8 | version u32 | 0 u32 | base revision u64 | sequence u64 | 0 u32 | crc u32
 *   frame header (24):  marker 4 | length u32 | synced u48 | kind u16 | payload crc u32 | sum of bytes 4..19 u32
 *   payload of changes: ( head length u32 | body length u32 | head as JSON | body )*
 *
 * `synced` is how far the file was known to be durable when the frame was written. It distinguishes a hole in a batch
 * that was never acknowledged (a power failure may persist later pages first) from damage to acknowledged data.
 */
import { crc32 } from "node:zlib";
import type { SideRecord, StoredChange } from "../../ports/store.ts";

export const fileHeaderBytes = 40;
export const frameHeaderBytes = 24;
export const formatVersion = 1;

/** 0xF5 and 0xF8 do not occur in UTF-8, so the marker cannot occur inside heads and bodies. */
export const frameMarker = Buffer.from([0xf5, 0x4d, 0x46, 0xf8]);
const markerU32 = frameMarker.readUInt32LE(0);

export const frameKind = { changes: 0, snapshotEnd: 1 } as const;

const deletion = 0xffff_ffff;
const magics = { log: "MUSTRLOG", snapshot: "MUSTRSNP" } as const;
export type FileType = keyof typeof magics;

export interface FileHeader {
  /** Log: the highest revision before this segment. Snapshot: the revision of the state. */
  baseRevision: number;
  /** Number of the segment, as in its name; 0 for snapshots. */
  sequence: number;
}

export function encodeFileHeader(type: FileType, header: FileHeader): Buffer {
  const bytes = Buffer.alloc(fileHeaderBytes);
  bytes.write(magics[type], 0, "latin1");
  bytes.writeUInt32LE(formatVersion, 8);
  bytes.writeBigUInt64LE(BigInt(header.baseRevision), 16);
  bytes.writeBigUInt64LE(BigInt(header.sequence), 24);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 36)), 36);
  return bytes;
}

/** The header, or the error. */
export function decodeFileHeader(type: FileType, bytes: Buffer): FileHeader | "damaged" | "other version" {
  if (bytes.byteLength < fileHeaderBytes || bytes.toString("latin1", 0, 8) !== magics[type]) return "damaged";
  if (bytes.readUInt32LE(36) !== crc32(bytes.subarray(0, 36))) return "damaged";
  if (bytes.readUInt32LE(8) !== formatVersion) return "other version";
  return { baseRevision: Number(bytes.readBigUInt64LE(16)), sequence: Number(bytes.readBigUInt64LE(24)) };
}

export interface FrameHeader {
  length: number;
  synced: number;
  kind: number;
  payloadCrc: number;
}

/** Completes a frame: writes the header into the room before its payload. */
export function sealFrame(bytes: Buffer, start: number, end: number, kind: number, synced: number): void {
  const payload = start + frameHeaderBytes;
  bytes.writeUInt32LE(markerU32, start);
  bytes.writeUInt32LE(end - payload, start + 4);
  bytes.writeUIntLE(synced, start + 8, 6);
  bytes.writeUInt16LE(kind, start + 14);
  bytes.writeUInt32LE(crc32(bytes.subarray(payload, end)), start + 16);
  bytes.writeUInt32LE(headerSum(bytes, start), start + 20);
}

/**
 * Every step is reversible, so any change within one word is detected. A call into zlib for 16 bytes costs five times
 * this.
 */
function headerSum(bytes: Buffer, start: number): number {
  let sum = 0x4d46;
  for (let at = start + 4; at < start + 20; at += 4) {
    sum = Math.imul(sum ^ bytes.readUInt32LE(at), 0x9e37_79b1);
    sum ^= sum >>> 15;
  }
  return sum >>> 0;
}

export function hasMarker(bytes: Buffer, start: number): boolean {
  return bytes.readUInt32LE(start) === markerU32;
}

/** The header if its checksum is valid; the caller checks the marker. Needs 24 bytes after `start`. */
export function decodeFrameHeader(bytes: Buffer, start: number): FrameHeader | undefined {
  if (bytes.readUInt32LE(start + 20) !== headerSum(bytes, start)) return undefined;
  return {
    length: bytes.readUInt32LE(start + 4),
    synced: bytes.readUIntLE(start + 8, 6),
    kind: bytes.readUInt16LE(start + 14),
    payloadCrc: bytes.readUInt32LE(start + 16),
  };
}

/** A buffer that grows while frames are written into it. */
export class FrameBuffer {
  bytes: Buffer;
  used = 0;

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity);
  }

  reserve(count: number): void {
    const needed = this.used + count;
    if (needed <= this.bytes.byteLength) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.byteLength * 2));
    this.bytes.copy(grown, 0, 0, this.used);
    this.bytes = grown;
  }

  putChange(change: StoredChange): void {
    const { key, side, body } = change;
    // One JSON array needs one parse; separate fields for every string would cost five times that.
    const head = JSON.stringify(
      side === null
        ? [change.revision, key.resource, key.namespace, key.name]
        : [change.revision, key.resource, key.namespace, key.name, side.uid, side.labels, side.fields, side.owners],
    );
    const bodyLength = body === null ? 0 : body.byteLength;
    this.reserve(8 + head.length * 3 + bodyLength);
    const headLength = this.bytes.write(head, this.used + 8, "utf8");
    this.bytes.writeUInt32LE(headLength, this.used);
    this.bytes.writeUInt32LE(body === null ? deletion : bodyLength, this.used + 4);
    this.used += 8 + headLength;
    if (body !== null) {
      this.bytes.set(body, this.used);
      this.used += bodyLength;
    }
  }
}

/**
 * Reads the changes of a payload. The bodies are copied from the file buffer into small slabs: with views into the
 * buffer, one surviving object would keep megabytes of overwritten ones in memory.
 */
export class ChangeReader {
  readonly #names = new Map<string, string>();
  #slab = Buffer.alloc(0);
  #slabUsed = 0;

  /**
   * Calls back for every change; throws when a payload with a valid checksum has no valid changes, which is a defect of
   * the writer.
   */
  read(bytes: Buffer, start: number, end: number, each: (change: StoredChange) => void): void {
    let at = start;
    while (at < end) {
      const headLength = bytes.readUInt32LE(at);
      const bodyLength = bytes.readUInt32LE(at + 4);
      const headEnd = at + 8 + headLength;
      const head = JSON.parse(bytes.toString("utf8", at + 8, headEnd)) as [
        number,
        string,
        string,
        string,
        string,
        SideRecord["labels"],
        string[],
        SideRecord["owners"],
      ];
      const key = { resource: this.#intern(head[1]), namespace: this.#intern(head[2]), name: head[3] };
      if (bodyLength === deletion) {
        at = headEnd;
        each({ revision: head[0], key, side: null, body: null });
      } else {
        at = headEnd + bodyLength;
        const side = head.length > 4 ? { uid: head[4], labels: head[5], fields: head[6], owners: head[7] } : null;
        each({ revision: head[0], key, side, body: this.#copy(bytes, headEnd, at) });
      }
    }
    if (at !== end) throw new Error(`a change ends ${at - end} bytes after the end of its frame`);
  }

  #intern(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    if (this.#names.size > 10_000) this.#names.clear();
    this.#names.set(name, name);
    return name;
  }

  #copy(bytes: Buffer, start: number, end: number): Buffer {
    const length = end - start;
    if (length > 4096) {
      const own = Buffer.allocUnsafeSlow(length);
      bytes.copy(own, 0, start, end);
      return own;
    }
    if (this.#slabUsed + length > this.#slab.byteLength) {
      this.#slab = Buffer.allocUnsafeSlow(32_768);
      this.#slabUsed = 0;
    }
    bytes.copy(this.#slab, this.#slabUsed, start, end);
    const view = this.#slab.subarray(this.#slabUsed, this.#slabUsed + length);
    this.#slabUsed += length;
    return view;
  }
}

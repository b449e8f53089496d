/**
 * Reads a file of frames until the first invalid one, and classifies it: a tail torn by a crash (which contains nothing
 * acknowledged) or damage to acknowledged data.
 */
import { crc32 } from "node:zlib";
import type { DiskFile } from "./disk.ts";
import { decodeFrameHeader, fileHeaderBytes, frameHeaderBytes, frameMarker, hasMarker } from "./format.ts";

const chunkBytes = 4 << 20;
const headroomBytes = 64 << 10;

export type FramesEnd =
  | { end: "clean"; offset: number }
  | { end: "torn"; offset: number }
  | { end: "corrupt"; offset: number; why: string };

export type OnFrame = (kind: number, bytes: Buffer, start: number, end: number) => void;

export async function readFrames(file: DiskFile, size: number, onFrame: OnFrame): Promise<FramesEnd> {
  const capacity = headroomBytes + Math.min(chunkBytes, size);
  let window = Buffer.allocUnsafeSlow(capacity);
  let spare = Buffer.allocUnsafeSlow(capacity);
  let filled = headroomBytes; // end of the file content in the window
  let at = headroomBytes; // where the next frame begins in the window
  let offset = fileHeaderBytes; // where it begins in the file
  // The next chunk is read while this one is replayed. It is placed after some headroom, which takes the first half of
  // a frame that spans both chunks.
  let readAhead: { position: number; count: Promise<number> } | undefined;
  const startReading = (position: number): void => {
    const want = Math.min(spare.byteLength - headroomBytes, size - position);
    if (want <= 0) readAhead = undefined;
    else readAhead = { position, count: file.read(spare.subarray(headroomBytes, headroomBytes + want), position) };
  };
  const fill = async (needed: number): Promise<boolean> => {
    if (offset + needed > size) return false;
    const count = await readAhead?.count;
    const left = filled - at;
    if (count !== undefined && left <= headroomBytes && left + count >= needed) {
      window.copy(spare, headroomBytes - left, at, filled);
      [window, spare] = [spare, window];
      at = headroomBytes - left;
      filled = headroomBytes + count;
    } else {
      const wider = Buffer.allocUnsafeSlow(Math.max(needed, capacity));
      window.copy(wider, 0, at, filled);
      at = 0;
      filled = left;
      const want = Math.min(wider.byteLength, size - offset) - left;
      filled += await file.read(wider.subarray(left, left + want), offset + left);
      window = wider;
    }
    startReading(offset + filled - at);
    return filled - at >= needed;
  };
  startReading(offset);
  try {
    return await readAll();
  } finally {
    // The caller closes the file next.
    await readAhead?.count;
  }

  async function readAll(): Promise<FramesEnd> {
    while (offset < size) {
      // Awaiting only when bytes are missing: two idle awaits per record would double the time of a restart.
      if (filled - at < frameHeaderBytes && !(await fill(frameHeaderBytes))) return judge(file, offset, size);
      const header = decodeFrameHeader(window, at);
      if (header === undefined || !hasMarker(window, at)) return judge(file, offset, size);
      const frameBytes = frameHeaderBytes + header.length;
      if (filled - at < frameBytes && !(await fill(frameBytes))) return judge(file, offset, size);
      const payload = at + frameHeaderBytes;
      const end = at + frameBytes;
      if (crc32(window.subarray(payload, end)) !== header.payloadCrc) return judge(file, offset, size);
      onFrame(header.kind, window, payload, end);
      at = end;
      offset += frameBytes;
    }
    return { end: "clean", offset };
  }
}

/**
 * Classifies an offset where no valid frame begins.
 *
 * A killed process leaves a prefix of what it wrote. A power failure leaves any subset of the unsynced sectors, the
 * missing ones as zeros. Anything else is damage: truncating there could drop acknowledged data.
 */
async function judge(file: DiskFile, offset: number, size: number): Promise<FramesEnd> {
  const rest = Buffer.allocUnsafeSlow(size - offset);
  await file.read(rest, offset);
  const torn: FramesEnd = { end: "torn", offset };
  const corrupt = (why: string): FramesEnd => ({ end: "corrupt", offset, why });

  const next = findFrameAfter(rest, offset);
  if (next?.acknowledged === true) {
    return corrupt(`a valid record follows it at offset ${offset + next.at}`);
  }
  if (rest.byteLength < frameHeaderBytes) return torn;
  if (hasZeroSector(rest, 0, next?.at ?? rest.byteLength, offset)) return torn;
  if (next !== undefined) return corrupt(`a valid record follows it at offset ${offset + next.at}`);

  const header = decodeFrameHeader(rest, 0);
  const marked = hasMarker(rest, 0);
  if (header === undefined) {
    // Neither marker nor checksum: no frame ever began here.
    return marked ? corrupt("its header does not match its checksum") : torn;
  }
  if (!marked) return corrupt("its marker is damaged");
  if (frameHeaderBytes + header.length > rest.byteLength) return torn;
  return corrupt("its content does not match its checksum");
}

/**
 * The first valid frame after the bad one; `acknowledged` when any frame records that the bad offset had been synced
 * before.
 */
function findFrameAfter(rest: Buffer, offset: number): { at: number; acknowledged: boolean } | undefined {
  let first: number | undefined;
  let at = rest.indexOf(frameMarker, 1);
  while (at >= 0 && at + frameHeaderBytes <= rest.byteLength) {
    const header = decodeFrameHeader(rest, at);
    const end = header === undefined ? 0 : at + frameHeaderBytes + header.length;
    if (
      header !== undefined &&
      end <= rest.byteLength &&
      crc32(rest.subarray(at + frameHeaderBytes, end)) === header.payloadCrc
    ) {
      first ??= at;
      if (header.synced > offset) return { at: first, acknowledged: true };
      at = rest.indexOf(frameMarker, end);
    } else {
      at = rest.indexOf(frameMarker, at + 1);
    }
  }
  return first === undefined ? undefined : { at: first, acknowledged: false };
}

const sectorBytes = 512;

/** Whether any sector of the file within the range is all zeros. */
function hasZeroSector(bytes: Buffer, start: number, end: number, fileOffset: number): boolean {
  let at = start;
  while (at < end) {
    const sectorEnd = Math.min(end, at + sectorBytes - ((fileOffset + at) % sectorBytes));
    let zero = true;
    for (let i = at; i < sectorEnd; i++) {
      if (bytes[i] !== 0) {
        zero = false;
        break;
      }
    }
    if (zero) return true;
    at = sectorEnd;
  }
  return false;
}

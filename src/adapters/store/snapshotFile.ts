/**
 * A snapshot: every live object in frames of a moderate size, followed by a frame with their number. It gets its final
 * name only when it is durable, so an incomplete one is damage, never the result of a crash.
 */
import type { Replay, StoredChange } from "../../ports/store.ts";
import type { Disk } from "./disk.ts";
import {
  type ChangeReader,
  encodeFileHeader,
  FrameBuffer,
  fileHeaderBytes,
  frameHeaderBytes,
  frameKind,
  sealFrame,
} from "./format.ts";
import { readFrames } from "./readFrames.ts";
import { corruption, readFileHeader } from "./storeFiles.ts";

/** About a millisecond of encoding between two writes, each of which yields to the event loop. */
const sliceBytes = 256 << 10;
/** Synced in between, so that the log never waits for one large flush. */
const syncEveryBytes = 16 << 20;

/** Writes and syncs the file under its temporary name; returns its size. */
export async function writeTemporarySnapshot(
  disk: Disk,
  path: string,
  revision: number,
  objects: Iterable<StoredChange>,
  isAborted: () => boolean,
): Promise<number> {
  const file = await disk.open(path, "create");
  try {
    const slice = new FrameBuffer(sliceBytes + (64 << 10));
    let offset = 0;
    let unsynced = 0;
    let count = 0;
    const write = async (bytes: Uint8Array): Promise<void> => {
      if (isAborted()) throw new Error("the store is closing: the snapshot was cancelled");
      await file.write(bytes, offset);
      offset += bytes.byteLength;
      unsynced += bytes.byteLength;
      if (unsynced < syncEveryBytes) return;
      unsynced = 0;
      await file.sync();
    };
    const flush = async (kind: number): Promise<void> => {
      sealFrame(slice.bytes, 0, slice.used, kind, 0);
      await write(slice.bytes.subarray(0, slice.used));
      slice.used = frameHeaderBytes;
    };

    await write(encodeFileHeader("snapshot", { baseRevision: revision, sequence: 0 }));
    slice.used = frameHeaderBytes;
    for (const object of objects) {
      if (object.revision > revision || object.body === null) {
        const { resource, namespace, name } = object.key;
        throw new Error(`${resource} ${namespace}/${name} is not part of the state at revision ${revision}`);
      }
      slice.putChange(object);
      count++;
      if (slice.used >= sliceBytes) await flush(frameKind.changes);
    }
    if (slice.used > frameHeaderBytes) await flush(frameKind.changes);
    slice.bytes.writeUInt32LE(count, frameHeaderBytes);
    slice.used = frameHeaderBytes + 4;
    await flush(frameKind.snapshotEnd);
    await file.sync();
    return offset;
  } finally {
    await file.close();
  }
}

/** Replays a snapshot; returns its size. */
export async function readSnapshot(
  disk: Disk,
  path: string,
  revision: number,
  reader: ChangeReader,
  replay: Replay,
): Promise<number> {
  const file = await disk.open(path, "existing");
  try {
    const size = await file.size();
    const header = await readFileHeader(file, path, "snapshot", size);
    if (header === "torn") throw corruption(path, 0, "the snapshot is empty");
    if (header.baseRevision !== revision) {
      throw corruption(path, 16, `it is of revision ${header.baseRevision}, not ${revision}: the file was renamed`);
    }
    let count = 0;
    let declared = -1;
    const each = (object: StoredChange): void => {
      count++;
      replay.object(object);
    };
    const ended = await readFrames(file, size, (kind, bytes, start, end) => {
      if (kind === frameKind.snapshotEnd) declared = bytes.readUInt32LE(start);
      else reader.read(bytes, start, end, each);
    });
    if (ended.end === "corrupt") throw corruption(path, ended.offset, ended.why);
    if (ended.end === "torn" || declared !== count) {
      const why = `the snapshot ends early: ${count} objects of ${declared < 0 ? "an unknown number" : declared}`;
      throw corruption(path, Math.max(fileHeaderBytes, ended.offset), why);
    }
    return size;
  } finally {
    await file.close();
  }
}

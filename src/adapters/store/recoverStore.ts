/**
 * Reads a data directory back: the newest snapshot, then the segments behind it, in order. It cuts what a crash tore
 * and refuses what is damaged or missing; until it has seen everything it changes nothing but a torn tail.
 */
import type { OpenReport, Replay } from "../../ports/store.ts";
import type { Disk, DiskFile } from "./disk.ts";
import { ChangeReader, frameKind } from "./format.ts";
import { readFrames } from "./readFrames.ts";
import { readSnapshot } from "./snapshotFile.ts";
import { corruption, listStore, missing, readFileHeader, segmentPath, snapshotPath } from "./storeFiles.ts";

/** A segment that takes no more appends. */
export interface EndedSegment {
  path: string;
  lastRevision: number;
  bytes: number;
}

export interface RecoveredStore {
  report: OpenReport;
  snapshotBytes: number;
  ended: EndedSegment[];
  /** The segment that appends continue; without a file it has yet to be made. */
  tail: { sequence: number; size: number; file: DiskFile | undefined };
  /** Left behind by a crash and not needed. */
  obsolete: string[];
}

export async function recoverStore(disk: Disk, directory: string, replay: Replay): Promise<RecoveredStore> {
  const listing = await listStore(disk, directory);
  const reader = new ChangeReader();
  const snapshotRevision = listing.snapshots.at(-1) ?? 0;
  const oldSnapshots = listing.snapshots.slice(0, -1).map((revision) => snapshotPath(directory, revision));
  const recovered: RecoveredStore = {
    report: { revision: snapshotRevision, snapshotRevision, cutBytes: 0 },
    snapshotBytes: 0,
    ended: [],
    tail: { sequence: Math.max(1, listing.segments.at(-1) ?? 0), size: 0, file: undefined },
    obsolete: [...listing.drafts, ...oldSnapshots],
  };
  const bases = await readBases(disk, directory, listing.segments);
  if (snapshotRevision > 0) {
    const path = snapshotPath(directory, snapshotRevision);
    recovered.snapshotBytes = await readSnapshot(disk, path, snapshotRevision, reader, replay);
  }
  for (const [index, sequence] of listing.segments.entries()) {
    const isLast = index === listing.segments.length - 1;
    const nextBase = bases[index + 1];
    // Everything in it is in the snapshot: the next segment begins before the snapshot ends.
    if (!isLast && nextBase !== undefined && nextBase <= snapshotRevision) {
      recovered.obsolete.push(segmentPath(directory, sequence));
      continue;
    }
    const path = segmentPath(directory, sequence);
    await readSegment(disk, { path, base: bases[index], isLast }, reader, replay, recovered);
  }
  return recovered;
}

/** Base revision of each segment; undefined where the header is torn. */
async function readBases(disk: Disk, directory: string, segments: readonly number[]): Promise<(number | undefined)[]> {
  const bases: (number | undefined)[] = [];
  for (const sequence of segments) {
    const path = segmentPath(directory, sequence);
    const file = await disk.open(path, "existing");
    try {
      const header = await readFileHeader(file, path, "log", await file.size());
      if (header !== "torn" && header.sequence !== sequence) {
        throw corruption(path, 24, `it is segment ${header.sequence}, not ${sequence}: the file was renamed`);
      }
      bases.push(header === "torn" ? undefined : header.baseRevision);
    } finally {
      await file.close();
    }
  }
  return bases;
}

interface Segment {
  path: string;
  base: number | undefined;
  isLast: boolean;
}

async function readSegment(
  disk: Disk,
  { path, base, isLast }: Segment,
  reader: ChangeReader,
  replay: Replay,
  recovered: RecoveredStore,
): Promise<void> {
  const { report } = recovered;
  if (base !== undefined && base > report.revision) {
    throw missing(path, `it continues revision ${base}, but the files before it end at revision ${report.revision}`);
  }
  const file = await disk.open(path, "existing");
  let isKept = false;
  try {
    const size = await file.size();
    if (base === undefined) {
      if (!isLast) throw corruption(path, 0, "the file header is cut off, but later segments exist");
      report.cutBytes += size;
      return;
    }
    const ended = await readFrames(file, size, (kind, bytes, start, end) => {
      if (kind !== frameKind.changes) return;
      reader.read(bytes, start, end, (change) => {
        if (change.revision <= report.revision) return;
        report.revision = change.revision;
        replay.change(change);
      });
    });
    if (ended.end === "corrupt") throw corruption(path, ended.offset, ended.why);
    if (!isLast) {
      // A segment is synced before the next one is made, so only the last can be torn.
      if (ended.end === "torn") throw corruption(path, ended.offset, "the record is cut off, but later segments exist");
      recovered.ended.push({ path, lastRevision: report.revision, bytes: size });
      return;
    }
    if (ended.offset < size) {
      report.cutBytes += size - ended.offset;
      await file.truncate(ended.offset);
    }
    // What a killed process wrote but never synced is about to be served as fact.
    await file.sync();
    recovered.tail.file = file;
    recovered.tail.size = ended.offset;
    isKept = true;
  } finally {
    if (!isKept) await file.close();
  }
}

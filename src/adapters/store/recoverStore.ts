/**
 * Recovers a data folder: the newest snapshot, then the segments after it, in order. Truncates a tail that a crash
 * tore and rejects files that are damaged, missing or shorter than was acknowledged; until everything has been read,
 * nothing is changed.
 */
import type { OpenReport, Replay } from "../../ports/store.ts";
import type { Disk, DiskFile } from "./disk.ts";
import { ChangeReader, frameKind } from "./format.ts";
import { readFrames } from "./readFrames.ts";
import { readSnapshot } from "./snapshotFile.ts";
import { corruption, listStore, lost, missing, readFileHeader, segmentPath, snapshotPath } from "./storeFiles.ts";

/** A segment without further appends. */
export interface EndedSegment {
  path: string;
  lastRevision: number;
  bytes: number;
}

export interface RecoveredStore {
  report: OpenReport;
  snapshotBytes: number;
  ended: EndedSegment[];
  /** The segment that appends continue; without a file it has yet to be created. */
  tail: { sequence: number; size: number; file: DiskFile | undefined };
  /** Files that a crash left behind and that are not needed. */
  obsolete: string[];
}

/** What was acknowledged before, and whether the store may go on with less. */
export interface Acknowledged {
  readonly revision: number;
  readonly acceptLoss: boolean;
}

export async function recoverStore(
  disk: Disk,
  directory: string,
  replay: Replay,
  acknowledged: Acknowledged,
): Promise<RecoveredStore> {
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
    // The snapshot contains all of it: the next segment begins before the snapshot ends.
    if (!isLast && nextBase !== undefined && nextBase <= snapshotRevision) {
      recovered.obsolete.push(segmentPath(directory, sequence));
      continue;
    }
    const path = segmentPath(directory, sequence);
    await readSegment(disk, { path, base: bases[index], isLast }, reader, replay, recovered);
  }
  const { report, tail } = recovered;
  try {
    if (report.revision < acknowledged.revision) {
      if (!acknowledged.acceptLoss) throw lost(directory, report.revision, acknowledged.revision);
      report.lost = { after: report.revision, upTo: acknowledged.revision };
    }
    if (tail.file !== undefined) {
      if (report.cutBytes > 0) await tail.file.truncate(tail.size);
      // Data that a killed process wrote and never synced is made durable before it is served.
      await tail.file.sync();
    }
  } catch (error) {
    await tail.file?.close();
    throw error;
  }
  return recovered;
}

/** The base revision of each segment; undefined where the header is torn. */
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
      // A segment is synced before the next one is created, so only the last can be torn.
      if (ended.end === "torn") throw corruption(path, ended.offset, "the record is cut off, but later segments exist");
      recovered.ended.push({ path, lastRevision: report.revision, bytes: size });
      return;
    }
    report.cutBytes += size - ended.offset;
    recovered.tail.file = file;
    recovered.tail.size = ended.offset;
    isKept = true;
  } finally {
    if (!isKept) await file.close();
  }
}

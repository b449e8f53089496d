/** Names and validity of the files of a data folder: the current snapshot, and the segments after it. */
import { join } from "node:path";
import { UserError } from "../../model/userError.ts";
import type { Disk, DiskFile } from "./disk.ts";
import { decodeFileHeader, type FileHeader, type FileType, fileHeaderBytes } from "./format.ts";

export interface Listing {
  /** Numbers of the segments, ascending. */
  segments: number[];
  /** Revisions of the snapshots, ascending. */
  snapshots: number[];
  /** Snapshots that a crash left unfinished. */
  drafts: string[];
}

export function segmentPath(directory: string, sequence: number): string {
  return join(directory, `log-${String(sequence).padStart(10, "0")}`);
}

export function snapshotPath(directory: string, revision: number): string {
  return join(directory, `snapshot-${String(revision).padStart(16, "0")}`);
}

export function draftPath(directory: string, revision: number): string {
  return `${snapshotPath(directory, revision)}.draft`;
}

export async function listStore(disk: Disk, directory: string): Promise<Listing> {
  const listing: Listing = { segments: [], snapshots: [], drafts: [] };
  for (const name of await disk.list(directory)) {
    const segment = /^log-(\d{10,})$/.exec(name)?.[1];
    const snapshot = /^snapshot-(\d{16,})$/.exec(name)?.[1];
    if (segment !== undefined) listing.segments.push(Number(segment));
    else if (snapshot !== undefined) listing.snapshots.push(Number(snapshot));
    else if (/^snapshot-\d+\.draft$/.test(name)) listing.drafts.push(join(directory, name));
  }
  listing.segments.sort((a, b) => a - b);
  listing.snapshots.sort((a, b) => a - b);
  return listing;
}

/** The header, or `torn` when a crash interrupted the creation of the file. */
export async function readFileHeader(
  file: DiskFile,
  path: string,
  type: FileType,
  size: number,
): Promise<FileHeader | "torn"> {
  const bytes = Buffer.alloc(Math.min(size, fileHeaderBytes));
  await file.read(bytes, 0);
  if (size < fileHeaderBytes) return "torn";
  const header = decodeFileHeader(type, bytes);
  if (header === "other version") {
    throw new UserError(
      "store-version",
      `${path} was written by another version of the store (format ${bytes.readUInt32LE(8)})`,
      "start the version that wrote it, or choose another data folder",
    );
  }
  if (header !== "damaged") return header;
  // The header is synced before the first record is written: a file without records acknowledged nothing.
  if (size === fileHeaderBytes) return "torn";
  throw corruption(path, 0, "the file header does not match its checksum");
}

export function corruption(path: string, offset: number, why: string): UserError {
  return new UserError(
    "store-corrupt",
    `${path} is damaged at offset ${offset}: ${why}`,
    "restore the data folder from a backup, or move it away to start empty; nothing was changed",
  );
}

export function missing(path: string, why: string): UserError {
  return new UserError(
    "store-incomplete",
    `${path}: ${why}`,
    "put the missing files back or restore the data folder from a backup; nothing was changed",
  );
}

/** The files end before what was acknowledged. */
export function lost(directory: string, found: number, acknowledged: number): UserError {
  const count = acknowledged - found;
  return new UserError(
    "store-lost",
    `the data folder ${directory} ends at revision ${found}, but revision ${acknowledged} was acknowledged: the last ${
      count === 1 ? "change is" : `${count} changes are`
    } missing`,
    `put the files of the directory back from a backup, or pass --accept-loss to go on from revision ${found}; nothing was changed`,
  );
}

/** The operating system returned an error while the store was being opened. */
export function unusable(directory: string, cause: unknown): UserError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new UserError(
    "store-unusable",
    `cannot open the data folder ${directory}: ${why}`,
    "see that the directory can be read and written by this user and that the disk has room, or choose another one",
    { cause },
  );
}

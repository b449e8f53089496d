/**
 * The API server's store on disk: an append-only log with group commit, and snapshots that replace the log before them.
 *
 *   append --> open batch      --> one write, one sync --> waiters of synced()
 *                     ^ the next batch is filled while this one is in flight
 *
 *   snapshot:  end the segment | write a draft, sync it | rename, sync the directory | remove what it replaces
 *
 * A crash between any two steps leaves either the old snapshot with all its segments or the new one with the segments
 * after it.
 */
import { UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { OpenReport, Replay, Store, StoredChange } from "../../ports/store.ts";
import type { Disk, DiskFile } from "../store/disk.ts";
import { encodeFileHeader, fileHeaderBytes } from "../store/format.ts";
import { HighWaterMark } from "../store/highWaterMark.ts";
import { LogBatch } from "../store/logBatch.ts";
import { nodeDisk } from "../store/nodeDisk.ts";
import { type EndedSegment, recoverStore } from "../store/recoverStore.ts";
import { writeTemporarySnapshot } from "../store/snapshotFile.ts";
import { draftPath, segmentPath, snapshotPath, unusable } from "../store/storeFiles.ts";

export interface FileStoreOptions {
  directory: string;
  /**
   * `sync`: acknowledged means durable. `async`: acknowledged means passed to the operating system, synced every 50 ms.
   */
  durability?: "sync" | "async";
  /** A snapshot is due when the log is longer than this and twice the last snapshot. */
  snapshotLogBytesMin?: number;
  /** Start although acknowledged changes are gone; the report says which. */
  acceptLoss?: boolean;
  disk?: Disk;
  clock?: Pick<Clock, "after">;
}

const asyncSyncMs = 50;
/** How often the folder is looked at, and the high-water mark synced, while the store is open. */
const upkeepMs = 1000;

export class FileStore implements Store {
  readonly #directory: string;
  readonly #durability: "sync" | "async";
  readonly #snapshotLogBytesMin: number;
  readonly #acceptLoss: boolean;
  readonly #disk: Disk;
  readonly #clock: Pick<Clock, "after">;

  #state: "new" | "open" | "closing" | "closed" = "new";
  #failure: UserError | undefined;
  #onFailure: (error: Error) => void = () => {};
  #unlock: (() => void) | undefined;

  #mark: HighWaterMark | undefined;
  #file: DiskFile | undefined;
  #path = "";
  #sequence = 0;
  #offset = 0;
  /** How far the current segment is known to be durable. */
  #syncedOffset = 0;
  #ended: EndedSegment[] = [];
  #snapshotBytes = 0;
  #snapshots: number[] = [];
  /** Highest revision that append accepted. */
  #appended = 0;
  /** Highest revision that was written to the current or an earlier segment. */
  #written = 0;

  /** In order; the last one is open. */
  #batches: LogBatch[] = [new LogBatch()];
  #inFlight: LogBatch | undefined;
  #spare: LogBatch | undefined;
  #writer: Promise<void> | undefined;
  #snapshotting: Promise<void> | undefined;
  #cancelSyncTimer: (() => void) | undefined;
  #backgroundSync: Promise<void> | undefined;
  #cancelUpkeep: (() => void) | undefined;
  #upkeep: Promise<void> | undefined;

  constructor(options: FileStoreOptions) {
    this.#directory = options.directory;
    this.#durability = options.durability ?? "sync";
    this.#snapshotLogBytesMin = options.snapshotLogBytesMin ?? 64 << 20;
    this.#acceptLoss = options.acceptLoss ?? false;
    this.#disk = options.disk ?? nodeDisk();
    this.#clock = options.clock ?? timers;
  }

  async open(replay: Replay): Promise<OpenReport> {
    if (this.#state !== "new") throw new Error("a store is opened once");
    try {
      await this.#disk.makeDirectory(this.#directory);
      this.#unlock = this.#disk.lock(this.#directory);
      this.#mark = await HighWaterMark.open(this.#disk, this.#directory, this.#acceptLoss);
      const report = await this.#recover(replay, this.#mark);
      this.#state = "open";
      this.#scheduleUpkeep();
      return report;
    } catch (error) {
      await this.#file?.close();
      await this.#mark?.close();
      this.#unlock?.();
      this.#state = "closed";
      // Only an error of the operating system is the user's to fix; any other is a defect of the program.
      const isSystem = error instanceof Error && "syscall" in error;
      throw isSystem ? unusable(this.#directory, error) : error;
    }
  }

  async #recover(replay: Replay, mark: HighWaterMark): Promise<OpenReport> {
    const acknowledged = { revision: mark.revision, acceptLoss: this.#acceptLoss };
    const found = await recoverStore(this.#disk, this.#directory, replay, acknowledged);
    const { report, tail } = found;
    this.#snapshots = report.snapshotRevision > 0 ? [report.snapshotRevision] : [];
    this.#snapshotBytes = found.snapshotBytes;
    this.#ended = found.ended;
    this.#written = report.revision;
    if (tail.file === undefined) {
      await this.#startSegment(tail.sequence);
    } else {
      this.#file = tail.file;
      this.#path = segmentPath(this.#directory, tail.sequence);
      this.#sequence = tail.sequence;
      this.#offset = tail.size;
      this.#syncedOffset = tail.size;
    }
    if (report.lost !== undefined) await mark.acceptLoss(report.revision);
    await mark.advance(report.revision);
    await mark.sync();
    // Revisions that clients have seen are never given again.
    this.#appended = Math.max(report.revision, mark.lostUpTo);
    for (const path of found.obsolete) await this.#disk.remove(path);
    return mark.lostUpTo === 0 ? report : { ...report, revision: this.#appended, lostUpTo: mark.lostUpTo };
  }

  onFailure(listener: (error: Error) => void): void {
    this.#onFailure = listener;
  }

  append(changes: readonly StoredChange[]): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#state !== "open") throw new Error(`append to a store that is ${this.#state}`);
    let revision = this.#appended;
    for (const change of changes) {
      if (change.revision <= revision) {
        throw new Error(`revision ${change.revision} appended after revision ${revision}`);
      }
      revision = change.revision;
    }
    if (changes.length === 0) return;
    this.#gathering().add(changes);
    this.#appended = revision;
    this.#wake();
  }

  synced(): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const gathering = this.#gathering();
    if (!gathering.isEmpty) return gathering.whenDone();
    // The last batch may be empty after one that ends a segment.
    const last = this.#batches.at(-2) ?? this.#inFlight;
    return last === undefined ? Promise.resolve() : last.whenDone();
  }

  wantsSnapshot(): boolean {
    if (this.#state !== "open" || this.#failure !== undefined || this.#snapshotting !== undefined) return false;
    let logBytes = this.#offset;
    for (const segment of this.#ended) logBytes += segment.bytes;
    return logBytes > this.#snapshotLogBytesMin && logBytes > 2 * this.#snapshotBytes;
  }

  /** `objects` is read while appends continue: it must be the state at `revision` and must not change. */
  snapshot(state: { revision: number; objects: Iterable<StoredChange> }): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#state !== "open") return Promise.reject(new Error(`snapshot of a store that is ${this.#state}`));
    if (this.#snapshotting !== undefined) return Promise.reject(new Error("a snapshot is being written already"));
    // Queued before anything else can be appended, so that the old segments end here.
    const rotated = this.#endSegment();
    const done = this.#writeSnapshot(state, rotated).finally(() => {
      this.#snapshotting = undefined;
    });
    this.#snapshotting = done;
    return done;
  }

  async close(): Promise<void> {
    if (this.#state === "new") {
      this.#state = "closed";
      return;
    }
    if (this.#state !== "open") return;
    this.#state = "closing";
    // The caller of the snapshot receives the error.
    await this.#snapshotting?.catch(() => {});
    while (this.#writer !== undefined) await this.#writer;
    this.#cancelSyncTimer?.();
    await this.#backgroundSync;
    this.#cancelUpkeep?.();
    await this.#upkeep;
    try {
      if (this.#failure === undefined && this.#syncedOffset < this.#offset) await this.#syncSegment();
      if (this.#failure === undefined) await this.#mark?.sync();
      await this.#mark?.close();
      await this.#file?.close();
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#state = "closed";
      this.#unlock?.();
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  // ---- The writer

  #gathering(): LogBatch {
    const batch = this.#batches.at(-1);
    if (batch !== undefined) return batch;
    const fresh = this.#spare ?? new LogBatch();
    this.#spare = undefined;
    this.#batches.push(fresh);
    return fresh;
  }

  #wake(): void {
    if (this.#writer !== undefined) return;
    // Starts one turn of the event loop later: requests that arrived together share the first sync.
    this.#writer = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#writeBatches())
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#inFlight = undefined;
        this.#writer = undefined;
        if (this.#failure === undefined && this.#hasWork()) this.#wake();
      });
  }

  #hasWork(): boolean {
    const next = this.#batches[0];
    return next !== undefined && (!next.isEmpty || next.rotation !== undefined);
  }

  async #writeBatches(): Promise<void> {
    while (this.#failure === undefined && this.#hasWork()) {
      const batch = this.#batches.shift();
      if (batch === undefined) return;
      this.#inFlight = batch;
      if (!batch.isEmpty) {
        const file = this.#openFile();
        const bytes = batch.seal(this.#syncedOffset);
        await file.write(bytes, this.#offset);
        this.#offset += bytes.byteLength;
        this.#written = batch.lastRevision;
        if (this.#durability === "sync") await this.#syncSegment();
        else this.#scheduleSync();
      }
      if (this.#failure !== undefined) throw this.#failure;
      this.#inFlight = undefined;
      batch.resolve();
      if (batch.rotation !== undefined) await this.#rotate(batch.rotation);
      const frames = batch.reusable();
      if (frames !== undefined) this.#spare = new LogBatch(frames);
    }
  }

  async #syncSegment(): Promise<void> {
    const upTo = this.#offset;
    const revision = this.#written;
    await this.#openFile().sync();
    this.#syncedOffset = Math.max(this.#syncedOffset, upTo);
    await Promise.all([this.#mark?.advance(revision), this.#checkPlace()]);
  }

  /** An unlinked file still accepts writes, and its data is lost when the process ends. */
  async #checkPlace(): Promise<void> {
    if (!(await this.#openFile().isAt(this.#path))) throw new Error("the file was removed, moved or replaced");
  }

  /** The directory is checked while idle too, so that readiness fails before a write does. */
  #scheduleUpkeep(): void {
    this.#cancelUpkeep = this.#clock.after(upkeepMs, () => {
      this.#upkeep = this.#keepUp()
        .catch((error: unknown) => this.#fail(error))
        .finally(() => {
          this.#upkeep = undefined;
          if (this.#failure === undefined && this.#state === "open") this.#scheduleUpkeep();
        });
    });
  }

  async #keepUp(): Promise<void> {
    await this.#checkPlace();
    await this.#disk.checkWritable(this.#directory);
    await this.#mark?.sync();
  }

  #scheduleSync(): void {
    if (this.#cancelSyncTimer !== undefined || this.#backgroundSync !== undefined) return;
    this.#cancelSyncTimer = this.#clock.after(asyncSyncMs, () => {
      this.#cancelSyncTimer = undefined;
      this.#backgroundSync = this.#syncSegment()
        .catch((error: unknown) => this.#fail(error))
        .finally(() => {
          this.#backgroundSync = undefined;
          if (this.#failure === undefined && this.#state === "open" && this.#syncedOffset < this.#offset) {
            this.#scheduleSync();
          }
        });
    });
  }

  /**
   * The disk failed. After a failed sync the system may have dropped the pages and report the next sync as a success,
   * so nothing is retried: every waiting write is rejected, and the next start reads what really is on the disk.
   */
  #fail(cause: unknown): void {
    if (this.#failure === undefined) {
      const why = cause instanceof Error ? cause.message : String(cause);
      const kept =
        this.#durability === "sync" ? "acknowledged writes are kept" : "writes that were not synced yet may be lost";
      this.#failure = new UserError(
        "store-failed",
        `cannot write ${this.#path}: ${why}`,
        `free space on the disk of the data folder, or repair it, then start again; ${kept}`,
        { cause },
      );
      this.#onFailure(this.#failure);
    }
    this.#inFlight?.reject(this.#failure);
    this.#inFlight = undefined;
    for (const batch of this.#batches) batch.reject(this.#failure);
    this.#batches = [];
  }

  #openFile(): DiskFile {
    if (this.#file === undefined) throw new Error("the store has no open segment");
    return this.#file;
  }

  // ---- Segments and snapshots

  #endSegment(): Promise<void> {
    const batch = this.#gathering();
    const ended = new Promise<void>((resolve, reject) => {
      batch.rotation = { resolve, reject };
    });
    this.#batches.push(this.#spare ?? new LogBatch());
    this.#spare = undefined;
    this.#wake();
    return ended;
  }

  /** A failure to create the new segment fails the snapshot only; a failure to sync the old one fails the store. */
  async #rotate(rotation: { resolve(): void; reject(error: unknown): void }): Promise<void> {
    const old = this.#openFile();
    try {
      this.#cancelSyncTimer?.();
      this.#cancelSyncTimer = undefined;
      await this.#backgroundSync;
      await this.#syncSegment();
    } catch (error) {
      this.#fail(error);
    }
    if (this.#failure !== undefined) {
      rotation.reject(this.#failure);
      throw this.#failure;
    }
    const ended = { path: this.#path, lastRevision: this.#written, bytes: this.#offset };
    try {
      await this.#startSegment(this.#sequence + 1);
    } catch (error) {
      rotation.reject(error);
      // If the file remained, the next start would treat the segment that is still being written as ended.
      await this.#disk.remove(segmentPath(this.#directory, this.#sequence + 1)).catch((again: unknown) => {
        if (!(again instanceof Error && "code" in again && again.code === "ENOENT")) throw again;
      });
      await this.#disk.syncDirectory(this.#directory);
      return;
    }
    this.#ended.push(ended);
    rotation.resolve();
    await this.#upkeep;
    await old.close();
  }

  async #startSegment(sequence: number): Promise<void> {
    const path = segmentPath(this.#directory, sequence);
    const file = await this.#disk.open(path, "create");
    try {
      await file.write(encodeFileHeader("log", { baseRevision: this.#written, sequence }), 0);
      await file.sync();
      await this.#disk.syncDirectory(this.#directory);
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#file = file;
    this.#path = path;
    this.#sequence = sequence;
    this.#offset = fileHeaderBytes;
    this.#syncedOffset = fileHeaderBytes;
  }

  async #writeSnapshot(
    state: { revision: number; objects: Iterable<StoredChange> },
    rotated: Promise<void>,
  ): Promise<void> {
    await rotated;
    const { revision, objects } = state;
    const path = snapshotPath(this.#directory, revision);
    const draft = draftPath(this.#directory, revision);
    let bytes: number;
    try {
      bytes = await writeTemporarySnapshot(this.#disk, draft, revision, objects, () => this.#state !== "open");
      await this.#disk.rename(draft, path);
    } catch (error) {
      await this.#disk.remove(draft).catch(() => {});
      throw error;
    }
    await this.#disk.syncDirectory(this.#directory);
    const oldSnapshots = this.#snapshots.filter((other) => other !== revision);
    this.#snapshots = [revision];
    this.#snapshotBytes = bytes;
    const covered = this.#ended.filter((segment) => segment.lastRevision <= revision);
    this.#ended = this.#ended.filter((segment) => segment.lastRevision > revision);
    for (const segment of covered) await this.#disk.remove(segment.path);
    for (const old of oldSnapshots) await this.#disk.remove(snapshotPath(this.#directory, old));
  }
}

const timers: Pick<Clock, "after"> = {
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};

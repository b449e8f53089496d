/**
 * The API server's memory on a disk: an append-only log with group commit, and now and then a snapshot that replaces
 * the log before it.
 *
 *   append --> gathering batch --> one write, one sync --> waiters of synced()
 *                     ^ the next batch gathers while this one is in flight
 *
 *   snapshot:  end the segment | write a draft, sync it | rename, sync the directory | remove what it replaces
 *
 * A crash between any two steps leaves either the old snapshot with all its segments or the new one with those behind
 * it.
 */
import { UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { OpenReport, Replay, Store, StoredChange } from "../../ports/store.ts";
import type { Disk, DiskFile } from "../store/disk.ts";
import { encodeFileHeader, fileHeaderBytes } from "../store/format.ts";
import { LogBatch } from "../store/logBatch.ts";
import { nodeDisk } from "../store/nodeDisk.ts";
import { type EndedSegment, recoverStore } from "../store/recoverStore.ts";
import { writeSnapshotDraft } from "../store/snapshotFile.ts";
import { draftPath, segmentPath, snapshotPath, unusable } from "../store/storeFiles.ts";

export interface FileStoreOptions {
  directory: string;
  /** `sync`: acknowledged means on the disk. `async`: acknowledged means handed to the system, synced every 50 ms. */
  durability?: "sync" | "async";
  /** A snapshot is worth it when the log is longer than this and twice the last snapshot. */
  snapshotLogBytesMin?: number;
  disk?: Disk;
  clock?: Pick<Clock, "after">;
}

const asyncSyncMs = 50;

export class FileStore implements Store {
  readonly #directory: string;
  readonly #durability: "sync" | "async";
  readonly #snapshotLogBytesMin: number;
  readonly #disk: Disk;
  readonly #clock: Pick<Clock, "after">;

  #state: "new" | "open" | "closing" | "closed" = "new";
  #failure: UserError | undefined;
  #unlock: (() => void) | undefined;

  #file: DiskFile | undefined;
  #path = "";
  #sequence = 0;
  #offset = 0;
  /** How far the current segment is known to be on the disk. */
  #syncedOffset = 0;
  #ended: EndedSegment[] = [];
  #snapshotBytes = 0;
  #snapshots: number[] = [];
  /** Highest revision that append accepted. */
  #appended = 0;
  /** Highest revision that was written to the current or an earlier segment. */
  #written = 0;

  /** In order; the last one gathers. */
  #batches: LogBatch[] = [new LogBatch()];
  #flying: LogBatch | undefined;
  #spare: LogBatch | undefined;
  #writer: Promise<void> | undefined;
  #snapshotting: Promise<void> | undefined;
  #cancelSyncTimer: (() => void) | undefined;
  #backgroundSync: Promise<void> | undefined;

  constructor(options: FileStoreOptions) {
    this.#directory = options.directory;
    this.#durability = options.durability ?? "sync";
    this.#snapshotLogBytesMin = options.snapshotLogBytesMin ?? 64 << 20;
    this.#disk = options.disk ?? nodeDisk();
    this.#clock = options.clock ?? timers;
  }

  async open(replay: Replay): Promise<OpenReport> {
    if (this.#state !== "new") throw new Error("a store is opened once");
    try {
      await this.#disk.makeDirectory(this.#directory);
      this.#unlock = this.#disk.lock(this.#directory);
      const report = await this.#recover(replay);
      this.#state = "open";
      return report;
    } catch (error) {
      await this.#file?.close();
      this.#unlock?.();
      this.#state = "closed";
      // Only a refusal of the system is the user's to fix; the rest is a bug of ours or of the replay.
      const isSystem = error instanceof Error && "syscall" in error;
      throw isSystem ? unusable(this.#directory, error) : error;
    }
  }

  async #recover(replay: Replay): Promise<OpenReport> {
    const found = await recoverStore(this.#disk, this.#directory, replay);
    const { report, tail } = found;
    this.#snapshots = report.snapshotRevision > 0 ? [report.snapshotRevision] : [];
    this.#snapshotBytes = found.snapshotBytes;
    this.#ended = found.ended;
    this.#appended = report.revision;
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
    for (const path of found.obsolete) await this.#disk.remove(path);
    return report;
  }

  append(changes: readonly StoredChange[]): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#state !== "open") throw new Error(`append to a store that is ${this.#state}`);
    let revision = this.#appended;
    for (const change of changes) {
      if (change.revision <= revision) {
        throw new Error(`revision ${change.revision} appended behind revision ${revision}`);
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
    // The last batch may be empty behind one that ends a segment.
    const last = this.#batches.at(-2) ?? this.#flying;
    return last === undefined ? Promise.resolve() : last.whenDone();
  }

  wantsSnapshot(): boolean {
    if (this.#state !== "open" || this.#failure !== undefined || this.#snapshotting !== undefined) return false;
    let logBytes = this.#offset;
    for (const segment of this.#ended) logBytes += segment.bytes;
    return logBytes > this.#snapshotLogBytesMin && logBytes > 2 * this.#snapshotBytes;
  }

  /** `objects` is read while appends go on: it must be the state at `revision` and stay so. */
  snapshot(state: { revision: number; objects: Iterable<StoredChange> }): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#state !== "open") return Promise.reject(new Error(`snapshot of a store that is ${this.#state}`));
    if (this.#snapshotting !== undefined) return Promise.reject(new Error("a snapshot is being written already"));
    // Asked for before anything else can be appended, so that the old segments end at this moment.
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
    // Its own caller receives the error.
    await this.#snapshotting?.catch(() => {});
    while (this.#writer !== undefined) await this.#writer;
    this.#cancelSyncTimer?.();
    await this.#backgroundSync;
    try {
      if (this.#failure === undefined && this.#syncedOffset < this.#offset) await this.#syncSegment();
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
    // One turn of the event loop later: requests that arrived together share the first sync.
    this.#writer = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#writeBatches())
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#flying = undefined;
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
      this.#flying = batch;
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
      this.#flying = undefined;
      batch.resolve();
      if (batch.rotation !== undefined) await this.#rotate(batch.rotation);
      const frames = batch.reusable();
      if (frames !== undefined) this.#spare = new LogBatch(frames);
    }
  }

  async #syncSegment(): Promise<void> {
    const upTo = this.#offset;
    await this.#openFile().sync();
    this.#syncedOffset = Math.max(this.#syncedOffset, upTo);
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
   * The disk failed. After a failed sync the system may have dropped the pages and call the next sync a success, so
   * nothing is retried: every waiting write is refused, and the next start reads what really is on the disk.
   */
  #fail(cause: unknown): void {
    if (this.#failure === undefined) {
      const why = cause instanceof Error ? cause.message : String(cause);
      this.#failure = new UserError(
        "store-failed",
        `cannot write ${this.#path}: ${why}`,
        "free space on or repair the disk of the data directory, then start again; acknowledged writes are kept",
        { cause },
      );
    }
    this.#flying?.reject(this.#failure);
    this.#flying = undefined;
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

  /** A failure to make the new segment ends the snapshot only; a failure to sync the old one is the store's. */
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
      // If the file stayed, the next start would take the segment we go on writing for one that had ended.
      await this.#disk.remove(segmentPath(this.#directory, this.#sequence + 1)).catch((again: unknown) => {
        if (!(again instanceof Error && "code" in again && again.code === "ENOENT")) throw again;
      });
      await this.#disk.syncDirectory(this.#directory);
      return;
    }
    this.#ended.push(ended);
    rotation.resolve();
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
      bytes = await writeSnapshotDraft(this.#disk, draft, revision, objects, () => this.#state !== "open");
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

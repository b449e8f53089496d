/**
 * The highest revision that was acknowledged, in a file of its own beside the log. A log that was removed, emptied or
 * cut at the end of a record looks like an older one; only a second file can tell.
 *
 * The mark is written after the sync of the log and before the acknowledgement, so it is never ahead of the log. It is
 * synced now and then: a killed process leaves it exact, a power failure may leave it behind.
 *
 *   three slots (512 bytes each): a write takes the one that is neither synced last nor written last, so that one torn
 *   by a kill leaves the newest before it, and a power failure leaves the last that was synced
 *   magic 8 | count u48 | revision u48 | revision up to which a loss was accepted u48 | crc u32
 */
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "./disk.ts";
import { corruption } from "./storeFiles.ts";

const magic = "MUSTRMRK";
const slotBytes = 512;
const usedBytes = 30;
const slotCount = 3;

interface Slot {
  count: number;
  revision: number;
  lostUpTo: number;
}

export function markPath(directory: string): string {
  return join(directory, "mark");
}

/** Makes the mark of a store that has acknowledged nothing, unless there is one. */
export async function makeMark(disk: Disk, directory: string): Promise<void> {
  const path = markPath(directory);
  if ((await disk.list(directory)).includes("mark")) return;
  const draft = `${path}.draft`;
  const file = await disk.open(draft, "create");
  try {
    const bytes = Buffer.alloc(slotCount * slotBytes);
    encode({ count: 1, revision: 0, lostUpTo: 0 }).copy(bytes);
    await file.write(bytes, 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(draft, path);
  await disk.syncDirectory(directory);
}

export class HighWaterMark {
  readonly #file: DiskFile;
  #slot: Slot;
  /** Which slot holds it. */
  #at: number;
  /** A slot whose content is on the disk. */
  #syncedAt: number;
  #isSynced = true;
  /** Count of the last write, which may not have ended. */
  #begun = 0;

  private constructor(file: DiskFile, slot: Slot, at: number) {
    this.#file = file;
    this.#slot = slot;
    this.#at = at;
    this.#syncedAt = at;
  }

  /** Opens the mark of a directory; makes one where there is none, as in folders of earlier versions. */
  static async open(disk: Disk, directory: string, acceptLoss: boolean): Promise<HighWaterMark> {
    await makeMark(disk, directory);
    const path = markPath(directory);
    const file = await disk.open(path, "existing");
    const bytes = Buffer.alloc(slotCount * slotBytes);
    let newest: Slot | undefined;
    let at = 0;
    try {
      await file.read(bytes, 0);
      for (let index = 0; index < slotCount; index++) {
        const slot = decode(bytes, index * slotBytes);
        if (slot === undefined || slot.count <= (newest?.count ?? 0)) continue;
        newest = slot;
        at = index;
      }
      if (newest === undefined && !acceptLoss) throw corruption(path, 0, "none of its entries matches its checksum");
      // What a killed process wrote is on the disk before any slot is written again.
      await file.sync();
    } catch (error) {
      await file.close();
      throw error;
    }
    return new HighWaterMark(file, newest ?? { count: 0, revision: 0, lostUpTo: 0 }, at);
  }

  get revision(): number {
    return this.#slot.revision;
  }

  get lostUpTo(): number {
    return this.#slot.lostUpTo;
  }

  async advance(revision: number): Promise<void> {
    if (revision <= this.#slot.revision) return;
    await this.#write({ ...this.#slot, revision });
  }

  /** The store goes on from a revision before the mark. */
  async acceptLoss(revision: number): Promise<void> {
    // One more than was ever given out: a client that has seen the last one must not continue from it.
    const lostUpTo = Math.max(this.#slot.lostUpTo, this.#slot.revision + 1);
    await this.#write({ ...this.#slot, revision, lostUpTo });
    await this.sync();
  }

  async sync(): Promise<void> {
    if (this.#isSynced) return;
    this.#isSynced = true;
    const { count } = this.#slot;
    const at = this.#at;
    await this.#file.sync();
    // Written again meanwhile: what it holds now may not be on the disk.
    if (this.#begun < count + slotCount - 1) this.#syncedAt = at;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #write(slot: Slot): Promise<void> {
    const next = { ...slot, count: this.#slot.count + 1 };
    const at = [0, 1, 2].find((index) => index !== this.#at && index !== this.#syncedAt) ?? 0;
    this.#begun = next.count;
    await this.#file.write(encode(next), at * slotBytes);
    this.#slot = next;
    this.#at = at;
    this.#isSynced = false;
  }
}

function encode({ count, revision, lostUpTo }: Slot): Buffer {
  const bytes = Buffer.alloc(usedBytes);
  bytes.write(magic, 0, "latin1");
  bytes.writeUIntLE(count, 8, 6);
  bytes.writeUIntLE(revision, 14, 6);
  bytes.writeUIntLE(lostUpTo, 20, 6);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 26)), 26);
  return bytes;
}

function decode(bytes: Buffer, start: number): Slot | undefined {
  if (bytes.toString("latin1", start, start + 8) !== magic) return undefined;
  if (bytes.readUInt32LE(start + 26) !== crc32(bytes.subarray(start, start + 26))) return undefined;
  return {
    count: bytes.readUIntLE(start + 8, 6),
    revision: bytes.readUIntLE(start + 14, 6),
    lostUpTo: bytes.readUIntLE(start + 20, 6),
  };
}

/**
 * A disk in memory for crash tests: it counts its operations, and stops or fails at a chosen one. `afterKill` and
 * `afterPowerCut` return the content that would be left. Production code never uses it.
 */
import { basename } from "node:path";
import type { Disk, DiskFile } from "./disk.ts";

export class DiskStopped extends Error {}

export interface DiskFault {
  /** The operation to stop or fail at, counted from 0. */
  step: number;
  /** `stop`: the process ends here. Otherwise the error code of this one operation; later ones work again. */
  kind: "stop" | "EIO" | "ENOSPC";
  /** The fraction of a write that was done, 0 to 1. */
  part: number;
}

interface Inode {
  /** The content as the running system sees it. */
  live: Buffer;
  /** The durable content. */
  durable: Buffer;
}

type NameChange = { name: string; inode: Inode | undefined };

const sectorBytes = 512;

export class CrashDisk implements Disk {
  readonly #live = new Map<string, Inode>();
  readonly #durableNames = new Map<string, Inode>();
  /** Changes of names since the directory was last synced, in order. */
  #unsyncedNames: NameChange[] = [];
  readonly #fault: DiskFault | undefined;
  isStopped = false;
  isReadOnly = false;
  steps = 0;

  constructor(files: ReadonlyMap<string, Buffer> = new Map(), fault?: DiskFault) {
    for (const [name, content] of files) {
      const inode = { live: Buffer.from(content), durable: Buffer.from(content) };
      this.#live.set(name, inode);
      this.#durableNames.set(name, inode);
    }
    this.#fault = fault;
  }

  /** The files as a new process finds them on the running machine. */
  afterKill(): Map<string, Buffer> {
    return new Map([...this.#live].map(([name, inode]) => [name, Buffer.from(inode.live)]));
  }

  /** The files after a power failure. `below` draws integers below its argument and decides what was lost. */
  afterPowerCut(below: (bound: number) => number): Map<string, Buffer> {
    const names = new Map(this.#durableNames);
    const survived = below(this.#unsyncedNames.length + 1);
    for (const { name, inode } of this.#unsyncedNames.slice(0, survived)) {
      if (inode === undefined) names.delete(name);
      else names.set(name, inode);
    }
    return new Map([...names].map(([name, inode]) => [name, mixSectors(inode, below)]));
  }

  async makeDirectory(): Promise<void> {
    await this.#step();
  }

  async list(): Promise<string[]> {
    return [...this.#live.keys()];
  }

  async open(path: string, mode: "existing" | "create"): Promise<DiskFile> {
    const name = basename(path);
    await this.#step();
    let inode = this.#live.get(name);
    if (mode === "existing") {
      if (inode === undefined) throw coded("ENOENT");
    } else if (inode === undefined) {
      inode = { live: Buffer.alloc(0), durable: Buffer.alloc(0) };
      this.#setName(name, inode);
    } else {
      inode.live = Buffer.alloc(0);
    }
    return this.#file(inode);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#step();
    const inode = this.#live.get(basename(from));
    if (inode === undefined) throw coded("ENOENT");
    this.#setName(basename(to), inode);
    this.#setName(basename(from), undefined);
  }

  async remove(path: string): Promise<void> {
    await this.#step();
    if (!this.#live.has(basename(path))) throw coded("ENOENT");
    this.#setName(basename(path), undefined);
  }

  async syncDirectory(): Promise<void> {
    await this.#step();
    this.#durableNames.clear();
    for (const [name, inode] of this.#live) this.#durableNames.set(name, inode);
    this.#unsyncedNames = [];
  }

  async checkWritable(): Promise<void> {
    if (this.isReadOnly) throw coded("EROFS");
  }

  lock(): () => void {
    return () => {};
  }

  #setName(name: string, inode: Inode | undefined): void {
    if (inode === undefined) this.#live.delete(name);
    else this.#live.set(name, inode);
    this.#unsyncedNames.push({ name, inode });
  }

  #file(inode: Inode): DiskFile {
    return {
      size: async () => inode.live.byteLength,
      read: async (into, position) => inode.live.copy(into, 0, position, position + into.byteLength),
      write: async (bytes, position) => {
        await this.#step((part) => writeInto(inode, bytes.subarray(0, Math.floor(bytes.byteLength * part)), position));
        writeInto(inode, bytes, position);
      },
      truncate: async (size) => {
        await this.#step();
        inode.live = Buffer.from(inode.live.subarray(0, size));
      },
      sync: async () => {
        await this.#step();
        inode.durable = Buffer.from(inode.live);
      },
      isAt: async (path) => this.#live.get(basename(path)) === inode,
      close: async () => {},
    };
  }

  async #step(partly?: (part: number) => void): Promise<void> {
    await Promise.resolve();
    if (this.isStopped) throw new DiskStopped("the process has ended");
    const step = this.steps++;
    const fault = this.#fault;
    if (fault === undefined || step !== fault.step) return;
    partly?.(fault.part);
    if (fault.kind !== "stop") throw coded(fault.kind);
    this.isStopped = true;
    throw new DiskStopped(`the process ended at step ${step}`);
  }
}

function writeInto(inode: Inode, bytes: Uint8Array, position: number): void {
  const size = Math.max(inode.live.byteLength, position + bytes.byteLength);
  const grown = Buffer.alloc(size);
  inode.live.copy(grown);
  grown.set(bytes, position);
  inode.live = grown;
}

/** Each sector that differs is the old or the new one; a lost sector beyond the old end is zeros. */
function mixSectors(inode: Inode, below: (bound: number) => number): Buffer {
  const { live, durable } = inode;
  if (live.equals(durable)) return Buffer.from(live);
  const sizes = [durable.byteLength, live.byteLength];
  const size = sizes[below(2)] ?? 0;
  const mixed = Buffer.alloc(size);
  durable.copy(mixed, 0, 0, size);
  for (let at = 0; at < size; at += sectorBytes) {
    if (at < live.byteLength && below(2) === 1) live.copy(mixed, at, at, Math.min(at + sectorBytes, size));
  }
  return mixed;
}

function coded(code: string): Error {
  return Object.assign(new Error(`${code}: injected by the test`), { code });
}

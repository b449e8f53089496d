import * as fs from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { lockDirectory } from "./directoryLock.ts";
import type { Disk, DiskFile } from "./disk.ts";

const closeFd = promisify(fs.close);
const ftruncate = promisify(fs.ftruncate);
const fdatasync = promisify(fs.fdatasync);
const fsync = promisify(fs.fsync);
const fstat = promisify(fs.fstat);
const stat = promisify(fs.stat);

/** The file system of this machine. */
export function nodeDisk(): Disk {
  return {
    async makeDirectory(directory) {
      const made = await fs.promises.mkdir(directory, { recursive: true, mode: 0o700 });
      if (made === undefined) return;
      // `made` is the first directory that was missing: every name from there down has to be synced.
      const first = dirname(resolve(made));
      for (let at = resolve(directory); at !== first; at = dirname(at)) await syncDirectory(dirname(at));
    },
    list: (directory) => fs.promises.readdir(directory),
    async open(path, mode) {
      const fd = await promisify(fs.open)(path, mode === "create" ? "w+" : "r+", 0o600);
      return nodeFile(fd);
    },
    rename: (from, to) => fs.promises.rename(from, to),
    remove: (path) => fs.promises.unlink(path),
    syncDirectory,
    checkWritable: (directory) => fs.promises.access(directory, fs.constants.W_OK | fs.constants.X_OK),
    lock: lockDirectory,
  };
}

async function syncDirectory(directory: string): Promise<void> {
  const fd = await promisify(fs.open)(directory, "r");
  try {
    await fsync(fd);
  } finally {
    await closeFd(fd);
  }
}

// Plain descriptors instead of FileHandle: half the cost per call, and a write is the hot path of every request.
function nodeFile(fd: number): DiskFile {
  return {
    size: async () => (await fstat(fd)).size,
    async read(into, position) {
      let done = 0;
      while (done < into.byteLength) {
        const count = await readOnce(fd, into, done, position + done);
        if (count === 0) break;
        done += count;
      }
      return done;
    },
    async write(bytes, position) {
      let done = 0;
      // A short write is legal (a signal, a disk that is filling up); the next write then gets the actual error.
      while (done < bytes.byteLength) done += await writeOnce(fd, bytes, done, position + done);
    },
    truncate: (size) => ftruncate(fd, size),
    // fdatasync writes the size too when it changed; only times are left out.
    sync: () => fdatasync(fd),
    async isAt(path) {
      const [own, named] = await Promise.all([fstat(fd), stat(path).catch(() => undefined)]);
      return own.ino === named?.ino && own.dev === named.dev;
    },
    close: () => closeFd(fd),
  };
}

function readOnce(fd: number, into: Uint8Array, offset: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, into, offset, into.byteLength - offset, position, (error, count) => {
      if (error) reject(error);
      else resolve(count);
    });
  });
}

function writeOnce(fd: number, bytes: Uint8Array, offset: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, offset, bytes.byteLength - offset, position, (error, count) => {
      if (error) reject(error);
      else resolve(count);
    });
  });
}

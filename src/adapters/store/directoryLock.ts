/**
 * Prevents two processes from opening one data folder. Node has no flock, so the lock is a file that names its
 * holder by process id, start time and boot id: an exited process, a zombie, or another process with the same id holds
 * no lock.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { UserError } from "../../model/userError.ts";

interface Holder {
  pid: number;
  /** Start of the process in clock ticks since boot, empty where /proc is missing. */
  started: string;
  boot: string;
}

/** The id of the process that has the directory open; undefined when none has. */
export function lockHolder(directory: string): number | undefined {
  const found = readIfThere(join(directory, "lock"));
  const holder = found === undefined ? undefined : parseHolder(found);
  return holder !== undefined && isAlive(holder) ? holder.pid : undefined;
}

/** Takes the lock or throws; the returned function releases it. */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, "lock");
  const text = JSON.stringify(holderNow());
  // Written to a temporary file and linked into place, so that a reader never sees a partial lock.
  const draft = join(directory, `lock.${process.pid}.${drafts++}`);
  fs.writeFileSync(draft, text, { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < 10; attempt++) {
      try {
        fs.linkSync(draft, path);
        return () => release(path, text);
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
      }
      const found = readIfThere(path);
      if (found === undefined) continue;
      const holder = parseHolder(found);
      if (holder !== undefined && isAlive(holder)) {
        throw new UserError(
          "store-locked",
          `the data folder ${directory} is in use by process ${holder.pid} (${path})`,
          "stop that process, or choose another data folder",
        );
      }
      removeStale(path, found, `${draft}.stale`);
    }
    throw new UserError(
      "store-locked",
      `the lock ${path} is contended: other processes are starting on the same data folder`,
      "start one process per data folder",
    );
  } finally {
    fs.rmSync(draft, { force: true });
  }
}

// Distinguishes attempts of one process; not used otherwise.
let drafts = 0;

// Two processes may both find the stale lock:
//
//   A  reads stale lock                    B  reads stale lock
//   A  removes it, links its own
//                                          B  removes "it": A's live lock
//
// So the file is renamed first and read then; if it is not the stale one, it is put back.
function removeStale(path: string, stale: string, aside: string): void {
  try {
    fs.renameSync(path, aside);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw error;
  }
  try {
    if (readIfThere(aside) !== stale) fs.linkSync(aside, path);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  } finally {
    fs.rmSync(aside, { force: true });
  }
}

function release(path: string, text: string): void {
  if (readIfThere(path) === text) fs.rmSync(path, { force: true });
}

function holderNow(): Holder {
  return { pid: process.pid, started: processStat(process.pid)?.started ?? "", boot: bootId() };
}

function isAlive(holder: Holder): boolean {
  if (holder.boot !== bootId()) return false;
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    // EPERM: it runs, under another user.
    if (codeOf(error) !== "EPERM") return false;
  }
  const stat = processStat(holder.pid);
  if (stat === undefined) return holder.started === "";
  // A zombie has closed its files and only waits to be reaped.
  return stat.state !== "Z" && stat.state !== "X" && stat.started === holder.started;
}

function processStat(pid: number): { state: string; started: string } | undefined {
  const text = readIfThere(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The second field is the command in parentheses and may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  const started = fields[19];
  return state === undefined || started === undefined ? undefined : { state, started };
}

function bootId(): string {
  return readIfThere("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
}

function parseHolder(text: string): Holder | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return undefined;
    const { pid, started, boot } = value as Record<string, unknown>;
    if (typeof pid !== "number" || !Number.isInteger(pid) || pid <= 0) return undefined;
    return typeof started === "string" && typeof boot === "string" ? { pid, started, boot } : undefined;
  } catch {
    return undefined;
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return fs.readFileSync(path, "utf8");
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT" || code === "ESRCH") return undefined;
    throw error;
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/**
 * Snapshots belong to a disk, not to a volume: volumes are deleted after each session and created again from the newest
 * snapshot. A disk's snapshots are those of its current volume and those tagged with its user and name. Each page is
 * counted as it arrives, so that 200,000 snapshots are never in memory at once.
 */
import type { CloudSnapshot } from "../../model/inventory/cloud.ts";
import type { SnapshotBase } from "../../model/inventory/writes.ts";
import { diskNameOf } from "./readVolume.ts";

/** A disk, or a duplicate volume, that snapshots are counted for. */
export interface SnapshotOwner {
  readonly key: string;
  /** Undefined for a duplicate volume: only snapshots of that volume count for it. */
  readonly name: { readonly user: string; readonly disk: string } | undefined;
  readonly volumeId: string | undefined;
  /** The count of a full pass up to the window, when only the window is read. */
  readonly base?: SnapshotBase;
}

const dayMs = 86_400_000;
/** A snapshot that has been pending for longer is stuck and does not extend the window. */
const pendingDaysMax = 7;

/**
 * The start of the window of an incremental pass, in UTC: yesterday, or the day of the oldest pending snapshot.
 * Snapshots that were started before the window are not counted again, so they must be completed by then.
 */
export function windowStartMs(nowMs: number, oldestPendingMs = nowMs): number {
  const today = Math.floor(nowMs / dayMs);
  const day = Math.min(today - 1, Math.floor(oldestPendingMs / dayMs));
  return Math.max(day, today - pendingDaysMax) * dayMs;
}

/** Prefixes for EC2's filter `start-time`: one for each day of the window, and tomorrow for clocks that are ahead. */
export function windowDays(fromMs: number, nowMs: number): string[] {
  const days: string[] = [];
  for (let atMs = fromMs; atMs <= nowMs + dayMs; atMs += dayMs) days.push(dayPrefix(atMs));
  return days;
}

export function dayPrefix(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, 10)}*`;
}

export interface SnapshotSummary {
  readonly completed: number;
  /** A snapshot is pending that is newer than the newest completed one. An older pending snapshot delays no session. */
  readonly isBackingUp: boolean;
  /** When the newest completed snapshot was started; undefined when there is none. */
  readonly lastCompletedMs: number | undefined;
  readonly failed: readonly string[];
}

export interface SnapshotRules {
  /** `volume` counts only snapshots of the current volume, as an older service did. */
  readonly scope: "disk" | "volume";
  /** Prefixes of the tags of backup tools: a tool that copies a snapshot copies the tags of the disk as well. */
  readonly foreignTagPrefixes: readonly string[];
  readonly foreignDescriptions: readonly string[];
}

export const snapshotRulesDefault: SnapshotRules = {
  scope: "disk",
  foreignTagPrefixes: ["wiz"],
  foreignDescriptions: ["Created by Wiz", "wiz-"],
};

/** The volume id that EC2 gives to a copied snapshot. */
const copiedVolume = "vol-ffffffff";

export function isForeign({ volumeId, tags, description }: CloudSnapshot, rules: SnapshotRules): boolean {
  if (volumeId === copiedVolume) return true;
  if (rules.foreignDescriptions.some((mark) => description.startsWith(mark))) return true;
  for (const key of Object.keys(tags)) {
    if (rules.foreignTagPrefixes.some((prefix) => key.toLowerCase().startsWith(prefix))) return true;
  }
  return false;
}

interface Tally {
  completed: number;
  lastCompletedMs: number;
  lastPendingMs: number;
  baseCompleted: number;
  baseLastMs: number;
  /** Snapshots that were started before the window are in the base already. */
  readonly hasBase: boolean;
  failed: string[];
}

export interface SnapshotPass {
  /** `window`: snapshots that were started before `baseBeforeMs` are in the bases already. */
  readonly reads: "all" | "window";
  readonly baseBeforeMs: number;
  /** Snapshots for which `belongs` will be called. */
  readonly wantedIds?: Iterable<string>;
}

/** Counts snapshots into one summary for each disk. */
export class SnapshotSets {
  readonly seen: { snapshots: number; foreign: number; softDeleted: number; repeated: number };
  private readonly rules: SnapshotRules;
  private readonly byVolume = new Map<string, string[]>();
  private readonly byName = new Map<string, string[]>();
  private readonly tallies = new Map<string, Tally>();
  private readonly ids = new Set<string>();
  private readonly wanted: ReadonlySet<string>;
  private readonly lineage = new Map<string, Set<string>>();
  private readonly pass: SnapshotPass;
  private newestSeen: { readonly id: string; readonly startedMs: number } | undefined;

  constructor(owners: readonly SnapshotOwner[], rules: SnapshotRules, pass: SnapshotPass) {
    this.seen = { snapshots: 0, foreign: 0, softDeleted: 0, repeated: 0 };
    this.rules = rules;
    this.pass = pass;
    this.wanted = new Set(pass.wantedIds ?? []);
    for (const { key, name, volumeId, base } of owners) {
      if (volumeId !== undefined) push(this.byVolume, volumeId, key);
      if (rules.scope === "disk" && name !== undefined) push(this.byName, `${name.user}\n${name.disk}`, key);
      const known = pass.reads === "window" ? base : undefined;
      this.tallies.set(key, {
        completed: known?.completed ?? 0,
        lastCompletedMs: known?.lastCompletedMs ?? -1,
        lastPendingMs: -1,
        baseCompleted: 0,
        baseLastMs: -1,
        hasBase: known !== undefined,
        failed: [],
      });
    }
  }

  add(snapshot: CloudSnapshot): void {
    // Pages may overlap.
    if (this.ids.has(snapshot.id)) {
      this.seen.repeated++;
      return;
    }
    this.ids.add(snapshot.id);
    this.seen.snapshots++;
    const { id, startedMs } = snapshot;
    if (this.newestSeen === undefined || startedMs > this.newestSeen.startedMs) this.newestSeen = { id, startedMs };
    if (isForeign(snapshot, this.rules)) {
      this.seen.foreign++;
      return;
    }
    const { tags } = snapshot;
    const named = this.byName.get(`${tags["gpu-dev-user"] ?? ""}\n${diskNameOf(tags)}`) ?? [];
    const held = this.byVolume.get(snapshot.volumeId) ?? [];
    if (this.wanted.has(snapshot.id)) this.lineage.set(snapshot.id, new Set([...named, ...held]));
    if (tags["delete-date"] !== undefined) {
      this.seen.softDeleted++;
      return;
    }
    for (const key of held) this.count(key, snapshot);
    for (const key of named) if (!held.includes(key)) this.count(key, snapshot);
  }

  private count(key: string, { id, state, startedMs }: CloudSnapshot): void {
    const tally = this.tallies.get(key);
    if (tally === undefined) return;
    if (state === "completed") {
      if (startedMs < this.pass.baseBeforeMs) {
        if (tally.hasBase) return;
        tally.baseCompleted++;
        tally.baseLastMs = Math.max(tally.baseLastMs, startedMs);
      }
      tally.completed++;
      tally.lastCompletedMs = Math.max(tally.lastCompletedMs, startedMs);
    } else if (state === "pending") tally.lastPendingMs = Math.max(tally.lastPendingMs, startedMs);
    else if (state === "error") tally.failed.push(id);
  }

  /** The snapshot that was started last, of any volume. */
  get newest(): { readonly id: string; readonly startedMs: number } | undefined {
    return this.newestSeen;
  }

  /** Whether the snapshot belongs to the disk; undefined when it was not listed. */
  belongs(snapshotId: string, key: string): boolean | undefined {
    return this.lineage.get(snapshotId)?.has(key);
  }

  /** The base for the next incremental passes, for a disk whose snapshots were all read. */
  base(key: string): SnapshotBase {
    const tally = this.tallies.get(key);
    if (tally === undefined || tally.baseLastMs < 0) return { completed: 0, lastCompletedMs: null };
    return { completed: tally.baseCompleted, lastCompletedMs: tally.baseLastMs };
  }

  summary(key: string): SnapshotSummary | undefined {
    const tally = this.tallies.get(key);
    if (tally === undefined) return undefined;
    return {
      completed: tally.completed,
      isBackingUp: tally.lastPendingMs > tally.lastCompletedMs,
      lastCompletedMs: tally.lastCompletedMs < 0 ? undefined : tally.lastCompletedMs,
      failed: tally.failed.sort(),
    };
  }
}

function push(map: Map<string, string[]>, at: string, key: string): void {
  const here = map.get(at);
  if (here === undefined) map.set(at, [key]);
  else here.push(key);
}

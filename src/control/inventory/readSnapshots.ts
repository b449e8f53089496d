/**
 * Reads the snapshots of all disks in a few hundred calls at most. A full pass lists all snapshots of the account,
 * tagged or not. Between two full passes only snapshots started since yesterday are read, and all snapshots of disks
 * that no full pass has counted. A full pass also tests the filter by start time that the next passes need: a cloud
 * that does not support it returns an empty list and no error.
 */
import type { Read } from "../../decide/inventory/planAvailability.ts";
import {
  dayPrefix,
  type SnapshotOwner,
  type SnapshotRules,
  SnapshotSets,
  windowDays,
  windowStartMs,
} from "../../decide/inventory/snapshotSets.ts";
import type { CloudSnapshot } from "../../model/inventory/cloud.ts";
import type { SnapshotBase } from "../../model/inventory/writes.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Cloud, SnapshotFilter } from "../../ports/cloud.ts";
import type { SnapshotMemory } from "../../ports/database.ts";

export interface SnapshotReadInput {
  readonly cloud: Cloud;
  readonly owners: readonly SnapshotOwner[];
  readonly rules: SnapshotRules;
  readonly wantedIds: Iterable<string>;
  readonly memory: SnapshotMemory | undefined;
  /** When the newest snapshot in the database was started. */
  readonly newestKnownMs: number;
  /** The maximum age of the last full pass; 0 makes every pass a full one. */
  readonly fullEveryMs: number;
  readonly nowMs: number;
  readonly cancel: Cancel;
}

export interface SnapshotReadResult {
  readonly sets: Read<SnapshotSets>;
  /** Volumes whose snapshots could not be read, while those of others could. */
  readonly unknown: ReadonlySet<string>;
  readonly problems: readonly string[];
  /** The bases that this pass has counted, for the next incremental passes. */
  readonly memory: SnapshotMemory | undefined;
  readonly pass: "all" | "window";
}

export async function readSnapshots(input: SnapshotReadInput): Promise<SnapshotReadResult> {
  const { rules, memory, nowMs, fullEveryMs } = input;
  // The last full pass is in the future if the clock has been set back since.
  const ageMs = nowMs - (memory?.fullAtMs ?? 0);
  const isRecent = memory !== undefined && ageMs >= 0 && ageMs < fullEveryMs;
  if (isRecent && rules.scope === "disk") {
    const answer = await readWindow(input, memory);
    if (answer !== "filterNotHonoured") return answer;
  }
  return readAll(input);
}

async function readAll({
  cloud,
  owners,
  rules,
  wantedIds,
  nowMs,
  cancel,
}: SnapshotReadInput): Promise<SnapshotReadResult> {
  // Snapshots that are pending now may be completed in the next pass, so the window must begin before them.
  let oldestPendingMs = nowMs;
  const pending = await cloud.snapshots(
    { type: "pending" },
    (page) => {
      for (const { startedMs } of page) oldestPendingMs = Math.min(oldestPendingMs, startedMs);
    },
    { cancel },
  );
  if (!pending.ok) return failed("all", pending.why);
  const baseBeforeMs = windowStartMs(nowMs, oldestPendingMs);
  const sets = new SnapshotSets(owners, rules, { reads: "all", baseBeforeMs, wantedIds });
  const listed = await cloud.snapshots({ type: "all" }, addTo(sets), { cancel });
  if (!listed.ok) return failed("all", listed.why);
  const canFilter = await supportsStartTimeFilter(cloud, sets, cancel);
  return {
    sets: { ok: true, value: sets },
    unknown: new Set(),
    problems: [],
    memory: canFilter ? { fullAtMs: nowMs, baseBeforeMs, bases: basesOf(sets, owners) } : undefined,
    pass: "all",
  };
}

async function readWindow(
  input: SnapshotReadInput,
  memory: SnapshotMemory,
): Promise<SnapshotReadResult | "filterNotHonoured"> {
  const { cloud, owners, rules, wantedIds, nowMs, cancel } = input;
  const { baseBeforeMs } = memory;
  const sets = new SnapshotSets(owners, rules, { reads: "window", baseBeforeMs, wantedIds });
  const list = (which: SnapshotFilter) => cloud.snapshots(which, addTo(sets), { cancel });
  // Owners without a base: disks that are new or got another volume since the last full pass, and duplicate volumes.
  const uncounted = owners.filter(({ base }) => base === undefined);
  const users = [...new Set(uncounted.flatMap(({ name }) => (name === undefined ? [] : [name.user])))].sort();
  const wide: SnapshotFilter[] = [
    // Up to the newest snapshot in the database: its clock may be behind the cloud's.
    { type: "startedOn", prefixes: windowDays(baseBeforeMs, Math.max(nowMs, input.newestKnownMs)) },
    { type: "pending" },
    ...(users.length === 0 ? [] : [{ type: "users" as const, users }]),
  ];
  for (const which of wide) {
    const read = await list(which);
    if (!read.ok) return failed("window", read.why);
    // The database has a snapshot inside the window, and the filter found none.
    if (which.type === "startedOn" && sets.newest === undefined && input.newestKnownMs >= baseBeforeMs) {
      return "filterNotHonoured";
    }
  }
  const volumes = [...new Set(uncounted.flatMap(({ volumeId }) => volumeId ?? []))].sort();
  const unknown = new Set<string>();
  const problems: string[] = [];
  for (let at = 0; at < volumes.length; at += batch) {
    const ids = volumes.slice(at, at + batch);
    const read = await list({ type: "volumes", ids });
    if (read.ok) continue;
    // Only these volumes are unknown; the snapshots of the others are complete.
    for (const id of ids) unknown.add(id);
    problems.push(`snapshots of ${ids.length} volumes: ${read.why}`);
  }
  const counted = uncounted.filter(({ volumeId }) => volumeId === undefined || !unknown.has(volumeId));
  const bases = basesOf(sets, counted);
  return {
    sets: { ok: true, value: sets },
    unknown,
    problems,
    memory: bases.size === 0 ? undefined : { ...memory, bases },
    pass: "window",
  };
}

/**
 * Whether a filter by day finds the newest snapshot of the full list. Without any snapshot the filter cannot be tested,
 * and the next pass is a full one.
 */
async function supportsStartTimeFilter(cloud: Cloud, { newest }: SnapshotSets, cancel: Cancel): Promise<boolean> {
  if (newest === undefined) return false;
  let isFound = false;
  const which: SnapshotFilter = { type: "startedOn", prefixes: [dayPrefix(newest.startedMs)] };
  const read = await cloud.snapshots(
    which,
    (page) => {
      if (page.some(({ id }) => id === newest.id)) isFound = true;
    },
    { cancel },
  );
  return read.ok && isFound;
}

function addTo(sets: SnapshotSets): (page: readonly CloudSnapshot[]) => void {
  return (page) => {
    for (const snapshot of page) sets.add(snapshot);
  };
}

function failed(pass: SnapshotReadResult["pass"], why: string): SnapshotReadResult {
  return { sets: { ok: false, why }, unknown: new Set(), problems: [`snapshots: ${why}`], memory: undefined, pass };
}

const batch = 200;

function basesOf(sets: SnapshotSets, owners: readonly SnapshotOwner[]): Map<string, SnapshotBase> {
  const bases = new Map<string, SnapshotBase>();
  for (const { key } of owners) if (!key.includes(":")) bases.set(key, sets.base(key));
  return bases;
}

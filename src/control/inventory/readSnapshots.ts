/**
 * The snapshots of all disks in a few hundred calls at most. A full pass lists everything that the account has, tagged
 * or not. Between two full passes only what was begun since yesterday is read, and everything of disks that no full
 * pass has counted. A full pass also tries the filter that the next passes rely on: a cloud that does not understand it
 * answers with an empty list and no error.
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

export interface SnapshotsQuestion {
  readonly cloud: Cloud;
  readonly owners: readonly SnapshotOwner[];
  readonly rules: SnapshotRules;
  readonly wantedIds: Iterable<string>;
  readonly memory: SnapshotMemory | undefined;
  /** When the newest snapshot that the rows know of was begun. */
  readonly newestKnownMs: number;
  /** How old the last full pass may be; 0 makes every pass a full one. */
  readonly fullEveryMs: number;
  readonly nowMs: number;
  readonly cancel: Cancel;
}

export interface SnapshotsAnswer {
  readonly sets: Read<SnapshotSets>;
  /** Volumes whose own read failed, while the rest is known. */
  readonly unknown: ReadonlySet<string>;
  readonly problems: readonly string[];
  /** What the next windows build on, as far as this pass has counted it. */
  readonly memory: SnapshotMemory | undefined;
  readonly pass: "all" | "window";
}

export async function readSnapshots(question: SnapshotsQuestion): Promise<SnapshotsAnswer> {
  const { rules, memory, nowMs, fullEveryMs } = question;
  // A full pass in the future was timed by a clock that has been set back since.
  const ageMs = nowMs - (memory?.fullAtMs ?? 0);
  const isRecent = memory !== undefined && ageMs >= 0 && ageMs < fullEveryMs;
  if (isRecent && rules.scope === "disk") {
    const answer = await readWindow(question, memory);
    if (answer !== "filterNotHonoured") return answer;
  }
  return readAll(question);
}

async function readAll({
  cloud,
  owners,
  rules,
  wantedIds,
  nowMs,
  cancel,
}: SnapshotsQuestion): Promise<SnapshotsAnswer> {
  // Those that are pending now may be whole in the next pass: the window has to begin before them.
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
  const canFilter = await understandsDays(cloud, sets, cancel);
  return {
    sets: { ok: true, value: sets },
    unknown: new Set(),
    problems: [],
    memory: canFilter ? { fullAtMs: nowMs, baseBeforeMs, bases: basesOf(sets, owners) } : undefined,
    pass: "all",
  };
}

async function readWindow(
  question: SnapshotsQuestion,
  memory: SnapshotMemory,
): Promise<SnapshotsAnswer | "filterNotHonoured"> {
  const { cloud, owners, rules, wantedIds, nowMs, cancel } = question;
  const { baseBeforeMs } = memory;
  const sets = new SnapshotSets(owners, rules, { reads: "window", baseBeforeMs, wantedIds });
  const list = (which: SnapshotFilter) => cloud.snapshots(which, addTo(sets), { cancel });
  // Without a base: disks that came since the last full pass or got another volume, and volumes that are no disk.
  const uncounted = owners.filter(({ base }) => base === undefined);
  const users = [...new Set(uncounted.flatMap(({ name }) => (name === undefined ? [] : [name.user])))].sort();
  const wide: SnapshotFilter[] = [
    // Up to the newest that is known of: the database's clock may be behind the cloud's.
    { type: "startedOn", prefixes: windowDays(baseBeforeMs, Math.max(nowMs, question.newestKnownMs)) },
    { type: "pending" },
    ...(users.length === 0 ? [] : [{ type: "users" as const, users }]),
  ];
  for (const which of wide) {
    const read = await list(which);
    if (!read.ok) return failed("window", read.why);
    // The rows know of a snapshot inside the window, and the window is empty.
    if (which.type === "startedOn" && sets.newest === undefined && question.newestKnownMs >= baseBeforeMs) {
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
    // Only these are unknown: what the wide listings gave about the others holds.
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
 * Whether a filter by day finds the newest snapshot that the listing gave. With no snapshot at all there is nothing to
 * try it on, and nothing to save either: the next pass is a full one.
 */
async function understandsDays(cloud: Cloud, { newest }: SnapshotSets, cancel: Cancel): Promise<boolean> {
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

function failed(pass: SnapshotsAnswer["pass"], why: string): SnapshotsAnswer {
  return { sets: { ok: false, why }, unknown: new Set(), problems: [`snapshots: ${why}`], memory: undefined, pass };
}

const batch = 200;

function basesOf(sets: SnapshotSets, owners: readonly SnapshotOwner[]): Map<string, SnapshotBase> {
  const bases = new Map<string, SnapshotBase>();
  for (const { key } of owners) if (!key.includes(":")) bases.set(key, sets.base(key));
  return bases;
}

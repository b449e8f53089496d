/**
 * The snapshots of all disks in a few hundred calls at most: one listing of everything that is tagged, then those of
 * volumes that no tagged snapshot was seen of. Between two full passes only what was begun since yesterday is read.
 */
import type { Read } from "../../decide/inventory/planAvailability.ts";
import {
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
  /** Volumes that exist: only of these can there be snapshots that no tag finds. */
  readonly volumesListed: ReadonlySet<string>;
  readonly memory: SnapshotMemory | undefined;
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
  /** After a full pass: what the next windows build on. */
  readonly memory: SnapshotMemory | undefined;
  readonly pass: "all" | "window";
}

export async function readSnapshots(question: SnapshotsQuestion): Promise<SnapshotsAnswer> {
  const { cloud, owners, rules, wantedIds, memory, nowMs, fullEveryMs, cancel } = question;
  const isRecent = memory !== undefined && nowMs - memory.fullAtMs < fullEveryMs;
  const reads = isRecent && rules.scope === "disk" ? "window" : "all";
  const baseBeforeMs = reads === "window" && memory !== undefined ? memory.baseBeforeMs : windowStartMs(nowMs);
  const sets = new SnapshotSets(owners, rules, { reads, baseBeforeMs, wantedIds });
  const add = (page: readonly CloudSnapshot[]): void => {
    for (const snapshot of page) sets.add(snapshot);
  };
  const list = async (which: SnapshotFilter): Promise<string | undefined> => {
    const read = await cloud.snapshots(which, add, { cancel });
    return read.ok ? undefined : read.why;
  };
  const failed = (why: string): SnapshotsAnswer => ({
    sets: { ok: false, why },
    unknown: new Set(),
    problems: [`snapshots: ${why}`],
    memory: undefined,
    pass: reads,
  });
  const wide: SnapshotFilter[] =
    reads === "all"
      ? [{ type: "tagged" }]
      : [{ type: "startedOn", prefixes: windowDays(baseBeforeMs, nowMs) }, { type: "pending" }];
  // Disks that came since the last full pass have no base: everything of theirs is read.
  const strangers = reads === "window" ? owners.filter(({ base, disk }) => base === undefined && disk !== "") : [];
  const users = [...new Set(strangers.map(({ user }) => user))].sort();
  if (users.length > 0) wide.push({ type: "users", users });
  for (const which of wide) {
    const why = await list(which);
    if (why !== undefined) return failed(why);
  }
  const looked = reads === "window" ? strangers : owners;
  const bare = [...new Set(looked.map(({ volumeId }) => volumeId))].filter(
    (id): id is string => id !== undefined && question.volumesListed.has(id) && !sets.sawVolume(id),
  );
  const unknown = new Set<string>();
  const problems: string[] = [];
  for (let at = 0; at < bare.length; at += batch) {
    const ids = bare.slice(at, at + batch);
    const why = await list({ type: "volumes", ids });
    if (why === undefined) continue;
    // Only these are unknown: what the wide listing said about the others holds.
    for (const id of ids) unknown.add(id);
    problems.push(`snapshots of ${ids.length} volumes: ${why}`);
  }
  const isWhole = reads === "all" && unknown.size === 0;
  return {
    sets: { ok: true, value: sets },
    unknown,
    problems,
    memory: isWhole ? { fullAtMs: nowMs, baseBeforeMs, bases: basesOf(sets, owners) } : undefined,
    pass: reads,
  };
}

const batch = 200;

function basesOf(sets: SnapshotSets, owners: readonly SnapshotOwner[]): Map<string, SnapshotBase> {
  const bases = new Map<string, SnapshotBase>();
  for (const { key } of owners) if (!key.includes(":")) bases.set(key, sets.base(key));
  return bases;
}

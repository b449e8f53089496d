/**
 * Matches EBS volumes with the rows of the disks table. A row that has the volume's id matches first, so a renamed disk
 * keeps its volume. Other volumes are matched by the user and disk name in their tags; of several with the same name
 * one is chosen.
 */
import type { CloudVolume } from "../../model/inventory/cloud.ts";
import type { DiskRow } from "../../model/inventory/rows.ts";
import type { SnapshotBase } from "../../model/inventory/writes.ts";
import { pickVolume } from "./pickVolume.ts";
import { holdOf, isAddressable, isGone, isStable, tagsOf, type VolumeTags } from "./readVolume.ts";
import type { SnapshotOwner } from "./snapshotSets.ts";

export interface MatchRules {
  readonly nameFallback: boolean;
  /** Undefined when there is no list of users. */
  readonly knownUsers: ReadonlySet<string> | undefined;
}

/** How a volume matches the database. Every volume has exactly one match. */
export type VolumeMatch =
  | {
      readonly is: "linked";
      readonly volume: CloudVolume;
      readonly row: DiskRow;
      readonly tags: VolumeTags | undefined;
    }
  | { readonly is: "ofName"; readonly volume: CloudVolume; readonly row: DiskRow; readonly tags: VolumeTags }
  | { readonly is: "new"; readonly volume: CloudVolume; readonly tags: VolumeTags }
  | { readonly is: "duplicate"; readonly volume: CloudVolume; readonly tags: VolumeTags; readonly why: string }
  | { readonly is: "nameHeldByDeleted"; readonly volume: CloudVolume; readonly row: DiskRow; readonly tags: VolumeTags }
  | { readonly is: "transient" | "missingTags"; readonly volume: CloudVolume }
  | { readonly is: "invalid"; readonly volume: CloudVolume; readonly why: string };

export interface DiskMatches {
  /** By volume id, in order. */
  readonly volumes: readonly VolumeMatch[];
  /** Rows whose volume the cloud did not list, and rows without a volume, each with the volume that may replace it. */
  readonly unmatched: readonly UnmatchedRow[];
  /** Rows with the id of a volume that is matched with another row. */
  readonly duplicateRows: readonly DiskRow[];
  /** Disks of which another volume is attached: their claim must not be cleared. */
  readonly heldElsewhere: ReadonlySet<string>;
}

export interface UnmatchedRow {
  readonly row: DiskRow;
  readonly successor: CloudVolume | undefined;
}

export function matchDisks(rows: readonly DiskRow[], listed: readonly CloudVolume[], rules: MatchRules): DiskMatches {
  const volumes = uniqueById(listed);
  const sortedRows = [...rows].sort((a, b) => (a.diskId < b.diskId ? -1 : 1));
  const byName = new Map(sortedRows.map((row) => [nameKey(row.userId, row.diskName), row]));
  const byVolume = new Map<string, DiskRow[]>();
  for (const row of sortedRows) {
    if (row.volumeId === null) continue;
    const same = byVolume.get(row.volumeId);
    if (same === undefined) byVolume.set(row.volumeId, [row]);
    else same.push(row);
  }
  const matches = new Map<string, VolumeMatch>();
  const linkedRows = new Set<string>();
  const duplicateRows: DiskRow[] = [];
  const candidates = new Map<string, { volume: CloudVolume; tags: VolumeTags }[]>();
  for (const volume of volumes) {
    const tags = tagsOf(volume, rules.nameFallback);
    const owners = byVolume.get(volume.id) ?? [];
    if (owners.length > 0 && !isGone(volume)) {
      const row = bestOwner(owners, tags);
      for (const other of owners) {
        if (other === row) continue;
        duplicateRows.push(other);
        linkedRows.add(other.diskId);
      }
      linkedRows.add(row.diskId);
      matches.set(volume.id, { is: "linked", volume, row, tags });
    } else if (!isStable(volume)) matches.set(volume.id, { is: "transient", volume });
    else if (tags === undefined) matches.set(volume.id, { is: "missingTags", volume });
    else {
      const key = nameKey(tags.user, tags.disk);
      const same = candidates.get(key);
      if (same === undefined) candidates.set(key, [{ volume, tags }]);
      else same.push({ volume, tags });
    }
  }
  const successors = new Map<string, CloudVolume>();
  const heldElsewhere = new Set<string>();
  for (const [key, group] of candidates) {
    const row = byName.get(key);
    const markDuplicate = (volume: CloudVolume, tags: VolumeTags, why: string): void => {
      matches.set(volume.id, { is: "duplicate", volume, tags, why });
      if (row !== undefined && holdOf(volume) === "held") heldElsewhere.add(row.diskId);
    };
    if (row !== undefined && !row.isDeleted && linkedRows.has(row.diskId)) {
      for (const { volume, tags } of group)
        markDuplicate(volume, tags, `the disk already has the volume ${row.volumeId}`);
      continue;
    }
    const winner = pickVolume(group.map(({ volume }) => volume));
    for (const { volume, tags } of group) {
      if (winner === undefined)
        markDuplicate(volume, tags, "two volumes of this disk are attached, so neither is chosen: detach one");
      else if (volume !== winner) markDuplicate(volume, tags, `${winner.id} was chosen for the disk`);
      else if (row === undefined) matches.set(volume.id, asNew(volume, tags, rules));
      else if (row.isDeleted) matches.set(volume.id, { is: "nameHeldByDeleted", volume, row, tags });
      else {
        matches.set(volume.id, { is: "ofName", volume, row, tags });
        successors.set(row.diskId, volume);
      }
    }
  }
  const unmatched = sortedRows
    .filter(({ diskId }) => !linkedRows.has(diskId))
    .map((row) => ({ row, successor: successors.get(row.diskId) }));
  return {
    volumes: volumes.map(({ id }) => matches.get(id) as VolumeMatch),
    unmatched,
    duplicateRows,
    heldElsewhere,
  };
}

function asNew(volume: CloudVolume, tags: VolumeTags, rules: MatchRules): VolumeMatch {
  if (!isAddressable(tags.disk))
    return { is: "invalid", volume, why: `the disk name ${tags.disk} is not valid: use letters, digits, _ and -` };
  if (rules.knownUsers !== undefined && !rules.knownUsers.has(tags.user)) {
    return { is: "invalid", volume, why: `user ${tags.user} does not exist` };
  }
  return { is: "new", volume, tags };
}

/** Pages of the cloud's list may overlap. If two entries of a volume differ, the attached one is used. */
function uniqueById(listed: readonly CloudVolume[]): CloudVolume[] {
  const byId = new Map<string, CloudVolume>();
  for (const volume of listed) {
    const before = byId.get(volume.id);
    if (before === undefined || (holdOf(before) !== "held" && holdOf(volume) === "held")) byId.set(volume.id, volume);
  }
  return [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

function bestOwner(owners: readonly DiskRow[], tags: VolumeTags | undefined): DiskRow {
  const named = (row: DiskRow): boolean => row.userId === tags?.user && row.diskName === tags.disk;
  const sorted = [...owners].sort(
    (a, b) =>
      Number(a.isDeleted) - Number(b.isDeleted) ||
      Number(named(b)) - Number(named(a)) ||
      (a.diskId < b.diskId ? -1 : 1),
  );
  return sorted[0] as DiskRow;
}

export function nameKey(user: string, disk: string): string {
  return `${user}\n${disk}`;
}

/** Volumes and users to look up again before a missing volume is acted on. */
export interface Suspects {
  readonly volumeIds: readonly string[];
  /** Users of disks that a reservation claims and that have no volume. */
  readonly users: readonly string[];
}

export function suspectsOf({ unmatched }: DiskMatches): Suspects {
  const volumeIds = new Set<string>();
  const users = new Set<string>();
  for (const { row, successor } of unmatched) {
    if (row.isDeleted) continue;
    const claimed = row.inUse || row.reservationId !== null;
    const willBeMarked = row.missingSinceMs === null;
    if (row.volumeId !== null && (claimed || successor !== undefined || willBeMarked)) volumeIds.add(row.volumeId);
    if (row.volumeId === null && claimed && successor === undefined) users.add(row.userId);
  }
  return { volumeIds: [...volumeIds].sort(), users: [...users].sort() };
}

/** Owners whose snapshots are counted: rows, disks that will be imported, and duplicate volumes. */
export function snapshotOwners(matches: DiskMatches, bases: ReadonlyMap<string, SnapshotBase>): SnapshotOwner[] {
  const owners: SnapshotOwner[] = [];
  const ofRow = (row: DiskRow, volumeId: string | undefined): void => {
    const base = bases.get(row.diskId);
    const owner = { key: row.diskId, name: { user: row.userId, disk: row.diskName }, volumeId };
    // A base was counted with the volume of the row; with another volume all snapshots are counted again.
    const isSame = volumeId === undefined || volumeId === row.volumeId;
    owners.push(base === undefined || !isSame ? owner : { ...owner, base });
  };
  for (const match of matches.volumes) {
    const volumeId = match.volume.id;
    if (match.is === "linked") ofRow(match.row, volumeId);
    else if (match.is === "new") owners.push({ key: `new:${volumeId}`, name: match.tags, volumeId });
    else if (match.is === "duplicate") owners.push({ key: `other:${volumeId}`, name: undefined, volumeId });
  }
  for (const { row, successor } of matches.unmatched) {
    // The old volume remains the disk's volume until it is known to be deleted.
    const isReplaced = row.volumeId === null || row.missingSinceMs !== null;
    ofRow(row, (isReplaced ? successor?.id : undefined) ?? row.volumeId ?? undefined);
  }
  return owners;
}

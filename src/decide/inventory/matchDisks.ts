/**
 * Which volume belongs to which row. By id first: a disk that was renamed keeps its volume, whatever the tags say.
 * Volumes that no row names are matched by user and name, and of several only one can be the disk.
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

/** What a volume is to the database. Every volume is exactly one of these. */
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
  /** Rows whose volume the cloud did not list, and rows that have none: with what is about to take its place. */
  readonly loose: readonly LooseRow[];
  /** Rows that name a volume which another row has the better right to. */
  readonly shadowed: readonly DiskRow[];
  /** Disks of which some other volume is held: their claim must not be cleared. */
  readonly heldElsewhere: ReadonlySet<string>;
}

export interface LooseRow {
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
  const shadowed: DiskRow[] = [];
  const contenders = new Map<string, { volume: CloudVolume; tags: VolumeTags }[]>();
  for (const volume of volumes) {
    const tags = tagsOf(volume, rules.nameFallback);
    const owners = byVolume.get(volume.id) ?? [];
    if (owners.length > 0 && !isGone(volume)) {
      const row = bestOwner(owners, tags);
      for (const other of owners) {
        if (other === row) continue;
        shadowed.push(other);
        linkedRows.add(other.diskId);
      }
      linkedRows.add(row.diskId);
      matches.set(volume.id, { is: "linked", volume, row, tags });
    } else if (!isStable(volume)) matches.set(volume.id, { is: "transient", volume });
    else if (tags === undefined) matches.set(volume.id, { is: "missingTags", volume });
    else {
      const key = nameKey(tags.user, tags.disk);
      const same = contenders.get(key);
      if (same === undefined) contenders.set(key, [{ volume, tags }]);
      else same.push({ volume, tags });
    }
  }
  const successors = new Map<string, CloudVolume>();
  const heldElsewhere = new Set<string>();
  for (const [key, group] of contenders) {
    const row = byName.get(key);
    const lose = (volume: CloudVolume, tags: VolumeTags, why: string): void => {
      matches.set(volume.id, { is: "duplicate", volume, tags, why });
      if (row !== undefined && holdOf(volume) === "held") heldElsewhere.add(row.diskId);
    };
    if (row !== undefined && !row.isDeleted && linkedRows.has(row.diskId)) {
      for (const { volume, tags } of group) lose(volume, tags, `the disk has its live volume ${row.volumeId}`);
      continue;
    }
    const winner = pickVolume(group.map(({ volume }) => volume));
    for (const { volume, tags } of group) {
      if (winner === undefined) lose(volume, tags, "two volumes of this disk are attached: nothing is chosen");
      else if (volume !== winner) lose(volume, tags, `${winner.id} is taken for the disk`);
      else if (row === undefined) matches.set(volume.id, asNew(volume, tags, rules));
      else if (row.isDeleted) matches.set(volume.id, { is: "nameHeldByDeleted", volume, row, tags });
      else {
        matches.set(volume.id, { is: "ofName", volume, row, tags });
        successors.set(row.diskId, volume);
      }
    }
  }
  const loose = sortedRows
    .filter(({ diskId }) => !linkedRows.has(diskId))
    .map((row) => ({ row, successor: successors.get(row.diskId) }));
  return {
    volumes: volumes.map(({ id }) => matches.get(id) as VolumeMatch),
    loose,
    shadowed,
    heldElsewhere,
  };
}

function asNew(volume: CloudVolume, tags: VolumeTags, rules: MatchRules): VolumeMatch {
  if (!isAddressable(tags.disk)) return { is: "invalid", volume, why: `no API can name the disk ${tags.disk}` };
  if (rules.knownUsers !== undefined && !rules.knownUsers.has(tags.user)) {
    return { is: "invalid", volume, why: `there is no user ${tags.user}` };
  }
  return { is: "new", volume, tags };
}

/** The cloud repeats items across pages. Of two answers about one volume the one that says it is held is believed. */
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

/** What must be asked for again before anything is concluded from its absence. */
export interface Suspects {
  readonly volumeIds: readonly string[];
  /** Users of disks that have no volume at all, though a reservation claims them. */
  readonly users: readonly string[];
}

export function suspectsOf({ loose }: DiskMatches): Suspects {
  const volumeIds = new Set<string>();
  const users = new Set<string>();
  for (const { row, successor } of loose) {
    if (row.isDeleted) continue;
    const claimed = row.inUse || row.reservationId !== null;
    if (row.volumeId !== null && (claimed || successor !== undefined)) volumeIds.add(row.volumeId);
    if (row.volumeId === null && claimed && successor === undefined) users.add(row.userId);
  }
  return { volumeIds: [...volumeIds].sort(), users: [...users].sort() };
}

/** Owners whose snapshots have to be counted: rows, disks that are about to get one, and volumes without an owner. */
export function snapshotOwners(matches: DiskMatches, bases: ReadonlyMap<string, SnapshotBase>): SnapshotOwner[] {
  const owners: SnapshotOwner[] = [];
  const ofRow = (row: DiskRow, volumeId: string | undefined): void => {
    const base = bases.get(row.diskId);
    const owner = { key: row.diskId, name: { user: row.userId, disk: row.diskName }, volumeId };
    // A base was counted with the volume that the row names; with another one everything is counted again.
    const isSame = volumeId === undefined || volumeId === row.volumeId;
    owners.push(base === undefined || !isSame ? owner : { ...owner, base });
  };
  for (const match of matches.volumes) {
    const volumeId = match.volume.id;
    if (match.is === "linked") ofRow(match.row, volumeId);
    else if (match.is === "new") owners.push({ key: `new:${volumeId}`, name: match.tags, volumeId });
    else if (match.is === "duplicate") owners.push({ key: `other:${volumeId}`, name: undefined, volumeId });
  }
  for (const { row, successor } of matches.loose) {
    // Until its old volume is known to be gone, that is the disk's volume.
    const isReplaced = row.volumeId === null || row.missingSinceMs !== null;
    ofRow(row, (isReplaced ? successor?.id : undefined) ?? row.volumeId ?? undefined);
  }
  return owners;
}

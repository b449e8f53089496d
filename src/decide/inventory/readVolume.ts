/** The owner of a volume from its tags, and its holder from its attachments. */
import type { CloudVolume, Tags } from "../../model/inventory/cloud.ts";

export interface VolumeTags {
  readonly user: string;
  readonly disk: string;
  readonly reservation: string | undefined;
}

/** Volumes and snapshots are read by one rule, or a disk with both spellings would lose its snapshots. */
export function diskNameOf(tags: Tags): string {
  return tags["disk-name"] || tags["disk_name"] || "";
}

/**
 * Undefined when a required tag is missing or empty. The tag `Name` is for people, and counts only where it was asked
 * for.
 */
export function tagsOf({ tags }: CloudVolume, nameFallback: boolean): VolumeTags | undefined {
  const user = tags["gpu-dev-user"] ?? "";
  const disk = diskNameOf(tags) || (nameFallback ? (tags["Name"] ?? "") : "");
  if (user === "" || disk === "") return undefined;
  return { user, disk, reservation: tags["reservation_id"] || tags["reservation-id"] || undefined };
}

/** What the API can name. */
export function isAddressable(disk: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(disk);
}

const holding = new Set(["attaching", "attached", "detaching", "busy"]);

/** Held, free, or neither: a volume that is being made or unmade says nothing about its disk. */
export function holdOf(volume: CloudVolume): "held" | "free" | "unclear" {
  if (volume.attachments.some(({ state }) => holding.has(state))) return "held";
  const empty = volume.attachments.every(({ state }) => state === "detached");
  return volume.state === "available" && empty ? "free" : "unclear";
}

export function isStable({ state }: CloudVolume): boolean {
  return state === "available" || state === "in-use";
}

/** Listed for a while after it is gone. */
export function isGone({ state }: CloudVolume): boolean {
  return state === "deleted";
}

/** Left behind by an older service that set losers aside before it deleted them. */
export function isQuarantined({ tags }: CloudVolume): boolean {
  return tags["gpu-dev-quarantined"] !== undefined;
}

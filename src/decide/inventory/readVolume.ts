/** The owner of a volume from its tags, and its holder from its attachments. */
import type { CloudVolume, Tags } from "../../model/inventory/cloud.ts";

export interface VolumeTags {
  readonly user: string;
  readonly disk: string;
  readonly reservation: string | undefined;
}

/** Volumes and snapshots use the same function, so that both spellings of the tag match. */
export function diskNameOf(tags: Tags): string {
  return tags["disk-name"] || tags["disk_name"] || "";
}

/** Undefined when a required tag is missing or empty. The tag `Name` is used only with `nameFallback`. */
export function tagsOf({ tags }: CloudVolume, nameFallback: boolean): VolumeTags | undefined {
  const user = tags["gpu-dev-user"] ?? "";
  const disk = diskNameOf(tags) || (nameFallback ? (tags["Name"] ?? "") : "");
  if (user === "" || disk === "") return undefined;
  return { user, disk, reservation: tags["reservation_id"] || tags["reservation-id"] || undefined };
}

/** Whether the name is a valid disk name of the API. */
export function isAddressable(disk: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(disk);
}

const holding = new Set(["attaching", "attached", "detaching", "busy"]);

/** Whether a volume is attached; `unclear` while it is being created or deleted. */
export function holdOf(volume: CloudVolume): "held" | "free" | "unclear" {
  if (volume.attachments.some(({ state }) => holding.has(state))) return "held";
  const empty = volume.attachments.every(({ state }) => state === "detached");
  return volume.state === "available" && empty ? "free" : "unclear";
}

export function isStable({ state }: CloudVolume): boolean {
  return state === "available" || state === "in-use";
}

/** EC2 lists a volume for a while after its deletion. */
export function isGone({ state }: CloudVolume): boolean {
  return state === "deleted";
}

/** An older service tagged duplicate volumes before it deleted them. */
export function isQuarantined({ tags }: CloudVolume): boolean {
  return tags["gpu-dev-quarantined"] !== undefined;
}

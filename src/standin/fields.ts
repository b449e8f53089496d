/**
 * The fields that the documented filters of each listing compare. A filter that is not here is refused, as AWS does.
 */
import type { GroupInstance, VolumeModification } from "../model/inventory/cloud.ts";
import type { StandInSnapshot, StandInVolume } from "./cloud.ts";
import { tagFields } from "./filters.ts";

/** The values of an item that a filter compares; undefined for an unknown filter. */
export type FieldsOf<T> = (item: T, name: string) => readonly string[] | undefined;

type Table<T> = Readonly<Record<string, (item: T) => readonly string[]>>;

/** The properties of every simulated volume. */
export const volumeKind = { type: "gp3", iops: 3000, throughput: 125, encrypted: true, device: "/dev/sdf" } as const;

export function isoOf(atMs: number): string {
  return new Date(atMs).toISOString();
}

/** `us-east-2a` is `use2-az1`. */
export function zoneIdOf(zone: string): string {
  const [area = "", direction = "", rest = ""] = zone.split("-");
  const number = rest.charCodeAt(rest.length - 1) - "a".charCodeAt(0) + 1;
  return `${area}${direction[0] ?? ""}${rest.slice(0, -1)}-az${number}`;
}

export function progressOf({ state }: StandInSnapshot): string {
  return state === "completed" ? "100%" : "5%";
}

const volumes: Table<StandInVolume> = {
  "volume-id": ({ id }) => [id],
  status: ({ state }) => [state],
  size: ({ sizeGb }) => [String(sizeGb)],
  "create-time": ({ createdMs }) => [isoOf(createdMs)],
  "snapshot-id": ({ snapshotId }) => [snapshotId],
  "availability-zone": ({ zone }) => [zone],
  "availability-zone-id": ({ zone }) => [zoneIdOf(zone)],
  "volume-type": () => [volumeKind.type],
  encrypted: () => [String(volumeKind.encrypted)],
  "fast-restored": () => ["false"],
  "multi-attach-enabled": ({ attachments }) => [String(attachments.length > 1)],
  "operator.managed": () => ["false"],
  "operator.principal": () => [],
  "attachment.status": ({ attachments }) => attachments.map(({ state }) => state),
  "attachment.instance-id": ({ attachments }) => attachments.map(({ instanceId }) => instanceId),
  "attachment.device": ({ attachments }) => attachments.map(() => volumeKind.device),
  "attachment.attach-time": ({ attachments, createdMs }) => attachments.map(() => isoOf(createdMs)),
  "attachment.delete-on-termination": ({ attachments }) => attachments.map(() => "false"),
};

const snapshots: Table<StandInSnapshot> = {
  "snapshot-id": ({ id }) => [id],
  "volume-id": ({ volumeId }) => [volumeId],
  status: ({ state }) => [state],
  "start-time": ({ startedMs }) => [isoOf(startedMs)],
  "volume-size": ({ sizeGb }) => [String(sizeGb)],
  description: ({ description }) => [description],
  progress: (snapshot) => [progressOf(snapshot)],
  encrypted: () => [String(volumeKind.encrypted)],
  "storage-tier": () => ["standard"],
  // Only set on Amazon's own snapshots and on time-based copies.
  "owner-alias": () => [],
  "transfer-type": () => [],
};

const modifications: Table<VolumeModification> = {
  "volume-id": ({ volumeId }) => [volumeId],
  "modification-state": ({ state }) => [state],
  "target-size": ({ targetSizeGb }) => [String(targetSizeGb)],
  "target-iops": () => [String(volumeKind.iops)],
  "original-iops": () => [String(volumeKind.iops)],
  "target-volume-type": () => [volumeKind.type],
  "original-volume-type": () => [volumeKind.type],
};

const instances: Table<StandInInstance> = {
  "instance-id": ({ id }) => [id],
  "instance-type": ({ type }) => [type],
  "instance-state-name": (instance) => [stateOf(instance)],
  "availability-zone": ({ zone }) => [zone],
};

/** An instance of a group, with the group's tags, which it gets at launch. */
export interface StandInInstance extends GroupInstance {
  readonly zone: string;
  readonly tags: Readonly<Record<string, string>>;
}

export function stateOf({ lifecycleState }: GroupInstance): string {
  return lifecycleState.startsWith("Terminat") ? "shutting-down" : "running";
}

export const volumeFields: FieldsOf<StandInVolume> = (volume, name) =>
  volumes[name]?.(volume) ?? tagFields(volume.tags, name);

export function snapshotFields(account: string): FieldsOf<StandInSnapshot> {
  return (snapshot, name) =>
    name === "owner-id" ? [account] : (snapshots[name]?.(snapshot) ?? tagFields(snapshot.tags, name));
}

export const modificationFields: FieldsOf<VolumeModification> = (each, name) => modifications[name]?.(each);

export const instanceFields: FieldsOf<StandInInstance> = (each, name) =>
  instances[name]?.(each) ?? tagFields(each.tags, name);

/** Whether a list supports a filter; checked before any item is compared. */
export const known = {
  volumes: (name: string): boolean => name in volumes || isTag(name),
  snapshots: (name: string): boolean => name in snapshots || name === "owner-id" || isTag(name),
  modifications: (name: string): boolean => name in modifications,
  instances: (name: string): boolean => name in instances || isTag(name),
  groups: (name: string): boolean => isTag(name),
};

function isTag(name: string): boolean {
  return name.startsWith("tag:") || name === "tag-key" || name === "tag-value";
}

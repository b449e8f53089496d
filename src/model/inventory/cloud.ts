/** What a cloud reports, as far as the inventory needs it: groups of machines, volumes and their snapshots. */

/** A group of machines that the cloud keeps at a size. */
export interface ScalingGroup {
  readonly name: string;
  readonly desiredCapacity: number;
  readonly instances: readonly GroupInstance[];
  readonly tags: Tags;
}

export interface GroupInstance {
  readonly id: string;
  readonly type: string;
  /** `InService` is running; there are two dozen others, and none of them is. */
  readonly lifecycleState: string;
  readonly healthStatus: string;
}

export type Tags = Readonly<Record<string, string>>;

export interface CloudVolume {
  readonly id: string;
  readonly sizeGb: number;
  /** creating, available, in-use, deleting, deleted, error. */
  readonly state: string;
  readonly createdMs: number;
  /** The snapshot it was made from; empty when it was made empty. */
  readonly snapshotId: string;
  readonly attachments: readonly VolumeAttachment[];
  readonly tags: Tags;
}

export interface VolumeAttachment {
  readonly instanceId: string;
  /** attaching, attached, detaching, detached, busy. */
  readonly state: string;
}

export interface CloudSnapshot {
  readonly id: string;
  readonly volumeId: string;
  /** pending, completed, error, recoverable, recovering. */
  readonly state: string;
  readonly startedMs: number;
  readonly description: string;
  readonly tags: Tags;
}

export interface VolumeModification {
  readonly volumeId: string;
  /** modifying, optimizing, completed, failed. */
  readonly state: string;
  readonly targetSizeGb: number;
}

/** Our identity in the cloud: account and region. */
export interface CloudIdentity {
  readonly account: string;
  readonly region: string;
}

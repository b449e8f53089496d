/** The cloud resources that the inventory reads: Auto Scaling groups, volumes and snapshots. */

/** An Auto Scaling group. */
export interface ScalingGroup {
  readonly name: string;
  readonly desiredCapacity: number;
  readonly instances: readonly GroupInstance[];
  readonly tags: Tags;
}

export interface GroupInstance {
  readonly id: string;
  readonly type: string;
  /** Only `InService` counts as running. */
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
  /** The snapshot that the volume was created from; empty when there is none. */
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

/** The account and region of the credentials. */
export interface CloudIdentity {
  readonly account: string;
  readonly region: string;
}

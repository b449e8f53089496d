import type {
  CloudIdentity,
  CloudSnapshot,
  CloudVolume,
  ScalingGroup,
  VolumeModification,
} from "../model/inventory/cloud.ts";
import type { Cancel } from "./cancel.ts";

/**
 * A cloud, read only: there is no way to change anything in it. A listing is complete or has failed; pages are
 * delivered as they arrive, and pages delivered before a failure must be discarded.
 */
export interface Cloud {
  identity(options?: CloudCallOptions): Promise<CloudRead<CloudIdentity>>;
  scalingGroups(
    onPage: (groups: readonly ScalingGroup[]) => void,
    options?: CloudCallOptions,
  ): Promise<CloudRead<undefined>>;
  volumes(
    which: VolumeFilter,
    onPage: (volumes: readonly CloudVolume[]) => void,
    options?: CloudCallOptions,
  ): Promise<CloudRead<undefined>>;
  snapshots(
    which: SnapshotFilter,
    onPage: (snapshots: readonly CloudSnapshot[]) => void,
    options?: CloudCallOptions,
  ): Promise<CloudRead<undefined>>;
  modifications(
    volumeIds: readonly string[],
    options?: CloudCallOptions,
  ): Promise<CloudRead<readonly VolumeModification[]>>;
  /** The number of calls since the start, and of throttled ones. */
  usage(): CloudUsage;
}

/** `tagged`: all volumes with Muster's tag. The others are reads that confirm an absence. */
export type VolumeFilter =
  | { readonly type: "tagged" }
  | { readonly type: "ids"; readonly ids: readonly string[] }
  | { readonly type: "users"; readonly users: readonly string[] };

/** The account's own snapshots, with and without Muster's tags: backup services and the console set none. */
export type SnapshotFilter =
  | { readonly type: "all" }
  /** Snapshots that were started on one of these days, each written as `2026-11-15*`. */
  | { readonly type: "startedOn"; readonly prefixes: readonly string[] }
  | { readonly type: "pending" }
  | { readonly type: "volumes"; readonly ids: readonly string[] }
  | { readonly type: "users"; readonly users: readonly string[] };

export interface CloudCallOptions {
  readonly cancel?: Cancel;
}

export type CloudRead<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: CloudRefusal; readonly why: string };

/**
 * Denied needs an operator, and so does Expired when it is about credentials. An expired page token is Expired too; it
 * and the other reasons may be over in the next run.
 */
export type CloudRefusal = "Throttled" | "Denied" | "Expired" | "Malformed" | "Unavailable" | "Cancelled";

export interface CloudUsage {
  readonly calls: Readonly<Record<string, number>>;
  readonly retries: number;
  readonly throttles: number;
}

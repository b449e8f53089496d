/** The planned writes of a run. A dry run prints the same plan that a run writes. */
import type { AvailabilityNumbers, DiskChange, DiskImport, DriftEvent } from "./rows.ts";

/** The values of one type. Numbers that could not be read keep their old values. */
export interface TypeWrite {
  readonly gpuType: string;
  readonly numbers: AvailabilityNumbers;
  /** Whether a number differs from the row; otherwise only the time of the check is written. */
  readonly changed: boolean;
}

export type DiskWrite =
  | {
      readonly kind: "update";
      readonly diskId: string;
      /** The row version that the write was decided on; another version rejects the write. */
      readonly rowVersion: number;
      readonly change: DiskChange;
      /** The volume whose bucket the outcome belongs to; undefined for rows without one. */
      readonly volumeId: string | undefined;
      readonly drift: readonly DriftEvent[];
    }
  | {
      readonly kind: "insert";
      readonly row: DiskImport;
      readonly volumeId: string;
      readonly drift: readonly DriftEvent[];
    };

/** The outcome of one write. */
export interface WriteOutcome {
  readonly volumeId: string | undefined;
  /** `changed`: the row was changed, or its name was taken, since it was read. */
  readonly result: "written" | "changed" | "failed";
  /** Why it failed. */
  readonly why?: string;
}

/**
 * Completed snapshots that were started before a fixed day. They can only be deleted, which the next full pass finds.
 */
export interface SnapshotBase {
  readonly completed: number;
  readonly lastCompletedMs: number | null;
}

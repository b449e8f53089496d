/**
 * What a run has decided to write, before it is written: the plan that a dry run prints is the plan that a run carries
 * out.
 */
import type { AvailabilityNumbers, DiskChange, DiskImport, DriftEvent } from "./rows.ts";

/** What one type should say. Numbers that could not be learned are the old ones. */
export interface TypeWrite {
  readonly gpuType: string;
  readonly numbers: AvailabilityNumbers;
  /** Some number differs from what the row says; otherwise only the time of the look is written. */
  readonly changed: boolean;
}

export type DiskWrite =
  | {
      readonly kind: "update";
      readonly diskId: string;
      /** The version that it was decided on; another one refuses the write. */
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

/** What became of one write. */
export interface WriteOutcome {
  readonly volumeId: string | undefined;
  /** `changed`: the row was changed, or its name was taken, since it was read. */
  readonly result: "written" | "changed" | "failed";
  /** Why it failed. */
  readonly why?: string;
}

/** Whole snapshots that were begun before a fixed day: they can only be pruned, and the next full pass sees that. */
export interface SnapshotBase {
  readonly completed: number;
  readonly lastCompletedMs: number | null;
}

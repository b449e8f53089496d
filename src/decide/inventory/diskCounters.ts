/**
 * The disk counters of a run. Every volume is in exactly one bucket and every row in exactly one group, so the counters
 * add up in every run, whichever writes failed.
 */

import type { WriteOutcome } from "../../model/inventory/writes.ts";

/** The result for a volume. */
export type Bucket =
  | "synced"
  | "updated"
  | "created"
  | "skipped_transient"
  | "skipped_missing_tags"
  | "skipped_invalid"
  | "skipped_in_flight"
  | "skipped_unconfirmed"
  | "skipped_changed"
  | "duplicates"
  | "name_conflict"
  | "errors";

/** Further counters; a volume may be in several of them or in none. */
const extraCounterNames = [
  "deleted_but_present",
  "owner_conflict",
  "tag_drift",
  "db_duplicate",
  "quarantined_seen",
  "linked",
  "replaced",
  "lineage_mismatch",
  "unexpected_attach",
  "claims_kept",
  "resizing",
  "marked_missing",
  "reappeared",
  "stale_claim",
  "stale_operation",
  "snapshot_unknown",
  "skipped_in_flight_rows",
] as const;

export type ExtraCounter = (typeof extraCounterNames)[number];

export function noCounters(): Record<ExtraCounter, number> {
  return Object.fromEntries(extraCounterNames.map((name) => [name, 0])) as Record<ExtraCounter, number>;
}

/** The planned counts, before the outcomes of the writes are known. */
export interface DiskTally {
  readonly buckets: ReadonlyMap<string, Bucket>;
  readonly also: Readonly<Record<ExtraCounter, number>>;
  readonly rows: {
    readonly all: number;
    readonly orphanedActive: number;
    readonly orphanedDeleted: number;
    readonly unlinked: number;
  };
}

export type DiskCounters = Readonly<Record<Bucket | ExtraCounter, number>> & {
  readonly aws_volumes: number;
  readonly db_records: number;
  readonly matched: number;
  readonly unlinked: number;
  readonly orphaned_db_active: number;
  readonly orphaned_db_deleted: number;
  /** Rows without a volume that were written; they are in `updated` as well. */
  readonly updated_rows_only: number;
  /** Of `skipped_changed` and `errors`: rows without a volume. */
  readonly skipped_changed_rows: number;
  readonly errors_rows: number;
};

const bucketNames: readonly Bucket[] = [
  "synced",
  "updated",
  "created",
  "skipped_transient",
  "skipped_missing_tags",
  "skipped_invalid",
  "skipped_in_flight",
  "skipped_unconfirmed",
  "skipped_changed",
  "duplicates",
  "name_conflict",
  "errors",
];

export function settleCounters(tally: DiskTally, outcomes: readonly WriteOutcome[]): DiskCounters {
  const final = new Map(tally.buckets);
  let updatedRows = 0;
  let changedRows = 0;
  let failedRows = 0;
  for (const { volumeId, result } of outcomes) {
    if (volumeId === undefined) {
      if (result === "written") updatedRows++;
      else if (result === "changed") changedRows++;
      else failedRows++;
    } else if (result === "changed") final.set(volumeId, "skipped_changed");
    else if (result === "failed") final.set(volumeId, "errors");
  }
  const counts = Object.fromEntries(bucketNames.map((name) => [name, 0])) as Record<Bucket, number>;
  for (const bucket of final.values()) counts[bucket]++;
  const { all, orphanedActive, orphanedDeleted, unlinked } = tally.rows;
  return {
    aws_volumes: final.size,
    db_records: all,
    ...counts,
    updated: counts.updated + updatedRows,
    skipped_changed: counts.skipped_changed + changedRows,
    errors: counts.errors + failedRows,
    orphaned_db_active: orphanedActive,
    orphaned_db_deleted: orphanedDeleted,
    matched: all - orphanedActive - orphanedDeleted - unlinked,
    unlinked,
    updated_rows_only: updatedRows,
    skipped_changed_rows: changedRows,
    errors_rows: failedRows,
    ...tally.also,
  };
}

/** The counters that do not add up; empty when all do. */
export function brokenSums(counters: DiskCounters): string[] {
  const broken: string[] = [];
  const volumes =
    counters.synced +
    (counters.updated - counters.updated_rows_only) +
    counters.created +
    counters.skipped_transient +
    counters.skipped_missing_tags +
    counters.skipped_invalid +
    counters.skipped_in_flight +
    counters.skipped_unconfirmed +
    (counters.skipped_changed - counters.skipped_changed_rows) +
    counters.duplicates +
    counters.name_conflict +
    (counters.errors - counters.errors_rows);
  if (volumes !== counters.aws_volumes)
    broken.push(`aws_volumes is ${counters.aws_volumes}, the sum of its buckets is ${volumes}`);
  const { matched, orphaned_db_active, orphaned_db_deleted, unlinked } = counters;
  const rows = matched + orphaned_db_active + orphaned_db_deleted + unlinked;
  if (rows !== counters.db_records)
    broken.push(`db_records is ${counters.db_records}, the sum of its groups is ${rows}`);
  for (const [name, value] of Object.entries(counters)) {
    if (!Number.isInteger(value) || value < 0) broken.push(`${name} is ${value}`);
  }
  return broken;
}

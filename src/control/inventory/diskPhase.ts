/**
 * Phase 2: disks. The database is read first, with the versions of its rows, then the cloud. A change that the
 * application makes in between is not read, and its new row version rejects a write that was decided without it:
 *
 *   reconciler                 application               cloud
 *   t0  read rows, versions
 *                              claim disk d (version+1)
 *                              create volume        -->  v exists
 *   t1  read volumes: v is there, or is not yet
 *   t2 write d if its version is still the one of t0: rejected, decided again by the next run
 *
 * In the opposite order a volume that is created between the two reads would look deleted, and its claim would be
 * cleared.
 */
import { brokenSums, settleCounters } from "../../decide/inventory/diskCounters.ts";
import { type DiskMatches, matchDisks, snapshotOwners, suspectsOf } from "../../decide/inventory/matchDisks.ts";
import { type DiskPlan, type DiskRules, planDisks } from "../../decide/inventory/planDisks.ts";
import { isGone } from "../../decide/inventory/readVolume.ts";
import type { SnapshotRules } from "../../decide/inventory/snapshotSets.ts";
import { type TrustRules, whyVolumesNotTrusted } from "../../decide/inventory/trustVolumes.ts";
import { assert } from "../../model/assert.ts";
import type { CloudIdentity, CloudVolume, VolumeModification } from "../../model/inventory/cloud.ts";
import type { WriteOutcome } from "../../model/inventory/writes.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Cloud } from "../../ports/cloud.ts";
import type { InventoryReads, InventoryRun } from "../../ports/database.ts";
import type { Log } from "../../ports/log.ts";
import { endedEarly, type PhaseResult } from "./phase.ts";
import { readSnapshots } from "./readSnapshots.ts";

export interface DiskPhaseInput {
  readonly reads: InventoryReads;
  /** Undefined for a dry run: nothing is written. */
  readonly run: InventoryRun | undefined;
  readonly cloud: Cloud;
  readonly identity: CloudIdentity;
  readonly rules: DiskPhaseRules;
  readonly cancel: Cancel;
  readonly log: Log;
}

export interface DiskPhaseRules {
  readonly disks: DiskRules;
  readonly snapshots: SnapshotRules;
  readonly trust: TrustRules;
  /** An operator has confirmed the list: it is trusted however short it is. */
  readonly acceptDrop: boolean;
  readonly nameFallback: boolean;
  readonly snapshotsFullEveryMs: number;
  readonly batchRows: number;
}

/** The number of ids that a message names. */
const namedMax = 20;

export async function diskPhase(input: DiskPhaseInput): Promise<PhaseResult<DiskPlan>> {
  const { reads, run, cloud, rules, cancel, log, identity } = input;
  const read = await reads.disks();
  if (!read.ok) return endedEarly("failed", `database: ${read.why}`, { counters: { errors: 1 } });
  const { rows, reservations, knownUsers, lastReading, snapshotPass, nowMs } = read.value;
  const volumes: CloudVolume[] = [];
  const listed = await cloud.volumes({ type: "tagged" }, (page) => volumes.push(...page), { cancel });
  if (!listed.ok) {
    const status = listed.reason === "Cancelled" ? "deadline" : "failed";
    return endedEarly(status, `cloud: ${listed.why}`, { counters: { errors: 1 } });
  }
  const ids = new Set(volumes.map(({ id }) => id));
  const inUse = rows.filter((row) => row.inUse && !row.isDeleted && row.volumeId !== null);
  const seen = {
    volumes: ids.size,
    inUse: { rows: inUse.length, listed: inUse.filter(({ volumeId }) => ids.has(volumeId ?? "")).length },
    liveLinkedRows: rows.filter(({ isDeleted, volumeId }) => !isDeleted && volumeId !== null).length,
    identity,
  };
  const notTrusted = whyVolumesNotTrusted(seen, lastReading, rules.trust);
  if (notTrusted !== undefined && !rules.acceptDrop) {
    log.error({ reason: notTrusted, ...seen }, "the list of volumes is not trusted");
    return endedEarly("refused", `${notTrusted}; run with --accept-drop if this is correct`);
  }
  const recorded = await run?.recordReading({ volumes: seen.volumes, identity });
  if (recorded?.ok === false) return endedEarly("failed", `database: ${recorded.why}`, { counters: { errors: 1 } });
  const matches = matchDisks(rows, volumes, {
    nameFallback: rules.nameFallback,
    knownUsers: knownUsers === undefined ? undefined : new Set(knownUsers),
  });
  const problems: string[] = [];
  const confirmedAbsent = await confirmAbsence(cloud, matches, problems, cancel);
  const modifications = await readModifications(cloud, matches, problems, cancel);
  const snapshots = await readSnapshots({
    cloud,
    owners: snapshotOwners(matches, snapshotPass?.bases ?? new Map()),
    rules: rules.snapshots,
    wantedIds: volumes.map(({ snapshotId }) => snapshotId).filter((id) => id !== ""),
    memory: snapshotPass,
    newestKnownMs: rows.reduce((newest, { lastSnapshotMs }) => Math.max(newest, lastSnapshotMs ?? 0), 0),
    fullEveryMs: rules.snapshotsFullEveryMs,
    nowMs,
    cancel,
  });
  problems.push(...snapshots.problems);
  if (cancel.cancelled) return endedEarly("deadline", "the deadline passed before anything was written");
  const plan = planDisks({
    rows,
    matches,
    reservations: new Map(reservations.map((row) => [row.reservationId, row])),
    snapshots: snapshots.sets,
    snapshotsUnknown: snapshots.unknown,
    modifications,
    confirmedAbsent,
    nowMs,
    rules: rules.disks,
  });
  warnOfSkipped(matches, log);
  const rowsRead = rows.length;
  if (run === undefined) {
    const planned = plan.writes.map(({ volumeId }) => ({ volumeId, result: "written" as const }));
    const counters = settleCounters(plan.tally, planned);
    const status = problems.length > 0 ? "partial" : "ok";
    return {
      plan,
      drift: plan.reports,
      report: { status, counters, problems, rowsRead, rowsWritten: 0, durationMs: 0 },
    };
  }
  const outcomes: WriteOutcome[] = [];
  let isOutOfTime = false;
  for (let at = 0; at < plan.writes.length; at += rules.batchRows) {
    if (cancel.cancelled) {
      isOutOfTime = true;
      break;
    }
    const batch = plan.writes.slice(at, at + rules.batchRows);
    const written = await run.writeDisks(batch);
    if (!written.ok) {
      const counters = { ...settleRest(plan, outcomes), errors: 1 };
      const rowsWritten = outcomes.filter(({ result }) => result === "written").length;
      return { ...endedEarly("failed", `database: ${written.why}`, { counters, rowsRead, rowsWritten }), drift: [] };
    }
    outcomes.push(...written.value);
  }
  for (const [at, { volumeId, result, why }] of outcomes.entries()) {
    if (result !== "failed") continue;
    const isImport = plan.writes[at]?.kind === "insert";
    log.error({ volumeId, why }, isImport ? "Error importing volume" : "Error reconciling volume");
    problems.push(`${volumeId ?? "a row"}: ${why}`);
  }
  const reported = await run.report("disks", plan.reports);
  if (!reported.ok) problems.push(`database: ${reported.why}`);
  if (snapshots.memory !== undefined && !isOutOfTime) {
    const remembered = await run.rememberSnapshots(snapshots.memory);
    if (!remembered.ok) problems.push(`database: ${remembered.why}`);
  }
  const counters = isOutOfTime ? settleRest(plan, outcomes) : settleCounters(plan.tally, outcomes);
  const broken = isOutOfTime ? [] : brokenSums(settleCounters(plan.tally, outcomes));
  assert(broken.length === 0, broken.join("; "));
  return {
    plan,
    drift: [...plan.reports, ...plan.writes.flatMap(({ drift }) => drift)],
    report: {
      status: isOutOfTime ? "deadline" : problems.length > 0 ? "partial" : "ok",
      counters,
      problems,
      rowsRead,
      rowsWritten: outcomes.filter(({ result }) => result === "written").length,
      durationMs: 0,
    },
  };
}

/** The counters of a phase that stopped early: a write that was not tried counts as `changed`. */
function settleRest(plan: DiskPlan, outcomes: readonly WriteOutcome[]): Readonly<Record<string, number>> {
  const rest = plan.writes.slice(outcomes.length).map(({ volumeId }) => ({ volumeId, result: "changed" as const }));
  return settleCounters(plan.tally, [...outcomes, ...rest]);
}

/** Reads the missing volumes a second time. A failed read confirms nothing. */
async function confirmAbsence(
  cloud: Cloud,
  matches: DiskMatches,
  problems: string[],
  cancel: Cancel,
): Promise<{ volumeIds: ReadonlySet<string>; users: ReadonlySet<string> }> {
  const suspects = suspectsOf(matches);
  const volumeIds = new Set(suspects.volumeIds);
  const users = new Set(suspects.users);
  if (volumeIds.size > 0) {
    const found = (page: readonly CloudVolume[]): void => {
      for (const volume of page) if (!isGone(volume)) volumeIds.delete(volume.id);
    };
    const read = await cloud.volumes({ type: "ids", ids: suspects.volumeIds }, found, { cancel });
    if (!read.ok) {
      volumeIds.clear();
      problems.push(`cloud: missing volumes could not be confirmed: ${read.why}`);
    }
  }
  if (users.size > 0) {
    // A volume of this user that was not in the first list may belong to the disk.
    const known = new Set(matches.volumes.map(({ volume }) => volume.id));
    const found = (page: readonly CloudVolume[]): void => {
      for (const { id, tags } of page) if (!known.has(id)) users.delete(tags["gpu-dev-user"] ?? "");
    };
    const read = await cloud.volumes({ type: "users", users: suspects.users }, found, { cancel });
    if (!read.ok) {
      users.clear();
      problems.push(`cloud: missing volumes could not be confirmed: ${read.why}`);
    }
  }
  return { volumeIds, users };
}

/**
 * Reads the modifications of volumes whose size has changed. If the read fails, the new size is not written; if the
 * read is denied, it is.
 */
async function readModifications(
  cloud: Cloud,
  matches: DiskMatches,
  problems: string[],
  cancel: Cancel,
): Promise<ReadonlyMap<string, VolumeModification>> {
  const grown = matches.volumes.flatMap((match) => {
    if (match.is !== "linked" && match.is !== "ofName") return [];
    const { sizeGb } = match.row;
    // A size that was not recorded before is not a resize.
    return sizeGb !== null && sizeGb !== match.volume.sizeGb ? [match.volume] : [];
  });
  if (grown.length === 0) return new Map();
  const read = await cloud.modifications(
    grown.map(({ id }) => id),
    { cancel },
  );
  if (read.ok) return new Map(read.value.map((each) => [each.volumeId, each]));
  problems.push(`cloud: ${read.why}`);
  if (read.reason === "Denied") return new Map();
  return new Map(grown.map(({ id, sizeGb }) => [id, { volumeId: id, state: "modifying", targetSizeGb: sizeGb }]));
}

/** Logs one line for all skipped volumes. */
function warnOfSkipped(matches: DiskMatches, log: Log): void {
  for (const is of ["missingTags", "invalid"] as const) {
    const skipped = matches.volumes.filter((match) => match.is === is).map(({ volume }) => volume.id);
    if (skipped.length === 0) continue;
    const message =
      is === "missingTags"
        ? "volumes without the tags gpu-dev-user and disk-name are skipped"
        : "volumes with names outside the allowed characters are skipped";
    log.warn({ count: skipped.length, volumes: skipped.slice(0, namedMax) }, message);
  }
}

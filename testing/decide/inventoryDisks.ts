/** Runs the decisions of the disks phase in one call. */

import { brokenSums, type DiskCounters, settleCounters } from "../../src/decide/inventory/diskCounters.ts";
import { matchDisks, snapshotOwners, suspectsOf } from "../../src/decide/inventory/matchDisks.ts";
import { type DiskPlan, type DiskRules, diskRulesDefault, planDisks } from "../../src/decide/inventory/planDisks.ts";
import { SnapshotSets, snapshotRulesDefault } from "../../src/decide/inventory/snapshotSets.ts";
import type { CloudSnapshot, CloudVolume, VolumeModification } from "../../src/model/inventory/cloud.ts";
import type { DiskRow, ReservationRow } from "../../src/model/inventory/rows.ts";
import type { WriteOutcome } from "../../src/model/inventory/writes.ts";
import { nowMs } from "../../src/sim/inventory/builders.ts";

export interface DiskPhaseCase {
  readonly rows?: readonly DiskRow[];
  readonly volumes?: readonly CloudVolume[];
  readonly snapshots?: readonly CloudSnapshot[] | "unknown";
  readonly reservations?: readonly ReservationRow[];
  readonly modifications?: readonly VolumeModification[];
  readonly knownUsers?: readonly string[];
  readonly nameFallback?: boolean;
  /** Volumes that the second read lists and the first did not. */
  readonly reappear?: readonly string[];
  readonly rules?: Partial<DiskRules>;
}

export interface DecidedDisks {
  readonly plan: DiskPlan;
  readonly counters: DiskCounters;
}

export function decideDisks(world: DiskPhaseCase, outcome: WriteOutcome["result"] = "written"): DecidedDisks {
  const { rows = [], volumes = [], snapshots = [], reservations = [], modifications = [] } = world;
  const knownUsers = world.knownUsers === undefined ? undefined : new Set(world.knownUsers);
  const matches = matchDisks(rows, volumes, { nameFallback: world.nameFallback ?? false, knownUsers });
  const suspects = suspectsOf(matches);
  const back = new Set(world.reappear ?? []);
  const wantedIds = volumes.map(({ snapshotId }) => snapshotId);
  const pass = { reads: "all", baseBeforeMs: 0, wantedIds } as const;
  const sets = new SnapshotSets(snapshotOwners(matches, new Map()), snapshotRulesDefault, pass);
  if (snapshots !== "unknown") for (const each of snapshots) sets.add(each);
  const plan = planDisks({
    rows,
    matches,
    reservations: new Map(reservations.map((row) => [row.reservationId, row])),
    snapshots: snapshots === "unknown" ? { ok: false, why: "a page failed" } : { ok: true, value: sets },
    modifications: new Map(modifications.map((each) => [each.volumeId, each])),
    confirmedAbsent: {
      volumeIds: new Set(suspects.volumeIds.filter((id) => !back.has(id))),
      users: new Set(suspects.users.filter((user) => !back.has(user))),
    },
    nowMs,
    rules: { ...diskRulesDefault, ...world.rules },
  });
  const outcomes = plan.writes.map(({ volumeId }) => ({ volumeId, result: outcome }));
  const counters = settleCounters(plan.tally, outcomes);
  const broken = brokenSums(counters);
  if (broken.length > 0) throw new Error(broken.join("; "));
  return { plan, counters };
}

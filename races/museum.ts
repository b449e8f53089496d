import { runSeed, type SeedResult, withTripwires } from "../src/sim/runSeed.ts";
import { runSeeds, type SeedsResult } from "../src/sim/runSeeds.ts";
import { lostReservation, twoReservations } from "./binding/lostReservation.ts";
import { backInTime } from "./caches/backInTime.ts";
import { fiveQueries43 } from "./caches/fiveQueries.ts";
import { inheritedExpectation } from "./caches/inheritedExpectation.ts";
import { lateStatus } from "./caches/lateStatus.ts";
import { lostDelete } from "./caches/lostDelete.ts";
import { mergedRecreate } from "./caches/mergedRecreate.ts";
import { mutationCache } from "./caches/mutationCache.ts";
import { neverReAdded } from "./caches/neverReAdded.ts";
import { orphanByAbsence } from "./caches/orphanByAbsence.ts";
import { ownWrites } from "./caches/ownWrites.ts";
import { twoLeaders } from "./caches/twoLeaders.ts";
import { watchGoesBack } from "./caches/watchGoesBack.ts";
import { forceDelete, lostFinalizer, wrongUnprepare } from "./devices/claimRelease.ts";
import { ghostClaim } from "./devices/ghostClaim.ts";
import { ghostAllocation, releasedTwice } from "./devices/sharedClaims.ts";
import { assumedTooEarly, lateHandler, tornRead } from "./devices/tornClaims.ts";
import type { BuggyVariant, Exhibit, Variant } from "./exhibit.ts";
import { heldGate } from "./gangs/heldGate.ts";
import { lostGang } from "./gangs/lostGang.ts";
import { movedLeader } from "./gangs/movedLeader.ts";
import { straggler } from "./gangs/straggler.ts";
import { strippedLabel } from "./gangs/strippedLabel.ts";
import { forcedDetach } from "./inventory/forcedDetach.ts";
import { lostNode } from "./inventory/lostNode.ts";
import { revivedReservation } from "./inventory/revivedReservation.ts";
import { shiftedGroups } from "./inventory/shiftedGroups.ts";
import { twinVolumes } from "./inventory/twinVolumes.ts";
import { warmClaim } from "./inventory/warmClaim.ts";
import {
  discardedTwiceExhibit,
  lostCharge,
  unlimitedGapExhibit,
  unlinkedTooEarlyExhibit,
} from "./quotas/driftingQuota.ts";
import { followersGhosts, ownerlessWorkload } from "./quotas/ghostQuota.ts";
import { earlyRequest, lateAdmission } from "./quotas/lateAdmission.ts";
import { bindByName } from "./scheduling/bindByName.ts";
import { bindToTheGone } from "./scheduling/bindToTheGone.ts";
import { boughtTwice } from "./scheduling/boughtTwice.ts";
import { deletedJob } from "./scheduling/deletedJob.ts";
import { expiredAssumption, leakedCharge, twoFilters, uncountedBind } from "./scheduling/doubleBooked.ts";
import { brokenPermit, halfAndHalf } from "./scheduling/heldAndWaiting.ts";
import { adoptedPhantom, clearedFlag, lateClaim, leftoverVictims } from "./scheduling/lostPlaces.ts";
import { removedWithPod } from "./scheduling/removedWithPod.ts";
import { movedPod, shrunkCapacity } from "./scheduling/tornBooks.ts";

/** The race museum. */
export const exhibits: readonly Exhibit[] = [
  lateHandler,
  tornRead,
  assumedTooEarly,
  lostFinalizer,
  forceDelete,
  wrongUnprepare,
  releasedTwice,
  shiftedGroups,
  orphanByAbsence,
  revivedReservation,
  warmClaim,
  twinVolumes,
  forcedDetach,
  lostNode,
  lostReservation,
  twoReservations,
  ghostAllocation,
  twoFilters,
  uncountedBind,
  expiredAssumption,
  clearedFlag,
  mergedRecreate,
  bindByName,
  inheritedExpectation,
  strippedLabel,
  straggler,
  lostGang,
  heldGate,
  movedLeader,
  halfAndHalf,
  brokenPermit,
  leftoverVictims,
  discardedTwiceExhibit,
  lateAdmission,
  followersGhosts,
  ownerlessWorkload,
  lostCharge,
  earlyRequest,
  unlimitedGapExhibit,
  leakedCharge,
  unlinkedTooEarlyExhibit,
  shrunkCapacity,
  adoptedPhantom,
  fiveQueries43,
  lateClaim,
  backInTime,
  lostDelete,
  watchGoesBack,
  twoLeaders,
  ownWrites,
  mutationCache,
  lateStatus,
  movedPod,
  neverReAdded,
  ghostClaim,
  removedWithPod,
  boughtTwice,
  deletedJob,
  bindToTheGone,
];

/** By number or by slug. */
export function findExhibit(name: string): Exhibit | undefined {
  return exhibits.find(({ number, slug }) => slug === name || String(number) === name);
}

export function variantsOf(exhibit: Exhibit): readonly Variant[] {
  return [exhibit.fixed, ...exhibit.buggy];
}

/** The results of a variant with its recorded decisions and with seeds. */
export interface ExhibitResult {
  readonly onSchedule: readonly SeedResult[];
  readonly onSeeds: SeedsResult;
}

/** Runs the recorded decisions of the exhibit (of a buggy variant only its own), then seeds. */
export async function playExhibit(
  exhibit: Exhibit,
  variant: Variant,
  seeds: { from: number; count: number; untilBroken?: boolean | string },
): Promise<ExhibitResult> {
  const schedules = isBuggy(variant) ? [variant.schedule] : exhibit.buggy.map(({ schedule }) => schedule);
  const onSchedule: SeedResult[] = [];
  await withTripwires(async () => {
    for (const schedule of schedules) onSchedule.push(await runSeed(variant.scenario, 1, schedule));
  });
  return { onSchedule, onSeeds: await runSeeds(variant.scenario, seeds) };
}

/** The invariant that must be violated; undefined for the fixed variant. */
export function invariantOf(exhibit: Exhibit, variant: Variant): string | undefined {
  return isBuggy(variant) ? (variant.invariant ?? exhibit.invariant) : undefined;
}

export function isBuggy(variant: Variant): variant is BuggyVariant {
  return "schedule" in variant;
}

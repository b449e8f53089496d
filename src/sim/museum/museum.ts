import { runSeed, type SeedResult, withTripwires } from "../runSeed.ts";
import { runSeeds, type SeedsResult } from "../runSeeds.ts";
import { backInTime } from "./backInTime.ts";
import { bindByName } from "./bindByName.ts";
import { boughtTwice } from "./boughtTwice.ts";
import { forceDelete, lostFinalizer, wrongUnprepare } from "./claimRelease.ts";
import { deletedJob } from "./deletedJob.ts";
import { expiredAssumption, leakedCharge, twoFilters, uncountedBind } from "./doubleBooked.ts";
import { discardedTwiceExhibit, lostCharge, unlimitedGapExhibit, unlinkedTooEarlyExhibit } from "./driftingQuota.ts";
import type { BuggyVariant, Exhibit, Variant } from "./exhibit.ts";
import { fiveQueries43 } from "./fiveQueries.ts";
import { forcedDetach } from "./forcedDetach.ts";
import { ghostClaim } from "./ghostClaim.ts";
import { followersGhosts, ownerlessWorkload } from "./ghostQuota.ts";
import { brokenPermit, halfAndHalf } from "./heldAndWaiting.ts";
import { heldGate } from "./heldGate.ts";
import { inheritedExpectation } from "./inheritedExpectation.ts";
import { earlyRequest, lateAdmission } from "./lateAdmission.ts";
import { lateStatus } from "./lateStatus.ts";
import { lostDelete } from "./lostDelete.ts";
import { lostGang } from "./lostGang.ts";
import { lostNode } from "./lostNode.ts";
import { adoptedPhantom, clearedFlag, lateClaim, leftoverVictims } from "./lostPlaces.ts";
import { lostReservation, twoReservations } from "./lostReservation.ts";
import { mergedRecreate } from "./mergedRecreate.ts";
import { movedLeader } from "./movedLeader.ts";
import { mutationCache } from "./mutationCache.ts";
import { neverReAdded } from "./neverReAdded.ts";
import { orphanByAbsence } from "./orphanByAbsence.ts";
import { ownWrites } from "./ownWrites.ts";
import { removedWithPod } from "./removedWithPod.ts";
import { revivedReservation } from "./revivedReservation.ts";
import { ghostAllocation, releasedTwice } from "./sharedClaims.ts";
import { shiftedGroups } from "./shiftedGroups.ts";
import { straggler } from "./straggler.ts";
import { strippedLabel } from "./strippedLabel.ts";
import { movedPod, shrunkCapacity } from "./tornBooks.ts";
import { assumedTooEarly, lateHandler, tornRead } from "./tornClaims.ts";
import { twinVolumes } from "./twinVolumes.ts";
import { twoLeaders } from "./twoLeaders.ts";
import { warmClaim } from "./warmClaim.ts";
import { watchGoesBack } from "./watchGoesBack.ts";

/** The race museum. Parts add their own exhibits here. */
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
];

/** By number or by slug. */
export function findExhibit(name: string): Exhibit | undefined {
  return exhibits.find(({ number, slug }) => slug === name || String(number) === name);
}

export function variantsOf(exhibit: Exhibit): readonly Variant[] {
  return [exhibit.fixed, ...exhibit.buggy];
}

/** What a variant did on a schedule, and on seeds. */
export interface ExhibitResult {
  readonly onSchedule: readonly SeedResult[];
  readonly onSeeds: SeedsResult;
}

/** Plays the schedules of the exhibit (a buggy variant only its own), then seeds. */
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

/** The invariant that must break; undefined for the variant without the mistake. */
export function invariantOf(exhibit: Exhibit, variant: Variant): string | undefined {
  return isBuggy(variant) ? (variant.invariant ?? exhibit.invariant) : undefined;
}

export function isBuggy(variant: Variant): variant is BuggyVariant {
  return "schedule" in variant;
}

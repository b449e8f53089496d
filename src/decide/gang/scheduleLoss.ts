/**
 * The moment in which the last scheduled replica is lost. It is recorded by the very status write that says "none", and announced by an
 * Event whose name follows from the record:
 *
 *   operator                        API
 *   write status: scheduled 0  -->  loss 1 recorded, announced 0      dies here: the next one reads "1, announced 0"
 *   create Event of loss 1     -->  one Event                         dies here: the next one meets the Event it would make
 *   write status: announced 1  -->  loss 1 announced                  nobody announces it again
 */
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type { ScheduleLoss } from "../../model/gang/types.ts";
import { formatTime } from "../../model/time.ts";
import type { GangDraft, Known } from "./gangDraft.ts";
import { hashText } from "./hashes.ts";

export const lossReason = "AllScheduledReplicasLost";

interface Remembered {
  readonly scheduledReplicas?: number;
  readonly scheduleLoss?: ScheduleLoss;
}

/**
 * The record to write with a status in which so many are scheduled. A loss that is on record and not announced is announced before
 * that, so what is written says that it was.
 */
export function recordLoss(
  draft: GangDraft,
  object: Known & { readonly status?: Remembered },
  scheduled: number,
  policy: FullLossPolicy,
  nowMs: number,
): ScheduleLoss | undefined {
  const { scheduleLoss: stored, scheduledReplicas: previous = 0 } = object.status ?? {};
  let loss = stored;
  if (stored !== undefined && stored.announced < stored.count) {
    draft.announce({ ...announceLoss(object, stored, policy), name: lossEventName(object, stored) });
    loss = { ...stored, announced: stored.count };
  }
  if (previous === 0 || scheduled > 0) return loss;
  const count = (loss?.count ?? 0) + 1;
  return { count, replicas: previous, at: formatTime(nowMs), announced: count - 1 };
}

export function announceLoss(object: Known, loss: ScheduleLoss, policy: FullLossPolicy) {
  const what = `All scheduled replicas are lost: there were ${loss.replicas} at ${loss.at}.`;
  const then =
    policy === "Suppress"
      ? "Gang termination is suppressed while none is scheduled; pods are made and scheduled as before."
      : "Gang termination follows after the termination delay unless they come back.";
  return {
    regarding: object,
    type: "Warning" as const,
    reason: lossReason,
    action: "Observing",
    note: `${what} ${then}`,
  };
}

/** The same for every operator that looks at the same loss of the same object. */
export function lossEventName({ metadata }: Known, loss: ScheduleLoss): string {
  return `${metadata.name.slice(0, 200)}.${hashText(`${metadata.uid} ${lossReason} ${loss.count}`)}`;
}

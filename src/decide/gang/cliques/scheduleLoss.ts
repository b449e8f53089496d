/**
 * The loss of the last scheduled replica. It is recorded by the same status write that sets the count to 0, and
 * announced by an Event whose name is derived from the record:
 *
 *   operator                        API
 *   write status: scheduled 0  -->  loss 1 recorded, announced 0      crash here: the next one reads "1, announced 0"
 *   create Event of loss 1     -->  one Event                         crash here: the next operator finds the Event
 *   write status: announced 1  -->  loss 1 announced                  it is not announced again
 */
import type { FullLossPolicy } from "../../../model/gang/settings.ts";
import type { ScheduleLoss } from "../../../model/gang/types.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { formatTime } from "../../../model/values/time.ts";
import type { GangDraft } from "../gangDraft.ts";
import { hashText } from "../sets/hashes.ts";

export const lossReason = "AllScheduledReplicasLost";

interface Remembered {
  readonly scheduledReplicas?: number;
  readonly scheduleLoss?: ScheduleLoss;
}

export interface LossFacts {
  readonly scheduled: number;
  readonly policy: FullLossPolicy;
  /** The operator has deleted the last of them by an update or a termination, and creates others. */
  readonly isReplaced: boolean;
  /** Whether the gang is going to be terminated; evaluated only when a loss is announced. */
  readonly isEnding: () => boolean;
}

/**
 * The record for a status with this number of scheduled replicas. A recorded loss that is not announced yet is
 * announced before the status is written, so the new record has it as announced.
 */
export function recordLoss(
  draft: GangDraft,
  object: KubeObject & { readonly status?: Remembered },
  { scheduled, policy, isReplaced, isEnding }: LossFacts,
  nowMs: number,
): ScheduleLoss | undefined {
  const { scheduleLoss: stored, scheduledReplicas: previous = 0 } = object.status ?? {};
  let loss = stored;
  if (stored !== undefined && stored.announced < stored.count) {
    draft.announce({
      ...announceLoss(object, stored, consequence(policy, isEnding())),
      name: lossEventName(object, stored),
    });
    loss = { ...stored, announced: stored.count };
  }
  if (previous === 0 || scheduled > 0 || isReplaced) return loss;
  const count = (loss?.count ?? 0) + 1;
  return { count, replicas: previous, at: formatTime(nowMs), announced: count - 1 };
}

/**
 * What follows from a loss. The gang may be terminated for another reason, also where this loss alone does not
 * terminate it.
 */
function consequence(policy: FullLossPolicy, isEnding: boolean): string {
  if (isEnding) {
    const unless = policy === "Suppress" ? "recovers or loses all its replicas" : "recovers";
    return `Gang termination follows after the termination delay unless the gang ${unless}.`;
  }
  return policy === "Suppress"
    ? "Gang termination is suppressed while none is scheduled; pods are created and scheduled as before."
    : "Gang termination does not follow now; pods are created and scheduled as before.";
}

function announceLoss(object: KubeObject, loss: ScheduleLoss, then: string) {
  // Nodes are lost one after another, so the count before the loss may be lower than the minimum.
  const what = `All scheduled replicas are lost, the last ${loss.replicas} of them at ${loss.at}.`;
  return {
    regarding: object,
    type: "Warning" as const,
    reason: lossReason,
    action: "Observing",
    note: `${what} ${then}`,
  };
}

/** The same for every operator that sees the same loss of the same object. */
export function lossEventName({ metadata }: KubeObject, loss: ScheduleLoss): string {
  return `${metadata.name.slice(0, 200)}.${hashText(`${metadata.uid} ${lossReason} ${loss.count}`)}`;
}

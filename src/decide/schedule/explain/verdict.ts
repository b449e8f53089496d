import type { QueueDetails, UnschedulableReason } from "../../../model/scheduling/podGroup.ts";

/**
 * The one reason why a job waits, with what shows it and what would cure it. Conditions, events and `muster why` use
 * the same sentences.
 */
export interface Verdict {
  readonly reason:
    | UnschedulableReason
    | "NotReady"
    | "BindingRefused"
    | "NoGroup"
    | "SchedulingGated"
    | "NoGpuWithRoom"
    | "NodeFull";
  /** What is the matter, with names and numbers. */
  readonly message: string;
  /** What would make it run. */
  readonly cure: string;
  readonly queueDetails?: QueueDetails;
  /** Claims of the pod are not there yet; of a pod that was just created that says nothing. */
  readonly awaitsClaims?: boolean;
}

/** The sentence that shows in the event, the condition, the log and `muster why`. */
export function sentenceOf({ message, cure }: Verdict): string {
  return cure === "" ? message : `${message}. To run: ${cure}`;
}

import type { QueueDetails, UnschedulableReason } from "../../../model/scheduling/podGroup.ts";
import type { RefusalReason } from "../../devices/refusalReason.ts";

/**
 * Why a job is pending, and what would let it run. Conditions, events and `muster why` use the same sentences.
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
  /** The cause, with names and numbers. */
  readonly message: string;
  /** What would let it run. */
  readonly cure: string;
  readonly queueDetails?: QueueDetails;
  /**
   * Why claims get no devices: of one pod, for the reason that most nodes have. `NotReady` is normal for a pod that was
   * just created: its claims do not exist yet.
   */
  readonly refusal?: RefusalReason;
}

/** The sentence in the event, the condition, the log and `muster why`. */
export function sentenceOf({ message, cure }: Verdict): string {
  return cure === "" ? message : `${message}. To run: ${cure}`;
}

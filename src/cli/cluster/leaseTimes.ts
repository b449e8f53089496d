import type { LeaseTimes } from "../../control/runtime/lease.ts";
import { UsageError } from "../../model/userError.ts";
import { durationMs } from "../../model/values/duration.ts";

export interface LeaseTimeFlags {
  readonly leaseDuration: string;
  readonly leaseRenewDeadline: string;
  readonly leaseRetryPeriod: string;
}

/** A leader that cannot renew must have stopped writing before a follower takes over. */
export function leaseTimes(flags: LeaseTimeFlags): LeaseTimes {
  const duration = parsed("--lease-duration", flags.leaseDuration);
  const renewDeadline = parsed("--lease-renew-deadline", flags.leaseRenewDeadline);
  const retryPeriod = parsed("--lease-retry-period", flags.leaseRetryPeriod);
  if (duration.ms % 1000 !== 0) {
    throw wrong(`${duration.shown} is not whole seconds`, "a Lease holds whole seconds: write 3s or 15s");
  }
  // Attempts are spread by a tenth, and one that fails needs a second one before the deadline.
  if (2 * retryPeriod.ms > renewDeadline.ms) {
    throw wrong(
      `${retryPeriod.shown} is more than half of ${renewDeadline.shown}`,
      "shorten the retry period, or lengthen the deadline",
    );
  }
  if (renewDeadline.ms >= duration.ms) {
    throw wrong(
      `${renewDeadline.shown} is not below ${duration.shown}`,
      "shorten the deadline, or lengthen the duration: in between no process leads",
    );
  }
  return { durationMs: duration.ms, renewDeadlineMs: renewDeadline.ms, retryMs: retryPeriod.ms };
}

function parsed(flag: string, text: string): { readonly ms: number; readonly shown: string } {
  const ms = durationMs(text);
  const shown = `${flag} ${text}`;
  if (ms !== undefined && ms > 0) return { ms, shown };
  throw wrong(`${shown} is not a positive duration`, "write it as 15s or 500ms");
}

function wrong(problem: string, cure: string): UsageError {
  return new UsageError("lease-times-invalid", problem, cure);
}

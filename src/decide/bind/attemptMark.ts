/**
 * Every object that a failed attempt reverts is marked with the attempt that uses it. The next attempt writes its own
 * mark first, even if the content is up to date already, so that a late clean-up of the earlier attempt conflicts.
 *
 *   attempt 1                                      attempt 2
 *   t0  fails; deletes its ConfigMap at revision 7
 *       and gets no answer
 *                                                  t1  finds the ConfigMap, and its content is right
 *                                                  t2  marks it: revision 8
 *   t3  the delete lands: refused                  t4  binds, and the container finds its devices
 */
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";

/** On ConfigMaps and on the claim of extended resources. */
export const attemptAnnotation = "muster.dev/bind-attempt";

/** Names an attempt: each failure that is followed by another try is counted, and a new request has a new UID. */
export function attemptOf({ metadata, status }: BindRequest): string {
  return `${metadata.uid}/${status?.failedAttempts ?? 0}`;
}

import { releasePod } from "../../decide/bind/releasePod.ts";
import { hasEnded, holdersOf, holdersPatch, podsRef } from "../../decide/bind/reservation.ts";
import { expectedOf, keyOf } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import type { BindRequest } from "../../model/scheduling/bindRequest.ts";
import { gpuGroupsOfLabels } from "../../model/scheduling/keys.ts";
import { type BindCall, deleteConfigMaps, deleteExtendedClaim, findConfigMaps } from "./bindClaims.ts";
import { type BinderCaches, groupsOf } from "./binderCaches.ts";
import { giveBackVolumes } from "./bindVolumes.ts";

/** An attempt that has failed. */
export interface FailedAttempt {
  readonly request: BindRequest;
  /** Its pod, which has no node. */
  readonly pod: Pod;
  readonly why: string;
}

/**
 * Reverts the writes of a failed attempt, and returns what could not be reverted. Each write is attempted even if
 * others fail: the reconciles of the groups find the rest.
 */
export async function takeBack(call: BindCall, failed: FailedAttempt, caches: BinderCaches): Promise<string[]> {
  const { request, pod, why } = failed;
  const problems: string[] = [];
  const note = (outcome: Outcome<unknown>): void => {
    if (!outcome.ok && outcome.reason !== "NotFound") problems.push(outcome.message);
  };
  const groups = groupsOf(request);
  if (groups.length > 0 && !hasEnded(pod)) {
    const carried = gpuGroupsOfLabels(pod.metadata.labels).filter((group) => groups.includes(group));
    const held = groups.filter((group) =>
      caches.reservations(group).some((each) => holdersOf(each).has(pod.metadata.uid)),
    );
    const maps = await findConfigMaps(call, pod);
    note(maps);
    const found = maps.ok ? maps.value : [];
    if (carried.length > 0 || held.length > 0 || found.length > 0) {
      // A bind of this attempt may still be in flight. It conflicts after this write of the pod.
      const released = await call.writer.apply(releasePod(pod, groups, why), { cancel: call.cancel });
      note(released);
      if (released.ok) {
        note(await deleteConfigMaps(call, found));
        for (const group of held) note(await letGo(call, caches, { group, uid: pod.metadata.uid }));
      }
    }
  }
  problems.push(...(await giveBackVolumes(call, { request, pod, why: `the bind of pod ${pod.metadata.name} failed` })));
  if ((request.spec?.extendedResourceClaimAllocation ?? null) !== null) {
    const found = caches.pods.get(keyOf(pod.metadata.namespace, pod.metadata.name));
    note(await deleteExtendedClaim(call, found === undefined ? pod : found));
  }
  return problems;
}

async function letGo(
  { writer, cancel }: BindCall,
  caches: BinderCaches,
  holder: { readonly group: string; readonly uid: string },
): Promise<Outcome<unknown>> {
  for (const reservation of caches.reservations(holder.group)) {
    const holders = new Map(holdersOf(reservation));
    if (!holders.delete(holder.uid)) continue;
    const { namespace = "", name } = reservation.metadata;
    const target = { ...podsRef, namespace, name };
    const expected = expectedOf(reservation);
    const why = "its bind failed";
    const outcome = await writer.apply(
      { type: "patch", target, expected, patch: holdersPatch(holders), why },
      { cancel },
    );
    if (!outcome.ok) return outcome;
  }
  return succeeded(undefined);
}

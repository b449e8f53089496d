import { deleteProtection } from "../../decide/devices/claims/podClaims.ts";
import { withoutProtection } from "../../decide/devices/claims/releaseClaim.ts";
import type { PendingClaims } from "../../decide/schedule/model/pendingClaims.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { laterOf, type Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { type DeviceCaches, deviceKinds } from "../devices/deviceCaches.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";

/** How long the watch of claims may take to reach the revision of a read. */
const showMs = 5_000;

/** Reads the unconfirmed claims of a pod, so that they no longer count without a BindRequest. */
export async function confirmClaims(
  { claims, controllers }: DeviceCaches,
  pending: PendingClaims,
  podUid: string,
  { requestsRevision, cancel }: { readonly requestsRevision: Revision; readonly cancel: Cancel },
): Promise<ReconcileResult> {
  for (const each of pending.unconfirmedOf(podUid)) {
    // A placeholder is released when claims have been observed up to the end of the request.
    if (each.isStandIn) continue;
    const target = { ...deviceKinds.claims, namespace: each.namespace, name: each.name };
    const atLeast = laterOf(requestsRevision, claims.revision);
    const fresh = await lookAgain(controllers.kube, target, { atLeast, cancel });
    if (!fresh.ok) return reconcileResultOf(fresh);
    const claim = fresh.value.object;
    if (claim !== undefined && (claim.metadata.uid === each.uid || each.isNotCreatedYet)) {
      const isProtected = claim.metadata.finalizers?.includes(deleteProtection) === true;
      if (claim.status?.allocation !== undefined) {
        const isShown = await claims.waitForRevision(claim.metadata.resourceVersion, { cancel, timeoutMs: showMs });
        if (!isShown) return { requeueAfterMs: 1 };
      } else if (isProtected) {
        // An allocation of the claim may be in flight. Removing the finalizer changes the revision, so that it
        // conflicts.
        const written = await controllers.writer.apply(withoutProtection(claim), { cancel });
        if (!written.ok && written.reason !== "NotFound")
          return reconcileResultOf(written) ?? { again: written.message };
      }
    }
    pending.confirm(podUid, each);
  }
  return undefined;
}

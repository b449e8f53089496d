import { withoutProtection } from "../../decide/devices/claims/releaseClaim.ts";
import { deviceEffects } from "../../decide/devices/search/deviceUse.ts";
import { type Intent, kindOf } from "../../model/intent.ts";
import type { ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { commit, resolveUnknown } from "../runtime/commit.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { type DeviceCaches, deviceKinds } from "./deviceCaches.ts";

/** Writes of decisions about claims: each counts in the ledger until its end is known, and one in doubt is brought to its end. */
export class ClaimWrites {
  private readonly world: DeviceCaches;
  private readonly wake: (claimKey: string) => void;
  /** Allocations whose answers were lost, by the key of their claim. */
  private readonly inDoubt = new Map<string, Intent>();

  constructor(world: DeviceCaches, wake: (claimKey: string) => void) {
    this.world = world;
    this.wake = wake;
  }

  async send(intent: Intent, cancel: Cancel): Promise<Outcome<{ object?: KubeObject }>> {
    const { tracker, controllers } = this.world;
    const isClaim = kindOf(intent.target) === kindOf(deviceKinds.claims);
    const effects = isClaim && intent.type === "status" ? deviceEffects(intent.object) : [];
    const { namespace, name } = intent.target;
    const written = isClaim ? tracker.writing(namespace, name, "claim-scheduler") : undefined;
    const [committed] = await commit(tracker.picture, controllers.kube, [{ intent, effects }], { cancel });
    const outcome = committed?.outcome ?? {
      ok: false as const,
      reason: "Unknown" as const,
      message: "nothing was sent",
    };
    if (isClaim && outcome.ok && outcome.value.object !== undefined) {
      tracker.assumeClaimAfterApiCall(outcome.value.object);
    }
    written?.();
    return outcome;
  }

  /** An allocation of which nobody knows whether it will land keeps its devices, until the claim has changed. */
  doubt(claim: ResourceClaim, intent: Intent): void {
    const { namespace = "", name } = claim.metadata;
    this.inDoubt.set(`${namespace}/${name}`, intent);
    this.wake(`${namespace}/${name}`);
  }

  async settle(key: string, cancel: Cancel): Promise<ReconcileResult> {
    const { tracker, controllers } = this.world;
    const intent = this.inDoubt.get(key);
    if (intent === undefined) return undefined;
    if (tracker.picture.stateOf(intent) === "unknown") {
      const resolved = await resolveUnknown(tracker.picture, controllers.kube, intent, { cancel });
      if (!resolved.ok) return reconcileResultOf(resolved) ?? { again: resolved.message };
      if (!resolved.value && intent.type === "status") {
        // Nothing has come of it so far. Changing the claim makes sure that nothing will.
        const { status: _status, ...rest } = intent.object as unknown as ResourceClaim;
        const touched = await this.send(withoutProtection(rest), cancel);
        if (!touched.ok) return reconcileResultOf(touched) ?? { again: touched.message };
      }
    }
    if (tracker.picture.stateOf(intent) === "unknown") return { again: "the claim has not changed yet" };
    this.inDoubt.delete(key);
    return undefined;
  }
}

import { deleteProtection } from "../../decide/devices/claims/podClaims.ts";
import { withoutProtection } from "../../decide/devices/claims/releaseClaim.ts";
import { claimKind } from "../../decide/devices/claimTracker.ts";
import { lookAgainAtAll } from "../../intents/lookAgain.ts";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { firstRevision, laterOf, type Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import { OncePerEpoch } from "../runtime/oncePerEpoch.ts";
import type { DeviceCaches } from "./deviceCaches.ts";

/** How long it waits for the watch before it starts again. */
const waitMs = 10_000;

/** What a process does once in every epoch in which it leads, before it allocates any device. */
export class ClaimTakeOver {
  private readonly world: DeviceCaches;
  private readonly epochs: OncePerEpoch;
  /** The claims that the last take-over fenced against late writes. */
  voided = 0;

  constructor(world: DeviceCaches) {
    this.world = world;
    this.epochs = new OncePerEpoch(world.controllers, (since, cancel) => this.run(since, cancel));
  }

  /**
   * An earlier leader may have sent an allocation that has not landed. It can land only on a claim that has the
   * finalizer and has not changed since; removing the finalizer changes the claim, so the late write conflicts. No
   * device is allocated before that.
   */
  done(cancel: Cancel): Promise<Outcome<unknown>> {
    return this.epochs.done(cancel);
  }

  private async run(since: Revision, cancel: Cancel): Promise<Outcome<unknown>> {
    const { controllers, claims } = this.world;
    // A lagging replica may lack the writes of the earlier leader.
    const listed = await lookAgainAtAll(controllers.kube, claimKind, {}, { atLeast: since, cancel });
    if (!listed.ok) return listed;
    let newest = firstRevision;
    this.voided = 0;
    for (const item of listed.value.items) {
      const claim = item;
      newest = laterOf(newest, claim.metadata.resourceVersion);
      if (claim.status?.allocation !== undefined) continue;
      if (claim.metadata.finalizers?.includes(deleteProtection) !== true) continue;
      // Not through the ledger: the precondition is the version of the list, which the watch may not have delivered
      // yet.
      this.voided++;
      const outcome = await controllers.writer.apply(withoutProtection(claim), { cancel });
      if (!outcome.ok && outcome.reason !== "NotFound") return outcome;
    }
    // Writes that landed before must be observed before anything is decided.
    if (!(await claims.waitForRevision(newest, { cancel, timeoutMs: waitMs }))) {
      return refused("Unavailable", "the claims' cache lags behind");
    }
    return succeeded(undefined);
  }
}

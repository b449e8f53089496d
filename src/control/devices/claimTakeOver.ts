import { deleteProtection } from "../../decide/devices/claims/podClaims.ts";
import { withoutProtection } from "../../decide/devices/claims/releaseClaim.ts";
import { claimKind } from "../../decide/devices/claimTracker.ts";
import { lookAgainAtAll } from "../../intents/lookAgain.ts";
import type { Outcome } from "../../model/outcome.ts";
import { firstRevision, laterOf } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { DeviceCaches } from "./deviceCaches.ts";

/** How long it waits for the watch before it begins again. */
const waitMs = 10_000;

/** What a process does once in every epoch that it leads in, before it gives any device away. */
export class ClaimTakeOver {
  private readonly world: DeviceCaches;
  /** The epoch in which claims of earlier ones were made safe, or undefined. */
  private doneIn: string | undefined;
  private running: Promise<Outcome<unknown>> | undefined;
  /** Claims that a late write can no longer reach, of the last epoch. */
  voided = 0;

  constructor(world: DeviceCaches) {
    this.world = world;
  }

  /**
   * A predecessor may have sent an allocation that has not landed. It can only land on a claim that got its finalizer
   * first and has not changed since; taking the finalizer off changes it, and the late write meets a conflict. Before
   * that nothing is given away.
   */
  async done(cancel: Cancel): Promise<Outcome<unknown>> {
    const { lease } = this.world.controllers;
    const epoch = lease === undefined ? "alone" : lease.epoch === undefined ? undefined : JSON.stringify(lease.epoch);
    if (epoch === undefined) return { ok: false, reason: "Fenced", message: "this process does not lead" };
    if (this.doneIn === epoch) return { ok: true, value: undefined };
    this.running ??= this.run(epoch, cancel).finally(() => {
      this.running = undefined;
    });
    return this.running;
  }

  private async run(epoch: string, cancel: Cancel): Promise<Outcome<unknown>> {
    const { controllers, claims } = this.world;
    // A replica that lags behind may not have what our predecessor wrote; what took us the lease is later than all of
    // that.
    const atLeast = controllers.lease?.takenAt ?? firstRevision;
    const listed = await lookAgainAtAll(controllers.kube, claimKind, {}, { atLeast, cancel });
    if (!listed.ok) return listed;
    let newest = firstRevision;
    this.voided = 0;
    for (const item of listed.value.items) {
      const claim = item;
      newest = laterOf(newest, claim.metadata.resourceVersion);
      if (claim.status?.allocation !== undefined) continue;
      if (claim.metadata.finalizers?.includes(deleteProtection) !== true) continue;
      // Not by way of the ledger: the claim is as the list has it, whatever the watch shows yet.
      this.voided++;
      const outcome = await controllers.writer.apply(withoutProtection(claim), { cancel });
      if (!outcome.ok && outcome.reason !== "NotFound") return outcome;
    }
    // What landed before must be known before anything is decided.
    if (!(await claims.waitForRevision(newest, { cancel, timeoutMs: waitMs }))) {
      return { ok: false, reason: "Unavailable", message: "the claims' cache lags behind" };
    }
    this.doneIn = epoch;
    return { ok: true, value: undefined };
  }
}

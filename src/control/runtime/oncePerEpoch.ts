import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import { firstRevision, type Revision } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "./controllers.ts";

/** At or beyond this revision are all writes of earlier leaders that had landed when the lease was taken. */
type Run = (since: Revision, cancel: Cancel) => Promise<Outcome<unknown>>;

/** Runs a take-over once in every epoch in which this process leads; callers wait for it. */
export class OncePerEpoch {
  private readonly controllers: Controllers;
  private readonly run: Run;
  private doneIn: string | undefined;
  private running: Promise<Outcome<unknown>> | undefined;

  constructor(controllers: Controllers, run: Run) {
    this.controllers = controllers;
    this.run = run;
  }

  async done(cancel: Cancel): Promise<Outcome<unknown>> {
    const { lease } = this.controllers;
    const epoch = lease === undefined ? "alone" : lease.epoch === undefined ? undefined : JSON.stringify(lease.epoch);
    if (epoch === undefined) return refused("Fenced", "this process does not lead");
    if (this.doneIn === epoch) return succeeded(undefined);
    this.running ??= this.once(epoch, cancel).finally(() => {
      this.running = undefined;
    });
    return this.running;
  }

  private async once(epoch: string, cancel: Cancel): Promise<Outcome<unknown>> {
    const outcome = await this.run(this.controllers.lease?.takenAt ?? firstRevision, cancel);
    if (outcome.ok) this.doneIn = epoch;
    return outcome;
  }
}

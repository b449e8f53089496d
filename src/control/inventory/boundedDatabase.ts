/**
 * A database that may never answer: a server that hangs, a lock that is not released. Once the run gives up, open calls
 * count as unanswered, and no more are made. A statement that was running may take effect later; the fence and the
 * versions of rows are there for that.
 */
import type { Cancel } from "../../ports/cancel.ts";
import type { Answer, InventoryDatabase, InventoryReads, InventoryRun } from "../../ports/database.ts";

export const noAnswer = "the database gave no answer before the deadline";

export function boundedDatabase(database: InventoryDatabase, giveUp: Cancel): InventoryDatabase {
  return {
    look: (timeLeftMs) => boundedReads(database.look(timeLeftMs), giveUp),
    begin: (start) => {
      const asked = database.begin(start);
      const answer = inTime(() => asked, giveUp);
      // A lock that comes after the run has left is given back.
      void asked.then((late) => {
        if (giveUp.cancelled && late.ok && late.value.status === "begun") void late.value.run.release();
      });
      return answer;
    },
  };
}

/** Finishing and releasing come after giving up: the run bounds them by its clock. */
export function boundedRun(run: InventoryRun, giveUp: Cancel): InventoryRun {
  return {
    ...boundedReads(run, giveUp),
    runId: run.runId,
    fence: run.fence,
    recordReading: (reading) => inTime(() => run.recordReading(reading), giveUp),
    writeTypes: (types, drift) => inTime(() => run.writeTypes(types, drift), giveUp),
    writeDisks: (writes) => inTime(() => run.writeDisks(writes), giveUp),
    report: (phase, reports) => inTime(() => run.report(phase, reports), giveUp),
    rememberSnapshots: (memory) => inTime(() => run.rememberSnapshots(memory), giveUp),
    finish: (end) => run.finish(end),
    release: () => run.release(),
  };
}

function boundedReads(reads: InventoryReads, giveUp: Cancel): InventoryReads {
  return {
    types: () => inTime(() => reads.types(), giveUp),
    disks: () => inTime(() => reads.disks(), giveUp),
  };
}

function inTime<T>(ask: () => Promise<Answer<T>>, giveUp: Cancel): Promise<Answer<T>> {
  const late: Answer<T> = { ok: false, reason: "Unavailable", why: noAnswer };
  if (giveUp.cancelled) return Promise.resolve(late);
  return new Promise((done, fail) => {
    const forget = giveUp.onCancel(() => done(late));
    ask()
      .then(done, fail)
      .finally(() => forget());
  });
}

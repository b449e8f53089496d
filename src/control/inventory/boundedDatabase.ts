/**
 * Bounds a database that may never answer, because a server hangs or a lock is not released. When the run gives up,
 * pending calls fail and no more are sent. A statement that was running may still take effect; the fence and the row
 * versions make that safe.
 */
import type { Cancel } from "../../ports/cancel.ts";
import type { Answer, InventoryDatabase, InventoryReads, InventoryRun } from "../../ports/database.ts";

export const noAnswer = "the database gave no answer before the deadline";

export function boundedDatabase(database: InventoryDatabase, giveUp: Cancel): InventoryDatabase {
  return {
    look: (timeLeftMs) => boundedReads(database.look(timeLeftMs), giveUp),
    begin: (start) => {
      const pending = database.begin(start);
      const answer = inTime(() => pending, giveUp);
      // A lock that is granted after the run has ended is released.
      void pending.then((late) => {
        if (giveUp.cancelled && late.ok && late.value.status === "begun") void late.value.run.release();
      });
      return answer;
    },
  };
}

/** `finish` and `release` are called after giving up; the run bounds them by its clock. */
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

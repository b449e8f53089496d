/** Invariants of a scenario with wrong answers: all writes are compared with the true state of cloud and cluster. */
import type { RunReport } from "../../control/inventory/runInventory.ts";
import type { DiskRow } from "../../model/inventory/rows.ts";
import type { Invariant } from "../invariant.ts";
import { reports, type Stage } from "./stage.ts";

interface DiskWritten {
  readonly before: DiskRow | undefined;
  readonly after: DiskRow;
  readonly by: string;
}

export const believedVolumesStay: Invariant = {
  id: "I14",
  fact: "a disk whose volume exists is neither released nor marked missing, however few volumes are listed",
  begin: () => {
    let stage: Stage | undefined;
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        if (what !== reports.writesDisk || stage === undefined) return undefined;
        const { before, after } = value as DiskWritten;
        if (after.volumeId === null || !stage.cloud.volumes.has(after.volumeId)) return undefined;
        if (before?.inUse === true && !after.inUse)
          return `${after.diskName} was released, and ${after.volumeId} is attached`;
        return before?.volumeState !== "missing" && after.volumeState === "missing"
          ? `${after.diskName} is marked missing, and ${after.volumeId} exists`
          : undefined;
      },
      atRest: () => {
        for (const { diskName, volumeId, volumeState } of stage?.tables.disks.values() ?? []) {
          const exists = volumeId !== null && stage?.cloud.volumes.has(volumeId) === true;
          if (exists !== (volumeState !== "missing")) {
            return `the volume of ${diskName} ${exists ? "exists" : "is gone"}, and the row says ${volumeState}`;
          }
        }
        return undefined;
      },
    };
  },
};

/** Longer than a run may take: a snapshot older than this existed when the run read the cloud. */
const aWhileMs = 5_000;

export const countsAreTrue: Invariant = {
  id: "I21",
  fact: "the snapshots of a disk are counted with and without tags, however they are read",
  begin: () => {
    let stage: Stage | undefined;
    const taken = (volumeId: string | null, beforeMs: number): number =>
      [...(stage?.cloud.snapshots.values() ?? [])].filter(
        (snapshot) => snapshot.volumeId === volumeId && snapshot.startedMs <= beforeMs,
      ).length;
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        if (what !== reports.writesDisk || stage === undefined) return undefined;
        const { before, after, by } = value as DiskWritten;
        if (by !== "reconciler" || before === undefined || before.snapshotCount === after.snapshotCount)
          return undefined;
        // The clock of the cloud, because that of the database may be wrong.
        const least = taken(after.volumeId, stage.cloud.nowMs - aWhileMs);
        return after.snapshotCount < Math.max(least, before.snapshotCount)
          ? `${after.diskName} had ${before.snapshotCount} snapshots, now ${after.snapshotCount}, and none was deleted`
          : undefined;
      },
      atRest: () => {
        if (stage === undefined) return "the scenario did not report its state";
        for (const { diskName, volumeId, snapshotCount } of stage.tables.disks.values()) {
          const count = taken(volumeId, stage.cloud.nowMs);
          if (count !== snapshotCount) return `${diskName} has ${count} snapshots and says ${snapshotCount}`;
        }
        return stage.tables.disks.size === 0 ? "no disk was imported" : undefined;
      },
    };
  },
};

/** Two nodes with eight GPUs each, ready and empty all the time. */
const freeGpus = 16;

export const freshIsTrue: Invariant = {
  id: "I15",
  fact: "numbers that are marked fresh are true; numbers that could not be read are stale, with a reason",
  begin: () => {
    let stage: Stage | undefined;
    const wrong = (): string | undefined => {
      const { numbers } = stage?.tables.types.get("h100") ?? {};
      if (numbers?.state === "stale" && numbers.error === "") return "h100 is stale without a reason";
      return numbers?.state === "fresh" && numbers.availableGpus !== freeGpus
        ? `h100 is reported with ${numbers.availableGpus} free GPUs, and ${freeGpus} are free`
        : undefined;
    };
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        return what === reports.writesTypes ? wrong() : undefined;
      },
      atRest: () => {
        const { numbers } = stage?.tables.types.get("h100") ?? {};
        return numbers?.state === "fresh" ? wrong() : `at rest h100 is ${numbers?.state}: ${numbers?.error}`;
      },
    };
  },
};

/** Of every run of the scenario. */
export const deadlineMs = 3_000;
/** The deadline and the delay of late timers. */
const runMsMax = deadlineMs + 4_000;

export const runsEnd: Invariant = {
  id: "I17",
  fact: "a run ends by its deadline, whatever does not answer",
  begin: () => {
    let stage: Stage | undefined;
    const since = new Map<string, number>();
    return {
      observe: (actor, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        if (what === reports.runBegins) since.set(actor, value as number);
        if (what !== reports.runEnds) return undefined;
        since.delete(actor);
        const { durationMs, status } = value as RunReport;
        return durationMs > runMsMax ? `a run took ${durationMs} ms and ended as ${status}` : undefined;
      },
      atRest: () => {
        for (const [actor, beganMs] of since) {
          const waitedMs = (stage?.cloud.nowMs ?? beganMs) - beganMs;
          if (waitedMs > runMsMax) return `a run of ${actor} has been waiting for ${waitedMs} ms`;
        }
        return undefined;
      },
    };
  },
};

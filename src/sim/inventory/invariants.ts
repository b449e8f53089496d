/** Invariants between users, cloud, cluster and database. */
import type { AvailabilityNumbers, DiskRow } from "../../model/inventory/rows.ts";
import type { Checks, Invariant } from "../invariant.ts";
import { reports, type Stage } from "./stage.ts";

interface DiskWritten {
  readonly before: DiskRow | undefined;
  readonly after: DiskRow;
  readonly by: string;
}

interface Held {
  readonly diskId: string;
  readonly session: string;
}

/** A disk that is released while its session uses it is claimed by another session, and two machines write to it. */
export const oneHolder: Invariant = {
  id: "I14",
  fact: "a disk has one holder until the previous machine has released it",
  begin: watchHolders,
};

function watchHolders(): Checks {
  const holders = new Map<string, string>();
  return {
    observe: (_, what, value) => {
      if (what === reports.claims) {
        const { diskId, session } = value as Held;
        const before = holders.get(diskId);
        if (before !== undefined) return `${session} claims ${diskId}, which ${before} still holds`;
        holders.set(diskId, session);
      }
      if (what === reports.releases) holders.delete((value as Held).diskId);
      if (what === reports.writesDisk) {
        const { before, after, by } = value as DiskWritten;
        const holder = holders.get(after.diskId);
        if (by === "reconciler" && before?.inUse === true && !after.inUse && holder !== undefined) {
          return `${after.diskName} was released while ${holder} held it`;
        }
        if (
          by === "reconciler" &&
          before?.reservationId != null &&
          after.reservationId === null &&
          holder === before.reservationId
        ) {
          return `the claim of ${holder} on ${after.diskName} was cleared`;
        }
      }
      return undefined;
    },
  };
}

/** The same, for bugs that treat a missing volume as deleted. */
export const absenceIsNoProof: Invariant = {
  id: "I21",
  fact: "a volume that is not found is unknown: no disk is released because of it",
  begin: watchHolders,
};

/** Longer than a run takes: an object that is older existed when the run read it. */
const aWhileMs = 4_000;

/** A failed read is not zero, not empty and not a deletion. */
export const unknownIsNotZero: Invariant = {
  id: "I21",
  fact: "a failed read is unknown: never zero, never a deletion",
  begin: () => {
    let stage: Stage | undefined;
    /**
     * The volume with which the snapshots of each disk were counted; a run that could not read them still links a
     * volume.
     */
    const countedWith = new Map<string, string | null>();
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        if (what === reports.writesDisk) {
          const { before, after, by } = value as DiskWritten;
          const countedVolume = countedWith.get(after.diskId);
          if (before?.snapshotCount !== after.snapshotCount) countedWith.set(after.diskId, after.volumeId);
          if (by !== "reconciler" || before === undefined) return undefined;
          // No snapshot is deleted in this scenario. Untagged snapshots no longer count once the disk has another
          // volume; those tagged with the disk's name do.
          if (after.snapshotCount < before.snapshotCount) {
            const named = [...(stage?.cloud.snapshots.values() ?? [])].filter(
              ({ tags, state, startedMs }) =>
                tags["disk_name"] === after.diskName &&
                tags["gpu-dev-user"] === after.userId &&
                state === "completed" &&
                startedMs < (stage?.tables.nowMs() ?? 0) - aWhileMs,
            ).length;
            const isSame = countedVolume === after.volumeId && before.diskName === after.diskName;
            if (isSame || after.snapshotCount < named) {
              return `${after.diskName} had ${before.snapshotCount} snapshots and now has ${after.snapshotCount}`;
            }
          }
          if ((before.lastSnapshotMs ?? 0) > (after.lastSnapshotMs ?? 0))
            return `${after.diskName}: the last snapshot got older`;
          if (before.isDeleted !== after.isDeleted) return `${after.diskName}: is_deleted was written`;
          if (before.diskName !== after.diskName || before.userId !== after.userId)
            return `${after.diskName} was renamed`;
          if (before.operationStatus !== after.operationStatus)
            return `${after.diskName}: operation_status was written`;
        }
        if (what === reports.writesTypes) {
          const row = stage?.tables.types.get("h100");
          if (row === undefined || stage === undefined) return undefined;
          const running = [...stage.cloud.groups.values()].flatMap(({ instances }) => instances).length;
          if (running > 0 && row.numbers.totalClusterGpus === 0)
            return `h100 is reported without GPUs, and ${running} instances are running`;
        }
        return undefined;
      },
    };
  },
};

/** Flapping nodes change the number of free GPUs, never the total. */
export const sumsClose: Invariant = {
  id: "I15",
  fact: "free is at most schedulable, schedulable is at most total, and a node that fails and recovers does not change the total",
  begin: () => {
    let stage: Stage | undefined;
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        if (what !== reports.writesTypes) return undefined;
        const row = stage?.tables.types.get("h100");
        if (row === undefined || stage === undefined) return undefined;
        return wrongNumbers(row.numbers, machinesOf(stage));
      },
      atRest: () => {
        if (stage === undefined) return "the scenario did not report its state";
        const row = stage.tables.types.get("h100");
        const { numbers } = row ?? {};
        if (numbers?.state !== "fresh") return `at rest h100 is ${numbers?.state}: ${numbers?.error}`;
        const wanted = 8 * machinesOf(stage);
        return numbers.totalClusterGpus === wanted
          ? undefined
          : `h100 has ${wanted} GPUs, but total_cluster_gpus is ${numbers.totalClusterGpus}`;
      },
    };
  },
};

function machinesOf(stage: Stage): number {
  return [...stage.cloud.groups.values()].flatMap(({ instances }) => instances).length;
}

function wrongNumbers(numbers: AvailabilityNumbers, machines: number): string | undefined {
  const { availableGpus, schedulableGpus, totalClusterGpus, maxReservable, fullNodesAvailable, state } = numbers;
  if (availableGpus < 0 || availableGpus > Math.max(schedulableGpus, totalClusterGpus))
    return `${availableGpus} free of ${schedulableGpus}`;
  if (maxReservable > availableGpus) return `${maxReservable} in one reservation, ${availableGpus} free`;
  if (fullNodesAvailable * 8 > availableGpus) return `${fullNodesAvailable} full nodes, ${availableGpus} free`;
  if (state !== "fresh") return undefined;
  if (availableGpus > totalClusterGpus) return `${availableGpus} free of ${totalClusterGpus}`;
  return totalClusterGpus % 8 === 0 && totalClusterGpus <= 8 * (machines + 1)
    ? undefined
    : `${totalClusterGpus} GPUs on ${machines} machines`;
}

/** At rest the database agrees with the cloud, and no lock is held. */
export const comesToRest: Invariant = {
  id: "I17",
  fact: "after the faults stop database and cloud agree, and every claim has a holder",
  begin: () => {
    let stage: Stage | undefined;
    return {
      observe: (_, what, value) => {
        if (what === reports.begins) stage = value as Stage;
        return undefined;
      },
      atRest: () => {
        if (stage === undefined) return "the scenario did not report its state";
        const names = new Set<string>();
        for (const row of stage.tables.disks.values()) {
          if (names.has(row.diskName)) return `there are two disks ${row.diskName}`;
          names.add(row.diskName);
          if (row.isDeleted) continue;
          const volume = row.volumeId === null ? undefined : stage.cloud.volumes.get(row.volumeId);
          if (row.inUse && (volume?.attachments.length ?? 0) === 0)
            return `${row.diskName} is claimed by ${row.reservationId}, and no machine holds it`;
          const own = [...stage.cloud.snapshots.values()].filter(
            ({ tags, state, volumeId }) =>
              (tags["disk_name"] === row.diskName || volumeId === row.volumeId) && state === "completed",
          );
          if (own.length > row.snapshotCount)
            return `${row.diskName} has ${own.length} snapshots, but snapshot_count is ${row.snapshotCount}`;
        }
        return undefined;
      },
    };
  },
};

import { describe, expect, test } from "vitest";
import { inventoryDefaults } from "../../src/control/inventory/inventoryDefaults.ts";
import { type InventoryOptions, type RunReport, runInventory } from "../../src/control/inventory/runInventory.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { inventorySnapshot } from "../../src/decide/inventory/inventorySnapshot.ts";
import { CancelSource } from "../../src/ports/cancelSource.ts";
import type { Cloud, CloudRead } from "../../src/ports/cloud.ts";
import type { Log } from "../../src/ports/log.ts";
import { disk, gpuType } from "../../src/sim/inventory/builders.ts";
import { type CallFate, MemoryDatabase } from "../../src/sim/inventory/memoryDatabase.ts";
import { MemoryTables } from "../../src/sim/inventory/memoryTables.ts";
import { ManualClock, settle } from "../../testing/apiserver/manualClock.ts";
import { silentLog } from "./databases.ts";

const done = { ok: true, value: undefined } as const;

/** A cloud with one volume, which answers at once. */
const cloud: Cloud = {
  identity: async () => ({ ok: true, value: { account: "1", region: "r" } }),
  scalingGroups: async () => done,
  volumes: async (_, onPage) => {
    const tags = { "gpu-dev-user": "ada", disk_name: "d" };
    const volume = { id: "v1", sizeGb: 7, state: "available", createdMs: 0, snapshotId: "", attachments: [], tags };
    onPage([volume]);
    return done;
  },
  snapshots: async (_, onPage) => {
    onPage([{ id: "s1", volumeId: "v1", state: "completed", startedMs: 0, description: "", tags: {} }]);
    return done;
  },
  modifications: async () => ({ ok: true, value: [] }),
  usage: () => ({ calls: {}, retries: 0, throttles: 0 }),
};

interface Play {
  readonly muteAt?: string;
  readonly onMute?: () => void;
  readonly fate?: CallFate;
  readonly cloud?: Cloud;
  readonly options?: Partial<InventoryOptions>;
}

/** Runs until the run is over or so much time has passed; undefined when it is still waiting then. */
async function play({ muteAt, onMute, fate = "muteBefore", options = {}, ...rest }: Play, forMs: number) {
  const clock = new ManualClock();
  const tables = new MemoryTables(() => clock.nowMs());
  tables.types.set("h100", gpuType("h100", 8));
  const { diskId: _, rowVersion: __, lastUpdatedMs: ___, ...row } = disk("d", { volumeId: "v1" });
  tables.insertDisk(row, 0, "app");
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (_fields, message) => void errors.push(message) };
  const database = new MemoryDatabase(tables, "reconciler", async (what) => {
    if (what !== muteAt) return "answered";
    onMute?.();
    return fate;
  });
  const cluster = async () => {
    return {
      ok: true,
      value: inventorySnapshot({ nodes: [], pods: [], claims: [], slices: [], revision: "1" }),
    } as const;
  };
  let report: RunReport | undefined;
  const ports = { clock, log, metrics: new MemoryMetrics(), database, cloud: rest.cloud ?? cloud, cluster };
  void runInventory(ports, { ...inventoryDefaults, deadlineMs: 600_000, ...options }).then((ended) => {
    report = ended;
  });
  const beganMs = clock.nowMs();
  await settle();
  while (report === undefined && clock.nowMs() - beganMs < forMs) await clock.advance(1_000);
  return { report, tables, errors, tookMs: clock.nowMs() - beganMs, timers: clock.pending };
}

describe("a database that hangs in the middle of a run", () => {
  test.each(["begin", "types", "disks", "writeTypes", "writeDisks", "report", "rememberSnapshots", "finish"])(
    "at %s: the run is over before its deadline",
    async (muteAt) => {
      const { report, errors } = await play({ muteAt }, 600_000);
      expect(report).toBeDefined();
      if (muteAt === "finish") {
        expect(report?.status).toBe("ok");
        expect(errors).toEqual(["the record of the run was not written"]);
        return;
      }
      expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
      expect(report?.error).toContain("no answer");
    },
  );

  test("a write that took effect and was never answered is not waited for either", async () => {
    const { report, tables } = await play({ muteAt: "writeDisks", fate: "muteAfter" }, 600_000);
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
    expect([...tables.disks.values()].map(({ sizeGb }) => sizeGb)).toEqual([7]);
  });

  test("nothing is asked of it after the run gave up", async () => {
    const { tables } = await play({ muteAt: "disks" }, 600_000);
    expect([...tables.disks.values()].map(({ sizeGb, volumeState }) => [sizeGb, volumeState])).toEqual([[100, null]]);
  });

  test("a dry run ends as well", async () => {
    const { report } = await play({ muteAt: "disks", options: { dryRun: true } }, 600_000);
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
  });

  test("a run that is asked to stop leaves within half a minute", async () => {
    const cancel = new CancelSource();
    const onMute = () => cancel.cancel();
    const { report } = await play({ muteAt: "writeDisks", onMute, options: { deadlineMs: 0, cancel } }, 30_000);
    expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
  });
});

test("a cloud that hangs: the run ends before its deadline, and is recorded", async () => {
  const mute: Cloud = { ...cloud, volumes: () => new Promise<CloudRead<undefined>>(() => {}) };
  const { report, tables } = await play({ cloud: mute }, 600_000);
  expect(report).toMatchObject({ status: "deadline", exitCode: 3 });
  expect(tables.runs.map(({ status }) => status)).toEqual(["deadline"]);
});

test("a database that answers leaves no timer behind", async () => {
  const { report, tookMs, timers } = await play({}, 600_000);
  expect(report?.status).toBe("ok");
  expect([tookMs, timers]).toEqual([0, 0]);
});

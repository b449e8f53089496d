import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { UserError } from "../../model/userError.ts";
import type { OpenReport, Replay, StoredChange } from "../../ports/store.ts";
import { CrashDisk, type DiskFault } from "../store/crashDisk.ts";
import { FileStore } from "./fileStore.ts";

type State = Map<string, string>;
type Group = StoredChange[];

const firstLog = "log-0000000001";

function put(revision: number, name: string, text = `{"name":"${name}","at":${revision}}`): StoredChange {
  return {
    revision,
    key: { resource: "/pods", namespace: "default", name },
    side: { uid: `uid-${name}`, labels: { app: name, grüße: "é" }, fields: ["node-1", ""], owners: ["o1"] },
    body: Buffer.from(text),
  };
}

function remove(revision: number, name: string): StoredChange {
  return { revision, key: { resource: "/pods", namespace: "default", name }, side: null, body: null };
}

function apply(state: State, change: StoredChange): void {
  const key = `${change.key.resource} ${change.key.namespace}/${change.key.name}`;
  if (change.body === null) state.delete(key);
  else state.set(key, `${change.revision} ${JSON.stringify(change.side)} ${Buffer.from(change.body).toString()}`);
}

function fold(groups: readonly Group[]): State {
  const state: State = new Map();
  for (const group of groups) for (const change of group) apply(state, change);
  return state;
}

function into(state: State): Replay {
  return { object: (change) => apply(state, change), change: (change) => apply(state, change) };
}

async function openOn(disk: CrashDisk): Promise<{ store: FileStore; state: State; report: OpenReport }> {
  const store = new FileStore({ directory: "/data", disk });
  const state: State = new Map();
  const report = await store.open(into(state));
  return { store, state, report };
}

/** The files of a store after these groups, each synced on its own, or all in one batch. */
async function filesOf(groups: readonly Group[], batching: "each" | "together" = "each"): Promise<Map<string, Buffer>> {
  const disk = new CrashDisk();
  const { store } = await openOn(disk);
  for (const group of groups) {
    store.append(group);
    if (batching === "each") await store.synced();
  }
  await store.close();
  return disk.afterKill();
}

const few: Group[] = [
  [put(1, "a"), put(2, "b")],
  [put(3, "a", "short")],
  [remove(4, "b"), put(5, "c", "x".repeat(700)), put(6, "d")],
];

describe("a store that was closed", () => {
  test("replays every change with its side record and its body", async () => {
    const { state, report } = await openOn(new CrashDisk(await filesOf(few)));
    expect(state).toEqual(fold(few));
    expect(report).toEqual({ revision: 6, snapshotRevision: 0, cutBytes: 0 });
  });

  test("tells snapshot objects from later changes", async () => {
    const disk = new CrashDisk();
    const { store } = await openOn(disk);
    for (const group of few) store.append(group);
    const live = [put(3, "a", "short"), put(5, "c", "x".repeat(700)), put(6, "d")];
    const snapshot = store.snapshot({ revision: 6, objects: live });
    store.append([put(7, "e")]);
    await snapshot;
    await store.close();
    expect([...disk.afterKill().keys()].sort()).toEqual(["log-0000000002", "mark", "snapshot-0000000000000006"]);

    const seen: string[] = [];
    const again = new FileStore({ directory: "/data", disk: new CrashDisk(disk.afterKill()) });
    const report = await again.open({
      object: (change) => seen.push(`object ${change.key.name}`),
      change: (change) => seen.push(`change ${change.key.name}`),
    });
    expect(seen).toEqual(["object a", "object c", "object d", "change e"]);
    expect(report).toEqual({ revision: 7, snapshotRevision: 6, cutBytes: 0 });
  });

  test("continues where it stopped", async () => {
    const disk = new CrashDisk(await filesOf(few));
    const { store } = await openOn(disk);
    expect(() => store.append([put(6, "late")])).toThrow("revision 6 appended after revision 6");
    store.append([put(7, "e")]);
    await store.close();
    expect((await openOn(new CrashDisk(disk.afterKill()))).state).toEqual(fold([...few, [put(7, "e")]]));
  });
});

describe("a log cut at any byte", () => {
  test("replays exactly the complete groups, reports the truncated bytes, and accepts new writes", async () => {
    const files = await filesOf(few);
    const log = files.get(firstLog)!;
    const ends = [40];
    for (let i = 1; i <= few.length; i++) ends.push((await filesOf(few.slice(0, i))).get(firstLog)!.byteLength);
    expect(ends.at(-1)).toBe(log.byteLength);

    for (let size = 0; size <= log.byteLength; size++) {
      const disk = new CrashDisk(new Map([[firstLog, log.subarray(0, size)]]));
      const { store, state, report } = await openOn(disk);
      const whole = ends.filter((end) => end <= size).length - 1;
      const kept = few.slice(0, Math.max(0, whole));
      expect(state, `cut at ${size}`).toEqual(fold(kept));
      expect(report.cutBytes, `cut at ${size}`).toBe(size - (whole < 0 ? 0 : ends[whole]!));
      store.append([put(100, "z")]);
      await store.close();
      const again = await openOn(new CrashDisk(disk.afterKill()));
      expect(again.state, `cut at ${size}, written again`).toEqual(fold([...kept, [put(100, "z")]]));
      expect(again.report.cutBytes).toBe(0);
    }
  });

  test.each([
    { name: "zeros", tail: Buffer.alloc(3000) },
    { name: "a few zeros", tail: Buffer.alloc(7) },
    { name: "garbage", tail: Buffer.from("no record of ours begins like this, however long it is") },
  ])("and filled up with $name loses nothing that was written", async ({ tail }) => {
    const files = await filesOf(few);
    files.set(firstLog, Buffer.concat([files.get(firstLog)!, tail]));
    const { state, report } = await openOn(new CrashDisk(files));
    expect(state).toEqual(fold(few));
    expect(report.cutBytes).toBe(tail.byteLength);
  });
});

describe("damage", () => {
  test.each(["each", "together"] as const)("of any one byte is refused, groups synced %s", async (batching) => {
    const files = await filesOf(few, batching);
    const log = files.get(firstLog)!;
    for (let at = 0; at < log.byteLength; at++) {
      const damaged = Buffer.from(log);
      damaged[at]! ^= 0x41;
      const error = await openOn(new CrashDisk(new Map([[firstLog, damaged]]))).then(
        () => undefined,
        (refusal: unknown) => refusal,
      );
      expect(error, `byte ${at}`).toBeInstanceOf(UserError);
      const { code, message } = error as UserError;
      expect(code, `byte ${at}`).toBe("store-corrupt");
      expect(message).toContain(`/data/${firstLog}`);
      const offset = Number(/at offset (\d+)/.exec(message)?.[1]);
      expect(offset).toBeLessThanOrEqual(at);
    }
  });

  test("of a snapshot is refused", async () => {
    const disk = new CrashDisk();
    const { store } = await openOn(disk);
    store.append([put(1, "a"), put(2, "b")]);
    await store.snapshot({ revision: 2, objects: [put(1, "a"), put(2, "b")] });
    await store.close();
    const files = disk.afterKill();
    const name = "snapshot-0000000000000002";
    const whole = files.get(name)!;
    for (let at = 0; at < whole.byteLength; at++) {
      const damaged = Buffer.from(whole);
      damaged[at]! ^= 0x41;
      await expect(openOn(new CrashDisk(new Map([...files, [name, damaged]])))).rejects.toThrow(`/data/${name}`);
      const cut = whole.subarray(0, at);
      await expect(openOn(new CrashDisk(new Map([...files, [name, cut]])))).rejects.toThrow(`/data/${name}`);
    }
  });

  test("a hole of zeros in acknowledged data is refused although a power cut could look like it", async () => {
    const groups = [[put(1, "a", "x".repeat(2000))], [put(2, "b")]];
    const log = Buffer.from((await filesOf(groups)).get(firstLog)!);
    log.fill(0, 512, 1024);
    await expect(openOn(new CrashDisk(new Map([[firstLog, log]])))).rejects.toMatchObject({ code: "store-corrupt" });
  });

  test("a hole of zeros in a batch that was never acknowledged is cut", async () => {
    const groups = [[put(1, "a", "x".repeat(2000))], [put(2, "b")]];
    const log = Buffer.from((await filesOf(groups, "together")).get(firstLog)!);
    log.fill(0, 512, 1024);
    const { state, report } = await openOn(new CrashDisk(new Map([[firstLog, log]])));
    expect(state.size).toBe(0);
    expect(report.cutBytes).toBe(log.byteLength - 40);
  });

  test("a missing segment is refused", async () => {
    const disk = new CrashDisk();
    const { store } = await openOn(disk);
    store.append([put(1, "a")]);
    await store.snapshot({ revision: 1, objects: [put(1, "a")] });
    store.append([put(2, "b")]);
    await store.close();
    const files = disk.afterKill();
    files.delete("snapshot-0000000000000001");
    await expect(openOn(new CrashDisk(files))).rejects.toMatchObject({ code: "store-incomplete" });
  });

  test("a file of another format version is refused", async () => {
    const files = await filesOf(few);
    const { crc32 } = await import("node:zlib");
    const log = files.get(firstLog)!;
    log.writeUInt32LE(2, 8);
    log.writeUInt32LE(crc32(log.subarray(0, 36)), 36);
    await expect(openOn(new CrashDisk(files))).rejects.toMatchObject({ code: "store-version" });
  });
});

describe("a failing disk", () => {
  test.each(["EIO", "ENOSPC"] as const)(
    "(%s) at any step refuses the write and all later ones, and keeps what was acknowledged",
    async (kind) => {
      const opened = await stepsOfOpen();
      for (let step = opened; step < opened + 10; step++) {
        const disk = new CrashDisk(new Map(), { step, kind, part: 0.5 });
        const { store } = await openOn(disk);
        const acknowledged: Group[] = [];
        let refused = false;
        for (const group of few) {
          try {
            store.append(group);
            await store.synced();
            expect(refused).toBe(false);
            acknowledged.push(group);
          } catch (error) {
            expect(error).toMatchObject({ code: "store-failed" });
            refused = true;
          }
        }
        const wasRefused = refused;
        await store.close().catch((error: unknown) => expect(error).toMatchObject({ code: "store-failed" }));
        const { state, report } = await openOn(new CrashDisk(disk.afterKill()));
        const kept = few.findLastIndex((group) => group.at(-1)!.revision <= report.revision) + 1;
        expect(kept).toBeGreaterThanOrEqual(acknowledged.length);
        expect(state).toEqual(fold(few.slice(0, kept)));
        if (!wasRefused) expect(acknowledged).toHaveLength(few.length);
      }
    },
  );

  test("during a snapshot ends the snapshot; the log continues and nothing is lost", async () => {
    let ended = 0;
    const opened = await stepsOfOpen();
    for (let step = opened + 3; step < opened + 16; step++) {
      const disk = new CrashDisk(new Map(), { step, kind: "ENOSPC", part: 0.3 });
      const { store } = await openOn(disk);
      store.append([put(1, "a")]);
      await store.synced();
      const outcome = await store.snapshot({ revision: 1, objects: [put(1, "a")] }).then(
        () => "written",
        (error: unknown) => (error instanceof UserError ? "store failed" : "snapshot failed"),
      );
      if (outcome === "store failed") continue;
      if (outcome === "snapshot failed") ended++;
      store.append([put(2, "b")]);
      await store.synced();
      await store.close();
      expect((await openOn(new CrashDisk(disk.afterKill()))).state).toEqual(fold([[put(1, "a"), put(2, "b")]]));
    }
    expect(ended).toBeGreaterThan(4);
  });
});

async function stepsOfOpen(): Promise<number> {
  const disk = new CrashDisk();
  await openOn(disk);
  return disk.steps;
}

describe("a log with less than was acknowledged", () => {
  const refusal = (disk: CrashDisk): Promise<UserError> =>
    openOn(disk).then(
      () => expect.unreachable("it was opened"),
      (error: unknown) => error as UserError,
    );

  test("cut at any byte before the last acknowledged group is refused, and nothing is changed", async () => {
    const files = await filesOf(few);
    const log = files.get(firstLog)!;
    for (let size = 0; size < log.byteLength; size++) {
      const cut = new Map([...files, [firstLog, log.subarray(0, size)]]);
      const disk = new CrashDisk(cut);
      const error = await refusal(disk);
      expect(error.code, `cut at ${size}`).toBe("store-lost");
      expect(error.message).toContain("revision 6 was acknowledged");
      expect(error.cure).toContain("--accept-loss");
      expect(disk.afterKill()).toEqual(cut);
    }
  });

  test("removed is refused", async () => {
    const files = await filesOf(few);
    files.delete(firstLog);
    expect((await refusal(new CrashDisk(files))).message).toBe(
      "the data folder /data ends at revision 0, but revision 6 was acknowledged: the last 6 changes are missing",
    );
  });

  test("replaced by an older copy is refused", async () => {
    const files = await filesOf(few);
    files.set(firstLog, (await filesOf(few.slice(0, 2))).get(firstLog)!);
    expect((await refusal(new CrashDisk(files))).code).toBe("store-lost");
  });

  test("is opened where the loss is accepted, with a report, and no revision is given twice", async () => {
    const files = await filesOf(few);
    files.set(firstLog, (await filesOf(few.slice(0, 2))).get(firstLog)!);
    const disk = new CrashDisk(files);
    const store = new FileStore({ directory: "/data", disk, acceptLoss: true });
    const state: State = new Map();
    expect(await store.open(into(state))).toEqual({
      revision: 7,
      snapshotRevision: 0,
      cutBytes: 0,
      lost: { after: 3, upTo: 6 },
      lostUpTo: 7,
    });
    expect(state).toEqual(fold(few.slice(0, 2)));
    expect(() => store.append([put(7, "again")])).toThrow("revision 7 appended after revision 7");
    // A rotation before the first write: the next segment continues what is there.
    await store.snapshot({ revision: 7, objects: [put(3, "a", "short"), put(2, "b")] });
    store.append([put(8, "e")]);
    await store.close();
    const again = await openOn(new CrashDisk(disk.afterKill()));
    expect(again.report).toEqual({ revision: 8, snapshotRevision: 7, cutBytes: 0, lostUpTo: 7 });
    expect([...again.state.keys()].sort()).toEqual(["/pods default/a", "/pods default/b", "/pods default/e"]);
  });

  test("once accepted, is opened from then on, also when nothing was written since", async () => {
    const files = await filesOf(few);
    files.delete(firstLog);
    const disk = new CrashDisk(files);
    const store = new FileStore({ directory: "/data", disk, acceptLoss: true });
    await store.open(into(new Map()));
    await store.close();
    expect((await openOn(new CrashDisk(disk.afterKill()))).report).toMatchObject({ revision: 7, lostUpTo: 7 });
  });

  test("of a folder without a mark, as earlier versions left it, is opened and marked", async () => {
    const files = await filesOf(few);
    files.delete("mark");
    const disk = new CrashDisk(files);
    const { store } = await openOn(disk);
    await store.close();
    const marked = disk.afterKill();
    marked.set(firstLog, Buffer.alloc(0));
    expect((await refusal(new CrashDisk(marked))).code).toBe("store-lost");
  });

  test("a mark that cannot be read is refused, and written again where a loss is accepted", async () => {
    const files = await filesOf(few);
    files.set("mark", Buffer.alloc(0));
    expect((await refusal(new CrashDisk(files))).code).toBe("store-corrupt");
    const store = new FileStore({ directory: "/data", disk: new CrashDisk(files), acceptLoss: true });
    expect((await store.open(into(new Map()))).revision).toBe(6);
    await store.close();
  });
});

describe("a folder that changes under an open store", () => {
  const tick = { run: () => {} };
  const clock = {
    after(_: number, run: () => void) {
      tick.run = run;
      return () => {};
    },
  };
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  };

  test("refuses the next write when its log was removed, and acknowledges nothing", async () => {
    const disk = new CrashDisk();
    const { store } = await openOn(disk);
    await disk.remove(firstLog);
    store.append([put(1, "a")]);
    await expect(store.synced()).rejects.toMatchObject({
      code: "store-failed",
      message: "cannot write /data/log-0000000001: the file was removed, moved or replaced",
    });
  });

  test.each([
    { name: "removed", change: (disk: CrashDisk) => disk.remove(firstLog), why: "removed" },
    {
      name: "read-only",
      change: async (disk: CrashDisk) => {
        disk.isReadOnly = true;
      },
      why: "EROFS",
    },
  ])("reports within a second, without a write, that it is $name", async ({ change, why }) => {
    const disk = new CrashDisk();
    const store = new FileStore({ directory: "/data", disk, clock });
    const failures: string[] = [];
    store.onFailure(({ message }) => failures.push(message));
    await store.open(into(new Map()));
    tick.run();
    await settle();
    expect(failures).toEqual([]);
    await change(disk);
    tick.run();
    await settle();
    expect(failures).toHaveLength(1);
    expect(failures[0]).toContain(why);
    expect(() => store.append([put(1, "a")])).toThrow("cannot write");
  });
});

describe("group commit", () => {
  test("appends that come while a sync runs share the next one", async () => {
    const disk = new CrashDisk();
    const { store } = await openOn(disk);
    const before = disk.steps;
    for (let i = 1; i <= 50; i++) store.append([put(i, `p${i}`)]);
    await store.synced();
    expect(disk.steps - before).toBe(3); // one write, one sync, one mark
    await store.close();
  });

  test("a write is acknowledged only when its own change is on the disk", async () => {
    const disk = new CrashDisk();
    const { store } = await openOn(disk);
    for (let i = 1; i <= 5; i++) {
      store.append([put(i, `p${i}`)]);
      await store.synced();
      const { report } = await openOn(new CrashDisk(disk.afterPowerCut(() => 0)));
      expect(report.revision).toBe(i);
    }
    await store.close();
  });

  test("in async mode a write is acknowledged before the sync, which follows within 50 ms", async () => {
    const disk = new CrashDisk();
    const timers: { delayMs: number; run: () => void }[] = [];
    const clock = {
      after(delayMs: number, run: () => void) {
        timers.push({ delayMs, run });
        return () => {};
      },
    };
    const store = new FileStore({ directory: "/data", disk, durability: "async", clock });
    await store.open(into(new Map()));
    store.append([put(1, "a")]);
    await store.synced();
    expect((await openOn(new CrashDisk(disk.afterPowerCut(() => 0)))).report.revision).toBe(0);
    timers.find(({ delayMs }) => delayMs === 50)!.run();
    await new Promise(setImmediate);
    expect((await openOn(new CrashDisk(disk.afterPowerCut(() => 0)))).report.revision).toBe(1);
    await store.close();
  });
});

describe("the wish for a snapshot", () => {
  test("is due with a long log and not after a snapshot, until the log is twice as long as that", async () => {
    const disk = new CrashDisk();
    const store = new FileStore({ directory: "/data", disk, snapshotLogBytesMin: 1000 });
    await store.open(into(new Map()));
    expect(store.wantsSnapshot()).toBe(false);
    store.append([put(1, "a", "x".repeat(2000))]);
    await store.synced();
    expect(store.wantsSnapshot()).toBe(true);
    await store.snapshot({ revision: 1, objects: [put(1, "a", "x".repeat(2000))] });
    expect(store.wantsSnapshot()).toBe(false);
    store.append([put(2, "a", "x".repeat(2000))]);
    await store.synced();
    expect(store.wantsSnapshot()).toBe(false);
    store.append([put(3, "a", "x".repeat(3000))]);
    await store.synced();
    expect(store.wantsSnapshot()).toBe(true);
    await store.close();
  });
});

type Act = { act: "append"; sizes: number[]; sync: boolean } | { act: "snapshot"; wait: boolean } | { act: "restart" };

/** Plays a history on a disk that may stop; returns all groups and how many of them were acknowledged. */
async function play(disk: CrashDisk, acts: readonly Act[], durability: "sync" | "async") {
  const groups: Group[] = [];
  let acknowledged = 0;
  let revision = 0;
  const current = new Map<string, StoredChange>();
  const clock = { after: () => () => {} };
  let running: Promise<unknown> = Promise.resolve();
  try {
    let store = new FileStore({ directory: "/data", disk, durability, clock });
    await store.open(into(new Map()));
    for (const act of acts) {
      if (act.act === "append") {
        const group = act.sizes.map((size) => {
          revision++;
          const name = `p${(revision * 7 + size) % 5}`;
          return size % 4 === 3 ? remove(revision, name) : put(revision, name, "y".repeat(size));
        });
        groups.push(group);
        for (const change of group) {
          if (change.body === null) current.delete(change.key.name);
          else current.set(change.key.name, change);
        }
        store.append(group);
        const count = groups.length;
        if (act.sync) {
          await store.synced();
          acknowledged = count;
        } else {
          running = Promise.allSettled([
            running,
            store.synced().then(() => {
              acknowledged = Math.max(acknowledged, count);
            }),
          ]);
        }
      } else if (act.act === "snapshot") {
        await running; // one snapshot at a time
        const done = store.snapshot({ revision, objects: [...current.values()] });
        if (act.wait) await done;
        else running = Promise.allSettled([running, done]);
      } else {
        await running;
        await store.close();
        acknowledged = groups.length;
        store = new FileStore({ directory: "/data", disk, durability, clock });
        await store.open(into(new Map()));
      }
    }
    await store.close();
    acknowledged = groups.length;
  } catch (error) {
    // The disk stopped; what counts is what it holds.
    if (!disk.isStopped) throw error;
  }
  await running;
  return { groups, acknowledged };
}

/** Whether the files hold the state after some whole number of groups, no fewer than asked; otherwise throws. */
async function checkFiles(files: Map<string, Buffer>, groups: readonly Group[], atLeast: number): Promise<void> {
  const { store, state, report } = await openOn(new CrashDisk(files));
  await store.close();
  const kept = groups.findLastIndex((group) => group.at(-1)!.revision <= report.revision) + 1;
  expect(kept).toBeGreaterThanOrEqual(atLeast);
  expect(state).toEqual(fold(groups.slice(0, kept)));
}

function chance(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}

describe("a crash", () => {
  const history: Act[] = [
    { act: "append", sizes: [10, 700], sync: true },
    { act: "append", sizes: [20], sync: false },
    { act: "append", sizes: [3, 900], sync: true },
    { act: "snapshot", wait: false },
    { act: "append", sizes: [1200, 5], sync: false },
    { act: "append", sizes: [8], sync: true },
    { act: "snapshot", wait: true },
    { act: "append", sizes: [600], sync: true },
    { act: "restart" },
    { act: "append", sizes: [600, 7], sync: true },
    { act: "snapshot", wait: true },
    { act: "append", sizes: [40], sync: false },
  ];

  test.each(["sync", "async"] as const)(
    "at every step of a history with snapshots keeps every acknowledged group whole (%s)",
    async (durability) => {
      const full = new CrashDisk();
      await play(full, history, durability);
      expect(full.steps).toBeGreaterThan(40);
      for (let step = 0; step < full.steps; step++) {
        for (const part of [0, 0.4, 1]) {
          const disk = new CrashDisk(new Map(), { step, kind: "stop", part });
          const { groups, acknowledged } = await play(disk, history, durability);
          await checkFiles(disk.afterKill(), groups, acknowledged);
          for (let seed = 0; seed < 8; seed++) {
            // Asynchronous durability promises order after a power cut, not completeness.
            const atLeast = durability === "sync" ? acknowledged : 0;
            await checkFiles(disk.afterPowerCut(chance(seed * 7919 + step)), groups, atLeast);
          }
        }
      }
    },
  );

  const act: fc.Arbitrary<Act> = fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        act: fc.constant("append" as const),
        sizes: fc.array(fc.nat(1500), { minLength: 1, maxLength: 4 }),
        sync: fc.boolean(),
      }),
    },
    { weight: 2, arbitrary: fc.record({ act: fc.constant("snapshot" as const), wait: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ act: fc.constant("restart" as const) }) },
  );

  test("at a random step of a random history, twice in a row, keeps every acknowledged group whole", async () => {
    const property = fc.asyncProperty(
      fc.array(act, { minLength: 1, maxLength: 25 }),
      fc.nat(120),
      fc.constantFrom(0, 0.2, 0.5, 0.9, 1),
      fc.nat(),
      fc.nat(8),
      async (acts, step, part, seed, secondStep) => {
        const stop = (at: number): DiskFault => ({ step: at, kind: "stop", part });
        const disk = new CrashDisk(new Map(), stop(step));
        const { groups, acknowledged } = await play(disk, acts, "sync");
        for (const files of [disk.afterKill(), disk.afterPowerCut(chance(seed))]) {
          // The second crash hits the recovery itself.
          const second = new CrashDisk(files, stop(secondStep));
          await openOn(second).catch(() => {});
          await checkFiles(second.afterKill(), groups, acknowledged);
          await checkFiles(second.afterPowerCut(chance(seed + 1)), groups, acknowledged);
        }
      },
    );
    await fc.assert(property, { numRuns: 400 });
  });
});

describe("on a real disk", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "store-"));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  test("a store creates its directory, keeps its content and releases the directory", async () => {
    const deep = join(directory, "a", "b");
    const store = new FileStore({ directory: deep });
    await store.open(into(new Map()));
    for (const group of few) store.append(group);
    await store.snapshot({ revision: 6, objects: [put(3, "a", "short"), put(5, "c", "x".repeat(700)), put(6, "d")] });
    store.append([put(7, "e")]);
    await store.close();
    expect(readdirSync(deep).sort()).toEqual(["log-0000000002", "mark", "snapshot-0000000000000006"]);
    const state: State = new Map();
    const again = new FileStore({ directory: deep });
    await again.open(into(state));
    await again.close();
    expect(state).toEqual(fold([...few, [put(7, "e")]]));
  });

  test("a second store on the same directory is refused, and the first is not disturbed", async () => {
    const store = new FileStore({ directory });
    await store.open(into(new Map()));
    await expect(new FileStore({ directory }).open(into(new Map()))).rejects.toMatchObject({ code: "store-locked" });
    store.append([put(1, "a")]);
    await store.close();
    const again = new FileStore({ directory });
    expect((await again.open(into(new Map()))).revision).toBe(1);
    await again.close();
  });

  test("a directory that cannot be one is refused with a cure", async () => {
    writeFileSync(join(directory, "file"), "");
    const store = new FileStore({ directory: join(directory, "file", "data") });
    await expect(store.open(into(new Map()))).rejects.toMatchObject({ code: "store-unusable" });
  });

  test("records larger than the read window are replayed completely", async () => {
    const store = new FileStore({ directory });
    await store.open(into(new Map()));
    const groups = [1, 2, 3, 4, 5].map((n) => [put(n, `p${n}`, String(n).repeat(n % 2 === 0 ? 3_000_000 : 70_000))]);
    groups.push(Array.from({ length: 40 }, (_, i) => put(10 + i, `q${i}`, "z".repeat(250_000))));
    for (const group of groups) store.append(group);
    await store.close();
    const state: State = new Map();
    const again = new FileStore({ directory });
    await again.open(into(state));
    await again.close();
    expect(state).toEqual(fold(groups));
  });
});

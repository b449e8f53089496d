import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { ManualClock, settle } from "../../../testing/apiserver/manualClock.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Store, StoredChange } from "../../ports/store.ts";
import { ObjectStore } from "./objectStore.ts";

function pod(name: string): KubeObject {
  const metadata = { name, namespace: "a", uid: name, resourceVersion: "", creationTimestamp: "2026-01-01T00:00:00Z" };
  return { kind: "Pod", apiVersion: "v1", metadata };
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const side = { uid: "u", labels: null, fields: [], owners: null };

/** A log whose syncs and snapshots the test answers. */
class TestLog implements Store {
  appended: number[] = [];
  snapshots = 0;
  answers: { resolve: () => void; reject: (error: Error) => void }[] = [];
  wants = false;
  snapshotError: Error | undefined;
  async open() {
    return { revision: 0, snapshotRevision: 0, cutBytes: 0 };
  }
  append(changes: readonly StoredChange[]) {
    this.appended.push(...changes.map((change) => change.revision));
  }
  synced() {
    return new Promise<void>((resolve, reject) => this.answers.push({ resolve, reject }));
  }
  wantsSnapshot() {
    return this.wants;
  }
  async snapshot() {
    this.snapshots++;
    if (this.snapshotError !== undefined) throw this.snapshotError;
  }
  async close() {}
}

describe("a store with a log", () => {
  test("shows a write to the next writer at once, and to readers only when it is on the disk", async () => {
    const log = new TestLog();
    const store = new ObjectStore({ clock: new ManualClock(), log });
    const heard: number[] = [];
    store.onEvent((event) => heard.push(event.revision));
    store.put("/pods", pod("p"), side);
    expect(store.get("/pods", "a", "p")?.revision).toBe(1);
    const durable = store.whenDurable(1);
    await settle();
    expect({ heard, durable: store.durableRevision }).toEqual({ heard: [], durable: 0 });
    log.answers.shift()?.resolve();
    await durable;
    expect(heard).toEqual([1]);
  });

  test("writes that are queued while one sync runs share the next one", async () => {
    const log = new TestLog();
    const store = new ObjectStore({ clock: new ManualClock(), log });
    store.put("/pods", pod("a"), side);
    await settle();
    for (const name of ["b", "c", "d"]) store.put("/pods", pod(name), side);
    log.answers.shift()?.resolve();
    await settle();
    expect(store.durableRevision).toBe(1);
    log.answers.shift()?.resolve();
    await settle();
    expect({ durable: store.durableRevision, syncs: log.answers.length }).toEqual({ durable: 4, syncs: 0 });
  });

  test("refuses everything after its disk has failed, and answers waiting writers so", async () => {
    const log = new TestLog();
    const store = new ObjectStore({ clock: new ManualClock(), log });
    store.put("/pods", pod("p"), side);
    const durable = store.whenDurable(1);
    await settle();
    log.answers.shift()?.reject(new Error("no space left"));
    await expect(durable).rejects.toThrow("no space left");
    expect(() => store.put("/pods", pod("q"), side)).toThrow("no space left");
    expect(store.isHealthy).toBe(false);
  });

  test("continues when a snapshot fails, and retries a minute later", async () => {
    const clock = new ManualClock();
    const log = new TestLog();
    const problems: unknown[] = [];
    const store = new ObjectStore({ clock, log, onProblem: (error) => problems.push(error) });
    log.wants = true;
    log.snapshotError = new Error("quota");
    const write = async (name: string) => {
      store.put("/pods", pod(name), side);
      await settle();
      log.answers.shift()?.resolve();
      await settle();
    };
    await write("a");
    await write("b");
    expect({ snapshots: log.snapshots, problems: problems.length, healthy: store.isHealthy }).toEqual({
      snapshots: 1,
      problems: 1,
      healthy: true,
    });
    await clock.advance(60_000);
    await write("c");
    expect(log.snapshots).toBe(2);
  });
});

test("a listener that fails does not take the event from the others", () => {
  const problems: unknown[] = [];
  const store = new ObjectStore({ clock: new ManualClock(), onProblem: (error) => problems.push(error) });
  const heard: number[] = [];
  store.onEvent(() => {
    throw new Error("ours is the mistake");
  });
  store.onEvent((event) => heard.push(event.revision));
  store.put("/pods", pod("p"), side);
  expect({ heard, problems: problems.length }).toEqual({ heard: [1], problems: 1 });
});

test("the write of a listener reaches the others in order", () => {
  const store = new ObjectStore({ clock: new ManualClock() });
  const heard: number[] = [];
  store.onEvent((event) => {
    if (event.revision < 3) store.put("/pods", pod(`p${event.revision}`), side);
  });
  store.onEvent((event) => heard.push(event.revision));
  store.put("/pods", pod("p"), side);
  expect(heard).toEqual([1, 2, 3]);
});

test("history is compacted by age and count, and earlier when it is too large", async () => {
  const clock = new ManualClock();
  const store = new ObjectStore({ clock, retention: { events: 3, ageMs: 1_000, bytes: 1_000_000 } });
  for (let at = 0; at < 5; at++) store.put("/pods", pod(`p${at}`), side);
  expect(store.compactedRevision).toBe(0);
  await clock.advance(2_000);
  store.put("/pods", pod("late"), side);
  expect({ compacted: store.compactedRevision, events: store.historySize.events }).toEqual({ compacted: 3, events: 3 });
});

test("a store in memory counts the size of its history too, and releases exactly what it counted", async () => {
  const clock = new ManualClock();
  const store = new ObjectStore({ clock, retention: { events: 10, ageMs: 1_000_000, bytes: 20_000 } });
  for (let at = 0; at < 1_000; at++) {
    const { previous } = store.put("/pods", pod("p"), side);
    // Somebody who watches has it encoded, later than it was weighed.
    if (at % 3 === 0) previous?.bytes();
  }
  expect(store.historySize.bytes).toBeLessThanOrEqual(20_000);
  expect(store.historySize.events).toBeGreaterThan(10);
  store.compact(store.revision);
  expect(store.historySize).toEqual({ events: 0, bytes: 0 });
});

test("compacted versions are not referenced any more, also between two cuts of the list", async () => {
  const store = new ObjectStore({ clock: new ManualClock(), retention: { events: 5_000, ageMs: -1 } });
  const forgotten: WeakRef<object>[] = [];
  const fill = (): void => {
    for (let at = 0; at < 6_000; at++) {
      const version = store.put("/pods", pod("p"), side);
      if (at < 500) forgotten.push(new WeakRef(version.object()));
    }
  };
  fill();
  // What a turn of the event loop has referred to weakly lives until its end.
  await settle();
  collectGarbage();
  expect(forgotten.filter((each) => each.deref() !== undefined)).toHaveLength(0);
  expect(store.historySize.events).toBe(5_000);
});

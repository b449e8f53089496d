import { describe, expect, test } from "vitest";
import type { CloudSnapshot } from "../../model/inventory/cloud.ts";
import { nowMs, snapshot } from "../../sim/inventory/builders.ts";
import { isForeign, SnapshotSets, snapshotRulesDefault, windowDays, windowStartMs } from "./snapshotSets.ts";

const mine = { "gpu-dev-user": "ada", disk_name: "d" };
const owner = { key: "k", name: { user: "ada", disk: "d" }, volumeId: "v1" };

function summary(snapshots: CloudSnapshot[], rules = snapshotRulesDefault) {
  const sets = new SnapshotSets([owner], rules, { reads: "all", baseBeforeMs: 0 });
  for (const each of snapshots) sets.add(each);
  return sets.summary("k");
}

describe("the snapshots of a disk are", () => {
  test.each([
    { fact: "those of its volume", of: [snapshot("s1", "v1")], completed: 1 },
    {
      fact: "those that carry its user and name, whatever volume they are of",
      of: [snapshot("s1", "gone", { tags: mine })],
      completed: 1,
    },
    { fact: "counted once when both hold", of: [snapshot("s1", "v1", { tags: mine })], completed: 1 },
    { fact: "counted once when a page repeats them", of: [snapshot("s1", "v1"), snapshot("s1", "v1")], completed: 1 },
    {
      fact: "found by the other spelling of the tag",
      of: [snapshot("s1", "gone", { tags: { "gpu-dev-user": "ada", "disk-name": "d" } })],
      completed: 1,
    },
    {
      fact: "not those that are on their way out",
      of: [snapshot("s1", "v1", { tags: { ...mine, "delete-date": "2026-12-01" } })],
      completed: 0,
    },
    {
      fact: "not copies, though a copy has all the tags",
      of: [snapshot("s1", "vol-ffffffff", { tags: mine })],
      completed: 0,
    },
    { fact: "not a scanner's", of: [snapshot("s1", "v1", { tags: { ...mine, WizScan: "1" } })], completed: 0 },
    {
      fact: "not failed or recovering ones",
      of: [snapshot("s1", "v1", { state: "error" }), snapshot("s2", "v1", { state: "recovering" })],
      completed: 0,
    },
  ])("$fact", ({ of, completed }) => {
    expect(summary(of)?.completed).toBe(completed);
  });

  test("only those of its volume under the old rule", () => {
    const rules = { ...snapshotRulesDefault, scope: "volume" as const };
    expect(summary([snapshot("s1", "gone", { tags: mine }), snapshot("s2", "v1")], rules)?.completed).toBe(1);
  });
});

test("a disk is being backed up while a pending snapshot is newer than the newest whole one", () => {
  const pending = snapshot("p", "v1", { state: "pending", startedMs: 10 });
  expect(summary([pending])).toMatchObject({ isBackingUp: true, lastCompletedMs: undefined });
  expect(summary([pending, snapshot("s", "v1", { startedMs: 5 })])).toMatchObject({
    isBackingUp: true,
    lastCompletedMs: 5,
  });
  expect(summary([pending, snapshot("s", "v1", { startedMs: 15 })])).toMatchObject({
    isBackingUp: false,
    lastCompletedMs: 15,
  });
});

test("a foreign copy is recognised by its volume, its tags or its description", () => {
  expect(isForeign(snapshot("s", "v1", { description: "Created by Wiz scanner" }), snapshotRulesDefault)).toBe(true);
  expect(isForeign(snapshot("s", "v1", { tags: mine }), snapshotRulesDefault)).toBe(false);
});

describe("a pass over the window of recent days", () => {
  const baseBeforeMs = windowStartMs(nowMs);
  const old = snapshot("old", "v1", { startedMs: baseBeforeMs - 1 });
  const fresh = snapshot("fresh", "v1", { startedMs: baseBeforeMs + 1 });

  test("gives what a full pass gives", () => {
    const full = new SnapshotSets([owner], snapshotRulesDefault, { reads: "all", baseBeforeMs });
    full.add(old);
    const base = full.base("k");
    expect(base).toEqual({ completed: 1, lastCompletedMs: baseBeforeMs - 1 });
    full.add(fresh);
    const window = new SnapshotSets([{ ...owner, base }], snapshotRulesDefault, { reads: "window", baseBeforeMs });
    window.add(fresh);
    expect(window.summary("k")).toEqual(full.summary("k"));
    // Read for another reason, it is not counted a second time.
    window.add(old);
    expect(window.summary("k")).toEqual(full.summary("k"));
  });

  test("counts everything of a disk that has no base yet", () => {
    const window = new SnapshotSets([owner], snapshotRulesDefault, { reads: "window", baseBeforeMs });
    window.add(old);
    window.add(fresh);
    expect(window.summary("k")?.completed).toBe(2);
  });

  test("begins before the oldest pending snapshot, unless that one is stuck", () => {
    const dayMs = 86_400_000;
    expect(windowStartMs(nowMs, nowMs - 4 * dayMs)).toBe(windowStartMs(nowMs) - 3 * dayMs);
    expect(windowStartMs(nowMs, nowMs - 400 * dayMs)).toBe(windowStartMs(nowMs) - 6 * dayMs);
  });

  test("begins a day ago, and looks a day ahead", () => {
    expect(windowDays(baseBeforeMs, nowMs)).toEqual(["2026-11-14*", "2026-11-15*", "2026-11-16*"]);
  });
});

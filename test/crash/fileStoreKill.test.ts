import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import type { StoredChange } from "../../src/ports/store.ts";
import { bundled } from "../bundled.ts";
import { killLoop } from "./killLoop.ts";

let program = "";

beforeAll(async () => {
  program = await bundled(new URL("appendForever.ts", import.meta.url), "appendForever.mjs");
});

test("a process killed 200 times while it writes loses no acknowledged group and keeps no half of one", async () => {
  const directory = mkdtempSync(join(tmpdir(), "store-kill-"));
  let acknowledged = 0;
  let snapshots = 0;
  let state = 20_260_701;
  const below = (bound: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  try {
    await killLoop({
      script: [program],
      directory,
      rounds: 200,
      below,
      killAfterMsMax: 60,
      onLine(line) {
        const [word, revision] = line.split(" ");
        if (word === "acknowledged") acknowledged = Math.max(acknowledged, Number(revision));
        // Whatever a start has served to a client is as good as acknowledged.
        if (word === "opened") {
          expect(Number(revision)).toBeGreaterThanOrEqual(acknowledged);
          acknowledged = Number(revision);
        }
      },
      async afterKill(round) {
        const names = new Map<string, StoredChange>();
        const keep = (change: StoredChange): void => {
          names.set(change.key.name, change);
        };
        const store = new FileStore({ directory });
        const report = await store.open({ object: keep, change: keep });
        await store.close();
        if (report.snapshotRevision > 0) snapshots++;
        expect(report.revision, `round ${round}`).toBeGreaterThanOrEqual(acknowledged);
        expect(report.revision % 3, `round ${round}: half a group`).toBe(0);
        const last = report.revision / 3 - 1;
        for (const { key, body, revision } of names.values()) {
          const { group } = JSON.parse(Buffer.from(body!).toString()) as { group: number };
          const [part, slot] = key.name.split("-").map(Number);
          // The newest group that wrote this slot, and the revision it gave to this part.
          expect(group, `round ${round} ${key.name}`).toBe(last - ((last - slot!) % 100));
          expect(revision).toBe(group * 3 + part! + 1);
        }
        expect(names.size).toBe(3 * Math.min(100, last + 1));
      },
    });
    expect(acknowledged).toBeGreaterThan(1000);
    expect(snapshots).toBeGreaterThan(100);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}, 600_000);

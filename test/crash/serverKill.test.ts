import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { bundled } from "../bundled.ts";
import { HttpCaller, type KubeJson, tokenFile } from "../httpCaller.ts";
import { Ledger, revisionOf, same } from "./ledger.ts";
import { type Load, resources, write } from "./writers.ts";

const writers = 8;
/** In each of two lanes. */
const kills = process.env["MUSTER_LONG"] === "1" ? 1_000 : 100;

let program = "";

beforeAll(async () => {
  program = await bundled(new URL("serveForever.ts", import.meta.url), "serveForever.mjs");
});

interface Opened {
  url: string;
  revision: number;
  snapshotRevision: number;
  cutBytes: number;
}

interface Tally {
  kills: number;
  acknowledged: number;
  survivors: number;
  /** Kills that came before the server was ready. */
  early: number;
  /** Watches that were resumed across a crash, and those that were told to list again. */
  resumed: number;
  expired: number;
  snapshots: number;
}

// Two lanes, since a machine has two cores and most of a round is the start of a process.
test(
  "a server killed 200 times under a concurrent load loses no acknowledged write, keeps no half of one and never repeats a revision",
  async () => {
    const tallies = await Promise.all([lane({ seed: 4711, kills }), lane({ seed: 4712, kills })]);
    const sum = (pick: (tally: Tally) => number): number => tallies.reduce((total, tally) => total + pick(tally), 0);
    expect(sum((tally) => tally.kills)).toBe(2 * kills);
    // The test must have reached what it was written for.
    expect(sum((tally) => tally.acknowledged)).toBeGreaterThan(2_000);
    expect(sum((tally) => tally.survivors)).toBeGreaterThan(20);
    expect(sum((tally) => tally.early)).toBeGreaterThan(5);
    expect(sum((tally) => tally.resumed)).toBeGreaterThan(40);
    expect(sum((tally) => tally.expired)).toBeGreaterThan(0);
    expect(sum((tally) => tally.snapshots)).toBeGreaterThan(1);
  },
  4_000 * kills,
);

async function lane({ seed, kills }: { seed: number; kills: number }): Promise<Tally> {
  const directory = mkdtempSync(join(tmpdir(), "server-kill-"));
  const below = generator(seed);
  const ledger = new Ledger();
  const tally: Tally = { kills: 0, acknowledged: 0, survivors: 0, early: 0, resumed: 0, expired: 0, snapshots: 0 };
  let marks = 0;
  let running: ChildProcess | undefined;
  let snapshotRevision = 0;
  try {
    for (let round = 0; round <= kills; round++) {
      const where = `seed ${seed}, round ${round}`;
      const { child, opened } = start(directory);
      running = child;
      // Some kills hit a server that is still reading its log or writing its first objects.
      const early = round < kills && below(8) === 0;
      if (early) {
        const killed = killAfter(child, 50 + below(250));
        await opened.catch(() => undefined);
        await killed;
        tally.kills++;
        tally.early++;
        continue;
      }
      const { url, revision, snapshotRevision: compacted } = await opened;
      const caller = new HttpCaller(url);
      expect(revision, `${where}: the store went back`).toBeGreaterThanOrEqual(ledger.seenRevision);
      if (compacted !== snapshotRevision) tally.snapshots++;
      snapshotRevision = compacted;
      ledger.seenRevision = revision;
      expect(await settleAll(ledger, caller), where).toEqual([]);
      expect(await resumeWatch({ ledger, caller, below, compacted, tally }), where).toEqual([]);
      const problems: string[] = [];
      const load: Load = { ledger, caller, below, problems, nextMark: () => `${seed}-${marks++}`, onAnswer: undefined };
      if (round === kills) {
        await killAfter(child, 0);
      } else {
        // Counted in answers, so that a slow machine does not kill servers that have done nothing.
        const dueAfter = ledger.writes.size + below(60);
        const killed = new Promise<void>((resolve, reject) => {
          const tick = (): void => {
            if (ledger.writes.size < dueAfter) load.onAnswer = tick;
            else killAfter(child, below(3_000) / 1000).then(resolve, reject);
          };
          tick();
        });
        await Promise.all(Array.from({ length: writers }, (_, writer) => write(load, writer)));
        await killed;
        tally.kills++;
      }
      caller.close();
      expect(problems, where).toEqual([]);
    }
  } finally {
    running?.kill("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
  tally.acknowledged = ledger.writes.size + ledger.deletions.length;
  tally.survivors = ledger.survivors;
  return tally;
}

/** Reads everything back and holds it against the promises. */
async function settleAll(ledger: Ledger, caller: HttpCaller): Promise<string[]> {
  const found = new Map<string, KubeJson>();
  for (const resource of resources) {
    const list = await caller.get(resource);
    expect(list.code).toBe(200);
    const [base, plural] = split(resource);
    for (const item of list.json.items) {
      found.set(`${base}/namespaces/${item.metadata.namespace}/${plural}/${item.metadata.name}`, item);
    }
  }
  const problems: (string | undefined)[] = [];
  for (const path of ledger.paths()) problems.push(ledger.settle(path, found.get(path)));
  return problems.filter((problem) => problem !== undefined);
}

/** Watches on from a revision that was acknowledged before the crash, up to a write that is made now. */
async function resumeWatch(at: {
  ledger: Ledger;
  caller: HttpCaller;
  below: (bound: number) => number;
  compacted: number;
  tally: Tally;
}): Promise<string[]> {
  const { ledger, caller, below, compacted, tally } = at;
  const revisions = [...ledger.writes.keys()];
  if (revisions.length === 0) return [];
  const since = revisions[Math.max(0, revisions.length - 1 - below(250))] as number;
  const watch = await caller.watch(`/api/v1/configmaps?watch=1&resourceVersion=${since}`);
  const path = "/api/v1/namespaces/default/configmaps/sentinel";
  // Never the same twice: a write that changes nothing has no event.
  const sentinel = await caller.patch(path, "merge", {
    data: { start: caller.url, after: String(ledger.seenRevision) },
  });
  const last =
    sentinel.code === 404
      ? await caller.post("/api/v1/namespaces/default/configmaps", { metadata: { name: "sentinel" } })
      : sentinel;
  expect(last.code).toBeLessThan(300);
  const lastRevision = revisionOf(last.json);
  const problems: string[] = [];
  const shown = new Map<number, KubeJson>();
  const gone = new Set<string>();
  let previous = since;
  for (;;) {
    const event = await watch.next();
    if (event === undefined) return [`the watch from ${since} ended by itself`];
    if (event.type === "ERROR") {
      tally.expired++;
      const rightly = event.object.code === 410 && since < compacted;
      return rightly ? [] : [`the watch from ${since} failed with ${JSON.stringify(event.object)}`];
    }
    const revision = revisionOf(event.object);
    if (revision <= previous) problems.push(`event ${revision} came after ${previous}`);
    previous = revision;
    if (event.type === "DELETED") gone.add(event.object.metadata.uid);
    else shown.set(revision, event.object);
    if (revision === lastRevision) break;
  }
  watch.destroy();
  tally.resumed++;
  if (since < compacted) problems.push(`a watch from ${since} was served although the past ends at ${compacted}`);
  for (const [revision, object] of ledger.writes) {
    if (revision <= since || object.kind !== "ConfigMap") continue;
    const event = shown.get(revision);
    if (event === undefined) problems.push(`the watch from ${since} left out ${revision}`);
    else if (!same(event, object)) problems.push(`the event at ${revision} is not what was acknowledged`);
  }
  for (const { uid, path: where, lastRevision: lived } of ledger.deletions) {
    if (lived < since || !where.includes("/configmaps/")) continue;
    if (!gone.has(uid)) problems.push(`the watch from ${since} left out the end of ${where}`);
  }
  ledger.seenRevision = Math.max(ledger.seenRevision, lastRevision);
  return problems;
}

function start(directory: string): { child: ChildProcess; opened: Promise<Opened> } {
  const child = spawn(process.execPath, [program, directory, tokenFile], { stdio: ["ignore", "pipe", "pipe"] });
  const opened = new Promise<Opened>((resolve, reject) => {
    let text = "";
    let complaint = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      complaint += chunk.toString();
    });
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.endsWith("\n")) resolve(JSON.parse(text) as Opened);
    });
    child.once("close", () => reject(new Error(`the server ended before it was ready: ${complaint}`)));
  });
  opened.catch(() => undefined);
  return { child, opened };
}

/** Resolves when the process is gone; a process that goes by itself first is an error of the server. */
function killAfter(child: ChildProcess, delayMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), delayMs);
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      if (signal === "SIGKILL") resolve();
      else reject(new Error(`the server ended by itself with ${code}`));
    });
  });
}

function split(resource: string): [string, string] {
  const at = resource.lastIndexOf("/");
  return [resource.slice(0, at), resource.slice(at + 1)];
}

function generator(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}

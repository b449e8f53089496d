import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import type { Admission } from "../../src/apiserver/admission/admission.ts";
import { memoryKeyFiles } from "../../src/apiserver/auth/pki.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import type { KeyFiles } from "../../src/ports/keyFiles.ts";
import { HttpCaller, type KubeJson, tokenFile } from "../httpCaller.ts";
import { type Change, type Filter, History } from "./history.ts";
import { kinds, namespaces } from "./kinds.ts";
import { type Readings, readRandomly } from "./reader.ts";
import { afterAnswers, generator, pick, type Run } from "./run.ts";
import { slowAdmission } from "./slowAdmission.ts";
import { Watcher } from "./watcher.ts";
import { type Attempt, writeRandomly } from "./writer.ts";

const everything: Filter = { query: "", matches: () => true };
const writers = 6;
const writesEach = 150;
const watchers = 12;
const readers = 3;

const given = process.env["MUSTER_MODEL_SEED"];
const count = process.env["MUSTER_LONG"] === "1" ? 40 : 3;
const seeds = given === undefined ? Array.from({ length: count }, (_, at) => at + 1) : [Number(given)];

describe.each([
  { name: "writes at once", slow: false },
  { name: "with admission that takes its time", slow: true },
])("$name", ({ slow }) => {
  test.each(seeds)(
    "seed %i: writers, watchers and readers agree with the log",
    async (seed) => {
      const directory = mkdtempSync(join(tmpdir(), "model-"));
      try {
        await play(seed, directory, slow);
      } catch (error) {
        console.error(`replay with MUSTER_MODEL_SEED=${seed}`);
        throw error;
      } finally {
        rmSync(directory, { recursive: true, force: true });
      }
    },
    120_000,
  );
});

async function play(seed: number, directory: string, slow: boolean): Promise<void> {
  // Two starts with the same keys: otherwise the second one would publish its new authority.
  const keyFiles = memoryKeyFiles();
  const server = await start(directory, keyFiles, slow ? slowAdmission(generator(seed + 1000)) : undefined);
  const caller = new HttpCaller(server.url);
  const run: Run = { server, caller, below: generator(seed), finished: false, answered: 0, onAnswer: new Set() };
  for (const name of namespaces) {
    expect((await caller.post("/api/v1/namespaces", { metadata: { name } })).code).toBe(201);
  }
  await server.controllers.idle();
  const attempts: Attempt[] = [];
  const readings: Readings = { listings: [], expired: [], problems: [] };
  const watching = Array.from({ length: watchers }, () => new Watcher(run));
  const others = [
    ...watching.map((watcher) => watcher.watch()),
    ...Array.from({ length: readers }, () => readRandomly(run, readings)),
    wreak(run, watching),
  ];
  await Promise.all(Array.from({ length: writers }, (_, at) => writeRandomly(run, writesEach, attempts, at)));
  await server.controllers.idle();
  run.finished = true;
  for (const wake of [...run.onAnswer]) wake();
  // Streams that are open end now, and every watcher asks for what is left.
  server.closeWatches();
  await Promise.all(others);
  const last = allObjects(server);
  caller.close();
  await server.stop();

  const history = await History.read(directory);
  judgeWrites(history, attempts);
  for (const watcher of watching) judgeWatcher(history, watcher);
  judgeReadings(history, readings);
  expectEveryKindOfAccident(watching, readings, attempts);

  // What was in memory, what the log says, and what a new start makes of it are the same.
  const again = await start(directory, keyFiles);
  expect(again.opened.revision).toBe(history.changes.length);
  await again.controllers.idle();
  expect(allObjects(again)).toEqual(last);
  for (const { resource } of kinds) {
    const logged = history.stateAt(resource, history.changes.length, everything);
    expect(objectsOf(again, resource)).toEqual(logged);
  }
  await again.stop();
}

function start(directory: string, keyFiles: KeyFiles, admission?: Admission): Promise<ApiServer> {
  const clock = systemClock();
  return startApiServer({
    clock,
    random: systemRandom(),
    // No snapshot: the test reads the whole log.
    store: new FileStore({ directory, clock, snapshotLogBytesMin: 1e12 }),
    keyFiles,
    ...(admission === undefined ? {} : { admission: () => admission }),
    tls: false,
    tokenFile,
  });
}

/** Accidents, in step with the writes. */
async function wreak(run: Run, watching: readonly Watcher[]): Promise<void> {
  while (!run.finished) {
    await afterAnswers(run, 2 + run.below(8));
    if (run.finished) return;
    switch (run.below(12)) {
      case 0:
        run.server.closeWatches();
        break;
      case 1:
        run.server.closeWatches(pick(run, kinds).resource);
        break;
      case 2:
        run.server.compactNow();
        break;
      case 3:
        // History is compacted while a watcher is disconnected.
        pick(run, watching).cut();
        run.server.compactNow();
        break;
      case 4:
        run.server.core.hub.sendBookmarks();
        break;
      default:
        pick(run, watching).cut();
    }
  }
}

function objectsOf(server: ApiServer, resource: string): unknown[] {
  return [...server.core.store.collection(resource).all()].map((version) => version.object());
}

/** Every object that the model wrote, as the store holds it. */
function allObjects(server: ApiServer): Record<string, unknown[]> {
  return Object.fromEntries(kinds.map(({ resource }) => [resource, objectsOf(server, resource)]));
}

/** Answers against the log: what took effect is there as answered, and was allowed to; what was refused had to be. */
function judgeWrites(history: History, attempts: readonly Attempt[]): void {
  const revisions = new Set<number>();
  let deletions = 0;
  for (const { verb, kind, key, wantedRevision, wantedUid, answer, revisionAtAnswer } of attempts) {
    const { code, json } = answer;
    const what = `${verb} ${kind.plural} ${key} (wanted ${wantedRevision ?? wantedUid}): ${code} ${json.message ?? ""}`;
    if (code < 300) {
      if (verb === "bind") continue;
      if (verb === "delete") deletions++;
      if (json.kind === "Status") continue;
      const revision = Number(json.metadata.resourceVersion);
      const change = history.byRevision.get(revision) as Change;
      expect(change?.key, what).toBe(key);
      if (verb === "delete") {
        expect(change.object, what).toBeUndefined();
        expect(change.before?.metadata.uid, what).toBe(json.metadata.uid);
      } else expect(json, what).toEqual(change.object);
      expect(revisions.has(revision), `${what}: revision ${revision} twice`).toBe(false);
      revisions.add(revision);
      const last = history.previousOf(change);
      // A pod is marked by the deletion that removes it: one request, two changes.
      const isMarked = verb === "delete" && last?.object?.metadata["deletionTimestamp"] !== undefined;
      const previous = isMarked ? history.previousOf(last) : last;
      // A lease that is not there is made by an update, whatever revision it names: upstream's rule for a few kinds.
      if (code === 201) expect(previous?.object, what).toBeUndefined();
      else if (wantedRevision !== undefined) expect(previous?.revision, what).toBe(wantedRevision);
      if (wantedUid !== undefined) expect(previous?.object?.metadata.uid, what).toBe(wantedUid);
      continue;
    }
    expect([404, 409], what).toContain(code);
    if (json.reason !== "Conflict" || verb === "bind") continue;
    // A conflict names a revision or a uid that was no longer the newest.
    expect(wantedRevision ?? wantedUid, what).toBeDefined();
    if (wantedRevision === undefined) continue;
    expect(history.changedBetween(kind.resource, key, wantedRevision, revisionAtAnswer), what).toBe(true);
  }
  const ours = history.changes.filter(
    ({ resource, key }) => kinds.some((kind) => kind.resource === resource) && /^model-[ab]\/obj-/.test(key),
  );
  expect(ours.filter(({ object }) => object === undefined).length).toBe(deletions);
  const effective = attempts.filter(({ answer }) => answer.code < 300);
  const marks = ours.filter(({ object }) => object?.metadata["deletionTimestamp"] !== undefined).length;
  expect(ours.length).toBe(effective.length + marks);
}

function judgeWatcher(history: History, watcher: Watcher): void {
  const { kind, filter, stretches, expiries } = watcher;
  const who = `${kind.plural}?${filter.query}`;
  expect(watcher.problems, who).toEqual([]);
  for (const { asked, compacted } of expiries) expect(asked, who).toBeLessThan(compacted);
  for (const { state, since, events, upTo } of stretches) {
    expect(inOrder(state).map(plain), `${who} at ${since}`).toEqual(
      history.stateAt(kind.resource, since, filter).map(plain),
    );
    const expected = history.eventsBetween(kind.resource, since, upTo, filter);
    const heard = events.map(
      ({ type, object }) => `${type} ${object.metadata.resourceVersion} ${object.metadata.name}`,
    );
    expect(heard, `${who} from ${since} to ${upTo}`).toEqual(
      expected.map(({ type, revision, object }) => `${type} ${revision} ${object.metadata.name}`),
    );
    events.forEach(({ object }, at) => {
      const { object: wanted, gone } = expected[at]!;
      if (gone) expect(object.metadata.uid).toBe(wanted.metadata.uid);
      else expect(object).toEqual(wanted);
    });
  }
}

function judgeReadings(history: History, { listings, expired, problems }: Readings): void {
  expect(problems).toEqual([]);
  for (const { asked, compacted } of expired) expect(asked).toBeLessThan(compacted);
  for (const { kind, filter, revision, items, pages } of listings) {
    expect(items.map(plain), `${kind.plural}?${filter.query} at ${revision} in ${pages} pages`).toEqual(
      history.stateAt(kind.resource, revision, filter).map(plain),
    );
  }
}

/** A run that met no accident proves nothing. */
function expectEveryKindOfAccident(
  watching: readonly Watcher[],
  readings: Readings,
  attempts: readonly Attempt[],
): void {
  const sum = (count: (watcher: Watcher) => number): number => watching.reduce((all, one) => all + count(one), 0);
  expect(sum(({ resumes }) => resumes)).toBeGreaterThan(50);
  expect(sum(({ bookmarks }) => bookmarks)).toBeGreaterThan(10);
  expect(sum(({ expiries }) => expiries.length)).toBeGreaterThan(0);
  expect(sum(({ stretches }) => stretches.reduce((all, { events }) => all + events.length, 0))).toBeGreaterThan(300);
  expect(readings.listings.filter(({ pages }) => pages > 1).length).toBeGreaterThan(5);
  expect(readings.listings.length).toBeGreaterThan(50);
  expect(readings.expired.length).toBeGreaterThan(0);
  for (const verb of ["create", "update", "patch", "status", "bind", "delete"]) {
    const effective = attempts.filter((attempt) => attempt.verb === verb).map(({ answer }) => answer.code < 300);
    expect(effective, verb).toContain(true);
    expect(effective, verb).toContain(false);
  }
}

/** Watches that send a state may do so in any order. */
function inOrder(state: readonly KubeJson[]): KubeJson[] {
  const key = ({ metadata }: KubeJson): string => `${metadata.namespace}/${metadata.name}`;
  return [...state].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

/** Lists leave kind and apiVersion to the list. */
function plain(object: KubeJson): unknown {
  const { kind: _, apiVersion: __, ...rest } = object;
  return rest;
}

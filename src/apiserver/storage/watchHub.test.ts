import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock, settle } from "../../../testing/apiserver/manualClock.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Store } from "../../ports/store.ts";
import { ObjectStore } from "./objectStore.ts";
import type { Version } from "./version.ts";
import { type WatchEvent, type WatchFilter, WatchHub } from "./watchHub.ts";

const resource = "/pods";
const indexedFields = { [resource]: 0 };

/** A log that reaches the disk only when the test says so. */
class SlowLog implements Store {
  private waiting: (() => void)[] = [];
  async open() {
    return { revision: 0, snapshotRevision: 0, cutBytes: 0 };
  }
  append() {}
  synced() {
    return new Promise<void>((resolve) => this.waiting.push(resolve));
  }
  release() {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
  wantsSnapshot() {
    return false;
  }
  async snapshot() {}
  async close() {}
}

function write(store: ObjectStore, namespace: string, name: string, app: string, node: string): Version {
  const before = store.get(resource, namespace, name);
  const uid = before?.side.uid ?? `uid-${store.revision}`;
  const labels = { app };
  const object: KubeObject = {
    kind: "Pod",
    apiVersion: "v1",
    metadata: { name, namespace, uid, resourceVersion: "", creationTimestamp: "2026-01-01T00:00:00Z", labels },
  };
  return store.put(resource, object, { uid, labels, fields: [node], owners: null });
}

const steps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant("put" as const), key: fc.nat(5), app: fc.nat(1), node: fc.nat(2) }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), key: fc.nat(5) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("watch" as const), filter: fc.nat(5), back: fc.nat(6) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("stop" as const), watcher: fc.nat(4) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("sync" as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("compact" as const), back: fc.nat(10) }) },
  ),
  { minLength: 1, maxLength: 60 },
);

const keys = [
  ["a", "x"],
  ["a", "y"],
  ["a-b", "x"],
  ["b", "x"],
  ["b", "y"],
  ["b", "z"],
] as const;

const filters: { filter: WatchFilter; accepts: (state: State) => boolean }[] = [
  { filter: { namespace: "", matches: () => true }, accepts: () => true },
  { filter: { namespace: "a", matches: () => true }, accepts: (state) => state.namespace === "a" },
  {
    filter: { namespace: "b", name: "x", matches: () => true },
    accepts: (state) => state.namespace === "b" && state.name === "x",
  },
  { filter: { namespace: "", matches: (v) => v.side.labels?.["app"] === "1" }, accepts: (state) => state.app === "1" },
  {
    filter: { namespace: "", indexedValue: "n1", matches: (v) => v.side.fields[0] === "n1" },
    accepts: (state) => state.node === "n1",
  },
  {
    filter: { namespace: "b", indexedValue: "n0", matches: (v) => v.side.fields[0] === "n0" },
    accepts: (state) => state.node === "n0" && state.namespace === "b",
  },
];

interface State {
  namespace: string;
  name: string;
  app: string;
  node: string;
}

/** The plain history that every watcher is compared with. */
type Change = { revision: number; before: State | undefined; after: State | undefined };

function expectedEvents(history: Change[], since: number, upTo: number, accepts: (state: State) => boolean): string[] {
  const lines: string[] = [];
  for (const { revision, before, after } of history) {
    if (revision <= since || revision > upTo) continue;
    const was = before !== undefined && accepts(before);
    const is = after !== undefined && accepts(after);
    const shown = is ? after : before;
    if (!was && !is) continue;
    const type = is ? (was ? "MODIFIED" : "ADDED") : "DELETED";
    lines.push(`${type} ${shown?.namespace}/${shown?.name} app=${shown?.app} @${revision}`);
  }
  return lines;
}

function line(event: WatchEvent): string {
  if (event.type === "BOOKMARK") return "BOOKMARK";
  const { metadata } = event.version.object();
  expect(metadata.resourceVersion).toBe(String(event.revision));
  return `${event.type} ${metadata.namespace}/${metadata.name} app=${metadata.labels?.["app"]} @${event.revision}`;
}

describe("watches", () => {
  for (const durable of [false, true]) {
    test(`every watcher sees each change of its selection once, in order, ${durable ? "and none before it is on the disk" : "in memory"}`, async () => {
      await fc.assert(
        fc.asyncProperty(steps, async (script) => {
          const clock = new ManualClock();
          const log = durable ? new SlowLog() : undefined;
          const store = new ObjectStore({ clock, log, indexedFields, freeze: true });
          const hub = new WatchHub(store, clock, indexedFields);
          const history: Change[] = [];
          const current = new Map<string, State>();
          const watchers: {
            since: number;
            filter: number;
            got: string[];
            stop: () => void;
            stoppedAt: number | undefined;
          }[] = [];
          for (const step of script) {
            switch (step.do) {
              case "put": {
                const [namespace, name] = keys[step.key] as (typeof keys)[number];
                const after = { namespace, name, app: String(step.app), node: `n${step.node}` };
                const { revision } = write(store, namespace, name, after.app, after.node);
                history.push({ revision, before: current.get(`${namespace}/${name}`), after });
                current.set(`${namespace}/${name}`, after);
                break;
              }
              case "delete": {
                const [namespace, name] = keys[step.key] as (typeof keys)[number];
                const version = store.get(resource, namespace, name);
                if (version === undefined) break;
                const { revision } = store.remove(version);
                history.push({ revision, before: current.get(`${namespace}/${name}`), after: undefined });
                current.delete(`${namespace}/${name}`);
                break;
              }
              case "watch": {
                const since = Math.max(store.compactedRevision, store.durableRevision - step.back);
                const got: string[] = [];
                const watcher = { since, filter: step.filter, got, stop: () => {}, stoppedAt: undefined };
                watcher.stop = hub.watch({
                  resource,
                  filter: (filters[step.filter] as (typeof filters)[number]).filter,
                  sinceRevision: since,
                  bookmarks: false,
                  deliver: (event) => {
                    // Nobody may hear of a write that a crash could still take back.
                    expect(event.revision).toBeLessThanOrEqual(store.durableRevision);
                    got.push(line(event));
                  },
                  closed: () => {},
                });
                watchers.push(watcher);
                break;
              }
              case "stop": {
                const watcher = watchers[step.watcher];
                if (watcher === undefined || watcher.stoppedAt !== undefined) break;
                watcher.stop();
                watcher.stoppedAt = store.durableRevision;
                break;
              }
              case "sync":
                log?.release();
                await settle(3);
                break;
              case "compact":
                store.compact(store.durableRevision - step.back);
                break;
            }
            // Reads at any revision that is still remembered equal the replayed history.
            const at = Math.max(store.compactedRevision, store.revision - 3);
            const replayed = new Map<string, State>();
            for (const { revision, before, after } of history) {
              if (revision > at) break;
              const state = after ?? before;
              const key = `${state?.namespace}/${state?.name}`;
              if (after === undefined) replayed.delete(key);
              else replayed.set(key, after);
            }
            const listed = [...store.collection(resource).at(at, "")].map(
              (version) => `${version.key}=${version.side.fields[0]}`,
            );
            expect(listed).toEqual(
              [...replayed].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, state]) => `${key}=${state.node}`),
            );
            const onNode = store
              .collection(resource)
              .indexed(0, "n1")
              ?.map((version) => version.key);
            expect(onNode).toEqual(
              [...current]
                .filter(([, state]) => state.node === "n1")
                .map(([key]) => key)
                .sort(),
            );
          }
          for (let round = 0; round < 5; round++) {
            log?.release();
            await settle(3);
          }
          expect(store.durableRevision).toBe(store.revision);
          for (const { since, filter, got, stoppedAt } of watchers) {
            const { accepts } = filters[filter] as (typeof filters)[number];
            expect(got).toEqual(expectedEvents(history, since, stoppedAt ?? store.revision, accepts));
          }
        }),
        { numRuns: 300 },
      );
    });
  }

  test("a watcher that writes while it catches up misses no event", () => {
    const clock = new ManualClock();
    const store = new ObjectStore({ clock, indexedFields });
    const hub = new WatchHub(store, clock, indexedFields);
    write(store, "a", "p1", "x", "n1");
    const doomed = write(store, "a", "p2", "x", "n1");
    store.remove(doomed);
    const told: string[] = [];
    hub.watch({
      resource,
      filter: { namespace: "a", matches: () => true },
      sinceRevision: 0,
      bookmarks: false,
      deliver: (event) => {
        told.push(line(event));
        if (told.length === 1) write(store, "a", "p3", "x", "n1");
      },
      closed: () => {},
    });
    write(store, "a", "p4", "x", "n1");
    expect(told.map((each) => each.split("@")[1])).toEqual(["1", "2", "3", "4", "5"]);
  });

  test("a bookmark reports the revision of the watch, once a minute", async () => {
    const clock = new ManualClock();
    const store = new ObjectStore({ clock });
    const hub = new WatchHub(store, clock);
    const got: WatchEvent[] = [];
    const stop = hub.watch({
      resource,
      filter: { namespace: "", matches: () => true },
      sinceRevision: 0,
      bookmarks: true,
      deliver: (event) => got.push(event),
      closed: () => {},
    });
    store.put(
      "/nodes",
      { kind: "Node", apiVersion: "v1", metadata: { name: "n", uid: "u", resourceVersion: "", creationTimestamp: "" } },
      {
        uid: "u",
        labels: null,
        fields: [],
        owners: null,
      },
    );
    await clock.advance(60_000);
    expect(got).toEqual([{ type: "BOOKMARK", revision: 1, initialEventsEnd: false }]);
    stop();
    expect(clock.pending).toBe(0);
  });

  test("a watch ends when its time is up, with a bookmark as its last word", async () => {
    const clock = new ManualClock();
    const store = new ObjectStore({ clock });
    const hub = new WatchHub(store, clock);
    const got: string[] = [];
    hub.watch({
      resource,
      filter: { namespace: "", matches: () => true },
      sinceRevision: 0,
      bookmarks: true,
      timeoutMs: 5_000,
      deliver: (event) => got.push(event.type),
      closed: () => got.push("closed"),
    });
    await clock.advance(5_000);
    expect(got).toEqual(["BOOKMARK", "closed"]);
    expect(hub.size).toBe(0);
  });
});

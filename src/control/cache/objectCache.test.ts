import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { CancelSource } from "../../ports/cancelSource.ts";
import type { KubeApi, KubeList, WatchSink } from "../../ports/kubeApi.ts";
import { MemoryMetrics } from "../runtime/memoryMetrics.ts";
import { ObjectCache, type ObjectCacheOptions } from "./objectCache.ts";

const configMaps = builtin.ConfigMap;
const user = { username: "tester", groups: ["system:masters"] };

async function started(options: Partial<ObjectCacheOptions<KubeObject>> = {}) {
  const api = await TestApi.start({ controllers: "none" });
  const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "test" }));
  const log = new KeptLog();
  const metrics = new MemoryMetrics();
  const { clock } = api;
  const random = seededRandom(7);
  const cache = new ObjectCache({
    kube,
    clock,
    random,
    log,
    metrics,
    resource: configMaps,
    selection: { namespace: "a" },
    freeze: true,
    ...options,
  });
  const told: string[] = [];
  cache.onEvent((event) => {
    const unknown = event.type === "deleted" && event.isFinalStateUnknown ? " unknown" : "";
    told.push(`${event.type}${unknown}${event.isOld ? " old" : ""} ${event.key}`);
  });
  const put = (name: string, data: string) =>
    api.create("/configmaps", { ...configMapNamed(`a/${name}`), data: { data } });
  const change = (name: string, data: string) =>
    api.edit("/configmaps", `a/${name}`, (object) => {
      object["data"] = { data };
    });
  const drop = (name: string) => api.delete("/configmaps", `a/${name}`);
  await api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "a" } });
  return { api, kube, log, metrics, clock, cache, told, put, change, drop };
}

function inServer(api: TestApi): Record<string, string> {
  const objects = [...api.core.store.collection("/configmaps").at(api.core.store.revision, "a")].map((version) =>
    version.object(),
  );
  return Object.fromEntries(objects.map((object) => [keyOfObject(object), object.metadata.resourceVersion]));
}

function inCache(cache: ObjectCache): Record<string, string> {
  return Object.fromEntries([...cache.view().objects].map(([key, { metadata }]) => [key, metadata.resourceVersion]));
}

describe("a cache", () => {
  test("delivers existing objects as old and changes as new", async () => {
    const { cache, told, put, change, drop } = await started();
    await put("x", "1");
    await put("y", "1");
    expect(cache.hasSynced).toBe(false);
    cache.start();
    await settle();
    expect(cache.hasSynced).toBe(true);
    await put("z", "1");
    await change("x", "2");
    await drop("y");
    expect(told).toEqual(["added old a/x", "added old a/y", "added a/z", "updated a/x", "deleted a/y"]);
  });

  test("an event during a delivery is delivered after it, to all handlers, in one order", async () => {
    const { api } = await started();
    let sink: WatchSink | undefined;
    const kube = {
      watch: (_: unknown, __: unknown, given: WatchSink) => {
        sink = given;
        return { stop: () => {} };
      },
    } as KubeApi;
    const ports = { kube, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() };
    const cache = new ObjectCache({ ...ports, resource: configMaps });
    const map = (name: string, resourceVersion: string): KubeObject => ({
      ...(configMapNamed(`a/${name}`) as KubeObject),
      metadata: { name, namespace: "a", uid: name, resourceVersion, creationTimestamp: "2026-01-01T00:00:00Z" },
    });
    const told: string[] = [];
    cache.onEvent(({ key }) => {
      told.push(`first ${key}`);
      if (key === "a/x") sink?.event({ type: "ADDED", object: map("y", "6") });
    });
    cache.onEvent(({ key }) => told.push(`second ${key}`));
    cache.start();
    sink?.event({ type: "BOOKMARK", revision: "4", initialEventsEnd: true });
    sink?.event({ type: "ADDED", object: map("x", "5") });
    expect(told).toEqual(["first a/x", "second a/x", "first a/y", "second a/y"]);
    cache.stop();
  });

  test("a late handler receives existing objects first, in order", async () => {
    const { cache, put } = await started();
    for (const name of ["c", "a", "b"]) await put(name, "1");
    cache.start();
    await settle();
    const late: string[] = [];
    const stop = cache.onEvent(({ key, isOld }) => late.push(`${key} ${isOld}`));
    await put("d", "1");
    stop();
    await put("e", "1");
    expect(late).toEqual(["a/a true", "a/b true", "a/c true", "a/d false"]);
  });

  test("a broken watch resumes where it was, and nothing is missed or delivered twice", async () => {
    const { cache, told, put, kube, clock } = await started();
    cache.start();
    await settle();
    await put("x", "1");
    kube.cut();
    await put("y", "1");
    expect(told).toEqual(["added a/x"]);
    await clock.advance(2000);
    await put("z", "1");
    expect(told).toEqual(["added a/x", "added a/y", "added a/z"]);
    expect(kube.calls.filter((call) => call.includes("from the start"))).toHaveLength(1);
  });

  test("after a compaction it lists again, and delivers vanished objects as deleted with their last known state", async () => {
    const { cache, told, put, drop, kube, clock, api } = await started();
    await put("x", "1");
    cache.start();
    await settle();
    kube.cut();
    await drop("x");
    await put("y", "1");
    api.core.store.compact(api.core.store.revision);
    await clock.advance(10_000);
    expect(told).toEqual(["added old a/x", "deleted unknown a/x", "added a/y"]);
    expect(inCache(cache)).toEqual(inServer(api));
  });

  test("a server that cannot stream is listed in pages", async () => {
    const { cache, put, kube, api } = await started();
    for (let n = 0; n < 3; n++) await put(`x${n}`, "1");
    kube.faults = {
      watch: ({ sendInitialEvents }) =>
        sendInitialEvents ? refused("Invalid", "sendInitialEvents is forbidden") : undefined,
    };
    cache.start();
    await settle();
    expect(cache.hasSynced).toBe(true);
    expect(inCache(cache)).toEqual(inServer(api));
    expect(kube.calls.map((call) => call.split(" ").slice(0, 2).join(" "))).toEqual([
      "watch configmaps",
      "list configmaps",
      "watch configmaps",
    ]);
  });

  test("a list from a server that lags behind is refused, and a deleted object does not return", async () => {
    const { cache, put, drop, kube, clock, told, api, log } = await started();
    await put("x", "1");
    const old = await kube.list(configMaps);
    await drop("x");
    await put("y", "1");
    cache.start();
    await settle();
    kube.faults = {
      watch: () => refused("Expired", "too old"),
      list: <T extends KubeObject>(list: KubeList<T>) => (old.ok ? (old.value as KubeList<T>) : list),
    };
    kube.cut(refused("Expired", "too old"));
    await clock.advance(60_000);
    expect(told).toEqual(["added old a/y"]);
    kube.faults = {};
    await put("z", "1");
    await clock.advance(60_000);
    expect(inCache(cache)).toEqual(inServer(api));
    expect(told).toEqual(["added old a/y", "added a/z"]);
    expect(log.errors).toEqual([]);
  });

  test("a dead connection is closed after its watch timeout, and no change is missed", async () => {
    const { cache, put, kube, clock, told } = await started();
    cache.start();
    await settle();
    kube.faults = { isMute: true };
    await put("x", "1");
    await clock.advance(60_000);
    expect(told).toEqual([]);
    await clock.advance(640_000);
    expect(kube.calls.length).toBeGreaterThan(1);
    kube.faults = {};
    await clock.advance(640_000);
    expect(told).toEqual(["added a/x"]);
  });

  test("a handler that throws is reported, and the others are called", async () => {
    const { cache, put, log, told, metrics } = await started();
    cache.onEvent(() => {
      throw new Error("a mistake");
    });
    const after: string[] = [];
    cache.onEvent(({ key }) => after.push(key));
    cache.start();
    await settle();
    await put("x", "1");
    expect(told).toEqual(["added a/x"]);
    expect(after).toEqual(["a/x"]);
    expect(log.errors).toEqual(["a handler failed"]);
    expect(metrics.value("muster_handler_failures_total", { kind: "/configmaps" })).toBe(1);
  });

  test("a transform or an index that fails on one object is reported, and the cache continues", async () => {
    const { cache, log, put, api } = await started({
      transform: (object) => {
        if (object.metadata.name === "odd") throw new Error("cannot be read");
        return object;
      },
    });
    cache.index((object) => {
      if (object.metadata.name === "odd") throw new Error("cannot be indexed");
      return [object.metadata.name];
    });
    cache.start();
    await settle();
    await put("odd", "1");
    await put("even", "2");
    await settle();
    expect(inCache(cache)).toEqual(inServer(api));
    expect(log.lines.filter(({ level }) => level === "error").length).toBeGreaterThanOrEqual(2);
  });

  test("waits for the revision of our own write", async () => {
    const { cache, put, kube, clock } = await started();
    cache.start();
    await settle();
    kube.cut();
    const { metadata } = await put("x", "1");
    const heard: string[] = [];
    void cache.waitForRevision(metadata.resourceVersion).then((reached) => heard.push(`in time ${reached}`));
    void cache.waitForRevision("999999", { timeoutMs: 100 }).then((reached) => heard.push(`too late ${reached}`));
    const cancel = new CancelSource();
    void cache.waitForRevision("999999", { cancel }).then((reached) => heard.push(`cancelled ${reached}`));
    await settle();
    expect(heard).toEqual([]);
    cancel.cancel();
    await clock.advance(2000);
    expect(heard).toEqual(["cancelled false", "too late false", "in time true"]);
    expect(await cache.waitForRevision(metadata.resourceVersion)).toBe(true);
  });

  test("finds objects by an index, in order, through all changes", async () => {
    const { cache, put, change, drop } = await started();
    const byData = cache.index((object) => Object.values((object["data"] ?? {}) as Record<string, string>));
    await put("y", "red");
    await put("x", "red");
    cache.start();
    await settle();
    await put("z", "blue");
    const names = (value: string) => byData.get(value).map(({ metadata }) => metadata.name);
    expect([names("red"), names("blue"), byData.values()]).toEqual([["x", "y"], ["z"], ["blue", "red"]]);
    await change("x", "blue");
    await drop("y");
    expect([names("red"), names("blue"), byData.values()]).toEqual([[], ["x", "z"], ["blue"]]);
    expect(byData.first("blue")?.metadata.name).toBe("x");
    const late = cache.index(({ metadata }) => [metadata.name]);
    expect(late.first("z")?.metadata.name).toBe("z");
  });

  test("a resync delivers every object again, as old", async () => {
    const { cache, put, told, clock } = await started({ resyncMs: 60_000 });
    await put("x", "1");
    cache.start();
    await settle();
    await clock.advance(66_001);
    expect(told).toEqual(["added old a/x", "updated old a/x"]);
  });

  test("after a stop nothing is delivered, no timer is left and no watch is open", async () => {
    const { cache, put, told, kube, clock } = await started({ resyncMs: 60_000 });
    cache.start();
    await settle();
    const wait = cache.waitForRevision("999999");
    const before = clock.pending;
    cache.stop();
    await put("x", "1");
    expect(told).toEqual([]);
    expect(kube.openWatches).toBe(0);
    expect(clock.pending).toBeLessThan(before);
    expect(await wait).toBe(false);
  });

  test("whatever fails, the cache ends with the server's state, and its handlers received exactly that", async () => {
    const step = fc.record({
      do: fc.constantFrom("put", "change", "drop", "recreate", "cut", "expire", "compact", "wait", "noStream", "calm"),
      name: fc.constantFrom("x", "y", "z"),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const world = await started();
        const { cache, kube, api, clock, put, change, drop, log } = world;
        const mirror = new Map<string, string>();
        const problems: string[] = [];
        cache.onEvent((event) => {
          const { uid } = event.object.metadata;
          const known = mirror.get(event.key);
          if (event.type === "added" ? known !== undefined : known !== uid) problems.push(`${event.type} ${event.key}`);
          if (event.type === "deleted") mirror.delete(event.key);
          else mirror.set(event.key, uid);
        });
        cache.start();
        for (const { do: what, name } of steps) {
          const exists = api.get("/configmaps", `a/${name}`) !== undefined;
          if (what === "put" && !exists) await put(name, "1");
          else if (what === "change" && exists) await change(name, String(api.core.store.revision));
          else if (what === "drop" && exists) await drop(name);
          else if (what === "recreate" && exists) {
            await drop(name);
            await put(name, "2");
          } else if (what === "cut") kube.cut();
          else if (what === "expire") kube.cut(refused("Expired", "too old"));
          else if (what === "compact") api.core.store.compact(api.core.store.revision);
          else if (what === "wait") await clock.advance(1500);
          else if (what === "noStream") {
            kube.faults = { watch: (options) => (options.sendInitialEvents ? refused("Unknown", "reset") : undefined) };
          } else if (what === "calm") kube.faults = {};
        }
        kube.faults = {};
        await clock.advance(120_000);
        expect(inCache(cache)).toEqual(inServer(api));
        expect(problems).toEqual([]);
        expect([...mirror.keys()].sort()).toEqual(Object.keys(inServer(api)).sort());
        expect(log.errors).toEqual([]);
        cache.stop();
      }),
      { numRuns: 25 },
    );
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, namespaceNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { type DeleteIntent, expectedOf, type Intent, type IntentTarget, keyOfObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { assumeCacheOf } from "./assumeCacheOf.ts";
import { Controllers } from "./controllers.ts";
import { InFlightWrites } from "./inFlightWrites.ts";
import { type ReconcileResult, reconcileResultOf } from "./loop.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";
import { forMapped, forObject, kindSource } from "./sources.ts";

const configMaps = builtin.ConfigMap;
const kind = "/configmaps";
const selection = { namespace: "a", labelSelector: "app=copies" };
const childSuffix = "-child";

function textOf(object: KubeObject): string {
  return (object["data"] as { text?: string } | undefined)?.text ?? "";
}

function isChild({ metadata }: KubeObject): boolean {
  return metadata.name.endsWith(childSuffix);
}

function targetOf(name: string): IntentTarget {
  return { ...configMaps, namespace: "a", name };
}

/** The next write that brings a parent and its child to the desired state. */
function decideCopy(
  parent: KubeObject | undefined,
  child: KubeObject | undefined,
  name: string,
  at: string,
): Intent | undefined {
  const target = targetOf(`${name}${childSuffix}`);
  const why = `${name} has changed`;
  if (parent === undefined || parent.metadata.deletionTimestamp !== undefined) {
    return child === undefined
      ? undefined
      : { type: "delete", target, expected: expectedOf(child), why: `${name} is gone` };
  }
  const data = { text: textOf(parent) };
  if (child === undefined) {
    const metadata = { name: target.name, namespace: "a", labels: { app: "copies" } };
    return {
      type: "create",
      target,
      absentAtRevision: at,
      object: { apiVersion: "v1", kind: "ConfigMap", metadata, data },
      why,
    };
  }
  if (textOf(child) === data.text) return undefined;
  return { type: "patch", target, expected: expectedOf(child), patch: { data }, why };
}

/** One process with two controllers: children are copies of their parents, and a summary counts them. */
function newProcess(api: TestApi, identity: string, seed: number, onWrite: (fieldManager: string) => void) {
  const user = { username: identity, groups: ["system:masters"] };
  const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: identity }));
  kube.onWrite = onWrite;
  const log = new KeptLog();
  const ports = { kube, clock: api.clock, random: seededRandom(seed), log, metrics: new MemoryMetrics() };
  const lease = { namespace: "kube-system", name: "copies", identity };
  const controllers = new Controllers(ports, { fieldManager: "copies", lease, freeze: true });
  const cache = controllers.cache(configMaps, selection);
  const assumeCache = assumeCacheOf([cache]);
  const inFlight = new InFlightWrites(controllers, assumeCache);
  const open = new Map<string, Intent>();

  async function copy(key: string): Promise<ReconcileResult> {
    const name = key.slice("a/".length);
    const before = open.get(key);
    if (before !== undefined && assumeCache.stateOf(before) === "unknown") {
      const resolved = await inFlight.resolve(before);
      if (!resolved.ok) return reconcileResultOf(resolved);
    }
    const snapshot = assumeCache.snapshot();
    const { objects, revision } = snapshot.kind(kind);
    const intent = decideCopy(objects.get(key), objects.get(`${key}${childSuffix}`), name, revision);
    if (intent === undefined) return undefined;
    if (intent.type === "delete") return destroy(intent, name);
    open.set(key, intent);
    const outcome = await inFlight.commitOne({ intent });
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  /** A parent that the cache lacks may exist: it is read before its child is deleted. */
  async function destroy(intent: DeleteIntent, name: string): Promise<ReconcileResult> {
    const parent = await controllers.kube.get(targetOf(name));
    if (parent.ok) return { again: "the parent exists" };
    if (parent.reason !== "NotFound") return reconcileResultOf(parent);
    const atLeast = intent.expected.resourceVersion;
    const outcome = await controllers.writer.remove(intent, () => ({ still: intent }), { atLeast });
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  async function summarise(): Promise<ReconcileResult> {
    const { objects, revision } = assumeCache.snapshot().kind(kind);
    const text = String([...objects.values()].filter(isChild).length);
    const summary = objects.get("a/summary");
    if (summary !== undefined && textOf(summary) === text) return undefined;
    const metadata = { name: "summary", namespace: "a", labels: { app: "copies", role: "summary" } };
    const target = targetOf("summary");
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { text } };
    const why = "the count has changed";
    const intent: Intent =
      summary === undefined
        ? { type: "create", target, absentAtRevision: revision, object, why }
        : { type: "patch", target, expected: expectedOf(summary), patch: { data: { text } }, why };
    const outcome = await inFlight.commitOne({ intent });
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  const parentOf = (object: KubeObject): string[] => {
    const key = keyOfObject(object);
    if (object.metadata.name === "summary") return [];
    return [isChild(object) ? key.slice(0, -childSuffix.length) : key];
  };
  const copier = kindSource(cache, forMapped(parentOf));
  controllers.add({ name: "copier", sources: [copier], reconcile: copy, concurrency: 4 });
  const counter = kindSource(
    cache,
    forMapped(() => ["all"]),
  );
  controllers.add({ name: "counter", sources: [counter], reconcile: summarise });
  return { identity, kube, log, controllers, cache, assumeCache };
}

async function newCluster(identities: string[], seed = 1) {
  const api = await TestApi.start({ controllers: "none" });
  await api.create("/namespaces", namespaceNamed("a"));
  const writes: string[] = [];
  const processes = identities.map((identity, index) =>
    newProcess(api, identity, seed + index, (fieldManager) => writes.push(fieldManager)),
  );
  const pass = async (ms: number): Promise<void> => {
    await settle();
    await api.clock.advance(ms);
  };
  const labels = { app: "copies" };
  const wish = (name: string, text: string) =>
    api.create(kind, { ...configMapNamed(`a/${name}`, { labels }), data: { text } });
  const change = (name: string, text: string) =>
    api.edit(kind, `a/${name}`, (object) => {
      object["data"] = { text };
    });
  const drop = (name: string) => api.delete(kind, `a/${name}`);
  const exists = (name: string) => api.get(kind, `a/${name}`) !== undefined;
  /** Names and texts of the objects that exist. */
  const there = (): Record<string, string> => {
    const objects = [...api.core.store.collection(kind).at(api.core.store.revision, "a")].map((each) => each.object());
    return Object.fromEntries(objects.map((object) => [object.metadata.name, textOf(object)]));
  };
  const epochs = (): number[] => writes.map((manager) => Number(/\/(\d+)\./.exec(manager)?.[1] ?? -1));
  return { api, processes, pass, wish, change, drop, exists, there, writes, epochs };
}

/** Every parent has its copy, every copy its parent, and the summary is right. */
function isSettled(there: Record<string, string>): boolean {
  const names = Object.keys(there).filter((name) => name !== "summary");
  const parents = names.filter((name) => !name.endsWith(childSuffix));
  const children = names.filter((name) => name.endsWith(childSuffix));
  return (
    parents.every((name) => there[`${name}${childSuffix}`] === there[name]) &&
    children.every((name) => parents.includes(name.slice(0, -childSuffix.length))) &&
    (there["summary"] ?? "0") === String(children.length)
  );
}

describe("two controllers in two processes", () => {
  test("start when their caches have synced, lead one at a time, and stop cleanly", async () => {
    const { processes, pass, wish, there, writes, api } = await newCluster(["one", "two"]);
    await wish("x", "1");
    const [one, two] = processes;
    expect(one?.controllers.readiness.report().isWell).toBe(false);
    for (const { controllers } of processes) void controllers.start();
    await pass(1000);
    expect(processes.map(({ controllers }) => controllers.readiness.report().isWell)).toEqual([true, true]);
    expect(there()).toEqual({ x: "1", "x-child": "1", summary: "1" });
    expect(new Set(writes)).toEqual(new Set(["copies/0.one"]));
    await one?.controllers.stop();
    await wish("y", "2");
    await pass(5000);
    expect(there()).toEqual({ x: "1", "x-child": "1", y: "2", "y-child": "2", summary: "2" });
    expect(writes.at(-1)).toBe("copies/1.two");
    await two?.controllers.stop();
    expect(processes.map(({ kube }) => kube.openWatches)).toEqual([0, 0]);
    await wish("z", "3");
    await pass(60_000);
    expect(api.get(kind, "a/z-child")).toBeUndefined();
    for (const { log } of processes) expect(log.errors).toEqual([]);
  });

  test("share one cache, with one watch, for the same selection", async () => {
    const { processes, pass } = await newCluster(["one"]);
    const [one] = processes;
    expect(one?.controllers.cache(configMaps, selection)).toBe(one?.cache);
    expect(one?.controllers.cache(configMaps)).not.toBe(one?.cache);
    void one?.controllers.start();
    await pass(1000);
    expect(one?.kube.openWatches).toBe(2);
  });

  test("keep only the fields that a kind's transform returns", async () => {
    const api = await TestApi.start();
    await api.create("/namespaces", namespaceNamed("a"));
    await api.create(kind, configMapNamed("a/x"));
    const user = { username: "u", groups: ["system:masters"] };
    const kube = inProcessKube(api.core, { user, fieldManager: "u" });
    const ports = { kube, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() };
    const transforms = { [kind]: ({ metadata, apiVersion }: KubeObject) => ({ metadata, apiVersion }) as KubeObject };
    const controllers = new Controllers(ports, { fieldManager: "u", transforms });
    const lean = controllers.cache(configMaps);
    const whole = controllers.cache(configMaps, { namespace: "a" }, { transform: (object) => object });
    const others = controllers.cache(builtin.Namespace);
    const started = controllers.start();
    for (let at = 0; at < 5; at++) await settle();
    await started;
    expect(Object.keys(lean.get("a/x") ?? {})).toEqual(["metadata", "apiVersion"]);
    expect(Object.keys(whole.get("a/x") ?? {})).toContain("kind");
    expect(Object.keys(others.get("a") ?? {})).toContain("spec");
    await controllers.stop();
  });

  test("an unchanged cluster costs no reconcile and no write", async () => {
    const { processes, pass, wish, writes } = await newCluster(["one"]);
    const [one] = processes;
    for (let n = 0; n < 5; n++) await wish(`x${n}`, "1");
    void one?.controllers.start();
    await pass(2000);
    const snapshot = one?.assumeCache.snapshot();
    const before = writes.length;
    const turns = one?.log.lines.length;
    await pass(20_000);
    expect(writes.length).toBe(before);
    expect(one?.log.lines.length).toBe(turns);
    expect(one?.assumeCache.snapshot().kind(kind).objects).toBe(snapshot?.kind(kind).objects);
    expect(one?.controllers.isIdle).toBe(true);
  });

  test("a leader that is cut off stops writing before the next one writes, and the next one finishes its work", async () => {
    const { processes, pass, wish, there, epochs } = await newCluster(["one", "two"]);
    for (const { controllers } of processes) void controllers.start();
    await pass(3000);
    await wish("x", "1");
    await pass(1000);
    const [one] = processes;
    if (one !== undefined)
      one.kube.faults = { before: () => refused("Unknown", "no route"), watch: () => refused("Unknown", "no route") };
    one?.kube.cut();
    await wish("y", "2");
    await pass(60_000);
    expect(isSettled(there())).toBe(true);
    if (one !== undefined) one.kube.faults = {};
    await pass(60_000);
    await wish("z", "3");
    await pass(60_000);
    expect(isSettled(there())).toBe(true);
    const order = epochs();
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(new Set(order)).toEqual(new Set([0, 1]));
  });

  test("whatever fails, no event is missed, no epoch writes after a later one, and the writes come to an end", async () => {
    const step = fc.record({
      do: fc.constantFrom(
        ...["wish", "wish", "change", "drop", "recreate", "cut", "compact", "expire"],
        ...["unheard", "lose", "conflict", "heal", "wait", "stop"],
      ),
      name: fc.constantFrom("x", "y", "z"),
      who: fc.nat(1),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 50, size: "max" }), fc.nat(), async (steps, seed) => {
        const cluster = await newCluster(["one", "two"], seed);
        const { api, processes, pass, wish, change, drop, exists, there, writes, epochs } = cluster;
        let stops = 0;
        for (const { controllers } of processes) void controllers.start();
        for (const { do: what, name, who } of steps) {
          const each = processes[who];
          if (each === undefined) continue;
          if (what === "wish" && !exists(name)) await wish(name, String(api.core.store.revision));
          else if (what === "change" && exists(name)) await change(name, String(api.core.store.revision));
          else if (what === "drop" && exists(name)) await drop(name);
          else if (what === "recreate" && exists(name)) {
            await drop(name);
            await wish(name, String(api.core.store.revision));
          } else if (what === "cut") each.kube.cut();
          else if (what === "compact") api.core.store.compact(api.core.store.revision);
          else if (what === "expire") each.kube.cut(refused("Expired", "too old"));
          else if (what === "unheard") {
            each.kube.faults = { after: (verb) => (verb === "list" ? undefined : refused("Unknown", "reset")) };
          } else if (what === "lose") each.kube.faults = { before: () => refused("Unknown", "no route") };
          else if (what === "conflict")
            each.kube.faults = { before: (verb) => (verb === "patch" ? refused("Conflict", "moved") : undefined) };
          else if (what === "heal") each.kube.faults = {};
          else if (what === "wait") await pass(3000);
          else if (what === "stop" && stops++ === 0) {
            void each.controllers.stop();
            await pass(31_000);
          } else await settle(3);
        }
        for (const { kube } of processes) kube.faults = {};
        await pass(180_000);
        expect(there()).toSatisfy(isSettled);
        const order = epochs();
        expect(order).toEqual([...order].sort((a, b) => a - b));
        const before = writes.filter((manager) => manager.startsWith("copies/")).length;
        await pass(60_000);
        expect(writes.filter((manager) => manager.startsWith("copies/")).length).toBe(before);
        for (const { log } of processes) expect(log.errors).toEqual([]);
        for (const { controllers } of processes) await controllers.stop();
      }),
      { numRuns: 15 },
    );
  });

  test("the same seed gives the same history", async () => {
    const play = async (): Promise<string[]> => {
      const { api, processes, pass, wish, change, drop } = await newCluster(["one", "two"], 42);
      for (const { controllers } of processes) void controllers.start();
      await pass(1000);
      for (let n = 0; n < 6; n++) await wish(`x${n}`, "1");
      processes[0]?.kube.cut();
      for (let n = 0; n < 6; n += 2) await change(`x${n}`, "2");
      await drop("x5");
      api.core.store.compact(api.core.store.revision);
      processes[1]?.kube.cut(refused("Expired", "too old"));
      await pass(20_000);
      return processes.flatMap(({ kube, log }) => [...kube.calls, ...log.lines.map((line) => JSON.stringify(line))]);
    };
    const first = await play();
    expect(first.length).toBeGreaterThan(20);
    expect(await play()).toEqual(first);
  });
});

describe("one controller without a lease", () => {
  test("leads at once", async () => {
    const api = await TestApi.start({ controllers: "none" });
    const user = { username: "solo", groups: ["system:masters"] };
    const kube = inProcessKube(api.core, { user, fieldManager: "solo" });
    const ports = { kube, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() };
    const controllers = new Controllers(ports, { fieldManager: "solo" });
    const seen: string[] = [];
    const source = kindSource(controllers.cache({ ...configMaps, plural: "namespaces" }), forObject());
    controllers.add({
      name: "watcher",
      sources: [source],
      reconcile: (key) => {
        seen.push(key);
        return undefined;
      },
    });
    expect(await controllers.start()).toBe(true);
    await settle();
    expect(seen).toContain("default");
    await controllers.stop();
  });
});

describe("a person on call", () => {
  async function watched() {
    const api = await TestApi.start({ controllers: "none" });
    const user = { username: "a", groups: ["system:masters"] };
    const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "a" }));
    const metrics = new MemoryMetrics();
    const ports = { kube, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics };
    const controllers = new Controllers(ports, { fieldManager: "a" });
    controllers.cache(configMaps);
    await controllers.start();
    const problem = (name: string): string | undefined =>
      controllers.readiness.report().checks.find((check) => check.name === name)?.problem;
    const ageS = (): number => {
      controllers.measure();
      return metrics.value("muster_watch_age_seconds", { kind });
    };
    const ready = (check: string): number => metrics.value("muster_ready", { check });
    return { api, kube, controllers, problem, ageS, ready };
  }

  test("sees how long a watch has been silent, and an event resets that time", async () => {
    const { api, controllers, ageS } = await watched();
    await api.clock.advance(40_000);
    expect(ageS()).toBe(40);
    await api.create("/namespaces", namespaceNamed("a"));
    await api.create("/configmaps", configMapNamed("a/one"));
    await settle();
    expect(ageS()).toBe(0);
    await controllers.stop();
  });

  test("finds a process unready whose watch has been refused for a minute, with the reason, and ready when it is back", async () => {
    const { api, kube, controllers, problem, ageS, ready } = await watched();
    const refusal = refused("Forbidden", 'User "a" cannot watch resource "configmaps"');
    kube.faults = { watch: () => refusal, before: (verb) => (verb === "list" ? refusal : undefined) };
    // The time that a quiet kind had no events before does not count.
    await api.clock.advance(40_000);
    kube.cut();
    await api.clock.advance(59_000);
    expect(problem("watches")).toBeUndefined();
    await api.clock.advance(2_000);
    expect(problem("watches")).toMatch(/^not watched: \/configmaps for 61 s \(.*cannot watch resource.*\)$/);
    expect(ageS()).toBe(101);
    expect([ready("watches"), ready("caches")]).toEqual([0, 1]);
    kube.faults = {};
    await api.clock.advance(120_000);
    expect(problem("watches")).toBeUndefined();
    await controllers.stop();
  });
});

import { expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, namespaceNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { CoreEvent } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import { Controllers } from "./controllers.ts";
import { MemoryMetrics } from "./memoryMetrics.ts";
import { Channel, forObject, kindSource } from "./sources.ts";

/** A controller of ConfigMaps that throws on `poisoned` while the test wants it to. */
async function started() {
  const api = await TestApi.start();
  await api.create("/namespaces", namespaceNamed("a"));
  for (const name of ["healthy", "poisoned"]) await api.create("/configmaps", configMapNamed(`a/${name}`));
  return { api, ...(await controllersOf(api)) };
}

async function controllersOf(api: TestApi) {
  const log = new KeptLog();
  const metrics = new MemoryMetrics();
  const kube = inProcessKube(api.core, { user: { username: "u", groups: ["system:masters"] }, fieldManager: "u" });
  const controllers = new Controllers(
    { kube, clock: api.clock, random: seededRandom(2), log, metrics },
    { fieldManager: "test" },
  );
  const begun: string[] = [];
  const others = new Channel();
  const cache = controllers.cache(builtin.ConfigMap, { namespace: "a" });
  controllers.add({
    name: "test",
    sources: [kindSource(cache, forObject()), others],
    reconcile: (key) => {
      begun.push(key);
      if (key === "a/poisoned" && cache.get(key)?.data?.["cured"] === undefined) throw new Error("a field of b/secret");
      return undefined;
    },
  });
  void controllers.start();
  for (let at = 0; at < 5; at++) await settle();
  const times = (key: string): number => begun.filter((each) => each === key).length;
  const events = async (): Promise<CoreEvent[]> => {
    const listed = await kube.list(builtin.CoreEvent, { namespace: "a" });
    return listed.ok ? [...listed.value.items] : [];
  };
  return { controllers, kube, log, metrics, others, times, events };
}

test("a reconcile that throws backs off on its object alone, and reports it there once", async () => {
  const { api, log, metrics, others, times, events } = await started();
  await api.clock.advance(10_000);
  expect(times("a/healthy")).toBe(1);
  const tries = times("a/poisoned");
  expect(tries).toBeGreaterThan(5);
  expect(metrics.value("muster_reconcile_exceptions_total", { controller: "test", kind: "exception" })).toBe(tries);
  expect(log.errors).toEqual(["reconcile threw an exception"]);
  const [event, ...more] = await events();
  expect(more).toEqual([]);
  expect(event).toMatchObject({
    type: "Warning",
    reason: "ReconcileError",
    reportingComponent: "muster.dev/test",
    involvedObject: { kind: "ConfigMap", name: "poisoned" },
  });
  // The exception's message may name objects of other tenants.
  expect(event?.message).not.toContain("b/secret");
  // Events of other objects enqueue the key again and again, and its back-off goes on.
  for (let at = 0; at < 50; at++) {
    others.push("a/poisoned");
    others.push("a/healthy");
    await settle(2);
  }
  expect(times("a/poisoned")).toBe(tries);
  expect(times("a/healthy")).toBe(51);
});

test("a quarantined object is reconciled at once when it changes", async () => {
  const { api, kube, times } = await started();
  await api.clock.advance(10_000);
  const tries = times("a/poisoned");
  await kube.patch(
    { ...builtin.ConfigMap, namespace: "a", name: "poisoned" },
    { type: "merge", body: { data: { cured: "yes" } } },
  );
  await settle(20);
  expect(times("a/poisoned")).toBe(tries + 1);
  await api.clock.advance(3_600_000);
  expect(times("a/poisoned")).toBe(tries + 1);
});

test("after a restart the others are reconciled as before", async () => {
  const { api, controllers } = await started();
  const stopping = controllers.stop();
  await settle(20);
  await api.clock.advance(60_000);
  await stopping;
  const next = await controllersOf(api);
  await api.clock.advance(1_000);
  expect(next.times("a/healthy")).toBe(1);
  expect(next.times("a/poisoned")).toBeGreaterThan(1);
});

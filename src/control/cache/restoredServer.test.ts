import { expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { Controllers } from "../runtime/controllers.ts";
import { MemoryMetrics } from "../runtime/memoryMetrics.ts";
import { forObject, kindSource } from "../runtime/sources.ts";

const configMaps = builtin.ConfigMap;

async function serverWith(writes: number): Promise<TestApi> {
  const api = await TestApi.start({ controllers: "none" });
  await api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "a" } });
  await writeMore(api, writes, "start");
  return api;
}

async function writeMore(api: TestApi, writes: number, prefix: string): Promise<void> {
  for (let n = 0; n < writes; n++) await api.create("/configmaps", configMapNamed(`a/${prefix}-${n}`));
}

test("a server restored to lower revisions makes the process unhealthy and stops all reconciles, until it has caught up", async () => {
  const lost = await serverWith(20);
  const restored = await serverWith(2);
  const as = (api: TestApi): KubeApi =>
    inProcessKube(api.core, { user: { username: "test", groups: ["system:masters"] }, fieldManager: "test" });
  let current = as(lost);
  const kube = new FaultyKube(new Proxy({} as KubeApi, { get: (_, verb) => current[verb as keyof KubeApi] }));
  const log = new KeptLog();
  const { clock } = lost;
  const controllers = new Controllers(
    { kube, clock, random: seededRandom(3), log, metrics: new MemoryMetrics() },
    { fieldManager: "test" },
  );
  const cache = controllers.cache(configMaps);
  const turns: string[] = [];
  const controller = controllers.add({
    name: "turns",
    sources: [kindSource(cache, forObject())],
    reconcile: (key) => {
      turns.push(key);
      return undefined;
    },
  });
  await controllers.start();
  await settle();
  expect(turns).toContain("a/start-19");
  expect(controllers.health.report().isWell).toBe(true);

  const minutes = async (count: number): Promise<void> => {
    for (let quarter = 0; quarter < count * 4; quarter++) {
      await restored.clock.advance(15_000);
      await clock.advance(15_000);
    }
  };
  current = as(restored);
  kube.cut(refused("Unavailable", "the server goes away"));
  await minutes(15);
  const { isWell, checks } = controllers.health.report();
  expect(isWell).toBe(false);
  expect(checks.find(({ name }) => name === "caches")?.problem).toMatch(/older than the observed revision \d+/);
  // The cache has objects that the restored server lacks: no controller acts on them.
  turns.length = 0;
  controller.queue.add("a/start-0");
  await settle();
  expect(turns).toEqual([]);
  expect(cache.get("a/start-19")).toBeDefined();

  await writeMore(restored, 40, "later");
  await minutes(3);
  expect(controllers.health.report().isWell).toBe(true);
  expect(cache.get("a/start-19")).toBeUndefined();
  expect(cache.get("a/later-39")).toBeDefined();
  expect(turns).toContain("a/start-19");
  await controllers.stop();
});

test("a process that starts on a restored server accepts its state", async () => {
  const restored = await serverWith(2);
  const user = { username: "test", groups: ["system:masters"] };
  const kube = inProcessKube(restored.core, { user, fieldManager: "test" });
  const ports = {
    kube,
    clock: restored.clock,
    random: seededRandom(3),
    log: new KeptLog(),
    metrics: new MemoryMetrics(),
  };
  const controllers = new Controllers(ports, { fieldManager: "test" });
  const cache = controllers.cache(configMaps);
  await controllers.start();
  expect(cache.get("a/start-1")).toBeDefined();
  await controllers.stop();
});

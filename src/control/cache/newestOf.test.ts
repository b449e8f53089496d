import { expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { MemoryMetrics } from "../runtime/memoryMetrics.ts";
import { NewestOf } from "./newestOf.ts";
import { ObjectCache } from "./objectCache.ts";

/** A kind whose watch the test can silence. */
async function started() {
  const api = await TestApi.start({ controllers: "none" });
  const user = { username: "tester", groups: ["system:masters"] };
  const kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "test" }));
  const resource = builtin.ConfigMap;
  await api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "a" } });
  const ports = { kube, clock: api.clock, random: seededRandom(7), log: new KeptLog(), metrics: new MemoryMetrics() };
  const cache = new ObjectCache({ ...ports, resource, selection: { namespace: "a" }, freeze: true });
  cache.start();
  await settle();
  const newest = new NewestOf(cache);
  const edit = async (data: string): Promise<KubeObject> => {
    await api.edit("/configmaps", "a/m", (object) => {
      object["data"] = { data };
    });
    return api.get("/configmaps", "a/m") as KubeObject;
  };
  return { api, kube, newest, edit };
}

const dataOf = (object: KubeObject | undefined) => (object?.["data"] as { data?: string } | undefined)?.data;

test("the answer to a write counts until the watch has passed its revision", async () => {
  const { api, kube, newest, edit } = await started();
  kube.faults = { isMute: true };
  const made = (await api.create("/configmaps", { ...configMapNamed("a/m"), data: { data: "1" } })) as KubeObject;
  await settle();
  expect(newest.get("a/m")).toBeUndefined();
  newest.learn(made);
  expect([dataOf(newest.get("a/m")), newest.isAhead(() => true)]).toEqual(["1", true]);
  expect(newest.among([], () => true).map(dataOf)).toEqual(["1"]);
  await edit("2");
  kube.faults = {};
  kube.cut();
  await api.clock.advance(60_000);
  expect([dataOf(newest.get("a/m")), newest.isAhead(() => true)]).toEqual(["2", false]);
});

test("an answer that is older than another one, or than the watch, is ignored", async () => {
  const { api, kube, newest, edit } = await started();
  const made = (await api.create("/configmaps", { ...configMapNamed("a/m"), data: { data: "1" } })) as KubeObject;
  await settle();
  kube.faults = { isMute: true };
  const second = await edit("2");
  const third = await edit("3");
  newest.learn(third);
  newest.learn(second);
  expect(dataOf(newest.get("a/m"))).toBe("3");
  expect(dataOf(newest.newest(made))).toBe("3");
  kube.faults = {};
  kube.cut();
  await api.clock.advance(60_000);
  await api.delete("/configmaps", "a/m");
  await settle();
  newest.learn(third);
  expect(newest.get("a/m")).toBeUndefined();
});

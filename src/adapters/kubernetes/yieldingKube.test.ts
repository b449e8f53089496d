import { expect, test } from "vitest";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { partly } from "../../../testing/partly.ts";
import { createApi } from "../../apiserver/createApi.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import { Controllers } from "../../control/runtime/controllers.ts";
import { MemoryMetrics } from "../../control/runtime/memoryMetrics.ts";
import { Channel } from "../../control/runtime/sources.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { systemClock } from "../systemClock.ts";
import { systemRandom } from "../systemRandom.ts";
import { yieldingKube } from "./yieldingKube.ts";

const maps = builtin.ConfigMap;
const turns = 4_000;

/** How many turns of a controller that writes were over when a timer of one millisecond came to its turn. */
async function turnsBeforeTimer(wrap: (kube: KubeApi) => KubeApi): Promise<number> {
  const clock = systemClock();
  const random = systemRandom();
  const { core } = await createApi({ clock, random });
  const user = { username: "test", groups: ["system:masters"] };
  const kube = wrap(inProcessKube(core, { user, fieldManager: "test" }));
  await kube.create(builtin.Namespace, {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "default" },
  });
  const controllers = new Controllers(
    { kube, clock, random, log: new KeptLog(), metrics: new MemoryMetrics() },
    { fieldManager: "test" },
  );
  const work = new Channel();
  let done = 0;
  let before = 0;
  const over = new Promise<void>((resolve) => {
    controllers.add({
      name: "writer",
      sources: [work],
      concurrency: 8,
      reconcile: async (key) => {
        const metadata = { name: key, namespace: "default" };
        await kube.create(maps, { apiVersion: "v1", kind: "ConfigMap", metadata } as KubeObject);
        if (++done === turns) resolve();
        return undefined;
      },
    });
  });
  await controllers.start();
  setTimeout(() => {
    before = done;
  }, 1);
  for (let at = 0; at < turns; at++) work.push(`m${at}`);
  await over;
  await new Promise((resolve) => setTimeout(resolve, 5));
  await controllers.stop();
  return before;
}

test("on a store in memory a controller with much to do starves timers, unless its calls are considerate", async () => {
  expect(await turnsBeforeTimer((kube) => kube)).toBe(turns);
  expect(await turnsBeforeTimer(yieldingKube)).toBeLessThan(turns / 2);
});

test("waiting calls are made in order, and each once", async () => {
  const made: string[] = [];
  // Nothing else of the API is called.
  const slow = partly<KubeApi>({
    get: async ({ name }: { name: string }) => {
      made.push(name);
      const untilMs = performance.now() + 2;
      while (performance.now() < untilMs);
      return { ok: true, value: { metadata: { name } } };
    },
  });
  const kube = yieldingKube(slow);
  const names = Array.from({ length: 20 }, (_, at) => `p${at}`);
  await Promise.all(names.map((name) => kube.get({ ...maps, namespace: "default", name })));
  expect(made).toEqual(names);
});

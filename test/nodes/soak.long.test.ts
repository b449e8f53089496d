/** Large clusters through long virtual times. Figures are printed; run with `npm run test:long`. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { admissionFailures } from "../../src/kubelet/run/podReconciler.ts";
import type { Lease, Node } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { readyOf } from "./nodesCluster.ts";
import { virtualCluster } from "./virtualCluster.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const podsKind = builtin.Pod;

test("5,000 nodes stay Ready through an hour, and no lease ever comes near its end", async () => {
  const started = performance.now();
  const { core, clock, log, controllers } = await virtualCluster(["h100=5000"]);
  await clock.advance(30_000);
  expect(core.store.collection("/nodes").size).toBe(5000);
  let worstMs = 0;
  let unready = 0;
  core.store.onEvent(({ current, previous }) => {
    if (current.deleted) return;
    if (current.resource === "/nodes" && readyOf(current.object() as unknown as Node) !== "True") unready++;
    if (current.resource !== "coordination.k8s.io/leases" || previous === undefined) return;
    const before = (previous.object() as unknown as Lease).spec?.renewTime ?? "";
    worstMs = Math.max(worstMs, clock.nowMs() - Date.parse(before));
  });
  const revision = core.store.revision;
  await clock.advance(3_600_000);
  const writes = core.store.revision - revision;
  console.log(
    `5,000 nodes, 1 h: ${writes} writes (${(writes / 5000 / 360).toFixed(2)} a node each 10 s), longest between renewals ${worstMs} ms, ${((performance.now() - started) / 1000).toFixed(0)} s of real time`,
  );
  expect([unready, worstMs < 12_000, log.errors]).toEqual([0, true, []]);
  for (const { object } of [...core.store.collection("/nodes").all()].map((version) => ({
    object: version.object(),
  }))) {
    expect(readyOf(object as unknown as Node)).toBe("True");
  }
  await controllers.stop();
});

test("24 hours with pods that come, run, fail and go: memory does not grow beyond the live objects", async () => {
  const { core, clock, kube, log, metrics, controllers } = await virtualCluster(["h100=10"]);
  await clock.advance(5000);
  const started = performance.now();
  /** MiB that are alive, after each hour. */
  const heaps: number[] = [];
  let made = 0;
  const hour = async (): Promise<void> => {
    for (let minute = 0; minute < 60; minute++) {
      for (let index = 0; index < 10; index++) {
        const annotations = {
          "sim.muster.dev/run-duration": "40s",
          ...(made % 10 === 0 ? { "sim.muster.dev/outcome": "Error" } : {}),
        };
        const name = `p-${made++}`;
        await kube.create(podsKind, {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name, namespace: "default", annotations },
          spec: {
            nodeName: `h100-${index}`,
            restartPolicy: "Never",
            containers: [{ name: "main", image: "i", resources: { limits: { "nvidia.com/gpu": "8" } } }],
          },
        });
      }
      await clock.advance(50_000);
      for (const version of [...core.store.collection("/pods").all()]) {
        await kube.delete({ ...podsKind, namespace: "default", name: version.name });
      }
      await clock.advance(10_000);
    }
  };
  for (let at = 0; at < 24; at++) {
    await hour();
    collectGarbage();
    heaps.push(process.memoryUsage().heapUsed / 2 ** 20);
  }
  const seconds = (performance.now() - started) / 1000;
  const told = heaps.map((each) => each.toFixed(1)).join(" ");
  console.log(
    `24 h, ${made} pods, ${core.store.revision} writes in ${seconds.toFixed(0)} s; MiB alive by the hour: ${told}`,
  );
  expect([core.store.collection("/pods").size, log.errors]).toEqual([0, []]);
  expect(metrics.render()).not.toContain(admissionFailures);
  // After two hours the history has its full length: from then on nothing grows. Leases and pods differ by a few bytes.
  const [, second = 0, ...later] = heaps;
  expect(Math.max(...later) - second).toBeLessThan(2);
  await controllers.stop();
});

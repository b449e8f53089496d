/** The nodes component: nodes register, stay Ready, and run pods, observed through the API. */
import { expect, test } from "vitest";
import { admissionFailures } from "../../src/kubelet/run/podReconciler.ts";
import type { Lease, ResourceSlice } from "../../src/model/kubernetes.generated.ts";
import { NodesCluster, readyOf, withGpus } from "./nodesCluster.ts";

test("nodes of the pools register once, are Ready, and hold their leases", async () => {
  const cluster = await NodesCluster.create();
  const process = await cluster.start({ pools: ["h100=2", "big:gb200=1"] });
  expect(cluster.api.names("/nodes")).toEqual(["big-0", "h100-0", "h100-1"]);
  expect(["big-0", "h100-0", "h100-1"].map((name) => readyOf(cluster.node(name)))).toEqual(["True", "True", "True"]);
  const cidrs = ["big-0", "h100-0", "h100-1"].map((name) => cluster.node(name)?.spec?.podCIDR);
  expect(new Set(cidrs).size).toBe(3);
  await cluster.run(120);
  for (const { spec } of cluster.all<Lease>("coordination.k8s.io/leases")) {
    expect(spec?.holderIdentity).toBe("muster");
    expect(Date.parse(spec?.renewTime ?? "")).toBeGreaterThan(cluster.api.clock.nowMs() - 11_000);
  }
  expect(cluster.all<ResourceSlice>("resource.k8s.io/resourceslices").flatMap(({ spec }) => spec.devices)).toHaveLength(
    20,
  );
  expect(process.log.errors).toEqual([]);
});

test("pods run, end and are deleted, and no device is held by two pods", async () => {
  const cluster = await NodesCluster.create();
  const process = await cluster.start();
  await cluster.pod("plain");
  await cluster.pod("once", { restartPolicy: "Never" }, { annotations: { "sim.muster.dev/run-duration": "5s" } });
  await cluster.pod("four", withGpus(4));
  await cluster.run(1);
  expect(cluster.phases()).toEqual(["four Running", "once Running", "plain Running"]);
  const given = ["plain", "once", "four"].flatMap((name) => {
    const text = cluster.look(name)?.metadata.annotations?.["sim.muster.dev/devices"] ?? "{}";
    return Object.values(JSON.parse(text) as Record<string, Record<string, string[]>>).flatMap((each) =>
      Object.values(each).flat(),
    );
  });
  expect([given.length, new Set(given).size]).toEqual([6, 6]);
  await cluster.run(10);
  expect(cluster.phases()).toEqual(["four Running", "once Succeeded", "plain Running"]);
  await cluster.api.delete("/pods", "default/plain");
  await cluster.run(40);
  expect(cluster.phases()).toEqual(["four Running", "once Succeeded"]);
  expect(process.metrics.render()).not.toContain(admissionFailures);
  expect(process.log.errors).toEqual([]);
});

test("two pods that together request more than the node has: one fails, and the counter shows it", async () => {
  const cluster = await NodesCluster.create();
  const process = await cluster.start();
  await cluster.pod("a", withGpus(6));
  await cluster.pod("b", withGpus(6));
  await cluster.run(1);
  expect(cluster.phases()).toEqual(["a Running", "b Failed"]);
  expect(process.metrics.value(admissionFailures, { reason: "UnexpectedAdmissionError" })).toBe(1);
});

test("a restarted process continues where the last one stopped", async () => {
  const cluster = await NodesCluster.create();
  const first = await cluster.start();
  await cluster.pod("a", withGpus(3));
  await cluster.pod("job", { restartPolicy: "Never" }, { annotations: { "sim.muster.dev/run-duration": "60s" } });
  await cluster.run(20);
  await first.stop();
  await cluster.run(5);
  await cluster.pod("b", withGpus(4));
  const second = await cluster.start();
  await cluster.run(1);
  expect(cluster.phases()).toEqual(["a Running", "b Running", "job Running"]);
  const started = cluster.look("a")?.status?.containerStatuses?.[0];
  expect(started?.restartCount).toBe(0);
  await cluster.run(50);
  expect(cluster.phases()).toEqual(["a Running", "b Running", "job Succeeded"]);
  await cluster.pod("c", withGpus(1));
  await cluster.run(1);
  expect(cluster.phases()).toContain("c Running");
  expect([first.metrics.render(), second.metrics.render()].join()).not.toContain(admissionFailures);
});

test("simulated nodes are tainted as soon as a real one joins, also those that come later", async () => {
  const cluster = await NodesCluster.create();
  const taints = (name?: string): unknown => cluster.node(name)?.spec?.taints;
  const played = [{ key: "kwok.x-k8s.io/node", value: "fake", effect: "NoSchedule" }];
  const process = await cluster.start({ options: { taintBesideReal: true } });
  await cluster.pod("before");
  await cluster.run(1);
  expect(taints()).toBeUndefined();
  await cluster.api.create("/nodes", { apiVersion: "v1", kind: "Node", metadata: { name: "real" } });
  await cluster.run(1);
  expect(taints()).toEqual(played);
  expect(taints("real") ?? []).not.toContainEqual(played[0]);
  expect(cluster.phases()).toEqual(["before Running"]);
  await process.stop();
  const later = await cluster.start({ pools: ["h100=2"], options: { taintBesideReal: true } });
  await cluster.run(1);
  expect(taints("h100-1")).toEqual(played);
  expect([...process.log.errors, ...later.log.errors]).toEqual([]);
});

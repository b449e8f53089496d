/**
 * Nodes that more than one process could simulate: a lease decides, and a node without the annotation is left alone.
 */
import { expect, test } from "vitest";
import type { Lease } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused } from "../../src/model/outcome.ts";
import { NodesCluster, podOf, readyOf, withGpus } from "./nodesCluster.ts";

const holderOf = (cluster: NodesCluster, node = "h100-0") =>
  (cluster.api.get("coordination.k8s.io/leases", `kube-node-lease/${node}`) as unknown as Lease).spec?.holderIdentity;

test("while another process holds the lease nothing is written; when it has expired the node is taken over, with its pods", async () => {
  const cluster = await NodesCluster.create();
  const first = await cluster.start({ options: { holder: "first" } });
  await cluster.pod("a", withGpus(4));
  await cluster.run(2);
  const second = await cluster.start({ options: { holder: "second" } });
  await cluster.pod("b", withGpus(2));
  await cluster.run(30);
  expect([holderOf(cluster), cluster.phases()]).toEqual(["first", ["a Running", "b Running"]]);
  await first.stop();
  await cluster.pod("c", withGpus(2));
  await cluster.run(20);
  expect([holderOf(cluster), cluster.look("c")?.status?.startTime]).toEqual(["first", undefined]);
  await cluster.run(35);
  expect([holderOf(cluster), cluster.phases()]).toEqual(["second", ["a Running", "b Running", "c Running"]]);
  const devices = ["a", "b", "c"].flatMap((name) => {
    const text = cluster.look(name)?.metadata.annotations?.["sim.muster.dev/devices"] ?? "{}";
    return text.match(/GPU-[0-9a-f-]+/g) ?? [];
  });
  expect([devices.length, new Set(devices).size]).toEqual([8, 8]);
  expect([...first.log.errors, ...second.log.errors]).toEqual([]);
});

test("a node without the annotation and its pods are never touched", async () => {
  const cluster = await NodesCluster.create();
  const real = { apiVersion: "v1", kind: "Node", metadata: { name: "real" } };
  const { resourceVersion } = (await cluster.api.create("/nodes", real)).metadata;
  await cluster.start();
  const pod = (await cluster.api.create("/pods", podOf("p", { nodeName: "real" }))) as KubeObject;
  await cluster.run(120);
  expect(cluster.api.get("/nodes", "real")?.metadata.resourceVersion).toBe(resourceVersion);
  expect(cluster.look("p")?.metadata.resourceVersion).toBe(pod.metadata.resourceVersion);
  expect(cluster.api.names("coordination.k8s.io/leases")).toEqual(["kube-node-lease/h100-0"]);
});

test("writes that are refused or lost are repeated, and no device is allocated twice", async () => {
  const cluster = await NodesCluster.create();
  const process = await cluster.start({ options: { events: "none" } });
  let calls = 0;
  const isWrite = (verb: string) => verb !== "get" && verb !== "list";
  process.kube.faults = {
    before: (verb) => (isWrite(verb) && ++calls % 3 === 0 ? refused("Unknown", "the request was lost") : undefined),
    after: (verb) => (isWrite(verb) && calls % 5 === 0 ? refused("Unknown", "the answer was lost") : undefined),
  };
  for (let index = 0; index < 8; index++) await cluster.pod(`p${index}`, withGpus(1));
  await cluster.run(120);
  process.kube.faults = {};
  await cluster.run(30);
  expect(cluster.phases()).toEqual(Array.from({ length: 8 }, (_, index) => `p${index} Running`));
  expect(readyOf(cluster.node())).toBe("True");
  expect(process.log.errors).toEqual([]);
});

import { expect, test } from "vitest";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { LiveCluster, named, template } from "./liveCluster.ts";

const spec = { replicas: 3, selector: { app: "x" }, template: template() };

async function start(): Promise<LiveCluster> {
  const cluster = await LiveCluster.start();
  await cluster.test.create("/replicationcontrollers", named("v1", "ReplicationController", spec));
  await cluster.pass(3_000);
  return cluster;
}

test("a ReplicationController has its pods, its status and its events, and then nothing is written", async () => {
  const cluster = await start();
  const controller = cluster.get<k.ReplicationController>("/replicationcontrollers", "default/x");
  expect(controller.status).toEqual({
    replicas: 3,
    fullyLabeledReplicas: 3,
    readyReplicas: 3,
    availableReplicas: 3,
    observedGeneration: 1,
  });
  const [pod] = cluster.all<k.Pod>("/pods");
  expect(pod?.metadata.ownerReferences).toMatchObject([{ apiVersion: "v1", kind: "ReplicationController", name: "x" }]);
  expect(cluster.events("x")).toContainEqual(expect.stringMatching(/^SuccessfulCreate: Created pod: x-/));
  const before = controller.metadata.resourceVersion;
  await cluster.pass(60_000);
  expect(cluster.get<k.ReplicationController>("/replicationcontrollers", "default/x").metadata.resourceVersion).toBe(
    before,
  );
  expect(cluster.log.errors).toEqual([]);
  await cluster.stop();
});

test("it scales, replaces a deleted pod, adopts an orphan and releases a pod with other labels", async () => {
  const cluster = await start();
  await cluster.edit<k.ReplicationController>("/replicationcontrollers", "default/x", (object) => {
    object.spec!.replicas = 2;
  });
  await cluster.pass(60_000);
  expect(cluster.all<k.Pod>("/pods")).toHaveLength(2);
  const [first, second] = cluster.all<k.Pod>("/pods");
  await cluster.edit<k.Pod>("/pods", `default/${first?.metadata.name}`, ({ metadata }) => {
    metadata.labels = { app: "other" };
  });
  await cluster.pass(3_000);
  expect(cluster.get<k.Pod>("/pods", `default/${first?.metadata.name}`).metadata.ownerReferences ?? []).toEqual([]);
  await cluster.test.delete("/pods", `default/${second?.metadata.name}`);
  await cluster.pass(60_000);
  const owned = cluster.all<k.Pod>("/pods").filter(({ metadata }) => metadata.ownerReferences?.length === 1);
  expect(owned).toHaveLength(2);
  await cluster.stop();
});

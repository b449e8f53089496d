/**
 * What users see when the API refuses writes of a gang: its status is still updated, has the reason, and loses it when
 * the writes succeed.
 */
import { expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { conditionOf, GangCluster } from "./gangCluster.ts";
import { quick, workload1 } from "./workloads.ts";

const quotas = builtin.ResourceQuota;

async function allowPods(cluster: GangCluster, count: number): Promise<void> {
  const quota = {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: "few", namespace: "default" },
    spec: { hard: { pods: String(count) } },
  };
  await cluster.must(cluster.kube.create(quotas, quota));
  await cluster.settle();
}

const clique = "workload1-0-pc-a";

test("a pod whose create is refused leaves its clique in breach, with the reason, until it is accepted", async () => {
  const cluster = await GangCluster.start({ nodes: 11 });
  await cluster.apply(workload1());
  expect(cluster.readyPods()).toBe(10);
  await allowPods(cluster, 5);
  const [victim] = cluster.pods(clique);
  await cluster.deletePod(victim?.metadata.name ?? "");
  await cluster.settle();
  await cluster.pass(5);
  expect(cluster.pods(clique)).toHaveLength(1);
  const { status } = cluster.clique(clique);
  expect(status).toMatchObject({ replicas: 1, scheduledReplicas: 1 });
  expect(conditionOf({ status: status ?? {} } as never, "MinAvailableBreached")).toMatchObject({
    status: "True",
    reason: "ScheduledReplicasBelowMinAvailable",
  });
  expect(status?.lastErrors).toMatchObject([{ code: "ERR_CREATE_POD" }]);
  expect(status?.lastErrors?.[0]?.description).toContain("exceeded quota");
  expect(cluster.events("PodCreateFailed").map(({ regarding, type }) => [regarding.name, type])).toEqual([
    [clique, "Warning"],
  ]);
  const quiet = cluster.api.core.store.revision;
  await cluster.pass(5);
  // The attempts continue, and only the count of the Event is written again.
  expect(cluster.api.core.store.revision - quiet).toBeLessThan(5);
  await cluster.must(cluster.kube.delete({ ...quotas, namespace: "default", name: "few" }));
  await cluster.pass(60);
  expect(cluster.readyPods()).toBe(10);
  expect(cluster.clique(clique).status?.lastErrors).toBeUndefined();
});

test("a gang whose pods cannot be created again is terminated after its delay", async () => {
  const cluster = await GangCluster.start({ nodes: 11 });
  await cluster.apply(workload1({ template: quick }));
  const before = cluster.uids();
  await allowPods(cluster, 5);
  const [victim] = cluster.pods(clique);
  await cluster.deletePod(victim?.metadata.name ?? "");
  await cluster.pass(30);
  expect(cluster.uids().filter((uid) => before.includes(uid))).toEqual([]);
});

test("Events of a set, a group and a clique list what was created for it", async () => {
  const cluster = await GangCluster.start({ nodes: 10 });
  await cluster.apply(workload1());
  await cluster.scale("PodCliqueSet", "workload1", 0);
  await cluster.pass(5);
  const seen = (reason: string): string[] => [
    ...new Set(cluster.events(reason).map(({ regarding }) => regarding.kind)),
  ];
  expect(seen("PodCliqueCreateOrUpdateSuccessful")).toEqual(["PodCliqueSet"]);
  expect(seen("PodCliqueScalingGroupCreateSuccessful")).toEqual(["PodCliqueSet"]);
  expect(seen("PodGangCreateOrUpdateSuccessful")).toEqual(["PodCliqueSet"]);
  expect(seen("PodCliqueCreateSuccessful")).toEqual(["PodCliqueScalingGroup"]);
  expect(seen("PodCreateSuccessful")).toEqual(["PodClique"]);
  expect(seen("PodCliqueDeleteSuccessful")).toEqual(["PodCliqueSet"]);
  expect(seen("PodCliqueScalingGroupDeleteSuccessful")).toEqual(["PodCliqueSet"]);
  expect(seen("PodGangDeleteSuccessful")).toEqual(["PodCliqueSet"]);
});

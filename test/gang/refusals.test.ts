/**
 * What users see when the API refuses writes of a gang: its status is still updated, has the reason, and loses it when
 * the writes succeed.
 */
import { expect, test } from "vitest";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { conditionOf, GangCluster } from "./gangCluster.ts";
import { clique, pcs } from "./setBuilder.ts";
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

const leader = "workload1-0-pc-a";

test("a pod whose create is refused leaves its clique in breach, with the reason, until it is accepted", async () => {
  const cluster = await GangCluster.start({ nodes: 11 });
  await cluster.apply(workload1());
  expect(cluster.readyPods()).toBe(10);
  await allowPods(cluster, 5);
  const [victim] = cluster.pods(leader);
  await cluster.deletePod(victim?.metadata.name ?? "");
  await cluster.settle();
  await cluster.pass(5);
  expect(cluster.pods(leader)).toHaveLength(1);
  const { status } = cluster.clique(leader);
  expect(status).toMatchObject({ replicas: 1, scheduledReplicas: 1 });
  expect(conditionOf({ status: status ?? {} } as never, "MinAvailableBreached")).toMatchObject({
    status: "True",
    reason: "ScheduledReplicasBelowMinAvailable",
  });
  expect(status?.lastErrors).toMatchObject([{ code: "ERR_CREATE_POD" }]);
  expect(status?.lastErrors?.[0]?.description).toContain("exceeded quota");
  // One for each attempt.
  const failed = cluster.events("PodCreateFailed").map(({ regarding, type }) => `${type} ${regarding.name}`);
  expect([...new Set(failed)]).toEqual([`Warning ${leader}`]);
  const quiet = cluster.api.core.store.revision;
  await cluster.pass(5);
  // The attempts continue, and only the count of the Event is written again.
  expect(cluster.api.core.store.revision - quiet).toBeLessThan(5);
  await cluster.must(cluster.kube.delete({ ...quotas, namespace: "default", name: "few" }));
  await cluster.pass(60);
  expect(cluster.readyPods()).toBe(10);
  expect(cluster.clique(leader).status?.lastErrors).toBeUndefined();
});

test("a gang whose pods cannot be created again is terminated after its delay", async () => {
  const cluster = await GangCluster.start({ nodes: 11 });
  await cluster.apply(workload1({ template: quick }));
  const before = cluster.uids();
  await allowPods(cluster, 5);
  const [victim] = cluster.pods(leader);
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

test("a set that is too large is said to be so once, also when the status write is refused with conflicts", async () => {
  const cluster = await GangCluster.start({ nodes: 1 });
  let refusals = 0;
  cluster.faults.before = (verb, what) =>
    what === "podcliquesets set" && verb === "update" && refusals++ < 3
      ? refused("Conflict", "the object has changed")
      : undefined;
  await cluster.apply(pcs("set", [clique({ name: "a", replicas: 1_000_000, min: 1_000_000 })]));
  await cluster.pass(60);
  expect(refusals).toBeGreaterThan(3);
  expect(cluster.set("set").status?.lastErrors?.map(({ code }) => code)).toContain("ERR_REPLICAS_LIMITED");
  expect(cluster.events("ReplicasLimited")).toHaveLength(1);
});

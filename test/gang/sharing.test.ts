/** Shared claims: which exist, their owners, their users, as the workload is scaled up and down. */
import { expect, test } from "vitest";
import type { ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import { GangCluster } from "./gangCluster.ts";

test("claims follow their level through every scaling, and all are deleted with the set", async () => {
  const cluster = await GangCluster.start({ nodes: 4, podsPerNode: 10 });
  await cluster.applyExample("resource-sharing.yaml");
  expect(cluster.names("grove.io/podcliques").sort()).toEqual([
    "rs-test-0-sga-0-worker-b",
    "rs-test-0-sga-1-worker-b",
    "rs-test-0-worker-a",
  ]);
  expect(cluster.names("scheduler.grove.io/podgangs")).toEqual(["rs-test-0"]);
  expect(cluster.pods()).toHaveLength(3);
  expect(cluster.claims().sort()).toEqual([
    "rs-test-0-ext-tpl",
    "rs-test-0-int-tpl3",
    "rs-test-0-sga-0-int-tpl3",
    "rs-test-0-sga-0-worker-b-all-int-tpl6",
    "rs-test-0-sga-1-int-tpl3",
    "rs-test-0-sga-1-worker-b-all-int-tpl6",
    "rs-test-0-sga-all-int-tpl",
    "rs-test-0-sga-all-int-tpl2",
    "rs-test-0-worker-a-0-int-tpl4",
    "rs-test-0-worker-a-all-int-tpl",
    "rs-test-all-int-tpl2",
    "rs-test-all-int-tpl5",
  ]);
  const owners = Object.fromEntries(
    cluster
      .all<ResourceClaim>("resource.k8s.io/resourceclaims")
      .map(({ metadata }) => [
        metadata.name,
        `${metadata.ownerReferences?.[0]?.kind} ${metadata.ownerReferences?.[0]?.name}`,
      ]),
  );
  expect(owners["rs-test-all-int-tpl5"]).toBe("PodCliqueSet rs-test");
  expect(owners["rs-test-0-sga-1-int-tpl3"]).toBe("PodCliqueScalingGroup rs-test-0-sga");
  expect(owners["rs-test-0-worker-a-0-int-tpl4"]).toBe("PodClique rs-test-0-worker-a");
  const used = (clique: string): (string | undefined)[] =>
    (cluster.pods(clique)[0]?.spec?.resourceClaims ?? []).map(({ resourceClaimName }) => resourceClaimName);
  expect(used("rs-test-0-worker-a")).toEqual([
    "rs-test-all-int-tpl5",
    "rs-test-all-int-tpl2",
    "rs-test-0-ext-tpl",
    "rs-test-0-worker-a-all-int-tpl",
    "rs-test-0-worker-a-0-int-tpl4",
  ]);
  expect(used("rs-test-0-sga-1-worker-b")).toEqual([
    "rs-test-all-int-tpl5",
    "rs-test-0-ext-tpl",
    "rs-test-0-int-tpl3",
    "rs-test-0-sga-all-int-tpl2",
    "rs-test-0-sga-all-int-tpl",
    "rs-test-0-sga-1-int-tpl3",
    "rs-test-0-sga-1-worker-b-all-int-tpl6",
  ]);
  const container = cluster.pods("rs-test-0-worker-a")[0]?.spec?.containers[0];
  expect(container?.resources?.claims?.map(({ name }) => name)).toEqual(used("rs-test-0-worker-a"));
  const counts: number[] = [cluster.claims().length];
  const step = async (kind: "PodCliqueSet" | "PodClique" | "PodCliqueScalingGroup", name: string, to: number) => {
    await cluster.scale(kind, name, to);
    counts.push(cluster.claims().length);
  };
  await step("PodCliqueScalingGroup", "rs-test-0-sga", 1);
  await step("PodCliqueScalingGroup", "rs-test-0-sga", 3);
  await step("PodClique", "rs-test-0-worker-a", 2);
  await step("PodClique", "rs-test-0-worker-a", 1);
  await step("PodCliqueSet", "rs-test", 2);
  expect(cluster.pods()).toHaveLength(7);
  await step("PodCliqueSet", "rs-test", 1);
  expect(counts).toEqual([12, 10, 14, 15, 14, 24, 14]);
  await expect(
    cluster.change("rs-test", (set) => {
      set.spec.template.resourceSharing = [];
    }),
  ).rejects.toThrow("resourceSharing");
  await cluster.must(
    cluster.kube.delete({
      group: "grove.io",
      version: "v1alpha1",
      plural: "podcliquesets",
      namespace: "default",
      name: "rs-test",
    }),
  );
  await cluster.pass(60);
  expect(cluster.claims()).toEqual([]);
});

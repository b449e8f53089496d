/** The output of `muster gangs` for a cluster with a gang in breach. */
import { expect, test } from "vitest";
import { gangText } from "../../src/cli/views/gangs.ts";
import { type GangRow, gangTree } from "../../src/decide/gang/gangTree.ts";
import { GangCluster } from "./gangCluster.ts";
import { quick, workload1, workload2, workload5gt } from "./workloads.ts";

const treeOf = (cluster: GangCluster): GangRow[] =>
  gangTree(
    {
      sets: cluster.all("grove.io/podcliquesets"),
      groups: cluster.all("grove.io/podcliquescalinggroups"),
      cliques: cluster.all("grove.io/podcliques"),
    },
    cluster.api.clock.nowMs(),
  );

const said = (rows: readonly GangRow[]): string[] =>
  rows.map(({ depth, name, minimum, replicas, scheduled, ready, breach }) =>
    [depth, name, minimum, replicas, scheduled, ready, breach].join(" ").trim(),
  );

test("the tree shows minimum, scheduled, ready, breach and the time until termination", async () => {
  const cluster = await GangCluster.start({ nodes: 10 });
  await cluster.apply(workload1({ template: { terminationDelay: "10m" } }));
  const [victim] = cluster.pods("workload1-0-sg-x-0-pc-c");
  if (victim !== undefined) await cluster.losePod(victim);
  await cluster.api.clock.advance(60_000);
  const rows = treeOf(cluster);
  expect(said(rows)).toEqual([
    "0 workload1 1 1 0 0",
    "1 workload1-0 10 10 9 9",
    "2 workload1-0-pc-a 2 2 2 2",
    "2 workload1-0-sg-x 2 2 1 1 ScheduledReplicasBelowMinAvailable",
    "3 workload1-0-sg-x-0 4 4 3 3",
    "4 workload1-0-sg-x-0-pc-b 1 1 1 1",
    "4 workload1-0-sg-x-0-pc-c 3 3 2 2 ScheduledReplicasBelowMinAvailable",
    "3 workload1-0-sg-x-1 4 4 4 4",
    "4 workload1-0-sg-x-1-pc-b 1 1 1 1",
    "4 workload1-0-sg-x-1-pc-c 3 3 3 3",
  ]);
  const breached = rows.find(({ name }) => name === "workload1-0-sg-x-0-pc-c");
  expect(breached?.leftMs).toBeGreaterThan(8 * 60_000);
  expect(breached?.leftMs).toBeLessThanOrEqual(9 * 60_000);
  const text = gangText(rows, "42");
  expect(text).toContain("GANG");
  expect(text).toMatch(/ {8}workload1-0-sg-x-0-pc-c +3 +3 +2 +2 +ScheduledReplicasBelowMinAvailable +8m/);
  expect(text).toContain("at revision 42");
});

test("a set replica counts its base gang, without group replicas beyond the minimum", async () => {
  const cluster = await GangCluster.start({ nodes: 3 });
  await cluster.apply(workload2());
  expect(cluster.set("workload2").status?.availableReplicas).toBe(1);
  expect(said(treeOf(cluster)).slice(0, 2)).toEqual(["0 workload2 1 1 1 1", "1 workload2-0 3 10 3 3"]);
});

const left = (cluster: GangCluster): string[] =>
  treeOf(cluster).flatMap(({ name, leftMs }) => (leftMs === undefined ? [] : [name]));

test("under Terminate a gang that never started is in breach and shows no time: it is not terminated", async () => {
  const cluster = await GangCluster.start({ nodes: 2, settings: { fullLossPolicy: "Terminate" } });
  await cluster.apply(workload1({ template: quick, scheduler: "default-scheduler" }));
  const { breach } = treeOf(cluster).find(({ name }) => name === "workload1-0-sg-x-0-pc-c") ?? {};
  expect(breach).toBe("ScheduledReplicasBelowMinAvailable");
  expect(left(cluster)).toEqual([]);
  await cluster.pass(60);
  expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toEqual([]);
  expect(left(cluster)).toEqual([]);
});

test("under Suppress the same gang, partly started, shows the time until it is terminated", async () => {
  const cluster = await GangCluster.start({ nodes: 1 });
  await cluster.apply(workload1({ template: quick, scheduler: "default-scheduler" }));
  expect(left(cluster)).toEqual(["workload1-0-pc-a"]);
});

test("cliques in breach whose group is suppressed show no time: nothing is terminated", async () => {
  const cluster = await GangCluster.start({ nodes: 10 });
  await cluster.apply(workload5gt({ template: quick }));
  for (const replica of [0, 1]) {
    const [pod] = cluster.pods(`workload5-gt-0-sg-x-${replica}-pc-c`);
    if (pod !== undefined) await cluster.losePod(pod);
    expect(left(cluster)).toEqual(replica === 0 ? ["workload5-gt-0-sg-x-0-pc-c"] : []);
  }
  await cluster.pass(60);
  expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toEqual([]);
});

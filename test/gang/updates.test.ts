/** Updates: which pods are replaced when, and that an update completes. */
import { describe, expect, test } from "vitest";
import { labels } from "../../src/model/gang/keys.ts";
import type { PodCliqueSet } from "../../src/model/gang/types.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { at, GangCluster, isReady } from "./gangCluster.ts";
import { workload1, workload2 } from "./workloads.ts";

const podPlace = builtin.Pod;
const cliqueOf = ({ metadata }: Pod): string => metadata.labels?.[labels.clique] ?? "";
const imageOf = ({ spec }: Pod): string => spec?.containers[0]?.image ?? "";

function setImage(image: string, ...cliques: string[]): (set: PodCliqueSet) => void {
  return ({ spec }) => {
    for (const { name, spec: own } of spec.template.cliques) {
      const [container] = own.podSpec.containers;
      if (container !== undefined && (cliques.length === 0 || cliques.includes(name))) container.image = image;
    }
  };
}

/** Watches an update: the most pods of a clique, and the most replicas of a group, that were missing at once. */
class Disruption {
  readonly cluster: GangCluster;
  readonly mostMissing = new Map<string, number>();
  readonly replicasAtOnce: number[] = [];
  private readonly sizes: ReadonlyMap<string, number>;
  deleted = 0;

  constructor(cluster: GangCluster) {
    this.cluster = cluster;
    const sizes = new Map<string, number>();
    for (const pod of cluster.pods()) sizes.set(cliqueOf(pod), (sizes.get(cliqueOf(pod)) ?? 0) + 1);
    this.sizes = sizes;
    cluster.api.core.store.onEvent(({ current, previous }) => {
      if (current.resource !== "/pods") return;
      const isGoing = current.deleted || current.object().metadata.deletionTimestamp !== undefined;
      const wasGoing = previous === undefined || previous.object().metadata.deletionTimestamp !== undefined;
      if (isGoing && !wasGoing) this.deleted++;
      this.look();
    });
  }

  private look(): void {
    const ready = new Map<string, number>();
    for (const pod of this.cluster.pods())
      if (isReady(pod)) ready.set(cliqueOf(pod), (ready.get(cliqueOf(pod)) ?? 0) + 1);
    const replicas = new Set<string>();
    for (const [name, size] of this.sizes) {
      const missing = size - (ready.get(name) ?? 0);
      this.mostMissing.set(name, Math.max(this.mostMissing.get(name) ?? 0, missing));
      const clique = this.cluster.clique(name);
      const group = clique?.metadata.labels?.[labels.groupReplica];
      if (missing > 0 && group !== undefined) replicas.add(group);
    }
    this.replicasAtOnce.push(replicas.size);
  }
}

async function ready(of: PodCliqueSet, nodes = 10): Promise<GangCluster> {
  const cluster = await GangCluster.start({ nodes });
  await cluster.apply(of);
  expect(cluster.readyPods()).toBe(cluster.pods().length);
  return cluster;
}

function expectDone(cluster: GangCluster, name: string, image: string, cliques: readonly string[]): void {
  const { status } = cluster.set(name);
  expect(status?.updateProgress?.updateEndedAt).toBeDefined();
  expect(status?.updateProgress?.currentlyUpdating).toBeUndefined();
  expect(status?.updatedReplicas).toBe(status?.replicas);
  for (const pod of cluster.pods()) {
    const isMeant = cliques.some((clique) => cliqueOf(pod).endsWith(`-${clique}`));
    expect(imageOf(pod), pod.metadata.name).toBe(isMeant ? image : "registry/app:1");
  }
  expect(cluster.readyPods()).toBe(cluster.pods().length);
}

describe("rolling", () => {
  test("a change of pc-a replaces one pod at a time, in one replica of the set at a time", async () => {
    const cluster = await ready(workload1({ replicas: 2 }), 22);
    const disruption = new Disruption(cluster);
    await cluster.change("workload1", setImage("registry/app:2", "pc-a"));
    await cluster.settle(200);
    expectDone(cluster, "workload1", "registry/app:2", ["pc-a"]);
    expect([...disruption.mostMissing].filter(([, missing]) => missing > 0).sort()).toEqual([
      ["workload1-0-pc-a", 1],
      ["workload1-1-pc-a", 1],
    ]);
    expect(disruption.deleted).toBe(4);
  });

  test("a change of pc-b replaces one replica of the group at a time", async () => {
    const cluster = await ready(workload1());
    const disruption = new Disruption(cluster);
    await cluster.change("workload1", setImage("registry/app:2", "pc-b"));
    await cluster.settle(200);
    expectDone(cluster, "workload1", "registry/app:2", ["pc-b"]);
    expect(Math.max(...disruption.replicasAtOnce)).toBe(1);
    expect(disruption.mostMissing.get("workload1-0-pc-a")).toBe(0);
    expect(disruption.deleted).toBe(8);
  });

  test("a change of all replaces one pod of each clique and one replica of each group at a time", async () => {
    const cluster = await ready(workload1());
    const disruption = new Disruption(cluster);
    await cluster.change("workload1", setImage("registry/app:2"));
    await cluster.settle(200);
    expectDone(cluster, "workload1", "registry/app:2", ["pc-a", "pc-b", "pc-c"]);
    expect(disruption.mostMissing.get("workload1-0-pc-a")).toBe(1);
    expect(Math.max(...disruption.replicasAtOnce)).toBe(1);
  });

  test("without room one pod is replaced and no other, until there is room", async () => {
    const cluster = await ready(workload1());
    for (const name of cluster.names("/nodes")) await cluster.cordon(name);
    const disruption = new Disruption(cluster);
    await cluster.change("workload1", setImage("registry/app:2", "pc-a"));
    await cluster.settle(100);
    await cluster.pass(300);
    expect(disruption.deleted).toBe(1);
    expect(cluster.pods("workload1-0-pc-a").filter(isReady)).toHaveLength(1);
    expect(
      cluster.clique("workload1-0-pc-a").status?.conditions?.find(({ type }) => type === "MinAvailableBreached"),
    ).toMatchObject({
      status: "Unknown",
      reason: "UpdateInProgress",
    });
    await cluster.uncordon(10);
    await cluster.settle(200);
    expectDone(cluster, "workload1", "registry/app:2", ["pc-a"]);
  });

  test("a replica that is added during the update is made from the new template", async () => {
    const cluster = await ready(workload1({ replicas: 2 }), 33);
    await cluster.change("workload1", (set) => {
      setImage("registry/app:2", "pc-a")(set);
      set.spec.replicas = 3;
    });
    await cluster.settle(300);
    expectDone(cluster, "workload1", "registry/app:2", ["pc-a"]);
    expect(cluster.pods()).toHaveLength(30);
  });

  test("a replica removed while or after it is updated does not block the update", async () => {
    for (const at of ["while", "after"]) {
      const cluster = await ready(workload1({ replicas: 2 }), 22);
      await cluster.change("workload1", setImage("registry/app:2", "pc-a"));
      if (at === "after") await cluster.settle(300);
      else await cluster.run(0.3);
      await cluster.scale("PodCliqueSet", "workload1", 1);
      await cluster.settle(300);
      expectDone(cluster, "workload1", "registry/app:2", ["pc-a"]);
      expect(cluster.pods()).toHaveLength(10);
    }
  });

  test("a group replica that is added during or before the update is on the new template, and made once", async () => {
    for (const when of ["during", "before"]) {
      const cluster = await ready(workload1(), 15);
      if (when === "before") await cluster.scale("PodCliqueScalingGroup", "workload1-0-sg-x", 3);
      const disruption = new Disruption(cluster);
      await cluster.change("workload1", setImage("registry/app:2", "pc-b", "pc-c"));
      if (when === "during") {
        await cluster.run(0.2);
        await cluster.scale("PodCliqueScalingGroup", "workload1-0-sg-x", 3);
      }
      await cluster.settle(300);
      expectDone(cluster, "workload1", "registry/app:2", ["pc-b", "pc-c"]);
      expect(cluster.pods()).toHaveLength(14);
      // Four pods for each replica of the older template, and none of those that were made since.
      expect(disruption.deleted, when).toBe(when === "before" ? 12 : 8);
    }
  });

  test("the update of a group that is scaled in during or before it completes", async () => {
    for (const when of ["during", "before"]) {
      const cluster = await ready(workload1(), 15);
      await cluster.scale("PodCliqueScalingGroup", "workload1-0-sg-x", 3);
      if (when === "before") await cluster.scale("PodCliqueScalingGroup", "workload1-0-sg-x", 2);
      await cluster.change("workload1", setImage("registry/app:2", "pc-b"));
      if (when === "during") {
        await cluster.run(0.2);
        await cluster.scale("PodCliqueScalingGroup", "workload1-0-sg-x", 2);
      }
      await cluster.settle(300);
      expectDone(cluster, "workload1", "registry/app:2", ["pc-b"]);
      expect(cluster.pods()).toHaveLength(10);
    }
  });

  test("a clique that is scaled out or in around its update ends on the new template", async () => {
    for (const [from, to] of [
      [2, 3],
      [3, 2],
    ] as const) {
      for (const when of ["during", "before"]) {
        const cluster = await ready(workload2(), 14);
        if (from === 3) await cluster.scale("PodClique", "workload2-0-pc-a", 3);
        if (when === "before") await cluster.scale("PodClique", "workload2-0-pc-a", to);
        const disruption = new Disruption(cluster);
        await cluster.change("workload2", setImage("registry/app:2", "pc-a"));
        if (when === "during") {
          await cluster.run(0.1);
          await cluster.scale("PodClique", "workload2-0-pc-a", to);
        }
        await cluster.settle(300);
        expectDone(cluster, "workload2", "registry/app:2", ["pc-a"]);
        expect(cluster.pods("workload2-0-pc-a")).toHaveLength(to);
        // Scaled out, only those of the older template go: as many as there were when it changed.
        if (to > from) expect(disruption.deleted, when).toBe(when === "before" ? to : from);
      }
    }
  });

  test("a second change during the first ends on the second", async () => {
    const cluster = await ready(workload1({ replicas: 2 }), 22);
    await cluster.change("workload1", setImage("registry/app:2"));
    await cluster.run(0.4);
    await cluster.change("workload1", setImage("registry/app:3"));
    await cluster.settle(400);
    expectDone(cluster, "workload1", "registry/app:3", ["pc-a", "pc-b", "pc-c"]);
  });

  test("a change that is reverted ends with the first template", async () => {
    const cluster = await ready(workload1());
    await cluster.change("workload1", setImage("registry/app:2"));
    await cluster.run(0.2);
    await cluster.change("workload1", setImage("registry/app:1"));
    await cluster.settle(400);
    expectDone(cluster, "workload1", "registry/app:1", ["pc-a", "pc-b", "pc-c"]);
  });
});

describe("on delete", () => {
  const onDelete = { spec: { updateStrategy: { type: "OnDelete" } } };

  test("nothing is deleted, and the update counts as complete", async () => {
    const cluster = await ready(workload1({ ...onDelete, replicas: 2 }), 22);
    const before = cluster.uids();
    await cluster.change("workload1", setImage("registry/app:2"));
    await cluster.settle(100);
    expect(cluster.uids()).toEqual(before);
    expect(cluster.set("workload1").status?.updateProgress?.updateEndedAt).toBeDefined();
    expect(cluster.clique("workload1-0-pc-a").status).toMatchObject({ updatedReplicas: 0, replicas: 2 });
  });

  test("a deleted pod comes back on the new template, and the counts show it", async () => {
    const cluster = await ready(workload1(onDelete));
    await cluster.change("workload1", setImage("registry/app:2"));
    await cluster.settle(100);
    for (const clique of ["workload1-0-pc-a", "workload1-0-sg-x-1-pc-c"]) {
      const [victim] = cluster.pods(clique) as [Pod];
      await cluster.must(cluster.kube.delete(at(podPlace, victim.metadata.name), { gracePeriodSeconds: 0 }));
      await cluster.settle(100);
      expect(
        cluster
          .pods(clique)
          .map(imageOf)
          .filter((image) => image === "registry/app:2"),
      ).toHaveLength(1);
      expect(cluster.clique(clique).status?.updatedReplicas).toBe(1);
    }
    expect(cluster.readyPods()).toBe(10);
    for (const { metadata } of cluster.pods("workload1-0-pc-a").filter((pod) => imageOf(pod) !== "registry/app:2")) {
      await cluster.deletePod(metadata.name);
    }
    await cluster.settle(100);
    const { status, metadata } = cluster.clique("workload1-0-pc-a");
    expect(status?.currentPodTemplateHash).toBe(metadata.labels?.[labels.templateHash]);
  });

  test("scaling in takes the pod of the old template", async () => {
    const cluster = await ready(workload2(onDelete), 11);
    await cluster.change("workload2", setImage("registry/app:2", "pc-a"));
    await cluster.settle(100);
    const [victim] = cluster.pods("workload2-0-pc-a") as [Pod];
    await cluster.deletePod(victim.metadata.name);
    await cluster.settle(100);
    await cluster.scale("PodClique", "workload2-0-pc-a", 1);
    expect(cluster.pods("workload2-0-pc-a").map(imageOf)).toEqual(["registry/app:2"]);
  });

  test("the new template excludes a host, and only the deleted pod moves", async () => {
    const cluster = await ready(workload1(onDelete), 11);
    const [victim] = cluster.pods("workload1-0-pc-a") as [Pod];
    const others = cluster.uids().filter((uid) => uid !== victim.metadata.uid);
    await cluster.change("workload1", ({ spec }) => {
      const [own] = spec.template.cliques;
      if (own === undefined) return;
      const matchExpressions = [
        { key: "kubernetes.io/hostname", operator: "NotIn", values: [victim.spec?.nodeName ?? ""] },
      ];
      own.spec.podSpec.affinity = {
        nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } },
      };
    });
    await cluster.cordon(victim.spec?.nodeName ?? "");
    await cluster.deletePod(victim.metadata.name);
    await cluster.settle(100);
    expect(cluster.uids().filter((uid) => others.includes(uid))).toEqual(others);
    expect(cluster.readyPods()).toBe(10);
    expect(cluster.pods().some(({ spec }) => spec?.nodeName === victim.spec?.nodeName)).toBe(false);
  });

  test("each change follows the strategy that is then in force", async () => {
    const cluster = await ready(workload1(onDelete));
    const first = cluster.uids();
    await cluster.change("workload1", setImage("registry/app:2", "pc-a"));
    await cluster.settle(100);
    expect(cluster.uids()).toEqual(first);
    await cluster.change("workload1", (set) => {
      set.spec.updateStrategy = { type: "RollingRecreate" };
      setImage("registry/app:3", "pc-a")(set);
    });
    await cluster.settle(300);
    expect(cluster.pods("workload1-0-pc-a").map(imageOf)).toEqual(["registry/app:3", "registry/app:3"]);
    const second = cluster.uids();
    await cluster.change("workload1", (set) => {
      set.spec.updateStrategy = { type: "OnDelete" };
      setImage("registry/app:4", "pc-a")(set);
    });
    await cluster.settle(100);
    expect(cluster.uids()).toEqual(second);
  });
});

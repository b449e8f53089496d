/** Gang termination under both policies, with the clock moved by the test. */
import { describe, expect, test } from "vitest";
import type { FullLossPolicy } from "../../src/model/gang/settings.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../src/model/gang/types.ts";
import { type Refusal, refused } from "../../src/model/outcome.ts";
import { conditionOf, GangCluster } from "./gangCluster.ts";
import { quick, workload1, workload2, workload5gt } from "./workloads.ts";

async function running(workload: PodCliqueSet, policy: FullLossPolicy = "Suppress"): Promise<GangCluster> {
  const cluster = await GangCluster.start({ nodes: 10, settings: { fullLossPolicy: policy } });
  await cluster.apply(workload);
  expect(cluster.readyPods()).toBe(10);
  return cluster;
}

async function lose(cluster: GangCluster, clique: string, count: number): Promise<void> {
  const pods = cluster.pods(clique).filter(({ spec }) => (spec?.nodeName ?? "") !== "");
  for (const pod of pods.slice(0, count)) await cluster.losePod(pod);
}

const breach = (cluster: GangCluster, clique: string) => conditionOf(cluster.clique(clique), "MinAvailableBreached");

describe.each<FullLossPolicy>(["Suppress", "Terminate"])("%s", (policy) => {
  test("one of two pods below the minimum terminates the whole replica after the delay, not before", async () => {
    const cluster = await running(workload1({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload1-0-pc-a", 1);
    expect(breach(cluster, "workload1-0-pc-a")).toMatchObject({
      status: "True",
      reason: "ScheduledReplicasBelowMinAvailable",
      message: "Scheduled replicas (1) below MinAvailable (2)",
    });
    await cluster.pass(5);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
    await cluster.pass(20);
    const after = cluster.uids();
    expect({ pods: after.length, old: after.filter((uid) => before.includes(uid)) }).toEqual({ pods: 10, old: [] });
    await cluster.uncordon(1);
    expect(cluster.readyPods()).toBe(10);
    expect(cluster.set("workload1").status?.gangTerminations).toBeUndefined();
    expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toHaveLength(1);
    await cluster.pass(60);
    expect(cluster.uids()).toEqual(after);
  });

  test("a group below its minimum terminates the whole replica", async () => {
    const cluster = await running(workload1({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload1-0-sg-x-0-pc-c", 1);
    await cluster.pass(25);
    const after = cluster.uids();
    expect({ pods: after.length, old: after.filter((uid) => before.includes(uid)) }).toEqual({ pods: 10, old: [] });
    await cluster.uncordon(1);
    expect(cluster.readyPods()).toBe(10);
  });

  test("a lost pod above the minimum of a scaled gang terminates nothing", async () => {
    const cluster = await running(workload2({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload2-0-sg-x-1-pc-c", 1);
    await cluster.pass(25);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
    await cluster.uncordon(1);
    expect(cluster.readyPods()).toBe(10);
  });

  test("a recovery within the delay cancels the termination", async () => {
    const cluster = await running(workload1({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload1-0-pc-a", 1);
    await cluster.pass(5);
    await cluster.uncordon(1);
    expect(breach(cluster, "workload1-0-pc-a")?.status).toBe("False");
    await cluster.pass(60);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
    expect(cluster.readyPods()).toBe(10);
  });

  test("an operator that was down terminates the gang when the recorded time is over", async () => {
    const cluster = await running(workload1({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload1-0-pc-a", 1);
    await cluster.stopOperator();
    await cluster.api.clock.advance(6_000);
    await cluster.startOperator();
    await cluster.settle();
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
    await cluster.pass(8);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(0);
  });

  test("a recovery that is not recorded, because the operator was down, is noticed before anything is terminated", async () => {
    const cluster = await running(workload1({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload1-0-pc-a", 1);
    await lose(cluster, "workload1-0-sg-x-0-pc-c", 1);
    await cluster.stopOperator();
    await cluster.uncordon(2);
    await cluster.api.clock.advance(60_000);
    expect([cluster.readyPods(), breach(cluster, "workload1-0-pc-a")?.status]).toEqual([10, "True"]);
    await cluster.startOperator();
    await cluster.settle();
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(8);
    expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toEqual([]);
  });

  test("a group replica below its minimum is terminated alone while the others are enough", async () => {
    const cluster = await running(workload5gt({ template: quick }), policy);
    const before = cluster.uids();
    const zero = [...cluster.uids("workload5-gt-0-sg-x-0-pc-b"), ...cluster.uids("workload5-gt-0-sg-x-0-pc-c")];
    await lose(cluster, "workload5-gt-0-sg-x-0-pc-c", 1);
    await cluster.pass(5);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
    await cluster.pass(20);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toEqual(before.filter((uid) => !zero.includes(uid)));
    expect(cluster.events("PodCliqueScalingGroupReplicaDeleteSuccessful")).toHaveLength(1);
    await cluster.uncordon(1);
    expect(cluster.readyPods()).toBe(10);
  });

  test("a recovery of a group replica while the operator was down is noticed before it is terminated", async () => {
    const cluster = await running(workload5gt({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload5-gt-0-sg-x-0-pc-c", 1);
    await cluster.stopOperator();
    await cluster.uncordon(1);
    await cluster.api.clock.advance(60_000);
    expect(breach(cluster, "workload5-gt-0-sg-x-0-pc-c")?.status).toBe("True");
    await cluster.startOperator();
    await cluster.settle();
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
  });

  test("every replica of a group below its minimum counts as none scheduled: the policy decides", async () => {
    const cluster = await running(workload5gt({ template: quick }), policy);
    const before = cluster.uids();
    await lose(cluster, "workload5-gt-0-sg-x-0-pc-c", 1);
    await lose(cluster, "workload5-gt-0-sg-x-1-pc-c", 1);
    expect(conditionOf(cluster.group("workload5-gt-0-sg-x"), "MinAvailableBreached")).toMatchObject(
      policy === "Suppress"
        ? { status: "False", reason: "InsufficientScheduledPodCliqueScalingGroupReplicas" }
        : { status: "True", reason: "InsufficientAvailablePodCliqueScalingGroupReplicas" },
    );
    await cluster.pass(60);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(policy === "Suppress" ? 8 : 0);
    const told = cluster
      .events("AllScheduledReplicasLost")
      .map(({ regarding }) => `${regarding.kind} ${regarding.name}`);
    expect(told).toContain("PodCliqueScalingGroup workload5-gt-0-sg-x");
  });
});

describe("the Event of a termination is written once", () => {
  /** Whether a record is there whose cliques are all gone: the next status write removes it. */
  const isOver = (cluster: GangCluster, { status }: Pick<PodCliqueSet | PodCliqueScalingGroup, "status">): boolean => {
    const uids = new Set(cluster.all("grove.io/podcliques").map(({ metadata }) => metadata.uid));
    return status?.gangTerminations?.every(({ podCliques }) => podCliques.every(({ uid }) => !uids.has(uid))) ?? false;
  };

  test.each<{ name: string; when: "before" | "after"; refusal: Refusal }>([
    { name: "is refused with a conflict", when: "before", refusal: refused("Conflict", "the object has changed") },
    { name: "is refused by a busy server", when: "before", refusal: refused("Unavailable", "busy") },
    { name: "gets no answer and did not happen", when: "before", refusal: refused("Unknown", "timed out") },
    { name: "gets no answer and did happen", when: "after", refusal: refused("Unknown", "timed out") },
  ])("when the status write that ends it $name", async ({ when, refusal }) => {
    const cluster = await running(workload1({ template: quick }));
    await lose(cluster, "workload1-0-pc-a", 1);
    let wasOver = false;
    let faults = 0;
    cluster.faults.before = (verb, what) => {
      if (what !== "podcliquesets workload1" || verb !== "update" || faults === 2) return undefined;
      wasOver = isOver(cluster, cluster.set("workload1"));
      if (!wasOver || when === "after") return undefined;
      faults++;
      return refusal;
    };
    cluster.faults.after = (verb, what) => {
      if (what !== "podcliquesets workload1" || verb !== "update" || !wasOver || when === "before") return undefined;
      wasOver = false;
      faults = 2;
      return refusal;
    };
    await cluster.pass(60);
    expect(faults).toBe(2);
    expect(cluster.set("workload1").status?.gangTerminations).toBeUndefined();
    expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toHaveLength(1);
  });

  test("when the operator stops before and after that write", async () => {
    const cluster = await running(workload1({ template: quick }));
    await lose(cluster, "workload1-0-pc-a", 1);
    cluster.faults.before = (verb, what) =>
      what === "podcliquesets workload1" && verb === "update" && isOver(cluster, cluster.set("workload1"))
        ? refused("Unavailable", "busy")
        : undefined;
    await cluster.pass(25);
    expect(cluster.set("workload1").status?.gangTerminations).toHaveLength(1);
    for (const isBusy of [true, false, false]) {
      await cluster.stopOperator();
      if (!isBusy) delete cluster.faults.before;
      await cluster.startOperator();
      await cluster.pass(25);
      expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toHaveLength(1);
    }
    expect(cluster.set("workload1").status?.gangTerminations).toBeUndefined();
  });

  test("when the write of the Event is refused at first", async () => {
    const cluster = await running(workload1({ template: quick }));
    await lose(cluster, "workload1-0-pc-a", 1);
    let refusals = 0;
    cluster.faults.before = (verb, what) => {
      if (verb !== "create" || !what.startsWith("events workload1.mu-") || refusals === 3) return undefined;
      refusals++;
      return refused("Unavailable", "busy");
    };
    await cluster.pass(60);
    expect(refusals).toBe(3);
    expect(cluster.set("workload1").status?.gangTerminations).toBeUndefined();
    expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toHaveLength(1);
  });

  test("when it is the termination of a group replica, and the write is refused with a conflict", async () => {
    const cluster = await running(workload5gt({ template: quick }));
    await lose(cluster, "workload5-gt-0-sg-x-0-pc-c", 1);
    let refusals = 0;
    cluster.faults.before = (verb, what) => {
      if (what !== "podcliquescalinggroups workload5-gt-0-sg-x" || verb !== "update" || refusals === 2)
        return undefined;
      if (!isOver(cluster, cluster.group("workload5-gt-0-sg-x"))) return undefined;
      refusals++;
      return refused("Conflict", "the object has changed");
    };
    await cluster.pass(60);
    expect(refusals).toBe(2);
    expect(cluster.group("workload5-gt-0-sg-x").status?.gangTerminations).toBeUndefined();
    expect(cluster.events("PodCliqueScalingGroupReplicaDeleteSuccessful")).toHaveLength(1);
  });

  test("and the second termination of the same replica has one of its own", async () => {
    const cluster = await running(workload1({ template: quick }));
    for (const terminations of [1, 2]) {
      await lose(cluster, "workload1-0-pc-a", 1);
      await cluster.pass(25);
      await cluster.uncordon(1);
      expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toHaveLength(terminations);
    }
  });
});

describe("everything lost", () => {
  test("under Terminate: the loss of the last scheduled pod of a clique terminates the replica", async () => {
    const cluster = await running(workload2({ template: quick }), "Terminate");
    const before = cluster.uids();
    await lose(cluster, "workload2-0-pc-a", 1);
    await cluster.pass(25);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(9);
    await lose(cluster, "workload2-0-pc-a", 1);
    await cluster.pass(25);
    const after = cluster.uids();
    expect({ pods: after.length, old: after.filter((uid) => before.includes(uid)) }).toEqual({ pods: 10, old: [] });
    await cluster.uncordon(2);
    expect(cluster.readyPods()).toBe(10);
  });

  test("under Suppress: nothing is terminated, the condition has the reason, and one Event is written, also across a restart", async () => {
    const cluster = await running(workload2({ template: quick }));
    const before = cluster.uids();
    await lose(cluster, "workload2-0-pc-a", 2);
    expect(breach(cluster, "workload2-0-pc-a")).toMatchObject({
      status: "False",
      reason: "InsufficientScheduledPods",
      message: expect.stringContaining("suppressed"),
    });
    await cluster.stopOperator();
    await cluster.startOperator();
    await cluster.pass(1_800);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(8);
    const events = cluster.events("AllScheduledReplicasLost");
    expect(events.map(({ regarding, type }) => [regarding.kind, regarding.name, type])).toEqual([
      ["PodClique", "workload2-0-pc-a", "Warning"],
    ]);
    expect(events[0]?.note).toContain("suppressed");
    await cluster.uncordon(2);
    expect(cluster.readyPods()).toBe(10);
  });

  test("under Terminate, a group replica is terminated alone while the others are enough, then all are", async () => {
    const cluster = await running(workload2({ template: quick }), "Terminate");
    const [a, zero, one] = ["workload2-0-pc-a", "workload2-0-sg-x-0", "workload2-0-sg-x-1"];
    const uidsOf = (prefix: string) => [...cluster.uids(`${prefix}-pc-b`), ...cluster.uids(`${prefix}-pc-c`)];
    const [aUids, zeroUids, oneUids] = [cluster.uids(a), uidsOf(zero), uidsOf(one)];
    await lose(cluster, `${zero}-pc-c`, 1);
    await cluster.pass(25);
    expect(uidsOf(zero).filter((uid) => zeroUids.includes(uid))).toHaveLength(3);
    await lose(cluster, `${zero}-pc-c`, 2);
    await cluster.pass(25);
    expect(uidsOf(zero).filter((uid) => zeroUids.includes(uid))).toEqual([]);
    expect(uidsOf(one)).toEqual(oneUids);
    expect(cluster.uids(a)).toEqual(aUids);
    await lose(cluster, `${one}-pc-c`, 1);
    await cluster.pass(25);
    expect(cluster.uids(a)).toEqual(aUids);
    await lose(cluster, `${one}-pc-c`, 3);
    await cluster.pass(60);
    expect(cluster.uids(a).filter((uid) => aUids.includes(uid))).toEqual([]);
    await cluster.uncordon(10);
    expect(cluster.readyPods()).toBe(10);
  });

  test("under Suppress: nothing ends", async () => {
    const cluster = await running(workload2({ template: quick }));
    const before = cluster.uids();
    await lose(cluster, "workload2-0-sg-x-0-pc-c", 3);
    await cluster.pass(60);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(7);
    expect(cluster.events("AllScheduledReplicasLost").map(({ regarding }) => regarding.name)).toEqual([
      "workload2-0-sg-x-0-pc-c",
    ]);
    await cluster.uncordon(3);
    expect(cluster.readyPods()).toBe(10);
  });

  test.each<FullLossPolicy>(["Suppress", "Terminate"])(
    "under %s the Event of a clique whose group is going to be terminated says so, and the replica is terminated",
    async (policy) => {
      const cluster = await running(workload1({ template: quick }), policy);
      await lose(cluster, "workload1-0-sg-x-0-pc-c", 3);
      const [event] = cluster
        .events("AllScheduledReplicasLost")
        .filter(({ regarding }) => regarding.name === "workload1-0-sg-x-0-pc-c");
      expect(event?.note).toContain("Gang termination follows after the termination delay");
      expect(event?.note).not.toContain("suppressed");
      await cluster.pass(25);
      expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toHaveLength(1);
    },
  );

  test("under Terminate: only the group replica that lost all pods is terminated", async () => {
    const cluster = await running(workload5gt({ template: quick }), "Terminate");
    const zero = ["workload5-gt-0-sg-x-0-pc-b", "workload5-gt-0-sg-x-0-pc-c"];
    const before = cluster.uids();
    const zeroUids = zero.flatMap((name) => cluster.uids(name));
    await lose(cluster, "workload5-gt-0-sg-x-0-pc-c", 3);
    await cluster.pass(25);
    const kept = cluster.uids().filter((uid) => before.includes(uid));
    expect(kept).toHaveLength(6);
    expect(kept.filter((uid) => zeroUids.includes(uid))).toEqual([]);
    await cluster.uncordon(3);
    expect(cluster.readyPods()).toBe(10);
    expect(cluster.group("workload5-gt-0-sg-x").status?.gangTerminations).toBeUndefined();
  });

  test("under Terminate a gang that never started is left alone", async () => {
    const cluster = await GangCluster.start({ nodes: 2, settings: { fullLossPolicy: "Terminate" } });
    await cluster.apply(workload1({ template: quick }));
    const before = cluster.uids();
    expect(breach(cluster, "workload1-0-pc-a")?.status).toBe("True");
    await cluster.pass(3_600);
    expect(cluster.uids()).toEqual(before);
    expect(cluster.events("AllScheduledReplicasLost")).toEqual([]);
  });
});

describe.each<FullLossPolicy>(["Suppress", "Terminate"])("the default scheduler under %s", (policy) => {
  test("a breach that is shorter than the delay terminates nothing", async () => {
    const cluster = await GangCluster.start({ nodes: 1, settings: { fullLossPolicy: policy } });
    await cluster.apply(workload1({ template: quick, scheduler: "default-scheduler" }));
    const before = cluster.uids();
    // Pods get their nodes one by one, so a clique of two is in breach with its first.
    const inBand = (): string[] =>
      cluster
        .all<PodClique>("grove.io/podcliques")
        .filter((clique) => (clique.status?.scheduledReplicas ?? 0) > 0)
        .filter(
          (clique) => conditionOf(clique, "MinAvailableBreached")?.reason === "ScheduledReplicasBelowMinAvailable",
        )
        .map(({ metadata }) => metadata.name);
    expect({ scheduled: cluster.scheduledPods(), inBand: inBand() }).toEqual({
      scheduled: 1,
      inBand: ["workload1-0-pc-a"],
    });
    await cluster.pass(4);
    for (let index = 1; index < 4; index++) await cluster.addNode(index);
    await cluster.settle();
    expect({ scheduled: cluster.scheduledPods(), inBand: inBand() }).toEqual({
      scheduled: 4,
      inBand: ["workload1-0-sg-x-0-pc-c"],
    });
    await cluster.pass(4);
    for (let index = 4; index < 10; index++) await cluster.addNode(index);
    await cluster.settle();
    expect(inBand()).toEqual([]);
    await cluster.pass(120);
    expect(cluster.uids()).toEqual(before);
    expect(cluster.readyPods()).toBe(10);
    expect(cluster.events("PodCliqueSetReplicaDeleteSuccessful")).toEqual([]);
  });

  test("a breach that is longer than the delay terminates the replica", async () => {
    const cluster = await GangCluster.start({ nodes: 10, settings: { fullLossPolicy: policy } });
    await cluster.apply(workload1({ template: quick, scheduler: "default-scheduler" }));
    expect(cluster.readyPods()).toBe(10);
    const before = cluster.uids();
    await lose(cluster, "workload1-0-pc-a", 1);
    await cluster.pass(25);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toEqual([]);
  });
});

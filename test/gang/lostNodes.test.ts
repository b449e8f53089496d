/**
 * Gangs whose nodes are lost as in a real cluster: the kubelet falls silent, the node becomes unreachable, its pods are
 * evicted and stay Terminating because no kubelet completes the deletion. When every node is silent nothing is evicted,
 * and only the state of the nodes shows the loss.
 */
import { describe, expect, test } from "vitest";
import type { FullLossPolicy } from "../../src/model/gang/settings.ts";
import type { PodCliqueSet } from "../../src/model/gang/types.ts";
import type { Node } from "../../src/model/kubernetes.generated.ts";
import { conditionOf, GangCluster, nodeName } from "./gangCluster.ts";
import { clique, pcs } from "./setBuilder.ts";

const delayS = 30;
/** The node's grace (40 s, looked at every 5 s) and the toleration. */
const lostWithinS = 52;

/** Three pods with a minimum of three, and their toleration of a silent node. */
function trio(tolerationSeconds: number | "for ever" = 2): PodCliqueSet {
  const tolerations = ["unreachable", "not-ready"].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
    ...(tolerationSeconds !== "for ever" && { tolerationSeconds }),
  }));
  const pod = {
    schedulerName: "default-scheduler",
    terminationGracePeriodSeconds: 1,
    tolerations,
    containers: [{ name: "main", image: "registry/app:1" }],
  };
  return pcs("trio", [clique({ name: "w", replicas: 3, min: 3, pod })], {
    template: { terminationDelay: `${delayS}s` },
  });
}

async function running(set: PodCliqueSet, policy: FullLossPolicy, nodes = 3): Promise<GangCluster> {
  const cluster = await GangCluster.start({ nodes, nodeLives: true, settings: { fullLossPolicy: policy } });
  await cluster.apply(set);
  expect(cluster.readyPods()).toBe(3);
  return cluster;
}

const breach = (cluster: GangCluster) => conditionOf(cluster.clique("trio-0-w"), "MinAvailableBreached");
const counts = (cluster: GangCluster) => {
  const { replicas, scheduledReplicas, readyReplicas } = cluster.clique("trio-0-w").status ?? {};
  return { replicas, scheduledReplicas, readyReplicas };
};
const ended = (cluster: GangCluster) => cluster.events("PodCliqueSetReplicaDeleteSuccessful").length;
const losses = (cluster: GangCluster) => cluster.events("AllScheduledReplicasLost");
const nodeOf = (cluster: GangCluster, at: number) => cluster.pods("trio-0-w")[at]?.spec?.nodeName ?? "";
const allNodes = [0, 1, 2].map(nodeName);

/** Lets time pass in steps, with the scheduler running. */
async function wait(cluster: GangCluster, seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= 1) {
    await cluster.run(1);
    await cluster.schedule();
  }
  await cluster.settle();
}

describe.each<FullLossPolicy>(["Suppress", "Terminate"])("%s", (policy) => {
  test("one silent node: its pod no longer counts, the breach is reported, the gang is terminated after the delay", async () => {
    const cluster = await running(trio(), policy);
    const uid = cluster.clique("trio-0-w").metadata.uid;
    const node = nodeOf(cluster, 1);
    await cluster.silence(node);
    await wait(cluster, lostWithinS);
    // As in Kubernetes: evicted, and Terminating for ever.
    const left = cluster.pods("trio-0-w").filter(({ spec }) => spec?.nodeName === node);
    expect(left.map(({ metadata }) => metadata.deletionTimestamp !== undefined)).toEqual([true]);
    expect(counts(cluster)).toEqual({ replicas: 3, scheduledReplicas: 2, readyReplicas: 2 });
    expect(breach(cluster)).toMatchObject({ status: "True", reason: "ScheduledReplicasBelowMinAvailable" });
    expect(ended(cluster)).toBe(0);
    await wait(cluster, delayS);
    expect(ended(cluster)).toBe(1);
    expect(cluster.clique("trio-0-w").metadata.uid).not.toBe(uid);
    expect(losses(cluster)).toEqual([]);
  });

  test("all nodes silent: nothing is evicted, and the loss is announced once, also by an operator that was killed", async () => {
    const cluster = await running(trio(), policy);
    const before = cluster.uids();
    await cluster.silence(...allNodes);
    await wait(cluster, lostWithinS);
    expect(cluster.uids()).toEqual(before);
    expect(counts(cluster)).toEqual({ replicas: 3, scheduledReplicas: 0, readyReplicas: 0 });
    expect(losses(cluster)).toHaveLength(1);
    await cluster.stopOperator();
    await cluster.startOperator();
    await wait(cluster, 10 * delayS);
    expect(losses(cluster)).toHaveLength(1);
    expect(ended(cluster)).toBe(policy === "Suppress" ? 0 : 1);
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(policy === "Suppress" ? 3 : 0);
  });

  test("all nodes silent while the operator is away: the next one announces the loss once", async () => {
    const cluster = await running(trio(), policy);
    await cluster.stopOperator();
    await cluster.silence(...allNodes);
    await cluster.run(lostWithinS);
    await cluster.startOperator();
    await wait(cluster, 10 * delayS);
    expect(losses(cluster)).toHaveLength(1);
    expect(ended(cluster)).toBe(policy === "Suppress" ? 0 : 1);
  });

  test("nodes that return within the delay terminate nothing", async () => {
    const cluster = await running(trio(), policy);
    const before = cluster.uids();
    await cluster.silence(...allNodes);
    await wait(cluster, lostWithinS);
    await cluster.restoreNodes();
    await wait(cluster, 20 + delayS);
    expect(cluster.uids()).toEqual(before);
    expect(counts(cluster)).toEqual({ replicas: 3, scheduledReplicas: 3, readyReplicas: 3 });
    expect(breach(cluster)?.status).toBe("False");
    expect([ended(cluster), losses(cluster).length]).toEqual([0, 1]);
  });

  test("a node without heartbeats is not a loss before the pod's toleration expires", async () => {
    const cluster = await running(trio(300), policy);
    await cluster.silence(nodeOf(cluster, 0));
    await wait(cluster, lostWithinS + 200);
    expect(counts(cluster).scheduledReplicas).toBe(3);
    await wait(cluster, 100);
    expect(counts(cluster).scheduledReplicas).toBe(2);
    expect(breach(cluster)?.status).toBe("True");
  });

  test("a pod that tolerates a silent node for ever is not lost", async () => {
    const cluster = await running(trio("for ever"), policy);
    expect(cluster.pods("trio-0-w")[0]?.spec?.tolerations?.[0]?.tolerationSeconds).toBeUndefined();
    await cluster.silence(...allNodes);
    await wait(cluster, 600);
    expect(counts(cluster).scheduledReplicas).toBe(3);
    expect([ended(cluster), losses(cluster).length]).toEqual([0, 0]);
  });

  test("a node that is deleted is a loss at once", async () => {
    const cluster = await running(trio(300), policy);
    const node = nodeOf(cluster, 2);
    await cluster.silence(node);
    await cluster.deleteNode(node);
    await wait(cluster, 2);
    expect(counts(cluster)).toMatchObject({ scheduledReplicas: 2 });
    expect(breach(cluster)?.status).toBe("True");
  });

  test("with a spare node the pod is replaced within the delay, and nothing is terminated", async () => {
    const cluster = await running(trio(), policy, 4);
    const before = cluster.uids();
    await cluster.silence(nodeOf(cluster, 0));
    await wait(cluster, lostWithinS + 2 * delayS);
    expect(counts(cluster)).toEqual({ replicas: 3, scheduledReplicas: 3, readyReplicas: 3 });
    expect(cluster.uids().filter((uid) => before.includes(uid))).toHaveLength(2);
    expect([ended(cluster), breach(cluster)?.status]).toEqual([0, "False"]);
  });

  test("an ordinary rolling update is neither a breach nor a loss", async () => {
    const one = pcs("trio", [clique({ name: "w", replicas: 1, min: 1, pod: { schedulerName: "default-scheduler" } })], {
      template: { terminationDelay: "1s" },
    });
    const cluster = await GangCluster.start({ nodes: 2, nodeLives: true, settings: { fullLossPolicy: policy } });
    await cluster.apply(one);
    await cluster.change("trio", (set) => {
      const [container] = set.spec.template.cliques[0]?.spec.podSpec.containers ?? [];
      if (container !== undefined) container.image = "registry/app:2";
    });
    await wait(cluster, 90);
    expect(counts(cluster)).toEqual({ replicas: 1, scheduledReplicas: 1, readyReplicas: 1 });
    expect(cluster.clique("trio-0-w").status?.updateProgress?.updateEndedAt).toBeDefined();
    expect([ended(cluster), losses(cluster).length]).toEqual([0, 0]);
  });
});

test("nodes become unreachable and tainted by the node lifecycle controller", async () => {
  const cluster = await running(trio(), "Suppress");
  const node = nodeOf(cluster, 0);
  await cluster.silence(node);
  await wait(cluster, lostWithinS);
  const { status, spec } = cluster.all<Node>("/nodes").find(({ metadata }) => metadata.name === node) as Node;
  expect(status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("Unknown");
  expect(spec?.taints?.map(({ key, effect }) => `${key}:${effect}`)).toContain(
    "node.kubernetes.io/unreachable:NoExecute",
  );
});

/** A group of replicas with one pod each, all of which are needed. */
function groupOf(replicas: number): PodCliqueSet {
  const tolerations = [
    { key: "node.kubernetes.io/unreachable", operator: "Exists", effect: "NoExecute", tolerationSeconds: 2 },
  ];
  const pod = { schedulerName: "default-scheduler", terminationGracePeriodSeconds: 1, tolerations };
  return pcs("set", [clique({ name: "m", replicas: 1, min: 1, pod })], {
    groups: [{ name: "g", cliqueNames: ["m"], replicas, minAvailable: replicas }],
    template: { terminationDelay: `${delayS}s` },
  });
}

async function groupRunning(replicas: number, policy: FullLossPolicy): Promise<GangCluster> {
  const cluster = await GangCluster.start({ nodes: replicas, nodeLives: true, settings: { fullLossPolicy: policy } });
  await cluster.apply(groupOf(replicas));
  expect(cluster.group("set-0-g").status).toMatchObject({ scheduledReplicas: replicas, availableReplicas: replicas });
  return cluster;
}

const lossTexts = (cluster: GangCluster) => losses(cluster).map(({ regarding, note }) => [regarding.name, note]);

describe.each<FullLossPolicy>(["Suppress", "Terminate"])("a group under %s", (policy) => {
  test("that has lost one replica is in breach and ends; its own end is not announced as a loss", async () => {
    const cluster = await groupRunning(3, policy);
    await cluster.silence(cluster.pods("set-0-g-1-m")[0]?.spec?.nodeName ?? "");
    await wait(cluster, lostWithinS);
    expect(cluster.group("set-0-g").status).toMatchObject({ scheduledReplicas: 2, availableReplicas: 2 });
    expect(conditionOf(cluster.group("set-0-g"), "MinAvailableBreached")).toMatchObject({
      status: "True",
      reason: "ScheduledReplicasBelowMinAvailable",
    });
    // The clique has lost all that it had, and its gang is on course to be ended.
    expect(lossTexts(cluster)).toEqual([["set-0-g-1-m", expect.stringContaining("Gang termination follows")]]);
    await wait(cluster, delayS + 5);
    expect(ended(cluster)).toBe(1);
    expect(lossTexts(cluster).map(([name]) => name)).toEqual(["set-0-g-1-m"]);
  });

  test("that has lost all its nodes announces it once, for itself and for each clique", async () => {
    const cluster = await groupRunning(3, policy);
    await cluster.silence(...allNodes);
    await wait(cluster, lostWithinS);
    expect(cluster.group("set-0-g").status).toMatchObject({ scheduledReplicas: 0 });
    await wait(cluster, 2 * delayS);
    expect(ended(cluster)).toBe(policy === "Suppress" ? 0 : 1);
    const names = lossTexts(cluster).map(([name]) => name);
    expect(names.sort()).toEqual(["set-0-g", "set-0-g-0-m", "set-0-g-1-m", "set-0-g-2-m"]);
    // A text about a partial loss stays true when the rest is lost too.
    for (const [, note = ""] of policy === "Suppress" ? lossTexts(cluster) : [])
      expect(note).toMatch(/is suppressed|unless the gang recovers or loses all its replicas/);
  });
});

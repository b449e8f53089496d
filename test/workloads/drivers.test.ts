/** The workload controllers on the embedded server: what users of a cluster rely on. */
import { describe, expect, test } from "vitest";
import type * as k from "../../src/model/kubernetes.generated.ts";
import { LiveCluster, named, podSpec, selector, template } from "./liveCluster.ts";

const deployment = (spec: object = {}) =>
  named("apps/v1", "Deployment", { replicas: 3, selector, template: template(), ...spec });

async function quiet(cluster: LiveCluster, ms = 60_000): Promise<void> {
  // Only the heartbeats of nodes are written.
  const before = cluster.all<k.Pod>("/pods").map(({ metadata }) => metadata.resourceVersion);
  await cluster.pass(ms);
  expect(cluster.all<k.Pod>("/pods").map(({ metadata }) => metadata.resourceVersion)).toEqual(before);
  expect(cluster.log.errors).toEqual([]);
}

describe("Deployments", () => {
  test("twenty pods are Running within seconds, have Events, and then nothing is written", async () => {
    const cluster = await LiveCluster.start();
    await cluster.test.create("apps/deployments", deployment({ replicas: 20 }));
    await cluster.pass(3_000);
    expect(cluster.get<k.Deployment>("apps/deployments", "default/x").status).toMatchObject({ availableReplicas: 20 });
    const [set] = cluster.all<k.ReplicaSet>("apps/replicasets");
    const name = set?.metadata.name ?? "";
    expect(cluster.events("x")).toContain(`ScalingReplicaSet: Scaled up replica set ${name} from 0 to 20`);
    expect(cluster.events(name)).toContainEqual(expect.stringMatching(/^SuccessfulCreate: Created pod: x-/));
    await quiet(cluster);
  });

  test("a new template rolls, and the old set stays empty for an undo", async () => {
    const cluster = await LiveCluster.start();
    await cluster.test.create("apps/deployments", deployment());
    await cluster.pass(3_000);
    await cluster.edit<k.Deployment>("apps/deployments", "default/x", ({ spec }) => {
      spec!.template.spec!.containers[0]!.image = "j";
    });
    await cluster.pass(20_000);
    const { status, metadata } = cluster.get<k.Deployment>("apps/deployments", "default/x");
    expect(status).toMatchObject({ replicas: 3, updatedReplicas: 3, availableReplicas: 3 });
    expect(metadata.annotations?.["deployment.kubernetes.io/revision"]).toBe("2");
    const sizes = cluster.all<k.ReplicaSet>("apps/replicasets").map(({ spec }) => spec?.replicas);
    expect(sizes.sort()).toEqual([0, 3]);
    await quiet(cluster);
  });

  test("Recreate starts no new pod while an old one runs", async () => {
    const cluster = await LiveCluster.start();
    await cluster.test.create("apps/deployments", deployment({ strategy: { type: "Recreate" } }));
    await cluster.pass(3_000);
    await cluster.edit<k.Deployment>("apps/deployments", "default/x", ({ spec }) => {
      spec!.template.spec!.containers[0]!.image = "j";
    });
    await cluster.pass(20_000);
    expect(cluster.get<k.Deployment>("apps/deployments", "default/x").status).toMatchObject({ updatedReplicas: 3 });
    expect(cluster.all<k.Pod>("/pods")).toHaveLength(3);
  });

  test("four hundred pods are created in parallel and none too many", async () => {
    const cluster = await LiveCluster.start({ nodes: 6 });
    await cluster.test.create("apps/deployments", deployment({ replicas: 400 }));
    await cluster.pass(5_000);
    expect(cluster.all<k.Pod>("/pods")).toHaveLength(400);
    expect(cluster.get<k.Deployment>("apps/deployments", "default/x").status).toMatchObject({
      availableReplicas: 400,
    });
    await cluster.edit<k.Deployment>("apps/deployments", "default/x", ({ spec }) => {
      spec!.replicas = 10;
    });
    await cluster.pass(5_000);
    expect(cluster.all<k.Pod>("/pods")).toHaveLength(10);
    expect(cluster.log.errors).toEqual([]);
  });

  test("a quota that refuses pods is reported by a condition and an event, and the create is retried", async () => {
    const cluster = await LiveCluster.start();
    const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata: { name: "q", namespace: "default" } };
    await cluster.test.create("/resourcequotas", { ...quota, spec: { hard: { pods: "1" } } });
    await cluster.pass(100);
    await cluster.test.create("apps/deployments", deployment({ replicas: 2 }));
    await cluster.pass(3_000);
    const [set] = cluster.all<k.ReplicaSet>("apps/replicasets");
    expect(set?.status?.conditions?.[0]).toMatchObject({ type: "ReplicaFailure", reason: "FailedCreate" });
    expect(cluster.events(set?.metadata.name ?? "")).toContainEqual(
      expect.stringMatching(/^FailedCreate: Error creating/),
    );
    await cluster.edit<k.ResourceQuota>("/resourcequotas", "default/q", ({ spec }) => {
      spec!.hard = { pods: "5" };
    });
    await cluster.pass(60_000);
    expect(cluster.get<k.Deployment>("apps/deployments", "default/x").status).toMatchObject({ availableReplicas: 2 });
    expect(cluster.all<k.ReplicaSet>("apps/replicasets")[0]?.status?.conditions).toBeUndefined();
  });

  test("a pod without an owner is adopted, and one whose labels change is released and replaced", async () => {
    const cluster = await LiveCluster.start();
    await cluster.test.create(
      "apps/replicasets",
      named("apps/v1", "ReplicaSet", { replicas: 2, selector, template: template() }),
    );
    await cluster.pass(2_000);
    const bare = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "bare", namespace: "default", labels: { app: "x" } },
    };
    await cluster.test.create("/pods", { ...bare, spec: podSpec() });
    await cluster.pass(2_000);
    expect(cluster.all<k.Pod>("/pods")).toHaveLength(2);
    const [first] = cluster.all<k.Pod>("/pods");
    await cluster.edit<k.Pod>("/pods", `default/${first?.metadata.name}`, ({ metadata }) => {
      metadata.labels = { app: "y" };
    });
    await cluster.pass(2_000);
    const all = cluster.all<k.Pod>("/pods");
    expect(all.filter(({ metadata }) => metadata.ownerReferences !== undefined)).toHaveLength(2);
    expect(all).toHaveLength(3);
  });
});

describe("StatefulSets and DaemonSets", () => {
  test("a StatefulSet is created in order with its claims and deleted from the highest ordinal", async () => {
    const cluster = await LiveCluster.start();
    const volumeClaimTemplates = [
      {
        metadata: { name: "data" },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
      },
    ];
    const spec = { replicas: 3, serviceName: "x", selector, template: template(), volumeClaimTemplates };
    await cluster.test.create("apps/statefulsets", named("apps/v1", "StatefulSet", spec));
    await cluster.pass(5_000);
    expect(cluster.all<k.Pod>("/pods").map(({ metadata }) => metadata.name)).toEqual(["x-0", "x-1", "x-2"]);
    expect(cluster.all("/persistentvolumeclaims")).toHaveLength(3);
    expect(cluster.events("x")).toContain("SuccessfulCreate: create Pod x-2 in StatefulSet x successful");
    await cluster.edit<k.StatefulSet>("apps/statefulsets", "default/x", (set) => {
      set.spec!.replicas = 1;
    });
    await cluster.pass(5_000);
    expect(cluster.all<k.Pod>("/pods").map(({ metadata }) => metadata.name)).toEqual(["x-0"]);
    expect(cluster.log.errors).toEqual([]);
  });

  test("a DaemonSet follows the nodes", async () => {
    const cluster = await LiveCluster.start({ nodes: 2 });
    await cluster.test.create("apps/daemonsets", named("apps/v1", "DaemonSet", { selector, template: template() }));
    await cluster.pass(3_000);
    await cluster.addNode("n2");
    await cluster.pass(3_000);
    const status = () => cluster.get<k.DaemonSet>("apps/daemonsets", "default/x").status;
    expect(status()).toMatchObject({ desiredNumberScheduled: 3, numberAvailable: 3 });
    expect(
      cluster
        .all<k.Pod>("/pods")
        .map(({ spec }) => spec?.nodeName)
        .sort(),
    ).toEqual(["n0", "n1", "n2"]);
    cluster.silence("n2");
    await cluster.test.delete("/nodes", "n2");
    await cluster.pass(90_000);
    expect(status()).toMatchObject({ desiredNumberScheduled: 2, numberAvailable: 2 });
    expect(cluster.all<k.Pod>("/pods")).toHaveLength(2);
    expect(cluster.log.errors).toEqual([]);
  });
});

describe("Jobs", () => {
  const ends = (exitCode: number) => () => ({ startMs: 50, ends: { afterMs: 1_000, exitCode } });
  const job = (spec: object) =>
    named("batch/v1", "Job", { template: { spec: podSpec({ restartPolicy: "Never" }) }, ...spec });

  test("a Job of five completes, counts each pod once, and its pods lose their finalizer", async () => {
    const cluster = await LiveCluster.start({ lifeOf: ends(0) });
    await cluster.test.create("batch/jobs", job({ completions: 5, parallelism: 2 }));
    await cluster.pass(30_000);
    const { status } = cluster.get<k.Job>("batch/jobs", "default/x");
    expect(status).toMatchObject({ succeeded: 5, uncountedTerminatedPods: {} });
    expect(status?.conditions?.at(-1)).toMatchObject({ type: "Complete", status: "True" });
    expect(cluster.all<k.Pod>("/pods").some(({ metadata }) => (metadata.finalizers ?? []).length > 0)).toBe(false);
    expect(cluster.events("x")).toContain("Completed: Job completed");
    await quiet(cluster);
  });

  test("a Job that fails too often reports why", async () => {
    const cluster = await LiveCluster.start({ lifeOf: ends(1) });
    await cluster.test.create("batch/jobs", job({ backoffLimit: 1 }));
    await cluster.pass(60_000);
    expect(cluster.get<k.Job>("batch/jobs", "default/x").status?.conditions?.at(-1)).toMatchObject({
      reason: "BackoffLimitExceeded",
    });
    expect(cluster.events("x")).toContainEqual(expect.stringMatching(/^BackoffLimitExceeded: /));
  });

  test("a deleted Job leaves no pod behind, though its pods wait to be counted", async () => {
    const cluster = await LiveCluster.start({ lifeOf: ends(0) });
    await cluster.test.create("batch/jobs", job({ completions: 50, parallelism: 5 }));
    await cluster.pass(1_000);
    await cluster.test.delete("batch/jobs", "default/x", { propagationPolicy: "Background" });
    await cluster.pass(60_000);
    expect(cluster.all("/pods")).toEqual([]);
  });

  test("a CronJob creates a Job each minute and deletes old ones", async () => {
    const cluster = await LiveCluster.start({ lifeOf: ends(0) });
    const jobTemplate = { spec: { template: { spec: podSpec({ restartPolicy: "Never" }) } } };
    await cluster.test.create("batch/cronjobs", named("batch/v1", "CronJob", { schedule: "* * * * *", jobTemplate }));
    await cluster.pass(6 * 60_000);
    expect(cluster.get<k.CronJob>("batch/cronjobs", "default/x").status?.lastSuccessfulTime).toBeDefined();
    expect(cluster.all("batch/jobs").length).toBeLessThanOrEqual(4);
    expect(cluster.events("x")).toContainEqual(expect.stringMatching(/^SawCompletedJob: Saw completed job: x-/));
    expect(cluster.log.errors).toEqual([]);
  });
});

describe("nodes", () => {
  test("a silent node is marked Unknown, its pods are not ready, evicted after their toleration, and replaced", async () => {
    const cluster = await LiveCluster.start({ nodes: 2 });
    await cluster.test.create("apps/deployments", deployment({ replicas: 4 }));
    await cluster.pass(3_000);
    cluster.silence("n1");
    await cluster.pass(60_000);
    const { spec, status } = cluster.get<k.Node>("/nodes", "n1");
    expect(status?.conditions?.find(({ type }) => type === "Ready")).toMatchObject({ status: "Unknown" });
    expect(spec?.taints?.map(({ effect }) => effect).sort()).toEqual(["NoExecute", "NoSchedule"]);
    await cluster.pass(330_000);
    const on = cluster.all<k.Pod>("/pods").filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    expect(on.map((pod) => pod.spec?.nodeName)).toEqual(["n0", "n0", "n0", "n0"]);
    expect(cluster.all<{ reason: string }>("/events").map(({ reason }) => reason)).toEqual(
      expect.arrayContaining(["NodeNotReady", "TaintManagerEviction"]),
    );
    cluster.speak("n1");
    await cluster.pass(30_000);
    expect(cluster.get<k.Node>("/nodes", "n1").spec?.taints).toBeUndefined();
    expect(cluster.log.errors).toEqual([]);
  });

  test("when every node is silent nothing is evicted", async () => {
    const cluster = await LiveCluster.start({ nodes: 2 });
    await cluster.test.create("apps/deployments", deployment({ replicas: 4 }));
    await cluster.pass(3_000);
    cluster.silence("n0");
    cluster.silence("n1");
    await cluster.pass(600_000);
    expect(cluster.all<k.Pod>("/pods").filter(({ metadata }) => metadata.deletionTimestamp !== undefined)).toEqual([]);
  });
});

describe("Services", () => {
  test("slices and Endpoints follow pods as they come and go", async () => {
    const cluster = await LiveCluster.start();
    await cluster.test.create("/services", named("v1", "Service", { selector: { app: "x" }, ports: [{ port: 80 }] }));
    await cluster.test.create("apps/deployments", deployment());
    await cluster.pass(3_000);
    const slices = () =>
      cluster
        .all<k.EndpointSlice>("discovery.k8s.io/endpointslices")
        .filter(({ metadata }) => metadata.name !== "kubernetes");
    expect(slices().flatMap(({ endpoints }) => endpoints ?? [])).toHaveLength(3);
    expect(cluster.get<k.Endpoints>("/endpoints", "default/x").subsets?.[0]?.addresses).toHaveLength(3);
    await cluster.edit<k.Deployment>("apps/deployments", "default/x", ({ spec }) => {
      spec!.replicas = 1;
    });
    await cluster.pass(3_000);
    expect(slices().flatMap(({ endpoints }) => endpoints ?? [])).toHaveLength(1);
    expect(cluster.log.errors).toEqual([]);
  });
});

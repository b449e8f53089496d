/**
 * The workload controllers against the embedded API server: their writes are valid, the server stores what they
 * decided, and then nothing is left to write.
 */
import { describe, expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { decideDeployment } from "../../src/decide/workloads/deployments/deployment.ts";
import { decideReplicaSet } from "../../src/decide/workloads/deployments/replicaSet.ts";
import { decideCronJob } from "../../src/decide/workloads/jobs/cronJob.ts";
import { decideJob } from "../../src/decide/workloads/jobs/job.ts";
import { decideNodeLifecycle, decideTaintEviction } from "../../src/decide/workloads/nodes/nodeLifecycle.ts";
import { decidePodGc } from "../../src/decide/workloads/nodes/podGc.ts";
import { decideEndpointSlices } from "../../src/decide/workloads/services/endpointSlice.ts";
import { decideEndpoints } from "../../src/decide/workloads/services/endpoints.ts";
import { decideDaemonSet } from "../../src/decide/workloads/sets/daemonSet.ts";
import { decideStatefulSet } from "../../src/decide/workloads/sets/statefulSet.ts";
import { applyIntent } from "../../src/intents/applyIntent.ts";
import type * as k from "../../src/model/kubernetes.generated.ts";
import type { Decision } from "../../src/model/objects/draft.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { formatTime } from "../../src/model/values/time.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";

const caller = {
  user: { username: "system:kube-controller-manager", groups: ["system:masters"] },
  fieldManager: "kcm",
};

class Cluster {
  readonly test: TestApi;
  readonly refusals: string[] = [];
  writes = 0;

  constructor(test: TestApi) {
    this.test = test;
  }

  static async start(nodes = 2): Promise<Cluster> {
    const cluster = new Cluster(await TestApi.start());
    for (let i = 0; i < nodes; i++) {
      await cluster.test.create("/nodes", { apiVersion: "v1", kind: "Node", metadata: { name: `n${i}` } });
      await cluster.heartbeat(`n${i}`);
    }
    return cluster;
  }

  get nowMs(): number {
    return this.test.clock.nowMs();
  }

  all<T>(resource: string): T[] {
    return [...this.test.core.store.collection(resource).all()].map((version) => version.object()) as T[];
  }

  async heartbeat(name: string): Promise<void> {
    const time = formatTime(this.nowMs);
    const times = { lastHeartbeatTime: time, lastTransitionTime: time };
    await this.test.edit(
      "/nodes",
      name,
      (node) => {
        node["status"] = {
          conditions: [{ type: "Ready", status: "True", reason: "KubeletReady", message: "", ...times }],
        };
      },
      "status",
    );
  }

  decisions(): Decision[] {
    const { nowMs } = this;
    const revision = String(this.test.core.store.revision);
    const pods = this.all<k.Pod>("/pods");
    const nodes = this.all<k.Node>("/nodes");
    const replicaSets = this.all<k.ReplicaSet>("apps/replicasets");
    const revisions = this.all<k.ControllerRevision>("apps/controllerrevisions");
    const jobs = this.all<k.Job>("batch/jobs");
    const claims = this.all<k.PersistentVolumeClaim>("/persistentvolumeclaims");
    const claimNamed = (name: string) => claims.find(({ metadata }) => metadata.name === name);
    const slices = this.all<k.EndpointSlice>("discovery.k8s.io/endpointslices");
    const endpoints = this.all<k.Endpoints>("/endpoints");
    const services = this.all<k.Service>("/services").filter(({ metadata }) => metadata.name !== "kubernetes");
    return [
      ...this.all<k.Deployment>("apps/deployments").map((deployment) =>
        decideDeployment({ revision, deployment, replicaSets, pods }, nowMs),
      ),
      ...replicaSets.map((replicaSet) => decideReplicaSet({ revision, replicaSet, pods }, nowMs)),
      ...this.all<k.StatefulSet>("apps/statefulsets").map((statefulSet) =>
        decideStatefulSet({ revision, statefulSet, pods, claimNamed, revisions }, nowMs),
      ),
      ...this.all<k.DaemonSet>("apps/daemonsets").map((daemonSet) =>
        decideDaemonSet({ revision, daemonSet, nodes, pods, revisions }, nowMs),
      ),
      ...jobs.map((job) => decideJob({ revision, job, pods }, nowMs)),
      ...this.all<k.CronJob>("batch/cronjobs").map((cronJob) => decideCronJob({ revision, cronJob, jobs }, nowMs)),
      ...nodes.map((node) => decideNodeLifecycle({ node, lease: undefined, pods }, nowMs)),
      ...nodes.map((node) => decideTaintEviction({ node, pods }, nowMs)),
      decidePodGc({ pods, nodes, missingSinceMs: new Map() }, nowMs),
      ...services.map((service) => decideEndpointSlices({ revision, service, pods, nodes, slices })),
      ...services.map((service) => {
        const own = endpoints.find(({ metadata }) => metadata.name === service.metadata.name);
        return decideEndpoints({ revision, service, pods, endpoints: own });
      }),
    ];
  }

  /** All controllers once. Two of them may write the same object; the second is refused and retries. */
  async turn(): Promise<void> {
    const kube = inProcessKube(this.test.core, caller);
    for (const { intents } of this.decisions()) {
      for (const intent of intents) {
        const outcome = await applyIntent(kube, intent);
        this.writes++;
        if (outcome.ok || outcome.reason === "Conflict") continue;
        this.refusals.push(`${intent.type} ${intent.target.plural}/${intent.target.name}: ${outcome.message}`);
      }
    }
    await this.test.settle();
  }

  /** Binds, starts and stops pods; `exit` ends those that it has an exit code for. */
  async kubelet(exit: (pod: k.Pod) => number | undefined): Promise<void> {
    for (const pod of this.all<k.Pod>("/pods")) {
      const path = `${pod.metadata.namespace}/${pod.metadata.name}`;
      const time = formatTime(this.nowMs);
      const phase = pod.status?.phase ?? "Pending";
      const isOver = phase === "Succeeded" || phase === "Failed";
      const say = (next: string, code?: number) =>
        this.test.edit(
          "/pods",
          path,
          (each) => {
            const ready = { type: "Ready", status: next === "Running" ? "True" : "False", lastTransitionTime: time };
            const state =
              code === undefined
                ? { running: { startedAt: time } }
                : { terminated: { exitCode: code, finishedAt: time } };
            const status = { name: "c", image: "i", imageID: "", ready: code === undefined, restartCount: 0, state };
            const ip = `10.0.0.${(pod.metadata.uid.charCodeAt(0) % 200) + 1}`;
            each["status"] = {
              ...pod.status,
              phase: next,
              conditions: [ready],
              containerStatuses: [status],
              podIP: ip,
              podIPs: [{ ip }],
            };
          },
          "status",
        );
      if (pod.metadata.deletionTimestamp !== undefined) {
        if (pod.spec?.nodeName !== undefined && !isOver) await say("Failed", 137);
        if (this.test.get("/pods", path) !== undefined)
          await this.test.delete("/pods", path, { gracePeriodSeconds: 0 });
      } else if (pod.spec?.nodeName === undefined) {
        const fields = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
        const node = fields?.nodeSelectorTerms[0]?.matchFields?.[0]?.values?.[0] ?? "n0";
        const { namespace = "", name, uid, resourceVersion } = pod.metadata;
        const ref = { ...builtin.Pod, namespace, name };
        await inProcessKube(this.test.core, caller).bind(ref, { node, uid, resourceVersion });
      } else if (phase === "Pending") await say("Running");
      else if (phase === "Running") {
        const code = exit(pod);
        if (code !== undefined) await say(code === 0 ? "Succeeded" : "Failed", code);
      }
    }
    await this.test.settle();
  }

  async settle(exit: (pod: k.Pod) => number | undefined = () => undefined): Promise<void> {
    for (let round = 0; round < 60; round++) {
      const before = this.test.core.store.revision;
      await this.turn();
      await this.kubelet(exit);
      if (this.test.core.store.revision === before) return;
      await this.test.clock.advance(1000);
      for (const { metadata } of this.all<k.Node>("/nodes")) {
        if (this.nowMs % 20_000 < 1000) await this.heartbeat(metadata.name);
      }
    }
    const left = this.decisions().flatMap(({ intents }) => intents.map(({ why, type }) => `${type}: ${why}`));
    throw new Error(`not quiet: ${left.join("; ")}\nrefused: ${this.refusals.join("; ")}`);
  }

  get<T = KubeObject>(resource: string, path: string): T {
    const found = this.test.get(resource, path);
    if (found === undefined) throw new Error(`no ${resource} ${path}`);
    return found as T;
  }
}

const labels = { app: "x" };
const podSpec = (more: object = {}) => ({ containers: [{ name: "c", image: "i" }], ...more });
const template = (more: object = {}) => ({ metadata: { labels }, spec: podSpec(more) });
const base = (apiVersion: string, kind: string, spec: object) => ({
  apiVersion,
  kind,
  metadata: { name: "x", namespace: "default" },
  spec,
});

describe("on the real API server", () => {
  test("a Deployment comes up, rolls and is rolled back, and then nothing is written", async () => {
    const cluster = await Cluster.start();
    await cluster.test.create(
      "apps/deployments",
      base("apps/v1", "Deployment", { replicas: 3, selector: { matchLabels: labels }, template: template() }),
    );
    await cluster.settle();
    expect(cluster.get<k.Deployment>("apps/deployments", "default/x").status).toMatchObject({
      availableReplicas: 3,
      updatedReplicas: 3,
    });
    const change = (image: string) =>
      cluster.test.edit("apps/deployments", "default/x", (object) => {
        const spec = object["spec"] as k.DeploymentSpec;
        spec.template.spec!.containers[0]!.image = image;
      });
    await change("j");
    await cluster.settle();
    await change("i");
    await cluster.settle();
    const { metadata, status } = cluster.get<k.Deployment>("apps/deployments", "default/x");
    expect(metadata.annotations?.["deployment.kubernetes.io/revision"]).toBe("3");
    expect(status).toMatchObject({ replicas: 3, availableReplicas: 3, observedGeneration: metadata.generation });
    expect(cluster.all("apps/replicasets")).toHaveLength(2);
    expect(cluster.refusals).toEqual([]);
  });

  test("a StatefulSet with claims comes up and rolls", async () => {
    const cluster = await Cluster.start();
    const volumeClaimTemplates = [
      {
        metadata: { name: "data" },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
      },
    ];
    const persistentVolumeClaimRetentionPolicy = { whenDeleted: "Delete", whenScaled: "Delete" };
    const spec = {
      replicas: 2,
      serviceName: "x",
      selector: { matchLabels: labels },
      template: template(),
      volumeClaimTemplates,
      persistentVolumeClaimRetentionPolicy,
    };
    await cluster.test.create("apps/statefulsets", base("apps/v1", "StatefulSet", spec));
    await cluster.settle();
    await cluster.test.edit("apps/statefulsets", "default/x", (object) => {
      (object["spec"] as k.StatefulSetSpec).template.spec!.containers[0]!.image = "j";
    });
    await cluster.settle();
    const { status } = cluster.get<k.StatefulSet>("apps/statefulsets", "default/x");
    expect(status).toMatchObject({ readyReplicas: 2, updatedReplicas: 2 });
    expect(status?.currentRevision).toBe(status?.updateRevision);
    expect(cluster.all("/persistentvolumeclaims")).toHaveLength(2);
    expect(cluster.refusals).toEqual([]);
  });

  test("a DaemonSet is on every node and rolls", async () => {
    const cluster = await Cluster.start(3);
    await cluster.test.create(
      "apps/daemonsets",
      base("apps/v1", "DaemonSet", { selector: { matchLabels: labels }, template: template() }),
    );
    await cluster.settle();
    await cluster.test.edit("apps/daemonsets", "default/x", (object) => {
      (object["spec"] as k.DaemonSetSpec).template.spec!.containers[0]!.image = "j";
    });
    await cluster.settle();
    const { status } = cluster.get<k.DaemonSet>("apps/daemonsets", "default/x");
    expect(status).toMatchObject({ desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3 });
    expect(cluster.refusals).toEqual([]);
  });

  test.each(["NonIndexed", "Indexed"])("a %s Job completes", async (completionMode) => {
    const cluster = await Cluster.start();
    const spec = {
      completions: 3,
      parallelism: 2,
      completionMode,
      template: { spec: podSpec({ restartPolicy: "Never" }) },
    };
    await cluster.test.create("batch/jobs", base("batch/v1", "Job", spec));
    await cluster.settle(() => 0);
    const { status } = cluster.get<k.Job>("batch/jobs", "default/x");
    expect(status).toMatchObject({ succeeded: 3 });
    expect(status?.conditions?.map(({ type }) => type)).toEqual(["SuccessCriteriaMet", "Complete"]);
    expect(cluster.refusals).toEqual([]);
  });

  test("a Job that fails ends as Failed, and one that is suspended and resumed completes", async () => {
    const cluster = await Cluster.start();
    const spec = { backoffLimit: 0, template: { spec: podSpec({ restartPolicy: "Never" }) } };
    await cluster.test.create("batch/jobs", base("batch/v1", "Job", spec));
    await cluster.settle(() => 1);
    expect(cluster.get<k.Job>("batch/jobs", "default/x").status?.conditions?.at(-1)).toMatchObject({
      type: "Failed",
      reason: "BackoffLimitExceeded",
    });
    const other = { ...base("batch/v1", "Job", spec), metadata: { name: "y", namespace: "default" } };
    await cluster.test.create("batch/jobs", other);
    await cluster.settle();
    const suspend = (value: boolean) =>
      cluster.test.edit("batch/jobs", "default/y", (object) => {
        (object["spec"] as k.JobSpec).suspend = value;
      });
    await suspend(true);
    await cluster.settle();
    await suspend(false);
    await cluster.settle(() => 0);
    expect(cluster.get<k.Job>("batch/jobs", "default/y").status?.conditions?.at(-1)).toMatchObject({
      type: "Complete",
    });
    expect(cluster.refusals).toEqual([]);
  });

  test("a CronJob makes Jobs that run", async () => {
    const cluster = await Cluster.start();
    const jobTemplate = { spec: { template: { spec: podSpec({ restartPolicy: "Never" }) } } };
    await cluster.test.create("batch/cronjobs", base("batch/v1", "CronJob", { schedule: "* * * * *", jobTemplate }));
    await cluster.test.clock.advance(61_000);
    for (const { metadata } of cluster.all<k.Node>("/nodes")) await cluster.heartbeat(metadata.name);
    await cluster.settle(() => 0);
    expect(cluster.all<k.Job>("batch/jobs").length).toBeGreaterThan(0);
    expect(cluster.get<k.CronJob>("batch/cronjobs", "default/x").status?.lastSuccessfulTime).toBeDefined();
    expect(cluster.refusals).toEqual([]);
  });

  test("a Service gets slices and Endpoints of its pods", async () => {
    const cluster = await Cluster.start();
    await cluster.test.create("/services", base("v1", "Service", { selector: labels, ports: [{ port: 80 }] }));
    await cluster.settle();
    await cluster.test.create(
      "apps/deployments",
      base("apps/v1", "Deployment", { replicas: 1, selector: { matchLabels: labels }, template: template() }),
    );
    await cluster.settle();
    const slices = cluster
      .all<k.EndpointSlice>("discovery.k8s.io/endpointslices")
      .filter(({ metadata }) => metadata.labels?.["kubernetes.io/service-name"] === "x");
    expect(slices.flatMap(({ endpoints }) => endpoints ?? [])).toMatchObject([{ conditions: { ready: true } }]);
    expect(cluster.get<k.Endpoints>("/endpoints", "default/x").subsets?.[0]?.addresses).toHaveLength(1);
    expect(cluster.refusals).toEqual([]);
  });

  test("a node that falls silent is tainted, and its pods are replaced when their toleration ends", async () => {
    const cluster = await Cluster.start(1);
    await cluster.test.create(
      "apps/deployments",
      base("apps/v1", "Deployment", {
        replicas: 1,
        selector: { matchLabels: labels },
        template: template({
          tolerations: [
            { key: "node.kubernetes.io/unreachable", operator: "Exists", effect: "NoExecute", tolerationSeconds: 30 },
          ],
        }),
      }),
    );
    await cluster.settle();
    const [before] = cluster.all<k.Pod>("/pods");
    await cluster.test.clock.advance(41_000);
    for (let i = 0; i < 4; i++) await cluster.turn();
    const node = cluster.get<k.Node>("/nodes", "n0");
    expect(node.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("Unknown");
    expect(node.spec?.taints?.map(({ effect }) => effect)).toEqual(["NoSchedule", "NoExecute"]);
    await cluster.test.clock.advance(31_000);
    for (let i = 0; i < 4; i++) await cluster.turn();
    const old = cluster.all<k.Pod>("/pods").find(({ metadata }) => metadata.uid === before?.metadata.uid);
    expect(old?.metadata.deletionTimestamp).toBeDefined();
    expect(old?.status?.conditions?.some(({ type }) => type === "DisruptionTarget")).toBe(true);
    expect(cluster.all<k.Pod>("/pods")).toHaveLength(2);
    expect(cluster.refusals).toEqual([]);
  });
});

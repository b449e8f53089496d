/** What `what-if` answers is what happens when the change is made. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ClusterObjects } from "../../src/decide/schedule/model/clusterOf.ts";
import type { NewWorkload } from "../../src/decide/schedule/whatIf/newWorkloads.ts";
import { type Change, type WorkloadChange, whatIf } from "../../src/decide/schedule/whatIf/whatIf.ts";
import { newNodes } from "../../src/kubelet/node/newNodes.ts";
import { marks } from "../../src/model/profiles/marks.ts";
import { type Pool, parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import { ScheduleCluster } from "./scheduleCluster.ts";

const runs = process.env["MUSTER_LONG"] === "1" ? 200 : 8;
const queues = ["red", "blue"] as const;
const classes = ["train", "inference"] as const;

interface JobWords {
  readonly queue: (typeof queues)[number];
  readonly priority: (typeof classes)[number];
  readonly pods: number;
  readonly gpus: number;
}

const anyJob: fc.Arbitrary<JobWords> = fc.record({
  queue: fc.constantFrom(...queues),
  priority: fc.constantFrom(...classes),
  pods: fc.integer({ min: 1, max: 3 }),
  gpus: fc.constantFrom(1, 2, 4, 8),
});

type Step =
  | { readonly type: "quota"; readonly queue: string; readonly quota: number }
  | { readonly type: "nodes"; readonly count: number }
  | { readonly type: "drain"; readonly node: string }
  | { readonly type: "job"; readonly job: JobWords };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    type: fc.constant("quota" as const),
    queue: fc.constantFrom(...queues),
    quota: fc.constantFrom(0, 4, 8, 16, 24),
  }),
  fc.record({ type: fc.constant("nodes" as const), count: fc.integer({ min: 1, max: 2 }) }),
  fc.record({ type: fc.constant("drain" as const), node: fc.constantFrom("h100-0", "h100-1", "h100-2") }),
  fc.record({ type: fc.constant("job" as const), job: anyJob }),
);

function jobManifest(name: string, { queue, priority, pods, gpus }: JobWords): NewWorkload {
  const limits = { "nvidia.com/gpu": String(gpus) };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace: "default", labels: { "kai.scheduler/queue": queue, priorityClassName: priority } },
    spec: {
      parallelism: pods,
      completions: pods,
      backoffLimit: 1000,
      template: {
        metadata: { labels: { "kai.scheduler/queue": queue }, annotations: { [marks.runDuration]: "24h" } },
        spec: {
          schedulerName: "kai-scheduler",
          restartPolicy: "Never",
          terminationGracePeriodSeconds: 0,
          containers: [{ name: "main", image: "i", resources: { limits } }],
        },
      },
    },
  };
}

function queueSpec(quota: number): object {
  const free = { quota: -1, limit: -1, overQuotaWeight: 1 };
  return { resources: { gpu: { quota, limit: -1, overQuotaWeight: 1 }, cpu: free, memory: free } };
}

function objectsOf(cluster: ScheduleCluster): ClusterObjects {
  return {
    pods: cluster.all("/pods"),
    nodes: cluster.all("/nodes"),
    queues: cluster.all("scheduling.run.ai/queues"),
    groups: cluster.groups(),
    requests: cluster.all("scheduling.run.ai/bindrequests"),
    topologies: [],
    priorityClasses: cluster.all("scheduling.k8s.io/priorityclasses"),
    volumeClaims: [],
    volumes: [],
    classes: [],
  };
}

/** Pods with a node, by workload. */
function placedOf(cluster: ScheduleCluster): Record<string, number> {
  const placed: Record<string, number> = {};
  for (const { metadata, spec, status } of cluster.pods()) {
    if (metadata.deletionTimestamp !== undefined || (spec?.nodeName ?? "") === "" || status?.phase === "Failed")
      continue;
    const owner = metadata.ownerReferences?.[0]?.name ?? metadata.name;
    placed[owner] = (placed[owner] ?? 0) + 1;
  }
  return placed;
}

function gpusOf(placed: Readonly<Record<string, number>>, jobs: readonly JobWords[]): number {
  return jobs.reduce((sum, { gpus }, at) => sum + (placed[`job-${at}`] ?? 0) * gpus, 0);
}

function changeOf(step: Step, nowMs: number): Change {
  if (step.type === "quota") return { queue: { name: step.queue, gpu: { quota: step.quota } } };
  if (step.type === "drain") return { drain: [step.node] };
  if (step.type === "job") return { workloads: [jobManifest("new", step.job)] };
  return { nodes: newNodes(poolOf(step.count), [], nowMs) };
}

function poolOf(count: number): Pool[] {
  return [parsePool(`more:h100=${count}`, profilesWith())];
}

async function make(cluster: ScheduleCluster, step: Step): Promise<void> {
  if (step.type === "quota") {
    await cluster.api.edit("scheduling.run.ai/queues", step.queue, (queue) => {
      queue["spec"] = queueSpec(step.quota);
    });
  } else if (step.type === "drain") {
    await cluster.api.edit("/nodes", step.node, (node) => {
      node["spec"] = { ...(node["spec"] as object), unschedulable: true };
    });
    for (const { metadata, spec } of cluster.pods()) {
      if (spec?.nodeName === step.node) await cluster.api.delete("/pods", `default/${metadata.name}`);
    }
  } else if (step.type === "job") await cluster.create("batch/jobs", jobManifest("new", step.job));
  else {
    for (const node of newNodes(poolOf(step.count), [], cluster.api.clock.nowMs())) {
      const { uid: _, resourceVersion: _revision, creationTimestamp: _created, ...metadata } = node.metadata;
      await cluster.create("/nodes", { ...node, metadata });
    }
  }
}

test("what-if predicts how many pods of each workload run after a change", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyJob, { minLength: 3, maxLength: 9 }),
      fc.tuple(fc.constantFrom(4, 8, 12), fc.constantFrom(4, 8, 12)),
      anyStep,
      async (jobs, quotas, step) => {
        const cluster = await ScheduleCluster.create(["h100=3"]);
        for (const [at, name] of queues.entries()) await cluster.queue(name, queueSpec(quotas[at] as number));
        for (const [at, job] of jobs.entries()) {
          await cluster.create("batch/jobs", jobManifest(`job-${at}`, job));
          await cluster.run(1);
        }
        await cluster.run(60);
        const before = placedOf(cluster);
        const nowMs = cluster.api.clock.nowMs();
        const answer = whatIf(objectsOf(cluster), [], changeOf(step, nowMs), nowMs);
        expect(answer.isSettled).toBe(true);
        const predicted = { ...before };
        const note = ({ workload, after }: WorkloadChange): void => {
          if (after === 0) delete predicted[workload];
          else predicted[workload] = after;
        };
        for (const each of [...answer.starts, ...answer.stops]) note(each);
        await make(cluster, step);
        await cluster.run(90);
        const happened = placedOf(cluster);
        // A drain evicts one pod after the other: which of several pods waits in the end depends on their order.
        if (step.type === "drain") expect(gpusOf(happened, jobs)).toBe(gpusOf(predicted, jobs));
        else expect(happened).toEqual(predicted);
      },
    ),
    { numRuns: runs, seed: 20_261_118, endOnFailure: true },
  );
});

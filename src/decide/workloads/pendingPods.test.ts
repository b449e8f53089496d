/** Owners with the largest possible number of replicas. */
import { describe, expect, test } from "vitest";
import { TestCluster } from "../../../testing/decide/workloadObjects.ts";
import type { ControllerRevision, Job, Pod, ReplicaSet, StatefulSet } from "../../model/kubernetes.generated.ts";
import { findCondition } from "../../model/objects/condition.ts";
import type { Decision } from "../../model/objects/draft.ts";
import { decideReplicaSet } from "./deployments/replicaSet.ts";
import { decideJob } from "./jobs/job.ts";
import { pendingPodsMax, pendingPodsReason } from "./pendingPods.ts";
import { decideStatefulSet } from "./sets/statefulSet.ts";

const most = 2_147_483_647;
const labels = { app: "web" };
const selector = { matchLabels: labels };
const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
const podsOf = (cluster: TestCluster): Pod[] => cluster.all<Pod>("Pod");
const name = "web";

interface Kind {
  readonly kind: string;
  add(cluster: TestCluster): void;
  decide(cluster: TestCluster): Decision;
}

const jobDecision = (cluster: TestCluster): Decision =>
  decideJob(
    { revision: String(cluster.revision), job: cluster.get<Job>("Job", name), pods: podsOf(cluster) },
    cluster.nowMs,
  );

const kinds: readonly Kind[] = [
  {
    kind: "ReplicaSet",
    add: (cluster) => {
      const spec = { replicas: most, selector, template };
      cluster.add<ReplicaSet>({ apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name }, spec });
    },
    decide: (cluster) => {
      const replicaSet = cluster.get<ReplicaSet>("ReplicaSet", name);
      return decideReplicaSet({ revision: String(cluster.revision), replicaSet, pods: podsOf(cluster) }, cluster.nowMs);
    },
  },
  {
    kind: "Job",
    add: (cluster) => {
      const spec = { parallelism: most, completions: most, selector, template };
      cluster.add<Job>({ apiVersion: "batch/v1", kind: "Job", metadata: { name }, spec });
    },
    decide: jobDecision,
  },
  {
    kind: "Indexed Job",
    add: (cluster) => {
      const successPolicy = { rules: [{ succeededIndexes: `0-${most - 1}` }] };
      const wide = { parallelism: most, completions: most, completionMode: "Indexed" };
      cluster.add<Job>({
        apiVersion: "batch/v1",
        kind: "Job",
        metadata: { name },
        spec: { ...wide, successPolicy, selector, template },
        status: { completedIndexes: `0-${most - 1_000_000}` },
      });
    },
    decide: jobDecision,
  },
  {
    kind: "StatefulSet",
    add: (cluster) => {
      const spec = { replicas: most, serviceName: "s", podManagementPolicy: "Parallel", selector, template };
      cluster.add<StatefulSet>({ apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name }, spec });
    },
    decide: (cluster) =>
      decideStatefulSet(
        {
          revision: String(cluster.revision),
          statefulSet: cluster.get<StatefulSet>("StatefulSet", name),
          pods: podsOf(cluster),
          claimNamed: () => undefined,
          revisions: cluster.all<ControllerRevision>("ControllerRevision"),
        },
        cluster.nowMs,
      ),
  },
];

function creates({ intents }: Decision): number {
  return intents.filter(({ type, target }) => type === "create" && target.plural === "pods").length;
}

/** Reconciles until none creates a pod any more. */
function fill(cluster: TestCluster, kind: Kind): Decision {
  for (;;) {
    const decision = kind.decide(cluster);
    expect(creates(decision)).toBeLessThanOrEqual(500);
    cluster.apply(decision);
    if (creates(decision) === 0 && podsOf(cluster).length > 0) return decision;
  }
}

function schedule(cluster: TestCluster, count: number): void {
  for (const pod of podsOf(cluster).slice(0, count)) {
    cluster.change<Pod>("Pod", pod.metadata.name, ({ spec }) => {
      if (spec !== undefined) spec.nodeName = "n";
    });
  }
}

describe.each(kinds)("a $kind with two billion replicas", (kind) => {
  test("stops at the limit of pending pods, reports it, and continues as they are scheduled", () => {
    const cluster = new TestCluster();
    kind.add(cluster);
    expect(fill(cluster, kind).limit).toContain("wait for a node");
    expect(podsOf(cluster)).toHaveLength(pendingPodsMax);
    schedule(cluster, 700);
    fill(cluster, kind);
    expect(podsOf(cluster)).toHaveLength(pendingPodsMax + 700);
  });
});

test("an ordered StatefulSet creates one pod, however many replicas it has", () => {
  const [, , , set] = kinds as [Kind, Kind, Kind, Kind];
  const cluster = new TestCluster();
  set.add(cluster);
  cluster.change<StatefulSet>("StatefulSet", name, ({ spec }) => {
    if (spec !== undefined) spec.podManagementPolicy = "OrderedReady";
  });
  fill(cluster, set);
  expect(podsOf(cluster)).toHaveLength(1);
});

test("a ReplicaSet reports in a condition that pods wait for nodes, until enough have one", () => {
  const [set] = kinds as [Kind];
  const cluster = new TestCluster();
  set.add(cluster);
  fill(cluster, set);
  const failure = () => findCondition(cluster.get<ReplicaSet>("ReplicaSet", name).status?.conditions, "ReplicaFailure");
  expect(failure()).toMatchObject({ status: "True", reason: pendingPodsReason });
  schedule(cluster, 1);
  cluster.apply(set.decide(cluster));
  expect(failure()).toBeUndefined();
});

test("up to the limit of pending pods all are created", () => {
  const [set] = kinds as [Kind];
  const cluster = new TestCluster();
  set.add(cluster);
  cluster.change<ReplicaSet>("ReplicaSet", name, ({ spec }) => {
    if (spec !== undefined) spec.replicas = pendingPodsMax;
  });
  expect(fill(cluster, set).limit).toBeUndefined();
  expect(podsOf(cluster)).toHaveLength(pendingPodsMax);
});

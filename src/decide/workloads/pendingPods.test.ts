/** Owners that ask for the largest number of pods there is. */
import { describe, expect, test } from "vitest";
import { TestWorld } from "../../../testing/decide/workloadObjects.ts";
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
const podsOf = (world: TestWorld): Pod[] => world.all<Pod>("Pod");
const name = "web";

interface Kind {
  readonly kind: string;
  add(world: TestWorld): void;
  decide(world: TestWorld): Decision;
}

const jobDecision = (world: TestWorld): Decision =>
  decideJob({ revision: String(world.revision), job: world.get<Job>("Job", name), pods: podsOf(world) }, world.nowMs);

const kinds: readonly Kind[] = [
  {
    kind: "ReplicaSet",
    add: (world) => {
      const spec = { replicas: most, selector, template };
      world.add<ReplicaSet>({ apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name }, spec });
    },
    decide: (world) => {
      const replicaSet = world.get<ReplicaSet>("ReplicaSet", name);
      return decideReplicaSet({ revision: String(world.revision), replicaSet, pods: podsOf(world) }, world.nowMs);
    },
  },
  {
    kind: "Job",
    add: (world) => {
      const spec = { parallelism: most, completions: most, selector, template };
      world.add<Job>({ apiVersion: "batch/v1", kind: "Job", metadata: { name }, spec });
    },
    decide: jobDecision,
  },
  {
    kind: "Indexed Job",
    add: (world) => {
      const successPolicy = { rules: [{ succeededIndexes: `0-${most - 1}` }] };
      const wide = { parallelism: most, completions: most, completionMode: "Indexed" };
      world.add<Job>({
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
    add: (world) => {
      const spec = { replicas: most, serviceName: "s", podManagementPolicy: "Parallel", selector, template };
      world.add<StatefulSet>({ apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name }, spec });
    },
    decide: (world) =>
      decideStatefulSet(
        {
          revision: String(world.revision),
          statefulSet: world.get<StatefulSet>("StatefulSet", name),
          pods: podsOf(world),
          claimNamed: () => undefined,
          revisions: world.all<ControllerRevision>("ControllerRevision"),
        },
        world.nowMs,
      ),
  },
];

function creates({ intents }: Decision): number {
  return intents.filter(({ type, target }) => type === "create" && target.plural === "pods").length;
}

/** Turns until none makes a pod any more. */
function fill(world: TestWorld, kind: Kind): Decision {
  for (;;) {
    const decision = kind.decide(world);
    expect(creates(decision)).toBeLessThanOrEqual(500);
    world.apply(decision);
    if (creates(decision) === 0 && podsOf(world).length > 0) return decision;
  }
}

function schedule(world: TestWorld, count: number): void {
  for (const pod of podsOf(world).slice(0, count)) {
    world.change<Pod>("Pod", pod.metadata.name, ({ spec }) => {
      if (spec !== undefined) spec.nodeName = "n";
    });
  }
}

describe.each(kinds)("a $kind that asks for two thousand million pods", (kind) => {
  test("waits with so many pods without a node, reports it, and continues as they are scheduled", () => {
    const world = new TestWorld();
    kind.add(world);
    expect(fill(world, kind).limit).toContain("wait for a node");
    expect(podsOf(world)).toHaveLength(pendingPodsMax);
    schedule(world, 700);
    fill(world, kind);
    expect(podsOf(world)).toHaveLength(pendingPodsMax + 700);
  });
});

test("a StatefulSet in order makes one pod, however many it asks for", () => {
  const [, , , set] = kinds as [Kind, Kind, Kind, Kind];
  const world = new TestWorld();
  set.add(world);
  world.change<StatefulSet>("StatefulSet", name, ({ spec }) => {
    if (spec !== undefined) spec.podManagementPolicy = "OrderedReady";
  });
  fill(world, set);
  expect(podsOf(world)).toHaveLength(1);
});

test("a ReplicaSet shows as a condition that pods wait for nodes, until enough have one", () => {
  const [set] = kinds as [Kind];
  const world = new TestWorld();
  set.add(world);
  fill(world, set);
  const failure = () => findCondition(world.get<ReplicaSet>("ReplicaSet", name).status?.conditions, "ReplicaFailure");
  expect(failure()).toMatchObject({ status: "True", reason: pendingPodsReason });
  schedule(world, 1);
  world.apply(set.decide(world));
  expect(failure()).toBeUndefined();
});

test("as many pods as may be pending are made without a limit", () => {
  const [set] = kinds as [Kind];
  const world = new TestWorld();
  set.add(world);
  world.change<ReplicaSet>("ReplicaSet", name, ({ spec }) => {
    if (spec !== undefined) spec.replicas = pendingPodsMax;
  });
  expect(fill(world, set).limit).toBeUndefined();
  expect(podsOf(world)).toHaveLength(pendingPodsMax);
});

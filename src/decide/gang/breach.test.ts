/**
 * The founding document's test plan, row by row, for cliques and groups, under both policies. Every row has type,
 * status, reason and message. The rows of groups contain cliques in breach, so that evaluating the conditions in
 * another order gives another result.
 */
import { describe, expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import { finalizers, labels } from "../../model/gang/keys.ts";
import { defaultGangSettings, type FullLossPolicy } from "../../model/gang/settings.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import type { StatusIntent } from "../../model/intent.ts";
import { cliqueBreach, cliqueScheduled, type GroupReplicaFacts, groupBreach } from "./breach.ts";
import type { ConditionContent } from "./gangs/gangConditions.ts";
import { decideGroup } from "./groups/decideGroup.ts";

type Answer = Omit<ConditionContent, "type">;

const updating: Answer = { status: "Unknown", reason: "UpdateInProgress", message: "An update is in progress" };
const below = (scheduled: number, minAvailable: number): Answer => ({
  status: "True",
  reason: "ScheduledReplicasBelowMinAvailable",
  message: `Scheduled replicas (${scheduled}) below MinAvailable (${minAvailable})`,
});
const suppressed = (what: "clique" | "group", minAvailable: number): Answer => ({
  status: "False",
  reason: what === "clique" ? "InsufficientScheduledPods" : "InsufficientScheduledPodCliqueScalingGroupReplicas",
  message: `No replica is scheduled (MinAvailable ${minAvailable}): the breach is suppressed, because a ${what} without any scheduled replica cannot be distinguished from one that has not started`,
});
const tooFewPods = (found: number, needed: number): Answer => ({
  status: "True",
  reason: "InsufficientReadyPods",
  message: `Too few pods: ${found} ready or starting, ${needed} required`,
});
const enoughPods = (found: number, needed: number): Answer => ({
  status: "False",
  reason: "SufficientReadyPods",
  message: `Enough pods: ${found} ready or starting, ${needed} required`,
});

interface CliqueRow {
  readonly fact: string;
  readonly min?: number;
  readonly scheduled: number;
  readonly bad?: number;
  readonly updating?: boolean;
  readonly Suppress: Answer;
  readonly Terminate: Answer;
  readonly isScheduled: boolean;
}

const same = (answer: Answer) => ({ Suppress: answer, Terminate: answer });

/** minAvailable 3, replicas 4. */
const cliqueRows: readonly CliqueRow[] = [
  {
    fact: "fresh: nothing was ever scheduled",
    scheduled: 0,
    Suppress: suppressed("clique", 3),
    Terminate: below(0, 3),
    isScheduled: false,
  },
  { fact: "partial regression: one of three is left", scheduled: 1, ...same(below(1, 3)), isScheduled: false },
  { fact: "partial regression: two of three are left", scheduled: 2, ...same(below(2, 3)), isScheduled: false },
  {
    fact: "partial regression with pods that fail: scheduled pods are counted first",
    scheduled: 2,
    bad: 2,
    ...same(below(2, 3)),
    isScheduled: false,
  },
  {
    fact: "zero after a regression looks like a new clique",
    scheduled: 0,
    bad: 0,
    Suppress: suppressed("clique", 3),
    Terminate: below(0, 3),
    isScheduled: false,
  },
  { fact: "the minimum is scheduled", scheduled: 3, ...same(enoughPods(3, 3)), isScheduled: true },
  { fact: "one above the minimum fails", scheduled: 4, bad: 1, ...same(enoughPods(3, 3)), isScheduled: true },
  { fact: "two fail", scheduled: 4, bad: 2, ...same(tooFewPods(2, 3)), isScheduled: true },
  { fact: "all that is scheduled fails", scheduled: 3, bad: 3, ...same(tooFewPods(0, 3)), isScheduled: true },
  {
    fact: "an update wins over nothing scheduled",
    scheduled: 0,
    updating: true,
    ...same(updating),
    isScheduled: false,
  },
  { fact: "an update wins over the regression", scheduled: 2, updating: true, ...same(updating), isScheduled: false },
  {
    fact: "an update wins over pods that fail",
    scheduled: 4,
    bad: 3,
    updating: true,
    ...same(updating),
    isScheduled: true,
  },
  {
    fact: "a minimum of one has no partial regression",
    min: 1,
    scheduled: 1,
    ...same(enoughPods(1, 1)),
    isScheduled: true,
  },
  {
    fact: "a minimum of one: zero is suppressed or a breach",
    min: 1,
    scheduled: 0,
    Suppress: suppressed("clique", 1),
    Terminate: below(0, 1),
    isScheduled: false,
  },
];

describe.each<FullLossPolicy>(["Suppress", "Terminate"])("a clique under %s", (policy) => {
  test.each(cliqueRows)("$fact", (row) => {
    const { min = 3, scheduled, bad = 0, updating: isUpdating = false } = row;
    const counts = { scheduled, readyOrStarting: scheduled - bad };
    expect(cliqueBreach({ minAvailable: min, isUpdating, counts }, policy)).toEqual({
      type: "MinAvailableBreached",
      ...row[policy],
    });
  });
});

test.each(cliqueRows)("PodCliqueScheduled does not depend on updates: $fact", ({ min = 3, scheduled, isScheduled }) => {
  expect(cliqueScheduled(scheduled, min)).toEqual({
    type: "PodCliqueScheduled",
    status: isScheduled ? "True" : "False",
    reason: isScheduled ? "SufficientScheduledPods" : "InsufficientScheduledPods",
    message: `${scheduled} of at least ${min} pods are scheduled`,
  });
});

const healthy: GroupReplicaFacts = { isComplete: true, isScheduled: true, isBreached: false };
/** Scheduled, and some clique of it fails. */
const failing: GroupReplicaFacts = { isComplete: true, isScheduled: true, isBreached: true };
/** Lost some of its scheduled pods: in breach, and not scheduled. */
const regressed: GroupReplicaFacts = { isComplete: true, isScheduled: false, isBreached: true };
/** Lost all of its scheduled pods: its cliques suppress their breach. */
const lost: GroupReplicaFacts = { isComplete: true, isScheduled: false, isBreached: false };
const absent: GroupReplicaFacts = { isComplete: false, isScheduled: false, isBreached: false };
/** Some clique is missing and the other one is in breach. */
const torn: GroupReplicaFacts = { isComplete: false, isScheduled: false, isBreached: true };

const tooFew = (found: number, min: number): Answer => ({
  status: "True",
  reason: "InsufficientAvailablePodCliqueScalingGroupReplicas",
  message: `Too few replicas: ${found} without a breach, ${min} required`,
});
const enough = (found: number, min: number): Answer => ({
  status: "False",
  reason: "SufficientAvailablePodCliqueScalingGroupReplicas",
  message: `Enough replicas: ${found} without a breach, ${min} required`,
});

interface GroupRow {
  readonly fact: string;
  readonly min: number;
  readonly replicas: readonly GroupReplicaFacts[];
  readonly updating?: boolean;
  readonly Suppress: Answer;
  readonly Terminate: Answer;
}

const groupRows: readonly GroupRow[] = [
  {
    fact: "fresh: no clique exists yet",
    min: 1,
    replicas: [absent, absent],
    Suppress: suppressed("group", 1),
    Terminate: tooFew(0, 1),
  },
  {
    fact: "zero after a regression, all replicas in breach: suppressed before breaches are counted",
    min: 2,
    replicas: [regressed, regressed, regressed],
    Suppress: suppressed("group", 2),
    Terminate: tooFew(0, 2),
  },
  {
    fact: "partial regression: one of two is scheduled and fails, which does not change the reason",
    min: 2,
    replicas: [failing, regressed],
    ...same(below(1, 2)),
  },
  {
    fact: "partial regression: one of three is scheduled",
    min: 2,
    replicas: [healthy, regressed, regressed],
    ...same(below(1, 2)),
  },
  {
    fact: "enough are scheduled, too many of them fail",
    min: 2,
    replicas: [healthy, failing, failing],
    ...same(tooFew(1, 2)),
  },
  {
    fact: "a replica without scheduled pods is not counted twice",
    min: 2,
    replicas: [healthy, healthy, regressed],
    ...same(enough(2, 2)),
  },
  {
    fact: "an update wins over a regression in breach",
    min: 2,
    replicas: [failing, regressed],
    updating: true,
    ...same(updating),
  },
  {
    fact: "an update wins over nothing scheduled",
    min: 1,
    replicas: [regressed, torn],
    updating: true,
    ...same(updating),
  },
  { fact: "2 replicas, minimum 1, one fails: enough", min: 1, replicas: [healthy, failing], ...same(enough(1, 1)) },
  { fact: "2 replicas, minimum 1, both fail", min: 1, replicas: [failing, failing], ...same(tooFew(0, 1)) },
  {
    fact: "5 replicas, minimum 2, one fails: enough",
    min: 2,
    replicas: [failing, healthy, healthy, healthy, healthy],
    ...same(enough(4, 2)),
  },
  { fact: "3 replicas, minimum 2, two fail", min: 2, replicas: [healthy, failing, failing], ...same(tooFew(1, 2)) },
  {
    fact: "2 replicas, minimum 1, one incomplete and one in breach",
    min: 1,
    replicas: [absent, failing],
    ...same(tooFew(0, 1)),
  },
  {
    fact: "2 replicas, minimum 1, one incomplete and one healthy",
    min: 1,
    replicas: [torn, healthy],
    ...same(enough(1, 1)),
  },
  {
    fact: "one fails and one is lost: the lost replica is not counted in place of the failing one",
    min: 2,
    replicas: [healthy, failing, lost],
    Suppress: tooFew(1, 2),
    // Under Terminate the cliques of the lost replica would be in breach.
    Terminate: enough(2, 2),
  },
  {
    fact: "everything lost at once: its cliques suppress, and so does the group",
    min: 1,
    replicas: [lost, lost],
    Suppress: suppressed("group", 1),
    // Under Terminate such cliques are in breach themselves; the conditions of these were written under Suppress.
    Terminate: enough(2, 1),
  },
];

const set = {
  apiVersion: "grove.io/v1alpha1",
  kind: "PodCliqueSet",
  metadata: { name: "s", namespace: "default", uid: "set" },
  spec: {
    replicas: 1,
    template: {
      cliques: ["lead", "work"].map((name) => ({
        name,
        spec: { roleName: name, replicas: 2, minAvailable: 2, podSpec: { containers: [{ name: "main", image: "i" }] } },
      })),
      podCliqueScalingGroups: [{ name: "g", cliqueNames: ["lead", "work"], replicas: 1, minAvailable: 1 }],
    },
  },
  status: { currentGenerationHash: "mu-new" },
} as PodCliqueSet;

/** A clique with the conditions that the facts of its replica give, MinAvailableBreached included. */
function member(replica: number, name: string, facts: GroupReplicaFacts): PodClique {
  const condition = (type: string, holds: boolean) => ({
    type,
    status: holds ? ("True" as const) : ("False" as const),
    reason: "r",
  });
  return partly<PodClique>({
    apiVersion: "grove.io/v1alpha1",
    kind: "PodClique",
    metadata: {
      name: `s-0-g-${replica}-${name}`,
      namespace: "default",
      uid: `${replica}-${name}`,
      finalizers: [finalizers.PodClique],
      labels: {
        [labels.group]: "s-0-g",
        [labels.groupReplica]: String(replica),
        [labels.setReplica]: "0",
        [labels.partOf]: "s",
        [labels.templateHash]: "mu-old",
      },
      ownerReferences: [{ apiVersion: "v1", kind: "PodCliqueScalingGroup", name: "s-0-g", uid: "g", controller: true }],
    },
    spec: { roleName: name, replicas: 2, minAvailable: 2 },
    status: {
      conditions: [
        condition("PodCliqueScheduled", facts.isScheduled),
        condition("MinAvailableBreached", facts.isBreached),
      ],
    },
  });
}

/** The condition of a group whose cliques match the row: two cliques for each replica, one where it is incomplete. */
function conditionOfGroup(row: GroupRow, policy: FullLossPolicy): unknown {
  const cliques = row.replicas.flatMap((facts, replica) =>
    (facts.isComplete ? ["lead", "work"] : facts.isBreached ? ["work"] : []).map((name) =>
      member(replica, name, facts),
    ),
  );
  const started = { updateStartedAt: "2026-01-01T00:00:00Z", podCliqueSetGenerationHash: "mu-new" };
  const group = partly<PodCliqueScalingGroup>({
    apiVersion: "grove.io/v1alpha1",
    kind: "PodCliqueScalingGroup",
    metadata: {
      name: "s-0-g",
      namespace: "default",
      uid: "g",
      resourceVersion: "1",
      finalizers: [finalizers.PodCliqueScalingGroup],
      labels: { [labels.setReplica]: "0", [labels.partOf]: "s" },
    },
    spec: { replicas: row.replicas.length, minAvailable: row.min, cliqueNames: ["lead", "work"] },
    status: row.updating
      ? { currentPodCliqueSetGenerationHash: "mu-was", updateProgress: started }
      : { currentPodCliqueSetGenerationHash: "mu-new" },
  });
  const template = set.spec.template;
  const groups = template.podCliqueScalingGroups?.map((each) => ({ ...each, minAvailable: row.min }));
  const { intents } = decideGroup(
    {
      absentAtRevision: () => "1",
      settings: { ...defaultGangSettings, fullLossPolicy: policy },
      group,
      set: { ...set, spec: { ...set.spec, template: { ...template, podCliqueScalingGroups: groups ?? [] } } },
      cliques,
      replica: () => ({ cliques: [], groups: [] }),
      isTaken: () => true,
      claims: [],
      templateNamed: () => undefined,
      failures: [],
    },
    Date.UTC(2026, 0, 1),
  );
  const written = intents.find((each) => each.type === "status" && each.target.name === "s-0-g");
  const { status } = (written as StatusIntent).object as PodCliqueScalingGroup;
  const found = status?.conditions?.find(({ type }) => type === "MinAvailableBreached");
  return { type: found?.type, status: found?.status, reason: found?.reason, message: found?.message };
}

describe.each<FullLossPolicy>(["Suppress", "Terminate"])("a group under %s", (policy) => {
  test.each(groupRows)("$fact", (row) => {
    const facts = { minAvailable: row.min, isUpdating: row.updating ?? false, replicas: row.replicas };
    expect(groupBreach(facts, policy)).toEqual({ type: "MinAvailableBreached", ...row[policy] });
  });
  test.each(groupRows)("from the conditions of its PodCliques: $fact", (row) => {
    expect(conditionOfGroup(row, policy)).toEqual({ type: "MinAvailableBreached", ...row[policy] });
  });
});

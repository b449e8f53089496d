/**
 * When the scheduling gate of a pod is removed: not before its gang exists, references this pod by UID and, with the
 * default scheduler, has all its pods. And that a finished pod is replaced.
 */
import { expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import { finalizers, gangGate, labels } from "../../../model/gang/keys.ts";
import { defaultGangSettings } from "../../../model/gang/settings.ts";
import type { PodClique, PodCliqueSet, PodGang } from "../../../model/gang/types.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { type CliqueSnapshot, decideClique, rankForRemoval } from "./decideClique.ts";

const template = { name: "c", spec: { roleName: "c", replicas: 1, minAvailable: 1, podSpec: { containers: [] } } };
const group = { name: "g", cliqueNames: ["c"], replicas: 2, minAvailable: 1 };

const setFor = (schedulerName: string): PodCliqueSet =>
  partly<PodCliqueSet>({
    apiVersion: "grove.io/v1alpha1",
    kind: "PodCliqueSet",
    metadata: { name: "s", namespace: "default", uid: "s" },
    spec: {
      replicas: 1,
      template: {
        cliques: [{ ...template, spec: { ...template.spec, podSpec: { schedulerName, containers: [] } } }],
        podCliqueScalingGroups: [group],
      },
    },
  });

const cliqueOf = (replica: number, scheduledReplicas: number): PodClique =>
  partly<PodClique>({
    apiVersion: "grove.io/v1alpha1",
    kind: "PodClique",
    metadata: {
      name: `s-0-g-${replica}-c`,
      namespace: "default",
      uid: `c${replica}`,
      resourceVersion: "1",
      finalizers: [finalizers.PodClique],
      labels: {
        [labels.setReplica]: "0",
        [labels.group]: "s-0-g",
        [labels.groupReplica]: String(replica),
        [labels.podGang]: replica === 0 ? "s-0" : "s-0-g-0",
        ...(replica > 0 && { [labels.basePodGang]: "s-0" }),
      },
    },
    spec: template.spec,
    status: { scheduledReplicas },
  });

const gangOf = (name: string, clique: string, references: object[], isWhole: boolean): PodGang =>
  ({
    metadata: { name, namespace: "default", uid: name },
    spec: { podgroups: [{ name: clique, minReplicas: 1, podReferences: references }] },
    status: { conditions: [{ type: "Initialized", status: isWhole ? "True" : "False" }] },
  }) as PodGang;

const pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "p",
    namespace: "default",
    uid: "p1",
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
    labels: { [labels.podIndex]: "0" },
  },
  spec: { containers: [], schedulingGates: [{ name: "quota" }, { name: gangGate }] },
} as Pod;

interface Around {
  readonly scheduler?: "default-scheduler" | "kai-scheduler";
  /** Replicas of the group: the first belongs to the base gang, the second is a scaled gang. */
  readonly replica?: number;
  readonly gang?: "missing" | "is empty" | "names another pod of that name" | "names it";
  readonly isWhole?: boolean;
  /** How many of its minimum of one the base gang has scheduled. */
  readonly inBase?: number;
}

function decide({ scheduler = "kai-scheduler", replica = 0, gang = "names it", ...more }: Around, of = pod) {
  const { isWhole = true, inBase = 1 } = more;
  const clique = cliqueOf(replica, 0);
  const uid = gang === "names another pod of that name" ? "p0" : "p1";
  const references = gang === "is empty" ? [] : [{ namespace: "default", name: "p", uid }];
  const own = gangOf(clique.metadata.labels?.[labels.podGang] ?? "", clique.metadata.name, references, isWhole);
  const base = gangOf("s-0", "s-0-g-0-c", [], true);
  const gangs = gang === "missing" ? [] : replica === 0 ? [own] : [own, base];
  const snapshot: CliqueSnapshot = {
    absentAtRevision: () => "1",
    settings: defaultGangSettings,
    clique,
    set: setFor(scheduler),
    pods: [of],
    nodeOf: () => undefined,
    replica: () => ({ cliques: [], groups: [] }),
    isComing: () => false,
    isGone: () => false,
    isTaken: () => false,
    podGangNamed: (name) => gangs.find(({ metadata }) => metadata.name === name),
    cliqueNamed: (name) => (name === "s-0-g-0-c" ? cliqueOf(0, inBase) : undefined),
    claims: [],
    templateNamed: () => undefined,
    tokenSecret: undefined,
    failures: [],
  };
  return decideClique(snapshot, Date.UTC(2026, 0, 1));
}

function gatesLeft(around: Around): unknown {
  const { intents } = decide(around);
  const intent = intents.find((each) => each.type === "patch" && each.target.name === "p");
  return intent?.type === "patch" ? intent.patch["spec"] : "all";
}

/** A gate of another controller stays. */
const lifted = { schedulingGates: [{ name: "quota" }] };

test.each<[string, Around, unknown]>([
  ["its gang names it", {}, lifted],
  ["its gang does not exist", { gang: "missing" }, "all"],
  ["its gang names no pods yet", { gang: "is empty" }, "all"],
  ["its gang references an earlier pod of the same name", { gang: "names another pod of that name" }, "all"],
  ["its gang is incomplete, with a gang scheduler", { isWhole: false }, lifted],
  ["its gang is incomplete, with the default scheduler", { scheduler: "default-scheduler", isWhole: false }, "all"],
  ["its gang is complete, with the default scheduler", { scheduler: "default-scheduler" }, lifted],
  ["the base gang has its minimum scheduled", { replica: 1 }, lifted],
  ["the base gang has less than its minimum scheduled", { replica: 1, inBase: 0 }, "all"],
])("gates of a pod when %s", (_when, around, left) => {
  expect(gatesLeft(around)).toEqual(left);
});

test.each([
  ["Running", []],
  ["Failed", ["p1"]],
  ["Succeeded", ["p1"]],
])("a pod that is %s: which pods are deleted to be replaced", (phase, gone) => {
  const { removals } = decide({}, { ...pod, status: { phase } } as Pod);
  expect(removals.map(({ intent }) => intent.expected.uid)).toEqual(gone);
});

test("scaled in, the pod lost with its node is deleted before pods that run, start or wait for a node", () => {
  const named = (name: string, spec: object, status: object): Pod =>
    ({ ...pod, metadata: { ...pod.metadata, name, uid: name }, spec, status }) as Pod;
  const ready = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
  const pods = [
    named("waits", { containers: [] }, { phase: "Pending" }),
    named("runs", { nodeName: "n0" }, ready),
    named("lost", { nodeName: "n1" }, ready),
    named("starts", { nodeName: "n0" }, { phase: "Pending" }),
  ];
  const order = rankForRemoval(pods, cliqueOf(0, 0), ({ metadata }) => metadata.name === "lost");
  expect(order.map(({ metadata }) => metadata.name)).toEqual(["lost", "waits", "starts", "runs"]);
});

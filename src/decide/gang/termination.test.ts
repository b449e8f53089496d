/** The second read before a gang is terminated: the state of the pods now, and since when the breach is recorded. */
import { expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import { labels } from "../../model/gang/keys.ts";
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { GangDraft } from "./gangDraft.ts";
import { removeRecorded } from "./groups/decideGroup.ts";
import type { GroupReplica } from "./groups/groupFacts.ts";
import {
  type FreshReplica,
  judgeGroupReplicas,
  judgeSetReplica,
  recheckGroupReplica,
  recheckSetReplica,
} from "./termination.ts";

const nowMs = Date.UTC(2026, 0, 1, 12);
const longAgo = "2026-01-01T02:00:00Z";
const justNow = "2026-01-01T11:59:00Z";

/** Two cliques of two pods with a minimum of two; the termination delay is four hours. */
const set = {
  metadata: { name: "s", namespace: "default", uid: "s" },
  spec: {
    replicas: 1,
    template: { terminationDelay: "4h", cliques: ["a", "b"].map((name) => ({ name, spec: { minAvailable: 2 } })) },
  },
} as PodCliqueSet;

interface Told {
  /** The condition, and its age. */
  readonly breach: "True" | "False";
  readonly since: string;
  /** How many pods have a node now. */
  readonly scheduled: number;
}

const clique = (name: string, { breach, since }: Told): PodClique =>
  partly<PodClique>({
    metadata: { name: `s-0-${name}`, namespace: "default", uid: name, labels: { [labels.setReplica]: "0" } },
    spec: { replicas: 2, minAvailable: 2 },
    status: {
      everScheduled: true,
      conditions: [
        { type: "MinAvailableBreached", status: breach, reason: "r", message: "", lastTransitionTime: since },
      ],
    },
  });

const pods = (name: string, { scheduled }: Told): Pod[] =>
  Array.from(
    { length: scheduled },
    (_, index) =>
      ({
        metadata: { name: `${name}${index}`, ownerReferences: [{ uid: name, controller: true }] },
        status: { conditions: [{ type: "PodScheduled", status: "True" }] },
      }) as Pod,
  );

const look = (a: Told, b: Told, policy: FullLossPolicy): unknown => {
  const fresh: FreshReplica = {
    set,
    setReplica: 0,
    groups: [],
    cliques: [clique("a", a), clique("b", b)],
    pods: [...pods("a", a), ...pods("b", b)],
    nodeOf: () => undefined,
  };
  const verdict = recheckSetReplica(fresh, policy, nowMs);
  return "noLongerDue" in verdict ? "goes on" : `ends: ${verdict.because}`;
};

const well: Told = { breach: "False", since: longAgo, scheduled: 2 };

test.each([null, ""])("a breach whose time is %j ends nothing", (since) => {
  const cliques = [clique("a", { breach: "True", since: since as string, scheduled: 1 }), clique("b", well)];
  const verdict = judgeSetReplica({ set, setReplica: 0, groups: [], cliques }, "Suppress", nowMs);
  expect(verdict).toEqual({ verdict: "calm" });
});

test.each<{ fact: string; a: Told; b?: Told; ends: Record<FullLossPolicy, boolean> }>([
  {
    fact: "below for longer than the delay",
    a: { breach: "True", since: longAgo, scheduled: 1 },
    ends: { Suppress: true, Terminate: true },
  },
  {
    fact: "below for less than the delay",
    a: { breach: "True", since: justNow, scheduled: 1 },
    ends: { Suppress: false, Terminate: false },
  },
  {
    fact: "recovered, and its condition is not updated yet",
    a: { breach: "True", since: longAgo, scheduled: 2 },
    ends: { Suppress: false, Terminate: false },
  },
  {
    fact: "lost the rest of its pods, and its condition is not updated yet",
    a: { breach: "True", since: longAgo, scheduled: 0 },
    ends: { Suppress: false, Terminate: true },
  },
  {
    fact: "recovered while another one fell below its minimum: the delay of that one has only begun",
    a: { breach: "True", since: longAgo, scheduled: 2 },
    b: { breach: "False", since: longAgo, scheduled: 1 },
    ends: { Suppress: false, Terminate: false },
  },
])("$fact", ({ a, b = well, ends }) => {
  for (const policy of ["Suppress", "Terminate"] as const) {
    expect(look(a, b, policy), policy).toMatch(ends[policy] ? /^ends: s-0-a has been below/ : /^goes on$/);
  }
});

const below: Told = { breach: "True", since: longAgo, scheduled: 1 };
const leaving = "2026-01-01T11:59:30Z";

test.each<[string, PodCliqueSet]>([
  ["its set is terminating", { ...set, metadata: { ...set.metadata, deletionTimestamp: leaving } }],
  ["its set is scaled in", { ...set, spec: { ...set.spec, replicas: 0 } }],
])("a replica is not terminated, but deleted by the set's reconcile, when %s", (_why, changed) => {
  const cliques = [clique("a", below), clique("b", well)];
  const all = [...pods("a", below), ...pods("b", well)];
  const fresh = { set: changed, setReplica: 0, groups: [], cliques, pods: all, nodeOf: () => undefined };
  expect(recheckSetReplica(fresh, "Suppress", nowMs)).toHaveProperty("noLongerDue");
});

test("a replica whose termination is recorded is not recorded again with other cliques", () => {
  const record = { replicaIndex: 0, startedAt: longAgo, because: "s-0-a", podCliques: [] };
  const recorded = { ...set, status: { ...set.status, gangTerminations: [record] } } as PodCliqueSet;
  const cliques = [clique("a", below), clique("b", well)];
  const all = [...pods("a", below), ...pods("b", well)];
  const fresh = { set: recorded, setReplica: 0, groups: [], cliques, pods: all, nodeOf: () => undefined };
  expect(recheckSetReplica(fresh, "Suppress", nowMs)).toEqual({ noLongerDue: "its termination is recorded already" });
});

test.each<{ node: string; status: string | undefined; ends: boolean }>([
  { node: "is still unreachable", status: "Unknown", ends: true },
  { node: "is gone", status: undefined, ends: true },
  { node: "answers again", status: "True", ends: false },
])("a gang whose node was lost, and $node at the second read", ({ status, ends }) => {
  const conditions = [{ type: "Ready", status, lastTransitionTime: longAgo }];
  const lost = status === undefined ? "gone" : ({ metadata: { name: "n" }, status: { conditions } } as Node);
  const cliques = [clique("a", { ...below, scheduled: 2 }), clique("b", well)];
  const [first, ...others] = [...pods("a", { ...below, scheduled: 2 }), ...pods("b", well)];
  const onNode = { ...first, spec: { nodeName: "n", containers: [] } } as Pod;
  const nodeOf = (pod: Pod) => (pod.spec?.nodeName === "n" ? lost : undefined);
  const fresh: FreshReplica = { set, setReplica: 0, groups: [], cliques, pods: [onNode, ...others], nodeOf };
  expect("noLongerDue" in recheckSetReplica(fresh, "Suppress", nowMs)).toBe(!ends);
});

/** A group of two replicas of one clique of two pods; the first replica has had one pod for a long time. */
const recheckGroup = (changes: { group?: object; set?: object; scheduled?: number; ending?: number }): string => {
  const first = { ...below, ...(changes.scheduled !== undefined && { scheduled: changes.scheduled }) };
  const template = { name: "g", cliqueNames: ["m"], replicas: 2, minAvailable: 1 };
  const grouped = {
    ...set,
    metadata: { ...set.metadata, ...changes.set },
    spec: {
      ...set.spec,
      template: { ...set.spec.template, cliques: [{ name: "m", spec: {} }], podCliqueScalingGroups: [template] },
    },
  } as PodCliqueSet;
  const group = {
    metadata: { name: "s-0-g", namespace: "default", uid: "g", labels: { [labels.setReplica]: "0" }, generation: 2 },
    spec: { cliqueNames: ["m"], replicas: 2, minAvailable: 1 },
    status: {
      observedGeneration: 2,
      ...(changes.ending !== undefined && { gangTerminations: [{ replicaIndex: changes.ending, podCliques: [] }] }),
    },
  };
  const member = (index: number, told: Told): PodClique => {
    const one = clique(`g-${index}-m`, told);
    const marks = { ...one.metadata.labels, [labels.group]: "s-0-g", [labels.groupReplica]: String(index) };
    return { ...one, metadata: { ...one.metadata, labels: marks } } as PodClique;
  };
  const fresh: FreshReplica = {
    set: grouped,
    setReplica: 0,
    groups: [partly<PodCliqueScalingGroup>({ ...group, metadata: { ...group.metadata, ...changes.group } })],
    cliques: [member(0, below), member(1, well)],
    pods: [...pods("g-0-m", first), ...pods("g-1-m", well)],
    nodeOf: () => undefined,
  };
  const verdict = recheckGroupReplica(fresh, { groupName: "s-0-g", index: 0, policy: "Suppress" }, nowMs);
  return "noLongerDue" in verdict ? verdict.noLongerDue : `ends ${verdict.podCliques.map(({ name }) => name).join()}`;
};

test.each<[string, Parameters<typeof recheckGroup>[0], string]>([
  ["is terminated alone when the other one is enough", {}, "ends s-0-g-0-m"],
  [
    "is not terminated when its pods are back and its condition is not updated yet",
    { scheduled: 2 },
    "the replica has recovered, or too few others are left",
  ],
  ["is terminated while another one is", { ending: 1 }, "ends s-0-g-0-m"],
  ["is recorded once", { ending: 0 }, "its termination is recorded already"],
  ["is deleted with its group", { group: { deletionTimestamp: leaving, generation: 3 } }, "the group does not exist"],
  ["is deleted with its set", { set: { deletionTimestamp: leaving } }, "the set has fewer replicas"],
  [
    "waits until the group's status is of its current generation",
    { group: { generation: 3 } },
    "the group has changed and is reconciled first",
  ],
])("a replica of a group %s", (_fact, changes, verdict) => {
  expect(recheckGroup(changes)).toBe(verdict);
});

const within = "2026-01-01T09:00:00Z";

/** The condition of a clique or group that is in breach since a given time. */
const inBreach = <T extends PodClique | PodCliqueScalingGroup>(object: T, since: string, status: object): T => {
  const breach = { type: "MinAvailableBreached", status: "True", reason: "r", message: "", lastTransitionTime: since };
  return { ...object, status: { ...object.status, conditions: [breach], ...status } };
};
const [cliqueA, cliqueB] = [clique("a", well), clique("b", well)];
const aGroup = partly<PodCliqueScalingGroup>({
  metadata: { name: "s-0-g", namespace: "default", uid: "g", labels: { [labels.setReplica]: "0" } },
  spec: { cliqueNames: ["m"], replicas: 2, minAvailable: 1 },
});

const verdictOf = (
  cliques: readonly PodClique[],
  groups: readonly PodCliqueScalingGroup[],
  policy: FullLossPolicy,
): string => {
  const verdict = judgeSetReplica({ set, setReplica: 0, groups, cliques }, policy, nowMs);
  return verdict.verdict === "wait" ? `waits until ${new Date(verdict.untilMs).toISOString()}` : verdict.verdict;
};

test.each<{ fact: string; cliques: PodClique[]; groups?: PodCliqueScalingGroup[]; is: Record<FullLossPolicy, string> }>(
  [
    { fact: "all is well", cliques: [cliqueA, cliqueB], is: { Suppress: "calm", Terminate: "calm" } },
    {
      fact: "the breach that has lasted longest decides, whichever comes first",
      cliques: [inBreach(cliqueA, justNow, {}), inBreach(cliqueB, within, {})],
      is: { Suppress: "waits until 2026-01-01T13:00:00.000Z", Terminate: "waits until 2026-01-01T13:00:00.000Z" },
    },
    {
      fact: "no replica is judged while a clique of its own is missing",
      cliques: [inBreach(cliqueA, longAgo, {})],
      is: { Suppress: "calm", Terminate: "calm" },
    },
    {
      fact: "no replica is judged while a clique of its own is terminating",
      cliques: [
        inBreach(cliqueA, longAgo, {}),
        { ...cliqueB, metadata: { ...cliqueB.metadata, deletionTimestamp: justNow } } as PodClique,
      ],
      is: { Suppress: "calm", Terminate: "calm" },
    },
    {
      fact: "under Terminate a clique that never had its minimum has not started",
      cliques: [inBreach(cliqueA, longAgo, { everScheduled: false }), cliqueB],
      is: { Suppress: "end", Terminate: "calm" },
    },
    {
      fact: "under Terminate a group that was never healthy has not started",
      cliques: [cliqueA, cliqueB],
      groups: [inBreach(aGroup, longAgo, {})],
      is: { Suppress: "end", Terminate: "calm" },
    },
    {
      fact: "a group that was healthy is terminated",
      cliques: [cliqueA, cliqueB],
      groups: [inBreach(aGroup, longAgo, { everHealthy: true })],
      is: { Suppress: "end", Terminate: "end" },
    },
    {
      fact: "a group that was terminated and has not recovered is not terminated again",
      cliques: [cliqueA, cliqueB],
      groups: [
        inBreach(aGroup, longAgo, {
          everHealthy: true,
          conditions: [
            { type: "MinAvailableBreached", status: "True", reason: "r", message: "", lastTransitionTime: longAgo },
            {
              type: "GangTerminationInProgress",
              status: "True",
              reason: "r",
              message: "",
              lastTransitionTime: longAgo,
            },
          ],
        }),
      ],
      is: { Suppress: "end", Terminate: "calm" },
    },
  ],
)("a replica of a set: $fact", ({ cliques, groups = [], is }) => {
  for (const policy of ["Suppress", "Terminate"] as const) {
    expect(verdictOf(cliques, groups, policy), policy).toBe(is[policy]);
  }
});

/** Which of three replicas of a group with a minimum of two are terminated, or wait, by themselves. */
const judged = (since: readonly (string | undefined)[], status: object = {}): string[] => {
  const group = { ...aGroup, spec: { ...aGroup.spec, replicas: 3, minAvailable: 2 }, status } as PodCliqueScalingGroup;
  const replicas = since.map((at, index) => {
    const member = clique(`g-${index}-m`, well);
    return partly<GroupReplica>({ index, cliques: [at === undefined ? member : inBreach(member, at, {})] });
  });
  return judgeGroupReplicas(group, replicas, { set, policy: "Suppress" }, nowMs).map(
    ({ index, verdict }) => `${index} ${verdict.verdict}`,
  );
};

test.each<[string, string[], string[]]>([
  ["one of three is terminated alone", judged([undefined, longAgo, undefined]), ["1 end"]],
  ["one of three waits alone", judged([undefined, undefined, within]), ["2 wait"]],
  ["two of three leave too few: the set replica is judged instead", judged([longAgo, undefined, within]), []],
  [
    "no replica is judged while the group is updated",
    judged([undefined, longAgo, undefined], { updateProgress: { updateStartedAt: within } }),
    [],
  ],
])("replicas of a group that needs two: %s", (_fact, is, expected) => {
  expect(is).toEqual(expected);
});

test("recorded cliques are deleted by UID: a clique created since stays, and the record ends", () => {
  const record = { replicaIndex: 0, startedAt: longAgo, because: "why", podCliques: [{ name: "s-0-a", uid: "a" }] };
  const take = (uid: string) => {
    const draft = new GangDraft(() => "1");
    const one = { ...cliqueA, apiVersion: "grove.io/v1alpha1", kind: "PodClique" };
    const known = { ...one, metadata: { ...one.metadata, uid, resourceVersion: "7" } } as PodClique;
    let over = 0;
    const open = removeRecorded(draft, [record], [known], () => over++);
    return { goes: draft.removals.map(({ intent }) => intent.expected.uid), open: open.length, over };
  };
  expect(take("a")).toEqual({ goes: ["a"], open: 1, over: 0 });
  expect(take("made-since")).toEqual({ goes: [], open: 0, over: 1 });
});

/** The second look before a gang ends: what pods say now, and since when that is on record. */
import { expect, test } from "vitest";
import { labels } from "../../model/gang/keys.ts";
import type { FullLossPolicy } from "../../model/gang/settings.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet } from "../../model/gang/types.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { type FreshReplica, recheckGroupReplica, recheckSetReplica } from "./termination.ts";

const nowMs = Date.UTC(2026, 0, 1, 12);
const longAgo = "2026-01-01T02:00:00Z";
const justNow = "2026-01-01T11:59:00Z";

/** Two cliques of two pods of which both are needed; a gang ends after four hours. */
const set = {
  metadata: { name: "s", namespace: "default", uid: "s" },
  spec: {
    replicas: 1,
    template: { terminationDelay: "4h", cliques: ["a", "b"].map((name) => ({ name, spec: { minAvailable: 2 } })) },
  },
} as unknown as PodCliqueSet;

interface Told {
  /** What the condition says, and since when. */
  readonly breach: "True" | "False";
  readonly since: string;
  /** How many pods have a node now. */
  readonly scheduled: number;
}

const clique = (name: string, { breach, since }: Told): PodClique =>
  ({
    metadata: { name: `s-0-${name}`, namespace: "default", uid: name, labels: { [labels.setReplica]: "0" } },
    spec: { replicas: 2, minAvailable: 2 },
    status: {
      everScheduled: true,
      conditions: [
        { type: "MinAvailableBreached", status: breach, reason: "r", message: "", lastTransitionTime: since },
      ],
    },
  }) as unknown as PodClique;

const pods = (name: string, { scheduled }: Told): Pod[] =>
  Array.from(
    { length: scheduled },
    (_, index) =>
      ({
        metadata: { name: `${name}${index}`, ownerReferences: [{ uid: name, controller: true }] },
        status: { conditions: [{ type: "PodScheduled", status: "True" }] },
      }) as unknown as Pod,
  );

const look = (a: Told, b: Told, policy: FullLossPolicy): unknown => {
  const fresh: FreshReplica = {
    set,
    setReplica: 0,
    groups: [],
    cliques: [clique("a", a), clique("b", b)],
    pods: [...pods("a", a), ...pods("b", b)],
  };
  const verdict = recheckSetReplica(fresh, policy, nowMs);
  return "notAnyMore" in verdict ? "goes on" : `ends: ${verdict.because}`;
};

const well: Told = { breach: "False", since: longAgo, scheduled: 2 };

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
    fact: "recovered, and its condition does not say so yet",
    a: { breach: "True", since: longAgo, scheduled: 2 },
    ends: { Suppress: false, Terminate: false },
  },
  {
    fact: "lost the rest of it, and its condition does not say so yet",
    a: { breach: "True", since: longAgo, scheduled: 0 },
    ends: { Suppress: false, Terminate: true },
  },
  {
    fact: "recovered while another one fell below this moment: that one's time has only begun",
    a: { breach: "True", since: longAgo, scheduled: 2 },
    b: { breach: "False", since: longAgo, scheduled: 1 },
    ends: { Suppress: false, Terminate: false },
  },
])("$fact", ({ a, b = well, ends }) => {
  for (const policy of ["Suppress", "Terminate"] as const) {
    expect(look(a, b, policy), policy).toMatch(ends[policy] ? /^ends: s-0-a has had less/ : /^goes on$/);
  }
});

const below: Told = { breach: "True", since: longAgo, scheduled: 1 };
const leaving = "2026-01-01T11:59:30Z";

test.each<[string, PodCliqueSet]>([
  ["its set is going", { ...set, metadata: { ...set.metadata, deletionTimestamp: leaving } }],
  ["its set asks for fewer replicas", { ...set, spec: { ...set.spec, replicas: 0 } }],
])("a replica goes on, and is taken away by others, when %s", (_why, changed) => {
  const cliques = [clique("a", below), clique("b", well)];
  const fresh = { set: changed, setReplica: 0, groups: [], cliques, pods: [...pods("a", below), ...pods("b", well)] };
  expect(recheckSetReplica(fresh, "Suppress", nowMs)).toHaveProperty("notAnyMore");
});

/** A group of two replicas of one clique of two pods; the first has had one pod for long. */
const lookAtGroup = (changes: { group?: object; set?: object }): string => {
  const template = { name: "g", cliqueNames: ["m"], replicas: 2, minAvailable: 1 };
  const grouped = {
    ...set,
    metadata: { ...set.metadata, ...changes.set },
    spec: {
      ...set.spec,
      template: { ...set.spec.template, cliques: [{ name: "m", spec: {} }], podCliqueScalingGroups: [template] },
    },
  } as unknown as PodCliqueSet;
  const group = {
    metadata: { name: "s-0-g", namespace: "default", uid: "g", labels: { [labels.setReplica]: "0" }, generation: 2 },
    spec: { cliqueNames: ["m"], replicas: 2, minAvailable: 1 },
    status: { observedGeneration: 2 },
  };
  const member = (index: number, told: Told): PodClique => {
    const one = clique(`g-${index}-m`, told);
    const marks = { ...one.metadata.labels, [labels.group]: "s-0-g", [labels.groupReplica]: String(index) };
    return { ...one, metadata: { ...one.metadata, labels: marks } } as PodClique;
  };
  const fresh: FreshReplica = {
    set: grouped,
    setReplica: 0,
    groups: [{ ...group, metadata: { ...group.metadata, ...changes.group } } as unknown as PodCliqueScalingGroup],
    cliques: [member(0, below), member(1, well)],
    pods: [...pods("g-0-m", below), ...pods("g-1-m", well)],
  };
  const verdict = recheckGroupReplica(fresh, { groupName: "s-0-g", index: 0, policy: "Suppress" }, nowMs);
  return "notAnyMore" in verdict ? verdict.notAnyMore : `ends ${verdict.podCliques.map(({ name }) => name).join()}`;
};

test.each<[string, Parameters<typeof lookAtGroup>[0], string]>([
  ["ends alone when the other is enough", {}, "ends s-0-g-0-m"],
  ["goes with its group", { group: { deletionTimestamp: leaving, generation: 3 } }, "the group is gone"],
  ["goes with its set", { set: { deletionTimestamp: leaving } }, "the replica of the set is not asked for"],
  [
    "waits until the group's status is of the group as it is",
    { group: { generation: 3 } },
    "the group has changed, and is looked at first",
  ],
])("a replica of a group %s", (_fact, changes, verdict) => {
  expect(lookAtGroup(changes)).toBe(verdict);
});

/** Which replica of a set is updated next: one at a time, and the one with the fewest healthy pods first. */
import { expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { PodClique, PodCliqueSet } from "../../../model/gang/types.ts";
import { nextProgress } from "./setUpdate.ts";

const nowMs = Date.UTC(2026, 0, 1);
const now = "2026-01-01T00:00:00Z";
const set = partly<PodCliqueSet>({
  metadata: { name: "s", namespace: "default", uid: "s" },
  spec: {
    replicas: 3,
    template: { cliques: [{ name: "c", spec: { replicas: 2, minAvailable: 2, podSpec: { containers: [] } } }] },
  },
  status: { currentGenerationHash: "mu-new" },
});

type State = "well" | "in breach" | "without a node";

/** A replica whose only clique is of an older template. */
const old = (index: number, state: State) => {
  const conditions = [
    { type: "MinAvailableBreached", status: state === "in breach" ? ("True" as const) : ("False" as const) },
  ];
  const scheduledReplicas = { well: 2, "in breach": 1, "without a node": 0 }[state];
  const clique = partly<PodClique>({
    metadata: { name: `s-${index}-c` },
    spec: {},
    status: { conditions, scheduledReplicas },
  });
  return { index, cliques: [clique], groups: [] };
};

const progress = { updateStartedAt: now };

test.each<[string, State[], number]>([
  ["a replica without scheduled pods comes first", ["well", "in breach", "without a node"], 2],
  ["a replica in breach comes next", ["well", "well", "in breach"], 2],
  ["then by index", ["well", "well", "well"], 0],
])("%s", (_why, states, next) => {
  const { currentlyUpdating } = nextProgress(
    set,
    progress,
    states.map((state, index) => old(index, state)),
    nowMs,
  );
  expect(currentlyUpdating).toEqual([{ replicaIndex: next, updateStartedAt: now }]);
});

test("the replica that is being updated is finished first, whatever the state of the others", () => {
  const running = { ...progress, currentlyUpdating: [{ replicaIndex: 1, updateStartedAt: now }] };
  const replicas = [old(0, "without a node"), old(1, "well"), old(2, "in breach")];
  expect(nextProgress(set, running, replicas, nowMs)).toEqual(running);
});

test("a replica beyond the spec does not block the update", () => {
  const running = { ...progress, currentlyUpdating: [{ replicaIndex: 3, updateStartedAt: now }] };
  expect(nextProgress(set, running, [old(0, "well"), old(3, "well")], nowMs).currentlyUpdating).toEqual([
    { replicaIndex: 0, updateStartedAt: now },
  ]);
  expect(nextProgress(set, running, [old(3, "well")], nowMs)).toEqual({ ...progress, updateEndedAt: now });
});

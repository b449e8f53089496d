/**
 * When the Event `AllScheduledReplicasLost` is written, and when not: the table of the founding document, and crashes
 * in between.
 */
import { describe, expect, test } from "vitest";
import type { FullLossPolicy } from "../../../model/gang/settings.ts";
import type { ScheduleLoss } from "../../../model/gang/types.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { GangDraft } from "../gangDraft.ts";
import { lossEventName, recordLoss } from "./scheduleLoss.ts";

const nowMs = Date.UTC(2026, 0, 1);
type Stored = KubeObject & { status?: { scheduledReplicas?: number; scheduleLoss?: ScheduleLoss } };

type Kind = "PodClique" | "PodCliqueScalingGroup";

const object = (status?: Stored["status"], kind: Kind = "PodClique"): Stored =>
  ({
    apiVersion: "grove.io/v1alpha1",
    kind,
    metadata: { name: "c", namespace: "default", uid: "u1", resourceVersion: "1" },
    ...(status && { status }),
  }) as Stored;

const facts = (scheduled: number, policy: FullLossPolicy) => ({
  scheduled,
  policy,
  isReplaced: false,
  isEnding: () => false,
});

/**
 * Reconciles of the same object, one after the other; a null is a crash of the operator before the status is written.
 */
function play(counts: readonly (number | null)[], policy: FullLossPolicy, kind: Kind): string[] {
  const told: string[] = [];
  let stored = object(undefined, kind);
  let isDying = false;
  for (const count of counts) {
    if (count === null) {
      isDying = true;
      continue;
    }
    const draft = new GangDraft(() => "1");
    const loss = recordLoss(draft, stored, facts(count, policy), nowMs);
    for (const { name, type, reason, regarding } of draft.announcements) {
      expect({ type, reason, kind: regarding.kind }).toEqual({
        type: "Warning",
        reason: "AllScheduledReplicasLost",
        kind,
      });
      if (!told.includes(name)) told.push(name);
    }
    if (!isDying) stored = object({ scheduledReplicas: count, ...(loss && { scheduleLoss: loss }) }, kind);
    isDying = false;
  }
  return told;
}

describe.each<{ kind: Kind; policy: FullLossPolicy }>([
  { kind: "PodClique", policy: "Suppress" },
  { kind: "PodClique", policy: "Terminate" },
  { kind: "PodCliqueScalingGroup", policy: "Suppress" },
  { kind: "PodCliqueScalingGroup", policy: "Terminate" },
])("$kind under $policy", ({ kind, policy }) => {
  test.each<{ fact: string; counts: (number | null)[]; told: number }>([
    { fact: "some, then none: announced", counts: [3, 0, 0], told: 1 },
    { fact: "none, then none: no Event", counts: [0, 0, 0], told: 0 },
    { fact: "some, then fewer: no Event", counts: [3, 1, 1], told: 0 },
    { fact: "some, then as many: no Event", counts: [3, 3, 3], told: 0 },
    { fact: "some, then more: no Event", counts: [1, 3, 3], told: 0 },
    { fact: "none, then some: no Event", counts: [0, 3, 3], told: 0 },
    { fact: "none for long: announced once", counts: [2, 0, 0, 0, 0, 0], told: 1 },
    { fact: "lost, back, lost again: announced twice", counts: [2, 0, 0, 2, 0, 0], told: 2 },
    { fact: "lost, back and lost again before an Event was written: two Events", counts: [2, 0, 2, 0, 0], told: 2 },
    {
      fact: "a crash before the loss is recorded: the next operator finds and announces it",
      counts: [2, null, 0, 0, 0],
      told: 1,
    },
    {
      fact: "a crash after the Event and before the announcement is recorded: announced once",
      counts: [2, 0, null, 0, 0, 0],
      told: 1,
    },
    { fact: "a crash at every step: announced once", counts: [2, null, 0, 0, null, 0, null, 0, 0], told: 1 },
  ])("$fact", ({ counts, told }) => {
    expect(play(counts, policy, kind)).toHaveLength(told);
  });
});

test("the Event has the number of lost replicas, and whether a termination follows", () => {
  const stored = object({ scheduledReplicas: 0, scheduleLoss: { count: 1, replicas: 3, at: "T", announced: 0 } });
  const note = (policy: FullLossPolicy, isEnding: boolean): unknown => {
    const draft = new GangDraft(() => "1");
    recordLoss(draft, stored, { ...facts(0, policy), isEnding: () => isEnding }, nowMs);
    return draft.announcements;
  };
  expect(note("Suppress", false)).toMatchObject([
    { type: "Warning", reason: "AllScheduledReplicasLost", note: expect.stringMatching(/the last 3 .* suppressed/) },
  ]);
  for (const policy of ["Suppress", "Terminate"] as const) {
    expect(note(policy, true)).toMatchObject([
      { note: expect.stringMatching(/the last 3 .* follows after the termination delay/) },
    ]);
  }
  expect(note("Terminate", false)).toMatchObject([{ note: expect.stringMatching(/the last 3 .* does not follow/) }]);
});

test("an announced loss is recorded as announced, and its Event is not created again when it has expired", () => {
  const loss = { count: 2, replicas: 3, at: "T", announced: 1 };
  const draft = new GangDraft(() => "1");
  const told = { ...loss, announced: 2 };
  expect(recordLoss(draft, object({ scheduledReplicas: 0, scheduleLoss: loss }), facts(0, "Suppress"), nowMs)).toEqual(
    told,
  );
  expect(draft.announcements).toHaveLength(1);
  const later = new GangDraft(() => "1");
  recordLoss(later, object({ scheduledReplicas: 0, scheduleLoss: told }), facts(0, "Suppress"), nowMs);
  expect(later.announcements).toEqual([]);
});

test("the loss of another clique of the same name is a different loss", () => {
  const loss = { count: 1, replicas: 3, at: "T", announced: 0 };
  const other = { ...object(), metadata: { ...object().metadata, uid: "u2" } };
  expect(lossEventName(other, loss)).not.toBe(lossEventName(object(), loss));
  expect(lossEventName(object(), { ...loss, count: 2 })).not.toBe(lossEventName(object(), loss));
});

test("pods that an update deletes are no loss", () => {
  const draft = new GangDraft(() => "1");
  const stored = object({ scheduledReplicas: 1 });
  expect(recordLoss(draft, stored, { ...facts(0, "Suppress"), isReplaced: true }, nowMs)).toBeUndefined();
});

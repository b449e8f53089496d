/** The termination delay counts from the condition's lastTransitionTime, which changes only with the status. */
import { expect, test } from "vitest";
import type { GangCondition } from "../../../model/gang/types.ts";
import { type ConditionContent, withCondition, withoutCondition } from "./gangConditions.ts";

const createdMs = Date.UTC(2026, 0, 1);
const [born, later] = ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"];
const condition = (status: ConditionContent["status"], reason: string, message: string): ConditionContent => ({
  type: "MinAvailableBreached",
  status,
  reason,
  message,
});
const below = condition("True", "ScheduledReplicasBelowMinAvailable", "Scheduled replicas (1) below MinAvailable (3)");
const other: GangCondition = { ...condition("True", "r", "m"), type: "PodCliqueScheduled", lastTransitionTime: born };

test.each<[string, ConditionContent, string]>([
  ["the same condition again: it stays", below, born],
  [
    "one more pod is back and there are still too few: it stays",
    { ...below, message: "Scheduled replicas (2) ..." },
    born,
  ],
  [
    "all are scheduled and too few are ready: it stays",
    condition("True", "InsufficientReadyPods", "Too few pods"),
    born,
  ],
  ["a recovery moves it", condition("False", "SufficientReadyPods", "Enough pods"), later],
  ["an update moves it", condition("Unknown", "UpdateInProgress", "An update is in progress"), later],
])("the time of a breach when %s", (_fact, next, at) => {
  const before = withCondition([other], below, createdMs);
  expect(withCondition(before, next, createdMs + 3_600_000)).toEqual([other, { ...next, lastTransitionTime: at }]);
});

test.each([null, "", "yesterday"])("a condition whose time is %j begins now", (lastTransitionTime) => {
  const before = [{ ...below, lastTransitionTime } as GangCondition];
  expect(withCondition(before, below, createdMs)).toEqual([{ ...below, lastTransitionTime: born }]);
});

test("removing a condition keeps the others", () => {
  expect(withoutCondition(withCondition([other], below, createdMs), "MinAvailableBreached")).toEqual([other]);
});

test("a new generation is recorded, and the time stays", () => {
  const conditions = withCondition(
    [{ ...below, lastTransitionTime: born }],
    { ...below, observedGeneration: 2 },
    createdMs + 3_600_000,
  );
  expect(conditions).toEqual([{ ...below, observedGeneration: 2, lastTransitionTime: born }]);
  expect(withCondition(conditions, below, createdMs + 3_600_000)).toEqual(conditions);
});

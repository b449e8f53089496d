/** The time of a condition is what a termination waits from: it moves with the status and with nothing else. */
import { expect, test } from "vitest";
import type { GangCondition } from "../../../model/gang/types.ts";
import { type Said, withCondition, withoutCondition } from "./gangConditions.ts";

const bornMs = Date.UTC(2026, 0, 1);
const [born, later] = ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"];
const said = (status: Said["status"], reason: string, message: string): Said => ({
  type: "MinAvailableBreached",
  status,
  reason,
  message,
});
const below = said("True", "ScheduledReplicasBelowMinAvailable", "Scheduled replicas (1) below MinAvailable (3)");
const other: GangCondition = { ...said("True", "r", "m"), type: "PodCliqueScheduled", lastTransitionTime: born };

test.each<[string, Said, string]>([
  ["nothing else is said: it stays", below, born],
  ["one more came back and it is still too few: it stays", { ...below, message: "Scheduled replicas (2) ..." }, born],
  ["all are scheduled and too few are ready: it stays", said("True", "InsufficientReadyPods", "Too few pods"), born],
  ["a recovery moves it", said("False", "SufficientReadyPods", "Enough pods"), later],
  ["an update moves it", said("Unknown", "UpdateInProgress", "An update is in progress"), later],
])("the time of a breach when %s", (_fact, next, at) => {
  const before = withCondition([other], below, bornMs);
  expect(withCondition(before, next, bornMs + 3_600_000)).toEqual([other, { ...next, lastTransitionTime: at }]);
});

test("a condition that is taken away leaves the others", () => {
  expect(withoutCondition(withCondition([other], below, bornMs), "MinAvailableBreached")).toEqual([other]);
});

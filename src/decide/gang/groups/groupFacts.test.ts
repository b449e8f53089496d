import { describe, expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { GangTermination, PodClique } from "../../../model/gang/types.ts";
import { scheduledType } from "../breach.ts";
import { type GroupReplica, hasLostClique } from "./groupFacts.ts";

const clique = (uid: string, everScheduled: boolean, isScheduled: boolean): PodClique =>
  partly<PodClique>({
    metadata: { name: uid, uid },
    status: { everScheduled, conditions: [{ type: scheduledType, status: isScheduled ? "True" : "False" }] },
  });

const replica = (...cliques: PodClique[]): GroupReplica => ({
  index: 0,
  cliques,
  isComplete: true,
  isScheduled: false,
  isBreached: false,
  isAvailable: false,
  isUpdated: false,
  isOld: false,
});

const termination = (...uids: string[]): GangTermination =>
  partly<GangTermination>({ replicaIndex: 0, podCliques: uids.map((uid) => ({ name: uid, uid })) });

describe("a group has lost a clique", () => {
  test.each<{ fact: string; cliques: PodClique[]; terminations: GangTermination[]; isLost: boolean }>([
    { fact: "when one was scheduled and is not", cliques: [clique("a", true, false)], terminations: [], isLost: true },
    { fact: "not when it is scheduled", cliques: [clique("a", true, true)], terminations: [], isLost: false },
    { fact: "not when it was never scheduled", cliques: [clique("a", false, false)], terminations: [], isLost: false },
    { fact: "not when none is left", cliques: [], terminations: [], isLost: false },
    {
      fact: "not when a termination deletes it",
      cliques: [clique("a", true, false), clique("b", true, false)],
      terminations: [termination("a", "b")],
      isLost: false,
    },
    {
      fact: "when a termination deletes another one",
      cliques: [clique("a", true, false), clique("b", true, false)],
      terminations: [termination("a")],
      isLost: true,
    },
  ])("$fact", ({ cliques, terminations, isLost }) => {
    expect(hasLostClique([replica(...cliques)], terminations)).toBe(isLost);
  });
});

import { describe, expect, test } from "vitest";
import {
  gangCliquesMax,
  gangPodsMax,
  gangProblem,
  groupReplicasInReach,
  limitOf,
  podsInReach,
  replicasInReach,
} from "./reach.ts";
import type { CliqueTemplate, GroupTemplate, PodCliqueSet } from "./types.ts";

const most = 2_147_483_647;

interface Counts {
  readonly replicas: number;
  readonly minAvailable?: number;
}

function setOf(
  replicas: number,
  cliques: Record<string, Counts>,
  groups: Record<string, Counts & { members: string[] }> = {},
): PodCliqueSet {
  return {
    metadata: { name: "s" },
    spec: {
      replicas,
      template: {
        cliques: Object.entries(cliques).map(([name, spec]) => ({ name, spec }) as CliqueTemplate),
        podCliqueScalingGroups: Object.entries(groups).map(
          ([name, { members, ...counts }]) => ({ name, cliqueNames: members, ...counts }) as GroupTemplate,
        ),
      },
    },
  } as PodCliqueSet;
}

/** The most pods that are made for all of it. */
function podsIn(set: PodCliqueSet): number {
  const { cliques, podCliqueScalingGroups: groups = [] } = set.spec.template;
  const grouped = new Map(groups.flatMap((group) => group.cliqueNames.map((name) => [name, group] as const)));
  const ofReplica = cliques.reduce((sum, { name, spec }) => {
    const group = grouped.get(name);
    return sum + podsInReach(set, spec) * (group === undefined ? 1 : groupReplicasInReach(set, group));
  }, 0);
  return replicasInReach(set) * ofReplica;
}

describe("what is kept of a set", () => {
  test.each([
    { name: "two small cliques", set: setOf(3, { a: { replicas: 2 }, b: { replicas: 4, minAvailable: 1 } }) },
    { name: "a thousand replicas of two pods", set: setOf(1000, { a: { replicas: 2 } }) },
    { name: "a gang of ten thousand pods", set: setOf(1, { a: { replicas: 10_000 } }) },
    {
      name: "a hundred replicas of a group",
      set: setOf(
        2,
        { a: { replicas: 1 }, b: { replicas: 4 } },
        { g: { members: ["b"], replicas: 100, minAvailable: 2 } },
      ),
    },
  ])("is all of it: $name", ({ set }) => {
    expect(limitOf(set)).toBeUndefined();
    expect(replicasInReach(set)).toBe(set.spec.replicas);
  });

  test.each([
    { name: "replicas of the set", set: setOf(most, { a: { replicas: 1 } }), says: "replicas are created" },
    {
      name: "pods of a clique",
      set: setOf(1, { a: { replicas: most, minAvailable: 1 } }),
      says: "pods of clique a are created",
    },
    {
      name: "replicas of a group",
      set: setOf(1, { a: { replicas: 1 } }, { g: { members: ["a"], replicas: most, minAvailable: 1 } }),
      says: "replicas of scaling group g are created",
    },
    {
      name: "everything at once",
      set: setOf(
        most,
        { a: { replicas: most, minAvailable: 1 }, b: { replicas: most, minAvailable: 1 } },
        { g: { members: ["b"], replicas: most, minAvailable: 1 } },
      ),
      says: "replicas are created",
    },
  ])("is bounded: $name", ({ set, says }) => {
    expect(limitOf(set)).toContain(says);
    expect(replicasInReach(set)).toBeGreaterThan(0);
    expect(podsIn(set)).toBeGreaterThan(0);
    expect(podsIn(set)).toBeLessThanOrEqual(2 * gangPodsMax);
  });

  test.each([
    { name: "a clique's minimum", set: setOf(1, { a: { replicas: most, minAvailable: most } }) },
    { name: "a clique without a minimum of its own", set: setOf(1, { a: { replicas: most } }) },
    {
      name: "a group's minimum",
      set: setOf(1, { a: { replicas: 1 } }, { g: { members: ["a"], replicas: most, minAvailable: most } }),
    },
    {
      name: "more cliques than a gang can have",
      set: setOf(
        1,
        { a: { replicas: 1 } },
        { g: { members: ["a"], replicas: 5000, minAvailable: gangCliquesMax + 1 } },
      ),
    },
  ])("is nothing where a gang could never be whole: $name", ({ set }) => {
    expect(gangProblem(set)).toContain("at once");
    expect(limitOf(set)).toBe(gangProblem(set));
    expect(replicasInReach(set)).toBe(0);
  });
});

import { describe, expect, test } from "vitest";
import { exhibits, findExhibit, invariantOf, playExhibit } from "../../races/museum.ts";
import { timeline } from "../../src/sim/report.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";

/** The rest of the thousand seeds is played by `npm run sim:long`. */
const slice = 15;

/** Their fixed variants are the crank's own code, which has to stand everything. */
const ofTheRuntime = [14, 16, 18, 50, 51, 52, 53, 54, 55, 56];

describe("the race museum", () => {
  test("has an exhibit for each of the first ten races, by number and by name", () => {
    for (const number of ofTheRuntime) {
      const found = findExhibit(String(number));
      expect(found, `race ${number} is missing`).toBeDefined();
      expect(findExhibit(found?.slug ?? "")).toBe(found);
    }
  });

  test("has the races about devices", () => {
    for (const number of [1, 2, 3, 4, 5, 6, 7, 10]) expect(findExhibit(String(number)), `race ${number}`).toBeDefined();
  });

  test("has the races about placement, quota and gangs", () => {
    for (const number of [11, 12, 13, 15, 23, 24, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 44, 57, 58])
      expect(findExhibit(String(number)), `race ${number}`).toBeDefined();
  });

  test.each([
    {
      race: "late-handler",
      steps: [
        "the handler has not run",
        "the cache has it, nothing to do",
        "is out of flight",
        "neither indexed nor in flight: d0",
        "I1: ",
      ],
    },
    {
      race: "torn-read",
      steps: [
        "copies the index: nothing",
        "with d0: into the index",
        "is out of flight",
        "neither in the copy nor in flight: d0",
        "I1: ",
      ],
    },
  ])("$race shows in its timeline how the device falls between the two maps, step by step", async ({ race, steps }) => {
    const exhibit = findExhibit(race);
    const [buggy] = exhibit?.buggy ?? [];
    if (exhibit === undefined || buggy === undefined) throw new Error(`there is no race ${race}`);
    const { onSchedule } = await playExhibit(exhibit, buggy, { from: 1, count: 0 });
    const [result] = onSchedule;
    if (result === undefined) throw new Error("it has no schedule");
    const lines = timeline(buggy.scenario, result);
    const told = steps.map((step) => lines.findIndex((line) => line.includes(step)));
    expect(told).not.toContain(-1);
    expect(told).toEqual([...told].sort((a, b) => a - b));
  });

  for (const exhibit of exhibits) {
    describe(`${exhibit.number} ${exhibit.slug}`, () => {
      test("with the fix no invariant is violated, on the schedule and on seeds", async () => {
        const { onSchedule, onSeeds } = await playExhibit(exhibit, exhibit.fixed, { from: 1, count: slice });
        expect(onSchedule.map(({ violation }) => violation)).toEqual(exhibit.buggy.map(() => undefined));
        expect(onSeeds.broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
      });

      test.runIf(ofTheRuntime.includes(exhibit.number))("nor under faults that the race does not need", async () => {
        const { faults: _, ...shaken } = exhibit.fixed.scenario;
        const { broken } = await runSeeds(shaken, { from: 1, count: slice });
        expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
      });

      test.each([...exhibit.buggy])(
        "$name still breaks its own invariant: on its schedule, and within its first seeds",
        async (variant) => {
          const wanted = invariantOf(exhibit, variant) as string;
          const seeds = { from: 1, count: variant.firstSeeds, untilBroken: wanted };
          const { onSchedule, onSeeds } = await playExhibit(exhibit, variant, seeds);
          expect(onSchedule.map(({ violation }) => violation?.invariant)).toEqual([wanted]);
          expect(onSeeds.broken.map(({ violation }) => violation?.invariant)).toContain(wanted);
        },
      );

      test("has a story that fits on one screen", () => {
        const lines = exhibit.story.split("\n");
        expect(lines.length).toBeLessThanOrEqual(24);
        for (const line of lines) expect(line.length).toBeLessThanOrEqual(130);
      });
    });
  }
});

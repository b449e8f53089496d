import { describe, expect, test } from "vitest";
import { exhibits, findExhibit, playExhibit } from "../../src/sim/museum/museum.ts";

/** The rest of the thousand seeds is played by `npm run sim:long`. */
const slice = 40;

describe("the race museum", () => {
  test("has an exhibit for each of the first ten races, by number and by name", () => {
    for (const number of [14, 16, 18, 50, 51, 52, 53, 54, 55, 56]) {
      const found = findExhibit(String(number));
      expect(found, `race ${number} is missing`).toBeDefined();
      expect(findExhibit(found?.slug ?? "")).toBe(found);
    }
  });

  for (const exhibit of exhibits) {
    describe(`${exhibit.number} ${exhibit.slug}`, () => {
      test("without the mistake no invariant breaks, on the schedule and on seeds", async () => {
        const { onSchedule, onSeeds } = await playExhibit(exhibit, exhibit.fixed, { from: 1, count: slice });
        expect(onSchedule.map(({ violation }) => violation)).toEqual(exhibit.buggy.map(() => undefined));
        expect(onSeeds.broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
      });

      test.each([...exhibit.buggy])(
        "$name still fails: on its schedule, and within its first seeds",
        async (variant) => {
          const seeds = { from: 1, count: variant.firstSeeds, untilBroken: true };
          const { onSchedule, onSeeds } = await playExhibit(exhibit, variant, seeds);
          expect(onSchedule.map(({ violation }) => violation?.invariant)).not.toContain(undefined);
          expect(onSeeds.broken.length, `no violation in ${variant.firstSeeds} seeds`).toBe(1);
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

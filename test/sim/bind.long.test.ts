import { expect, test } from "vitest";
import { bindScenario } from "../../src/sim/bind/scenario.ts";
import { playEachWrite } from "./eachWrite.ts";

test.each([1, 2])("in story %i binder and scheduler die at every write, and every write lands late", async (seed) => {
  const about = { storyteller: "scheduler", seed, authors: ["ann", "bob", "scheduler"], every: 1 };
  const { calm, strokes, played, broken } = await playEachWrite(bindScenario, about);
  process.stdout.write(`story ${seed}: ${played} of ${strokes} misfortunes\n`);
  expect(calm).toBeUndefined();
  expect(played).toBe(strokes);
  expect(broken).toEqual([]);
});

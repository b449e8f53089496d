import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { findScenario } from "../../src/cli/simulator/scenarios.ts";
import { runSeed, withTripwires } from "../../src/sim/runSeed.ts";

const known = readFileSync(new URL("seeds.txt", import.meta.url), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => {
    const [name = "", seed = "", ...why] = line.split(" ");
    return { name, seed: Number(seed), why: why.join(" ") };
  });

test.each(known)("$name $seed, which once failed ($why), passes", async ({ name, seed }) => {
  const scenario = findScenario(name);
  expect(scenario, `${name} is in seeds.txt and is no scenario`).toBeDefined();
  if (scenario === undefined) return;
  const result = await withTripwires(() => runSeed(scenario, seed));
  expect(result.violation).toBeUndefined();
});

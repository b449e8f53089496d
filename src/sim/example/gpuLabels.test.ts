import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { runSeeds } from "../runSeeds.ts";
import { gpuLabels } from "./gpuLabels.ts";

test("the scenario of the documentation passes its seeds, and the documentation shows it as it is", async () => {
  const { broken } = await runSeeds(gpuLabels, { from: 1, count: 100 });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf8");
  const source = read("./gpuLabels.ts");
  const shown = source.slice(source.indexOf("export const gpuLabels"), source.indexOf("function plain"));
  expect(read("../../../docs/simulator.md")).toContain(shown.trimEnd());
});

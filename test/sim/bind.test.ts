import { expect, test } from "vitest";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import { bindMistakes } from "../../src/sim/bind/mistakes.ts";
import { bindScenario, bindWith } from "../../src/sim/bind/scenario.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { playEachWrite } from "./eachWrite.ts";
import { freshViolationOf, violationOf } from "./slice.ts";

test("shares of GPUs survive a fixed slice of seeds, and a fresh one", async () => {
  expect(await violationOf(bindScenario, { from: 1, count: 40 })).toBe("");
  expect(await freshViolationOf(bindScenario, 20)).toBe("");
});

test("binder and scheduler may die before or after a write, and a write may land seconds late: a slice of all of them", async () => {
  const about = { storyteller: "scheduler", seed: 1, authors: ["ann", "bob", "scheduler"], every: 23 };
  const { calm, strokes, played, broken } = await playEachWrite(bindScenario, about);
  expect(calm).toBeUndefined();
  expect(strokes).toBeGreaterThan(500);
  expect(played).toBeGreaterThan(20);
  expect(broken).toEqual([]);
});

/** Where the search begins, so that it is short: `npm run sim:long` plays them all. */
const firstSeeds: Record<string, number> = { "deletes-by-uid": 205 };

test.each(bindMistakes.map((mistake) => ({ mistake, name: mistake.name, invariant: mistake.invariant })))(
  "a binder's mistake is found: $name breaks $invariant",
  async ({ mistake }) => {
    const { invariant, name } = mistake;
    const from = firstSeeds[name] ?? 1;
    const { broken } = await runSeeds(bindWith(mistake), { from, count: 40, untilBroken: invariant });
    expect(broken.map(({ violation }) => violation?.invariant)).toContain(invariant);
  },
);

test("in the story, shares, whole GPUs and several at once do run", async () => {
  const running = new Set<string>();
  const watching: Invariant = {
    id: "watching",
    fact: "nothing",
    begin: () => ({
      commit: ({ event: { current } }) => {
        const pod = current.deleted ? undefined : (current.object() as Pod);
        if (current.resource === "/pods" && pod?.status?.phase === "Running")
          running.add(current.name.replace(/\d+$/, ""));
        return undefined;
      },
    }),
  };
  const story = { ...bindScenario, faults: [], invariants: [...bindScenario.invariants, watching] };
  await runSeeds(story, { from: 1, count: 3 });
  expect([...running].filter((name) => !name.startsWith("gpu-reservation")).sort()).toEqual(["m", "p", "w"]);
});

test("in the story a person deletes reservations under pods that run, and others come with the same device", async () => {
  let lost = 0;
  let restored = 0;
  const watching: Invariant = {
    id: "watching",
    fact: "nothing",
    begin: ({ store }) => ({
      commit: ({ type, event: { current, previous }, call }) => {
        if (current.resource !== "/pods" || current.namespace !== "kai-resource-reservation") return undefined;
        const pod = (previous ?? current).object() as Pod;
        const group = pod.metadata.labels?.["runai-gpu-group"];
        const isUsed = [...store.collection("/pods").all()].some((version) => {
          const { metadata, status } = version.object() as Pod;
          const isUser = metadata.namespace === "default" && metadata.labels?.["runai-gpu-group"] === group;
          return isUser && status?.phase === "Running";
        });
        if (call.actor === "meddler" && isUsed) lost++;
        if (type === "ADDED" && pod.metadata.annotations?.["muster.dev/pin-device"] !== undefined) restored++;
        return undefined;
      },
    }),
  };
  const story = { ...bindScenario, faults: [], invariants: [...bindScenario.invariants, watching] };
  const { broken } = await runSeeds(story, { from: 1, count: 6 });
  expect(broken).toEqual([]);
  expect([lost > 0, restored > 0]).toEqual([true, true]);
});

import { execFile } from "node:child_process";
import { randomBytes, randomInt, randomUUID } from "node:crypto";
import { dirname, join } from "node:path";
import { setTimeout as timerSetTimeout } from "node:timers";
import { setTimeout as promisedTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { faultKinds } from "../../src/sim/faults.ts";
import { mistakes } from "../../src/sim/podSets/mistakes.ts";
import { podSetScenario } from "../../src/sim/podSets/scenario.ts";
import { timeline, violationReport } from "../../src/sim/report.ts";
import { runSeed, withTripwires } from "../../src/sim/runSeed.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import { shrink } from "../../src/sim/shrink.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** What a person sees when a slice of seeds is not clean. */
async function told(scenario: ReturnType<typeof podSetScenario>, broken: Awaited<ReturnType<typeof runSeed>>[]) {
  const [first] = broken;
  if (first === undefined) return "";
  return violationReport(scenario, first, await withTripwires(() => shrink(scenario, first)));
}

describe("the sample controller", () => {
  test("survives a fixed slice of seeds with all faults on", async () => {
    const scenario = podSetScenario();
    const { broken, seeds } = await runSeeds(scenario, { from: 1, count: 150 });
    expect(await told(scenario, [...broken])).toBe("");
    expect(seeds).toBe(150);
  });

  test("survives a fresh slice, whose first seed is printed, and changes no object that others read", async () => {
    const scenario = { ...podSetScenario(), freeze: true };
    const from = Math.floor(Date.now() / 1000) % 1_000_000_000;
    process.stdout.write(`fresh slice of pod-sets: seeds ${from} to ${from + 49}\n`);
    const { broken } = await runSeeds(scenario, { from, count: 50 });
    expect(await told(scenario, [...broken])).toBe("");
  });

  test.each([...mistakes])(
    "%s is found blind within its first seeds, and shrunk to 25 steps or fewer",
    async (mistake) => {
      const scenario = podSetScenario(mistake);
      const { broken, seeds } = await runSeeds(scenario, { from: 1, count: 5_000, untilBroken: true });
      const [found] = broken;
      expect(found, `not found within ${seeds} seeds`).toBeDefined();
      if (found === undefined) return;
      const shrunk = await withTripwires(() => shrink(scenario, found));
      expect(shrunk.result.violation?.invariant).toBe(found.violation?.invariant);
      expect(timeline(scenario, shrunk.result).length).toBeLessThanOrEqual(25);
      const report = violationReport(scenario, found, shrunk);
      expect(report.startsWith(`seed ${found.seed} of ${scenario.name}\nfaults: `)).toBe(true);
      expect(report).toContain(`muster sim replay --scenario ${scenario.name} --seed ${found.seed}`);
    },
  );
});

test("every kind of fault strikes the sample controller in a slice of seeds, but stale reads, which it never asks for", async () => {
  const struck = new Set<string>();
  const each = ({ decisions }: { decisions: readonly { key: string }[] }): void => {
    for (const { key } of decisions) struck.add(key.split("|").at(-1) ?? "");
  };
  await runSeeds(podSetScenario(), { from: 1, count: 40, each });
  const missing = faultKinds().filter(({ concerns, name }) => ofTheCrank.has(concerns) && !struck.has(name));
  expect(missing.map(({ name }) => name)).toEqual(["stale-read"]);
});

/** Parts bring kinds of their own. */
const ofTheCrank = new Set(["api", "process", "leadership", "clock"]);

describe("a seed", () => {
  test("has the same history in another process, and when the seeds are played backwards", async () => {
    const range = { from: 1, count: 12 };
    const forwards = await runSeeds(podSetScenario(), range);
    const backwards = await runSeeds(podSetScenario(), { ...range, backwards: true });
    expect(backwards.hash).toBe(forwards.hash);
    const args = [
      join(root, "dist/bundle/program/main.js"),
      "sim",
      "run",
      "--scenario",
      "pod-sets",
      "--seeds",
      "12",
      "-o",
      "json",
    ];
    const env = { ...process.env, LANG: "tr_TR.UTF-8", TZ: "Pacific/Chatham" };
    const { stdout } = await promisify(execFile)(process.execPath, ["--no-opt", ...args], { env });
    const answer = JSON.parse(stdout) as Record<string, unknown>;
    expect(answer["hash"]).toBe(forwards.hash);
    expect(answer).toMatchObject({ seeds: 12, violations: [] });
    expect(answer["simulatedHours"]).toBeGreaterThan(0);
    expect(answer["wallSeconds"]).toBeGreaterThan(0);
  });

  test("has another history than the next seed", async () => {
    const hashes = new Set<string>();
    await runSeeds(podSetScenario(), { from: 1, count: 30, each: ({ hash }) => hashes.add(hash) });
    expect(hashes.size).toBe(30);
  });

  test("has the same history when the code under test awaits more often", async () => {
    const plain = podSetScenario();
    const slower = {
      ...plain,
      actors: () =>
        plain.actors().map((actor) => ({
          ...actor,
          run: async (ports: Parameters<typeof actor.run>[0]) => {
            await null;
            const { kube } = ports;
            const get: typeof kube.get = async (...args) => {
              await null;
              await null;
              const outcome = await kube.get(...args);
              await null;
              return outcome;
            };
            await actor.run({ ...ports, kube: Object.assign(Object.create(kube) as typeof kube, { get }) });
          },
        })),
    };
    const range = { from: 1, count: 20 };
    expect((await runSeeds(slower, range)).hash).toBe((await runSeeds(plain, range)).hash);
  });

  const reaches: [string, () => unknown][] = [
    ["Date.now", () => Date.now()],
    ["new Date()", () => new Date()],
    ["Math.random", () => Math.random()],
    ["performance.now", () => performance.now()],
    ["process.hrtime", () => process.hrtime()],
    ["process.hrtime.bigint", () => process.hrtime.bigint()],
    ["process.uptime", () => process.uptime()],
    ["setTimeout", () => setTimeout(() => {}, 1)],
    ["node:timers setTimeout", () => timerSetTimeout(() => {}, 1)],
    ["node:timers/promises setTimeout", () => promisedTimeout(1)],
    ["AbortSignal.timeout", () => AbortSignal.timeout(1)],
    ["crypto.randomUUID", () => globalThis.crypto.randomUUID()],
    ["node:crypto randomBytes", () => randomBytes(4)],
    ["node:crypto randomInt", () => randomInt(4)],
    ["node:crypto randomUUID", () => randomUUID()],
  ];
  test.each(reaches)("fails when its code calls %s, even if the exception is swallowed", async (name, reach) => {
    const plain = podSetScenario();
    const cheating = {
      ...plain,
      actors: () => [
        {
          name: "cheat",
          finite: true,
          run: async () => {
            try {
              reach();
            } catch {
              // Swallowed on purpose.
            }
          },
        },
      ],
    };
    const result = await withTripwires(() => runSeed(cheating, 1));
    expect(result.violation).toMatchObject({ invariant: "I20", detail: `${name} was called while the seed ran` });
    // Afterwards the calls work again.
    expect(Date.now()).toBeGreaterThan(0);
    expect(() => reach()).not.toThrow();
  });

  test("fails when a process waits for something that never comes", async () => {
    const stuck = {
      ...podSetScenario(),
      invariants: [],
      actors: () => [{ name: "stuck", finite: true, run: () => new Promise<void>(() => {}) }],
    };
    const result = await withTripwires(() => runSeed(stuck, 1));
    expect(result.violation).toMatchObject({ invariant: "I17", detail: "stuck has not finished" });
  });

  test("fails when a process runs in circles and lets no time pass", async () => {
    const circling = {
      ...podSetScenario(),
      invariants: [],
      actors: () => [
        {
          name: "circler",
          run: async ({ clock }: { clock: { nowMs(): number } }) => {
            while (clock.nowMs() > 0) await null;
          },
        },
      ],
    };
    const result = await withTripwires(() => runSeed(circling, 1));
    expect(result.violation).toMatchObject({ invariant: "I17", fact: "time passes" });
  });
});

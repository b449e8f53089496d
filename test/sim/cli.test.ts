import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

function muster(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "dist/bundle/program/main.js"), ...args], {
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

describe("muster races", () => {
  test("lists every exhibit with its variants", () => {
    const { races } = JSON.parse(muster("races", "-o", "json").stdout) as {
      races: { number: number; variants: object[] }[];
    };
    const numbers = races.map(({ number }) => number);
    expect(numbers).toEqual(expect.arrayContaining([14, 16, 18, 50, 51, 52, 53, 54, 55, 56]));
    for (const { variants } of races) expect(variants.length).toBeGreaterThanOrEqual(2);
  });

  test("a race with its mistake exits with 1 and prints the shortest history; without it with 0", () => {
    const buggy = muster("races", "run", "54", "--buggy", "--seeds", "10");
    expect(buggy.status).toBe(1);
    expect(buggy.stdout).toContain("on the schedule: I19 was violated");
    expect(buggy.stdout).toContain("shortest history found:");
    const fixed = muster("races", "run", "own-writes", "--seeds", "5", "-o", "json");
    expect(fixed.status).toBe(0);
    expect(JSON.parse(fixed.stdout)).toMatchObject({
      race: 54,
      variant: "fixed",
      seeds: 5,
      violations: [],
      schedule: [null],
    });
  });

  test("a race or variant that does not exist is answered with those that do", () => {
    const race = muster("races", "run", "no-such-race");
    // Not 1: that would look like a race that violated its invariant.
    expect(race.status).toBe(2);
    expect(race.stderr).toContain("(race-unknown)");
    const near = muster("races", "run", "own-write");
    expect(near.status).toBe(2);
    expect(near.stderr).toContain("own-writes");
    expect(muster("races", "run", "54", "--variant", "other").stderr).toContain("choose from: fixed, forgets");
    const both = muster("races", "run", "54", "--buggy", "--variant", "fixed");
    expect(both.status).toBe(2);
    expect(both.stderr).toContain("(flags-conflict)");
  });
});

describe("muster sim", () => {
  test("a seed that breaks an invariant exits with 1; the seed comes first and the faults second", () => {
    const { status, stdout } = muster("sim", "replay", "--scenario", "pod-sets/forgets-own-writes", "--seed", "3");
    expect(status).toBe(1);
    const [first, second] = stdout.split("\n");
    expect(first).toBe("seed 3 of pod-sets/forgets-own-writes");
    expect(second?.startsWith("faults: ")).toBe(true);
    expect(stdout).toContain("replay: muster sim replay --scenario pod-sets/forgets-own-writes --seed 3");
  });

  test("a run says how fast it was", () => {
    const { status, stdout } = muster("sim", "run", "--seeds", "2");
    expect(status).toBe(0);
    // Without a name of a scenario the whole control plane is played.
    expect(stdout).toMatch(
      /^seeds 1 to 2 of everything\n2 seeds, 0 violations, .+\n.+ seeds\/s, .+ events\/s, .+ times real time\nhash [0-9a-f]{16}\n$/,
    );
  });

  test("seeds come to the same on one core and on several", () => {
    const on = (cores: string): unknown => {
      const { stdout } = muster(
        "sim",
        "run",
        "--scenario",
        "pod-sets",
        "--seeds",
        "45",
        "--cores",
        cores,
        "-o",
        "json",
      );
      const { seeds, violations, events, simulatedHours, hash } = JSON.parse(stdout) as Record<string, unknown>;
      return { seeds, violations, events, simulatedHours, hash };
    };
    expect(on("3")).toEqual(on("1"));
    expect(muster("sim", "run", "--cores", "0").stderr).toContain("--cores must be at least 1, got 0");
  });

  test("an unknown scenario or a number that is none is refused with a cure", () => {
    expect(muster("sim", "run", "--scenario", "nothing").stderr).toContain("(scenario-unknown)");
    expect(muster("sim", "run", "--seeds", "many").stderr).toContain("pass an integer, such as --seeds 1000");
    // A run of no seeds would look clean.
    const none = muster("sim", "run", "--seeds", "0");
    expect([none.status, none.stdout]).toEqual([2, ""]);
    expect(none.stderr).toContain("--seeds must be at least 1, got 0");
  });
});

import { expect, test } from "vitest";
import { scene } from "../../races/exhibit.ts";
import { ObjectStore } from "../../src/apiserver/storage/objectStore.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { checkAlways, checkAtRest } from "../../src/sim/invariants/checksHold.ts";
import { runSeed, withTripwires } from "../../src/sim/runSeed.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, kinds, person, plain, pod } from "../../src/sim/sceneKit.ts";
import { barrierScenario } from "../../src/sim/verify/barrierScenario.ts";
import { linesIn, numbersAddUp, reportedLine } from "../../src/sim/verify/observedVerdicts.ts";
import { verifyScenario } from "../../src/sim/verify/scenario.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";

/** The thousand runs are played by `npm run sim:long`. */
const slice = 5;

test("200 pods are made and bound while verify loops: no line that cannot be, no pass on an error", async () => {
  const from = 1 + (Date.now() % 100_000);
  const fixed = await runSeeds(verifyScenario(), { from: 1, count: slice });
  const fresh = await runSeeds(verifyScenario(), { from, count: slice });
  expect(fixed.broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
  expect(
    fresh.broken.map(({ seed, violation }) => ({ seed, violation })),
    `seeds from ${from}`,
  ).toEqual([]);
});

test("the counts of the reported flake are recognised as impossible", () => {
  const store = new ObjectStore({ clock: new ManualClock(), indexedFields: {} });
  const checks = numbersAddUp.begin({ store, nowUs: () => 0, nowMsOf: () => 0 });
  const [line] = linesIn("Pod status: 20 total, 20 running, 0 pending (1 unscheduled), 0 failed");
  expect(checks.observe?.("harness", reportedLine, line)).toContain("more unscheduled than pending");
  const [fine] = linesIn("[INFO] Pod status: 20 total, 19 running, 1 pending (1 unscheduled), 0 failed (attempts=1)");
  expect(checks.observe?.("harness", reportedLine, fine)).toBeUndefined();
});

test("scheduler and binder hold the gang barrier under faults, as verify's own proof sees it", async () => {
  const { broken } = await runSeeds(barrierScenario(), { from: 1, count: slice });
  expect(broken.map(({ seed, violation }) => ({ seed, violation }))).toEqual([]);
});

test("a check is an invariant: a bind beyond what the node has breaks it, at that commit or at rest", async () => {
  const play = (invariant: Invariant): Scenario =>
    scene({
      slug: "overfull",
      variant: "x",
      about: "two pods are bound to a node with one place",
      faults: [],
      invariants: [invariant],
      setUp: async (kube) => {
        const allocatable = { pods: "1" };
        await kube.create(
          kinds.nodes,
          plain("v1", "Node", "", "n1", { status: { allocatable, capacity: allocatable } }),
        );
      },
      actors: () => [
        person("binder", async ({ kube }) => {
          for (const name of ["a", "b"]) {
            const made = await kube.create(kinds.pods, pod(name));
            if (made.ok) await kube.bind(at(kinds.pods, name), { node: "n1", uid: made.value.metadata.uid });
          }
        }),
      ],
    });
  for (const invariant of [checkAlways("S3"), checkAtRest("S3")]) {
    const { violation } = await withTripwires(() => runSeed(play(invariant), 1));
    expect(violation).toMatchObject({ invariant: "I1" });
    expect(violation?.detail).toContain("nodes/n1: pods: 2 requested by 2 pods, 1 allocatable");
  }
});

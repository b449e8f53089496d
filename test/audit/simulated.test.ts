/**
 * The simulator's clusters after faults, crashes and lost nodes: once they are at rest, an audit of them finds nothing,
 * because Muster's controllers have resolved what the faults left behind.
 */
import { expect, test } from "vitest";
import { auditChecks } from "../../src/decide/audit/auditChecks.ts";
import { auditLook } from "../../src/decide/audit/auditLook.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { snapshotOf } from "../../src/sim/invariants/checksHold.ts";
import { runSeed, withTripwires } from "../../src/sim/runSeed.ts";
import { componentScenarios } from "../../src/sim/scenarios.ts";
import { epochMs } from "../../src/sim/simulation.ts";

/** Long enough after the last change that nothing is young. */
const laterMs = 2 * 60 * 60 * 1000;

/** Faults that a scenario is about, or that the controllers which it leaves out would resolve. */
const intended: Readonly<Record<string, readonly string[]>> = {
  // The binder alone, without the scheduler that deletes a BindRequest whose retries are used up.
  bind: ["bindrequest-stuck"],
  // The gang operator alone, without kubelets that end pods, and with a scheduler that binds pods one by one.
  gang: ["pod-terminating", "gang-half-placed"],
  // The operator that writes allocatable amounts is the example; nothing keeps capacities up to date.
  "gpu-labels": ["node-gpus-disagree"],
  // Nodes alone, without the controller that releases claims.
  nodes: ["claim-of-missing-pod", "claim-not-allocated"],
  // Quotas are drawn at random, and users delete PodGroups of pods that wait.
  everything: ["queue-quota", "podgroup-stuck"],
  schedule: ["podgroup-stuck"],
  // A run of verify that was interrupted, without the pod garbage collector.
  "gang-barrier": ["pod-on-missing-node", "gpu-idle"],
};

function nothingFound(scenario: string, found: Set<string>): Invariant {
  return {
    id: "I17",
    fact: "an audit finds nothing",
    begin: ({ store, nowUs }) => ({
      atRest: () => {
        const snapshot = { ...snapshotOf(store), takenAtMs: epochMs + Math.round(nowUs() / 1000) + laterMs };
        const checks = auditChecks.filter(({ name }) => intended[scenario]?.includes(name) !== true);
        for (const { check, findings, unknown } of auditLook(snapshot, checks).checks) {
          if (unknown !== undefined) found.add(`${check.name}: ${unknown}`);
          for (const { object, problem } of findings) found.add(`${check.name}: ${object}: ${problem}`);
        }
        return undefined;
      },
    }),
  };
}

const scenarios = componentScenarios().filter(({ name }) => !name.includes("/"));

test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))("%s", async (_, scenario) => {
  const found = new Set<string>();
  for (let seed = 1; seed <= 3; seed++) {
    const audited = { ...scenario, invariants: [...scenario.invariants, nothingFound(scenario.name, found)] };
    await withTripwires(() => runSeed(audited, seed));
  }
  expect([...found]).toEqual([]);
});

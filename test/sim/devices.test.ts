import { expect, test } from "vitest";
import { findScenario } from "../../src/cli/simulator/scenarios.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { devicesScenario } from "../../src/sim/devices/scenario.ts";
import { runSeeds } from "../../src/sim/runSeeds.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { freshViolationOf, violationOf } from "./slice.ts";

function named(name: string): Scenario {
  return findScenario(name) ?? expect.fail(`there is no scenario ${name}`);
}

test("claims on one node and on two: every device is allocated once, and every claim is allocated", async () => {
  expect(await violationOf(named("devices/one-node"), { from: 1, count: 30 })).toBe("");
  expect(await violationOf(named("devices"), { from: 1, count: 15 })).toBe("");
  expect(await violationOf(named("devices/shared"), { from: 1, count: 15 })).toBe("");
});

test("fresh seeds hold the same", async () => {
  expect(await freshViolationOf(named("devices"), 10)).toBe("");
});

/** An actor repeats a step that was taken already, once, while everything is at rest. */
function reservationDeleter(name: string, meddle: (kube: KubeApi) => Promise<void>): Scenario {
  const scenario = devicesScenario(name, { nodes: 1, devices: 2, turns: 0, isExact: true });
  return {
    ...scenario,
    faults: [],
    actors: () => [
      ...scenario.actors(),
      {
        name: "meddler",
        finite: true,
        isExemptFromFaults: true,
        run: async ({ kube, sleep }) => {
          await sleep(4_000);
          await meddle(kube);
        },
      },
    ],
  };
}

const claims = builtin.ResourceClaim;

test("I19 breaks when a pod's claim is made a second time, or a running pod is taken off its claim once more", async () => {
  const madeTwice = reservationDeleter("made-twice", async (kube) => {
    const listed = await kube.list(claims);
    const [first] = listed.ok ? listed.value.items : [];
    if (first === undefined) return;
    const { name, annotations = {}, ownerReferences = [] } = first.metadata;
    const metadata = { name: `${name}-again`, namespace: "default", annotations, ownerReferences };
    await kube.create(claims, { ...first, metadata });
  });
  const takenOff = reservationDeleter("taken-off", async (kube) => {
    const listed = await kube.list(claims);
    const [first] = listed.ok ? listed.value.items : [];
    if (first === undefined) return;
    const { reservedFor: _users, ...status } = first.status ?? {};
    const ref = { ...claims, namespace: "default", name: first.metadata.name, subresource: "status" };
    await kube.update(ref, { ...first, status });
  });
  for (const scenario of [madeTwice, takenOff]) {
    const result = await runSeeds(scenario, { from: 1, count: 1 });
    expect(result.broken.map(({ violation }) => violation?.invariant)).toEqual(["I19"]);
  }
});

import { defaultChecks } from "../../decide/verify/checks.ts";
import { checkAtRest } from "../invariants/checksHold.ts";
import { kinds, plain } from "../museum/exhibit.ts";
import type { Scenario } from "../scenario.ts";
import { busyCluster, busyNode } from "./busyCluster.ts";
import { errorsAreUnknown, numbersAddUp } from "./observedVerdicts.ts";
import { verifyOnce } from "./verifier.ts";

/** As many pods as the field's race had time for. */
const pods = 200;

/** Two hundred pods are made, bound and started while verify looks again and again; in the end it must pass. */
export function verifyScenario(): Scenario {
  return {
    name: "verify",
    about: "200 pods are made and bound while verify loops: no impossible line, no pass on an error",
    faults: [
      "slow-call",
      "busy",
      "timeout-before",
      "partial-page",
      "compaction-gap",
      "watch-delay",
      "stream-cut",
      "slow-timer",
    ],
    invariants: [
      numbersAddUp,
      errorsAreUnknown,
      checkAtRest("S1"),
      checkAtRest("S2"),
      checkAtRest("S3"),
      checkAtRest("S4"),
    ],
    setUp: async (kube) => {
      await kube.create(kinds.namespaces, plain("v1", "Namespace", "", "default"));
      await kube.create(kinds.nodes, busyNode());
    },
    actors: () => [
      ...busyCluster({ pods, everyMs: 10, paceMs: 40 }),
      {
        name: "verifier",
        finite: true,
        sheltered: true,
        run: async (ports) => {
          for (;;) {
            const config = {
              settleMs: 400,
              intervalMs: 200,
              checks: defaultChecks,
              excluded: [],
              requireRunning: true,
            };
            const { verdict, counts } = await verifyOnce(ports, config);
            if (verdict === "pass" && counts?.running === pods) return;
            await ports.sleep(50);
          }
        },
      },
    ],
    shakenMs: 5_000,
    settleMs: 60_000,
    quietMs: 1_000,
  };
}

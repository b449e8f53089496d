import { defaultChecks } from "../../decide/verify/checks.ts";
import { checkAtRest } from "../invariants/checksHold.ts";
import { type Mistake, mistaken } from "../mistake.ts";
import type { Scenario } from "../scenario.ts";
import { kinds, plain } from "../sceneKit.ts";
import { busyCluster, busyNode } from "./busyCluster.ts";
import { errorsAreUnknown, numbersAddUp, refusedPodsFail } from "./observedVerdicts.ts";
import { tooLargePods } from "./tooLargePods.ts";
import { verifyOnce } from "./verifier.ts";

/** The interval of the verifier while pods are created and deleted. */
const gateRounds = 12;
/** The number of pods in the reported race. */
const pods = 200;

/**
 * Pods that fit on no node and are deleted before the window ends: many become unschedulable just before a last
 * snapshot.
 */
const tooLarge = 10;

/**
 * Two hundred pods are created, bound and started while verify runs in a loop; in the end it must pass. A second
 * verifier, which only checks that pods have nodes, passes and fails meanwhile, because some pods are unschedulable.
 * `verify/<mistake>` has one classic bug in the second verifier.
 */
export function verifyScenario(mistake?: Mistake): Scenario {
  return {
    name: mistake === undefined ? "verify" : `verify/${mistake.name}`,
    about:
      "200 pods are bound and some are unschedulable while verify runs in a loop: no inconsistent line, no pass on an error",
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
      refusedPodsFail,
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
      tooLargePods(tooLarge),
      {
        name: "gate",
        finite: true,
        isExemptFromFaults: true,
        run: async (ports) => {
          for (let round = 0; round < gateRounds; round++) {
            const config = { settleMs: 400, intervalMs: 200, checks: ["S1"] as const, excluded: [], allowEmpty: true };
            await verifyOnce(mistaken(ports, mistake), config);
            await ports.sleep(20);
          }
        },
      },
      {
        name: "verifier",
        finite: true,
        isExemptFromFaults: true,
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
    faultPhaseMs: 5_000,
    settleMs: 60_000,
    quietMs: 1_000,
  };
}

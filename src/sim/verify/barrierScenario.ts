import { binderComponent } from "../../control/bind/binderComponent.ts";
import { schedulerComponent } from "../../control/schedule/schedulerComponent.ts";
import type { CheckFinding } from "../../decide/verify/check.ts";
import { proveGangBarrier } from "../../kubelet/barrier/gangBarrier.ts";
import { controllersProcess } from "../controllersProcess.ts";
import type { Invariant } from "../invariant.ts";
import { checkAtRest } from "../invariants/checksHold.ts";
import type { Scenario } from "../scenario.ts";
import { kinds, plain } from "../sceneKit.ts";

const proved = "proved the gang barrier";
const scheduler = schedulerComponent();
const binder = binderComponent();

/** The check may fail because of the API, but it must not find a partially bound gang. */
const gangsWait: Invariant = {
  id: "I4",
  fact: "a gang that is one GPU short has no pod bound, and all once the GPU exists",
  begin: () => ({
    observe: (_, what, value) => {
      if (what !== proved) return undefined;
      const { status, message, evidence } = value as CheckFinding;
      const text = evidence.map(({ object, problem }) => `${object} ${problem}`).join("; ");
      return status === "failed" || status === "skipped" ? `${message}: ${text}` : undefined;
    },
  }),
};

/**
 * The active check `muster verify --check gang-barrier` with scheduler and binder, while calls and watches are delayed.
 */
export function barrierScenario(): Scenario {
  return {
    name: "gang-barrier",
    about:
      "a gang is created one GPU short, then the GPU is added: the active check of verify, with scheduler and binder under faults",
    // Both bring the definition of BindRequests; one is enough.
    components: [scheduler, { ...binder, definitions: [] }],
    serverLoops: true,
    faults: [
      "slow-call",
      "busy",
      "watch-delay",
      "watch-reorder",
      "stream-cut",
      "slow-timer",
      "conflict",
      "timeout-after",
    ],
    invariants: [gangsWait, checkAtRest("S3"), checkAtRest("S5")],
    setUp: async (kube) => {
      await kube.create(kinds.namespaces, plain("v1", "Namespace", "", "default"));
    },
    actors: () => [
      controllersProcess("scheduler", (controllers) => scheduler.add(controllers)),
      controllersProcess("binder", (controllers) => binder.add(controllers)),
      {
        name: "prover",
        finite: true,
        isExemptFromFaults: true,
        run: async (ports) => {
          for (let round = 0; ; round++) {
            const finding = await proveGangBarrier(ports, { id: `r${round}`, bindMs: 60_000 });
            ports.observe(proved, finding);
            if (finding.status !== "other") return;
            await ports.sleep(500);
          }
        },
      },
    ],
    faultPhaseMs: 8_000,
    settleMs: 240_000,
    quietMs: 3_000,
    ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
  };
}

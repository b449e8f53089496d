import type { Outcome } from "../../src/model/outcome.ts";
import type { KubeList } from "../../src/ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { kinds, person } from "../../src/sim/sceneKit.ts";
import { busyCluster, busyNode } from "../../src/sim/verify/busyCluster.ts";
import {
  errorsAreUnknown,
  numbersAddUp,
  reportedLine,
  reportedVerdict,
} from "../../src/sim/verify/observedVerdicts.ts";
import { verifyOnce } from "../../src/sim/verify/verifier.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const rounds = 20;
const pauseMs = 120;

/** The bug: five queries at five times, combined into one line. */
async function fiveQueries(ports: ActorPorts, errorIsZero: boolean): Promise<void> {
  let readErrors = 0;
  const ask = async (fieldSelector?: string): Promise<number | undefined> => {
    const answer: Outcome<KubeList> = await ports.kube.list(
      kinds.pods,
      fieldSelector === undefined ? {} : { fieldSelector },
    );
    if (answer.ok) return answer.value.items.length;
    readErrors++;
    return errorIsZero ? 0 : undefined;
  };
  const total = await ask();
  const running = await ask("status.phase=Running");
  const pending = await ask("status.phase=Pending");
  const failed = await ask("status.phase=Failed");
  const unscheduled = await ask("status.phase=Pending,spec.nodeName=");
  // The handling of errors is a separate variant: this one reports only when all its queries succeeded.
  if (total === undefined || running === undefined || pending === undefined) return;
  if (failed === undefined || unscheduled === undefined) return;
  if (!errorIsZero) ports.observe(reportedLine, { total, running, pending, unscheduled, failed });
  ports.observe(reportedVerdict, { passed: unscheduled === 0 && failed === 0, total, readErrors });
}

/** Repeats the check while pods are created and bound. */
function verifier(look: (ports: ActorPorts) => Promise<unknown>): ActorSpec {
  return person("verifier", async (ports) => {
    for (let round = 0; round < rounds; round++) {
      await look(ports);
      await ports.sleep(pauseMs);
    }
  });
}

const play = (variant: string, look: (ports: ActorPorts) => Promise<unknown>) =>
  scene({
    slug: "five-queries",
    variant,
    about: "a script counts pods while they are created, bound and started",
    faults: ["slow-call", "busy", "timeout-before", "partial-page", "slow-timer"],
    invariants: [numbersAddUp, errorsAreUnknown],
    setUp: async (kube) => {
      await kube.create(kinds.nodes, busyNode());
    },
    actors: () => [...busyCluster({ pods: 25, everyMs: 60, paceMs: 30 }), verifier(look)],
  });

export const fiveQueries43: Exhibit = {
  number: 43,
  slug: "five-queries",
  title: "Five queries at five times print inconsistent sums, and an outage looks like success",
  source: "NVIDIA/aicr#1090, #1092",
  invariant: "I6",
  story: `
  verify                        API
  how many pods?           -->  20
  how many run?            -->  20
  how many are pending?    -->  0
                                a controller makes p: pending, no node yet
  how many have no node?   -->  1
  "20 total, 20 running, 0 pending (1 unscheduled)": fails, and lists nothing: p has a node by now
  And when the API is down every answer is empty: 0 unscheduled, a pass.
  One list at one revision has no such line in it, and without a list there is no verdict.`,
  fixed: {
    name: "fixed",
    about: "one snapshot of all kinds at one revision; an error is not a result",
    scenario: play("fixed", (ports) => verifyOnce(ports, { settleMs: 0, checks: ["S1"], excluded: [] })),
  },
  buggy: [
    {
      name: "five-lists",
      about: "five lists one after the other give one line",
      scenario: play("five-lists", (ports) => fiveQueries(ports, false)),
      firstSeeds: 20,
      schedule: [{ key: "verifier|list|/pods//#2|request|slow-call", value: 800_000 }],
    },
    {
      name: "error-is-zero",
      invariant: "I21",
      about: "a list that fails counts as an empty one",
      scenario: play("error-is-zero", (ports) => fiveQueries(ports, true)),
      firstSeeds: 20,
      schedule: [{ key: "verifier|list|/pods//#5|busy", value: 51 }],
    },
  ],
};

import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { expectedOf, type Intent } from "../../src/model/intent.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import { statusKeepsUp } from "../../src/sim/invariants/general.ts";
import { setNamed } from "../../src/sim/podSets/user.ts";
import { at, carryOut, inFlightOf, kinds, person } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

/** Writes observedGeneration into the status of every set. */
function report(controllers: Controllers, ports: ActorPorts, guarded: boolean): void {
  const sets = controllers.cache(kinds.replicaSets);
  const inFlight = inFlightOf(controllers, [kinds.replicaSets]);
  controllers.add({
    name: "reporter",
    sources: [kindSource(sets, forObject())],
    reconcile: async (key, turn) => {
      const set = sets.get(key);
      const { observedGeneration: reported } = (set?.["status"] ?? {}) as { observedGeneration?: number };
      const { generation: observedGeneration = 0 } = set?.metadata ?? {};
      if (set === undefined || reported === observedGeneration) return undefined;
      const target = at(kinds.replicaSets, set.metadata.name);
      const patch = { status: { replicas: 0, observedGeneration } };
      if (guarded) {
        const why = "the status is behind";
        const intent: Intent = { type: "patch", subresource: "status", target, expected: expectedOf(set), patch, why };
        return carryOut(inFlight, { intent, effects: [] }, turn);
      }
      // The bug: a patch without a resourceVersion takes effect at any later time.
      const outcome = await ports.kube.patch({ ...target, subresource: "status" }, { type: "merge", body: patch });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const play = (variant: string, guarded: boolean) =>
  scene({
    slug: "late-status",
    variant,
    about: "a controller writes the status of a set that keeps changing",
    faults: ["timeout-before", "slow-call", "watch-delay"],
    invariants: [statusKeepsUp],
    setUp: async (kube) => {
      await kube.create(kinds.replicaSets, setNamed("web", 0));
    },
    actors: () => [
      person("owner", async (ports) => {
        for (let round = 1; round <= 12; round++) {
          await ports.sleep(250);
          const body = { spec: { replicas: round } };
          await ports.kube.patch(at(kinds.replicaSets, "web"), { type: "merge", body });
        }
      }),
      controllersProcess("reporter", (controllers, ports) => report(controllers, ports, guarded)),
    ],
  });

export const lateStatus: Exhibit = {
  number: 56,
  slug: "late-status",
  title: "A status patch that timed out takes effect later and overwrites a newer status",
  source: "kubernetes/kubernetes#139602; kubernetes-sigs/kueue#6789",
  invariant: "I22",
  story: `
  reporter                          API
  status: generation 3 ---------\\   (times out)
  sees generation 4              \\
  status: generation 4  --------> \\ 4
                                   -> 3      the status speaks of an older object
  The patch carries the resourceVersion that it was made from.`,
  fixed: { name: "fixed", about: "the patch carries a resourceVersion", scenario: play("fixed", true) },
  buggy: [
    {
      name: "no-version",
      about: "the patch carries none",
      scenario: play("no-version", false),
      firstSeeds: 50,
      schedule: [{ key: "reporter|patch|apps/replicasets/default/web#2|timeout-before", value: 1_000 + 1_500 }],
    },
  ],
};

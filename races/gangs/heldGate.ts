import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { gangGate, gangResources } from "../../src/model/gang/keys.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, kinds, plain, pod } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { ensureSet, gangScene, productOperator } from "./gangScene.ts";

const partOf = "app.kubernetes.io/part-of";

const gatesOpen: Invariant = {
  id: "I17",
  fact: "at rest no pod of a complete gang has a scheduling gate",
  begin: ({ store }) => ({
    atRest: () => {
      for (const version of store.collection("/pods").all()) {
        const { metadata, spec } = version.object() as unknown as Pod;
        if ((spec?.schedulingGates ?? []).length > 0) return `${metadata.name} keeps its scheduling gate for ever`;
      }
      return undefined;
    },
  }),
};

/**
 * Creates pods first, then their gang. The bug: a gate is checked only when its pod changes.
 */
function podsFirst(controllers: Controllers): void {
  const sets = controllers.cache(gangResources.PodCliqueSet);
  const gangs = controllers.cache(gangResources.PodGang);
  const pods = controllers.cache(kinds.pods);
  controllers.add({
    name: "sets",
    backoff: { baseMs: 20, maxMs: 1_000 },
    sources: [kindSource(sets, forObject())],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const set = sets.get(key);
      if (set === undefined) return undefined;
      const { name } = set.metadata;
      const labels = { [partOf]: name };
      const podReferences = [];
      for (const index of [0, 1]) {
        const podName = `${name}-${index}`;
        podReferences.push({ namespace: "default", name: podName });
        const made = await controllers.outside.create(
          kinds.pods,
          pod(podName, { labels }, { schedulingGates: [{ name: gangGate }] }),
          { cancel },
        );
        if (!made.ok && made.reason !== "AlreadyExists") return reconcileResultOf(made);
      }
      const spec = { podgroups: [{ name, podReferences, minReplicas: 2 }] };
      const gang = plain("scheduler.grove.io/v1alpha1", "PodGang", "default", name, { metadata: { labels }, spec });
      const made = await controllers.outside.create(gangResources.PodGang, gang, { cancel });
      return made.ok || made.reason === "AlreadyExists" ? undefined : reconcileResultOf(made);
    },
  });
  controllers.add({
    name: "gates",
    backoff: { baseMs: 20, maxMs: 1_000 },
    sources: [kindSource(pods, forObject())],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const found = pods.get(key);
      const set = found?.metadata.labels?.[partOf];
      if (found === undefined || set === undefined || gangs.get(`default/${set}`) === undefined) return undefined;
      if (((found as unknown as Pod).spec?.schedulingGates ?? []).length === 0) return undefined;
      const { resourceVersion } = found.metadata;
      const body = { metadata: { resourceVersion }, spec: { schedulingGates: null } };
      const outcome = await controllers.outside.patch(
        at(kinds.pods, found.metadata.name),
        { type: "merge", body },
        { cancel },
      );
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const play = (variant: string, operator: () => ActorSpec) =>
  gangScene({
    slug: "held-gate",
    variant,
    about: "a set is created, and events of its pods and of its gang arrive in any order",
    faults: ["watch-delay", "watch-reorder", "slow-call"],
    invariants: [gatesOpen],
    operator,
    user: async (ports) => {
      for (const name of ["red", "blue", "green"]) {
        await ensureSet(ports, name);
        await ports.sleep(500);
      }
    },
  });

export const heldGate: Exhibit = {
  number: 22,
  slug: "held-gate",
  title: "Pods are created before their gang, and their scheduling gate is never removed",
  source: "ai-dynamo/grove#511, #293",
  invariant: "I17",
  story: `
  operator                            its watch of pods          its watch of gangs
  create p0, p1 with a gate
  create the gang
                                      p0: is there a gang?       (late)
                                      no: do nothing
                                                                 the gang: no watch wakes the pod
  p0 is held back for ever.

  The gang is made with the pods, and whatever a gate waits for wakes who lifts it: the pod, the gang, the clique.`,
  fixed: {
    name: "fixed",
    about: "a change of the gang enqueues its cliques",
    scenario: play("fixed", productOperator),
  },
  buggy: [
    {
      name: "pods-first",
      about: "a gate is checked only when its pod changes",
      scenario: play("pods-first", () => controllersProcess("operator", podsFirst)),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};

import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forMapped, forObject, kindSource } from "../../src/control/runtime/sources.ts";
import { gangResources } from "../../src/model/gang/keys.ts";
import { controllerOf } from "../../src/model/objects/ownership.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { short } from "../../src/sim/invariants/general.ts";
import { at, kinds, pod } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { ensureSet, gangScene, productOperator, removeSet } from "./gangScene.ts";

const partOf = "app.kubernetes.io/part-of";
const roleLabel = "role";

const endsWithItsOwn: Invariant = {
  id: "I7",
  fact: "a pod is deleted for the loss of a pod of the same owner UID, not of the same owner name",
  begin: () => {
    const lost = new Set<string>();
    return {
      commit: ({ type, call, event }) => {
        if (event.current.resource !== "/pods") return undefined;
        const pod = event.current.deleted ? event.previous?.object() : event.current.object();
        if (pod === undefined) return undefined;
        const isTerminating = type === "DELETED" || pod.metadata.deletionTimestamp !== undefined;
        const wasGoing = event.previous?.object().metadata.deletionTimestamp !== undefined;
        if (!isTerminating || (wasGoing && type !== "DELETED")) return undefined;
        const owner = controllerOf(pod.metadata)?.uid ?? "";
        const isFirst = !lost.has(owner);
        lost.add(owner);
        if (call.actor !== "operator" || wasGoing || !isFirst) return undefined;
        return `operator deleted ${event.current.key}, and no pod of its owner ${short(owner)} was lost`;
      },
    };
  },
};

/** The loss of a worker restarts the leader. The bug: the group of the worker is read from its label, a name. */
function restartByName(controllers: Controllers, { random }: ActorPorts): void {
  const sets = controllers.cache(gangResources.PodCliqueSet);
  const pods = controllers.cache(kinds.pods);
  const lost = new Set<string>();
  pods.onEvent(({ type, object }) => {
    const { [partOf]: set, [roleLabel]: role } = object.metadata.labels ?? {};
    if (type === "deleted" && role === "worker") lost.add(`default/${set}`);
  });
  controllers.add({
    name: "sets",
    backoff: { baseMs: 20, maxMs: 1_000 },
    sources: [
      kindSource(sets, forObject()),
      kindSource(
        pods,
        forMapped(({ metadata }) =>
          metadata.labels?.[partOf] === undefined ? [] : [`default/${metadata.labels[partOf]}`],
        ),
      ),
    ],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const set = sets.get(key);
      if (set === undefined || set.metadata.deletionTimestamp !== undefined) return undefined;
      const { name, uid } = set.metadata;
      const own = [...pods.view().objects].flatMap(([, each]) =>
        controllerOf(each.metadata)?.uid === uid ? [each] : [],
      );
      const leader = own.find(({ metadata }) => metadata.labels?.[roleLabel] === "leader");
      if (lost.has(key) && leader !== undefined && leader.metadata.deletionTimestamp === undefined) {
        lost.delete(key);
        const { resourceVersion } = leader.metadata;
        const preconditions = { uid: leader.metadata.uid, resourceVersion };
        const outcome = await controllers.outside.delete(at(kinds.pods, leader.metadata.name), {
          preconditions,
          cancel,
        });
        return outcome.ok ? undefined : reconcileResultOf(outcome);
      }
      const role = ["leader", "worker"].find(
        (each) => !own.some(({ metadata }) => metadata.labels?.[roleLabel] === each),
      );
      if (role === undefined) return undefined;
      const ownerReferences = [{ apiVersion: set.apiVersion, kind: set.kind, name, uid, controller: true }];
      const made = pod(`${name}-${role}-${random.uint32().toString(36)}`, {
        labels: { [partOf]: name, [roleLabel]: role },
        ownerReferences,
      });
      const outcome = await controllers.outside.create(kinds.pods, made, { cancel });
      return outcome.ok ? { requeueAfterMs: 10 } : reconcileResultOf(outcome);
    },
  });
}

const play = (variant: string, operator: () => ActorSpec) =>
  gangScene({
    slug: "straggler",
    variant,
    about: "a set is deleted and recreated, and pods of the first one are removed late",
    faults: ["watch-delay", "watch-reorder", "slow-call", "stream-cut"],
    invariants: [endsWithItsOwn],
    operator,
    user: async (ports) => {
      for (let round = 0; round < 4; round++) {
        await ensureSet(ports, "red");
        await ports.sleep(900);
        await removeSet(ports, "red");
      }
      await ensureSet(ports, "red");
    },
  });

export const straggler: Exhibit = {
  number: 19,
  slug: "straggler",
  title: "A late deletion of the old group restarts the leader of the new one",
  source: "kubernetes-sigs/lws#805",
  invariant: "I7",
  story: `
  API                                   operator
  red (u1): leader, worker
  red is deleted, red (u2) is made      red: create a leader, create a worker
  the worker of u1 is gone at last      "red has lost a worker": delete the leader of red, which is u2's

  What belongs together has the same owner UID. A pod of another owner is another gang's, whatever its labels say.`,
  fixed: {
    name: "fixed",
    about: "pods are counted by the UID of their owner",
    scenario: play("fixed", productOperator),
  },
  buggy: [
    {
      name: "by-label",
      about: "a lost worker is identified by its label",
      scenario: play("by-label", () => controllersProcess("operator", restartByName)),
      firstSeeds: 50,
      schedule: [],
    },
  ],
};

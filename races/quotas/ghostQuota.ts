import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { queueRef } from "../../src/model/scheduling/queue.ts";
import { CancelSource } from "../../src/ports/cancelSource.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess, runControllers } from "../../src/sim/controllersProcess.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, insist, kinds, person, process } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { gpusOf, nodeOf, placementScene, scheduler } from "../scheduling/schedulerScene.ts";
import { type Books, bookkeeper, limitOf, makeTeam, quotaIsUsed, team, teamPod } from "./quotaScene.ts";

/** Races in which a deleted workload holds quota. */

const lease = { namespace: "default", name: "scheduler" };

const submit = (ports: ActorPorts, name: string): Promise<void> =>
  insist(ports, () => ports.kube.create(kinds.pods, teamPod(name)));

const remove = (ports: ActorPorts, name: string): Promise<void> =>
  insist(ports, async () => {
    const gone = await ports.kube.delete(at(kinds.pods, name), { gracePeriodSeconds: 0 });
    return { ok: gone.ok || gone.reason === "NotFound" };
  });

/** A follower that caches pods from the start. The bug: only the leader removes deleted pods. */
function followersBooks(controllers: Controllers): Books {
  const queues = controllers.cache(queueRef);
  const held = new Map<string, number>();
  controllers.cache(kinds.pods).onEvent((event) => {
    const { uid } = event.object.metadata;
    if (event.type !== "deleted") {
      if (nodeOf(event.object) !== "") held.set(uid, gpusOf(event.object));
      return;
    }
    // The bug: pods that the follower did not remove are still there when it becomes the leader.
    if (controllers.lease?.epoch !== undefined) held.delete(uid);
  });
  return {
    used: () => [...held.values()].reduce((sum, gpus) => sum + gpus, 0),
    limit: () => limitOf(queues.get(team)),
    give: async (found, bind) => {
      held.set(found.metadata.uid, gpusOf(found));
      const outcome = await bind();
      if (!outcome.ok) held.delete(found.metadata.uid);
      return outcome;
    },
  };
}

/** A leader that stops after a while, as in an upgrade. */
function leaving(name: string, add: (controllers: Controllers, ports: ActorPorts) => void): ActorSpec {
  return process(name, async (ports) => {
    const cancel = new CancelSource();
    ports.cancel.onCancel(() => cancel.cancel());
    void ports.sleep(2_000).then(() => cancel.cancel());
    await runControllers({ ...ports, cancel }, add, { lease });
  });
}

const failoverScene = (isBuggy: boolean): Scenario => {
  const add = (controllers: Controllers, ports: ActorPorts): void =>
    isBuggy ? bookkeeper(controllers, ports, followersBooks(controllers)) : scheduler.add(controllers);
  return {
    ...placementScene({
      slug: "followers-ghosts",
      variant: isBuggy ? "uncleaned" : "fixed",
      about: "pods of a full queue are deleted while one process is a follower, which then becomes the leader",
      faults: ["watch-delay", "slow-call"],
      invariants: [quotaIsUsed],
      setUp: (kube) => makeTeam(kube, 2),
      ignoredForQuiescence: ["coordination.k8s.io/leases", "/events"],
      actors: () => [
        leaving("ann", add),
        process("bob", async (ports) => {
          // Late enough that the other process becomes the leader first.
          await ports.sleep(200);
          await runControllers(ports, add, { lease });
        }),
        person("owner", async (ports) => {
          for (const name of ["a", "b"]) await submit(ports, name);
          await ports.sleep(1_200);
          await remove(ports, "a");
          await ports.sleep(2_500);
          await submit(ports, "c");
        }),
      ],
    }),
    faultPhaseMs: 6_000,
    settleMs: 30_000,
  };
};

export const followersGhosts: Exhibit = {
  number: 29,
  slug: "followers-ghosts",
  title: "A follower does not drop deleted pods, and still counts them as the leader",
  source: "kubernetes-sigs/kueue#10495, #10518",
  invariant: "I10",
  story: `
  ann, leads                   bob, follows                  queue: 2 GPUs at most
  a, b run                     a, b run                      2 used
  a is deleted: forget a       a is deleted: I do not lead   1 used
  leaves                       leads: a and b run            2 used, says bob
                               c: no quota left              c waits for ever
  Each replica folds every event into its cache, leader or not.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: the caches of a follower are as current as the leader's",
    scenario: failoverScene(false),
  },
  buggy: [
    {
      name: "uncleaned",
      about: "only the leader drops deleted pods",
      scenario: failoverScene(true),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};

const requeueMs = 60;

/** A workload for every pod. A workload that loses its pod is evicted and requeued. */
function workloadsBooks(controllers: Controllers, ports: ActorPorts): Books {
  const queues = controllers.cache(queueRef);
  const admitted = new Map<string, number>();
  const used = (): number => [...admitted.values()].reduce((sum, gpus) => sum + gpus, 0);
  const limit = (): number => limitOf(queues.get(team));
  controllers.cache(kinds.pods).onEvent((event) => {
    const { uid } = event.object.metadata;
    const gpus = admitted.get(uid);
    if (event.type !== "deleted" || gpus === undefined) return;
    admitted.delete(uid);
    void ports.sleep(requeueMs).then(() => {
      // The bug: the workload of a deleted pod is admitted again, and neither runs nor ends.
      if (used() + gpus <= limit()) admitted.set(uid, gpus);
    });
  });
  return {
    used,
    limit,
    give: async (found, bind) => {
      admitted.set(found.metadata.uid, gpusOf(found));
      const outcome = await bind();
      if (!outcome.ok) admitted.delete(found.metadata.uid);
      return outcome;
    },
  };
}

const requeueScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "ownerless-workload",
    variant: isBuggy ? "requeued" : "fixed",
    about: "two replicas of a queue that may run two; one is evicted, and its owner creates another one",
    faults: ["watch-delay", "slow-call"],
    invariants: [quotaIsUsed],
    setUp: (kube) => makeTeam(kube, 2),
    actors: () => [
      person("owner", async (ports) => {
        for (const name of ["r0", "r1"]) await submit(ports, name);
        await ports.sleep(800);
        await remove(ports, "r0");
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 200)));
        await submit(ports, "r2");
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? bookkeeper(controllers, ports, workloadsBooks(controllers, ports)) : scheduler.add(controllers),
      ),
    ],
  });

export const ownerlessWorkload: Exhibit = {
  number: 30,
  slug: "ownerless-workload",
  title: "The workload of an evicted pod is requeued although its owner is deleted",
  source: "kubernetes-sigs/kueue#10407, #10274",
  invariant: "I10",
  story: `
  pods                         workloads                     queue: 2 GPUs at most
  r0, r1 run                   r0, r1 admitted               2 used
  r0 is evicted and gone       r0: back in line              1 used
                               r0: admitted again            2 used, one of them by no pod
  r2, in its stead             r2: no quota left             r2 waits for ever
  Quota is held by pods that exist; a workload without any holds nothing.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: the usage of a group is that of its pods",
    scenario: requeueScene(false),
  },
  buggy: [
    {
      name: "requeued",
      about: "an evicted workload is admitted again without reading its owner",
      scenario: requeueScene(true),
      firstSeeds: 30,
      schedule: [{ key: "owner|pause#1", value: 150 }],
    },
  ],
};

import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { annotationKeys, kaiSchedulerName } from "../../src/model/scheduling/keys.ts";
import { type PodGroup, podGroupApiVersion, podGroupRef } from "../../src/model/scheduling/podGroup.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, insist, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { isWaiting } from "../quotas/quotaScene.ts";
import {
  capacityOf,
  gpuName,
  gpuPod,
  gpusOf,
  makeNode,
  nodeOf,
  placementScene,
  reaper,
  scheduler,
} from "./schedulerScene.ts";

/** Races in which two parts of one sum come from two times. */

/** Compares usage with capacity, and evicts the excess. */
function shrinkingScheduler(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  const used = new Map<string, string>();
  const released = new Set<string>();
  pods.onEvent((event) => {
    const { uid } = event.object.metadata;
    if (event.type === "deleted") used.delete(uid);
    else if (nodeOf(event.object) !== "" && !released.has(uid)) used.set(uid, nodeOf(event.object));
  });
  nodes.onEvent((event) => {
    if (event.type !== "deleted") return;
    // The bug: the capacity of the node is subtracted at once, and the usage of its pods later.
    void ports.sleep(40).then(() => {
      for (const [uid, node] of used) {
        if (node !== event.key) continue;
        released.add(uid);
        used.delete(uid);
      }
    });
  });
  controllers.add({
    name: "scheduler",
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (!isWaiting(found)) return undefined;
      let total = 0;
      for (const [, node] of nodes.view().objects) total += capacityOf(node);
      if (used.size > total) {
        const [, victim] = [...pods.view().objects].find(([, each]) => nodeOf(each) === "n1") ?? [];
        if (victim !== undefined) await ports.kube.delete(at(kinds.pods, victim.metadata.name), {});
      }
      for (const [name, node] of nodes.view().objects) {
        let here = 0;
        for (const [, each] of pods.view().objects) if (nodeOf(each) === name) here++;
        if (here >= capacityOf(node)) continue;
        const outcome = await ports.kube.bind(at(kinds.pods, found.metadata.name), {
          node: name,
          uid: found.metadata.uid,
        });
        return outcome.ok ? undefined : reconcileResultOf(outcome);
      }
      return { requeueAfterMs: 200 };
    },
  });
}

/** Pods on n1 are not affected by what happens to n2. */
const othersStay: Invariant = {
  id: "I15",
  fact: "the deletion of a node evicts no pod from another node",
  begin: () => ({
    commit: ({ event, call }) => {
      const { resource, name } = event.current;
      if (resource !== "/pods" || call.actor !== "scheduler" || call.verb !== "delete") return undefined;
      const victim = (event.previous ?? event.current).object();
      return nodeOf(victim) === "n1" ? `${name} was evicted from n1, which is as it was` : undefined;
    },
  }),
};

const removalScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "shrunk-capacity",
    variant: isBuggy ? "capacity-first" : "fixed",
    about: "two full nodes, and one of them is deleted with its pods",
    faults: ["watch-delay", "slow-call"],
    invariants: [othersStay],
    setUp: async (kube) => {
      for (const name of ["n1", "n2"]) await makeNode(kube, name, 2);
    },
    actors: () => [
      person("owner", async (ports) => {
        for (const name of ["a", "b", "c", "d"]) {
          const spec = { terminationGracePeriodSeconds: 1 };
          await insist(ports, () => ports.kube.create(kinds.pods, gpuPod(name, { spec })));
        }
        await ports.sleep(900);
        await insist(ports, async () => {
          const gone = await ports.kube.delete(at(kinds.nodes, "n2"), {});
          return { ok: gone.ok || gone.reason === "NotFound" };
        });
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 100)));
        await insist(ports, () => ports.kube.create(kinds.pods, gpuPod("e")));
        const listed = await ports.kube.list(kinds.pods);
        for (const each of listed.ok ? listed.value.items : []) {
          if (nodeOf(each) !== "n2") continue;
          await ports.kube.delete(at(kinds.pods, each.metadata.name), { gracePeriodSeconds: 0 });
        }
      }),
      reaper(),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? shrinkingScheduler(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const shrunkCapacity: Exhibit = {
  number: 36,
  slug: "shrunk-capacity",
  title: "The capacity of a node is subtracted before its allocations, and the cluster looks overcommitted",
  source: "apache/yunikorn-core#724",
  invariant: "I15",
  story: `
  node n2 is removed           total     used     n1: a, b
  capacity of n2 goes          2         4
  e comes: 4 of 2 are used?    2         4        a is evicted, to make up for it
  allocations of n2 go         2         2        a died for nothing
  A node has its capacity and its holders in one place, and they go in one step.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: allocations are counted on their node only",
    scenario: removalScene(false),
  },
  buggy: [
    {
      name: "capacity-first",
      about: "40 ms pass between the capacity of the node and its allocations",
      scenario: removalScene(true),
      firstSeeds: 30,
      schedule: [{ key: "owner|pause#1", value: 10 }],
    },
  ],
};

const groups = ["x", "y"];

/** Takes a slow snapshot: first the pods, then the usage of their groups. */
function slowSnapshot(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const known = controllers.cache(podGroupRef);
  let done = "";
  controllers.add({
    name: "accounts",
    sources: [kindSource(pods, () => ["all"])],
    reconcile: async () => {
      if (pods.revision === done) return undefined;
      const first = [...pods.view().objects].map(([, each]) => each);
      await ports.sleep(30);
      const second = [...pods.view().objects].map(([, each]) => each);
      for (const name of groups) {
        // The bug: x is counted before the change, y after it, and both are reported as current.
        const ours = (name === "x" ? first : second).filter((each) => groupOf(each) === name);
        const amount = ours.reduce((sum, each) => sum + gpusOf(each), 0);
        const resourcesStatus = { requested: { [gpuName]: String(amount) } };
        const ref = { ...podGroupRef, namespace: "default", name, subresource: "status" };
        const reported = (known.get(`default/${name}`) as unknown as PodGroup | undefined)?.status?.resourcesStatus;
        if (reported?.requested?.[gpuName] === String(amount)) continue;
        await insist(ports, () => ports.kube.patch(ref, { type: "merge", body: { status: { resourcesStatus } } }));
      }
      done = pods.revision;
      return undefined;
    },
  });
}

function groupOf({ metadata }: KubeObject): string {
  return metadata.annotations?.[annotationKeys.podGroup] ?? "";
}

/** A pod is in one group. */
const groupsAddUp: Invariant = {
  id: "I6",
  fact: "at rest the requests in the status of a group are those of its pods",
  begin: ({ store }) => ({
    atRest: () => {
      const pods = [...store.collection("/pods").all()].map((version) => version.object());
      for (const name of groups) {
        const group = store.get("scheduling.run.ai/podgroups", "default", name)?.object();
        const reported = Number((group as unknown as PodGroup).status?.resourcesStatus?.requested?.[gpuName] ?? "0");
        const asked = pods.filter((each) => groupOf(each) === name).reduce((sum, each) => sum + gpusOf(each), 0);
        if (reported !== asked)
          return `group ${name} says that it asks for ${reported} GPUs, and its pods for ${asked}`;
      }
      return undefined;
    },
  }),
};

const movedScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "moved-pod",
    variant: isBuggy ? "two-reads" : "fixed",
    about: "a pod moves from one group to another while a snapshot is taken",
    faults: ["watch-delay", "slow-call"],
    invariants: [groupsAddUp],
    setUp: async (kube) => {
      for (const name of groups) {
        const spec = { queue: "default-queue", minMember: 1 };
        await kube.create(podGroupRef, plain(podGroupApiVersion, "PodGroup", "default", name, { spec }));
      }
    },
    actors: () => [
      person("owner", async (ports) => {
        for (const [name, group] of [
          ["a", "x"],
          ["b", "y"],
          ["c", "x"],
        ] as const) {
          const words = { schedulerName: kaiSchedulerName, annotations: { [annotationKeys.podGroup]: group } };
          await insist(ports, () => ports.kube.create(kinds.pods, gpuPod(name, words)));
          if (name === "b") await ports.sleep(400);
        }
        // The new pod starts a snapshot; then it moves.
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 60)));
        const body = { metadata: { annotations: { [annotationKeys.podGroup]: "y" } } };
        await insist(ports, () => ports.kube.patch(at(kinds.pods, "c"), { type: "merge", body }));
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? slowSnapshot(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const movedPod: Exhibit = {
  number: 57,
  slug: "moved-pod",
  title: "A snapshot takes a second, and a pod changes its group meanwhile",
  source: "kai-scheduler/KAI-Scheduler#2117, #2095",
  invariant: "I6",
  story: `
  snapshot                     c
  read the pods of x: a, c     in x
                               moves to y
  read the pods of y: b, c     in y
  x asks for 2, y asks for 2   there are three pods
  A snapshot is one object that never changes: whatever happens meanwhile is in the next one.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: both groups are counted from one snapshot",
    scenario: movedScene(false),
  },
  buggy: [
    {
      name: "two-reads",
      about: "30 ms pass between the two parts of the snapshot",
      scenario: movedScene(true),
      firstSeeds: 30,
      schedule: [{ key: "owner|pause#1", value: 15 }],
    },
  ],
};

import type { Controllers } from "../../src/control/runtime/controllers.ts";
import type { ReconcileResult } from "../../src/control/runtime/loop.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, insist, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import {
  capacityOf,
  gpuPod,
  gpusOf,
  makeNode,
  nodeOf,
  nothingIsLost,
  placementScene,
  reaper,
  scheduler,
} from "./schedulerScene.ts";

/** Races after which a scheduler misses free room, or evicts pods for room that is not used. */

const claims = { group: "", version: "v1", plural: "persistentvolumeclaims" } as const;
const volumes = { group: "", version: "v1", plural: "persistentvolumes" } as const;

async function bindTo(ports: ActorPorts, found: KubeObject, node: string): Promise<ReconcileResult> {
  const { name, uid } = found.metadata;
  const outcome = await ports.kube.bind(at(kinds.pods, name), { node, uid });
  return outcome.ok ? undefined : reconcileResultOf(outcome);
}

function isWaiting(found: KubeObject | undefined): found is KubeObject {
  return found !== undefined && nodeOf(found) === "" && found.metadata.deletionTimestamp === undefined;
}

/** Keeps a copy of the cluster, rebuilt when a flag says that something has changed. */
function flaggedScheduler(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  let used = new Map<string, number>();
  let isDirty = true;
  pods.onEvent(() => {
    isDirty = true;
  });
  const resync = async (): Promise<void> => {
    const now = new Map<string, number>();
    for (const [, each] of pods.view().objects) now.set(nodeOf(each), (now.get(nodeOf(each)) ?? 0) + gpusOf(each));
    await ports.sleep(30);
    used = now;
    // The bug: events during the 30 ms are not in the copy, and their flag is cleared.
    isDirty = false;
  };
  controllers.add({
    name: "scheduler",
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (!isWaiting(found)) return undefined;
      if (isDirty) await resync();
      for (const [name, node] of nodes.view().objects) {
        if ((used.get(name) ?? 0) + gpusOf(found) > capacityOf(node)) continue;
        used.set(name, (used.get(name) ?? 0) + gpusOf(found));
        return bindTo(ports, found, name);
      }
      return { requeueAfterMs: 100 };
    },
  });
}

/** Tries a pod once: if its claim is not cached by then, the pod is dropped. */
function droppingScheduler(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const known = controllers.cache(claims);
  controllers.add({
    name: "scheduler",
    sources: [kindSource(pods, forObject())],
    reconcile: (key) => {
      const found = pods.get(key);
      if (!isWaiting(found)) return undefined;
      const claim = (found as unknown as Pod).spec?.volumes?.[0]?.persistentVolumeClaim?.claimName;
      // The bug: the event of the claim is only late, and the pod is not requeued.
      if (claim !== undefined && known.get(`default/${claim}`) === undefined) return undefined;
      return bindTo(ports, found, "n1");
    },
  });
}

/** Collects victims on one node after the other until the preemptor fits, and evicts them all. */
function greedyPreemptor(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  controllers.add({
    name: "scheduler",
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (!isWaiting(found)) return undefined;
      const victims: KubeObject[] = [];
      for (const [name, node] of nodes.view().objects) {
        let free = capacityOf(node);
        const here = [...pods.view().objects].map(([, each]) => each).filter((each) => nodeOf(each) === name);
        for (const each of here) free -= gpusOf(each);
        for (const each of here) {
          if (free >= gpusOf(found)) break;
          // The bug: victims on a node that did not fit stay in the list.
          victims.push(each);
          free += gpusOf(each);
        }
        if (free < gpusOf(found)) continue;
        for (const { metadata } of victims) await ports.kube.delete(at(kinds.pods, metadata.name), {});
        if (victims.every((each) => pods.get(`default/${each.metadata.name}`) === undefined))
          return bindTo(ports, found, name);
        return { requeueAfterMs: 150 };
      }
      return { requeueAfterMs: 150 };
    },
  });
}

/** Assumes its decisions, and counts assumed pods as allocated when a node is recreated. */
function adoptingScheduler(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  const assumed = new Map<string, string>();
  const phantoms = new Map<string, number>();
  nodes.onEvent((event) => {
    if (event.type !== "added") return;
    // The bug: an assumed pod becomes an allocation that is never released.
    const here = [...assumed.values()].filter((node) => node === event.key).length;
    phantoms.set(event.key, here);
  });
  const usedOn = (node: string): number => {
    let used = phantoms.get(node) ?? 0;
    for (const [, each] of pods.view().objects) if (nodeOf(each) === node) used++;
    for (const place of assumed.values()) if (place === node) used++;
    return used;
  };
  controllers.add({
    name: "scheduler",
    concurrency: 4,
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (!isWaiting(found)) return undefined;
      for (const [name, node] of nodes.view().objects) {
        if (usedOn(name) >= capacityOf(node)) continue;
        assumed.set(found.metadata.uid, name);
        const result = await bindTo(ports, found, name);
        assumed.delete(found.metadata.uid);
        return result;
      }
      return { requeueAfterMs: 100 };
    },
  });
}

async function twoNodes(kube: KubeApi): Promise<void> {
  await makeNode(kube, "n1", 1);
  await makeNode(kube, "n2", 1);
}

const flagScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "cleared-flag",
    variant: isBuggy ? "flag" : "fixed",
    about: "pods are created and deleted while a scheduler rebuilds its copy of the cluster",
    faults: ["watch-delay", "slow-call"],
    invariants: [nothingIsLost("I10")],
    setUp: twoNodes,
    actors: () => [
      person("owner", async (ports) => {
        for (const name of ["a", "b"]) await ports.kube.create(kinds.pods, gpuPod(name));
        await ports.sleep(400);
        // The new pod starts a resync; a pod is deleted while it runs, or before.
        await ports.kube.create(kinds.pods, gpuPod("c"));
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 60)));
        await ports.kube.delete(at(kinds.pods, "a"), { gracePeriodSeconds: 0 });
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? flaggedScheduler(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const clearedFlag: Exhibit = {
  number: 15,
  slug: "cleared-flag",
  title: "A dirty flag is cleared although changes arrived during the resync",
  source: "kubernetes-sigs/scheduler-plugins@6330e299",
  invariant: "I10",
  story: `
  scheduler                    pods
  dirty: read them all         a on n1, b on n2
  ... 30 ms                    a is deleted: dirty
  copy: n1 and n2 full
  dirty := false               the deletion is in no copy
  c waits for ever             n1 is free
  The model is updated by each event in order; no copy is rebuilt.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: events are applied as they arrive",
    scenario: flagScene(false),
  },
  buggy: [
    {
      name: "flag",
      about: "the flag is cleared at the end of the resync",
      scenario: flagScene(true),
      firstSeeds: 60,
      schedule: [{ key: "owner|pause#1", value: 15 }],
    },
  ],
};

const claimScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "late-claim",
    variant: isBuggy ? "dropped" : "fixed",
    about: "events of pods arrive before those of the claims that they use",
    faults: ["watch-delay", "watch-reorder"],
    invariants: [nothingIsLost("I17")],
    setUp: (kube) => makeNode(kube, "n1", 8),
    actors: () => [
      person("owner", async (ports) => {
        for (const name of ["a", "b", "c"]) {
          const spec = {
            accessModes: ["ReadWriteOnce"],
            resources: { requests: { storage: "1Gi" } },
            volumeName: `pv-${name}`,
            storageClassName: "",
          };
          const claim = plain("v1", "PersistentVolumeClaim", "default", name, { spec });
          await insist(ports, () => ports.kube.create(claims, claim));
          const volume = {
            capacity: { storage: "1Gi" },
            accessModes: ["ReadWriteOnce"],
            hostPath: { path: "/d" },
            storageClassName: "",
          };
          const lying = plain("v1", "PersistentVolume", "", `pv-${name}`, { spec: volume });
          await insist(ports, () => ports.kube.create(volumes, lying));
          const used = { volumes: [{ name: "d", persistentVolumeClaim: { claimName: name } }] };
          await ports.kube.create(kinds.pods, gpuPod(name, { spec: used }));
          const body = { status: { phase: "Bound" } };
          await insist(ports, () =>
            ports.kube.patch({ ...at(claims, name), subresource: "status" }, { type: "merge", body }),
          );
          await ports.sleep(200);
        }
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? droppingScheduler(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const lateClaim: Exhibit = {
  number: 44,
  slug: "late-claim",
  title: "The event of a pod arrives before that of its claim, and the pod is dropped for ever",
  source: "volcano-sh/volcano#5596",
  invariant: "I17",
  story: `
  API                          scheduler
  claim c, pod p uses c
             --- p ---------->  p uses c, and there is no c: drop p
             --- c ---------->  c: no pod waits for it
                                p waits for ever
  What is unknown is waited for: every event that could change a decision starts another one.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: the event of the claim starts another cycle",
    scenario: claimScene(false),
  },
  buggy: [
    {
      name: "dropped",
      about: "a pod is tried once",
      scenario: claimScene(true),
      firstSeeds: 40,
      schedule: [{ key: "scheduler|watch|/persistentvolumeclaims#1|ADDED|a#1|watch-delay", value: 300_000 }],
    },
  ],
};

/** v1 runs on a node that is too small for the preemptor, even when empty. */
const noNeedlessEviction: Invariant = {
  id: "I16",
  fact: "no pod is evicted from a node that the preemptor is not bound to",
  begin: () => ({
    commit: ({ event, call }) => {
      const { resource, name } = event.current;
      if (resource !== "/pods" || name !== "v1" || call.actor !== "scheduler" || call.verb !== "delete")
        return undefined;
      return "v1 was evicted from n1, which is too small for the preemptor";
    },
  }),
};

const victimScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "leftover-victims",
    variant: isBuggy ? "leftover" : "fixed",
    about: "a pod of high priority needs two GPUs of one node, and every node is full",
    faults: ["watch-delay", "slow-call", "conflict"],
    invariants: [noNeedlessEviction],
    setUp: async (kube) => {
      await makeNode(kube, "n1", 1);
      await makeNode(kube, "n2", 2);
      for (const [name, value] of [
        ["low", 1],
        ["high", 1_000],
      ] as const) {
        const classes = { group: "scheduling.k8s.io", version: "v1", plural: "priorityclasses" };
        await kube.create(classes, plain("scheduling.k8s.io/v1", "PriorityClass", "", name, { value }));
      }
      for (const [name, nodeName] of [
        ["v1", "n1"],
        ["v2", "n2"],
        ["v3", "n2"],
      ] as const) {
        await kube.create(
          kinds.pods,
          gpuPod(name, { spec: { nodeName, priorityClassName: "low", terminationGracePeriodSeconds: 1 } }),
        );
      }
    },
    actors: () => [
      person("owner", async (ports) => {
        await ports.sleep(300);
        await ports.kube.create(kinds.pods, gpuPod("newcomer", { gpus: 2, spec: { priorityClassName: "high" } }));
      }),
      reaper(),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? greedyPreemptor(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const leftoverVictims: Exhibit = {
  number: 26,
  slug: "leftover-victims",
  title: "Evictions that were tried on a node that did not fit are carried out",
  source: "volcano-sh/volcano#5067",
  invariant: "I16",
  story: `
  scheduler                    n1: v1 (1 GPU)     n2: v2, v3 (2 GPUs)
  the newcomer wants 2
  try n1: evict v1             still too small
  try n2: evict v2, v3         fits
  commit: evict v1, v2, v3     v1 died for nothing
  What was tried on a node that did not fit is rolled back before the next one.`,
  fixed: { name: "fixed", about: "the product's scheduler: each attempt is rolled back", scenario: victimScene(false) },
  buggy: [
    {
      name: "leftover",
      about: "one list of victims for all nodes",
      scenario: victimScene(true),
      firstSeeds: 10,
      schedule: [],
    },
  ],
};

const flapScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "adopted-phantom",
    variant: isBuggy ? "adopted" : "fixed",
    about: "a node is deleted and recreated while a bind to it is in flight",
    faults: ["slow-call", "watch-delay"],
    invariants: [nothingIsLost("I15")],
    setUp: (kube) => makeNode(kube, "n1", 1),
    actors: () => [
      person("owner", async (ports) => {
        await insist(ports, () => ports.kube.create(kinds.pods, gpuPod("a")));
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 200)));
        await ports.kube.delete(at(kinds.nodes, "n1"), {});
        await insist(ports, async () => {
          await makeNode(ports.kube, "n1", 1);
          const found = await ports.kube.get(at(kinds.nodes, "n1"));
          return { ok: found.ok && capacityOf(found.value) === 1 };
        });
        await ports.sleep(900);
        await insist(ports, async () => {
          const gone = await ports.kube.delete(at(kinds.pods, "a"), { gracePeriodSeconds: 0 });
          return { ok: gone.ok || gone.reason === "NotFound" };
        });
        await insist(ports, () => ports.kube.create(kinds.pods, gpuPod("b")));
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? adoptingScheduler(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const adoptedPhantom: Exhibit = {
  number: 37,
  slug: "adopted-phantom",
  title: "A node is recreated, and a pod that was only assumed on it counts for ever",
  source: "apache/yunikorn-k8shim#1068",
  invariant: "I15",
  story: `
  scheduler                    API
  assume a on n1
  bind a to n1 ------\\
                      \\        n1 is deleted and made again
  n1 is new: adopt a   \\
                        -->    a on n1, later deleted
  n1: one phantom, 0 free      b waits for ever
  A place has one holder, by the UID of its pod; a node that comes back changes nothing about it.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: the free room of a node is recounted from its pods",
    scenario: flapScene(false),
  },
  buggy: [
    {
      name: "adopted",
      about: "an assumed pod becomes an allocation of the new node",
      scenario: flapScene(true),
      firstSeeds: 60,
      schedule: [
        { key: "owner|pause#1", value: 50 },
        { key: "scheduler|bind|/pods/default/a#1|request|slow-call", value: 500_000 },
      ],
    },
  ],
};

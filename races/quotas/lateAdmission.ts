import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forObject, kindSource } from "../../src/control/runtime/sources.ts";
import type { Node, Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { type BindRequest, bindRequestApiVersion, bindRequestRef } from "../../src/model/scheduling/bindRequest.ts";
import { annotationKeys } from "../../src/model/scheduling/keys.ts";
import { podGroupApiVersion, podGroupRef } from "../../src/model/scheduling/podGroup.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import { changesWhatItSaw } from "../../src/sim/invariants/general.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, insist, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import type { Exhibit } from "../exhibit.ts";
import { gpuPod, makeNode, nothingIsLost, placementScene, reaper, scheduler } from "../scheduling/schedulerScene.ts";
import { isWaiting, makeTeam, teamPod } from "./quotaScene.ts";

/** Races in which an earlier decision is written later, or to another object. */

const classes = { group: "scheduling.k8s.io", version: "v1", plural: "priorityclasses" };
const held = (actor: string): boolean => actor === "scheduler";

/** Admits groups by a write that is not awaited, and evicts them by another one. */
function asyncAdmitter(controllers: Controllers, ports: ActorPorts): void {
  const groups = controllers.cache(podGroupRef);
  const pods = controllers.cache(kinds.pods);
  const admitted = new Set<string>();
  const write = (name: string, annotations: Record<string, string | null>): void => {
    // The bug: the write has no precondition and may take effect at any later time.
    const body = { metadata: { annotations } };
    void ports.kube.patch({ ...podGroupRef, namespace: "default", name }, { type: "merge", body });
  };
  controllers.add({
    name: "admission",
    sources: [kindSource(groups, forObject())],
    reconcile: (key) => {
      const name = groups.get(key)?.metadata.name;
      if (name === undefined || admitted.has(name)) return undefined;
      if (name === "low" && admitted.has("high")) return undefined;
      if (name === "high" && admitted.delete("low")) write("low", { admitted: null, evicted: "true" });
      admitted.add(name);
      write(name, { admitted: "true" });
      return undefined;
    },
  });
  controllers.add({
    name: "launcher",
    sources: [kindSource(pods, forObject()), kindSource(groups, ({ object }) => [`default/${object.metadata.name}`])],
    reconcile: async (key) => {
      const found = pods.get(key);
      const group = groups.get(key);
      if (!isWaiting(found) || group?.metadata.annotations?.["admitted"] !== "true") return undefined;
      const { name, uid } = found.metadata;
      const outcome = await ports.kube.bind(at(kinds.pods, name), { node: "n1", uid });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const admissionScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "late-admission",
    variant: isBuggy ? "async" : "fixed",
    about: "a queue that may run one pod: one is admitted, and soon evicted for another one",
    faults: ["slow-call", "client-queue", "watch-delay"],
    invariants: [changesWhatItSaw(held)],
    setUp: async (kube) => {
      await makeTeam(kube, 1);
      for (const [name, value] of [
        ["low", 1],
        ["high", 60],
      ] as const) {
        await kube.create(classes, plain("scheduling.k8s.io/v1", "PriorityClass", "", name, { value }));
      }
    },
    actors: () => [
      person("owner", async (ports) => {
        for (const name of ["low", "high"]) {
          const spec = { queue: "team", minMember: 1, priorityClassName: name };
          const group = plain(podGroupApiVersion, "PodGroup", "default", name, { spec });
          await insist(ports, () => ports.kube.create(podGroupRef, group));
          const words = {
            annotations: { [annotationKeys.podGroup]: name },
            spec: { terminationGracePeriodSeconds: 1 },
          };
          await insist(ports, () => ports.kube.create(kinds.pods, teamPod(name, words)));
          await ports.sleep(ports.choose("pause", (dice) => dice.between(50, 400)));
        }
      }),
      reaper(),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? asyncAdmitter(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const lateAdmission: Exhibit = {
  number: 28,
  slug: "late-admission",
  title: "An admission takes effect after the eviction of the same workload, and reverts it",
  source: "kubernetes-sigs/kueue#11480, #11502",
  invariant: "I5",
  story: `
  scheduler                          API                     queue: one may run
  admit low ------\\
  high comes: evict low  \\ ------->  low: evicted
  admit high        \\ ----------->  high: admitted
                     \\ ---------->  low: admitted           low and high both run
  A write names the state that it was decided on, and is refused on any other.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: a bind carries the resourceVersion of the pod, and an eviction cannot be reverted",
    scenario: admissionScene(false),
  },
  buggy: [
    {
      name: "async",
      about: "admissions are written asynchronously without a precondition",
      scenario: admissionScene(true),
      firstSeeds: 60,
      schedule: [
        { key: "owner|pause#1", value: 100 },
        { key: "scheduler|patch|scheduling.run.ai/podgroups/default/low#1|request|slow-call", value: 600_000 },
      ],
    },
  ],
};

function isCordoned(node: KubeObject): boolean {
  return (node as unknown as Node).spec?.unschedulable === true;
}

/** Creates the request for a node, and nominates the node on the pod afterwards. */
function hastyNominator(controllers: Controllers, ports: ActorPorts): void {
  const pods = controllers.cache(kinds.pods);
  const nodes = controllers.cache(kinds.nodes);
  const requests = controllers.cache(bindRequestRef);
  const nominatedOf = (found: KubeObject): string | undefined => (found as unknown as Pod).status?.nominatedNodeName;
  controllers.add({
    name: "nomination",
    sources: [kindSource(pods, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      if (!isWaiting(found) || nominatedOf(found) !== undefined) return undefined;
      const { name, uid, resourceVersion } = found.metadata;
      const chosen = [...nodes.view().objects].map(([, node]) => node).find((node) => !isCordoned(node));
      if (chosen === undefined) return { requeueAfterMs: 100 };
      const node = chosen.metadata.name;
      // The bug: the request is created before the nomination is stored. An existing request is accepted.
      const metadata = { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }] };
      const spec = { podName: name, selectedNode: node, receivedResourceType: "Regular" as const };
      await ports.kube.create(
        bindRequestRef,
        plain(bindRequestApiVersion, "BindRequest", "default", name, { metadata, spec }),
      );
      const body = { metadata: { uid, resourceVersion }, status: { nominatedNodeName: node } };
      const noted = await ports.kube.patch({ ...at(kinds.pods, name), subresource: "status" }, { type: "merge", body });
      return noted.ok ? undefined : { requeueAfterMs: 120 };
    },
  });
  controllers.add({
    name: "binder",
    sources: [kindSource(pods, forObject()), kindSource(requests, forObject())],
    reconcile: async (key) => {
      const found = pods.get(key);
      const request = requests.get(key) as unknown as BindRequest | undefined;
      if (!isWaiting(found) || request === undefined) return undefined;
      const node = request.spec?.selectedNode ?? "";
      // Only what was nominated is bound.
      if (nominatedOf(found) !== node) return undefined;
      const { name, uid } = found.metadata;
      const outcome = await ports.kube.bind(at(kinds.pods, name), { node, uid });
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

const nominationScene = (isBuggy: boolean): Scenario =>
  placementScene({
    slug: "early-request",
    variant: isBuggy ? "request-first" : "fixed",
    about: "a node is cordoned while a pod is being placed on it",
    faults: ["conflict", "watch-delay", "slow-call"],
    invariants: [nothingIsLost("I17")],
    setUp: async (kube) => {
      for (const name of ["n1", "n2"]) await makeNode(kube, name, 1);
    },
    actors: () => [
      person("owner", async (ports) => {
        await insist(ports, () => ports.kube.create(kinds.pods, gpuPod("a")));
        await ports.sleep(ports.choose("pause", (dice) => dice.between(1, 100)));
        const body = { spec: { unschedulable: true } };
        await insist(ports, () => ports.kube.patch(at(kinds.nodes, "n1"), { type: "merge", body }));
      }),
      controllersProcess("scheduler", (controllers, ports) =>
        isBuggy ? hastyNominator(controllers, ports) : scheduler.add(controllers),
      ),
    ],
  });

export const earlyRequest: Exhibit = {
  number: 32,
  slug: "early-request",
  title: "A nomination is not stored yet, and the request for it is rejected for ever",
  source: "kubernetes-sigs/kueue#11062, #11378",
  invariant: "I17",
  story: `
  scheduler                          API
  a fits n1: make a request    -->   request: a to n1
  note on a: n1                -->   refused, a has changed      n1 is cordoned
  a fits n2: make a request    -->   there is one already: fine
  note on a: n2                -->   a: n2
  binder: the request says n1, and n2 was nominated: not this one, and never another
  The request is the decision. One that is not wanted any more goes before the next is made.`,
  fixed: {
    name: "fixed",
    about: "the product's scheduler: one write decides, and it carries the resourceVersion of the pod",
    scenario: nominationScene(false),
  },
  buggy: [
    {
      name: "request-first",
      about: "the request is created before its nomination is stored",
      scenario: nominationScene(true),
      firstSeeds: 100,
      schedule: [
        { key: "owner|pause#1", value: 40 },
        { key: "scheduler|patch|/pods/default/a#1|conflict", value: 10 },
      ],
    },
  ],
};

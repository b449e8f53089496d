import { addGangReconcilers, gangComponent } from "../../src/control/gang/gangComponent.ts";
import { gangResources } from "../../src/model/gang/keys.ts";
import type { PodCliqueSet } from "../../src/model/gang/types.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject, Unstored } from "../../src/model/objects/object.ts";
import { unreachableTaint } from "../../src/model/objects/taints.ts";
import { formatTime } from "../../src/model/values/time.ts";
import type { ActorPorts, ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import { simGangSettings } from "../../src/sim/gang/scenario.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import type { Scenario } from "../../src/sim/scenario.ts";
import { at, kinds, person, plain } from "../../src/sim/sceneKit.ts";
import { tinyKubelet } from "../../src/sim/workloads/tinyKubelet.ts";
import { tinyScheduler } from "../../src/sim/workloads/tinyScheduler.ts";

export const sceneSettings = simGangSettings("Suppress");

/** The operator as the product has it. */
export const productOperator = (): ActorSpec =>
  controllersProcess("operator", (controllers) => void addGangReconcilers(controllers, sceneSettings));

/**
 * The common scenario of races about gangs: two nodes with room for a few pods each, a scheduler, a kubelet, and the
 * actors under test.
 */
export function gangScene(options: {
  readonly slug: string;
  readonly variant: string;
  readonly about: string;
  readonly faults: readonly string[];
  readonly invariants: readonly Invariant[];
  readonly operator: () => ActorSpec;
  readonly user: (ports: ActorPorts) => Promise<void>;
  readonly podsPerNode?: number;
}): Scenario {
  const { slug, variant, about, faults, invariants, operator, user, podsPerNode = 8 } = options;
  return {
    name: `race/${slug}/${variant}`,
    about,
    components: [gangComponent(sceneSettings)],
    serverLoops: true,
    faults,
    invariants,
    setUp: async (kube) => {
      await kube.create(kinds.namespaces, plain("v1", "Namespace", "", "default"));
      for (const name of ["n0", "n1"]) {
        const allocatable = { cpu: "8", memory: "64Gi", pods: String(podsPerNode) };
        const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }];
        const status = { allocatable, capacity: allocatable, conditions };
        const made = await kube.create(kinds.nodes, plain("v1", "Node", "", name, { status }));
        if (made.ok) await kube.update({ ...at(kinds.nodes, name), subresource: "status" }, { ...made.value, status });
      }
    },
    actors: () => [
      operator(),
      { ...controllersProcess("scheduler", tinyScheduler), isExemptFromFaults: true },
      { ...controllersProcess("kubelet", (controllers) => tinyKubelet(controllers)), isExemptFromFaults: true },
      person("user", user),
    ],
    faultPhaseMs: 8_000,
    settleMs: 60_000,
    quietMs: 9_000,
    ignoredForQuiescence: ["/events", "coordination.k8s.io/leases"],
  };
}

/** A set with one clique of two pods, both required. */
export function pairSet(name: string): Unstored<PodCliqueSet> {
  const unreachable = { key: unreachableTaint, operator: "Exists", effect: "NoExecute", tolerationSeconds: 1 };
  const podSpec = {
    terminationGracePeriodSeconds: 1,
    tolerations: [unreachable],
    containers: [{ name: "main", image: "registry/app:1" }],
  };
  return plain("grove.io/v1alpha1", "PodCliqueSet", "default", name, {
    spec: {
      replicas: 1,
      template: { cliques: [{ name: "work", spec: { roleName: "work", replicas: 2, minAvailable: 2, podSpec } }] },
    },
  });
}

/**
 * Loses a node and force-deletes its pods, with retries until it succeeds.
 */
export async function loseNode(ports: ActorPorts, name: string): Promise<void> {
  const body = { spec: { unschedulable: true } };
  while (!(await ports.kube.patch(at(kinds.nodes, name), { type: "merge", body })).ok) await ports.sleep(100);
  for (;;) {
    const found = await ports.kube.list(kinds.pods);
    const there = found.ok
      ? found.value.items.filter((pod) => (pod as unknown as Pod).spec?.nodeName === name)
      : undefined;
    if (there?.length === 0) return;
    for (const { metadata } of there ?? []) {
      const { uid } = metadata;
      await ports.kube.delete(at(kinds.pods, metadata.name), { preconditions: { uid }, gracePeriodSeconds: 0 });
    }
    await ports.sleep(50);
  }
}

/**
 * The kubelet does not report and the cluster has noticed: the node is unreachable, and if other nodes are ready its
 * pods are evicted. They stay Terminating, because no kubelet removes them.
 */
export async function silenceNode(ports: ActorPorts, name: string, { isLast }: { isLast: boolean }): Promise<void> {
  for (;;) {
    const found = await ports.kube.get(at(kinds.nodes, name));
    if (found.ok) {
      const lastTransitionTime = formatTime(ports.clock.nowMs());
      const unknown = {
        type: "Ready",
        status: "Unknown",
        reason: "NodeStatusUnknown",
        message: "",
        lastTransitionTime,
      };
      const status = { ...(found.value["status"] as object), conditions: [unknown] };
      const ref = { ...at(kinds.nodes, name), subresource: "status" };
      if ((await ports.kube.update(ref, { ...found.value, status })).ok) break;
    }
    await ports.sleep(100);
  }
  if (isLast) return;
  await ports.sleep(1_000);
  for (;;) {
    const found = await ports.kube.list(kinds.pods);
    const staying = found.ok
      ? found.value.items.filter(
          (pod) => (pod as unknown as Pod).spec?.nodeName === name && pod.metadata.deletionTimestamp === undefined,
        )
      : undefined;
    if (staying?.length === 0) return;
    for (const { metadata } of staying ?? []) {
      await ports.kube.delete(at(kinds.pods, metadata.name), { preconditions: { uid: metadata.uid } });
    }
    await ports.sleep(50);
  }
}

export async function returnNode(ports: ActorPorts, name: string): Promise<void> {
  const body = { spec: { unschedulable: null } };
  while (!(await ports.kube.patch(at(kinds.nodes, name), { type: "merge", body })).ok) await ports.sleep(100);
}

/** Creates the set unless it exists: a process that crashed in between starts again. */
export async function ensureSet(ports: ActorPorts, name: string): Promise<void> {
  for (;;) {
    if ((await ports.kube.create(gangResources.PodCliqueSet, pairSet(name))).ok) return;
    const found = await ports.kube.get(setRef(name));
    if (found.ok && found.value.metadata.deletionTimestamp === undefined) return;
    await ports.sleep(100);
  }
}

export async function removeSet(ports: ActorPorts, name: string): Promise<void> {
  for (;;) {
    const outcome = await ports.kube.delete(setRef(name), { propagationPolicy: "Background" });
    if (outcome.ok || outcome.reason === "NotFound") return;
    await ports.sleep(100);
  }
}

export const setRef = (name: string) => at(gangResources.PodCliqueSet, name);

/** Pods labelled as part of a set, whatever controller created them. */
export const podsOfSet = (pods: Iterable<KubeObject>, set: string): KubeObject[] =>
  [...pods].filter(({ metadata }) => metadata.labels?.["app.kubernetes.io/part-of"] === set);

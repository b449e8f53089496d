import { gangResources } from "../../model/gang/keys.ts";
import type { PodCliqueSet } from "../../model/gang/types.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";
import { type Machines, nodeNames, nodes, register, tolerationSeconds } from "./nodes.ts";

export const setNames = ["red", "blue"];
/** The termination delay of a breach. */
export const gangDelayMs = 4_000;

/**
 * A user of gangs and a source of node failures: sets are created, scaled, changed, deleted and recreated; nodes stop
 * reporting or are deleted with all their pods.
 */
export function gangUser(options: { name: string; acts: number; spanMs: number; machines: Machines }): ActorSpec {
  const { machines, ...rest } = options;
  let silent: readonly string[] = [];
  const atTheEnd = (ports: ActorPorts): Promise<void> => leaveBehind(ports, machines, silent);
  const person = simulatedUser({ ...rest, actions: actionsOn(machines), atTheEnd });
  return {
    ...person,
    run: (ports) => {
      // Chosen now, because no random decisions are made after the faults have stopped.
      const end = ports.choose("end", (dice) => dice.between(1, 3));
      silent = end === 3 ? nodeNames : end === 2 ? ["n1"] : [];
      return person.run(ports);
    },
  };
}

/** Restores all nodes, except those that stay partitioned: none, one or all. */
async function leaveBehind(ports: ActorPorts, machines: Machines, silent: readonly string[]): Promise<void> {
  for (const name of nodeNames) {
    machines.restore(name);
    await until(ports, async () => {
      await register(ports.kube, name, ports.clock.nowMs());
      return setCordon(ports.kube, name, false);
    });
  }
  if (silent.length > 0) {
    // Long enough for gangs to be scheduled again before nodes are lost.
    await ports.sleep(12_000);
    for (const name of silent) machines.silence(name);
  }
  ports.note(silent.length === 0 ? "every node is back" : `${silent.join(", ")} is silent for good`);
}

const actionsOn = (machines: Machines): readonly Act[] => [
  make,
  make,
  remake,
  async (ports, dice) => {
    await ports.kube.delete(refTo(gangResources.PodCliqueSet, oneOf(dice, setNames)));
  },
  (ports, dice) => rescale(ports, gangResources.PodCliqueSet, oneOf(dice, setNames), dice.below(3)),
  (ports, dice) =>
    rescale(ports, gangResources.PodCliqueScalingGroup, `${oneOf(dice, setNames)}-0-pair`, dice.between(1, 3)),
  (ports, dice) => rescale(ports, gangResources.PodClique, `${oneOf(dice, setNames)}-0-lone`, dice.between(2, 3)),
  (ports, dice) => changeImage(ports, dice, ["lone"]),
  (ports, dice) => changeImage(ports, dice, ["lead"]),
  (ports, dice) => changeImage(ports, dice, ["lone", "lead", "work"]),
  loseNode,
  silenceNode(machines),
  silenceNode(machines),
  // The network of all nodes fails.
  async (ports) => {
    for (const name of nodeNames) machines.silence(name);
    ports.note("every node falls silent");
  },
  // A node is deleted; its pods stay.
  async (ports, dice) => {
    const name = oneOf(dice, nodeNames);
    machines.silence(name);
    await ports.kube.delete({ ...nodes, namespace: "", name });
  },
  async (ports, dice) => {
    const name = oneOf(dice, nodeNames);
    machines.restore(name);
    await setCordon(ports.kube, name, false);
  },
  async (ports) => {
    for (const name of nodeNames) {
      machines.restore(name);
      await setCordon(ports.kube, name, false);
    }
  },
  async (ports, dice) => {
    const pod = await anyPod(ports.kube, dice);
    if (pod !== undefined) await ports.kube.delete(refTo(gangResources.Pod, pod.metadata.name));
  },
  // A kubelet evicts a pod.
  async (ports, dice) => {
    const pod = await anyPod(ports.kube, dice);
    if (pod === undefined) return;
    const status = { ...(pod["status"] as object), phase: "Failed", reason: "Evicted" };
    await ports.kube.update(
      { ...refTo(gangResources.Pod, pod.metadata.name), subresource: "status" },
      { ...pod, status },
    );
  },
];

async function make({ kube }: ActorPorts, dice: Dice): Promise<void> {
  await kube.create(gangResources.PodCliqueSet, gangSet(oneOf(dice, setNames), dice.between(1, 2)));
}

/** Deletes a set and creates another one of the same name while the pods of the first still exist. */
async function remake({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const name = oneOf(dice, setNames);
  await kube.delete(refTo(gangResources.PodCliqueSet, name));
  await kube.create(gangResources.PodCliqueSet, gangSet(name, 1));
}

async function rescale({ kube }: ActorPorts, place: Resource, name: string, replicas: number): Promise<void> {
  await kube.patch(refTo(place, name), { type: "merge", body: { spec: { replicas } } });
}

async function changeImage({ kube }: ActorPorts, dice: Dice, cliques: readonly string[]): Promise<void> {
  const found = await kube.get(refTo(gangResources.PodCliqueSet, oneOf(dice, setNames)));
  if (!found.ok) return;
  const image = `registry/app:${dice.between(1, 4)}`;
  const set = found.value as PodCliqueSet;
  const template = {
    ...set.spec.template,
    cliques: set.spec.template.cliques.map((clique) =>
      cliques.includes(clique.name)
        ? {
            ...clique,
            spec: { ...clique.spec, podSpec: { ...clique.spec.podSpec, containers: [{ name: "main", image }] } },
          }
        : clique,
    ),
  };
  const next = { ...set, spec: { ...set.spec, template } } as KubeObject;
  await kube.update(refTo(gangResources.PodCliqueSet, set.metadata.name), next);
}

/** Partitions the kubelet of a node from the API; the cluster's controllers react to it. */
function silenceNode(machines: Machines): Act {
  return async (ports, dice) => {
    const name = oneOf(dice, nodeNames);
    machines.silence(name);
    ports.note(`${name} falls silent`);
  };
}

/** Loses a node: it is cordoned, and its pods are force-deleted. */
async function loseNode(ports: ActorPorts, dice: Dice): Promise<void> {
  const name = oneOf(dice, nodeNames);
  await setCordon(ports.kube, name, true);
  const found = await ports.kube.list(gangResources.Pod);
  if (!found.ok) return;
  for (const pod of found.value.items) {
    const { uid } = pod.metadata;
    if (pod.spec?.nodeName !== name) continue;
    await ports.kube.delete(refTo(gangResources.Pod, pod.metadata.name), {
      preconditions: { uid },
      gracePeriodSeconds: 0,
    });
  }
}

async function setCordon(kube: KubeApi, name: string, isCordoned: boolean): Promise<boolean> {
  const body = { spec: { unschedulable: isCordoned ? true : null } };
  return (await kube.patch({ ...nodes, namespace: "", name }, { type: "merge", body })).ok;
}

async function until(ports: ActorPorts, run: () => Promise<boolean>): Promise<void> {
  while (!(await run())) await ports.sleep(200);
}

async function anyPod(kube: KubeApi, dice: Dice): Promise<KubeObject | undefined> {
  const pods = await kube.list(gangResources.Pod);
  if (!pods.ok || pods.value.items.length === 0) return undefined;
  return pods.value.items[dice.below(pods.value.items.length)];
}

function refTo(place: Resource, name: string) {
  return { ...place, namespace: "default", name };
}

function oneOf<T>(dice: Dice, items: readonly T[]): T {
  return items[dice.below(items.length)] as T;
}

const tolerations = ["not-ready", "unreachable"].map((key) => ({
  key: `node.kubernetes.io/${key}`,
  operator: "Exists",
  effect: "NoExecute",
  tolerationSeconds,
}));

/** A clique of two pods that are both required, and a scaling group of leader and workers of which one replica is. */
export function gangSet(name: string, replicas: number): Unstored<PodCliqueSet> {
  const clique = (own: string, size: number, minAvailable: number) => ({
    name: own,
    spec: {
      roleName: own,
      replicas: size,
      minAvailable,
      podSpec: {
        terminationGracePeriodSeconds: 1,
        tolerations,
        containers: [{ name: "main", image: "registry/app:1" }],
      },
    },
  });
  return {
    apiVersion: "grove.io/v1alpha1",
    kind: "PodCliqueSet",
    metadata: { name, namespace: "default" },
    spec: {
      replicas,
      template: {
        terminationDelay: `${gangDelayMs / 1000}s`,
        cliques: [clique("lone", 2, 2), clique("lead", 1, 1), clique("work", 2, 2)],
        podCliqueScalingGroups: [{ name: "pair", cliqueNames: ["lead", "work"], replicas: 2, minAvailable: 1 }],
      },
    },
  };
}

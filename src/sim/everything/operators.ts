/** Platform engineers, who cordon and drain nodes, delete reservations, edit quotas and evict pods during the run. */

import { builtin } from "../../model/resources.generated.ts";
import { reservationNamespace } from "../../model/scheduling/keys.ts";
import { queueRef } from "../../model/scheduling/queue.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";
import { leafQueues, nodeNames } from "./cluster.ts";

export function operators(options: { readonly acts: number; readonly spanMs: number }): ActorSpec {
  return simulatedUser({ name: "operators", ...options, actions, atTheEnd: uncordonAll });
}

const actions: readonly Act[] = [
  async (ports, dice) => void (await cordon(ports, oneOf(dice, nodeNames), true)),
  async (ports, dice) => void (await cordon(ports, oneOf(dice, nodeNames), false)),
  drain,
  deleteReservation,
  // A quota is edited while jobs of the queue run and wait.
  async ({ kube }, dice) => {
    const body = { spec: { resources: { gpu: { quota: dice.below(9) } } } };
    await kube.patch({ ...queueRef, namespace: "", name: oneOf(dice, leafQueues) }, { type: "merge", body });
  },
  // An eviction by hand, of a pod of any workload.
  async (ports, dice) => {
    const found = await ports.kube.list(builtin.Pod, { namespace: "default" });
    const pod = found.ok ? found.value.items[dice.below(Math.max(1, found.value.items.length))] : undefined;
    if (pod === undefined) return;
    const { name, uid } = pod.metadata;
    await ports.kube.evict({ ...builtin.Pod, namespace: "default", name }, { preconditions: { uid } });
  },
];

/** `kubectl drain --force`, without retries of refused evictions. */
async function drain(ports: ActorPorts, dice: Dice): Promise<void> {
  const { kube } = ports;
  const node = oneOf(dice, nodeNames);
  await cordon(ports, node, true);
  const found = await kube.list(builtin.Pod, { fieldSelector: `spec.nodeName=${node}` });
  for (const { metadata } of found.ok ? found.value.items : []) {
    const { namespace = "", name, uid } = metadata;
    await kube.evict({ ...builtin.Pod, namespace, name }, { preconditions: { uid } });
  }
}

async function deleteReservation({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const found = await kube.list(builtin.Pod, { namespace: reservationNamespace });
  const pod = found.ok ? found.value.items[dice.below(Math.max(1, found.value.items.length))] : undefined;
  if (pod === undefined) return;
  const force = dice.perMille(500) ? { gracePeriodSeconds: 0 } : {};
  await kube.delete({ ...builtin.Pod, namespace: reservationNamespace, name: pod.metadata.name }, force);
}

async function cordon({ kube }: ActorPorts, name: string, isCordoned: boolean): Promise<boolean> {
  const body = { spec: { unschedulable: isCordoned ? true : null } };
  return (await kube.patch({ ...builtin.Node, namespace: "", name }, { type: "merge", body })).ok;
}

async function uncordonAll(ports: ActorPorts): Promise<void> {
  for (const name of nodeNames) {
    while (!(await cordon(ports, name, false))) await ports.sleep(500);
  }
}

function oneOf<T>(dice: Dice, items: readonly T[]): T {
  return items[dice.below(items.length)] as T;
}

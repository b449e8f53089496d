import type { ReplicaSetSpec } from "../../model/kubernetes.generated.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";
import { claimAnnotation, isClaimed, podKind, podOf, refTo, setKind, setLabel } from "./podSetObjects.ts";

const setNames = ["red", "blue"];

/** A simulated user: creates, scales, deletes and recreates sets, uses pods and makes pods fail. */
export function user(options: { name: string; acts: number; spanMs: number }): ActorSpec {
  // The user must not crash: it has to release the pods that it has claimed.
  return simulatedUser({ ...options, actions, atTheEnd: releaseAll });
}

const actions: readonly Act[] = [
  // A new set, and sometimes a manually created pod of it at the same time.
  async (ports, dice) => {
    const made = await ports.kube.create(setKind, setNamed(setName(dice), dice.below(4)));
    if (made.ok && dice.perMille(400))
      await ports.kube.create(podKind, podOf(made.value, `${made.value.metadata.name}-0`));
  },
  scale,
  scale,
  async (ports, dice) => {
    await ports.kube.delete(refTo(setKind, setName(dice)));
  },
  // Delete, and create another set of the same name.
  async (ports, dice) => {
    const name = setName(dice);
    await ports.kube.delete(refTo(setKind, name));
    await ports.kube.create(setKind, setNamed(name, dice.below(4)));
  },
  claim,
  claim,
  // One user scales down while another one claims a pod.
  async (ports, dice) => {
    await scale(ports, dice);
    await claim(ports, dice);
  },
  async (ports, dice) => {
    const pod = await anyPod(ports, dice);
    if (pod !== undefined) await release(ports, pod);
  },
  // A force-deleted pod is replaced by another one of the same name, which is in use from the start.
  async (ports, dice) => {
    const pod = await anyPod(ports, dice);
    if (pod === undefined) return;
    const { name, uid, labels = {}, ownerReferences = [] } = pod.metadata;
    await ports.kube.delete(refTo(podKind, name), { preconditions: { uid } });
    const metadata = { name, namespace: "default", labels, ownerReferences, annotations: { [claimAnnotation]: "me" } };
    await ports.kube.create(podKind, { ...barePod(name, ""), metadata });
  },
  // A node reports that the pod has failed.
  async (ports, dice) => {
    const pod = await anyPod(ports, dice);
    if (pod === undefined) return;
    const status = { ...(pod["status"] as object), phase: "Failed" };
    await ports.kube.update({ ...refTo(podKind, pod.metadata.name), subresource: "status" }, { ...pod, status });
  },
  // A pod without an owner, to be adopted.
  async (ports, dice) => {
    await ports.kube.create(podKind, barePod(`stray-${dice.below(4)}`, setName(dice)));
  },
  async (ports, dice) => {
    const pod = await anyPod(ports, dice);
    if (pod === undefined) return;
    const { name, uid } = pod.metadata;
    await ports.kube.delete(refTo(podKind, name), { preconditions: { uid } });
  },
];

async function scale(ports: ActorPorts, dice: Dice): Promise<void> {
  const found = await ports.kube.get(refTo(setKind, setName(dice)));
  if (!found.ok) return;
  const spec = { ...(found.value.spec as ReplicaSetSpec), replicas: dice.below(5) };
  await ports.kube.update(refTo(setKind, found.value.metadata.name), { ...found.value, spec });
}

/** A user of a pod records itself on the version that it has observed. */
async function claim(ports: ActorPorts, dice: Dice): Promise<void> {
  const pod = await anyPod(ports, dice);
  if (pod === undefined || isClaimed(pod)) return;
  const annotations = { ...pod.metadata.annotations, [claimAnnotation]: "me" };
  await ports.kube.update(refTo(podKind, pod.metadata.name), { ...pod, metadata: { ...pod.metadata, annotations } });
}

async function release(ports: ActorPorts, pod: KubeObject): Promise<void> {
  const { [claimAnnotation]: claimed, ...annotations } = pod.metadata.annotations ?? {};
  if (claimed === undefined) return;
  await ports.kube.update(refTo(podKind, pod.metadata.name), { ...pod, metadata: { ...pod.metadata, annotations } });
}

async function releaseAll(ports: ActorPorts): Promise<void> {
  for (;;) {
    const pods = await ports.kube.list(podKind);
    const claimed = pods.ok ? pods.value.items.filter(isClaimed) : undefined;
    if (claimed?.length === 0) return;
    for (const pod of claimed ?? []) await release(ports, pod);
    await ports.sleep(200);
  }
}

async function anyPod(ports: ActorPorts, dice: Dice): Promise<KubeObject | undefined> {
  const pods = await ports.kube.list(podKind);
  if (!pods.ok || pods.value.items.length === 0) return undefined;
  return pods.value.items[dice.below(pods.value.items.length)];
}

function setName(dice: Dice): string {
  return setNames[dice.below(setNames.length)] as string;
}

export function setNamed(name: string, replicas: number): Unstored {
  const labels = { [setLabel]: name };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name, namespace: "default" },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "registry/app:1" }] } },
    },
  };
}

function barePod(name: string, set: string): Unstored {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", ...(set === "" ? {} : { labels: { [setLabel]: set } }) },
    spec: { containers: [{ name: "main", image: "registry/app:1" }] },
  };
}

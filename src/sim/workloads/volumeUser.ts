/** A user of volumes creates claims, volumes and pods, deletes them and creates them again, under the same names. */
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import { volumeAnnotations } from "../../model/storage/volumes.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";

const claims = builtin.PersistentVolumeClaim;
const volumes = builtin.PersistentVolume;
const pods = builtin.Pod;

const classes = { now: "now", wait: "wait", folder: "folder" } as const;
const claimNames = ["c0", "c1", "c2", "c3"];
const volumeNames = ["v0", "v1", "v2", "v3", "v4", "v5"];
const podNames = ["u0", "u1", "u2", "u3", "u4"];
const sizes = ["1Gi", "2Gi", "4Gi"];

/** The classes: bound at once, bound for the first pod, and provisioned for the first pod. */
export async function makeClasses(kube: KubeApi): Promise<void> {
  for (const [name, provisioner, volumeBindingMode] of [
    [classes.now, "kubernetes.io/no-provisioner", "Immediate"],
    [classes.wait, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"],
    [classes.folder, "muster.dev/local-folder", "WaitForFirstConsumer"],
  ] as const) {
    const kind = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass" };
    await kube.create(builtin.StorageClass, { ...kind, metadata: { name }, provisioner, volumeBindingMode });
  }
}

export interface VolumeUserOptions {
  readonly nodes: readonly string[];
  /** Whether the user selects nodes for claims, where no scheduler does. */
  readonly selectsNodes: boolean;
  readonly acts: number;
  readonly spanMs: number;
}

export function volumeUser({ nodes, selectsNodes, acts, spanMs }: VolumeUserOptions): ActorSpec {
  const selecting: Act = async (ports, dice) => {
    const name = oneOf(dice, claimNames);
    const node = dice.perMille(100) ? "gone" : oneOf(dice, nodes);
    const annotations = { [volumeAnnotations.selectedNode]: node };
    await ports.kube.patch({ ...claims, ...place(name) }, { type: "merge", body: { metadata: { annotations } } });
  };
  const actions = [...actionsOn(nodes), ...(selectsNodes ? [selecting, selecting, selecting] : [])];
  return simulatedUser({ name: "user", acts, spanMs, actions });
}

function actionsOn(nodes: readonly string[]): Act[] {
  const makeVolume: Act = (ports, dice) => create(ports, volumes, volume(dice, nodes));
  const makeClaim: Act = (ports, dice) => create(ports, claims, claim(dice));
  const recreateClaim: Act = async (ports, dice) => {
    const name = oneOf(dice, claimNames);
    const next = claim(dice, name);
    await remove(ports, claims, name);
    const everyMs = dice.between(1, 60);
    for (let tries = 0; tries < 8; tries++) {
      const made = await ports.kube.create(claims, next as KubeObject);
      if (made.ok || made.reason !== "AlreadyExists") return;
      await ports.sleep(everyMs);
    }
  };
  const makePod: Act = (ports, dice) => create(ports, pods, pod(dice));
  return [
    makeVolume,
    makeVolume,
    makeVolume,
    makeClaim,
    makeClaim,
    makeClaim,
    makePod,
    makePod,
    makePod,
    makePod,
    (ports, dice) => remove(ports, pods, oneOf(dice, podNames)),
    (ports, dice) => remove(ports, claims, oneOf(dice, claimNames)),
    (ports, dice) => remove(ports, volumes, oneOf(dice, volumeNames)),
    // The same names again, as soon as they are free.
    recreateClaim,
    recreateClaim,
    async (ports, dice) => {
      const name = oneOf(dice, podNames);
      await remove(ports, pods, name);
      await ports.sleep(dice.between(0, 600));
      await create(ports, pods, pod(dice, name));
    },
    // An administrator gives a released volume free.
    async (ports, dice) => {
      const name = oneOf(dice, volumeNames);
      const found = await ports.kube.get({ ...volumes, namespace: "", name });
      if (!found.ok || found.value.status?.phase !== "Released") return;
      const { uid, resourceVersion } = found.value.metadata;
      const body = { metadata: { uid, resourceVersion }, spec: { claimRef: null } };
      await ports.kube.patch({ ...volumes, namespace: "", name }, { type: "merge", body });
    },
  ];
}

async function create(ports: ActorPorts, kind: Resource, object: object): Promise<void> {
  await ports.kube.create(kind, object as KubeObject);
}

async function remove(ports: ActorPorts, kind: Resource, name: string): Promise<void> {
  const where = kind.plural === volumes.plural ? { namespace: "", name } : place(name);
  await ports.kube.delete({ ...kind, ...where }, kind.plural === pods.plural ? { gracePeriodSeconds: 1 } : {});
}

function place(name: string) {
  return { namespace: "default", name };
}

function oneOf<T>(dice: Dice, all: readonly T[]): T {
  return all[dice.below(all.length)] as T;
}

function volume(dice: Dice, nodes: readonly string[]): object {
  const name = oneOf(dice, volumeNames);
  const isLocal = dice.perMille(700);
  const expression = { key: "kubernetes.io/hostname", operator: "In", values: [oneOf(dice, nodes)] };
  const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } };
  const claimRef = { namespace: "default", name: oneOf(dice, claimNames) };
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: oneOf(dice, sizes) },
      storageClassName: isLocal ? classes.wait : classes.now,
      persistentVolumeReclaimPolicy: dice.perMille(300) ? "Delete" : "Retain",
      hostPath: { path: `/data/${name}` },
      ...(isLocal && { nodeAffinity }),
      ...(dice.perMille(150) && { claimRef }),
    },
  };
}

function claim(dice: Dice, name = oneOf(dice, claimNames)): object {
  const storageClassName = oneOf(dice, [classes.now, classes.wait, classes.wait, classes.folder]);
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default" },
    spec: { ...claimSpec(dice, storageClassName), ...(dice.perMille(100) && { volumeName: oneOf(dice, volumeNames) }) },
  };
}

function claimSpec(dice: Dice, storageClassName: string): object {
  return { accessModes: ["ReadWriteOnce"], storageClassName, resources: { requests: { storage: oneOf(dice, sizes) } } };
}

function pod(dice: Dice, name = oneOf(dice, podNames)): object {
  const first = dice.below(claimNames.length);
  const count = dice.between(1, 2);
  const named = Array.from({ length: count }, (_, at) => claimNames[(first + at) % claimNames.length]);
  const volumesOf: object[] = named.map((claimName, at) => ({ name: `v${at}`, persistentVolumeClaim: { claimName } }));
  const volumeClaimTemplate = { spec: claimSpec(dice, oneOf(dice, [classes.folder, classes.wait])) };
  if (dice.perMille(300)) volumesOf.splice(0, 1, { name: "own", ephemeral: { volumeClaimTemplate } });
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: { terminationGracePeriodSeconds: 1, containers: [{ name: "main", image: "i" }], volumes: volumesOf },
  };
}

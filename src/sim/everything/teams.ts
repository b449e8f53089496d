/** Users of a shared GPU cluster, who create, change and delete workloads of every kind. */
import { gangResources } from "../../model/gang/keys.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import { annotationKeys, defaultSchedulerName, kaiSchedulerName, labelKeys } from "../../model/scheduling/keys.ts";
import { podGroupApiVersion, podGroupRef } from "../../model/scheduling/podGroup.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";
import { claimTemplate, gpuResource, leafQueues } from "./cluster.ts";

const namespace = "default";
/** Short, so that the pods of a lost node are evicted within a run. */
const tolerationSeconds = 2;

export function teams(options: { readonly acts: number; readonly spanMs: number }): ActorSpec {
  return simulatedUser({ name: "teams", ...options, actions: [...submissions, ...changes] });
}

const submissions: readonly Act[] = [
  (ports, dice) => submitPod(ports, dice, { gpus: dice.between(1, 2) }),
  (ports, dice) => submitPod(ports, dice, { gpus: 1, scheduler: defaultSchedulerName }),
  (ports, dice) => submitPod(ports, dice, { scheduler: defaultSchedulerName }),
  (ports, dice) => submitPod(ports, dice, { fraction: "0.5" }),
  (ports, dice) => submitPod(ports, dice, { fraction: "0.3" }),
  (ports, dice) => submitPod(ports, dice, { claims: 1 }),
  (ports, dice) => submitPod(ports, dice, { claims: 1, scheduler: defaultSchedulerName }),
  submitGang,
  submitGang,
  submitJob,
  submitJob,
  submitDeployment,
  submitSet,
  submitSet,
];

const changes: readonly Act[] = [
  (ports, dice) => removePod(ports, dice, 1),
  (ports, dice) => removePod(ports, dice, 0),
  (ports, dice) => removePod(ports, dice, 0),
  (ports, dice) => remove(ports, dice, builtin.Job),
  (ports, dice) => remove(ports, dice, gangResources.PodCliqueSet),
  (ports, dice) => remove(ports, dice, podGroupRef),
  (ports, dice) => scale(ports, builtin.Deployment, deploymentName, dice.below(4)),
  (ports, dice) => scale(ports, gangResources.PodCliqueSet, oneOf(dice, setNames), dice.below(3)),
  changeImage,
];

export interface PodOptions {
  readonly gpus?: number;
  readonly fraction?: string;
  readonly claims?: number;
  readonly scheduler?: string;
  readonly queue?: string;
  readonly group?: string;
}

/** The metadata and spec of a pod with these options, for a pod and for the templates of workloads. */
function template({ gpus = 0, fraction, claims = 0, scheduler = kaiSchedulerName, queue, group }: PodOptions) {
  const amounts = { [gpuResource]: String(gpus) };
  const claim = { name: "gpu", resourceClaimTemplateName: claimTemplate };
  const resources = {
    ...(gpus > 0 && { requests: amounts, limits: amounts }),
    ...(claims > 0 && { claims: [{ name: claim.name }] }),
  };
  return {
    metadata: {
      labels: { ...(queue !== undefined && { [labelKeys.queue]: queue }) },
      annotations: {
        ...(fraction !== undefined && { [annotationKeys.gpuFraction]: fraction }),
        ...(group !== undefined && { [annotationKeys.podGroup]: group }),
      },
    },
    spec: {
      schedulerName: scheduler,
      terminationGracePeriodSeconds: 1,
      tolerations: ["not-ready", "unreachable"].map((key) => ({
        key: `node.kubernetes.io/${key}`,
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds,
      })),
      containers: [{ name: "main", image: "registry/app:1", resources }],
      ...(claims > 0 && { resourceClaims: [claim] }),
    },
  };
}

async function submitPod({ kube }: ActorPorts, dice: Dice, options: PodOptions): Promise<void> {
  const { metadata, spec } = template({ ...options, queue: oneOf(dice, leafQueues) });
  const name = `p${dice.below(8)}`;
  await kube.create(builtin.Pod, { ...object("v1", "Pod", name), metadata: { ...metadata, name, namespace }, spec });
}

/** A PodGroup with three pods and a minimum of two. */
async function submitGang({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const queue = oneOf(dice, leafQueues);
  const name = `g${dice.below(3)}`;
  const group = object(podGroupApiVersion, "PodGroup", name, { queue, minMember: 2 });
  if (!(await kube.create(podGroupRef, group)).ok) return;
  const { metadata, spec } = template({ gpus: dice.between(1, 2), queue, group: name });
  for (let member = 0; member < 3; member++) {
    const own = `${name}-${member}`;
    const pod = { ...object("v1", "Pod", own), metadata: { ...metadata, name: own, namespace }, spec };
    await kube.create(builtin.Pod, pod);
  }
}

/** A Job whose pods are placed all together or not at all. */
async function submitJob({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const size = dice.between(1, 3);
  const { metadata, spec } = template({ gpus: 1, queue: oneOf(dice, leafQueues) });
  const annotations = { [annotationKeys.batchMinMember]: String(size) };
  const name = oneOf(dice, ["train", "tune"]);
  const job = object("batch/v1", "Job", name, {
    completions: size,
    parallelism: size,
    backoffLimit: 2,
    template: { metadata, spec: { ...spec, restartPolicy: "Never" } },
  });
  await kube.create(builtin.Job, { ...job, metadata: { ...job.metadata, annotations } });
}

const deploymentName = "serve";

async function submitDeployment({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const { metadata, spec } = template({ fraction: "0.4", queue: oneOf(dice, leafQueues) });
  const app = { app: deploymentName };
  const labelled = { ...metadata, labels: { ...metadata.labels, ...app } };
  const deployment = object("apps/v1", "Deployment", deploymentName, {
    replicas: dice.between(1, 3),
    selector: { matchLabels: app },
    template: { metadata: labelled, spec },
  });
  await kube.create(builtin.Deployment, deployment);
}

const setNames = ["red", "blue"];
/** How long a PodCliqueSet may be in breach before it is terminated. */
const terminationDelayMs = 4_000;

/** A PodCliqueSet: a leader and two workers with one GPU each, all of which are required. */
async function submitSet({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const { metadata, spec: podSpec } = template({ gpus: 1, queue: oneOf(dice, leafQueues) });
  const clique = (name: string, size: number) => ({
    name,
    labels: metadata.labels,
    spec: { roleName: name, replicas: size, minAvailable: size, podSpec },
  });
  const spec = {
    replicas: 1,
    template: {
      terminationDelay: `${terminationDelayMs / 1000}s`,
      cliques: [clique("lead", 1), clique("work", 2)],
    },
  };
  const set = object("grove.io/v1alpha1", "PodCliqueSet", oneOf(dice, setNames));
  await kube.create(gangResources.PodCliqueSet, { ...set, spec });
}

async function removePod(ports: ActorPorts, dice: Dice, gracePeriodSeconds: number): Promise<void> {
  const pod = await anyOf<Pod>(ports, dice, builtin.Pod);
  if (pod === undefined) return;
  const { name, uid } = pod.metadata;
  const preconditions = { uid };
  await ports.kube.delete({ ...builtin.Pod, namespace, name }, { preconditions, gracePeriodSeconds });
}

async function remove(ports: ActorPorts, dice: Dice, kind: Resource): Promise<void> {
  const found = await anyOf(ports, dice, kind);
  if (found === undefined) return;
  const propagationPolicy = dice.perMille(300) ? "Foreground" : "Background";
  await ports.kube.delete({ ...kind, namespace, name: found.metadata.name }, { propagationPolicy });
}

async function scale({ kube }: ActorPorts, kind: Resource, name: string, replicas: number): Promise<void> {
  await kube.patch({ ...kind, namespace, name }, { type: "merge", body: { spec: { replicas } } });
}

async function changeImage({ kube }: ActorPorts, dice: Dice): Promise<void> {
  const containers = [{ name: "main", image: `registry/app:${dice.between(1, 4)}` }];
  await kube.patch(
    { ...builtin.Deployment, namespace, name: deploymentName },
    { type: "strategic", body: { spec: { template: { spec: { containers } } } } },
  );
}

async function anyOf<T extends { metadata: { name: string } }>(
  { kube }: ActorPorts,
  dice: Dice,
  kind: Resource,
): Promise<T | undefined> {
  const found = await kube.list(kind, { namespace });
  if (!found.ok || found.value.items.length === 0) return undefined;
  return found.value.items[dice.below(found.value.items.length)] as T | undefined;
}

function oneOf<T>(dice: Dice, items: readonly T[]): T {
  return items[dice.below(items.length)] as T;
}

function object(apiVersion: string, kind: string, name: string, spec?: object): Unstored {
  return { apiVersion, kind, metadata: { name, namespace }, ...(spec !== undefined && { spec }) };
}

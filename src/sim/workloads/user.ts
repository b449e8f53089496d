import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";

const pods = builtin.Pod;
const deployments = builtin.Deployment;
const replicaSets = builtin.ReplicaSet;
const statefulSets = builtin.StatefulSet;
const daemonSets = builtin.DaemonSet;
const jobs = builtin.Job;
const services = builtin.Service;

/** On nodes that daemons belong to. */
export const bigNode = { size: "big" };

/** Users of workloads: they create, scale, change, delete and recreate them, and change pods by hand. */
export function workloadUser(options: { name: string; acts: number; spanMs: number }): ActorSpec {
  return simulatedUser({ ...options, actions, atTheEnd: putAway });
}

const actions: readonly Act[] = [
  (ports, dice) => make(ports, deployments, deployment(dice)),
  (ports, dice) => make(ports, deployments, deployment(dice)),
  (ports, dice) => change(ports, deployments, oneOf(dice, deploymentNames), rescaled(dice.below(5))),
  (ports, dice) => change(ports, deployments, oneOf(dice, deploymentNames), withImage(dice)),
  (ports, dice) => change(ports, deployments, oneOf(dice, deploymentNames), withImage(dice)),
  (ports, dice) => change(ports, deployments, oneOf(dice, deploymentNames), paused(dice.perMille(400))),
  (ports, dice) => remove(ports, deployments, oneOf(dice, deploymentNames), dice),
  async (ports, dice) => {
    await remove(ports, deployments, "red", dice);
    await make(ports, deployments, deployment(dice, "red"));
  },
  (ports, dice) => make(ports, statefulSets, statefulSet(dice)),
  (ports, dice) => change(ports, statefulSets, "db", rescaled(dice.below(4))),
  (ports, dice) => change(ports, statefulSets, "db", withImage(dice)),
  async (ports, dice) => {
    await remove(ports, statefulSets, "db", dice);
    if (dice.perMille(600)) await make(ports, statefulSets, statefulSet(dice));
  },
  (ports, dice) => make(ports, daemonSets, daemonSet(dice)),
  (ports, dice) => change(ports, daemonSets, "agent", withImage(dice)),
  (ports, dice) => remove(ports, daemonSets, "agent", dice),
  (ports, dice) => make(ports, jobs, job(dice)),
  (ports, dice) => make(ports, jobs, job(dice)),
  (ports, dice) => change(ports, jobs, oneOf(dice, jobNames), suspended(dice.perMille(300))),
  (ports, dice) => remove(ports, jobs, oneOf(dice, jobNames), dice),
  (ports) => make(ports, services, service),
  // A user deletes a pod.
  async (ports, dice) => {
    const pod = await anyPod(ports, dice);
    if (pod !== undefined) await ports.kube.delete(refTo(pods, pod.metadata.name));
  },
  // A user releases a pod from its set by changing its labels.
  async (ports, dice) => {
    const pod = await anyPod(ports, dice);
    if (pod === undefined) return;
    await relabel(ports, pod, { was: pod.metadata.labels?.["app"] ?? "", app: "debug" });
  },
  // And the label is put back, so that a selector matches it again.
  async (ports, dice) => {
    const found = await ports.kube.list(pods, { labelSelector: "app=debug" });
    const [pod] = found.ok ? found.value.items : [];
    const was = pod?.metadata.labels?.["was"] ?? "";
    if (pod !== undefined && was !== "") await relabel(ports, pod, { app: was, seed: String(dice.below(10)) });
  },
  // A set is deleted with orphaned pods, and another owner whose selector matches adopts them.
  async (ports, dice) => {
    await ports.kube.delete(refTo(deployments, oneOf(dice, deploymentNames)), { propagationPolicy: "Orphan" });
  },
  (ports, dice) => make(ports, replicaSets, replicaSet(dice)),
];

async function relabel(ports: ActorPorts, pod: KubeObject, changed: Record<string, string>): Promise<void> {
  const labels = { ...pod.metadata.labels, ...changed };
  await ports.kube.update(refTo(pods, pod.metadata.name), { ...pod, metadata: { ...pod.metadata, labels } });
}

const deploymentNames = ["red", "blue"];
const jobNames = ["count", "sort"];

/** Deletes released pods, which keep their names until then. */
async function putAway(ports: ActorPorts): Promise<void> {
  for (;;) {
    const found = await ports.kube.list(pods, { labelSelector: "app=debug" });
    if (found.ok && found.value.items.length === 0) return;
    for (const { metadata } of found.ok ? found.value.items : []) await ports.kube.delete(refTo(pods, metadata.name));
    await ports.sleep(500);
  }
}

async function make(ports: ActorPorts, kind: Resource, object: object): Promise<void> {
  await ports.kube.create(kind, object as KubeObject);
}

async function remove(ports: ActorPorts, kind: Resource, name: string, dice: Dice): Promise<void> {
  const propagationPolicy = dice.perMille(300) ? "Foreground" : "Background";
  await ports.kube.delete(refTo(kind, name), { propagationPolicy });
}

async function change(ports: ActorPorts, kind: Resource, name: string, edit: (spec: Spec) => Spec): Promise<void> {
  const found = await ports.kube.get(refTo(kind, name));
  if (!found.ok) return;
  const spec = edit(found.value["spec"] as Spec);
  await ports.kube.update(refTo(kind, name), { ...found.value, spec });
}

type Spec = { replicas?: number; paused?: boolean; template?: { spec?: { containers?: object[] } } } & object;

function rescaled(replicas: number): (spec: Spec) => Spec {
  return (spec) => ({ ...spec, replicas });
}

function paused(value: boolean): (spec: Spec) => Spec {
  return (spec) => ({ ...spec, paused: value });
}

function suspended(suspend: boolean): (spec: Spec) => Spec {
  return (spec) => ({ ...spec, suspend });
}

function withImage(dice: Dice): (spec: Spec) => Spec {
  const { template } = { template: podTemplate(dice, {}) };
  return (spec) => ({ ...spec, template: { ...spec.template, spec: { ...spec.template?.spec, ...template.spec } } });
}

async function anyPod(ports: ActorPorts, dice: Dice): Promise<KubeObject | undefined> {
  const found = await ports.kube.list(pods);
  if (!found.ok || found.value.items.length === 0) return undefined;
  return found.value.items[dice.below(found.value.items.length)];
}

function oneOf(dice: Dice, names: readonly string[]): string {
  return names[dice.below(names.length)] as string;
}

function refTo(kind: Resource, name: string) {
  return { ...kind, namespace: "default", name };
}

function podTemplate(dice: Dice, labels: object, restartPolicy?: string) {
  const image = `registry/app:${dice.between(1, 3)}`;
  const containers = [{ name: "main", image, resources: { requests: { cpu: "500m" } } }];
  return { metadata: { labels }, spec: { containers, ...(restartPolicy && { restartPolicy }) } };
}

function object(apiVersion: string, kind: string, name: string, spec: object): object {
  return { apiVersion, kind, metadata: { name, namespace: "default" }, spec };
}

function deployment(dice: Dice, name = oneOf(dice, deploymentNames)): object {
  const labels = { app: name };
  const strategy = dice.perMille(250)
    ? { type: "Recreate" }
    : { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: dice.below(2) } };
  const spec = { replicas: dice.below(5), selector: { matchLabels: labels }, strategy };
  return object("apps/v1", "Deployment", name, { ...spec, template: podTemplate(dice, labels) });
}

/** Selects the orphaned pods of a Deployment with the same label. */
function replicaSet(dice: Dice): object {
  const labels = { app: oneOf(dice, deploymentNames) };
  const spec = { replicas: dice.below(3), selector: { matchLabels: labels }, template: podTemplate(dice, labels) };
  return object("apps/v1", "ReplicaSet", "keeper", spec);
}

function statefulSet(dice: Dice): object {
  const labels = { app: "db" };
  const podManagementPolicy = dice.perMille(300) ? "Parallel" : "OrderedReady";
  const spec = { replicas: dice.below(4), serviceName: "db", selector: { matchLabels: labels }, podManagementPolicy };
  const volumeClaimTemplates = dice.perMille(400)
    ? [
        {
          metadata: { name: "data" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
        },
      ]
    : [];
  return object("apps/v1", "StatefulSet", "db", { ...spec, template: podTemplate(dice, labels), volumeClaimTemplates });
}

function daemonSet(dice: Dice): object {
  const labels = { app: "agent" };
  const { metadata, spec } = podTemplate(dice, labels);
  const template = { metadata, spec: { ...spec, nodeSelector: bigNode } };
  return object("apps/v1", "DaemonSet", "agent", { selector: { matchLabels: labels }, template });
}

function job(dice: Dice): object {
  const completions = dice.between(1, 4);
  const completionMode = dice.perMille(400) ? "Indexed" : "NonIndexed";
  const spec = { completions, parallelism: dice.between(1, 3), completionMode, backoffLimit: 1 };
  return object("batch/v1", "Job", oneOf(dice, jobNames), { ...spec, template: podTemplate(dice, {}, "Never") });
}

const service = object("v1", "Service", "front", { selector: { app: "red" }, ports: [{ port: 80 }] });

/** Small clusters for tests: everything has a default. */

import { Cluster } from "../../src/decide/schedule/cluster/cluster.ts";
import { cycle, type Plan } from "../../src/decide/schedule/cycle.ts";
import { defaultSettings, type Settings } from "../../src/decide/schedule/settings.ts";
import type { Node, Pod, PriorityClass } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { annotationKeys, kaiSchedulerName, labelKeys } from "../../src/model/scheduling/keys.ts";
import {
  type PodGroup,
  type PodGroupSpec,
  podGroupApiVersion,
  shippedPriorityClasses,
} from "../../src/model/scheduling/podGroup.ts";
import { type Queue, type QueueSpec, queueApiVersion } from "../../src/model/scheduling/queue.ts";
import type { Topology } from "../../src/model/scheduling/topology.ts";
import { formatTime } from "../../src/model/values/time.ts";

export const startMs = Date.UTC(2026, 0, 1);

export interface NodeFields {
  readonly gpus?: number;
  readonly cpu?: string;
  readonly memory?: string;
  readonly pods?: number;
  readonly gpuMemory?: number;
  readonly labels?: Record<string, string>;
  readonly more?: Record<string, string>;
  readonly spec?: Node["spec"];
  readonly isReady?: boolean;
}

export function node(name: string, words: NodeFields = {}): Node {
  const {
    gpus = 8,
    cpu = "64",
    memory = "512Gi",
    pods = 110,
    gpuMemory = 80_000,
    labels,
    more,
    spec,
    isReady = true,
  } = words;
  const amounts: Record<string, string> = { cpu, memory, pods: String(pods), ...more };
  if (gpus > 0) amounts["nvidia.com/gpu"] = String(gpus);
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      uid: `node-${name}`,
      resourceVersion: "1",
      creationTimestamp: formatTime(startMs),
      labels: {
        "kubernetes.io/hostname": name,
        ...(gpus > 0 && gpuMemory > 0 ? { [labelKeys.gpuMemory]: String(gpuMemory) } : {}),
        ...labels,
      },
    },
    ...(spec && { spec }),
    status: {
      capacity: amounts,
      allocatable: amounts,
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
    },
  } as unknown as Node;
}

export interface PodFields {
  readonly gpus?: number;
  readonly cpu?: string;
  readonly memory?: string;
  readonly fraction?: string;
  readonly gpuMemory?: string;
  readonly devices?: number;
  readonly on?: string;
  readonly groups?: string[];
  readonly group?: string;
  readonly subGroup?: string;
  readonly phase?: string;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly spec?: Partial<Pod["spec"]>;
  readonly status?: Partial<Pod["status"]>;
  readonly scheduler?: string;
  readonly createdMs?: number;
  readonly namespace?: string;
  readonly priority?: number;
  readonly requests?: Record<string, string>;
  readonly deletedMs?: number;
}

export function pod(name: string, words: PodFields = {}): Pod {
  const {
    gpus = 0,
    cpu = "1",
    memory = "1Gi",
    on,
    phase,
    spec,
    scheduler = kaiSchedulerName,
    namespace = "default",
  } = words;
  const requests: Record<string, string> = { cpu, memory, ...words.requests };
  if (gpus > 0) requests["nvidia.com/gpu"] = String(gpus);
  const annotations: Record<string, string> = { ...words.annotations };
  if (words.fraction !== undefined) annotations[annotationKeys.gpuFraction] = words.fraction;
  if (words.gpuMemory !== undefined) annotations[annotationKeys.gpuMemory] = words.gpuMemory;
  if (words.devices !== undefined) annotations[annotationKeys.gpuFractionDevices] = String(words.devices);
  if (words.group !== undefined) annotations[annotationKeys.podGroup] = words.group;
  const labels: Record<string, string> = { ...words.labels };
  if (words.subGroup !== undefined) labels[labelKeys.subGroup] = words.subGroup;
  if (words.groups !== undefined) {
    if (words.groups.length === 1) labels[labelKeys.gpuGroup] = words.groups[0] as string;
    else for (const group of words.groups) labels[`${labelKeys.gpuGroupPrefix}${group}`] = group;
  }
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      uid: `pod-${namespace}-${name}`,
      resourceVersion: "1",
      creationTimestamp: formatTime(words.createdMs ?? startMs),
      labels,
      annotations,
      ...(words.deletedMs !== undefined && { deletionTimestamp: formatTime(words.deletedMs) }),
    },
    spec: {
      schedulerName: scheduler,
      containers: [{ name: "main", resources: { requests } }],
      ...(on !== undefined && { nodeName: on }),
      ...(words.priority !== undefined && { priority: words.priority }),
      ...spec,
    },
    status: { phase: phase ?? (on === undefined ? "Pending" : "Running"), ...words.status },
  } as unknown as Pod;
}

export function queue(name: string, spec: QueueSpec & { createdMs?: number } = {}): Queue {
  const { createdMs, ...rest } = spec;
  const open = { quota: -1, limit: -1, overQuotaWeight: 1 };
  return {
    apiVersion: queueApiVersion,
    kind: "Queue",
    metadata: meta(name, `queue-${name}`, createdMs),
    spec: {
      ...rest,
      resources: { cpu: open, memory: open, gpu: { quota: 0, limit: -1, overQuotaWeight: 1 }, ...spec.resources },
    },
  };
}

/** The GPU quota and limit of a queue. */
export function gpuBounds(quota: number, limit = -1): QueueSpec {
  return { resources: { gpu: { quota, limit, overQuotaWeight: 1 } } };
}

export function group(
  name: string,
  spec: PodGroupSpec & { createdMs?: number; annotations?: Record<string, string>; namespace?: string } = {},
): PodGroup {
  const { createdMs, annotations, namespace = "default", ...rest } = spec;
  return {
    apiVersion: podGroupApiVersion,
    kind: "PodGroup",
    metadata: {
      ...meta(name, `group-${namespace}-${name}`, createdMs),
      namespace,
      ...(annotations && { annotations }),
    },
    spec: { queue: "q", ...rest },
  };
}

export function topology(name: string, ...labels: string[]): Topology {
  return {
    apiVersion: "kai.scheduler/v1alpha1",
    kind: "Topology",
    metadata: meta(name, `topology-${name}`),
    spec: { levels: labels.map((nodeLabel) => ({ nodeLabel })) },
  };
}

function meta(name: string, uid: string, createdMs = startMs): KubeObject["metadata"] {
  return { name, uid, resourceVersion: "1", creationTimestamp: formatTime(createdMs) };
}

export interface ClusterFields {
  readonly nodes?: readonly Node[];
  readonly queues?: readonly Queue[];
  readonly groups?: readonly PodGroup[];
  readonly pods?: readonly Pod[];
  readonly topologies?: readonly Topology[];
  readonly settings?: Partial<Settings>;
}

/** A cluster with these objects and KAI's priority classes; with a queue `q` by default. */
export function clusterWith(words: ClusterFields = {}): Cluster {
  const cluster = new Cluster({ ...defaultSettings, ...words.settings });
  for (const { name, value } of shippedPriorityClasses) {
    cluster.putPriorityClass({
      apiVersion: "scheduling.k8s.io/v1",
      kind: "PriorityClass",
      metadata: meta(name, name),
      value,
    } as PriorityClass);
  }
  for (const each of words.nodes ?? [node("n1")]) cluster.putNode(each);
  for (const each of words.queues ?? [queue("q")]) cluster.putQueue(each);
  for (const each of words.topologies ?? []) cluster.putTopology(each);
  for (const each of words.groups ?? []) cluster.putPodGroup(each);
  for (const each of words.pods ?? []) addPod(cluster, each);
  return cluster;
}

/** Adds a pod as the assume cache does, with its node. */
export function addPod(cluster: Cluster, each: Pod): void {
  cluster.putPod(each);
  const nodeName = each.spec?.nodeName;
  if (nodeName === undefined) return;
  const groups: string[] = [];
  for (const [key, value] of Object.entries(each.metadata.labels ?? {})) {
    if (key === labelKeys.gpuGroup || key.startsWith(labelKeys.gpuGroupPrefix)) groups.push(value);
  }
  cluster.setPlaces(each.metadata.uid, [{ node: nodeName, groups: groups.sort() }]);
}

/** A gang of pods of one kind, with its group. */
export function gang(
  name: string,
  count: number,
  words: PodFields = {},
  spec: Parameters<typeof group>[1] = {},
): { groups: PodGroup[]; pods: Pod[] } {
  const pods = Array.from({ length: count }, (_, at) =>
    pod(`${name}-${String(at).padStart(3, "0")}`, { ...words, group: name }),
  );
  return { groups: [group(name, { minMember: count, ...spec })], pods };
}

/** Several gangs together. */
export function together(...all: { groups: PodGroup[]; pods: Pod[] }[]): { groups: PodGroup[]; pods: Pod[] } {
  return { groups: all.flatMap(({ groups }) => groups), pods: all.flatMap(({ pods }) => pods) };
}

/** `pod: node` of every bind in the plan, in order of name; `~node` for pipelined pods. */
export function outcome(plan: Plan): Record<string, string> {
  const result: Record<string, string> = {};
  for (const { binds, pipelined } of plan.jobs) {
    for (const { task, node: on } of binds) result[task.name] = on;
    for (const { task, node: on } of pipelined) result[task.name] = `~${on}`;
  }
  return Object.fromEntries(Object.entries(result).sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function decide(cluster: Cluster, nowMs = startMs + 60_000): Plan {
  const plan = cycle(cluster, nowMs);
  cluster.assertCounts();
  return plan;
}

/** Names of the pods that a plan evicts, in order. */
export function evicted(plan: Plan): string[] {
  return plan.evictions.map(({ task }) => task.name).sort();
}

/** Applies a plan at once: pods are bound, victims are deleted, and their controllers have created replacements. */
export function carryOut(cluster: Cluster, plan: Plan): void {
  for (const { binds } of plan.jobs) {
    for (const { task, node: on, groups } of binds) {
      cluster.putPod({ ...task.pod, spec: { ...task.pod.spec, nodeName: on }, status: { phase: "Running" } } as Pod);
      cluster.setPlaces(task.uid, [{ node: on, groups }]);
    }
  }
  const evictors = new Set(plan.evictions.map(({ reason }) => reason.evictor));
  for (const { job, pipelined } of plan.jobs) {
    if (!evictors.has(job)) continue;
    for (const { task, node: on } of pipelined) {
      cluster.putPod({ ...task.pod, status: { ...task.pod.status, nominatedNodeName: on } } as Pod);
    }
  }
  for (const { task } of plan.evictions) {
    cluster.removePod(task.uid);
    const { nodeName: _, ...spec } = task.pod.spec ?? { containers: [] };
    const metadata = { ...task.pod.metadata, uid: `${task.uid}+` };
    cluster.putPod({ ...task.pod, metadata, spec, status: { phase: "Pending" } } as Pod);
  }
}

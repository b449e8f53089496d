/**
 * One simulated node: its name, its hardware and its Node object. Everything is derived from the cluster's seed, the
 * profile and the node's index in its pool, so the same seed gives the same bytes, device UUIDs included.
 */
import type { NewObject } from "../../model/intent.ts";
import type { Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint } from "../../model/kubernetes.generated.ts";
import { isObject } from "../../model/objects/json.ts";
import { labelValue, marks } from "../../model/profiles/marks.ts";
import type { GpuSpec, Profile } from "../../model/profiles/profile.ts";
import { profileOfObject } from "../../model/profiles/profileOfObject.ts";
import type { Profiles } from "../../model/profiles/profiles.ts";
import { type Position, positionOf, topologyLabels } from "../../model/profiles/topology.ts";
import { labelKeys } from "../../model/scheduling/keys.ts";
import { seededBelow, seededUuid } from "../../model/values/seeded.ts";
import { type GpuDevice, gpuDevicesOf, migStateLabel, pluginResources, unitCounts } from "../devices/devices.ts";
import { healthyConditions } from "./nodeConditions.ts";

export interface SimNode {
  readonly clusterSeed: string;
  readonly name: string;
  readonly pool: string;
  readonly index: number;
  readonly profile: Profile;
  readonly devices: readonly GpuDevice[];
  readonly position: Position;
  /** Labels of a node that another tool has created: they are kept unless a fault changes them. */
  readonly givenLabels?: Readonly<Record<string, string>>;
}

export interface NodePlace {
  readonly clusterSeed: string;
  readonly pool: string;
  readonly profile: Profile;
  readonly index: number;
  /** Defaults to `<pool>-<index>`. */
  readonly name?: string;
}

export function simNode(place: NodePlace): SimNode {
  const { clusterSeed, pool, profile, index } = place;
  const name = place.name ?? `${pool}-${index}`;
  const devices = profile.gpu === undefined ? [] : gpuDevicesOf(profile.gpu, { clusterSeed, node: name });
  const position = positionOf(profile.topology ?? { scheme: "none" }, { clusterSeed, pool, index });
  return { clusterSeed, name, pool, index, profile, devices, position };
}

export interface NodeObjectOptions {
  /** The index of the node in the whole cluster: addresses are derived from it. */
  readonly ordinal: number;
  readonly nowMs: number;
  /** Adds the taint `kwok.x-k8s.io/node=fake:NoSchedule`. */
  readonly kwokTaint?: boolean;
  readonly kubeletVersion?: string;
}

export const defaultKubeletVersion = "v1.36.0";

/** The object to create. Its status is complete, so that the node is Ready when it is created. */
export function nodeObject(node: SimNode, options: NodeObjectOptions): NewObject<Node> {
  const { profile } = node;
  const taints: Taint[] = [...(profile.taints ?? [])];
  if (options.kwokTaint === true) {
    taints.push({ key: marks.kwokNode, value: marks.kwokNodeValue, effect: "NoSchedule" });
  }
  const podCidr = podCidrOf(options.ordinal);
  const spec: NodeSpec = { podCIDR: podCidr, podCIDRs: [podCidr], providerID: `kwok://${node.name}` };
  if (taints.length > 0) spec.taints = taints;
  const { gpu } = profile;
  const resources = {
    cpu: profile.cpu,
    memory: profile.memory,
    "ephemeral-storage": profile.storage,
    pods: String(profile.maxPods),
    ...(gpu === undefined ? {} : countsAsText(unitCounts(pluginResources(node, {})).capacity)),
  };
  const kubeletVersion = options.kubeletVersion ?? profile.kubeletVersion ?? defaultKubeletVersion;
  const status: NodeStatus = {
    capacity: resources,
    allocatable: { ...resources },
    phase: "Running",
    conditions: healthyConditions(options.nowMs),
    addresses: [
      { type: "InternalIP", address: nodeIpOf(options.ordinal) },
      { type: "Hostname", address: node.name },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
    nodeInfo: nodeInfoOf(node, kubeletVersion),
  };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: node.name,
      labels: nodeLabels(node),
      annotations: {
        [marks.kwokNode]: marks.kwokNodeValue,
        "node.alpha.kubernetes.io/ttl": "0",
        [marks.profile]: profile.name,
        [marks.pool]: node.pool,
        [marks.index]: String(node.index),
        ...profile.annotations,
      },
    },
    spec,
    status,
  };
}

/** The missing fields of a node that was created by hand, with the same values as in KWOK. */
export function completedStatus(node: SimNode, status: NodeStatus): NodeStatus {
  const { profile } = node;
  const isWhole = status.capacity && status.allocatable && status.addresses && status.daemonEndpoints;
  if (isWhole && status.phase === "Running" && status.nodeInfo?.kubeletVersion) return status;
  const capacity = status.capacity ?? {
    cpu: known(profile.cpu) ?? "1k",
    memory: known(profile.memory) ?? "1Ti",
    pods: profile.name === "" ? "1M" : String(profile.maxPods),
  };
  const ordinal = seededBelow(1 << 20, node.clusterSeed, "address", node.name);
  const addresses = status.addresses ?? [
    { type: "InternalIP", address: nodeIpOf(ordinal) },
    { type: "Hostname", address: node.name },
  ];
  const info: Partial<NodeSystemInfo> = status.nodeInfo ?? {};
  const wanted = nodeInfoOf(node, profile.kubeletVersion ?? defaultKubeletVersion);
  const nodeInfo = { ...wanted };
  for (const key of Object.keys(wanted) as (keyof typeof wanted)[]) if (info[key]) nodeInfo[key] = info[key];
  return {
    ...status,
    capacity,
    allocatable: status.allocatable ?? capacity,
    addresses,
    daemonEndpoints: status.daemonEndpoints ?? { kubeletEndpoint: { Port: 10250 } },
    nodeInfo: { ...status.nodeInfo, ...nodeInfo },
    phase: "Running",
  };
}

function known(amount: string): string | undefined {
  return amount === "0" || amount === "" ? undefined : amount;
}

function nodeInfoOf(node: SimNode, kubeletVersion: string): Omit<NodeSystemInfo, "swap"> {
  return {
    architecture: node.profile.arch,
    bootID: bootIdOf(node, 0),
    containerRuntimeVersion: "containerd://2.1.4",
    kernelVersion: "6.8.0-sim",
    kubeProxyVersion: kubeletVersion,
    kubeletVersion,
    machineID: seededUuid(node.clusterSeed, "machine", node.name).replaceAll("-", ""),
    operatingSystem: "linux",
    osImage: node.profile.osImage || "Simulated Linux",
    systemUUID: seededUuid(node.clusterSeed, "system", node.name),
  };
}

/** What faults may change in the labels of a node. */
export interface Presentation {
  readonly driver?: string;
  readonly partition?: number;
  readonly mig?: NonNullable<GpuSpec["mig"]>;
  readonly migPending?: boolean;
}

/** All labels, those of the GPU tools and of the topology included. */
export function nodeLabels(node: SimNode, now: Presentation = {}): Record<string, string> {
  const { profile } = node;
  const zone = profile.zones?.[node.index % profile.zones.length];
  const labels: Record<string, string> = {
    type: "kwok",
    "kubernetes.io/hostname": node.name,
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": profile.arch,
    "topology.kubernetes.io/region": labelValue(profile.region ?? "sim"),
    "topology.kubernetes.io/zone": labelValue(zone ?? "sim-a"),
  };
  if (profile.instanceType !== undefined) {
    labels["node.kubernetes.io/instance-type"] = labelValue(profile.instanceType);
  }
  Object.assign(labels, gpuLabels(node, now));
  const fabric = {
    clusterSeed: node.clusterSeed,
    pool: node.pool,
    clique: profile.gpu?.clique === true,
    ...(now.partition === undefined ? {} : { partition: now.partition }),
  };
  Object.assign(labels, topologyLabels(profile.topology ?? { scheme: "none" }, node.position, fabric));
  return Object.assign(labels, profile.labels);
}

function gpuLabels(node: SimNode, now: Presentation): Record<string, string> {
  const { gpu } = node.profile;
  if (gpu === undefined) return {};
  const mig = now.mig ?? gpu.mig;
  const strategy = mig?.strategy ?? "none";
  const [major = "0", minor = "0", rev = ""] = (now.driver ?? gpu.driver).split(".");
  const labels: Record<string, string> = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": labelValue(gpu.product),
    "nvidia.com/gpu.count": String(gpu.count),
    "nvidia.com/gpu.memory": String(gpu.memoryMiB),
    "nvidia.com/gpu.machine": labelValue(node.profile.instanceType ?? "simulated"),
    "nvidia.com/gpu.replicas": String(gpu.replicas ?? 1),
    "nvidia.com/mig.capable": String(gpu.migCapable === true),
    "nvidia.com/mig.strategy": strategy,
    "nvidia.com/cuda.driver.major": major,
    "nvidia.com/cuda.driver.minor": minor,
    "nvidia.com/cuda.driver.rev": rev,
    // A partition cannot be requested by the name of its GPU.
    [labelKeys.pinsDevices]: String(strategy === "none"),
  };
  if (gpu.family !== undefined) labels["nvidia.com/gpu.family"] = labelValue(gpu.family);
  if (gpu.migCapable === true) labels["nvidia.com/mig.config.state"] = migStateLabel(now.migPending === true);
  // With one kind of partition a plain GPU request means a partition, and the product label shows it.
  if (strategy === "single") {
    const [partition = ""] = Object.keys(mig?.partitions ?? {});
    labels["nvidia.com/gpu.product"] = labelValue(`${gpu.product}-MIG-${partition}`);
  } else if ((gpu.replicas ?? 1) > 1) labels["nvidia.com/gpu.product"] = labelValue(`${gpu.product}-SHARED`);
  return labels;
}

/**
 * The simulated node of an object, also one that a user or another tool has created: then its hardware is derived from
 * its labels and capacity.
 */
export function simNodeOf(object: Node, clusterSeed: string, profiles: Profiles): SimNode {
  const { name, annotations = {}, labels = {} } = object.metadata;
  const known = profiles.get(annotations[marks.profile] ?? "");
  const index = Number(annotations[marks.index] ?? /([0-9]+)$/.exec(name)?.[1] ?? 0);
  const pool = annotations[marks.pool] ?? (name.replace(/-?[0-9]+$/, "") || name);
  const profile = known ?? profileOfObject(object);
  const sim = simNode({ clusterSeed, pool, profile, index: Number.isInteger(index) ? index : 0, name });
  return known === undefined ? { ...sim, givenLabels: labels } : sim;
}

/** Whether a simulator may write this node: it has KWOK's annotation. */
export function isSimulated(object: unknown): boolean {
  if (!isObject(object) || !isObject(object["metadata"])) return false;
  const annotations = object["metadata"]["annotations"];
  return isObject(annotations) && annotations[marks.kwokNode] === marks.kwokNodeValue;
}

/** The boot id after this many reboots. */
export function bootIdOf(node: { clusterSeed: string; name: string }, boots: number): string {
  return seededUuid(node.clusterSeed, "boot", node.name, boots);
}

/** 172.16.0.0/12 holds a million nodes. */
function nodeIpOf(ordinal: number): string {
  const host = ordinal + 1;
  return `172.${16 + ((host >> 16) & 15)}.${(host >> 8) & 255}.${host & 255}`;
}

/** A /24 of 10.0.0.0/8 for each node: 65,536 nodes with 254 pods each. */
function podCidrOf(ordinal: number): string {
  return `10.${(ordinal >> 8) & 255}.${ordinal & 255}.0/24`;
}

/** The ordinal from which a node's pod CIDR was derived. */
export function ordinalOf(node: Node): number | undefined {
  const match = /^10\.([0-9]{1,3})\.([0-9]{1,3})\.0\/24$/.exec(node.spec?.podCIDR ?? "");
  return match === null ? undefined : Number(match[1]) * 256 + Number(match[2]);
}

export function countsAsText(counts: Readonly<Record<string, number>>): Record<string, string> {
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, String(count)]));
}

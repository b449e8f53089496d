import type {
  NodeSelectorTerm,
  Pod,
  PodAffinityTerm,
  PreferredSchedulingTerm,
  TopologySpreadConstraint,
  WeightedPodAffinityTerm,
} from "../../../model/kubernetes.generated.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import { type GpuRequest, isShared, readGpuRequest } from "../../../model/scheduling/gpuRequest.ts";
import { annotationKeys, defaultSchedulerName } from "../../../model/scheduling/keys.ts";
import { cpuAt, gpuAt, gpuMaker, memoryAt, migWeight, podsAt, type ResourceNames, wholeAmount } from "./resources.ts";
import type { ServedResources } from "./servedResources.ts";

/**
 * Everything about a pod that decides where it fits. Pods of one template share a shape, so what was worked out for one
 * of them (which nodes it may use, which is best) holds for all.
 */
export interface PodShape {
  readonly id: number;
  readonly key: string;
  /** How many pods have it; a shape without pods is forgotten. */
  users: number;
  /** What it asks of a node itself. */
  readonly need: PodNeed;
  /**
   * Places of the resources it asks for, and how much of each. One pod slot is always among them; shares of GPUs are
   * not.
   */
  readonly places: readonly number[];
  readonly amounts: readonly number[];
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpu: GpuRequest;
  /** Makers of the whole GPUs that it asks for, as bits. */
  readonly gpuMakers: number;
  /** What MIG instances weigh in queues. */
  readonly migGpus: number;
  readonly asksForMig: boolean;
  /** Why it can run nowhere as it is written. */
  readonly problem: string | undefined;
  /** Whose rules of scoring and of node conditions apply. */
  readonly rules: "kai" | "default";
  /** Which nodes it accepts, apart from amounts; shapes with the same one share the answer. */
  readonly where: NodeChoice;
  readonly hostPorts: readonly HostPort[];
  readonly affinity: readonly PodAffinityTerm[];
  readonly antiAffinity: readonly PodAffinityTerm[];
  readonly preferredAffinity: readonly WeightedPodAffinityTerm[];
  readonly preferredAntiAffinity: readonly WeightedPodAffinityTerm[];
  readonly spread: readonly TopologySpreadConstraint[];
  /** Names of volume claims, and of ConfigMaps that must exist, in the pod's namespace. */
  readonly volumeClaims: readonly string[];
  readonly configMaps: readonly string[];
  readonly hasDeviceClaims: boolean;
  /** Among its places, those of resources that devices serve on some nodes. */
  readonly servedPlaces: readonly number[];
  /** Those of the first pod of this shape. */
  readonly namespace: string;
  /** Whether a node's own state is all that decides: then the best node can be kept up to date instead of searched. */
  readonly isLocal: boolean;
  /** What limits its placement besides amounts; two pods with equal limits can be compared by amounts alone. */
  readonly limits: string;
}

/**
 * What pods ask of a node itself: selectors, amounts, ports, GPUs. Shapes that differ in labels, volumes or inter-pod
 * rules share it.
 */
export interface PodNeed {
  readonly id: number;
  readonly key: string;
  /** How many shapes have it. */
  users: number;
}

export interface HostPort {
  readonly ip: string;
  readonly protocol: string;
  readonly port: number;
}

/** Selector, affinity and tolerations of a pod. */
export interface NodeChoice {
  readonly key: string;
  readonly pod: Pod;
  readonly rules: "kai" | "default";
  readonly preferred: readonly PreferredSchedulingTerm[];
  readonly required: readonly NodeSelectorTerm[] | undefined;
}

const nothing: readonly never[] = [];

/** Hands out one shape for all pods that are alike. */
export class PodShapes {
  private readonly byKey = new Map<string, PodShape>();
  private readonly choices = new Map<string, NodeChoice>();
  private readonly needs = new Map<string, PodNeed>();
  private readonly names: ResourceNames;
  private nextId = 0;
  private nextNeedId = 0;
  /** Shapes of pods that ask for devices. */
  private withClaims = 0;

  private readonly served: ServedResources;

  constructor(names: ResourceNames, served: ServedResources) {
    this.names = names;
    this.served = served;
  }

  shapeOf(pod: Pod): PodShape {
    const spec = pod.spec;
    const annotations = pod.metadata.annotations;
    const affinity = spec?.affinity;
    const ports = hostPortsOf(pod);
    const volumeClaims = volumeClaimsOf(pod);
    const configMaps = namedConfigMaps(pod);
    const servedPlaces = this.served.placesOf(pod, this.names);
    const rules = spec?.schedulerName === undefined || spec.schedulerName === defaultSchedulerName ? "default" : "kai";
    const choiceKey = JSON.stringify([
      rules,
      spec?.nodeSelector,
      affinity?.nodeAffinity,
      spec?.tolerations?.map(({ key, operator, value, effect }) => [key, operator, value, effect]),
    ]);
    const hasInterPodRules =
      affinity?.podAffinity !== undefined ||
      affinity?.podAntiAffinity !== undefined ||
      (spec?.topologySpreadConstraints?.length ?? 0) > 0;
    const hasDeviceClaims = (spec?.resourceClaims?.length ?? 0) > 0 || servedPlaces.length > 0;
    const limits = JSON.stringify([
      choiceKey,
      hasInterPodRules ? [affinity?.podAffinity, affinity?.podAntiAffinity, spec?.topologySpreadConstraints] : 0,
      ports.length > 0 ? ports : 0,
      volumeClaims.length > 0 ? [pod.metadata.namespace, volumeClaims] : 0,
      configMaps.length > 0 ? [pod.metadata.namespace, configMaps] : 0,
      // A pod with device claims shares its shape with no other pod: the claims decide.
      hasDeviceClaims ? pod.metadata.uid : 0,
      ...(servedPlaces.length > 0 ? [servedPlaces] : []),
    ]);
    const requests = podRequests(pod);
    let asked = "";
    for (const [name, amount] of requests) if (amount !== 0n) asked += `|${name}=${amount}`;
    if (annotations !== undefined) {
      asked += `|${annotations[annotationKeys.gpuFraction] ?? ""}|${annotations[annotationKeys.gpuMemory] ?? ""}`;
      asked += `|${annotations[annotationKeys.gpuFractionDevices] ?? ""}`;
    }
    let key = limits + asked;
    // A pod that counts pods by labels may count itself; all others are alike whatever their labels say.
    if (hasInterPodRules) key += `|${pod.metadata.namespace ?? ""}|${JSON.stringify(pod.metadata.labels ?? {})}`;
    const known = this.byKey.get(key);
    if (known !== undefined) {
      known.users++;
      return known;
    }

    const places: number[] = [];
    const amounts: number[] = [];
    let wholeDevices = 0;
    let gpuMakers = 0;
    let migGpus = 0;
    let asksForMig = false;
    for (const [name, nano] of requests) {
      const amount = wholeAmount(name, nano);
      if (amount <= 0 || name === "pods") continue;
      const maker = gpuMaker(name);
      if (maker !== 0) {
        wholeDevices += amount;
        gpuMakers |= maker;
        continue;
      }
      const weight = migWeight(name);
      migGpus += weight * amount;
      asksForMig ||= name.startsWith("nvidia.com/mig-");
      places.push(this.names.placeOf(name));
      amounts.push(amount);
    }
    const read = readGpuRequest(pod, wholeDevices);
    const gpu: GpuRequest = "gpu" in read ? read.gpu : { type: "none" };
    if (gpu.type === "whole") {
      // The scarcest first: most nodes are ruled out by one comparison.
      places.unshift(gpuAt);
      amounts.unshift(gpu.devices);
    }
    places.push(podsAt);
    amounts.push(1);
    let choice = this.choices.get(choiceKey);
    if (choice === undefined) {
      choice = {
        key: choiceKey,
        pod,
        rules,
        preferred: affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? nothing,
        required: affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms,
      };
      this.choices.set(choiceKey, choice);
    }
    const shape: PodShape = {
      id: this.nextId++,
      key,
      users: 1,
      need: this.needOf(
        `${choiceKey}${ports.length > 0 ? JSON.stringify(ports) : ""}${asked}${servedPlaces.length > 0 ? `|${servedPlaces}` : ""}`,
      ),
      places,
      amounts,
      cpuMilli: amountAt(places, amounts, cpuAt),
      memoryBytes: amountAt(places, amounts, memoryAt),
      gpu,
      gpuMakers,
      migGpus,
      asksForMig,
      problem: "problem" in read ? read.problem : undefined,
      rules,
      where: choice,
      hostPorts: ports,
      affinity: affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? nothing,
      antiAffinity: affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? nothing,
      preferredAffinity: affinity?.podAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? nothing,
      preferredAntiAffinity: affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? nothing,
      spread: spec?.topologySpreadConstraints ?? nothing,
      volumeClaims,
      configMaps,
      hasDeviceClaims,
      servedPlaces,
      namespace: pod.metadata.namespace ?? "",
      isLocal: !hasInterPodRules && volumeClaims.length === 0 && !hasDeviceClaims,
      limits,
    };
    this.byKey.set(key, shape);
    if (shape.hasDeviceClaims) this.withClaims++;
    return shape;
  }

  /** Whether any pod asks for devices. */
  get haveClaims(): boolean {
    return this.withClaims > 0;
  }

  private needOf(key: string): PodNeed {
    let need = this.needs.get(key);
    if (need === undefined) {
      need = { id: this.nextNeedId++, key, users: 0 };
      this.needs.set(key, need);
    }
    need.users++;
    return need;
  }

  /** One pod less has it. True when no pod is left that asks a node for the same. */
  release(shape: PodShape): boolean {
    shape.users--;
    if (shape.users > 0) return false;
    this.byKey.delete(shape.key);
    if (shape.hasDeviceClaims) this.withClaims--;
    const { need } = shape;
    need.users--;
    if (need.users > 0) return false;
    this.needs.delete(need.key);
    return true;
  }
}

function amountAt(places: readonly number[], amounts: readonly number[], place: number): number {
  const at = places.indexOf(place);
  return at < 0 ? 0 : (amounts[at] ?? 0);
}

function hostPortsOf({ spec }: Pod): HostPort[] {
  const ports: HostPort[] = [];
  for (const container of spec?.containers ?? []) {
    for (const { hostPort, hostIP, protocol } of container.ports ?? []) {
      if (hostPort === undefined || hostPort === 0) continue;
      ports.push({
        ip: hostIP === undefined || hostIP === "" ? "0.0.0.0" : hostIP,
        protocol: protocol ?? "TCP",
        port: hostPort,
      });
    }
  }
  return ports;
}

function volumeClaimsOf({ metadata, spec }: Pod): string[] {
  const names: string[] = [];
  for (const volume of spec?.volumes ?? []) {
    if (volume.persistentVolumeClaim !== undefined) names.push(volume.persistentVolumeClaim.claimName);
    else if (volume.ephemeral !== undefined) names.push(`${metadata.name}-${volume.name}`);
  }
  return names;
}

/** ConfigMaps without which a container would wait for ever. The ones of shared GPUs are made by the binder, later. */
export function namedConfigMaps({ metadata, spec }: Pod): string[] {
  const names = new Set<string>();
  const ours = metadata.annotations?.[annotationKeys.sharedGpuConfigMap];
  for (const volume of spec?.volumes ?? []) {
    if (volume.configMap !== undefined && volume.configMap.optional !== true) names.add(volume.configMap.name ?? "");
    for (const { configMap } of volume.projected?.sources ?? []) {
      if (configMap !== undefined && configMap.optional !== true) names.add(configMap.name ?? "");
    }
  }
  for (const container of [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])]) {
    for (const { configMapRef } of container.envFrom ?? []) {
      if (configMapRef !== undefined && configMapRef.optional !== true) names.add(configMapRef.name ?? "");
    }
    for (const { valueFrom } of container.env ?? []) {
      const ref = valueFrom?.configMapKeyRef;
      if (ref !== undefined && ref.optional !== true) names.add(ref.name ?? "");
    }
  }
  names.delete("");
  // Every namespace has it.
  names.delete("kube-root-ca.crt");
  return [...names].filter((name) => ours === undefined || !name.startsWith(ours)).sort();
}

/** Whether its binding takes more than one write, leaving gangs aside. */
export function bindsInOneWrite(shape: PodShape): boolean {
  return !isShared(shape.gpu) && !shape.hasDeviceClaims && shape.volumeClaims.length === 0;
}

import type {
  NodeSelectorTerm,
  Pod,
  PodAffinityTerm,
  PreferredSchedulingTerm,
  TopologySpreadConstraint,
  WeightedPodAffinityTerm,
} from "../../../model/kubernetes.generated.ts";
import { podRequests } from "../../../model/objects/podRequests.ts";
import { type GpuRequest, readGpuRequest } from "../../../model/scheduling/gpuRequest.ts";
import { annotationKeys, defaultSchedulerName } from "../../../model/scheduling/keys.ts";
import { cpuAt, gpuAt, gpuMaker, memoryAt, migWeight, podsAt, type ResourceNames, wholeAmount } from "./resources.ts";
import type { ServedResources } from "./servedResources.ts";

/**
 * The fields of a pod that decide where it fits. Pods of one template share a shape, so a result for one of them (which
 * nodes it accepts, which is best) holds for all.
 */
export interface PodShape {
  readonly id: number;
  readonly key: string;
  /** The number of pods with this shape; a shape without pods is dropped. */
  users: number;
  /** Its requirements on a node by itself. */
  readonly need: PodNeed;
  /**
   * Places of the requested resources, and the amount of each. One pod slot is always among them; GPU shares are not.
   */
  readonly places: readonly number[];
  readonly amounts: readonly number[];
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpu: GpuRequest;
  /** Vendors of the requested whole GPUs, as bits. */
  readonly gpuMakers: number;
  /** GPUs that its MIG instances count for in queues. */
  readonly migGpus: number;
  readonly asksForMig: boolean;
  /** Why its GPU request is invalid, so that no node can run it. */
  readonly problem: string | undefined;
  /** Whether KAI's or kube-scheduler's rules of scoring and of node conditions apply. */
  readonly rules: "kai" | "default";
  /** The nodes that it accepts, apart from amounts; shapes with an equal choice share the result. */
  readonly where: NodeChoice;
  readonly hostPorts: readonly HostPort[];
  readonly affinity: readonly PodAffinityTerm[];
  readonly antiAffinity: readonly PodAffinityTerm[];
  readonly preferredAffinity: readonly WeightedPodAffinityTerm[];
  readonly preferredAntiAffinity: readonly WeightedPodAffinityTerm[];
  readonly spread: readonly TopologySpreadConstraint[];
  /** Names of PersistentVolumeClaims, and of ConfigMaps that must exist, in the pod's namespace. */
  readonly volumeClaims: readonly string[];
  readonly configMaps: readonly string[];
  readonly hasDeviceClaims: boolean;
  /** Among its places, those of resources that devices serve on some nodes. */
  readonly servedPlaces: readonly number[];
  /** Those of the first pod of this shape. */
  readonly namespace: string;
  /** Whether only a node's own state decides: then the best node is kept up to date instead of searched. */
  readonly isLocal: boolean;
  /** The constraints on its placement besides amounts; pods with equal constraints can be compared by amounts. */
  readonly limits: string;
}

/**
 * A pod's requirements on a node by itself: selectors, amounts, ports, GPUs. Shapes that differ only in labels, volumes
 * or inter-pod rules share it.
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

/** Returns one shape for all pods with equal fields. */
export class PodShapes {
  private readonly byKey = new Map<string, PodShape>();
  private readonly choices = new Map<string, NodeChoice>();
  private readonly needs = new Map<string, PodNeed>();
  private readonly names: ResourceNames;
  private nextId = 0;
  private nextNeedId = 0;
  /** The number of shapes with device claims. */
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
    // A pod with affinity or spread terms may match its own labels; the labels of other pods do not matter.
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
      // The scarcest resource first: most nodes are ruled out by one comparison.
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

  /** Whether any pod has device claims. */
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

  /** One pod fewer has the shape. True if no pod is left with the same need. */
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

/** ConfigMaps without which a container cannot start. Those of GPU shares are created later, by the binder. */
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

import type { GroupView } from "../../decide/bind/judgeGroup.ts";
import { deviceOf, hasEnded, holdersOf, isBound, podsRef } from "../../decide/bind/reservation.ts";
import { NodeGpus, usesPlugin } from "../../decide/devices/physicalGpus.ts";
import { keyOf } from "../../model/intent.ts";
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { isLeaving } from "../../model/objects/podFacts.ts";
import { builtin } from "../../model/resources.generated.ts";
import {
  type BindRequest,
  bindRequestRef,
  commitOf,
  commitSizeOf,
  isFinallyFailed,
  podUidOf,
} from "../../model/scheduling/bindRequest.ts";
import {
  gpuGroupsOfLabels,
  isReservationPod,
  labelKeys,
  nodeHeldBy,
  scalingNamespace,
} from "../../model/scheduling/keys.ts";
import type { KindChange } from "../../snapshot/kindTable.ts";
import { NewestOf } from "../cache/newestOf.ts";
import { DeviceCaches } from "../devices/deviceCaches.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { Writer } from "../runtime/writer.ts";

export const nodesRef = builtin.Node;
const gpu = "nvidia.com/gpu";

/** What the binder reads: pods, nodes and BindRequests, indexed by group, node, gang and UID. */
export class BinderCaches {
  private readonly controllers: Controllers;
  /** Includes the answers to own writes before the watch delivers them. */
  readonly writer: Writer;
  readonly pods: NewestOf<Pod>;
  readonly nodes: NewestOf<Node>;
  readonly requests: NewestOf<BindRequest>;
  readonly requestsByGroup;
  readonly requestsByPod;
  private readonly requestsByCommit;
  private readonly reservationsByGroup;
  private readonly usersByGroup;
  private readonly podsByNode;
  private readonly scalingPods;

  constructor(controllers: Controllers) {
    this.controllers = controllers;
    this.writer = controllers.writer.answering(({ group, plural }, object) => {
      if (plural === podsRef.plural) this.pods.learn(object as Pod);
      if (plural === bindRequestRef.plural && group === bindRequestRef.group)
        this.requests.learn(object as BindRequest);
      // Present where this process counts devices.
      controllers.known(DeviceCaches)?.tracker.assumeClaimAfterApiCall(object);
    });
    this.pods = new NewestOf(controllers.cache(podsRef));
    this.nodes = new NewestOf(controllers.cache(nodesRef));
    this.requests = new NewestOf(controllers.cache(bindRequestRef));
    const { cache: pods } = this.pods;
    const { cache: requests } = this.requests;
    this.reservationsByGroup = pods.index((pod) =>
      isReservationPod(pod) ? gpuGroupsOfLabels(pod.metadata.labels) : [],
    );
    this.usersByGroup = pods.index((pod) => (isReservationPod(pod) ? [] : gpuGroupsOfLabels(pod.metadata.labels)));
    this.podsByNode = pods.index((pod) => nodeOf(pod));
    this.scalingPods = pods.index(({ metadata }) => (metadata.namespace === scalingNamespace ? [""] : []));
    this.requestsByGroup = requests.index((object) => groupsOf(object));
    this.requestsByCommit = requests.index((object) => {
      const commit = commitOf(object);
      return commit === undefined ? [] : [commit];
    });
    this.requestsByPod = requests.index((object) => [keyOf(object.metadata.namespace, object.spec?.podName ?? "")]);
  }

  /**
   * How many BindRequests of a gang exist. A gang whose binds have started was complete: requests that were deleted
   * since then do not block the others.
   */
  commitSize({ metadata }: Pick<BindRequest, "metadata">): number {
    const commit = commitOf({ metadata });
    if (commit === undefined) return 0;
    const count = this.requestsByCommit.count(commit);
    if (count >= commitSizeOf({ metadata })) return count;
    return this.requestsByCommit.get(commit).some(hasStarted) ? Number.POSITIVE_INFINITY : count;
  }

  /**
   * The BindRequests of a gang that may start after an event: the last one was created, or one of them has started
   * before.
   */
  released(event: KindChange<BindRequest>): readonly BindRequest[] {
    const commit = commitOf(event.object);
    if (commit === undefined || event.type === "deleted") return [];
    const isWhole = this.requestsByCommit.count(commit) >= commitSizeOf(event.object);
    const isNew =
      event.type === "added" ||
      commitOf(event.before) !== commit ||
      commitSizeOf(event.before) !== commitSizeOf(event.object);
    const startsNow = event.type === "updated" && hasStarted(event.object) && !hasStarted(event.before);
    return (isWhole && isNew) || (!isWhole && startsNow) ? this.requestsByCommit.get(commit) : [];
  }

  /** Every GPU group that a pod or BindRequest names. */
  groups(): string[] {
    const all = [this.reservationsByGroup, this.usersByGroup, this.requestsByGroup].flatMap((index) => index.values());
    return [...new Set(all)].sort();
  }

  /** The nodes that have, or will have, pods or requests of the group. */
  nodesOf(group: string): string[] {
    const nodes = new Set<string>();
    for (const pod of [...this.reservations(group), ...this.users(group)])
      for (const node of nodeOf(pod)) nodes.add(node);
    for (const object of this.requestsByGroup.get(group)) nodes.add(object.spec?.selectedNode ?? "");
    return [...nodes].filter((node) => node !== "").sort();
  }

  reservations(group: string): Pod[] {
    return this.pods.among(this.reservationsByGroup.get(group), (pod) => isReservationPod(pod) && isOf(pod, group));
  }

  /** Pods of a group that run on a node, without the pod of the BindRequest. */
  sharers(group: string, node: string, request: BindRequest): Pod[] {
    return this.users(group).filter((pod) => pod.spec?.nodeName === node && !hasEnded(pod) && !isFor(request, pod));
  }

  view(group: string, node: string): GroupView {
    const reservations = this.reservations(group).filter((pod) => nodeHeldBy(pod) === node);
    const holders = reservations.flatMap((pod) => [...holdersOf(pod)]).map(([uid, key]) => this.podOf(uid, key));
    return {
      group,
      node,
      reservations,
      users: this.users(group),
      requests: this.requestsByGroup.get(group).map((object) => this.requests.newest(object)),
      holders: [...new Set(holders)].filter((pod) => pod !== undefined),
      canPin: this.nodes.get(keyOf("", node))?.metadata.labels?.[labelKeys.pinsDevices] === "true",
    };
  }

  /** Whether own writes to the group are newer than the caches. */
  isAhead(group: string): boolean {
    return (
      this.pods.isAhead((pod) => isOf(pod, group)) ||
      this.requests.isAhead((object) => groupsOf(object).includes(group))
    );
  }

  /** GPUs of a node that neither claims nor pods with whole GPUs hold; reservations are such pods. */
  freeGpus(node: Node, pods: readonly Pod[] = this.onNode(node.metadata.name)): number {
    const taken = pods.reduce((sum, pod) => sum + (hasEnded(pod) ? 0 : gpusOf(pod)), 0);
    return Number(node.status?.allocatable?.[gpu] ?? 0) - taken - this.claimedGpus(node);
  }

  /** GPUs of a node that claims have, where this process counts devices. */
  private claimedGpus(node: Node): number {
    const devices = this.controllers.known(DeviceCaches);
    const slices = devices?.model.slicesOn(node.metadata.name) ?? [];
    if (devices === undefined || slices.length === 0) return 0;
    const { tracker } = devices;
    const gpus = new NodeGpus(node, slices);
    const taken = [...gpus.keys()].filter((device) => tracker.isTaken(device) || tracker.shareCount(device) > 0);
    return gpus.unitsOf(taken).get(gpu) ?? 0;
  }

  /** Reservation pods for a node that are not bound yet. */
  onTheirWay(node: string): Pod[] {
    return this.onNode(node).filter((pod) => !isBound(pod));
  }

  /** Device to group, of the reservations of a node. */
  devices(node: string): Map<string, string> {
    const devices = new Map<string, string>();
    for (const pod of this.onNode(node)) {
      if (!isReservationPod(pod) || hasEnded(pod) || isLeaving(pod)) continue;
      const device = deviceOf(pod);
      const [group] = gpuGroupsOfLabels(pod.metadata.labels);
      if (device !== undefined && group !== undefined && !devices.has(device)) devices.set(device, group);
    }
    return devices;
  }

  get isScalingUp(): boolean {
    return this.scalingPods.get("").some((pod) => {
      // A pod that is stuck terminating no longer triggers a scale-up.
      return !isLeaving(pod) && pod.spec?.nodeName === undefined;
    });
  }

  private users(group: string): Pod[] {
    return this.pods.among(this.usersByGroup.get(group), (pod) => !isReservationPod(pod) && isOf(pod, group));
  }

  private onNode(node: string): Pod[] {
    return this.pods.among(this.podsByNode.get(node), (pod) => nodeOf(pod).includes(node));
  }

  private podOf(uid: string, key: string): Pod | undefined {
    const found = this.pods.get(key);
    return found?.metadata.uid === uid ? found : undefined;
  }
}

function hasStarted(request: BindRequest): boolean {
  return request.status?.phase === "Succeeded" || isFinallyFailed(request);
}

export function groupsOf({ spec }: BindRequest): string[] {
  return spec?.receivedResourceType === "Fraction" ? (spec.selectedGPUGroups ?? []) : [];
}

export function isFor(request: BindRequest, pod: Pod): boolean {
  return (podUidOf(request) ?? pod.metadata.uid) === pod.metadata.uid;
}

function isOf({ metadata }: KubeObject, group: string): boolean {
  return gpuGroupsOfLabels(metadata.labels).includes(group);
}

function nodeOf(pod: Pod): string[] {
  const node = nodeHeldBy(pod);
  return node === undefined ? [] : [node];
}

/**
 * Whole GPUs that its containers hold; containers that run one after the other share them. GPUs from a claim count with
 * the claim.
 */
function gpusOf(pod: Pod): number {
  if (!usesPlugin(pod)) return 0;
  const { spec } = pod;
  const of = (containers: readonly { resources?: { limits?: Record<string, string> } }[]): number[] =>
    containers.map(({ resources }) => Number(resources?.limits?.[gpu] ?? 0));
  const running = of(spec?.containers ?? []).reduce((sum, each) => sum + each, 0);
  return Math.max(running, ...of(spec?.initContainers ?? []));
}

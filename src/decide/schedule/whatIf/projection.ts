/**
 * What the scheduler would do with a cluster if nothing else happened: no pod ends by itself and none is created. The
 * scheduler's own cycle decides on a copy of the objects, and each plan is applied to the copy until a cycle changes
 * nothing. Evicted pods end at once, and their controllers create them again.
 */
import type { Pod, ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { controllerOf } from "../../../model/objects/ownership.ts";
import { isFinished } from "../../../model/objects/podFacts.ts";
import { isFinallyFailed, podUidOf } from "../../../model/scheduling/bindRequest.ts";
import { annotationKeys, isReservationPod, labelKeys } from "../../../model/scheduling/keys.ts";
import type { SchedulingShard } from "../../../model/scheduling/schedulingShard.ts";
import { formatTime } from "../../../model/values/time.ts";
import { cycle, type Plan, type PlannedBind } from "../cycle.ts";
import { whyEvicted } from "../explain/explain.ts";
import type { ClusterObjects } from "../model/clusterOf.ts";
import { poolClusters } from "../poolClusters.ts";

export interface ProjectedEviction {
  /** `namespace/name`. */
  readonly pod: string;
  /** The id of its job; undefined for a pod without one. */
  readonly job: string | undefined;
  readonly why: string;
}

export interface Projection {
  /** The objects at the end. */
  readonly objects: ClusterObjects;
  readonly evictions: readonly ProjectedEviction[];
  /** False if the cycles still changed the cluster when the projection ended. */
  readonly isSettled: boolean;
}

/** A gang that is evicted and placed again takes a few cycles; more means that the cluster does not settle. */
const cyclesMax = 40;

export function project(objects: ClusterObjects, shards: readonly SchedulingShard[], nowMs: number): Projection {
  const copy = new ProjectedObjects(objects, nowMs);
  const evictions: ProjectedEviction[] = [];
  for (let cycles = 0; cycles < cyclesMax; cycles++) {
    let hasChanged = false;
    for (const cluster of poolClusters(copy.objects, shards)) {
      if (cluster.isUnserved) continue;
      const plan = cycle(cluster, nowMs);
      evictions.push(
        ...plan.evictions.map((each) => ({ pod: each.task.key, job: each.task.job?.id, why: whyEvicted(each) })),
      );
      hasChanged = copy.apply(plan) || hasChanged;
    }
    if (!hasChanged) return { objects: copy.objects, evictions, isSettled: true };
  }
  return { objects: copy.objects, evictions, isSettled: false };
}

/** A copy of a cluster's objects that plans are applied to. */
class ProjectedObjects {
  private readonly base: ClusterObjects;
  private readonly nowMs: number;
  private readonly pods: Map<string, Pod>;
  private readonly claims: Map<string, ResourceClaim>;
  private created = 0;

  constructor(objects: ClusterObjects, nowMs: number) {
    this.nowMs = nowMs;
    // Terminating pods end, and pods with a BindRequest are bound.
    this.base = { ...objects, requests: [] };
    this.pods = new Map();
    for (const pod of objects.pods) if (pod.metadata.deletionTimestamp === undefined) this.pods.set(uidOf(pod), pod);
    const claims = objects.devices?.claims ?? [];
    this.claims = new Map(claims.map((claim) => [`${claim.metadata.namespace}/${claim.metadata.name}`, claim]));
    for (const request of objects.requests) {
      const { selectedNode, selectedGPUGroups = [] } = request.spec ?? {};
      const pod = this.pods.get(podUidOf(request) ?? "");
      if (pod === undefined || (pod.spec?.nodeName ?? "") !== "" || selectedNode === undefined) continue;
      if (!isFinallyFailed(request)) this.pods.set(uidOf(pod), boundPod(pod, selectedNode, selectedGPUGroups, nowMs));
    }
  }

  get objects(): ClusterObjects {
    const { devices } = this.base;
    return {
      ...this.base,
      pods: [...this.pods.values()],
      ...(devices && { devices: { ...devices, claims: [...this.claims.values()] } }),
    };
  }

  /** Returns whether the plan changes anything. */
  apply({ jobs, evictions }: Plan): boolean {
    let hasChanged = evictions.length > 0;
    for (const { task } of evictions) this.evict(task.uid);
    for (const { binds, pipelined } of jobs) {
      for (const bind of binds) this.bind(bind);
      hasChanged = hasChanged || binds.length > 0;
      for (const { task, node } of pipelined) {
        const pod = this.pods.get(task.uid);
        if (pod === undefined || pod.status?.nominatedNodeName === node) continue;
        this.pods.set(task.uid, { ...pod, status: { ...pod.status, nominatedNodeName: node } });
        hasChanged = true;
      }
    }
    return hasChanged;
  }

  private bind({ task, node, groups, allocations, extended }: PlannedBind): void {
    const pod = this.pods.get(task.uid);
    if (pod === undefined) return;
    this.pods.set(task.uid, boundPod(pod, node, groups, this.nowMs));
    const consumer = { resource: "pods", name: pod.metadata.name, uid: task.uid };
    for (const { name, allocation } of allocations) {
      const claim = this.claims.get(`${task.namespace}/${claimNameOf(pod, name)}`);
      if (claim !== undefined) this.allocate(claim, allocation, consumer);
    }
    if (extended === undefined) return;
    const metadata = { ...pod.metadata, name: `${pod.metadata.name}-extended-resources`, uid: `${task.uid}-extended` };
    const spec = { devices: { requests: extended.deviceRequests } };
    this.allocate({ metadata, spec } as ResourceClaim, extended.allocation, consumer);
  }

  private allocate(
    claim: ResourceClaim,
    allocation: unknown,
    consumer: { readonly resource: string; readonly name: string; readonly uid: string },
  ): void {
    const reservedFor = [...(claim.status?.reservedFor ?? []), consumer];
    const status = { ...claim.status, allocation, reservedFor } as NonNullable<ResourceClaim["status"]>;
    this.claims.set(`${claim.metadata.namespace}/${claim.metadata.name}`, { ...claim, status });
  }

  /** Removes a pod; if it has a controller, that creates it again. */
  evict(uid: string): void {
    const pod = this.pods.get(uid);
    if (pod === undefined) return;
    this.pods.delete(uid);
    for (const [key, claim] of this.claims) {
      const reservedFor = claim.status?.reservedFor ?? [];
      if (!reservedFor.some((each) => each.uid === uid)) continue;
      const others = reservedFor.filter((each) => each.uid !== uid);
      const { allocation, ...rest } = claim.status ?? {};
      const kept = others.length > 0 && allocation !== undefined ? { allocation } : {};
      this.claims.set(key, { ...claim, status: { ...rest, ...kept, reservedFor: others } });
    }
    if (controllerOf(pod.metadata) !== undefined) this.create(pendingPod(pod, ++this.created, this.nowMs));
  }

  private create(pod: Pod): void {
    this.pods.set(uidOf(pod), pod);
  }
}

/** The objects after a drain: pods of a DaemonSet stay, and pods with a controller are pending on other nodes. */
export function drained(
  objects: ClusterObjects,
  node: string,
  nowMs: number,
): { readonly objects: ClusterObjects; readonly evictions: readonly ProjectedEviction[] } {
  const copy = new ProjectedObjects(objects, nowMs);
  const evictions: ProjectedEviction[] = [];
  for (const pod of copy.objects.pods) {
    const { namespace, name, annotations } = pod.metadata;
    if (pod.spec?.nodeName !== node || isFinished(pod) || controllerOf(pod.metadata)?.kind === "DaemonSet") continue;
    copy.evict(uidOf(pod));
    if (isReservationPod(pod)) continue;
    const group = annotations?.[annotationKeys.podGroup];
    const job = group === undefined ? undefined : `${namespace}/${group}`;
    evictions.push({ pod: `${namespace}/${name}`, job, why: `node ${node} is drained` });
  }
  const nodes = objects.nodes.map((each) =>
    each.metadata.name === node ? { ...each, spec: { ...each.spec, unschedulable: true } } : each,
  );
  return { objects: { ...copy.objects, nodes }, evictions };
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid;
}

function claimNameOf(pod: Pod, entry: string): string {
  const named = pod.spec?.resourceClaims?.find(({ name }) => name === entry)?.resourceClaimName;
  return named ?? pod.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName ?? "";
}

function boundPod(pod: Pod, node: string, groups: readonly string[], nowMs: number): Pod {
  const { nominatedNodeName: _, ...status } = pod.status ?? {};
  const [first, ...others] = groups;
  const groupLabels: Record<string, string> =
    others.length === 0
      ? first === undefined
        ? {}
        : { [labelKeys.gpuGroup]: first }
      : Object.fromEntries(groups.map((group) => [`${labelKeys.gpuGroupPrefix}${group}`, group]));
  const time = formatTime(nowMs);
  return {
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, ...groupLabels } },
    spec: { ...pod.spec, nodeName: node } as NonNullable<Pod["spec"]>,
    status: {
      ...status,
      phase: "Running",
      startTime: time,
      conditions: ["PodScheduled", "Ready"].map((type) => ({ type, status: "True", lastTransitionTime: time })),
    },
  };
}

/** The pod as its controller creates it again: the same spec and group under a new name. */
function pendingPod(pod: Pod, number: number, nowMs: number): Pod {
  const { nodeName: _, ...spec } = pod.spec ?? { containers: [] };
  const labels = Object.fromEntries(
    Object.entries(pod.metadata.labels ?? {}).filter(
      ([key]) => key !== labelKeys.gpuGroup && !key.startsWith(labelKeys.gpuGroupPrefix),
    ),
  );
  const { [annotationKeys.schedulerEpoch]: _epoch, ...annotations } = pod.metadata.annotations ?? {};
  const name = `${pod.metadata.name}-again-${number}`;
  const metadata = { ...pod.metadata, name, uid: name, labels, annotations, creationTimestamp: formatTime(nowMs) };
  return { ...pod, metadata, spec, status: { phase: "Pending" } };
}

/**
 * How much of each type is free. From one read of the cloud and one of the cluster; a read that failed is unknown, and
 * leaves the numbers that it would have given as they were. A wrong zero keeps users off an idle cluster.
 */
import type { ScalingGroup } from "../../model/inventory/cloud.ts";
import type { AvailabilityNumbers, DriftEvent, GpuTypeRow, ReservationRow } from "../../model/inventory/rows.ts";
import type { TypeWrite } from "../../model/inventory/writes.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { assignGroups, type GroupNames, isVirtual, labelValueOf, unassignedDrift } from "./assignGroups.ts";
import { heartbeatClockMs, whyClusterIsDoubted } from "./doubtCluster.ts";
import type { InventorySnapshot } from "./inventorySnapshot.ts";
import { ClusterIndex, type NodeUse } from "./nodeUse.ts";
import { isWarm } from "./podUse.ts";
import { type ClosedReason, closedText, type NodeRules, nodeRulesDefault } from "./schedulableNode.ts";
import { sizeEtas } from "./sizeEtas.ts";

/** What a read gave: everything, or why nothing is known. There is no third: half a list is a failed one. */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly why: string };

export interface AvailabilityInput {
  readonly types: readonly GpuTypeRow[];
  readonly groups: Read<readonly ScalingGroup[]>;
  readonly cluster: Read<InventorySnapshot>;
  readonly reservations: readonly ReservationRow[];
  readonly names: GroupNames;
  readonly nodeRules?: NodeRules;
  readonly nowMs: number;
}

export interface AvailabilityPlan {
  readonly types: readonly TypeWrite[];
  readonly drift: readonly DriftEvent[];
  readonly counters: AvailabilityCounters;
  /** Why the cluster was read and not believed. */
  readonly doubt: string | undefined;
}

export interface AvailabilityCounters {
  types_active: number;
  types_fresh: number;
  types_stale: number;
  types_changed: number;
  types_skipped: number;
  asgs_seen: number;
  asgs_unassigned: number;
  nodes_seen: number;
  nodes_unknown: number;
  nodes_unmanaged: number;
  pods_seen: number;
  /** Nodes of types where nothing new can start, by the first reason. */
  nodes_not_ready: number;
  nodes_cordoned: number;
  nodes_tainted: number;
  nodes_silent: number;
  instances_unhealthy: number;
  /** Machines in service that have not joined the cluster. */
  instances_without_node: number;
}

const nodeLabel = "GpuType";

export function planAvailability(read: AvailabilityInput): AvailabilityPlan {
  const active = read.types.filter(({ isActive }) => isActive).sort((a, b) => (a.gpuType < b.gpuType ? -1 : 1));
  const assigned = read.groups.ok ? assignGroups(read.groups.value, read.types, read.names) : undefined;
  const drift: DriftEvent[] = assigned === undefined ? [] : unassignedDrift(assigned.unassigned);
  const rules = read.nodeRules ?? nodeRulesDefault;
  const machines = assigned === undefined ? undefined : inServiceOf([...assigned.byType.values()].flat());
  const doubt = read.cluster.ok
    ? whyClusterIsDoubted(read.cluster.value.nodes, machines, rules, read.nowMs)
    : undefined;
  if (doubt !== undefined) drift.push(event("run", "cluster", "nodes", doubt));
  // A picture that contradicts what else is known is as good as none.
  const input = doubt === undefined ? read : { ...read, cluster: { ok: false as const, why: doubt } };
  const index = input.cluster.ok ? new ClusterIndex(input.cluster.value, nodeLabel) : undefined;
  const beatMs = input.cluster.ok ? heartbeatClockMs(input.cluster.value.nodes, input.nowMs) : input.nowMs;
  const counters: AvailabilityCounters = {
    types_active: active.length,
    types_fresh: 0,
    types_stale: 0,
    types_changed: 0,
    types_skipped: 0,
    asgs_seen: input.groups.ok ? new Set(input.groups.value.map(({ name }) => name)).size : 0,
    asgs_unassigned: assigned?.unassigned.length ?? 0,
    nodes_seen: input.cluster.ok ? input.cluster.value.nodes.length : 0,
    nodes_unknown: 0,
    nodes_unmanaged: 0,
    pods_seen: input.cluster.ok ? input.cluster.value.pods.length : 0,
    nodes_not_ready: 0,
    nodes_cordoned: 0,
    nodes_tainted: 0,
    nodes_silent: 0,
    instances_unhealthy: 0,
    instances_without_node: 0,
  };
  const gpusByInstanceType = knownInstanceTypes(input.types);
  const byPod = new Map(input.reservations.map((row) => [`${row.namespace}/${row.podName ?? ""}`, row]));
  const podKeys = new Set<string>();
  if (input.cluster.ok) {
    for (const { metadata } of input.cluster.value.pods) podKeys.add(`${metadata.namespace ?? ""}/${metadata.name}`);
  }
  const plans: TypeWrite[] = [];
  for (const type of active) {
    const perNode = type.maxPerNode ?? type.maxGpus;
    if (perNode < 0) {
      counters.types_skipped++;
      drift.push(event("gpu_type", type.gpuType, "max_per_node", `${perNode} GPUs a node make no sense: skipped`));
      continue;
    }
    const virtual = isVirtual(type, input.types);
    const groups = virtual
      ? assigned?.byType.get(labelValueOf(type))
      : (assigned?.byType.get(type.gpuType) ?? (assigned === undefined ? undefined : []));
    const question = { input, type, perNode, virtual, groups, index, gpusByInstanceType, byPod, podKeys, beatMs };
    const counted = countType(question);
    drift.push(...counted.drift);
    counters.nodes_unknown += virtual ? 0 : counted.unknownNodes;
    counters.nodes_unmanaged += virtual ? 0 : counted.numbers.unmanagedNodes;
    counters.instances_unhealthy += virtual ? 0 : counted.unhealthy;
    counters.instances_without_node += virtual ? 0 : counted.nodeless;
    if (!virtual) for (const why of counted.closed) counters[closedCounter(why)]++;
    const changed = !sameNumbers(counted.numbers, type.numbers);
    if (counted.numbers.state === "fresh") counters.types_fresh++;
    else counters.types_stale++;
    if (changed) {
      counters.types_changed++;
      drift.push(...numberDrift(type, counted.numbers));
    }
    plans.push({ gpuType: type.gpuType, numbers: counted.numbers, changed });
  }
  return { types: plans, drift, counters, doubt };
}

interface Question {
  readonly input: AvailabilityInput;
  readonly type: GpuTypeRow;
  readonly perNode: number;
  readonly virtual: boolean;
  /** Undefined when the cloud could not be read. */
  readonly groups: readonly ScalingGroup[] | undefined;
  readonly index: ClusterIndex | undefined;
  readonly gpusByInstanceType: ReadonlyMap<string, number>;
  readonly byPod: ReadonlyMap<string, ReservationRow>;
  readonly podKeys: ReadonlySet<string>;
  /** What heartbeats are compared with. */
  readonly beatMs: number;
}

interface Counted {
  readonly numbers: AvailabilityNumbers;
  readonly drift: readonly DriftEvent[];
  readonly unknownNodes: number;
  readonly unhealthy: number;
  /** Machines in service without a node. */
  readonly nodeless: number;
  /** Why nothing new can start on nodes whose machine is in service. */
  readonly closed: readonly ClosedReason[];
}

function countType(question: Question): Counted {
  const { input, type, perNode, virtual, index } = question;
  const problems: string[] = [];
  if (!input.groups.ok) problems.push(`cloud: ${input.groups.why}`);
  if (!input.cluster.ok) problems.push(`cluster: ${input.cluster.why}`);
  let { groups } = question;
  if (groups?.length === 0 && !virtual) {
    // No group is a zero only if the cluster knows no such node either. Otherwise a name or a tag has changed.
    const nodes = index?.labelled(labelValueOf(type)).length;
    const pattern = `No ASGs found matching pattern ${input.names.prefix}-gpu-nodes-${type.gpuType}`;
    if (nodes === undefined) groups = undefined;
    else if (nodes > 0) {
      groups = undefined;
      problems.push(`${pattern}, but the cluster has ${nodes} nodes of it`);
    }
  }
  const isCpu = perNode === 0;
  const unit = isCpu ? type.slotsPerNode : perNode;
  const drift: DriftEvent[] = [];
  const old = type.numbers;
  let numbers: AvailabilityNumbers = old;
  let unhealthy = 0;
  /** Running instances with the GPUs that each brings. */
  const inService = new Map<string, number>();
  if (groups !== undefined) {
    let desired = 0;
    for (const group of groups) {
      desired += group.desiredCapacity;
      for (const instance of group.instances) {
        if (instance.lifecycleState !== "InService") continue;
        if (instance.healthStatus !== "" && instance.healthStatus !== "Healthy") unhealthy++;
        const brings = isCpu || virtual ? unit : (question.gpusByInstanceType.get(instance.type) ?? perNode);
        inService.set(instance.id, brings);
      }
    }
    if (!virtual) {
      let total = 0;
      for (const gpus of inService.values()) total += gpus;
      numbers = { ...numbers, runningInstances: inService.size, desiredCapacity: desired, totalClusterGpus: total };
    } else numbers = { ...numbers, desiredCapacity: desired };
  }
  let unknownNodes = 0;
  let nodeless: string[] = [];
  const closed: ClosedReason[] = [];
  if (index !== undefined) {
    const rules = input.nodeRules ?? nodeRulesDefault;
    const nodes = index
      .labelled(labelValueOf(type))
      .map((node) => index.use(node, type.resourceName, rules, question.beatMs))
      .filter(({ allocatable, unknown }) => !virtual || allocatable > 0 || unknown !== undefined);
    unknownNodes = nodes.filter(({ unknown }) => unknown !== undefined).length;
    const isManaged = ({ instanceId }: NodeUse): boolean =>
      groups === undefined || (instanceId !== undefined && inService.has(instanceId));
    const managed = nodes.filter(isManaged);
    const open = managed
      .filter(({ closed, unknown }) => closed === undefined && unknown === undefined)
      .map((node) => within(node, groups === undefined ? undefined : inService.get(node.instanceId ?? ""), isCpu));
    if (groups === undefined && !virtual) {
      numbers = { ...numbers, runningInstances: nodes.length, totalClusterGpus: nodes.length * unit };
    }
    if (virtual) numbers = { ...numbers, runningInstances: managed.length, totalClusterGpus: managed.length * unit };
    numbers = { ...numbers, ...(isCpu ? countSlots(open, type) : countGpus(open, type, perNode, question)) };
    const allocatable = nodes.reduce((sum, node) => sum + (isCpu ? type.slotsPerNode : node.allocatable), 0);
    numbers = { ...numbers, k8sAllocatableGpus: allocatable, unmanagedNodes: nodes.length - managed.length };
    numbers = { ...numbers, availableNow: Math.max(0, numbers.availableGpus - promised(question)) };
    drift.push(...nodeDrift(nodes, isManaged, type, perNode));
    for (const node of managed) if (node.closed !== undefined) closed.push(node.closed);
    const joined = new Set(nodes.map(({ instanceId }) => instanceId));
    nodeless = [...inService.keys()].filter((id) => !joined.has(id)).sort();
    if (nodeless.length > 0 && !virtual) {
      const named = `${nodeless.slice(0, namedMax).join(", ")}${nodeless.length > namedMax ? ", ..." : ""}`;
      const what = `${nodeless.length} of ${inService.size} machines in service have no node with the label ${nodeLabel}=${labelValueOf(type)}: ${named}`;
      drift.push(event("gpu_type", type.gpuType, "instances", `instances_without_node: ${what}`));
    }
    // The join may find a slice's node with more slices than the type says; a sum must not exceed its whole.
    if (virtual && numbers.availableGpus > numbers.totalClusterGpus) {
      numbers = { ...numbers, totalClusterGpus: numbers.k8sAllocatableGpus };
    }
  } else if (virtual) numbers = { ...numbers, desiredCapacity: old.desiredCapacity };
  const fresh = problems.length === 0;
  numbers = {
    ...numbers,
    state: fresh ? "fresh" : "stale",
    source: groups !== undefined ? "cloud" : index !== undefined ? "k8s" : old.source,
    error: problems.join("; "),
  };
  if (question.groups?.length === 0 && !virtual && (old.totalClusterGpus > 0 || groups === undefined)) {
    const reason = `No ASGs found matching pattern ${input.names.prefix}-gpu-nodes-${type.gpuType}, in a whole listing`;
    drift.push(event("gpu_type", type.gpuType, "groups", reason));
  }
  return { numbers, drift, unknownNodes, unhealthy, nodeless: nodeless.length, closed };
}

/** Ids in one line: enough to begin with, not enough to drown in. */
const namedMax = 20;

function inServiceOf(groups: readonly ScalingGroup[]): Set<string> {
  const ids = new Set<string>();
  for (const { instances } of groups) {
    for (const { id, lifecycleState } of instances) if (lifecycleState === "InService") ids.add(id);
  }
  return ids;
}

function closedCounter({ why }: ClosedReason): keyof AvailabilityCounters {
  switch (why) {
    case "not ready":
      return "nodes_not_ready";
    case "cordoned":
      return "nodes_cordoned";
    case "tainted":
      return "nodes_tainted";
    case "no heartbeat":
      return "nodes_silent";
  }
}

/** A node that offers more GPUs than its machine has is misconfigured; the excess is not offered. */
function within(node: NodeUse, brings: number | undefined, isCpu: boolean): NodeUse {
  if (isCpu || brings === undefined || node.free <= brings) return node;
  return { ...node, free: brings };
}

function countGpus(
  open: readonly NodeUse[],
  type: GpuTypeRow,
  perNode: number,
  question: Question,
): Pick<
  AvailabilityNumbers,
  "availableGpus" | "schedulableGpus" | "maxReservable" | "fullNodesAvailable" | "sizeEtas"
> {
  let available = 0;
  let schedulable = 0;
  let most = 0;
  let full = 0;
  for (const node of open) {
    available += node.free;
    schedulable += node.allocatable;
    most = Math.max(most, node.free);
    // A node that lost a GPU, or gave some away as slices, is no whole node.
    if (node.free === node.allocatable && node.allocatable === perNode) full++;
  }
  const many = type.multiNodeMax > 1 ? perNode * Math.min(type.multiNodeMax, full) : 0;
  const endsMs = (pod: Pod): number | undefined => {
    const row = question.byPod.get(`${pod.metadata.namespace ?? ""}/${pod.metadata.name}`);
    return row?.expiresMs ?? undefined;
  };
  const etas = sizeEtas({ perNode, multiNodeMax: type.multiNodeMax, nodes: open, endsMs, nowMs: question.input.nowMs });
  return {
    availableGpus: available,
    schedulableGpus: schedulable,
    maxReservable: many > 0 ? many : most,
    fullNodesAvailable: full,
    sizeEtas: etas,
  };
}

function countSlots(
  open: readonly NodeUse[],
  { slotsPerNode }: GpuTypeRow,
): Pick<
  AvailabilityNumbers,
  "availableGpus" | "schedulableGpus" | "maxReservable" | "fullNodesAvailable" | "sizeEtas"
> {
  let available = 0;
  for (const { reservations } of open) available += Math.max(0, slotsPerNode - reservations.filter(isTaken).length);
  return {
    availableGpus: available,
    schedulableGpus: open.length * slotsPerNode,
    maxReservable: available > 0 ? 1 : 0,
    fullNodesAvailable: available,
    sizeEtas: {},
  };
}

function isTaken(pod: Pod): boolean {
  return !isWarm(pod);
}

/** GPUs of reservations that are being prepared and have no pod yet: free on the node, and committed. */
function promised({ input, type, perNode, podKeys }: Question): number {
  let gpus = 0;
  for (const { status, gpuType, gpuCount, podName, namespace } of input.reservations) {
    if (gpuType !== type.gpuType.toLowerCase() || (status !== "preparing" && status !== "creating_server")) continue;
    if (podName === null || !podKeys.has(`${namespace}/${podName}`)) gpus += perNode === 0 ? 1 : gpuCount;
  }
  return gpus;
}

function nodeDrift(
  nodes: readonly NodeUse[],
  isManaged: (node: NodeUse) => boolean,
  type: GpuTypeRow,
  perNode: number,
): DriftEvent[] {
  const found: DriftEvent[] = [];
  for (const node of nodes) {
    const { name, allocatable, capacity, used, unknown, closed } = node;
    const whose = `a node of ${type.gpuType}`;
    if (unknown !== undefined) found.push(event("node", name, "resources", `${whose} is unknown: ${unknown}`));
    else if (!isManaged(node)) {
      found.push(event("node", name, "instance", `unmanaged: ${whose} runs on no instance that is in service`));
    } else if (closed !== undefined) {
      found.push(event("node", name, "schedulable", `closed: ${closedText(closed)}: nothing new starts on ${whose}`));
    } else if (used > allocatable) {
      found.push(event("node", name, "used", `overcommit: ${used} used of ${allocatable}`));
    } else if (perNode > 0 && allocatable < capacity) {
      found.push(event("node", name, "allocatable", `degraded: ${allocatable} of ${capacity} can be used`));
    }
  }
  return found;
}

function event(entity: DriftEvent["entity"], entityId: string, field: string, reason: string): DriftEvent {
  return { entity, entityId, field, old: null, new: null, action: "reported", reason };
}

/** GPUs by type of machine, where the table says it without doubt. */
function knownInstanceTypes(types: readonly GpuTypeRow[]): Map<string, number> {
  const known = new Map<string, number>();
  const doubtful = new Set<string>();
  for (const type of types) {
    if (isVirtual(type, types)) continue;
    const gpus = type.maxPerNode ?? type.maxGpus;
    const before = known.get(type.instanceType);
    if (before !== undefined && before !== gpus) doubtful.add(type.instanceType);
    known.set(type.instanceType, gpus);
  }
  for (const name of doubtful) known.delete(name);
  return known;
}

const columns: readonly [keyof AvailabilityNumbers, string][] = [
  ["totalClusterGpus", "total_cluster_gpus"],
  ["availableGpus", "available_gpus"],
  ["availableNow", "available_now"],
  ["maxReservable", "max_reservable"],
  ["fullNodesAvailable", "full_nodes_available"],
  ["runningInstances", "running_instances"],
  ["desiredCapacity", "desired_capacity"],
  ["k8sAllocatableGpus", "k8s_allocatable_gpus"],
  ["schedulableGpus", "schedulable_gpus"],
  ["unmanagedNodes", "unmanaged_nodes"],
  ["state", "availability_state"],
  ["source", "availability_source"],
];

function numberDrift(type: GpuTypeRow, now: AvailabilityNumbers): DriftEvent[] {
  const found: DriftEvent[] = [];
  for (const [key, field] of columns) {
    const before = type.numbers[key];
    if (before === now[key]) continue;
    found.push({
      entity: "gpu_type",
      entityId: type.gpuType,
      field,
      old: String(before),
      new: String(now[key]),
      action: "applied",
      reason: now.error === "" ? "the cloud and the cluster say so" : now.error,
    });
  }
  return found;
}

export function sameNumbers(a: AvailabilityNumbers, b: AvailabilityNumbers): boolean {
  if (a.error !== b.error || columns.some(([key]) => a[key] !== b[key])) return false;
  const sizes = Object.keys(a.sizeEtas);
  return (
    sizes.length === Object.keys(b.sizeEtas).length && sizes.every((size) => a.sizeEtas[size] === b.sizeEtas[size])
  );
}

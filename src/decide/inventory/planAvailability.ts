/**
 * How many GPUs of each type are free, from one read of the cloud and one of the cluster. A failed read keeps the
 * numbers of the last run and marks them stale: a wrong zero would keep users off an idle cluster.
 */
import type { ScalingGroup } from "../../model/inventory/cloud.ts";
import type { AvailabilityNumbers, DriftEvent, GpuTypeRow, ReservationRow } from "../../model/inventory/rows.ts";
import type { TypeWrite } from "../../model/inventory/writes.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { assignGroups, type GroupNames, isVirtual, labelValueOf, unassignedDrift } from "./assignGroups.ts";
import type { InventorySnapshot } from "./inventorySnapshot.ts";
import { ClusterIndex, type NodeUse } from "./nodeUse.ts";
import { isWarm } from "./podUse.ts";
import { type NodeRules, nodeRulesDefault, type UnschedulableReason, unschedulableText } from "./schedulableNode.ts";
import { sizeEtas } from "./sizeEtas.ts";
import { heartbeatClockMs, whyNodesNotTrusted } from "./trustNodes.ts";

/** The result of a read: the complete list, or why it failed. A list that was cut off counts as failed. */
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
  /** Why the list of nodes was read and not trusted. */
  readonly notTrusted: string | undefined;
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
  /** Nodes where no new pod can start, by the first reason. */
  nodes_not_ready: number;
  nodes_cordoned: number;
  nodes_tainted: number;
  nodes_silent: number;
  instances_unhealthy: number;
  /** Instances in service that have not joined the cluster. */
  instances_without_node: number;
}

const nodeLabel = "GpuType";

export function planAvailability(read: AvailabilityInput): AvailabilityPlan {
  const active = read.types.filter(({ isActive }) => isActive).sort((a, b) => (a.gpuType < b.gpuType ? -1 : 1));
  const assigned = read.groups.ok ? assignGroups(read.groups.value, read.types, read.names) : undefined;
  const drift: DriftEvent[] = assigned === undefined ? [] : unassignedDrift(assigned.unassigned);
  const rules = read.nodeRules ?? nodeRulesDefault;
  const machines = assigned === undefined ? undefined : inServiceOf([...assigned.byType.values()].flat());
  const notTrusted = read.cluster.ok
    ? whyNodesNotTrusted(read.cluster.value.nodes, machines, rules, read.nowMs)
    : undefined;
  if (notTrusted !== undefined) drift.push(event("run", "cluster", "nodes", notTrusted));
  // A list of nodes that is not trusted counts as a failed read.
  const input = notTrusted === undefined ? read : { ...read, cluster: { ok: false as const, why: notTrusted } };
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
      drift.push(
        event(
          "gpu_type",
          type.gpuType,
          "max_per_node",
          `${perNode} GPUs per node is negative: the type is skipped. Set max_per_node to 0 or more`,
        ),
      );
      continue;
    }
    const virtual = isVirtual(type, input.types);
    const groups = virtual
      ? assigned?.byType.get(labelValueOf(type))
      : (assigned?.byType.get(type.gpuType) ?? (assigned === undefined ? undefined : []));
    const count = { input, type, perNode, virtual, groups, index, gpusByInstanceType, byPod, podKeys, beatMs };
    const counted = countType(count);
    drift.push(...counted.drift);
    counters.nodes_unknown += virtual ? 0 : counted.unknownNodes;
    counters.nodes_unmanaged += virtual ? 0 : counted.numbers.unmanagedNodes;
    counters.instances_unhealthy += virtual ? 0 : counted.unhealthy;
    counters.instances_without_node += virtual ? 0 : counted.withoutNode;
    if (!virtual) for (const why of counted.unschedulable) counters[unschedulableCounter(why)]++;
    const changed = !sameNumbers(counted.numbers, type.numbers);
    if (counted.numbers.state === "fresh") counters.types_fresh++;
    else counters.types_stale++;
    if (changed) {
      counters.types_changed++;
      drift.push(...numberDrift(type, counted.numbers));
    }
    plans.push({ gpuType: type.gpuType, numbers: counted.numbers, changed });
  }
  return { types: plans, drift, counters, notTrusted };
}

interface CountInput {
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
  /** The time that heartbeats are compared with. */
  readonly beatMs: number;
}

interface Counted {
  readonly numbers: AvailabilityNumbers;
  readonly drift: readonly DriftEvent[];
  readonly unknownNodes: number;
  readonly unhealthy: number;
  /** Instances in service without a node. */
  readonly withoutNode: number;
  /** Why no new pod can start, for each such node whose instance is in service. */
  readonly unschedulable: readonly UnschedulableReason[];
}

function countType(count: CountInput): Counted {
  const { input, type, perNode, virtual, index } = count;
  const problems: string[] = [];
  if (!input.groups.ok) problems.push(`cloud: ${input.groups.why}`);
  if (!input.cluster.ok) problems.push(`cluster: ${input.cluster.why}`);
  let { groups } = count;
  if (groups?.length === 0 && !virtual) {
    // Without groups the number is zero only if the cluster has no node of this type either. If it has, the name or the
    // tag of a group has changed.
    const nodes = index?.labelled(labelValueOf(type)).length;
    const pattern = `No ASGs found matching pattern ${input.names.prefix}-gpu-nodes-${type.gpuType}`;
    if (nodes === undefined) groups = undefined;
    else if (nodes > 0) {
      groups = undefined;
      problems.push(`${pattern}, but the cluster has ${nodes} nodes of this type`);
    }
  }
  const isCpu = perNode === 0;
  const unit = isCpu ? type.slotsPerNode : perNode;
  const drift: DriftEvent[] = [];
  const old = type.numbers;
  let numbers: AvailabilityNumbers = old;
  let unhealthy = 0;
  /** Instances in service, with the number of GPUs of each. */
  const inService = new Map<string, number>();
  if (groups !== undefined) {
    let desired = 0;
    for (const group of groups) {
      desired += group.desiredCapacity;
      for (const instance of group.instances) {
        if (instance.lifecycleState !== "InService") continue;
        if (instance.healthStatus !== "" && instance.healthStatus !== "Healthy") unhealthy++;
        const gpus = isCpu || virtual ? unit : (count.gpusByInstanceType.get(instance.type) ?? perNode);
        inService.set(instance.id, gpus);
      }
    }
    if (!virtual) {
      let total = 0;
      for (const gpus of inService.values()) total += gpus;
      numbers = { ...numbers, runningInstances: inService.size, desiredCapacity: desired, totalClusterGpus: total };
    } else numbers = { ...numbers, desiredCapacity: desired };
  }
  let unknownNodes = 0;
  let withoutNode: string[] = [];
  const unschedulable: UnschedulableReason[] = [];
  if (index !== undefined) {
    const rules = input.nodeRules ?? nodeRulesDefault;
    const nodes = index
      .labelled(labelValueOf(type))
      .map((node) => index.use(node, type.resourceName, rules, count.beatMs))
      .filter(({ allocatable, unknown }) => !virtual || allocatable > 0 || unknown !== undefined);
    unknownNodes = nodes.filter(({ unknown }) => unknown !== undefined).length;
    const isManaged = ({ instanceId }: NodeUse): boolean =>
      groups === undefined || (instanceId !== undefined && inService.has(instanceId));
    const managed = nodes.filter(isManaged);
    const open = managed
      .filter(({ unschedulable, unknown }) => unschedulable === undefined && unknown === undefined)
      .map((node) => within(node, groups === undefined ? undefined : inService.get(node.instanceId ?? ""), isCpu));
    if (groups === undefined && !virtual) {
      numbers = { ...numbers, runningInstances: nodes.length, totalClusterGpus: nodes.length * unit };
    }
    if (virtual) numbers = { ...numbers, runningInstances: managed.length, totalClusterGpus: managed.length * unit };
    numbers = { ...numbers, ...(isCpu ? countSlots(open, type) : countGpus(open, type, perNode, count)) };
    const allocatable = nodes.reduce((sum, node) => sum + (isCpu ? type.slotsPerNode : node.allocatable), 0);
    numbers = { ...numbers, k8sAllocatableGpus: allocatable, unmanagedNodes: nodes.length - managed.length };
    numbers = { ...numbers, availableNow: Math.max(0, numbers.availableGpus - promised(count)) };
    drift.push(...nodeDrift(nodes, isManaged, type, perNode));
    for (const node of managed) if (node.unschedulable !== undefined) unschedulable.push(node.unschedulable);
    const joined = new Set(nodes.map(({ instanceId }) => instanceId));
    withoutNode = [...inService.keys()].filter((id) => !joined.has(id)).sort();
    if (withoutNode.length > 0 && !virtual) {
      const named = `${withoutNode.slice(0, namedMax).join(", ")}${withoutNode.length > namedMax ? ", ..." : ""}`;
      const what = `${withoutNode.length} of ${inService.size} instances in service have no node with the label ${nodeLabel}=${labelValueOf(type)}: ${named}`;
      drift.push(event("gpu_type", type.gpuType, "instances", `instances_without_node: ${what}`));
    }
    // A node may have more slices than its type declares; the available number must not exceed the total.
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
  if (count.groups?.length === 0 && !virtual && (old.totalClusterGpus > 0 || groups === undefined)) {
    const reason = `No ASGs found matching pattern ${input.names.prefix}-gpu-nodes-${type.gpuType}, and the list was complete`;
    drift.push(event("gpu_type", type.gpuType, "groups", reason));
  }
  return { numbers, drift, unknownNodes, unhealthy, withoutNode: withoutNode.length, unschedulable };
}

/** The number of ids that a message names. */
const namedMax = 20;

function inServiceOf(groups: readonly ScalingGroup[]): Set<string> {
  const ids = new Set<string>();
  for (const { instances } of groups) {
    for (const { id, lifecycleState } of instances) if (lifecycleState === "InService") ids.add(id);
  }
  return ids;
}

function unschedulableCounter({ why }: UnschedulableReason): keyof AvailabilityCounters {
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

/** A node with more free GPUs than its instance has is misconfigured; the excess is not counted. */
function within(node: NodeUse, gpus: number | undefined, isCpu: boolean): NodeUse {
  if (isCpu || gpus === undefined || node.free <= gpus) return node;
  return { ...node, free: gpus };
}

function countGpus(
  open: readonly NodeUse[],
  type: GpuTypeRow,
  perNode: number,
  count: CountInput,
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
    // A node with a failed GPU or with MIG slices does not count as a full node.
    if (node.free === node.allocatable && node.allocatable === perNode) full++;
  }
  const many = type.multiNodeMax > 1 ? perNode * Math.min(type.multiNodeMax, full) : 0;
  const endsMs = (pod: Pod): number | undefined => {
    const row = count.byPod.get(`${pod.metadata.namespace ?? ""}/${pod.metadata.name}`);
    return row?.expiresMs ?? undefined;
  };
  const etas = sizeEtas({ perNode, multiNodeMax: type.multiNodeMax, nodes: open, endsMs, nowMs: count.input.nowMs });
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

/** GPUs of reservations that are being prepared and have no pod yet: free on the node, and already promised. */
function promised({ input, type, perNode, podKeys }: CountInput): number {
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
    const { name, allocatable, capacity, used, unknown, unschedulable } = node;
    const whose = `a node of ${type.gpuType}`;
    if (unknown !== undefined) found.push(event("node", name, "resources", `${whose} is unknown: ${unknown}`));
    else if (!isManaged(node)) {
      found.push(event("node", name, "instance", `unmanaged: ${whose} runs on no instance that is in service`));
    } else if (unschedulable !== undefined) {
      found.push(
        event(
          "node",
          name,
          "schedulable",
          `unschedulable: ${unschedulableText(unschedulable)}: no new pod starts on ${whose}`,
        ),
      );
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

/** GPUs of each instance type; types with contradicting rows are left out. */
function knownInstanceTypes(types: readonly GpuTypeRow[]): Map<string, number> {
  const known = new Map<string, number>();
  const ambiguous = new Set<string>();
  for (const type of types) {
    if (isVirtual(type, types)) continue;
    const gpus = type.maxPerNode ?? type.maxGpus;
    const before = known.get(type.instanceType);
    if (before !== undefined && before !== gpus) ambiguous.add(type.instanceType);
    known.set(type.instanceType, gpus);
  }
  for (const name of ambiguous) known.delete(name);
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
      reason: now.error === "" ? "read from the cloud and the cluster" : now.error,
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

/**
 * The next writes of a simulated node for itself: its lease, its heartbeat, and the effects of faults on its object.
 */

import type { Lease, Node, NodeStatus, Pod } from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { migProfileOf } from "../../model/profiles/mig.ts";
import { labelKeys } from "../../model/scheduling/keys.ts";
import { seededBelow } from "../../model/values/seeded.ts";
import { timeToMs } from "../../model/values/time.ts";
import { heldDevices, pluginResources, unitCounts } from "../devices/devices.ts";
import { type Fault, isActive } from "./faults.ts";
import { type NodeProblem, nodeConditions } from "./nodeConditions.ts";
import { type LeaseOptions, nextForLease } from "./nodeLease.ts";
import { migOf, type NodeState, nodeStateAt } from "./nodeState.ts";
import { earliest, eventTarget, identityOf, type Next, type NodeWrite, nodeRef, podRef } from "./nodeWrite.ts";
import { bootIdOf, completedStatus, countsAsText, nodeLabels, type SimNode } from "./simNode.ts";

export interface NodeLifeOptions extends LeaseOptions {
  /** How often the status is written when nothing has changed; with leases on this may be slow. */
  readonly heartbeatMs: number;
  /** Without leases every heartbeat is a status write, and ownership of a node is not checked. */
  readonly leases: boolean;
}

export const nodeLifeDefaults = { heartbeatMs: 300_000, leaseSeconds: 40, leases: true };

export interface NodeInput {
  readonly node: Node;
  readonly sim: SimNode;
  readonly lease: Lease | undefined;
  /** Whether this process has written the lease; true where leases are off. */
  readonly leaseIsTaken?: boolean;
  readonly faults: readonly Fault[];
  /** The pods of this node, read only when a decision needs them. */
  readonly pods: () => Iterable<Pod>;
  readonly options: NodeLifeOptions;
  readonly nowMs: number;
}

export interface NodeNext extends Next {
  /** Whether the pods of this node may be written: the node is alive and this process holds its lease. */
  readonly held: boolean;
  /** `wakeAtMs` split in two, so that a driver can renew a lease without reconciling the whole node. */
  readonly leaseWakeMs: number | undefined;
  readonly lifeWakeMs: number | undefined;
  readonly state: NodeState;
}

export function nextForNode(input: NodeInput): NodeNext {
  const { node, sim, options, nowMs } = input;
  const state = settledState(input);
  // A silent node writes nothing; the node lifecycle controller reacts to the silence.
  const wake = (leaseWakeMs: number | undefined, lifeWakeMs: number | undefined) => ({
    wakeAtMs: earliest(leaseWakeMs, lifeWakeMs),
    leaseWakeMs,
    lifeWakeMs,
  });
  if (!state.alive) return { writes: [], ...wake(undefined, state.nextMs), held: false, state };
  const { uid } = node.metadata;
  if (state.deleted) {
    const writes: NodeWrite[] =
      node.metadata.deletionTimestamp === undefined
        ? [{ kind: "delete", ref: nodeRef(sim.name), expected: identityOf(node.metadata), graceSeconds: 0 }]
        : [];
    return { writes, ...wake(undefined, undefined), held: false, state };
  }
  const lease = options.leases
    ? nextForLease({ name: sim.name, uid, isTaken: input.leaseIsTaken ?? true }, input.lease, options, nowMs)
    : { held: true, writes: [], wakeAtMs: undefined };
  const writes: NodeWrite[] = [...lease.writes];
  if (!lease.held) return { writes, ...wake(lease.wakeAtMs, state.nextMs), held: false, state };
  const metadata = metadataWrites(input, state);
  // The patch changes the version of the object; the status is decided on it in the next reconcile.
  if (metadata.length > 0) {
    return { writes: [...writes, ...metadata], ...wake(lease.wakeAtMs, nowMs), held: true, state };
  }
  const status = nextStatus(node, sim, state, nowMs);
  const heartbeatMs = nextHeartbeatMs(node, options);
  let wakeMs = heartbeatMs;
  if (nowMs >= heartbeatMs || !equalButForHeartbeat(status, node.status ?? {})) {
    writes.push({ kind: "update", ref: nodeRef(sim.name, "status"), object: { ...node, status } });
    wakeMs = nextHeartbeatMs({ ...node, status }, options);
    writes.push(...healthEvents(node, status, state));
  }
  if (state.draining) writes.push(...drainWrites(node, input.pods()));
  return { writes, ...wake(lease.wakeAtMs, earliest(wakeMs, state.nextMs)), held: true, state };
}

/** Partitions are not changed under a pod: a reconfiguration that is not done yet waits until no device is held. */
function settledState(input: NodeInput): NodeState {
  const { node, sim, faults, nowMs } = input;
  const state = nodeStateAt(faults, sim.name, nowMs);
  const last = faults
    .filter((each) => each.kind === "mig-reconfigure" && each.node === sim.name && isActive(each, nowMs))
    .reduce<Fault | undefined>((latest, each) => (latest && latest.fromMs > each.fromMs ? latest : each), undefined);
  if (last === undefined) return state;
  const wanted = unitCounts(pluginResources(sim, { mig: migOf(last) })).capacity;
  const isDone = Object.entries(wanted).every(([name, count]) => node.status?.capacity?.[name] === String(count));
  if (isDone || heldDevices(input.pods()).size === 0) return state;
  return settledState({ ...input, faults: faults.filter((each) => each !== last) });
}

function nextStatus(node: Node, sim: SimNode, state: NodeState, nowMs: number): NodeStatus {
  const before = completedStatus(sim, node.status ?? {});
  const gpuTrouble = gpuTroubleOf(state);
  const conditions = nodeConditions(before.conditions ?? [], { nowMs, notReady: state.notReady, gpuTrouble });
  const status: NodeStatus = { ...before, conditions };
  const info = before.nodeInfo;
  if (info !== undefined && state.boots > 0) status.nodeInfo = { ...info, bootID: bootIdOf(sim, state.boots) };
  const { gpu, name } = sim.profile;
  // Amounts of other writers that are not devices of the profile are kept.
  if (gpu === undefined && name === "") return status;
  const cuts = name !== "" || gpu?.mig !== undefined || state.mig !== undefined;
  const capacity = withoutDevices(before.capacity ?? {}, cuts);
  const allocatable = withoutDevices(before.allocatable ?? {}, cuts);
  if (gpu === undefined) return { ...status, capacity, allocatable };
  const plugin = { unhealthy: state.unhealthy, down: state.pluginDown, ...(state.mig && { mig: state.mig }) };
  const counts = unitCounts(pluginResources(sim, plugin));
  status.capacity = { ...capacity, ...countsAsText(counts.capacity) };
  status.allocatable = { ...allocatable, ...countsAsText(counts.allocatable) };
  return status;
}

/** The plugin manages only its own resources; cpu, memory and resources added by users stay. */
function withoutDevices(amounts: Readonly<Record<string, string>>, cuts: boolean): Record<string, string> {
  const rest: Record<string, string> = {};
  for (const [name, amount] of Object.entries(amounts)) {
    if (name !== "nvidia.com/gpu" && !(cuts && migProfileOf(name) !== undefined)) rest[name] = amount;
  }
  return rest;
}

function gpuTroubleOf({ gpuFaults }: NodeState): NodeProblem | undefined {
  const [first] = gpuFaults;
  if (first === undefined) return undefined;
  const reasons: Record<string, string> = {
    xid: "XidError",
    ecc: "UncorrectableEcc",
    "fallen-off-bus": "FallenOffBus",
    thermal: "Overheated",
  };
  const message = gpuFaults.map(({ text }) => text).join("; ");
  return { reason: reasons[first.cause] ?? "Unhealthy", message };
}

/**
 * Each node reports at an offset within the interval, so that nodes that were created together do not report together.
 * In whole seconds, the precision of conditions: a finer time would be due again as soon as it was written.
 */
function nextHeartbeatMs(node: Node, { heartbeatMs, clusterSeed }: NodeLifeOptions): number {
  const every = Math.max(1, Math.ceil(heartbeatMs / 1000));
  const phase = seededBelow(every, clusterSeed, "heartbeat", node.metadata.name);
  const last = Math.floor(lastHeartbeatMs(node) / 1000);
  return ((Math.floor((last - phase) / every) + 1) * every + phase) * 1000;
}

function lastHeartbeatMs(node: Node): number {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  return timeToMs(ready?.lastHeartbeatTime) ?? 0;
}

/** A change of heartbeat times alone is not written: the lease is the heartbeat. */
function equalButForHeartbeat(next: NodeStatus, before: NodeStatus): boolean {
  const strip = (status: NodeStatus) => ({
    ...status,
    conditions: (status.conditions ?? []).map(({ lastHeartbeatTime: _when, ...condition }) => condition),
  });
  return equalFields(strip(next), strip(before));
}

/** Labels that faults change, and the cordon. */
function metadataWrites({ node, sim, nowMs, faults }: NodeInput, state: NodeState): NodeWrite[] {
  const current = node.metadata.labels ?? {};
  const wanted = nodeLabels(sim, {
    partition: state.partition,
    migPending: state.migPending,
    ...(state.driver === undefined ? {} : { driver: state.driver }),
    ...(state.mig === undefined ? {} : { mig: state.mig }),
  });
  const { givenLabels } = sim;
  const calm = givenLabels && nodeLabels(sim);
  const changed: Record<string, string> = {};
  // Only existing labels are changed: a user may have created the node with fewer.
  for (const key of movingLabels) {
    const isGiven = calm !== undefined && wanted[key] === calm[key];
    const value = isGiven ? givenLabels?.[key] : wanted[key];
    if (value !== undefined && key in current && current[key] !== value) changed[key] = value;
  }
  const writes: NodeWrite[] = [];
  const spec = cordonPatch(node, state, faults, nowMs);
  if (Object.keys(changed).length > 0 || spec !== undefined) {
    const body = {
      ...(Object.keys(changed).length > 0 ? { metadata: { labels: changed } } : {}),
      ...(spec === undefined ? {} : { spec }),
    };
    const expected = identityOf(node.metadata);
    writes.push({ kind: "patch", ref: nodeRef(sim.name), expected, patch: { type: "merge", body } });
  }
  return writes;
}

const movingLabels = [
  "nvidia.com/cuda.driver.major",
  "nvidia.com/cuda.driver.minor",
  "nvidia.com/cuda.driver.rev",
  "nvidia.com/gpu.clique",
  "nvidia.com/gpu.product",
  "nvidia.com/mig.strategy",
  "nvidia.com/mig.config.state",
  "accelerator.topograph.run/sub-domain",
  labelKeys.pinsDevices,
];

/** A fault that has ended removes its own cordon and no other. */
function cordonPatch(node: Node, state: NodeState, faults: readonly Fault[], nowMs: number) {
  const isCordoned = node.spec?.unschedulable === true;
  if (state.cordoned) return isCordoned ? undefined : { unschedulable: true };
  if (!isCordoned) return undefined;
  const cordonedMs = node.spec?.taints?.find(({ key }) => key === "node.kubernetes.io/unschedulable")?.timeAdded;
  const sinceMs = timeToMs(cordonedMs);
  const ended = faults.some(
    ({ kind, node: name, fromMs, untilMs }) =>
      (kind === "cordon" || kind === "drain") &&
      name === node.metadata.name &&
      untilMs !== undefined &&
      untilMs <= nowMs &&
      (sinceMs === undefined || (sinceMs >= Math.floor(fromMs / 1000) * 1000 && sinceMs <= untilMs)),
  );
  return ended ? { unschedulable: null } : undefined;
}

/** As `kubectl drain` does: evicts every pod except those of DaemonSets. */
export function drainWrites(node: Node, pods: Iterable<Pod>): NodeWrite[] {
  const writes: NodeWrite[] = [];
  for (const pod of pods) {
    const { metadata, status } = pod;
    if (metadata.deletionTimestamp !== undefined || pod.spec?.nodeName !== node.metadata.name) continue;
    if (status?.phase === "Succeeded" || status?.phase === "Failed") continue;
    if (metadata.ownerReferences?.some(({ kind, controller }) => kind === "DaemonSet" && controller === true)) continue;
    if (metadata.annotations?.["kubernetes.io/config.mirror"] !== undefined) continue;
    writes.push({ kind: "evict", ref: podRef(metadata), expected: identityOf(metadata) });
  }
  return writes;
}

function healthEvents(node: Node, status: NodeStatus, state: NodeState): NodeWrite[] {
  const events: NodeWrite[] = [];
  const regarding = eventTarget(node);
  const before = (type: string) => node.status?.conditions?.find((each) => each.type === type);
  const after = (type: string) => status.conditions?.find((each) => each.type === type);
  const ready = after("Ready");
  if (ready !== undefined && before("Ready")?.status !== ready.status) {
    const reason = ready.status === "True" ? "NodeReady" : "NodeNotReady";
    const message = `Node ${node.metadata.name} status is now: ${reason}`;
    events.push({ kind: "event", regarding, type: "Normal", reason, message });
  }
  const gpu = after("GpuHealthy");
  if (gpu !== undefined && (before("GpuHealthy")?.message ?? "") !== (gpu.message ?? "")) {
    const type = gpu.status === "True" ? "Normal" : "Warning";
    events.push({ kind: "event", regarding, type, reason: gpu.reason ?? "", message: gpu.message ?? "" });
  }
  const bootId = status.nodeInfo?.bootID;
  if (state.boots > 0 && bootId !== node.status?.nodeInfo?.bootID) {
    const message = `Node ${node.metadata.name} has been rebooted, boot id: ${bootId}`;
    events.push({ kind: "event", regarding, type: "Warning", reason: "Rebooted", message });
  }
  return events;
}

/**
 * The second half of a fake DRA driver: claims are prepared before a pod's containers start and unprepared after the
 * last consumer has ended. A device is free only when the node has released it:
 *
 *   API                          node
 *   t0  pod force-deleted        container still runs on gpu-0
 *   t1  claim deallocated        gpu-0 still prepared for the old claim
 *   t2  new claim gets gpu-0     -->  must wait, or two programs share a device
 *   t3                           old claim unprepared: now gpu-0 is free
 *
 * So the node keeps its own record of prepared devices; while it differs from the API, the device has a taint that
 * excludes it from allocation, and a second claim for it is not prepared.
 */

import type {
  AllocatedDeviceStatus,
  Condition,
  DeviceRequestAllocationResult,
  Pod,
  ResourceClaim,
} from "../../model/kubernetes.generated.ts";
import { equalFields } from "../../model/objects/json.ts";
import { formatTime } from "../../model/values/time.ts";
import { type Fault, numberParam, podFaultsAt } from "../node/faults.ts";
import type { NodeState } from "../node/nodeState.ts";
import { claimRef, eventTarget, type Next, type NodeWrite } from "../node/nodeWrite.ts";
import type { SimNode } from "../node/simNode.ts";

export interface PreparedClaim {
  readonly claimUid: string;
  readonly namespace: string;
  readonly name: string;
  readonly state: "preparing" | "prepared" | "unpreparing";
  readonly sinceMs: number;
  /** Names of devices of this node's pool. */
  readonly devices: readonly string[];
  /**
   * UIDs of the pods it was prepared for: when the claim is deleted, a pod may reference a new claim of the same name.
   */
  readonly users: readonly string[];
}

export interface ClaimLifeOptions {
  readonly driver: string;
  readonly prepareMs: number;
  readonly unprepareMs: number;
}

const retryMs = 1000;

export const claimLifeDefaults = { driver: "gpu.nvidia.com", prepareMs: 50, unprepareMs: 50 };

export interface ClaimInput {
  /** Undefined when the API no longer has it. */
  readonly claim: ResourceClaim | undefined;
  /** The node's record, as returned by the previous step. */
  readonly prepared: PreparedClaim | undefined;
  /** Everything else that this node has prepared or is preparing. */
  readonly others: readonly PreparedClaim[];
  /** Names of devices whose GPU a pod of the node has from the device plugin, with the pod. */
  readonly plugged?: ReadonlyMap<string, string>;
  /** Pods of this node whose containers may use the claim: not finished, and not removed from the node. */
  readonly users: readonly Pod[];
  readonly sim: SimNode;
  readonly state: NodeState;
  readonly faults: readonly Fault[];
  readonly options: ClaimLifeOptions;
  readonly nowMs: number;
}

export interface ClaimNext extends Next<ResourceClaim> {
  readonly prepared: PreparedClaim | undefined;
}

export function nextForClaim(input: ClaimInput): ClaimNext {
  const { prepared, state, nowMs, options } = input;
  if (!state.alive) return { prepared, writes: [], wakeAtMs: state.nextMs };
  const claim = input.claim;
  const isSame = prepared === undefined || claim?.metadata.uid === prepared.claimUid;
  const mine = isSame ? resultsHere(claim, input) : [];
  const users = input.users.filter((pod) => claim !== undefined && isReservedFor(claim, pod));
  const isWanted = isSame && mine.length > 0 && users.length > 0;
  switch (prepared?.state) {
    case undefined:
      if (claim === undefined || !isWanted) return { prepared: undefined, writes: [], wakeAtMs: undefined };
      return beginPrepare(input, claim, mine);
    case "preparing": {
      if (claim === undefined || !isWanted) return beginUnprepare(input, prepared);
      const failing = podFaults(input, ["prepare-failure"], users);
      if (failing.length > 0) return refuse(input, claim, "PrepareFailed", "the driver could not prepare the device");
      const doneMs = prepared.sinceMs + options.prepareMs;
      if (nowMs < doneMs) return { prepared, writes: [], wakeAtMs: doneMs };
      // The node writes to the claim before it uses it: if the claim was deallocated meanwhile, that write conflicts,
      // and the containers have not started.
      const writes = statusWrites(input, claim, mine);
      if (writes.length > 0) return { prepared, writes, wakeAtMs: nowMs + retryMs };
      return { prepared: { ...prepared, state: "prepared", sinceMs: nowMs }, writes: [], wakeAtMs: state.nextMs };
    }
    case "prepared":
      // The consumers are taken from the node and not from the claim: a reservation may be removed while a container
      // still runs.
      if (usersOfPrepared(input, prepared).length === 0) return beginUnprepare(input, prepared);
      return {
        prepared: withUsers(prepared, users),
        writes: claim !== undefined && isWanted ? statusWrites(input, claim, mine) : [],
        wakeAtMs: state.nextMs,
      };
    case "unpreparing": {
      const slow = podFaults(input, ["slow-release"], []);
      const extraMs = slow[0] === undefined ? 0 : numberParam(slow[0], "delay");
      const doneMs = prepared.sinceMs + options.unprepareMs + extraMs;
      if (nowMs < doneMs) return { prepared, writes: [], wakeAtMs: doneMs };
      const writes = claim !== undefined && isSame ? withdrawWrites(input, claim) : [];
      return { prepared: undefined, writes, wakeAtMs: isSame ? undefined : nowMs };
    }
  }
}

/** Once the claim is deleted or replaced, its name identifies nothing. */
function usersOfPrepared({ claim, users }: ClaimInput, prepared: PreparedClaim): readonly Pod[] {
  if (claim?.metadata.uid === prepared.claimUid) return users;
  return users.filter(({ metadata }) => prepared.users.includes(metadata.uid));
}

/** A claim may be shared: later pods are consumers too. */
function withUsers(prepared: PreparedClaim, users: readonly Pod[]): PreparedClaim {
  const more = users.map(({ metadata }) => metadata.uid).filter((uid) => !prepared.users.includes(uid));
  return more.length === 0 ? prepared : { ...prepared, users: [...prepared.users, ...more] };
}

function beginPrepare(
  input: ClaimInput,
  claim: ResourceClaim,
  mine: readonly DeviceRequestAllocationResult[],
): ClaimNext {
  const devices = mine.map(({ device }) => device);
  const busy = input.others.find(
    (other) => !isShared(claim, other) && other.devices.some((device) => devices.includes(device)),
  );
  // Polling is enough: the write of the claim that holds the device enqueues the node.
  if (busy !== undefined && mine.every(({ adminAccess, shareID }) => adminAccess !== true && shareID === undefined)) {
    return refuse(input, claim, "DeviceInUse", `the device is still prepared for claim ${busy.namespace}/${busy.name}`);
  }
  const plugged = mine.find(({ device, adminAccess }) => adminAccess !== true && input.plugged?.has(device) === true);
  if (plugged !== undefined) {
    const pod = input.plugged?.get(plugged.device);
    return refuse(input, claim, "DeviceInUse", `pod ${pod} has the GPU from the device plugin`);
  }
  const { uid, name, namespace = "" } = claim.metadata;
  const users = input.users.filter((pod) => isReservedFor(claim, pod)).map(({ metadata }) => metadata.uid);
  const prepared: PreparedClaim = {
    claimUid: uid,
    namespace,
    name,
    state: "preparing",
    sinceMs: input.nowMs,
    devices,
    users,
  };
  if (input.options.prepareMs > 0) return { prepared, writes: [], wakeAtMs: input.nowMs + input.options.prepareMs };
  return nextForClaim({ ...input, prepared });
}

function isShared(claim: ResourceClaim, other: PreparedClaim): boolean {
  return other.claimUid === claim.metadata.uid;
}

/** The claim's status has the reason, and the pod waits in ContainerCreating. */
function refuse(input: ClaimInput, claim: ResourceClaim, reason: string, message: string): ClaimNext {
  const before = claim.status?.devices ?? [];
  const devices = deviceStatuses(input, claim, resultsHere(claim, input), { status: "False", reason, message });
  const writes: NodeWrite<ResourceClaim>[] = [];
  if (!equalFields(devices, before)) {
    writes.push(statusWrite(claim, devices));
    writes.push({
      kind: "event",
      regarding: eventTarget(claim),
      type: "Warning",
      reason: "FailedPrepareDynamicResources",
      message,
    });
  }
  return { prepared: undefined, writes, wakeAtMs: input.nowMs + retryMs };
}

function beginUnprepare(input: ClaimInput, prepared: PreparedClaim): ClaimNext {
  const next: PreparedClaim = { ...prepared, state: "unpreparing", sinceMs: input.nowMs };
  return nextForClaim({ ...input, prepared: next });
}

/** The devices of this driver and node that the claim has. */
function resultsHere(claim: ResourceClaim | undefined, { sim, options }: ClaimInput): DeviceRequestAllocationResult[] {
  const results = claim?.status?.allocation?.devices?.results ?? [];
  return results.filter(({ driver, pool }) => driver === options.driver && pool === sim.name);
}

/** Reserved for the pod or for its group. */
function isReservedFor(claim: ResourceClaim, { metadata, spec }: Pod): boolean {
  const group = spec?.schedulingGroup?.podGroupName;
  return (
    claim.status?.reservedFor?.some(
      ({ uid, resource, name }) => uid === metadata.uid || (resource === "podgroups" && name === group),
    ) === true
  );
}

function podFaults(input: ClaimInput, kinds: Parameters<typeof podFaultsAt>[1], users: readonly Pod[]): Fault[] {
  const about = { node: input.sim.name, nowMs: input.nowMs };
  const pods = users.length > 0 ? users.map(({ metadata }) => metadata) : [{ name: "" }];
  return pods.flatMap((pod) => podFaultsAt(input.faults, kinds, { ...about, pod }));
}

/** Prepared devices are Ready unless their GPU is unhealthy. */
function statusWrites(
  input: ClaimInput,
  claim: ResourceClaim,
  mine: readonly DeviceRequestAllocationResult[],
): NodeWrite<ResourceClaim>[] {
  const devices = deviceStatuses(input, claim, mine, {
    status: "True",
    reason: "Prepared",
    message: "the device is prepared",
  });
  return equalFields(devices, claim.status?.devices ?? []) ? [] : [statusWrite(claim, devices)];
}

function deviceStatuses(
  input: ClaimInput,
  claim: ResourceClaim,
  mine: readonly DeviceRequestAllocationResult[],
  ready: Pick<Condition, "status" | "reason" | "message">,
): AllocatedDeviceStatus[] {
  const before = claim.status?.devices ?? [];
  const others = before.filter(({ driver, pool }) => driver !== input.options.driver || pool !== input.sim.name);
  const own = mine.map(({ driver, pool, device, shareID }): AllocatedDeviceStatus => {
    const known = before.find((each) => each.driver === driver && each.pool === pool && each.device === device);
    const fault = input.state.gpuFaults.find(({ device: index }) => belongsTo(device, index, input.sim));
    const wanted = fault === undefined ? ready : { status: "False", reason: "Unhealthy", message: fault.text };
    const last = known?.conditions?.find(({ type }) => type === "Ready");
    const isSame = last?.status === wanted.status;
    const lastTransitionTime = isSame ? last.lastTransitionTime : formatTime(input.nowMs);
    const condition: Condition = { type: "Ready", ...wanted, lastTransitionTime };
    return { driver, pool, device, ...(shareID === undefined ? {} : { shareID }), conditions: [condition] };
  });
  return [...others, ...own];
}

/** Device names begin with their GPU's index or UUID. */
function belongsTo(device: string, index: number, sim: SimNode): boolean {
  const uuid = sim.devices[index]?.uuid.toLowerCase() ?? "";
  return [`gpu-${index}`, uuid].some((name) => device === name || device.startsWith(`${name}-mig-`));
}

function withdrawWrites(input: ClaimInput, claim: ResourceClaim): NodeWrite<ResourceClaim>[] {
  const before = claim.status?.devices ?? [];
  const rest = before.filter(({ driver, pool }) => driver !== input.options.driver || pool !== input.sim.name);
  return rest.length === before.length ? [] : [statusWrite(claim, rest)];
}

function statusWrite(claim: ResourceClaim, devices: AllocatedDeviceStatus[]): NodeWrite<ResourceClaim> {
  const { devices: _before, ...rest } = claim.status ?? {};
  const status = devices.length > 0 ? { ...rest, devices } : rest;
  return { kind: "update", ref: claimRef(claim.metadata, "status"), object: { ...claim, status } };
}

/** Names of the claims that a pod waits for; undefined while one of them has not been created yet. */
export function claimNamesOf(pod: Pod): string[] | undefined {
  const names: string[] = [];
  for (const { name, resourceClaimName } of pod.spec?.resourceClaims ?? []) {
    if (resourceClaimName !== undefined) {
      names.push(resourceClaimName);
      continue;
    }
    const made = pod.status?.resourceClaimStatuses?.find((each) => each.name === name);
    if (made === undefined) return undefined;
    // A template that needs no claim is recorded without a name.
    if (made.resourceClaimName !== undefined) names.push(made.resourceClaimName);
  }
  const extended = pod.status?.extendedResourceClaimStatus?.resourceClaimName;
  return extended === undefined ? names : [...names, extended];
}

/** Names of the devices of one container: those prepared here for the claims that it references. */
export function devicesByClaim(pod: Pod, container: string, prepared: Iterable<PreparedClaim>): string[] {
  const { metadata, spec, status } = pod;
  const asks = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].find(({ name }) => name === container);
  const names = new Set<string>();
  for (const { name } of asks?.resources?.claims ?? []) {
    const given = spec?.resourceClaims?.find((each) => each.name === name)?.resourceClaimName;
    const made = status?.resourceClaimStatuses?.find((each) => each.name === name)?.resourceClaimName;
    names.add(given ?? made ?? "");
  }
  const extended = status?.extendedResourceClaimStatus;
  if (extended?.requestMappings.some(({ containerName }) => containerName === container) === true) {
    names.add(extended.resourceClaimName);
  }
  return [...prepared]
    .filter(({ state, namespace, name }) => state === "prepared" && namespace === metadata.namespace && names.has(name))
    .flatMap(({ devices }) => devices);
}

/** Whether containers of the pod may use the claim: it references the claim and has not finished. */
export function mayUse(pod: Pod, claim: { readonly namespace: string; readonly name: string }): boolean {
  const phase = pod.status?.phase;
  if (phase === "Succeeded" || phase === "Failed" || (pod.metadata.namespace ?? "") !== claim.namespace) return false;
  return hasClaims(pod) && (claimNamesOf(pod)?.includes(claim.name) ?? false);
}

export function hasClaims(pod: Pod): boolean {
  return (pod.spec?.resourceClaims ?? []).length > 0 || pod.status?.extendedResourceClaimStatus !== undefined;
}

/** The nodes whose devices the claim has: pools are named after nodes. */
export function nodesOfClaim(claim: ResourceClaim, driver: string): string[] {
  const results = claim.status?.allocation?.devices?.results ?? [];
  return [...new Set(results.filter((each) => each.driver === driver).map(({ pool }) => pool))];
}

/**
 * Restores what was prepared before a restart: the claim's status records it, and counts while a pod on this node may
 * still use it.
 */
export function rememberPrepared(
  claim: ResourceClaim,
  users: readonly Pod[],
  node: { readonly name: string; readonly driver: string },
): PreparedClaim | undefined {
  const ours = (claim.status?.devices ?? []).filter(
    ({ driver, pool, conditions }) =>
      driver === node.driver &&
      pool === node.name &&
      conditions?.some(({ type, reason }) => type === "Ready" && (reason === "Prepared" || reason === "Unhealthy")),
  );
  if (ours.length === 0) return undefined;
  const { uid, name, namespace = "" } = claim.metadata;
  const state = users.length > 0 ? "prepared" : "unpreparing";
  const devices = ours.map(({ device }) => device);
  return { claimUid: uid, namespace, name, state, sinceMs: 0, devices, users: users.map((pod) => pod.metadata.uid) };
}

/** Whether all claims of the pod are allocated, reserved for it and prepared here. */
export function claimsPrepared(
  pod: Pod,
  lookUp: (namespace: string, name: string) => ResourceClaim | undefined,
  preparedByUid: ReadonlyMap<string, PreparedClaim>,
  node: { readonly name: string; readonly driver: string },
): boolean {
  const names = claimNamesOf(pod);
  if (names === undefined) return false;
  return names.every((name) => {
    const claim = lookUp(pod.metadata.namespace ?? "", name);
    if (claim?.status?.allocation === undefined || !isReservedFor(claim, pod)) return false;
    const results = claim.status.allocation.devices?.results ?? [];
    const isOurs = results.some(({ driver, pool }) => driver === node.driver && pool === node.name);
    return !isOurs || preparedByUid.get(claim.metadata.uid)?.state === "prepared";
  });
}

/** Devices that are still prepared on the node for a claim that no longer has them in the API, and since when. */
export function unreleasedDevices(
  prepared: Iterable<PreparedClaim>,
  claimByUid: (uid: string) => ResourceClaim | undefined,
  node: { readonly name: string; readonly driver: string },
): Map<string, number> {
  const unreleased = new Map<string, number>();
  for (const { claimUid, devices, sinceMs } of prepared) {
    const results = claimByUid(claimUid)?.status?.allocation?.devices?.results ?? [];
    for (const device of devices) {
      const owns = results.some(
        (each) => each.driver === node.driver && each.pool === node.name && each.device === device,
      );
      if (!owns) unreleased.set(device, sinceMs);
    }
  }
  return unreleased;
}

/**
 * DRA: the devices that a pod uses are allocated to it, exist, are on the pod's node, and are not allocated beyond
 * their capacity.
 */
import type {
  Device,
  DeviceRequestAllocationResult,
  Node,
  Pod,
  ResourceClaim,
  ResourceSlice,
} from "../../../model/kubernetes.generated.ts";
import { matchesNode } from "../../../model/objects/nodeMatch.ts";
import { nanoOf } from "../../../model/objects/podRequests.ts";
import { type Check, type Evidence, notApplicable, passOrFail } from "../check.ts";
import { claimOfPod, claimsByKey } from "../claims.ts";
import { type ClusterSnapshot, isServed, objectsOf } from "../clusterSnapshot.ts";
import { placementOf, podName } from "../placement.ts";

export const claimsAllocated: Check = {
  id: "S6",
  title: "claims of bound pods are allocated, reserved, on the pod's node, and no device is over-committed",
  byDefault: true,
  settles: true,
  needs: ["pods", "nodes", "resourceclaims", "resourceslices"],
  run: ({ snapshot }) => {
    if (!isServed(snapshot, "resourceclaims") || !isServed(snapshot, "resourceslices")) {
      return notApplicable("resource.k8s.io is not served");
    }
    const evidence = [...claimsNotHeld(snapshot), ...devicesOvercommitted(snapshot)];
    const claims = objectsOf(snapshot, "resourceclaims").length;
    return passOrFail(evidence, `${claims} claims on ${newestDevices(snapshot).size} devices`);
  },
};

/** Bound pods whose claims are not allocated to them, or not with devices of their node. */
export function claimsNotHeld(snapshot: ClusterSnapshot): Evidence[] {
  const devices = newestDevices(snapshot);
  return placementOf(snapshot).live.flatMap((pod) =>
    (pod.spec?.resourceClaims ?? []).length === 0 ? [] : problemsOfPod(snapshot, pod, devices),
  );
}

interface KnownDevice {
  readonly device: Device;
  readonly slice: ResourceSlice;
  readonly pool: string;
}

function deviceKey(at: { readonly driver: string; readonly pool: string; readonly device: string }): string {
  return `${at.driver}/${at.pool}/${at.device}`;
}

const cache = new WeakMap<ClusterSnapshot, ReadonlyMap<string, KnownDevice>>();

/** Only the newest generation of a pool counts: slices of an older generation are obsolete. */
export function newestDevices(snapshot: ClusterSnapshot): ReadonlyMap<string, KnownDevice> {
  const cached = cache.get(snapshot);
  if (cached !== undefined) return cached;
  const slices = objectsOf<ResourceSlice>(snapshot, "resourceslices");
  const newest = new Map<string, number>();
  for (const { spec } of slices) {
    const pool = `${spec.driver}/${spec.pool.name}`;
    newest.set(pool, Math.max(newest.get(pool) ?? 0, spec.pool.generation));
  }
  const devices = new Map<string, KnownDevice>();
  for (const slice of slices) {
    const { driver, pool } = slice.spec;
    if (newest.get(`${driver}/${pool.name}`) !== pool.generation) continue;
    for (const device of slice.spec.devices ?? []) {
      const key = deviceKey({ driver, pool: pool.name, device: device.name });
      devices.set(key, { device, slice, pool: `${driver}/${pool.name}` });
    }
  }
  cache.set(snapshot, devices);
  return devices;
}

function problemsOfPod(snapshot: ClusterSnapshot, pod: Pod, devices: ReadonlyMap<string, KnownDevice>): Evidence[] {
  const node = placementOf(snapshot).nodes.get(pod.spec?.nodeName ?? "");
  const object = podName(pod);
  return (pod.spec?.resourceClaims ?? []).flatMap((entry) => {
    const named = claimOfPod(pod, entry);
    if (named.type === "none") return [];
    if (named.type === "not made") {
      return [
        {
          object,
          problem: `bound without a ResourceClaim for ${entry.name}: status.resourceClaimStatuses has none for its template`,
        },
      ];
    }
    const claim = claimsByKey(snapshot).get(`${pod.metadata.namespace ?? ""}/${named.name}`);
    if (claim === undefined) return [{ object, problem: `its claim ${named.name} does not exist` }];
    return problemsOfClaim(pod, claim, node, devices).map((problem) => ({
      object,
      problem: `its claim ${named.name} ${problem}`,
    }));
  });
}

function problemsOfClaim(
  pod: Pod,
  claim: ResourceClaim,
  node: Node | undefined,
  devices: ReadonlyMap<string, KnownDevice>,
): string[] {
  const { allocation, reservedFor = [] } = claim.status ?? {};
  if (allocation === undefined) return ["is not allocated"];
  const problems: string[] = [];
  if (!reservedFor.some(({ uid }) => uid === pod.metadata.uid)) problems.push("is not reserved for it");
  const { nodeSelector } = allocation;
  if (nodeSelector !== undefined && node !== undefined) {
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: nodeSelector } };
    if (!matchesNode({ containers: [], affinity }, node)) problems.push(`is not usable on node ${node.metadata.name}`);
  }
  for (const result of allocation.devices?.results ?? []) {
    const found = devices.get(deviceKey(result));
    if (found === undefined) {
      problems.push(`has device ${deviceKey(result)}, which the newest generation of its pool does not have`);
      continue;
    }
    const deviceNode = found.device.nodeName ?? found.slice.spec.nodeName ?? "";
    if (deviceNode !== "" && deviceNode !== pod.spec?.nodeName) {
      problems.push(`has device ${deviceKey(result)} of node ${deviceNode}, but the pod is on ${pod.spec?.nodeName}`);
    }
  }
  return problems;
}

/** Devices, capacities and counters that are allocated beyond what there is, whether or not a pod uses them now. */
export function devicesOvercommitted(snapshot: ClusterSnapshot): Evidence[] {
  const devices = newestDevices(snapshot);
  const holders = new Map<string, { claim: string; result: DeviceRequestAllocationResult }[]>();
  for (const claim of objectsOf<ResourceClaim>(snapshot, "resourceclaims")) {
    for (const result of claim.status?.allocation?.devices?.results ?? []) {
      if (result.adminAccess === true) continue;
      const key = deviceKey(result);
      const holder = { claim: `${claim.metadata.namespace}/${claim.metadata.name}`, result };
      holders.set(key, [...(holders.get(key) ?? []), holder]);
    }
  }
  const evidence: Evidence[] = [];
  const consumed = new Map<string, bigint>();
  for (const [key, held] of [...holders].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const found = devices.get(key);
    if (found === undefined) continue;
    const { device } = found;
    if (device.allowMultipleAllocations !== true) {
      if (held.length > 1) {
        const claims = held.map(({ claim }) => claim).join(", ");
        evidence.push({ object: `devices/${key}`, problem: `allocated ${held.length} times: ${claims}` });
      }
    } else evidence.push(...overcommittedDevice(key, device, held));
    for (const { counterSet, counters } of device.consumesCounters ?? []) {
      for (const [counter, { value }] of Object.entries(counters)) {
        const name = `${found.pool}/${counterSet}/${counter}`;
        consumed.set(name, (consumed.get(name) ?? 0n) + nanoOf(value));
      }
    }
  }
  return [...evidence, ...overcommittedCounters(snapshot, consumed)];
}

function overcommittedDevice(
  key: string,
  device: Device,
  held: readonly { readonly claim: string; readonly result: DeviceRequestAllocationResult }[],
): Evidence[] {
  return Object.entries(device.capacity ?? {}).flatMap(([name, { value }]) => {
    const used = held.reduce((sum, { result }) => sum + nanoOf(result.consumedCapacity?.[name] ?? "0"), 0n);
    if (used <= nanoOf(value)) return [];
    const claims = held.map(({ claim }) => claim).join(", ");
    return [
      { object: `devices/${key}`, problem: `more ${name} is allocated than its capacity of ${value}: ${claims}` },
    ];
  });
}

function overcommittedCounters(snapshot: ClusterSnapshot, consumed: ReadonlyMap<string, bigint>): Evidence[] {
  if (consumed.size === 0) return [];
  const budgets = new Map<string, { nano: bigint; generation: number; value: string }>();
  for (const { spec } of objectsOf<ResourceSlice>(snapshot, "resourceslices")) {
    const { driver, pool } = spec;
    for (const { name, counters } of spec.sharedCounters ?? []) {
      for (const [counter, { value }] of Object.entries(counters)) {
        const key = `${driver}/${pool.name}/${name}/${counter}`;
        if ((budgets.get(key)?.generation ?? -1) >= pool.generation) continue;
        budgets.set(key, { nano: nanoOf(value), generation: pool.generation, value });
      }
    }
  }
  return [...consumed].flatMap(([key, used]) => {
    const budget = budgets.get(key);
    if (budget === undefined || used <= budget.nano) return [];
    return [{ object: `counters/${key}`, problem: `allocated devices consume more than its ${budget.value}` }];
  });
}

/**
 * Nodes, pods and claims of one cluster, read together. All availability numbers of a run are counted from this
 * snapshot.
 */
import type { Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { claimedDevices } from "./podUse.ts";

export interface InventorySnapshot {
  readonly nodes: readonly Node[];
  /** May include pods that the scheduler has placed and not bound yet, with `nodeName` set. */
  readonly pods: readonly Pod[];
  readonly devicesByPod: ReadonlyMap<string, readonly string[]>;
  readonly devicesByNode: ReadonlyMap<string, number>;
  /** The resourceVersion of each list: `nodes=12 pods=15`. */
  readonly revision: string;
}

export interface ClusterLists {
  readonly nodes: readonly Node[];
  readonly pods: readonly Pod[];
  readonly claims: readonly ResourceClaim[];
  readonly slices: readonly ResourceSlice[];
  readonly revision: string;
}

export function inventorySnapshot(
  lists: ClusterLists,
  drivers: readonly string[] = ["gpu.nvidia.com"],
): InventorySnapshot {
  // A claim that the scheduler created for an extended resource is counted by the pod's request already.
  const forExtendedResource = new Set<string>();
  for (const { metadata, status } of lists.pods) {
    const claim = status?.extendedResourceClaimStatus?.resourceClaimName;
    if (claim !== undefined) forExtendedResource.add(`${metadata.namespace}/${claim}`);
  }
  const claims = lists.claims.filter(
    ({ metadata }) => !forExtendedResource.has(`${metadata.namespace}/${metadata.name}`),
  );
  const devicesByNode = new Map<string, number>();
  const newest = new Map<string, number>();
  for (const { spec } of lists.slices) {
    const pool = `${spec.driver}/${spec.pool.name}`;
    newest.set(pool, Math.max(newest.get(pool) ?? 0, spec.pool.generation));
  }
  for (const { spec } of lists.slices) {
    const { driver, nodeName, pool, devices = [] } = spec;
    if (nodeName === undefined || !drivers.includes(driver)) continue;
    // Slices of an older generation of their pool are obsolete.
    if (pool.generation !== newest.get(`${driver}/${pool.name}`)) continue;
    devicesByNode.set(nodeName, (devicesByNode.get(nodeName) ?? 0) + devices.length);
  }
  return {
    nodes: lists.nodes,
    pods: lists.pods,
    devicesByPod: claimedDevices(claims, drivers),
    devicesByNode,
    revision: lists.revision,
  };
}

/**
 * Nodes, pods and claims of one cluster, read together: every number of a run is counted from this and from nothing
 * else.
 */
import type { Node, Pod, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { claimedDevices } from "./podUse.ts";

export interface InventorySnapshot {
  readonly nodes: readonly Node[];
  /** Those that the scheduler has placed and not yet bound may be among them, with their node filled in. */
  readonly pods: readonly Pod[];
  readonly devicesByPod: ReadonlyMap<string, readonly string[]>;
  readonly devicesByNode: ReadonlyMap<string, number>;
  /** What the lists were true at: `nodes=12 pods=15`. */
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
  // A claim that the scheduler made to answer a pod's plain request is in that request already.
  const answered = new Set<string>();
  for (const { metadata, status } of lists.pods) {
    const claim = status?.extendedResourceClaimStatus?.resourceClaimName;
    if (claim !== undefined) answered.add(`${metadata.namespace}/${claim}`);
  }
  const claims = lists.claims.filter(({ metadata }) => !answered.has(`${metadata.namespace}/${metadata.name}`));
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
